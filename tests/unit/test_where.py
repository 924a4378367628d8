"""A filter takes the rows that it says and no other: every value of every type can be written in it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)

from pipelines.landing.contents.where import FILTER_CHARS_MAX, parse
from sls_io.values.errors import ConfigError

NAMES = ["a.b", "a b", '"q"', "select", "ä", "0leading", "x" * 200, "a-b", "in", "a.b.c'd", "日志"]


@dataclass(frozen=True)
class Kind:
    """A column type, its values, and how one is written in a filter."""

    type: IcebergType
    values: st.SearchStrategy[Any]
    written: Callable[[Any], str]


def plain(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def escaped(text: str) -> str:
    return "E'" + "".join(f"\\U{ord(c):08x}" for c in text) + "'"


def short(text: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\\": "\\\\", "'": "\\'"}
    return "e'" + "".join(known.get(c, c) for c in text) + "'"


HOSTILE = "\n\r\t\0\\'\"%_ e.\u2028\ud7ff\U0010ffff😀ſ"
TEXTS = st.text(st.one_of(st.sampled_from(HOSTILE), st.characters(codec="utf-8")))
FLOATS32 = st.floats(width=32, allow_nan=False)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda at: at.replace(tzinfo=UTC))
WIDE = Context(prec=60)
KINDS = {
    "string": Kind(StringType(), TEXTS, plain),
    "string, escaped": Kind(StringType(), TEXTS, escaped),
    "string, short escapes": Kind(StringType(), TEXTS, short),
    "boolean": Kind(BooleanType(), st.booleans(), lambda v: str(v).upper()),
    "int": Kind(IntegerType(), st.integers(-(2**31), 2**31 - 1), str),
    "long": Kind(LongType(), st.integers(-(2**63), 2**63 - 1), str),
    "long in quotes": Kind(LongType(), st.integers(-(2**63), 2**63 - 1), lambda v: f"'{v}'"),
    "float": Kind(FloatType(), FLOATS32.map(lambda v: float(np.float32(v))), lambda v: f"'{v!r}'"),
    "double": Kind(DoubleType(), st.floats(allow_nan=False), lambda v: f"'{v!r}'"),
    "double, bare": Kind(DoubleType(), st.floats(allow_nan=False, allow_infinity=False), repr),
    "decimal(38,10)": Kind(
        DecimalType(38, 10),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda v: Decimal(v).scaleb(-10, WIDE)),
        str,
    ),
    "date": Kind(DateType(), st.dates(), lambda v: f"'{v.isoformat()}'"),
    "timestamp": Kind(TimestamptzType(), MOMENTS, lambda v: f"'{v.isoformat()}'"),
    "timestamp of another zone": Kind(
        TimestamptzType(),
        MOMENTS,
        lambda v: f"'{v.astimezone(timezone(timedelta(hours=-7, minutes=-30))).isoformat()}'",
    ),
    "binary": Kind(BinaryType(), st.binary(), lambda v: f"X'{v.hex()}'"),
}


def schema(kind: IcebergType, *names: str) -> Schema:
    return Schema(*(NestedField(i, name, kind, required=False) for i, name in enumerate(names, start=1)))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def taken(where: str, kind: IcebergType, values: list[Any], name: str = "c") -> list[bool]:
    """Which of the values a filter on a column of this type takes."""
    batch = pa.RecordBatch.from_arrays([pa.array(values, schema_to_pyarrow(kind))], [name])
    found: list[bool] = parse(where, schema(kind, name)).taken(batch).to_pylist()
    return found


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_a_row_with_the_value_is_taken_and_no_other(kind: Kind, data: st.DataObject, name: str) -> None:
    values = [None, *data.draw(st.lists(kind.values, max_size=8))]
    wanted = data.draw(
        st.one_of(kind.values, st.sampled_from([v for v in values if v is not None] or [None]))
    )
    assume(wanted is not None)
    values.append(wanted)
    text, column = kind.written(wanted), quoted(name)

    equal = [v is not None and v == wanted for v in values]

    for where in (f"{column} = {text}", f"{text} == {column}", f"{column} in ({text}, {text})"):
        assert taken(where, kind.type, values, name) == equal, where
    other = [v is not None and v != wanted for v in values]
    for where in (f"{column} != {text}", f"not {column} = {text}", f"{column} not in ({text})"):
        assert taken(where, kind.type, values, name) == other, where


@pytest.mark.parametrize("kind", [k for n, k in KINDS.items() if n != "boolean"], ids=lambda k: str(k.type))
@given(data=st.data())
def test_an_order_is_the_order_of_the_values(kind: Kind, data: st.DataObject) -> None:
    values = data.draw(st.lists(kind.values, min_size=1, max_size=8))
    edge = data.draw(st.sampled_from(values))
    text = kind.written(edge)
    below = [v.encode() < edge.encode() if isinstance(v, str) else v < edge for v in values]

    assert taken(f"c < {text}", kind.type, values) == below
    assert taken(f"c >= {text}", kind.type, values) == [not b for b in below]
    assert taken(f"{text} > c", kind.type, values) == below
    assert taken(f"c between {text} and {text}", kind.type, values) == [v == edge for v in values]


@given(values=st.lists(TEXTS, max_size=8), prefix=TEXTS)
def test_like_takes_what_begins_with_a_text(values: list[str], prefix: str) -> None:
    values = [*values, prefix, prefix + "\nmore", "more" + prefix]
    pattern = "".join(f"\\{c}" if c in "%_\\" else c for c in prefix)
    assert taken(f"c like {escaped(pattern + '%')}", StringType(), values) == [
        v.startswith(prefix) for v in values
    ]
    assert taken(f"c not like {plain(pattern)}", StringType(), values) == [v != prefix for v in values]


def test_a_pattern_is_as_long_as_can_be_compared() -> None:
    longest = "\U0010ffff" * 1000
    assert taken(f"c like {plain(longest)}", StringType(), [longest, longest[1:]]) == [True, False]
    with pytest.raises(ConfigError, match="at most 1000"):
        parse(f"c like {plain(longest + 'x')}", schema(StringType(), "c"))


def test_zeros_are_equal_and_nan_is_nothing() -> None:
    values = [0.0, -0.0, math.nan, 1e299, None, math.inf]
    for zero in ("0", "-0.0", "'0'"):
        assert taken(f"c = {zero}", DoubleType(), values) == [True, True, False, False, False, False]
        assert taken(f"c in ({zero}, 5)", DoubleType(), values) == [True, True, False, False, False, False]
    assert taken("c is nan", DoubleType(), values) == [False, False, True, False, False, False]
    assert taken("c is not nan", DoubleType(), values) == [True, True, False, True, False, True]
    assert taken("c = 1e299", DoubleType(), values) == [False, False, False, True, False, False]
    assert taken("c = 'inf'", DoubleType(), values) == [False, False, False, False, False, True]


def test_a_float_is_what_its_text_says_exactly_or_as_a_row_shows_it() -> None:
    assert taken("c = 0.1", DoubleType(), [0.1, 0.1 + 2**-56]) == [True, False]
    assert taken("c = 9007199254740992", DoubleType(), [2.0**53, 2.0**53 + 2]) == [True, False]
    narrow = float(np.float32(0.1))
    for text in ("0.1", "0.10000000149011612", "0.100000001490116119384765625"):
        assert taken(f"c = {text}", FloatType(), [narrow, 0.5]) == [True, False]


def test_a_null_is_taken_by_no_comparison_and_by_no_opposite() -> None:
    values = [None, 1, 2]
    assert taken("c is null", LongType(), values) == [True, False, False]
    assert taken("not c is null", LongType(), values) == [False, True, True]
    assert taken("c = 1 or c != 1", LongType(), values) == [False, True, True]
    assert taken("not (c = 1 and c is not null)", LongType(), values) == [True, False, True]


def test_and_binds_before_or() -> None:
    values = [1, 2, 3]
    assert taken("c = 1 or c = 2 and c = 3", LongType(), values) == [True, False, False]
    assert taken("(c = 1 or c = 2) and c = 2", LongType(), values) == [False, True, False]
    assert taken("not c = 1 and not not c = 3", LongType(), values) == [False, False, True]


@pytest.mark.parametrize("kind", [MapType(2, StringType(), 3, StringType()), ListType(2, StringType())])
def test_of_a_map_only_null_can_be_asked(kind: IcebergType) -> None:
    column: list[Any] = [None, [], [("k", "v")]] if isinstance(kind, MapType) else [None, [], ["v"]]
    assert taken("c is null", kind, column) == [True, False, False]
    assert taken("c is not null", kind, column) == [False, True, True]
    with pytest.raises(ConfigError, match="only `is null`"):
        parse("c = 'v'", schema(kind, "c"))


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (LongType(), "1.5", "whole number of 64 bits"),
        (LongType(), "9223372036854775808", "64 bits"),
        (LongType(), "9223372036854775807.0000000000000000000000000000000001", "64 bits"),
        (LongType(), "1e999999", "64 bits"),
        (IntegerType(), "2147483648", "32 bits"),
        (LongType(), "'secret'", "a number"),
        (LongType(), "true", "a number"),
        (StringType(), "5", "a text in quotes"),
        (BooleanType(), "'true'", "true or false"),
        (FloatType(), "1e299", "within its range"),
        (DoubleType(), "1e-400", "within its range"),
        (DoubleType(), "1e400", "within its range"),
        (DoubleType(), "9007199254740993", "can hold"),
        (DoubleType(), "0.1000000000000000001", "can hold"),
        (FloatType(), "16777217", "can hold"),
        (FloatType(), "7.1e-46", "can hold"),
        (DoubleType(), "'nan'", "is nan"),
        (DecimalType(5, 2), "1.005", "2 places"),
        (DecimalType(5, 2), "1000", "5 digits"),
        (DecimalType(5, 2), "1e30", "5 digits"),
        (DecimalType(5, 2), "'inf'", "finite"),
        (DateType(), "'2026-02-30'", "a day such as"),
        (TimestamptzType(), "'2026-11-20T07:00:00'", "with its zone"),
        (TimestamptzType(), "'2026-11-20T07:00:00.1234567+00:00'", "to the microsecond"),
        (BinaryType(), "'00'", "hex"),
        (StringType(), "'\ud800'", "UTF-8"),
    ],
    ids=lambda x: str(x)[:30].encode("ascii", "replace").decode(),
)
def test_a_value_that_the_column_cannot_have_is_refused_and_not_rounded(
    kind: IcebergType, value: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        parse(f"c = {value}", schema(kind, "c"))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "where",
    [
        "",
        "true",
        "c",
        "c =",
        "c = 'secret",
        "c = 1 2",
        "c = E'\\q secret'",
        "c = E'\\ud800'",
        "c = X'0'",
        "c in ()",
        "c = 1 and",
        "not",
        "c like 5",
        "c between 1 or 2",
        "c = 1; drop",
        "c like 'ends with \\'",
        "(" * 5000 + "c = '1'" + ")" * 5000,
        "c = 1e99999999999999999999",
        "c < true",
        "nothing = 1",
        "C = 1",
        "c = '" + "x" * FILTER_CHARS_MAX + "'",
    ],
    ids=lambda x: str(x)[:20],
)
def test_what_is_no_filter_is_refused_with_a_sentence_that_repeats_nothing(where: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(where, schema(StringType(), "c"))
    assert "--where" in str(raised.value) and "secret" not in str(raised.value)


def test_files_are_left_out_by_their_receive_hour_alone() -> None:
    both = Schema(
        NestedField(1, "__receive_hour__", TimestamptzType(), required=True),
        NestedField(2, "n", LongType(), required=False),
    )
    at = "__receive_hour__ < '2026-11-20T07:00:00+00:00'"
    assert "LessThan" in repr(parse(f"n = 1 and {at}", both).pruning)
    for where in ("n = 1", f"n = 1 or {at}", f"not {at}"):
        assert parse(where, both).pruning == AlwaysTrue(), where


def test_names_are_taken_as_they_are() -> None:
    names = schema(StringType(), *NAMES, "A", "a")
    for name in (*NAMES, "A", "a"):
        found = parse(f"{quoted(name)} = 'x'", names)
        assert found.columns == [name] and len(found.fields) == 1
    assert parse("a.b = 'x' and ä = 'y' and a-b = 'z'", names).columns == ["a-b", "a.b", "ä"]
    assert isinstance(parse("a = 'x'", names).taken(_row(names)).to_pylist(), list)


def _row(names: Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{f.name: "x" for f in names.fields}])


def test_days_and_moments_are_compared_as_such() -> None:
    assert taken("c < '2026-01-02'", DateType(), [date(2026, 1, 1), date(2026, 1, 2)]) == [True, False]
