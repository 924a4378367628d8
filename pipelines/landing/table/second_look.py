"""Is a file damaged, or did we fail at it? Asked before anybody is told to give up what is in it.

Story: a filter names a map column, PyIceberg raises, and the file it was reading is called destroyed,
with a cure that drops an hour of good rows. An exception says that something went wrong while a file was
read, never that the file did it. So the file is read again, whole, by another reader, that knows nothing
of filters, columns and schemas: Parquet with its footer, its pages and all its rows; manifests by Iceberg's
Rust library; metadata as plain JSON. Only what that reader cannot read either is damaged.
"""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from pipelines.landing.table.bounded_scan import rows_counted

_FIELD_ID = b"PARQUET:field_id"
_LIST_PREFIX = "snap-"
_READ_MANIFEST = """import sys
from pyiceberg_core import manifest
from sls_io.values.errors import amount
content = sys.stdin.buffer.read()
try:
    manifest.read_manifest_{kind}(content)
except BaseException:
    sys.exit({failed})
"""
_FAILED = 3, -signal.SIGABRT
"""How that ends where the bytes are no manifest. After any other end, as a kill for memory, nobody knows
whether they are the cause."""
_SECONDS_MAX = 60
_verdicts: dict[tuple[str, bytes], bool] = {}
"""Kind and digest of what was asked about -> whether that library reads it."""


class Undecided(Exception):
    """The other reader could not be asked, so nobody knows whether a file is damaged."""


def data_file(io: FileIO, path: str, *, rows: int | None = None, ids: Collection[int] = ()) -> str:
    """What is wrong with a Parquet file of `rows` rows and columns with these field ids, where they are
    known; "" when it is whole. Raises what the storage raises.

    By another way through the same library: all values are read and spelled out, and rows and field ids are
    held against what the table says.
    """
    with io.new_input(path).open() as stream:
        try:
            columns, found = pq.read_schema(stream), rows_counted(stream)
        except (pa.ArrowException, ValueError, EOFError) as error:
            return type(error).__name__
        there = {
            int(field.metadata[_FIELD_ID])
            for field in columns
            if field.metadata and _FIELD_ID in field.metadata
        }
    if rows is not None and found != rows:
        return f"it holds {found} rows, the table says {rows}"
    # Files that came by a name mapping have no ids at all.
    return "it is another file: columns of this table are not in it" if there and set(ids) - there else ""


def manifest(io: FileIO, path: str) -> str:
    """What is wrong with a manifest or manifest list; "" when it is whole. Raises what the storage raises.

    The same bytes are asked about once: a proof meets a damaged manifest some ten times.
    """
    with io.new_input(path).open() as stream:
        content = stream.read()
    kind = "list" if path.rsplit("/", 1)[-1].startswith(_LIST_PREFIX) else "entries"
    known = kind, hashlib.sha256(content).digest()
    if known not in _verdicts:
        _verdicts[known] = _is_manifest(kind, content)
    return "" if _verdicts[known] else "another reader fails at it, too"


def _is_manifest(kind: str, content: bytes) -> bool:
    """In a process of its own: of bytes that are no manifest that library panics. Its trace, which would take
    longer than all the rest, is turned off."""
    try:
        read = subprocess.run(
            [sys.executable, "-c", _READ_MANIFEST.format(kind=kind, failed=_FAILED[0])],
            input=content,
            capture_output=True,
            check=False,
            timeout=_SECONDS_MAX,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Undecided(type(error).__name__) from error
    if read.returncode not in (0, *_FAILED):
        raise Undecided(f"the other reader ended with {read.returncode}")
    return read.returncode == 0


def metadata(io: FileIO, path: str) -> str:
    """What is wrong with a metadata file; "" when it is the JSON of a table. Raises as `manifest`.

    As plain JSON and by its two fields that never change, so that a later format is called whole, not
    damaged.
    """
    with io.new_input(path).open() as stream:
        content = stream.read()
    try:
        found = json.loads(gzip.decompress(content) if path.endswith(".gz.metadata.json") else content)
    except (ValueError, EOFError, gzip.BadGzipFile, RecursionError) as error:
        return type(error).__name__
    whole = isinstance(found, dict) and {"format-version", "table-uuid"} <= found.keys()
    return "" if whole else "it is no metadata of a table"
