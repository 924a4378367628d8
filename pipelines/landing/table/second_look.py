"""Is a file damaged, or did we fail at it? Asked before anybody is told to give up what is in it.

Story: a filter names a map column, PyIceberg raises, and the file it was reading is called destroyed,
with a cure that drops an hour of good rows. An exception says that something went wrong while a file was
read, never that the file did it. So the file is read again, whole, by another reader, that knows nothing
of filters, columns and schemas: Parquet with its footer, its pages and all its rows; manifests by Iceberg's
Rust library; metadata as plain JSON. Only what that reader cannot read either is damaged.
"""

import gzip
import json
import subprocess
import sys
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from pipelines.landing.table.bounded_scan import rows_counted

_FIELD_ID = b"PARQUET:field_id"
_LIST_PREFIX = "snap-"
_READ_MANIFEST = (
    "import sys; from pyiceberg_core import manifest; manifest.read_manifest_{kind}(sys.stdin.buffer.read())"
)
_SECONDS_MAX = 60


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

    In a process of its own: of bytes that are no manifest that library panics, and writes a trace.
    """
    with io.new_input(path).open() as stream:
        content = stream.read()
    kind = "list" if path.rsplit("/", 1)[-1].startswith(_LIST_PREFIX) else "entries"
    try:
        read = subprocess.run(
            [sys.executable, "-c", _READ_MANIFEST.format(kind=kind)],
            input=content,
            capture_output=True,
            check=False,
            timeout=_SECONDS_MAX,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Undecided(type(error).__name__) from error
    return "" if read.returncode == 0 else "another reader fails at it, too"


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
