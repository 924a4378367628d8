"""Rows read again from what they keep themselves: nothing is pulled, identities stay.

    FromBytes   rows with an error, from the log's own bytes in `__raw__`
    FromRest    the others, from `__rest__`: the texts of keys that had no column when they landed

Both answer rows as today's contract says. What is not part of a log's bytes stays as it is: topic, source and
tags of its group, and causes that are about those. A value that was hashed when it landed is not hashed
again. Bytes that are no log (a whole LogGroup that cannot be taken apart, or a log that cannot be read) stay,
too, unless a key that is declared `drop` or `hash` by now may be in them.

Worked example of the second: a row landed as `n` = 7 and `__rest__` = {city: Rome, code: x7, mail: a@b}.
Now city is declared as string, code as int, mail as hash. The row becomes n = 7, city = Rome, mail = its
digest, `__rest__` = {code: x7}. No error: x7 is where it was, and the bytes that belong beside an error are
not there.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, IsNull, NotNull
from pyiceberg.schema import Schema

from pipelines.landing.table.contract import Contract, arrow_schema
from pipelines.landing.transform import Transform
from sls_io import loggroup
from sls_io.client import Page
from sls_io.decoding import causes
from sls_io.decoding.causes import KEYS_MAX, SEPARATOR, Cause
from sls_io.decoding.decode import Declared, Decoder, of_texts
from sls_io.decoding.nested import guarded, hashed_once, plain_log
from sls_io.decoding.texts import maps
from sls_io.window import Cursor

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
_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_BODY_BYTES = 16 * 1024 * 1024


@dataclass
class Again:
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


class Reader(Protocol):
    """`about` says which rows of a table to read for it, `chosen` which of a batch it looks at."""

    about: BooleanExpression

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        """Which rows it looks at."""
        ...

    def again(self, batch: pa.RecordBatch) -> Again:
        """Rows that are all `chosen`, read again, in their order."""
        ...


def mended(reader: Reader, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with each row that `reader` is about read again."""
    chosen = reader.chosen(batch)
    if not pc.any(chosen).as_py():
        return batch
    after = reader.again(batch.filter(chosen)).batch
    places = pc.add(pc.cumulative_sum(chosen.cast(pa.int64())), batch.num_rows - 1)
    rows = pa.array(range(batch.num_rows), pa.int64())
    both = pa.Table.from_batches([batch, after]).combine_chunks()
    return both.take(pc.if_else(chosen, places, rows)).combine_chunks().to_batches()[0]


class FromRest:
    """`__rest__` -> the columns of keys that are declared by now. Rows with an error are not looked at: their
    bytes say more than their texts."""

    # PyIceberg 0.12 cannot ask a file's rows for a map that is not null.
    about: BooleanExpression = IsNull(term="__error__")

    def __init__(self, contract: Contract) -> None:
        self._declared = contract.declared

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.and_(pc.is_null(batch.column("__error__")), pc.is_valid(batch.column("__rest__")))

    def again(self, batch: pa.RecordBatch) -> Again:
        rest = batch.column("__rest__").cast(_PAIRS)
        keys, items = rest.flatten().field("key"), rest.flatten().field("value")
        row_of = np.repeat(np.arange(batch.num_rows), pc.list_value_length(rest).fill_null(0).to_numpy())
        stays = np.ones(len(keys), dtype=np.bool_)
        about = np.zeros(batch.num_rows, dtype=np.bool_)
        changed, misfit = about.copy(), about.copy()
        columns: dict[str, pa.Array] = {}
        left: dict[str, int] = {}
        for one in self._declared:
            pairs = np.flatnonzero(pc.equal(keys, one.name).to_numpy(zero_copy_only=False))
            if not len(pairs):
                continue
            rows = row_of[pairs]
            about[rows] = True
            fits = np.ones(len(pairs), dtype=np.bool_)
            if one.pii != "drop":
                column = batch.column(one.name)
                values = of_texts(one, items.take(pa.array(pairs)))
                fits = values.is_valid().to_numpy(zero_copy_only=False)
                # A column with a value is right: what stands in `__rest__` beside it was put there by others.
                fits &= column.take(pa.array(rows)).is_null().to_numpy(zero_copy_only=False)
                of_row = np.full(batch.num_rows, -1, dtype=np.int64)
                of_row[rows[fits]] = np.flatnonzero(fits)
                found = values.take(pa.array(of_row, mask=of_row < 0))
                columns[one.name] = pc.coalesce(column, found)
            changed[rows[fits]] = True
            stays[pairs[fits]] = False
            if not fits.all():
                misfit[rows[~fits]] = True
                left[Cause.MISFIT.format(one.name, one.label)] = int((~fits).sum())
        if changed.any():
            offsets = np.zeros(batch.num_rows + 1, dtype=np.int64)
            np.cumsum(np.bincount(row_of[stays], minlength=batch.num_rows), out=offsets[1:])
            columns["__rest__"] = maps(offsets, keys.filter(pa.array(stays)), items.filter(pa.array(stays)))
        after = [columns.get(f.name, batch.column(f.name)) for f in batch.schema]
        return Again(
            pa.RecordBatch.from_arrays(after, schema=batch.schema),
            rows=int(about.sum()),
            mended=int((about & ~misfit).sum()),
            changed=int(changed.sum()),
            left=left,
        )


class FromBytes:
    """`__raw__` -> rows, with one contract, one schema and one transform."""

    about: BooleanExpression = NotNull(term="__error__")

    def __init__(self, contract: Contract, origin: str, schema: Schema, transform: Transform) -> None:
        self._transform = transform
        declared = contract.declared
        self._pii = {d.name.encode(): d.pii for d in declared if d.pii}
        self._hashed = frozenset(d.name.encode() for d in declared if d.pii == "hash")
        # Their values are digests by the time they are decoded, so they are taken as they are.
        self._decoder = Decoder(origin, [_unhashed(d) for d in declared], arrow_schema(schema))

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        return pc.is_valid(batch.column("__error__"))

    def again(self, batch: pa.RecordBatch) -> Again:
        parts = [self._part(part) for part in _parts(batch)]
        after = pa.Table.from_batches(parts, batch.schema).combine_chunks().to_batches()[0]
        errors = after.column("__error__")
        return Again(
            after,
            rows=batch.num_rows,
            mended=errors.null_count,
            changed=_differing(batch, after),
            left=dict(Counter(errors.drop_null().to_pylist())),
        )

    def _part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        raws = batch.column("__raw__").to_pylist()
        if not all(map(_is_log, raws, batch.column("__error__").to_pylist())):
            return self._guarded(batch)
        logs = [hashed_once(raw, self._hashed) if self._hashed else raw for raw in raws]
        body = b"".join(loggroup.frame(loggroup.frame(log)) for log in logs)
        count = len(logs)
        page = Page(0, Cursor(0), Cursor(count), count, len(body), "", body, None)
        decoded = self._decoder.decode(page, hour=0).batch
        columns = {name: batch.column(name) for name in _KEPT}
        both = zip(
            batch.column("__error__").to_pylist(), decoded.column("__error__").to_pylist(), strict=True
        )
        errors = [_cause(old, new) for old, new in both]
        kept = zip(errors, decoded.column("__raw__").to_pylist(), logs, strict=True)
        columns["__error__"] = pa.array(errors, pa.string())
        columns["__raw__"] = pa.array(
            [None if e is None else new or log for e, new, log in kept], pa.binary()
        )
        read = pa.RecordBatch.from_arrays(
            [columns[f.name] if f.name in columns else decoded.column(f.name) for f in batch.schema],
            schema=batch.schema,
        )
        return self._transform.of(read, batch.column("__shard__")[0].as_py())

    def _guarded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """One row whose bytes are no log; they go when personal data may be in them."""
        raw, error = batch.column("__raw__")[0].as_py(), batch.column("__error__")[0].as_py()
        if raw is None or not self._pii or guarded(raw, self._pii, readable=False)[1]:
            return batch
        gone = {"__raw__": pa.nulls(1, pa.binary())}
        gone["__error__"] = pa.array([f"{error}{SEPARATOR}{Cause.WITHHELD}"], pa.string())
        return pa.RecordBatch.from_arrays(
            [gone.get(f.name, batch.column(f.name)) for f in batch.schema], schema=batch.schema
        )


def _is_log(raw: bytes | None, error: str) -> bool:
    """Whether the kept bytes are one log that can be read."""
    if raw is None or not causes.read(error).holds_log:
        return False
    try:
        plain_log(raw, 0, len(raw), pairs_max=KEYS_MAX)
    except ValueError:
        return False
    return True


def _unhashed(declared: Declared) -> Declared:
    return replace(declared, pii="") if declared.pii == "hash" else declared


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices whose kept bytes fit a page; a row without the bytes of a log stands alone."""
    begin = size = 0
    errors = batch.column("__error__")
    for row, scalar in enumerate(batch.column("__raw__")):
        raw = scalar.as_py()
        log = _is_log(raw, errors[row].as_py())
        length = len(raw or b"")
        if row > begin and (not log or size + length > _BODY_BYTES or size < 0):
            yield batch.slice(begin, row - begin)
            begin, size = row, 0
        size = size + length if log else -1
    if begin < batch.num_rows:
        yield batch.slice(begin)


def _cause(old: str, new: str | None) -> str | None:
    """Causes of today, after those of before that are about the group and not about the log."""
    found = causes.read(new).all if new else ()
    group = (cause for cause in causes.read(old).group if cause not in found)
    return SEPARATOR.join([*group, *found]) or None


def _differing(before: pa.RecordBatch, after: pa.RecordBatch) -> int:
    """Rows that are not the same; by text, in which also NaN is what it was."""
    pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
    return sum(repr(old) != repr(new) for old, new in pairs)
