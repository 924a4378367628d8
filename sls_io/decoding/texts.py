"""Columns of keys and values: bytes made text, distinct keys numbered, repeated ones found.

All of it over whole Arrow columns; Python looks at single values only where bytes are not UTF-8, and then
at a few thousand at a time.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.decoding.nested import Ints, is_utf8, lengths_of

TEXT_MAP = pa.map_(pa.string(), pa.string())
_CHUNK = 4096
_CHUNK_BYTES = 1024 * 1024
SHOWN_BYTES = 64 * 1024
"""Longer texts that are not UTF-8 are shown in a shorter form."""


def key_codes(
    keys: pa.Array, shown: Callable[[bytes], str | bytes]
) -> tuple[pa.Array, Ints, NDArray[np.bool_] | None]:
    """(the distinct keys as text, each key's place among them, which keys were not UTF-8; None: all were).

    Two broken keys that look alike as text count as one key.
    """
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    names, broken = as_text(encoded.dictionary, shown)
    if broken is None:
        return names, codes, None
    again = names.dictionary_encode()
    return again.dictionary, again.indices.to_numpy()[codes], broken[codes]


@dataclass(frozen=True)
class Numbered:
    """Keys of logs as numbers.

    names, codes, broken  as `key_codes`
    order, starts         as `by_code`
    earlier               as `earlier_ones`
    """

    names: pa.Array
    codes: NDArray[Any]
    broken: NDArray[np.bool_] | None
    order: Ints
    starts: Ints
    earlier: Ints


def numbered(keys: pa.Array, rows: Ints, logs: int, shown: Callable[[bytes], str | bytes]) -> Numbered:
    """The keys of so many logs, `rows` says whose, without a null.

    Most logs of a logstore have the same keys in the same order. Then one look at their bytes says all, and
    nothing is hashed or sorted; the answer is the same.

    Worked example: three logs with the keys a and b each. `codes` is 0 1 0 1 0 1, `order` 0 2 4 1 3 5,
    `starts` 0 3 6: what counting and sorting would give.
    """
    each = _keys_of_each(keys, rows, logs)
    if each:
        names, broken = as_text(keys[:each], shown)
        # Two broken keys may look alike as text.
        if broken is None and len(names.unique()) == each:
            tiled = np.tile(np.arange(each, dtype=np.int32), logs)
            order = np.arange(logs * each, dtype=np.int64).reshape(logs, each).T.ravel()
            starts = np.arange(each + 1, dtype=np.int64) * logs
            return Numbered(names, tiled, None, order, starts, np.zeros(0, dtype=np.int64))
    names, codes, broken = key_codes(keys, shown)
    order, starts = by_code(codes, len(names))
    return Numbered(names, codes, broken, order, starts, earlier_ones(rows, order, starts))


def _keys_of_each(keys: pa.Array, rows: Ints, logs: int) -> int:
    """How many keys each log has, where all have those of the first, in its order; else 0.

    All keys stand in one buffer. Where it is the same as itself, begun one log later, each log has the keys
    of the one before it, and so of the first. The lengths are compared, too: `ab` `c` and `a` `bc` have the
    same bytes.
    """
    each, left = divmod(len(keys), logs) if logs else (0, 0)
    if not each or left:
        return 0
    every = np.arange(logs)
    if not (np.array_equal(rows[::each], every) and np.array_equal(rows[each - 1 :: each], every)):
        return 0
    offsets = np.frombuffer(keys.buffers()[1], dtype=np.int32)[keys.offset : keys.offset + len(keys) + 1]
    lengths, size = np.diff(offsets), int(offsets[each] - offsets[0])
    if not np.array_equal(lengths[each:], lengths[:-each]):
        return 0
    if not size:
        return each
    data = np.frombuffer(keys.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    return each if np.array_equal(data[size:], data[:-size]) else 0


def as_text(
    values: pa.Array, shown: Callable[[bytes], str | bytes]
) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """`values` as strings, and which of them were not UTF-8 (None: all were UTF-8). `shown` makes the text of
    those.

    As a whole where all is UTF-8. Else piece by piece, so that one bad value costs a few thousand a look, and
    not all of a column.
    """
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        pass
    broken = np.zeros(len(values), dtype=np.bool_)
    texts = []
    for begin, end in _pieces(values):
        piece = values[begin:end]
        try:
            texts.append(piece.cast(pa.string()))
        except pa.ArrowInvalid:
            plain = piece.to_pylist()
            broken[begin:end] = [v is not None and not is_utf8(v) for v in plain]
            for place in np.flatnonzero(broken[begin:end]).tolist():
                plain[place] = shown(plain[place])
            texts.append(pa.array(plain, pa.string()))
    return texts[0] if len(texts) == 1 else pa.concat_arrays(texts), broken


def _pieces(values: pa.Array) -> Iterator[tuple[int, int]]:
    """[begin, end) of values that Python may look at together: a few thousand, or about a megabyte."""
    ends = np.cumsum(lengths_of(values), dtype=np.int64)
    begin = 0
    while begin < len(values):
        room = (int(ends[begin - 1]) if begin else 0) + _CHUNK_BYTES
        fits = int(np.searchsorted(ends, room, side="right"))
        end = min(begin + _CHUNK, max(begin + 1, fits))
        yield begin, end
        begin = end


def escaped(value: bytes) -> str | bytes:
    """As text with \\xNN for bytes that are not UTF-8; a longer one whole as base64.

    Of topic, source and tags no other bytes are kept, so nothing of them is left out. But \\xNN is four
    bytes for one: ten megabytes of 0xff would be forty as text, and as many again in each buffer they pass.
    """
    if len(value) <= SHOWN_BYTES:
        return value.decode("utf-8", "backslashreplace")
    return b"base64:" + base64.b64encode(value)


def replaced(value: bytes) -> str:
    """As text, with U+FFFD for bytes that are not UTF-8; of a long one the beginning.

    It is what a person reads; the bytes themselves stand in the row's `__raw__`. Ten megabytes of 0xff
    would be thirty as text, and as many again in each column and file buffer they pass.
    """
    shown = value[:SHOWN_BYTES].decode("utf-8", "replace")
    left = len(value) - SHOWN_BYTES
    return shown if left <= 0 else f"{shown} ... and {left} bytes more"


def by_code(codes: Ints, kinds: int) -> tuple[Ints, Ints]:
    """Pairs ordered by key and, within one, by place; and where each key begins in that order."""
    narrow = codes.astype(np.uint16) if kinds <= 2**16 else codes  # numpy sorts 16 bits by radix
    starts = np.zeros(kinds + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=kinds), out=starts[1:])
    return np.argsort(narrow, kind="stable"), starts


def earlier_ones(rows: Ints, order: Ints, starts: Ints) -> Ints:
    """Pairs that another pair of the same log and key follows, in order of the page; `order` and `starts`
    are those of `by_code`.

    Worked example, as in `Pairs`: the pairs a b b a a of the logs 0 0 1 1 1. By key they are 0 3 4, then 1 2,
    of the logs 0 1 1 and 0 1. Two neighbours of one log are 3 and 4: 3 is the earlier. Where one key ends and
    the next begins neighbours are no pair, so those places are cleared: the last a and the first b may be of
    one log.
    """
    sorted_rows = rows[order]
    again = sorted_rows[1:] == sorted_rows[:-1]
    edges = starts[1:-1]
    again[edges[(edges > 0) & (edges < len(rows))] - 1] = False
    earlier: Ints = np.sort(order[:-1][again])
    return earlier


def maps(offsets: Ints, keys: pa.Array, items: pa.Array) -> pa.MapArray:
    """Maps from list offsets; an empty one is null."""
    empty = np.diff(offsets) == 0
    return pa.MapArray.from_arrays(
        pa.array(offsets.astype(np.int32)), keys, items, type=TEXT_MAP, mask=pa.array(empty)
    )
