"""Rows read again from what they keep themselves: nothing is pulled, identities stay.

    FromBytes   rows with an error, from the log's own bytes in `__raw__`
    FromRest    the others, from their texts (`rest.py`)

Both answer rows as today's contract says. What is not part of a log's bytes stays as it is: topic, source and
tags of its group, causes that are about those, and columns that the contract does not own, since another
engine may have filled them. Bytes that are no log (a whole LogGroup that cannot be taken apart, or a log that
cannot be read) stay, too, unless a key that is declared `drop` or `hash` by now may be in them.

Why the rows are decoded as a landing decodes a page, and not mended cell by cell: each rule of a contract (a
repeated key, a value that does not fit, a digest) would be there twice, and the two would come apart. So the
kept bytes are put into a page of their own, one log a LogGroup, and the decoder of landings reads it. What
it says of cursors, groups and hours is of that page; so those columns are taken from the old row again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, NotNull
from pyiceberg.schema import Schema

from pipelines.landing.table.contract import Contract, arrow_schema
from pipelines.landing.transform import Transform
from sls_io.decoding import causes
from sls_io.decoding.causes import KEYS_MAX, SEPARATOR, Cause, HeadShown
from sls_io.decoding.decode import Decoder
from sls_io.decoding.nested import guarded, plain_log
from sls_io.decoding.pairs import Declared
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.page import Page

_KEPT = (
    "__origin__",
    "__shard__",
    "__cursor__",
    "__index__",
    "__receive_hour__",
    "__topic__",
    "__source__",
    "__tags__",
)
_BODY_BYTES = 16 * 1024 * 1024


@dataclass
class RereadRows:
    """Rows after they were read again.

    rows     of those that were looked at, the ones that this is about
    mended   of them those with which all is well now; `changed` counts those, too, with which it is not
    left     cause -> rows that still have it
    """

    batch: pa.RecordBatch
    rows: int = 0
    mended: int = 0
    changed: int = 0
    left: dict[str, int] = field(default_factory=dict)


class RowReader(Protocol):
    """`about` says which rows of a table to read for it, `chosen` which of a batch it looks at."""

    about: BooleanExpression

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows it looks at."""
        ...

    def again(self, batch: pa.RecordBatch) -> RereadRows:
        """Rows that are all `chosen`, read again, in their order."""
        ...


def mended(reader: RowReader, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with each row that `reader` is about read again, in the same order.

    Worked example: of rows 1, 2, 3, 4 the second and the fourth are chosen and become 20 and 40. Behind one
    another they are 1, 2, 3, 4, 20, 40, and the places 0, 4, 2, 5 of these are taken: 1, 20, 3, 40. Order is
    kept because a file whose rows rise is proven to have none twice without holding them (`stretches.py`).
    """
    chosen = reader.chosen(batch)
    if not pc.any(chosen).as_py():
        return batch
    after = reader.again(batch.filter(chosen)).batch
    places = pc.add(pc.cumulative_sum(chosen.cast(pa.int64())), batch.num_rows - 1)
    rows = pa.array(range(batch.num_rows), pa.int64())
    both = pa.Table.from_batches([batch, after]).combine_chunks()
    return both.take(pc.if_else(chosen, places, rows)).combine_chunks().to_batches()[0]


def kept_bytes(raw: bytes | None, error: str | None, pii: Mapping[bytes, str]) -> tuple[bytes | None, str]:
    """(`__raw__`, `__error__`) of a row that had these, as they may be kept while the keys of `pii` are
    declared `drop` or `hash`. Where the bytes cannot be read, nobody can take one key out of them: they go
    as a whole, and the error says that they were withheld."""
    told = error or ""
    if raw is None:
        return None, told
    kept, whole = guarded(raw, pii, readable=is_log(raw, told), again=True)
    return (kept, told) if whole else (None, SEPARATOR.join(filter(None, (told, Cause.WITHHELD))))


def replaced(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """`batch` with other values in some columns."""
    after = [columns[f.name] if f.name in columns else batch.column(f.name) for f in batch.schema]
    return pa.RecordBatch.from_arrays(after, schema=batch.schema)


class FromBytes:
    """`__raw__` -> rows, with one contract, one schema and one transform."""

    about: BooleanExpression = NotNull(term="__error__")

    def __init__(self, contract: Contract, origin: str, schema: Schema, transform: Transform) -> None:
        self._transform = transform
        declared = contract.declared
        self._pii = contract.pii
        # Their values are digests by the time they are decoded, so they are taken as they are.
        self._decoder = Decoder(origin, [_unhashed(d) for d in declared], arrow_schema(schema))
        self._others = contract.others(schema)

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.is_valid(batch.column("__error__"))

    def again(self, batch: pa.RecordBatch) -> RereadRows:
        parts = [self._part(part) for part in _parts(batch)]
        after = pa.Table.from_batches(parts, batch.schema).combine_chunks().to_batches()[0]
        errors = after.column("__error__")
        return RereadRows(
            after,
            rows=batch.num_rows,
            mended=errors.null_count,
            changed=_differing(batch, after),
            left=dict(Counter(errors.drop_null().to_pylist())),
        )

    def _part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raws, errors = (batch.column(name).to_pylist() for name in ("__raw__", "__error__"))
        logs = [kept_bytes(raw, error, self._pii) for raw, error in zip(raws, errors, strict=True)]
        if not all(map(is_log, raws, errors)):
            return replaced(batch, bytes_columns(logs))
        body = b"".join(loggroup.frame(loggroup.frame(log or b"")) for log, _ in logs)
        count = len(logs)
        page = Page(0, Cursor(0), Cursor(count), count, len(body), "", body, None)
        decoded = self._decoder.decode(page, hour=0).batch
        own = decoded.column("__error__").to_pylist()
        told = [
            _told((*head.causes(old), new)) for head, old, new in zip(_heads(batch), errors, own, strict=True)
        ]
        columns = {name: batch.column(name) for name in _KEPT}
        columns.update(
            bytes_columns([(log if t else None, t) for (log, _), t in zip(logs, told, strict=True)])
        )
        read = self._transform.of(replaced(decoded, columns), batch.column("__shard__")[0].as_py())
        return replaced(read, {name: batch.column(name) for name in self._others})


def bytes_columns(rows: Iterable[tuple[bytes | None, str | None]]) -> dict[str, pa.Array]:
    """`__raw__` and `__error__` of rows; an error without a cause is none."""
    raws, errors = zip(*rows, strict=True)
    return {
        "__raw__": pa.array(raws, pa.binary()),
        "__error__": pa.array([error or None for error in errors], pa.string()),
    }


def _heads(batch: pa.RecordBatch) -> Iterator[HeadShown]:
    """What each row shows of its LogGroup, one at a time: each may have a group's tags."""
    topics, sources, tags = (batch.column(name) for name in ("__topic__", "__source__", "__tags__"))
    for row in range(batch.num_rows):
        names = [key for key, _ in tags[row].as_py() or ()]
        yield HeadShown(topics[row].as_py(), sources[row].as_py(), names)


def is_log(raw: bytes | None, error: str) -> bool:
    """Whether the kept bytes are one log that can be read."""
    if raw is None or not causes.holds_log(error):
        return False
    try:
        plain_log(raw, 0, len(raw), pairs_max=KEYS_MAX)
    except ValueError:
        return False
    return True


def _unhashed(declared: Declared) -> Declared:
    return replace(declared, pii="") if declared.pii == "hash" else declared


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices whose kept bytes fit a page; a row without the bytes of a log stands alone.

    `size` is -1 behind a row that stands alone, so that the next one begins a slice whatever it holds. A
    slice with such a row in it is not decoded (`_part`), and logs beside it would stay as they are.
    """
    begin = size = 0
    errors = batch.column("__error__")
    for row, scalar in enumerate(batch.column("__raw__")):
        raw = scalar.as_py()
        log = is_log(raw, errors[row].as_py())
        length = len(raw or b"")
        if row > begin and (not log or size + length > _BODY_BYTES or size < 0):
            yield batch.slice(begin, row - begin)
            begin, size = row, 0
        size = size + length if log else -1
    if begin < batch.num_rows:
        yield batch.slice(begin)


def _told(found: Iterable[str | None]) -> str:
    """Causes of the group, then those that the log's bytes have today."""
    return SEPARATOR.join(filter(None, found))


def _differing(before: pa.RecordBatch, after: pa.RecordBatch) -> int:
    """Rows that are not the same; by text, in which also NaN is what it was."""
    pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
    return sum(repr(old) != repr(new) for old, new in pairs)
