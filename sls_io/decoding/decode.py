"""A page of LogGroups as Arrow record batches: the rows of the landed table.

The wire form is proto2 (names as in the vendor's SDK): a LogGroupList holds LogGroups, a LogGroup
holds Logs and their topic, source and tags, a Log holds a time and a list of (Key, Value).

    bytes --chunks--> nested Arrow --numpy/pyarrow--> flat columns
                                                  \\-- rows in trouble --> their own bytes, in Python

Every text is read as bytes and checked for UTF-8 as a whole column, because one bad value must not cost
the page. Rules for what a row cannot represent exactly; each is kept, with its cause in `__error__` and
the log's own bytes in `__raw__`:

- a value that does not fit its declared type: the column is null, the value stands in `__rest__`;
- a repeated key: the last value is the one that is shown (a map has no room for both);
- bytes that are not UTF-8: in `__rest__`, keys included, as U+FFFD, the first 64 KiB of each; a declared
  column is null. Topic, source and tags are not part of the log's bytes, so they are shown whole, as \\xNN,
  or as base64 where one is over 64 KiB;
- a missing time (also one over 32 bits), key or value, a nanosecond part over 999999999;
- a log that is no protobuf: all its columns are null; a group that cannot be taken apart is one such row,
  at index 0 (`causes.py` names them).

How many rows a page has follows from its bytes alone, never from the contract. Personal data (`pii`) is
removed or hashed before any of this, in `__raw__` too; bytes in which nobody can find it are withheld. An
error text names keys and types, never a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sls_io.decoding.causes import Cause, PageTrouble
from sls_io.decoding.chunks import Chunk, Chunks, whole_page
from sls_io.decoding.heads import PART_BYTES, GroupHeads, Wide
from sls_io.decoding.nested import Ints, Logs, Tree
from sls_io.decoding.pairs import Declared, Pairs
from sls_io.decoding.texts import TEXT_MAP
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.errors import ConfigError, DecodeError
from sls_io.values.window import HOUR_S
from sls_io.wire import loggroup

if TYPE_CHECKING:
    from sls_io.wire.page import Page

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEAD_FIELDS: tuple[pa.Field, ...] = (
    pa.field("__origin__", pa.string(), nullable=False),
    pa.field("__shard__", pa.int32(), nullable=False),
    pa.field("__cursor__", pa.int64(), nullable=False),
    pa.field("__index__", pa.int32(), nullable=False),
    pa.field("__receive_hour__", TIMESTAMP, nullable=False),
    pa.field("__time__", TIMESTAMP),
    pa.field("__topic__", pa.string()),
    pa.field("__source__", pa.string()),
    pa.field("__tags__", TEXT_MAP),
)
"""Columns before the declared ones."""
TAIL_FIELDS: tuple[pa.Field, ...] = (
    pa.field("__rest__", TEXT_MAP),
    pa.field("__error__", pa.string()),
    pa.field("__raw__", pa.binary()),
)
"""Columns after the declared ones."""

_NANOS_MAX = 999_999_999
_ROWS_MAX = 32 * 1024
_PAIRS_MAX = 512 * 1024
_PRIME = 2**31 - 1


@dataclass(frozen=True)
class PagePart:
    """Some rows of a page; `sum` and `errors` as in `Decoded`."""

    batch: pa.RecordBatch
    rows: int
    errors: int
    sum: int


@dataclass
class Decoded:
    """One page as rows.

    sum      identity sum of the rows, mod 2**64 (see `identity_sum`)
    errors   rows whose `__error__` is set
    forward  cursors were counted forward from the page's cursor and may be off: the service sent
             no last-read cursor, and the next cursor jumps
    """

    batch: pa.RecordBatch
    rows: int
    groups: int
    errors: int
    sum: int
    forward: bool


class Decoder:
    """Pages of one origin -> record batches of one schema. Holds no state of a page; picklable.

    `schema` names the columns to fill, in order; without it, the declared columns stand between
    the system's. A column that nobody declares (its key was removed) is null. Field metadata, such
    as Iceberg field ids, passes into the batches.
    """

    def __init__(self, origin: str, declared: Sequence[Declared], schema: pa.Schema | None = None) -> None:
        self.origin = origin
        self.declared = tuple(declared)
        shown = tuple(pa.field(d.name, d.type) for d in self.declared if d.pii != "drop")
        self.schema: pa.Schema = schema or pa.schema((*HEAD_FIELDS, *shown, *TAIL_FIELDS))
        for needed in (*HEAD_FIELDS, *shown, *TAIL_FIELDS):
            at = self.schema.get_field_index(needed.name)
            if at < 0 or self.schema.field(at).type != needed.type:
                raise ConfigError(
                    f"the schema's column {needed.name!r} is missing or not {needed.type}; "
                    "plan again, so that the table's columns follow the contract"
                )

    def open(self, page: Page) -> Reading:
        """The page taken apart, its columns not yet made.

        Raises DecodeError when sizes or counts are not what the headers said, when the cursors
        cannot be, or when the bytes are not a LogGroupList, unless that came twice.
        """
        raw = loggroup.decompress(
            page.body, page.compression, page.raw_bytes, shard=page.shard, cursor=page.cursor
        )
        chunks: Chunks | tuple[Chunk, ...]
        try:
            chunks = Chunks(raw)
            groups, unreadable = chunks.groups, chunks.unreadable
        except ValueError:  # includes ArrowInvalid; its text is left out
            if not (page.confirmed and page.count == 1):
                raise DecodeError("not a LogGroupList", shard=page.shard, cursor=page.cursor) from None
            chunks, groups, unreadable = (whole_page(raw),), 1, True
        if groups != page.count:
            raise DecodeError(
                f"page has {groups} groups, the header says {page.count}",
                shard=page.shard,
                cursor=page.cursor,
            )
        first, forward = _labels(page)
        return Reading(self, page.shard, raw, chunks, first, forward, groups, unreadable)

    def decode(self, page: Page, *, hour: int) -> Decoded:
        """All rows of `page` at once, for a page that is known to be small; else `open` and `parts`.

        `hour` is the receive hour of its window, in hours since 1970. Raises as `open`.
        """
        reading = self.open(page)
        parts = list(reading.parts(hour))
        whole = pa.Table.from_batches([p.batch for p in parts], self.schema).combine_chunks()
        return Decoded(
            batch=whole.to_batches()[0] if whole.num_rows else _no_rows(self.schema),
            rows=sum(p.rows for p in parts),
            groups=reading.groups,
            errors=sum(p.errors for p in parts),
            sum=sum(p.sum for p in parts) % SUM_MODULUS,
            forward=reading.forward,
        )


@dataclass(frozen=True)
class Reading:
    """A page taken apart.

    unreadable  something in it is no protobuf: as it was sent, or spoilt on the way; a page whose bytes
                come twice settles that
    """

    decoder: Decoder
    shard: int
    raw: bytes
    chunks: Iterable[Chunk]
    first: int
    forward: bool
    groups: int
    unreadable: bool

    def parts(self, hour: int) -> Iterator[PagePart]:
        """The rows in order, so many at a time that they fit in memory whatever the page holds."""
        rows_max = max(1, min(_ROWS_MAX, PART_BYTES // (8 * len(self.decoder.schema))))
        for chunk in self.chunks:
            heads = GroupHeads.of(chunk)
            for begin, end in _row_ranges(chunk.tree, rows_max):
                yield from self._rows(chunk, heads, begin, end, hour)

    def _rows(self, chunk: Chunk, heads: GroupHeads, begin: int, end: int, hour: int) -> Iterator[PagePart]:
        """The rows [begin, end) of a chunk, in as many parts as what they repeat asks for.

        Cursor and index follow from the place: the page's first cursor, and so many groups and logs on.
        """
        decoder, logs, trouble = self.decoder, chunk.tree.part(begin, end), PageTrouble()
        columns = {"__time__": _times(logs, trouble)}
        columns.update(_log_columns(logs, decoder.declared, trouble))
        for row, cause in chunk.unreadable.items():
            if begin <= row < end:
                trouble.only(row - begin, cause)
        cursors = self.first + chunk.first + logs.group_of_log
        indexes = chunk.offset + logs.index_of_log
        columns["__cursor__"] = pa.array(cursors)
        columns["__index__"] = pa.array(indexes.astype(np.int32))
        columns["__origin__"] = pa.repeat(decoder.origin, logs.logs)
        columns["__shard__"] = pa.repeat(pa.scalar(self.shard, pa.int32()), logs.logs)
        moment = pa.scalar(hour * HOUR_S * 1_000_000, TIMESTAMP)
        columns["__receive_hour__"] = pa.repeat(moment, logs.logs)
        pii = {d.name.encode(): d.pii for d in decoder.declared if d.pii}
        wide = Wide(self.raw, chunk, heads, logs, trouble, pii)
        for a, b in wide.ranges():
            shown = {name: column.slice(a, b - a) for name, column in columns.items()} | wide.columns(a, b)
            arrays = [shown[f.name] if f.name in shown else pa.nulls(b - a, f.type) for f in decoder.schema]
            yield PagePart(
                batch=pa.RecordBatch.from_arrays(arrays, schema=decoder.schema),
                rows=b - a,
                errors=int(wide.bad[a:b].sum()),
                sum=identity_sum(self.shard, cursors[a:b], indexes[a:b]),
            )


def _row_ranges(tree: Tree, rows_max: int) -> Iterator[tuple[int, int]]:
    """The logs of a tree, [begin, end) by at most so many, and so many pairs unless one log has more.

    Worked example: logs with 3, 4 and 600,000 pairs and room for 524,288: the first two are a range, the
    third, which has more than fit, is one of its own.
    """
    begin = 0
    while begin < tree.logs:
        room = int(tree.pair_offsets[begin]) + _PAIRS_MAX
        fits = int(np.searchsorted(tree.pair_offsets, room, side="right")) - 1
        end = min(tree.logs, begin + rows_max, max(begin + 1, fits))
        yield begin, end
        begin = end


def identity_sum(shard: int, cursors: Ints, indexes: Ints) -> int:
    """Sum mod 2**64 of a hash of (shard, cursor, index), one pair of `cursors` and `indexes` a row.

    Portable: int64 products below 2**62 and remainders only, so that SQL can compute it too. With
    p = 2**31 - 1, c = cursor mod p, i = index, s = shard:

        m1 = (c * 1000003 + i * 8191   + s * 131071)         mod p
        m2 = (c * 69069   + i * 524287 + s * 65537  + 12345) mod p
        h  = (m1**5 mod p) * 2**31 + (m2**5 mod p)

    Equal sums with equal counts make a lost, doubled or moved row very unlikely, not impossible.

    A sum does not know an order and has an inverse: parts of a page, files and landings are added, and what
    leaves a table is subtracted, in any order. p is prime and 5 has no divisor in common with p - 1, so the
    fifth power maps the remainders one to one.

    Worked example: shard 3, cursor 100: index 0 gives 3350699434602737696, index 1 gives 1888738158744704304,
    both rows together 5239437593347442000.
    """
    c = cursors % _PRIME
    one = (c * 1_000_003 + indexes * 8_191 + shard * 131_071) % _PRIME
    two = (c * 69_069 + indexes * 524_287 + shard * 65_537 + 12_345) % _PRIME
    hashes = (_fifth_power(one) << 31) + _fifth_power(two)
    return int(hashes.astype(np.uint64).sum(dtype=np.uint64))


def _fifth_power(m: Ints) -> Ints:
    square = m * m % _PRIME
    return square * square % _PRIME * m % _PRIME


def _labels(page: Page) -> tuple[int, bool]:
    """(cursor of the page's first group, whether it is only counted forward).

    The service names one cursor of a page's groups, the last one's, and the groups follow one another without
    a jump. So the first cursor is counted back from the last: a jump before the first group cannot spoil it.

    Worked example: a page is asked for from cursor 100. It has 3 groups, the last one read is 107, the next
    cursor is 108. The groups are 105, 106 and 107. Without the last one they are counted forward as 100, 101
    and 102, and marked, since 100 + 3 is not 108: a jump may have come before them.
    """
    if page.last is not None and page.count:
        first, forward = page.last - (page.count - 1), False
        fits = page.cursor <= first and page.last < page.next
    else:
        first, forward = int(page.cursor), page.next - page.cursor != page.count and page.count > 0
        fits = page.cursor + page.count <= page.next
    if not fits:
        raise DecodeError(
            f"{page.count} groups do not fit before the next cursor", shard=page.shard, cursor=page.cursor
        )
    return first, forward


# --- columns of the log ------------------------------------------------------------------------


def _times(logs: Logs, trouble: PageTrouble) -> pa.Array:
    """Time and its nanosecond part in microseconds; the part below is cut off.

    Without a time the row is null there, and has a cause; it is not the time 0.
    """
    seconds = logs.time.fill_null(0).to_numpy().astype(np.int64)
    nanos = logs.time_ns.fill_null(0).to_numpy().astype(np.int64)
    over = nanos > _NANOS_MAX
    if over.any():
        trouble.note(np.flatnonzero(over), Cause.NANOS_OVER)
        nanos = np.where(over, 0, nanos)
    missing = None
    if logs.time.null_count:
        missing = logs.time.is_null().to_numpy(zero_copy_only=False)
        trouble.note(np.flatnonzero(missing), Cause.NO_TIME)
    return pa.array(seconds * 1_000_000 + nanos // 1_000, mask=missing).cast(TIMESTAMP)


def _log_columns(logs: Logs, declared: Sequence[Declared], trouble: PageTrouble) -> dict[str, pa.Array]:
    """The declared columns and `__rest__`."""
    pairs = Pairs.of(logs, declared, trouble)
    columns = {
        d.name: pairs.column(place, d, logs.logs, trouble)
        for place, d in enumerate(declared)
        if d.pii != "drop"
    }
    columns["__rest__"] = pairs.rest(logs.logs)
    return columns


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
