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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sls_io.decoding.causes import Cause, PageTrouble
from sls_io.decoding.chunks import Chunk, Chunks, whole_page
from sls_io.decoding.heads import PART_BYTES, GroupHeads, Wide
from sls_io.decoding.nested import Ints, Logs, Tree, digest, digest_once
from sls_io.decoding.texts import TEXT_MAP, as_text, maps, numbered, replaced
from sls_io.values.claim import SUM_MODULUS
from sls_io.values.errors import ConfigError, DecodeError
from sls_io.values.window import HOUR_S
from sls_io.wire import loggroup

if TYPE_CHECKING:
    from sls_io.wire.client import Page

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
class Declared:
    """A log key with a column of its own.

    name      the key, and the column
    type      the column's Arrow type
    convert   string array -> array of `type`, null where a value does not fit; None keeps the text
    pii       `drop`: no column, the value is written nowhere; `hash`: the column has the SHA-256 of
              the value's bytes in hex
    label     the type as people write it, for `__error__`
    of_bytes  `convert` takes a binary array, the values as they were sent: they need not be UTF-8
    """

    name: str
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array] | None = None
    pii: Literal["", "drop", "hash"] = ""
    label: str = ""
    of_bytes: bool = False


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
        """The rows [begin, end) of a chunk, in as many parts as what they repeat asks for."""
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
    """The logs of a tree, [begin, end) by at most so many, and so many pairs unless one log has more."""
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
    """Time and its nanosecond part in microseconds; the part below is cut off."""
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
    pairs = _Pairs.of(logs, declared, trouble)
    columns = {
        d.name: pairs.column(place, d, logs.logs, trouble)
        for place, d in enumerate(declared)
        if d.pii != "drop"
    }
    columns["__rest__"] = pairs.rest(logs.logs)
    return columns


@dataclass
class _Pairs:
    """The (key, value) pairs of logs, in order of the page, and in `order` grouped by key.

    Worked example: log 0 is a=1 b=2, log 1 is b=3 a=4 a=5. The pairs are a b b a a; `rows` is 0 0 1 1 1,
    `names` is a b, `codes` is 0 1 1 0 0. `order` is 0 3 4 1 2 and `starts` is 0 3 5: the pairs of a are
    order[0:3], those of b are order[3:5]. Log 1 shows a=5, so `shown` is false for pair 3.

    rows     the log each pair belongs to
    codes    each pair's key as a place in `names`; `starts` says where a key begins in `order`
    found    the place in `names` of each declared key; -1: no log has it
    shown    pairs whose value is shown: all but the earlier ones of a repeated key; None means all
    broken   pairs whose value was not UTF-8, replaced in `text`; None means none
    to_rest  pairs that go to `__rest__`
    own      place of a declared key that is read from bytes -> its values, in the order of its shown pairs;
             in `text` only those stand that did not fit
    """

    names: pa.Array
    text: pa.Array
    rows: Ints
    codes: Ints
    order: Ints
    starts: Ints
    found: list[int]
    shown: NDArray[np.bool_] | None
    broken: NDArray[np.bool_] | None
    to_rest: NDArray[np.bool_]
    own: dict[int, pa.Array]

    @staticmethod
    def of(logs: Logs, declared: Sequence[Declared], trouble: PageTrouble) -> _Pairs:
        rows, keys, values = logs.log_of_pair, logs.keys, logs.values
        if keys.null_count:
            missing = keys.is_null().to_numpy(zero_copy_only=False)
            trouble.note(np.unique(rows[missing]), Cause.NO_KEY)
            keys = keys.fill_null(b"")
        keyed = numbered(keys, rows, logs.logs, replaced)
        names, codes, order, earlier = keyed.names, keyed.codes, keyed.order, keyed.earlier
        if keyed.broken is not None:
            trouble.note(np.unique(rows[keyed.broken]), Cause.KEY_BYTES)
        found, undeclared = _places(names, declared)
        quiet = np.zeros(len(names), dtype=np.bool_)
        quiet[_guarded(found, declared, "drop")] = True

        def note(pairs: Ints, cause: Cause) -> None:
            loud = pairs[~quiet[codes[pairs]]]
            trouble.note_names(rows[loud], codes[loud].astype(np.int64), names, cause, of_groups=False)

        there = None
        if values.null_count:
            there = values.is_valid().to_numpy(zero_copy_only=False)
            note(np.flatnonzero(~there), Cause.NO_VALUE)
            values = values.fill_null(b"")
        shown = None
        if len(earlier):
            shown = np.ones(len(codes), dtype=np.bool_)
            shown[earlier] = False
        plain = there if shown is None else shown if there is None else shown & there
        values = _hashed(values, codes, _guarded(found, declared, "hash"), plain)
        own = {}
        for place, (code, one) in enumerate(zip(found, declared, strict=True)):
            if one.of_bytes and code >= 0:
                pairs = _shown(order[keyed.starts[code] : keyed.starts[code + 1]], shown)
                own[place], values = _own(values, one, pairs)
        text, broken = as_text(values, replaced)
        if broken is not None:
            readers = [found[place] for place in own]
            note(np.flatnonzero(broken & ~np.isin(codes, readers)), Cause.VALUE_BYTES)
        to_rest = undeclared[codes] if undeclared.any() else np.zeros(len(codes), dtype=np.bool_)
        if shown is not None:
            note(earlier, Cause.KEY_REPEATED)
            to_rest &= shown
        return _Pairs(names, text, rows, codes, order, keyed.starts, found, shown, broken, to_rest, own)

    def column(self, place: int, declared: Declared, logs: int, trouble: PageTrouble) -> pa.Array:
        """One value a log, null where the key is absent or its value does not fit."""
        code = self.found[place]
        if code < 0:
            return pa.nulls(logs, declared.type)
        pairs = _shown(self.order[self.starts[code] : self.starts[code + 1]], self.shown)
        if place in self.own:
            return self._own_column(pairs, declared, self.own[place], logs, trouble)
        if self.broken is not None:
            self.to_rest[pairs[self.broken[pairs]]] = True
            pairs = pairs[~self.broken[pairs]]
        at = self._of_rows(pairs, pairs, logs)
        text = pc.take(self.text, at, boundscheck=False)
        if declared.convert is None:
            return text
        values = _converted(declared, text)
        if values.null_count > text.null_count:
            misfit = pc.and_(values.is_null(), text.is_valid()).to_numpy(zero_copy_only=False)
            self._misfits(at.filter(pa.array(misfit)).to_numpy(), declared, trouble)
        return values

    def _own_column(
        self, pairs: Ints, declared: Declared, values: pa.Array, logs: int, trouble: PageTrouble
    ) -> pa.Array:
        """As `column`, of values that were read from bytes, one for each of `pairs`."""
        if values.null_count:
            self._misfits(pairs[values.is_null().to_numpy(zero_copy_only=False)], declared, trouble)
        at = self._of_rows(pairs, np.arange(len(pairs)), logs)
        return pc.take(values, at, boundscheck=False)

    def _of_rows(self, pairs: Ints, chosen: Ints, logs: int) -> pa.Array:
        """What of `chosen`, one for each of `pairs`, is each log's; null where a log has none."""
        if len(pairs) == logs:
            return pa.array(chosen)
        of_row = np.full(logs, -1, dtype=np.int64)
        of_row[self.rows[pairs]] = chosen
        return pa.array(of_row, mask=of_row < 0)

    def _misfits(self, pairs: Ints, declared: Declared, trouble: PageTrouble) -> None:
        self.to_rest[pairs] = True
        kind = declared.label or str(declared.type)
        trouble.note(self.rows[pairs], Cause.MISFIT, declared.name, kind)

    def rest(self, logs: int) -> pa.Array:
        """What no column took, as a map a log; null when nothing is left."""
        pairs = np.flatnonzero(self.to_rest)
        if not len(pairs):
            return pa.nulls(logs, TEXT_MAP)
        offsets = np.zeros(logs + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.rows[pairs], minlength=logs), out=offsets[1:])
        keys = self.names.take(pa.array(self.codes[pairs]))
        return maps(offsets, keys, self.text.take(pa.array(pairs)))


def of_texts(declared: Declared, texts: pa.Array) -> pa.Array:
    """Values that were read as text before they were declared, in the declared type; null where one does not
    fit. A digest stays one. Not for a key that is declared `drop`."""
    if declared.pii == "hash":
        sent = texts.cast(pa.binary()).to_pylist()
        return pa.array([None if v is None else digest_once(v).decode() for v in sent], pa.string())
    return _converted(declared, texts.cast(pa.binary()) if declared.of_bytes else texts)


def _places(names: pa.Array, declared: Sequence[Declared]) -> tuple[list[int], NDArray[np.bool_]]:
    """(`found` as in _Pairs, which of the `names` nobody declared)."""
    declared_at = pc.index_in(names, value_set=pa.array([d.name for d in declared], pa.string()))
    declared_at = declared_at.fill_null(-1).to_numpy()
    found = [-1] * len(declared)
    for code in np.flatnonzero(declared_at >= 0).tolist():
        found[declared_at[code]] = code
    return found, declared_at < 0


def _guarded(found: list[int], declared: Sequence[Declared], how: str) -> list[int]:
    """The keys of the page that are declared to be guarded so, as in `codes`."""
    return [c for c, d in zip(found, declared, strict=True) if c >= 0 and d.pii == how]


def _shown(pairs: Ints, shown: NDArray[np.bool_] | None) -> Ints:
    return pairs if shown is None else pairs[shown[pairs]]


def _own(values: pa.Array, declared: Declared, pairs: Ints) -> tuple[pa.Array, pa.Array]:
    """(what `declared` makes of the bytes of `pairs`; `values` where of these only misfits are left, so that
    nobody looks for UTF-8 in the others)."""
    made = _converted(declared, values.take(pa.array(pairs)))
    read = np.zeros(len(values), dtype=np.bool_)
    read[pairs[made.is_valid().to_numpy(zero_copy_only=False)]] = True
    return made, pc.if_else(pa.array(read), pa.scalar(b"", pa.binary()), values)


def _converted(declared: Declared, text: pa.Array) -> pa.Array:
    """`text` in the declared type. A cast must answer null for what does not fit; one that raises
    instead must cost the value that it does not bear, and not the page."""
    if declared.convert is None:
        return text
    try:
        values = declared.convert(text)
    except ConfigError:  # the cast itself is wrong: it would be with every value
        raise
    except Exception:  # a cast is given a stranger's text, and there is no list of what it can raise
        if len(text) == 1:
            return pa.nulls(1, declared.type)
        half = len(text) // 2
        parts = [_converted(declared, text[:half]), _converted(declared, text[half:])]
        return pa.concat_arrays(parts)
    return values


def _hashed(values: pa.Array, codes: Ints, which: list[int], shown: NDArray[np.bool_] | None) -> pa.Array:
    """`values` with those of the keys `which` as SHA-256 in hex; one that is not `shown`, or was not sent,
    is left empty."""
    if not which:
        return values
    chosen = np.isin(codes, which)
    if shown is not None:
        hidden = chosen & ~shown
        if hidden.any():
            empty = pa.repeat(pa.scalar(b"", pa.binary()), int(hidden.sum()))
            values = pc.replace_with_mask(values, pa.array(hidden), empty)
        chosen &= shown
    plain = values.filter(pa.array(chosen)).to_pylist()
    digests = {value: digest(value) for value in set(plain)}
    return pc.replace_with_mask(values, pa.array(chosen), pa.array([digests[v] for v in plain], pa.binary()))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
