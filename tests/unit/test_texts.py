"""Texts that are not UTF-8, as a person reads them."""

import base64

import pyarrow as pa
import pytest

from sls_io.decoding.texts import as_text, escaped, replaced


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
