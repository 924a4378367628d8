"""Texts that are not UTF-8, as a person reads them."""

import pytest

from sls_io.texts import replaced


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
