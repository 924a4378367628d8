"""Columns of keys and values: bytes made text, distinct keys numbered, repeated ones found.

All of it over whole Arrow columns; Python looks at single values only where bytes are not UTF-8, and then
at a few thousand at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.nested import Ints, is_utf8

TEXT_MAP = pa.map_(pa.string(), pa.string())
_CHUNK = 4096
_SHOWN_BYTES = 64 * 1024


def key_codes(
    keys: pa.Array, shown: Callable[[bytes], str]
) -> tuple[pa.Array, Ints, NDArray[np.bool_] | None]:
    """(the distinct keys as text, each key's place among them, which keys were not UTF-8; None: all were).

    Two broken keys may look alike once they are shown as text; they are one then.
    """
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy()
    names, broken = as_text(encoded.dictionary, shown)
    if broken is None:
        return names, codes, None
    again = names.dictionary_encode()
    return again.dictionary, again.indices.to_numpy()[codes], broken[codes]


def as_text(values: pa.Array, shown: Callable[[bytes], str]) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """`values` as strings, and which were not UTF-8 and are what `shown` makes of them; None: all were."""
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        pass
    broken = np.zeros(len(values), dtype=np.bool_)
    texts = []
    for begin in range(0, len(values), _CHUNK):
        chunk = values[begin : begin + _CHUNK]
        try:
            texts.append(chunk.cast(pa.string()))
        except pa.ArrowInvalid:
            plain = chunk.to_pylist()
            broken[begin : begin + len(chunk)] = [v is not None and not is_utf8(v) for v in plain]
            texts.append(pa.array([None if v is None else shown(v) for v in plain], pa.string()))
    return pa.concat_arrays(texts), broken


def replaced(value: bytes) -> str:
    """As text, with U+FFFD for bytes that are not UTF-8; of a long one the beginning.

    It is what a person reads; the bytes themselves stand in the row's `__raw__`. Ten megabytes of 0xff
    would be thirty as text, and as many again in each column and file buffer they pass.
    """
    shown = value[:_SHOWN_BYTES].decode("utf-8", "replace")
    left = len(value) - _SHOWN_BYTES
    return shown if left <= 0 else f"{shown} ... and {left} bytes more"


def by_code(codes: Ints, kinds: int) -> tuple[Ints, Ints]:
    """Pairs ordered by key and, within one, by place; and where each key begins in that order."""
    narrow = codes.astype(np.uint16) if kinds <= 2**16 else codes  # numpy sorts 16 bits by radix
    starts = np.zeros(kinds + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=kinds), out=starts[1:])
    return np.argsort(narrow, kind="stable"), starts


def earlier_ones(rows: Ints, order: Ints, starts: Ints) -> Ints:
    """Pairs that another pair of the same log and key follows, in order of the page; `order` and `starts`
    are those of `by_code`."""
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
