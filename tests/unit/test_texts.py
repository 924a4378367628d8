"""Texts that are not UTF-8, as a person reads them."""

import base64

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sls_io.decoding.texts import as_text, by_code, earlier_ones, escaped, key_codes, numbered, replaced


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", ""),
        (b"a\xffb", "a\ufffdb"),
        (b"\xff" * 65_536, "\ufffd" * 65_536),
        (b"\xff" * 65_537, "\ufffd" * 65_536 + " ... and 1 bytes more"),
        (b"a" * 65_535 + "é".encode() + b"\xff", "a" * 65_535 + "\ufffd ... and 2 bytes more"),
    ],
    ids=["empty", "short", "at the limit", "over it", "cut in a letter"],
)
def test_of_a_long_broken_value_the_beginning_is_shown(value: bytes, text: str) -> None:
    assert replaced(value) == text


def test_what_stands_nowhere_else_is_shown_whole_in_a_form_that_is_not_four_times_as_long() -> None:
    short, long = b"a\xff" * 32_768, b"a\xff" * 32_768 + b"b"
    texts, broken = as_text(pa.array([b"ok", short, None, long]), escaped)
    assert texts[1].as_py() == "a\\xff" * 32_768
    shown = texts[3].as_py()
    assert shown.startswith("base64:") and base64.b64decode(shown.removeprefix("base64:")) == long
    assert broken is not None and broken.tolist() == [False, True, False, True]


@pytest.mark.parametrize("size", [1, 100, 300_000, 2_000_000])
def test_texts_are_the_same_however_many_are_looked_at_together(size: int) -> None:
    values = [b"x" * size, b"", None, b"\xff" + b"y" * size, b"z"] * (3 if size > 100 else 2000)
    texts, broken = as_text(pa.array(values), lambda value: value[1:])
    assert texts.to_pylist() == [
        None if v is None else (v[1:] if v.startswith(b"\xff") else v).decode() for v in values
    ]
    assert broken is not None and broken.tolist() == [v is not None and v[:1] == b"\xff" for v in values]


_KEYS = st.lists(st.sampled_from([b"a", b"bb", b"", b"\xff", b"\xfe", "é".encode()]), max_size=4)
_LOGS = st.one_of(
    st.lists(_KEYS, max_size=5), st.builds(lambda keys, times: [keys] * times, _KEYS, st.integers(0, 5))
)


@given(logs=_LOGS, before=st.integers(0, 2))
@example(logs=[[b"a", b"bb"]] * 3, before=1)
@example(logs=[[b"a", b"a"]] * 3, before=0)
@example(logs=[[b"a", b"bb"], [b"bb", b"a"]], before=0)
@example(logs=[[b"a", b"a"], [], [b"a"]], before=0)
@example(logs=[[b"\xff", b"\xfe"]] * 2, before=0)
@example(logs=[[b"a", b"bb", b"a", b"bb"], []], before=0)
@example(logs=[[b"ab", b"c"], [b"a", b"bc"]], before=0)
@example(logs=[[b""]] * 2, before=0)
def test_keys_that_every_log_has_alike_are_numbered_as_any_others(
    logs: list[list[bytes]], before: int
) -> None:
    """`before`: keys of other logs in front, in the same array."""
    flat = [key for log in logs for key in log]
    keys = pa.array([b"other"] * before + flat, pa.binary())[before:]
    rows = np.repeat(np.arange(len(logs), dtype=np.int64), [len(log) for log in logs])

    found = numbered(keys, rows, len(logs), replaced)

    names, codes, broken = key_codes(keys, replaced)
    order, starts = by_code(codes, len(names))
    assert found.names.to_pylist() == names.to_pylist()
    assert found.codes.tolist() == codes.tolist() and found.codes.dtype == codes.dtype
    assert (found.broken is None) == (broken is None)
    assert found.broken is None or broken is None or found.broken.tolist() == broken.tolist()
    assert found.order.tolist() == order.tolist() and found.order.dtype == order.dtype
    assert found.starts.tolist() == starts.tolist()
    assert found.earlier.tolist() == earlier_ones(rows, order, starts).tolist()
