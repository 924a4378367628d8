"""Columns that are read from bytes: another encoding, a decoder of one's own; against Python's own codecs."""

import gzip
import pickle
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.landing.table.contract import Contract
from sls_io.values.errors import ConfigError
from tests.worlds.pages import declared, decode

MODULE = "tests.unit.custom_decoders:"
ENCODINGS = (
    "gbk",
    "gb18030",
    "big5",
    "shift_jis",
    "euc_kr",
    "latin-1",
    "cp1252",
    "utf-16-le",
    "utf_7",
    "koi8-r",
)
TEXT = "中文日志"


def plain(value: bytes, encoding: str) -> str | None:
    """What Python's own codec says; None where that is no text."""
    try:
        text = value.decode(encoding)
        text.encode()
    except UnicodeError:
        return None
    return text


@given(
    st.sampled_from(ENCODINGS), st.lists(st.one_of(st.binary(max_size=12), st.text(max_size=6)), max_size=8)
)
def test_a_text_is_what_pythons_codec_says_and_what_it_refuses_is_marked_and_kept(
    encoding: str, values: list[bytes | str]
) -> None:
    sent = [v if isinstance(v, bytes) else v.encode(encoding, "ignore") for v in values]
    found = decode(declared(f"string({encoding})"), *([("s", v), ("t", b"x")] for v in sent))
    for value, row in zip(sent, found, strict=True):
        text = plain(value, encoding)
        fits = text is not None
        assert row["s"] == text
        rest = {"t": "x"} if fits else {"t": "x", "s": value.decode("utf-8", "replace")}
        assert row["__rest__"] == rest
        assert row["__error__"] == (None if fits else f"s is not string({encoding})")
        assert (row["__raw__"] is None) == fits


def test_utf8_that_is_no_text_of_the_declared_encoding_does_not_fit() -> None:
    utf8 = "中".encode()
    with pytest.raises(UnicodeError):
        utf8.decode("gbk")
    (row,) = decode(declared("string(gbk)"), [("s", utf8)])
    assert (row["s"], row["__rest__"], row["__error__"]) == (None, {"s": "中"}, "s is not string(gbk)")


def test_other_keys_a_repeated_key_and_an_absent_one_are_as_ever() -> None:
    one, bad = TEXT.encode("gbk"), b"\xff"
    found = decode(
        declared("string(gbk)"),
        [("s", one), ("t", one)],
        [("s", bad), ("s", one)],
        [("t", b"x")],
        [("s", one), ("s", bad)],
        [("s", b"")],
    )
    assert [row["s"] for row in found] == [TEXT, TEXT, None, None, ""]
    assert [row["__error__"] for row in found] == [
        "t is not UTF-8",
        "repeated key s",
        None,
        "repeated key s; s is not string(gbk)",
        None,
    ]
    assert [row["__rest__"] for row in found] == [
        {"t": one.decode("utf-8", "replace")},
        None,
        {"t": "x"},
        {"s": "\ufffd"},
        None,
    ]


def test_a_decoder_of_ones_own_makes_values_of_bytes() -> None:
    numbers = [0.5, -2.0, 0.5]
    logs = [[("s", struct.pack("<f", n))] for n in numbers]
    found = decode(declared(f"custom({MODULE}float_le, double)"), *logs, [("s", b"no")])
    assert [row["s"] for row in found] == [*numbers, None]
    assert found[3]["__error__"] == f"s is not custom({MODULE}float_le, double)"
    assert (found[3]["__rest__"], found[0]["__error__"]) == ({"s": "no"}, None)


def test_a_decoder_that_raises_costs_the_value_that_it_does_not_bear_and_no_other() -> None:
    packed = [gzip.compress(t.encode()) for t in ("a", "b", "c")]
    sent = [packed[0], b"secret", packed[1], b"", packed[2]]
    found = decode(declared(f"custom({MODULE}unzipped, string)"), *([("s", v)] for v in sent))
    assert [row["s"] for row in found] == ["a", None, "b", "", "c"]
    assert [row["__error__"] is not None for row in found] == [False, True, False, False, False]


def test_a_decoder_that_would_end_the_process_costs_its_values_only() -> None:
    found = decode(declared(f"custom({MODULE}leaves, string)"), [("s", b"a")], [("t", b"b")])
    assert [row["__error__"] is not None for row in found] == [True, False]


@pytest.mark.parametrize(
    ("name", "found"), [("of_another_type", "2 of int64"), ("too_few", "1 of string"), ("no_array", "list")]
)
def test_a_decoder_that_breaks_its_word_is_named_and_nothing_is_made_up(name: str, found: str) -> None:
    one = declared(f"custom({MODULE}{name}, string)")
    with pytest.raises(ConfigError, match=f"{MODULE}{name}.*given 2 values and answered {found}"):
        decode(one, [("s", b"a")], [("s", b"b")])


@pytest.mark.parametrize(
    ("decoder", "good", "bad"),
    [("moments, timestamp", b"5", b"4611686018427387904"), ("as_it_is, string", b"a", b"\xff")],
)
def test_an_answer_that_no_reader_could_read_does_not_fit(decoder: str, good: bytes, bad: bytes) -> None:
    found = decode(declared(f"custom({MODULE}{decoder})"), [("s", good)], [("s", bad)], [("s", good)])
    assert [row["s"] is None for row in found] == [False, True, False]
    assert [row["__error__"] is not None for row in found] == [False, True, False]


def test_a_decoder_that_writes_over_what_it_was_given_changes_nothing_else() -> None:
    one = [("s", b"abc"), ("t", b"xyz"), ("t", b"x")]
    found = decode(declared(f"custom({MODULE}blanked, string)"), one, one, [("s", b"d"), ("u", b"v")])
    expected = decode(declared("string"), one, one, [("s", b"d"), ("u", b"v")])
    assert found == expected and found[0]["__raw__"] is not None


def test_types_that_a_decoder_may_have() -> None:
    wanted = {"string": pa.string(), "long": pa.int64(), "decimal(9,2)": pa.decimal128(9, 2)}
    wanted |= {"timestamp": pa.timestamp("us", tz="UTC"), "date": pa.date32(), "boolean": pa.bool_()}
    for text, kind in wanted.items():
        one = declared(f"custom({MODULE}float_le, {text})")
        assert (one.type, one.of_bytes) == (kind, True)
        assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    ("kind", "cure"),
    [
        ("string(hex)", "unknown encoding 'hex'; use a name such as gbk"),
        ("string(idna)", "unknown encoding 'idna'"),
        ("string(klingon)", "unknown encoding 'klingon'"),
        ("string()", "use one of string"),
        (f"custom({MODULE}absent, string)", "failed \\(AttributeError\\)"),
        ("custom(no.such:f, string)", "failed \\(ModuleNotFoundError\\)"),
        (f"custom({MODULE}float_le, hash)", "a decoder answers values of a type, not 'hash'"),
        (f"custom({MODULE}float_le, integer)", "use one of string"),
        ("custom(float_le, string)", "use one of string"),
    ],
)
def test_a_declaration_that_cannot_be_names_the_key_and_the_cure(kind: str, cure: str) -> None:
    with pytest.raises(ConfigError, match=f"columns.s: .*{cure}"):
        Contract.from_columns({"s": kind})
