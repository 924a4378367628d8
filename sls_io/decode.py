"""A page of LogGroups as one Arrow record batch: the rows of the landed table.

The wire form is proto2 (names as in the vendor's SDK): a LogGroupList holds LogGroups, a LogGroup
holds Logs and their topic, source and tags, a Log holds a time and a list of (Key, Value).

    bytes --ptars--> nested Arrow --numpy/pyarrow--> flat columns
                                                  \\-- rows in trouble --> their own bytes, in Python

Every text of a page is read as bytes and checked for UTF-8 as a whole column, because one bad
value must not cost the page. Rules for what a row cannot represent exactly; each is kept, with its
cause in `__error__` and the log's own bytes in `__raw__`:

- a value that does not fit its declared type: the column is null, the value stands in `__rest__`;
- a repeated key: the last value is the one that is shown (a map has no room for both);
- bytes that are not UTF-8: in `__rest__`, keys included, as U+FFFD; a declared column is null.
  Topic, source and tags are not part of the log's bytes, so they are shown as \\xNN instead;
- a missing time, key or value, a nanosecond part over 999999999.

Personal data (`pii`) is removed or hashed before any of this, in `__raw__` too. An error text
names keys and types, never a value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sls_io import loggroup
from sls_io.errors import ConfigError, DecodeError, printable
from sls_io.nested import Ints, Tree, digest, escaped, is_utf8, redacted
from sls_io.window import HOUR_S

if TYPE_CHECKING:
    from sls_io.client import Page

TIMESTAMP = pa.timestamp("us", tz="UTC")
TEXT_MAP = pa.map_(pa.string(), pa.string())
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
_UTF8_CHUNK = 4096
_PRIME = 2**31 - 1


@dataclass(frozen=True)
class Declared:
    """A log key with a column of its own.

    name     the key, and the column
    type     the column's Arrow type
    convert  string array -> array of `type`, null where a value does not fit; None keeps the text
    pii      `drop`: no column, the value is written nowhere; `hash`: the column has the SHA-256 of
             the value's bytes in hex
    label    the type as people write it, for `__error__`
    """

    name: str
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array] | None = None
    pii: Literal["", "drop", "hash"] = ""
    label: str = ""


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

    def decode(self, page: Page, *, hour: int) -> Decoded:
        """All rows of `page`; `hour` is the receive hour of its window, in hours since 1970.

        Raises DecodeError when sizes or counts are not what the headers said, when the cursors
        cannot be, or when the bytes are not a LogGroupList.
        """
        raw = loggroup.decompress(
            page.body, page.compression, page.raw_bytes, shard=page.shard, cursor=page.cursor
        )
        try:
            tree = Tree.of(raw)
        except ValueError:  # includes ArrowInvalid; its text is left out
            raise DecodeError("not a LogGroupList", shard=page.shard, cursor=page.cursor) from None
        if tree.groups != page.count:
            raise DecodeError(
                f"page has {tree.groups} groups, the header says {page.count}",
                shard=page.shard,
                cursor=page.cursor,
            )
        first, forward = _labels(page)
        trouble = _Trouble()
        columns = _group_columns(tree, trouble)
        columns["__time__"] = _times(tree, trouble)
        columns.update(_log_columns(tree, self.declared, trouble))
        cursors, indexes = first + tree.group_of_log, tree.index_of_log
        columns["__origin__"] = pa.repeat(self.origin, tree.logs)
        columns["__shard__"] = pa.repeat(pa.scalar(page.shard, pa.int32()), tree.logs)
        columns["__cursor__"] = pa.array(cursors)
        columns["__index__"] = pa.array(indexes.astype(np.int32))
        columns["__receive_hour__"] = pa.repeat(pa.scalar(hour * HOUR_S * 1_000_000, TIMESTAMP), tree.logs)
        try:
            columns.update(_trouble_columns(tree, raw, self.declared, trouble))
        except ValueError:
            raise DecodeError("groups and logs do not add up", shard=page.shard, cursor=page.cursor) from None
        arrays = [columns[f.name] if f.name in columns else pa.nulls(tree.logs, f.type) for f in self.schema]
        return Decoded(
            batch=pa.RecordBatch.from_arrays(arrays, schema=self.schema),
            rows=tree.logs,
            groups=tree.groups,
            errors=len(trouble.causes),
            sum=identity_sum(page.shard, cursors, indexes),
            forward=forward,
        )


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
    """(cursor of the page's first group, whether it is only counted forward)."""
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


# --- rows in trouble ---------------------------------------------------------------------------


@dataclass
class _Trouble:
    """Rows that cannot be represented exactly: row -> causes, in order of discovery."""

    causes: dict[int, list[str]] = field(default_factory=dict)

    def note(self, rows: Iterable[int], cause: str) -> None:
        for row in rows:
            self.causes.setdefault(int(row), []).append(cause)

    def note_group(self, tree: Tree, group: int, cause: str) -> None:
        self.note(np.flatnonzero(tree.group_of_log == group).tolist(), cause)


def _trouble_columns(
    tree: Tree, raw: bytes, declared: Sequence[Declared], trouble: _Trouble
) -> dict[str, pa.Array]:
    """`__error__` and `__raw__`. Only these rows' groups are walked byte by byte.

    Raises ValueError when the walk and the nested form disagree.
    """
    if not trouble.causes:
        return {"__error__": pa.nulls(tree.logs, pa.string()), "__raw__": pa.nulls(tree.logs, pa.binary())}
    errors: list[str | None] = [None] * tree.logs
    bytes_of: list[bytes | None] = [None] * tree.logs
    pii = {d.name.encode(): d.pii for d in declared if d.pii}
    groups = list(loggroup.groups(raw))
    if len(groups) != tree.groups:
        raise ValueError("groups do not add up")
    sizes = np.bincount(tree.group_of_log, minlength=tree.groups)
    at, spans = -1, []
    for row in sorted(trouble.causes):
        group = int(tree.group_of_log[row])
        if group != at:
            at, spans = group, list(loggroup.logs(raw, *groups[group]))
            if len(spans) != sizes[group]:
                raise ValueError("logs do not add up")
        begin, end = spans[int(tree.index_of_log[row])]
        errors[row] = "; ".join(trouble.causes[row])
        bytes_of[row] = redacted(raw[begin:end], pii)
    return {"__error__": pa.array(errors, pa.string()), "__raw__": pa.array(bytes_of, pa.binary())}


# --- columns of the group ----------------------------------------------------------------------


def _group_columns(tree: Tree, trouble: _Trouble) -> dict[str, pa.Array]:
    """Topic, source and tags of each group, repeated for its logs."""
    at = pa.array(tree.group_of_log)
    return {
        "__topic__": _group_text(tree, tree.topic, "topic", trouble).take(at),
        "__source__": _group_text(tree, tree.source, "source", trouble).take(at),
        "__tags__": _group_tags(tree, trouble).take(at),
    }


def _group_text(tree: Tree, values: pa.Array, what: str, trouble: _Trouble) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    for group, value in enumerate(values.to_pylist()):
        texts.append(None if value is None else escaped(value))
        if value is not None and not is_utf8(value):
            trouble.note_group(tree, group, f"{what} is not UTF-8")
    return pa.array(texts, pa.string())


def _group_tags(tree: Tree, trouble: _Trouble) -> pa.Array:
    """One map a group, null without tags. Tags are few, so a page in doubt goes the slow way whole."""
    offsets = tree.tag_offsets
    keys, values = tree.tags.field("Key"), tree.tags.field("Value")
    codes = keys.dictionary_encode()
    if not keys.null_count and not values.null_count:
        group_of_tag = np.repeat(np.arange(tree.groups, dtype=np.int64), np.diff(offsets))
        ranks = group_of_tag * max(1, len(codes.dictionary)) + codes.indices.to_numpy()
        if len(np.unique(ranks)) == len(ranks):
            try:
                return _maps(offsets, keys.cast(pa.string()), values.cast(pa.string()))
            except pa.ArrowInvalid:
                pass
    maps: list[dict[str, str] | None] = []
    for group, (begin, end) in enumerate(itertools.pairwise(offsets)):
        tags: dict[str, str] = {}
        for key, value in zip(keys[begin:end].to_pylist(), values[begin:end].to_pylist(), strict=True):
            name = escaped(key or b"")
            if key is None or value is None:
                trouble.note_group(tree, group, f"tag {printable(name)} has no key or no value")
            elif not is_utf8(key) or not is_utf8(value):
                trouble.note_group(tree, group, f"tag {printable(name)} is not UTF-8")
            if name in tags:
                trouble.note_group(tree, group, f"repeated tag {printable(name)}")
            tags[name] = escaped(value or b"")
        maps.append(tags or None)
    return pa.array([list(tags.items()) if tags else None for tags in maps], TEXT_MAP)


def _maps(offsets: Ints, keys: pa.Array, items: pa.Array) -> pa.MapArray:
    """Maps from list offsets; an empty one is null."""
    empty = np.diff(offsets) == 0
    return pa.MapArray.from_arrays(
        pa.array(offsets.astype(np.int32)), keys, items, type=TEXT_MAP, mask=pa.array(empty)
    )


# --- columns of the log ------------------------------------------------------------------------


def _times(tree: Tree, trouble: _Trouble) -> pa.Array:
    """Time and its nanosecond part in microseconds; the part below is cut off."""
    seconds = tree.time.fill_null(0).to_numpy().astype(np.int64)
    nanos = tree.time_ns.fill_null(0).to_numpy().astype(np.int64)
    over = nanos > _NANOS_MAX
    if over.any():
        trouble.note(np.flatnonzero(over).tolist(), "nanosecond part is over 999999999")
        nanos = np.where(over, 0, nanos)
    missing = None
    if tree.time.null_count:
        missing = tree.time.is_null().to_numpy(zero_copy_only=False)
        trouble.note(np.flatnonzero(missing).tolist(), "time is missing")
    return pa.array(seconds * 1_000_000 + nanos // 1_000, mask=missing).cast(TIMESTAMP)


def _log_columns(tree: Tree, declared: Sequence[Declared], trouble: _Trouble) -> dict[str, pa.Array]:
    """The declared columns and `__rest__`."""
    pairs = _Pairs.of(tree, declared, trouble)
    columns = {d.name: pairs.column(d, tree.logs, trouble) for d in declared if d.pii != "drop"}
    columns["__rest__"] = pairs.rest(tree.logs)
    return columns


@dataclass
class _Pairs:
    """The (key, value) pairs of a page, in order of the page, and in `order` grouped by key.

    rows     the log each pair belongs to
    codes    each pair's key as a place in `names`; `starts` says where a key begins in `order`
    shown    pairs whose value is shown: all but the earlier ones of a repeated key; None means all
    broken   pairs whose value was not UTF-8, replaced in `text`; None means none
    to_rest  pairs that go to `__rest__`
    """

    names: list[str]
    text: pa.Array
    rows: Ints
    codes: Ints
    order: Ints
    starts: Ints
    shown: NDArray[np.bool_] | None
    broken: NDArray[np.bool_] | None
    to_rest: NDArray[np.bool_]

    @staticmethod
    def of(tree: Tree, declared: Sequence[Declared], trouble: _Trouble) -> _Pairs:
        rows, values = tree.log_of_pair, tree.values
        names, codes = _key_codes(tree.keys, rows, trouble)
        pii = {d.name: d.pii for d in declared}
        quiet = np.array([pii.get(n) == "drop" for n in names], dtype=np.bool_)
        undeclared = np.array([n not in pii for n in names], dtype=np.bool_)

        def note(pairs: Ints, cause: str) -> None:
            spots = {(int(rows[p]), int(codes[p])) for p in pairs if not quiet[codes[p]]}
            for row, code in sorted(spots):
                trouble.note((row,), cause.format(printable(names[code])))

        if values.null_count:
            note(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)), "{} has no value")
            values = values.fill_null(b"")
        values = _hashed(values, codes, [c for c, n in enumerate(names) if pii.get(n) == "hash"])
        text, broken = _as_text(values)
        if broken is not None:
            note(np.flatnonzero(broken), "{} is not UTF-8")
        order, starts = _by_code(codes, len(names))
        earlier = _earlier_ones(rows, codes, order)
        shown = None
        to_rest = undeclared[codes] if undeclared.any() else np.zeros(len(codes), dtype=np.bool_)
        if len(earlier):
            note(earlier, "repeated key {}")
            shown = np.ones(len(codes), dtype=np.bool_)
            shown[earlier] = False
            to_rest &= shown
        return _Pairs(names, text, rows, codes, order, starts, shown, broken, to_rest)

    def column(self, declared: Declared, logs: int, trouble: _Trouble) -> pa.Array:
        """One value a log, null where the key is absent or its value does not fit."""
        if declared.name not in self.names:
            return pa.nulls(logs, declared.type)
        code = self.names.index(declared.name)
        pairs = self.order[self.starts[code] : self.starts[code + 1]]
        if self.shown is not None:
            pairs = pairs[self.shown[pairs]]
        if self.broken is not None:
            self.to_rest[pairs[self.broken[pairs]]] = True
            pairs = pairs[~self.broken[pairs]]
        if len(pairs) == logs:
            at = pa.array(pairs)
        else:
            pair_of_row = np.full(logs, -1, dtype=np.int64)
            pair_of_row[self.rows[pairs]] = pairs
            at = pa.array(pair_of_row, mask=pair_of_row < 0)
        text = pc.take(self.text, at, boundscheck=False)
        if declared.convert is None:
            return text
        values = declared.convert(text)
        if values.null_count > text.null_count:
            misfit = pc.and_(values.is_null(), text.is_valid()).to_numpy(zero_copy_only=False)
            self.to_rest[at.filter(pa.array(misfit)).to_numpy()] = True
            cause = f"{declared.name} is not {declared.label or declared.type}"
            trouble.note(np.flatnonzero(misfit).tolist(), cause)
        return values

    def rest(self, logs: int) -> pa.Array:
        """What no column took, as a map a log; null when nothing is left."""
        pairs = np.flatnonzero(self.to_rest)
        if not len(pairs):
            return pa.nulls(logs, TEXT_MAP)
        offsets = np.zeros(logs + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.rows[pairs], minlength=logs), out=offsets[1:])
        keys = pa.array(self.names, pa.string()).take(pa.array(self.codes[pairs]))
        return _maps(offsets, keys, self.text.take(pa.array(pairs)))


def _key_codes(keys: pa.Array, rows: Ints, trouble: _Trouble) -> tuple[list[str], Ints]:
    """The distinct keys as text, and each pair's place among them."""
    if keys.null_count:
        missing = keys.is_null().to_numpy(zero_copy_only=False)
        trouble.note(np.unique(rows[missing]).tolist(), "a key is missing")
        keys = keys.fill_null(b"")
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    places: dict[str, int] = {}
    place_of_code = []
    for code, key in enumerate(encoded.dictionary.to_pylist()):
        if not is_utf8(key):
            trouble.note(np.unique(rows[codes == code]).tolist(), "a key is not UTF-8")
        place_of_code.append(places.setdefault(key.decode("utf-8", "replace"), len(places)))
    if len(places) < len(place_of_code):  # two broken keys may look alike once replaced
        codes = np.array(place_of_code, dtype=np.int32)[codes]
    return list(places), codes


def _hashed(values: pa.Array, codes: Ints, which: list[int]) -> pa.Array:
    """`values` with those of the keys `which` as SHA-256 in hex."""
    if not which:
        return values
    chosen = pa.array(np.isin(codes, which))
    plain = values.filter(chosen).to_pylist()
    digests = {value: digest(value) for value in set(plain)}
    return pc.replace_with_mask(values, chosen, pa.array([digests[v] for v in plain], pa.binary()))


def _as_text(values: pa.Array) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """`values` as strings, and which were not UTF-8 and had bytes replaced."""
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        pass
    broken = np.zeros(len(values), dtype=np.bool_)
    for begin in range(0, len(values), _UTF8_CHUNK):
        chunk = values[begin : begin + _UTF8_CHUNK]
        try:
            chunk.cast(pa.string())
        except pa.ArrowInvalid:
            broken[begin : begin + len(chunk)] = [not is_utf8(v) for v in chunk.to_pylist()]
    mask = pa.array(broken)
    shown = [v.decode("utf-8", "replace").encode() for v in values.filter(mask).to_pylist()]
    return pc.replace_with_mask(values, mask, pa.array(shown, pa.binary())).cast(pa.string()), broken


def _by_code(codes: Ints, kinds: int) -> tuple[Ints, Ints]:
    """Pairs ordered by key and, within one, by place; and where each key begins in that order."""
    narrow = codes.astype(np.uint16) if kinds <= 2**16 else codes  # numpy sorts 16 bits by radix
    starts = np.zeros(kinds + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=kinds), out=starts[1:])
    return np.argsort(narrow, kind="stable"), starts


def _earlier_ones(rows: Ints, codes: Ints, order: Ints) -> Ints:
    """Pairs that another pair of the same log and key follows."""
    sorted_rows, sorted_codes = rows[order], codes[order]
    again = (sorted_rows[1:] == sorted_rows[:-1]) & (sorted_codes[1:] == sorted_codes[:-1])
    earlier: Ints = order[:-1][again]
    return earlier
