"""Somebody's own function on the rows of a landing, between decoding and writing.

`transform: package.module:function` in a logstore's settings names a function that gets an Arrow RecordBatch
with the columns of the table and returns one: consume, transform, produce, in the one commit of the landing.
It may change values of declared columns, or leave a declared column out, which makes it null. Refused, since
`verify` would prove nothing any more, or rows would be lost in silence:

- other rows: more, fewer, or in another order; what is not wanted is left out by a view over the table
- a column that begins with `__` changed or left out: identity, times, tags, `__rest__`, `__error__` ...
- a column that is not declared, or of another type than its declared one
- values that are none of their type: text that is no UTF-8, a number with too many digits, the year 12000

A second table is no part of the commit, so no rows can be sent there: two tables cannot be atomic. A dbt
model after the landing makes one from this.

The function is called in the tasks, once for some thousand rows, and again whenever logs are landed again:
live runs, backfills, replaces, rows with errors read again. So it must give the same for the same rows. Where
it fails, nothing of the window lands and its shard stays where it is.
"""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from pipelines.landing.table.decoders import type_text, unsound
from sls_io.values.errors import CodeFailed, ConfigError, amount, printable, some_of
from sls_io.values.named import Unusable, called, load, type_name


class TransformFailed(ConfigError):
    """The function raised, or gave what cannot be landed. The text holds no value of a log."""


class Transform:
    """The function that `path` names; every batch is as it was where there is none.

    Raises ConfigError when it cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._function: Callable[[pa.RecordBatch], object] | None = load("transform", path) if path else None
        if path and not callable(self._function):
            raise ConfigError(f"transform {printable(path)!r} cannot be called: name a function")

    def of(self, batch: pa.RecordBatch, shard: int) -> pa.RecordBatch:
        """What the function makes of `batch`, rows of `shard`, with the columns of `batch`. Raises
        TransformFailed."""
        if self._function is None or not batch.num_rows:
            return batch
        try:
            return called(
                "transform", self._path, self._function, _copied(batch), reads=partial(_landable, batch)
            )
        except CodeFailed as failed:
            raise TransformFailed(
                f"{failed}, of rows of shard {shard}: nothing of the window was landed, and nothing is "
                "skipped. Mend the function, or take it out of the settings"
            ) from None


def _landable(batch: pa.RecordBatch, given: object) -> pa.RecordBatch | Unusable:
    """What the function gave for `batch`, with the columns of that; ours are those that it never had."""
    if type(given) is not pa.RecordBatch:
        return Unusable(f"gave a {type_name(given)}, not a RecordBatch")
    if given.num_rows != batch.num_rows:
        return Unusable(f"gave {amount(given.num_rows, 'row')} for {batch.num_rows}")
    # Before it is looked at: what stays theirs could be another between the look and the landing.
    theirs = _copied(given)
    if wrong := _wrong(batch, theirs):
        return Unusable(wrong)
    columns = [
        batch.column(field.name)
        if _ours(field.name)
        else theirs.column(field.name)
        if field.name in theirs.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in batch.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same in memory of its own: an array of Arrow's cannot be changed, but by who writes to its memory.

    Story: a function turned the cursors round in the memory that it was given, and gave the same batch back.
    Compared with itself that was unchanged, and rows landed under the identities of others. Another function
    wrote all its answers to one buffer: rows that waited for their file became those of the next call.
    """
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def _wrong(batch: pa.RecordBatch, given: pa.RecordBatch) -> str:
    """What the columns that were given cannot be landed for; "" for nothing."""
    names = given.schema.names
    if len(set(names)) != len(names):
        return "gave a column twice"
    if strange := [name for name in names if name not in batch.schema.names]:
        return f"gave {some_of(map(printable, strange))}, which the settings do not declare"
    ours = [name for name in batch.schema.names if _ours(name)]
    changed = [n for n in ours if n not in names or not _same(given.column(n), batch.column(n))]
    if changed:
        named = some_of(map(printable, changed))
        return f"changed or left out {named}, which must come back as given, in the same order"
    types = {field.name: field.type for field in batch.schema}
    for name in names:
        if given.schema.field(name).type != types[name]:
            return f"gave {name} as {type_text(given.schema.field(name).type)}, declared is {types[name]}"
        if found := unsound(given.column(name)):
            return f"gave {name} {found}"
    return ""


def _ours(name: str) -> bool:
    return name.startswith("__")


def _same(one: pa.Array, other: pa.Array) -> bool:
    return bool(one.type == other.type and one.equals(other))
