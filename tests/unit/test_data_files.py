"""The bounds of a data file bound its rows, and what cannot be bounded is left out."""

import io
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, DoubleType, LongType, NestedField, StringType

from pipelines.landing.table.contract import arrow_schema
from pipelines.landing.table.data_files import metrics_of, parquet_writer

TYPES = {
    "text": StringType(),
    "bytes": BinaryType(),
    "small": DecimalType(12, 3),
    "large": DecimalType(38, 10),
    "double": DoubleType(),
    "long": LongType(),
}
SCHEMA = Schema(*(NestedField(n, name, kind) for n, (name, kind) in enumerate(TYPES.items(), start=1)))
NUMBER = {name: n for n, name in enumerate(TYPES, start=1)}


def metrics(*row_groups: dict[str, list[Any]], long: bool = False) -> dict[str, Any]:
    """The metrics of a file with these row groups; columns that are not named are null."""
    schema = arrow_schema(SCHEMA)
    writer = parquet_writer(io.BytesIO(), schema.empty_table(), {}, long=long)
    for columns in row_groups:
        rows = len(next(iter(columns.values())))
        arrays = [pa.array(columns.get(f.name, [None] * rows), f.type) for f in schema]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    writer.close()
    return metrics_of(writer, SCHEMA, {})


@pytest.mark.parametrize("value", ["\ud7ff" * 17, "a" * 15 + "\ud7ffb", "\U0010ffff" * 17])
def test_an_upper_bound_that_would_be_no_text_is_left_out(value: str) -> None:
    """U+D7FF raised by one is half of a pair: no text, and each landing of it died of that."""
    found = metrics({"text": [value, "a"]})
    assert NUMBER["text"] not in found["upper_bounds"]
    assert found["lower_bounds"][NUMBER["text"]]
    assert found["value_counts"][NUMBER["text"]] == 2


def test_a_row_group_without_bounds_takes_those_of_the_others_with_it() -> None:
    """Parquet leaves the bounds of values over 4 KB out. The other row groups say `a`, and a reader that
    looks for the long value would pass the file over."""
    found = metrics({"text": ["a"], "bytes": [b"a"]}, {"text": ["z" * 5000], "bytes": [b"z" * 5000]})
    for name in ("text", "bytes"):
        assert NUMBER[name] not in found["lower_bounds"] | found["upper_bounds"]


def test_a_file_of_long_texts_has_metrics_of_its_other_columns_and_warns_of_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = metrics({"text": ["z" * 5000, None], "bytes": [b"a", b"b"], "long": [1, None]}, long=True)
    bounded = found["lower_bounds"].keys() & found["upper_bounds"].keys()
    assert bounded == {NUMBER["long"]} == {n for n, nulls in found["null_value_counts"].items() if nulls == 1}
    assert not caplog.records


def test_a_row_group_of_nulls_takes_no_bounds_away() -> None:
    found = metrics({"text": ["b"]}, {"text": [None, None]}, {"text": ["a"]})
    assert (found["lower_bounds"][1], found["upper_bounds"][1]) == (b"a", b"b")


def test_a_file_of_nans_has_no_bounds_and_one_with_some_bounds_what_it_can() -> None:
    nan = float("nan")
    assert NUMBER["double"] not in metrics({"double": [nan, nan]})["upper_bounds"]
    assert NUMBER["double"] not in metrics({"double": [1.0]}, {"double": [nan]})["upper_bounds"]


def some(rng: random.Random, name: str) -> Any:
    """A value that is hard to bound."""
    if name == "text":
        points = ("a", "\x00", "\x7f", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "é")
        return "".join(rng.choice(points) for _ in range(rng.choice((0, 1, 15, 16, 17, 40, 5000))))
    if name == "bytes":
        return bytes(rng.choice((0, 127, 128, 255)) for _ in range(rng.choice((0, 1, 16, 17, 5000))))
    if name in ("small", "large"):
        digits, scale = (12, 3) if name == "small" else (38, 10)
        sign, size = rng.choice((0, 1)), rng.randrange(1, digits + 1)
        return Decimal((sign, tuple(rng.randrange(10) for _ in range(size)), -scale))
    if name == "double":
        return rng.choice((0.0, -0.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan")))
    return rng.choice((0, -1, 2**63 - 1, -(2**63), rng.randrange(10**6)))


def order(value: Any) -> Any:
    """How Iceberg orders it: texts by their UTF-8 bytes, bytes without a sign."""
    return value.encode() if isinstance(value, str) else value


def test_bounds_bound_whatever_a_file_holds() -> None:
    rng = random.Random(5)
    made = 0
    for _ in range(250):
        groups = [
            {name: [rng.choice((None, some(rng, name), some(rng, name))) for _ in range(3)] for name in TYPES}
            for _ in range(rng.choice((1, 2, 3)))
        ]
        found = metrics(*groups)
        for name, kind in TYPES.items():
            values = [v for g in groups for v in g[name] if v is not None and v == v]
            lower, upper = (found[side].get(NUMBER[name]) for side in ("lower_bounds", "upper_bounds"))
            for value in values:
                if lower is not None:
                    assert order(from_bytes(kind, lower)) <= order(value), (name, value)
                if upper is not None:
                    assert order(value) <= order(from_bytes(kind, upper)), (name, value)
            made += (lower is not None) + (upper is not None)
    assert made > 1000


def dictionaries(columns: dict[str, pa.Array]) -> set[str]:
    """The columns, as Parquet names them, that have a dictionary where these are the first rows of a file;
    they are read back as they were."""
    rows, stream = pa.table(columns), io.BytesIO()
    with parquet_writer(stream, rows, {}) as writer:
        writer.write_table(rows)
    assert pq.read_table(stream).equals(rows)
    group = pq.read_metadata(stream).row_group(0)
    found = [group.column(place) for place in range(group.num_columns)]
    return {column.path_in_schema for column in found if "RLE_DICTIONARY" in column.encodings}


def test_columns_whose_values_come_again_have_a_dictionary_and_no_others() -> None:
    dice, rows = random.Random(7), 40_000
    pairs = pa.array([[("zone", f"z{n % 3}")] for n in range(rows)], pa.map_(pa.string(), pa.string()))
    columns = {
        "unique": pa.array([f"{dice.getrandbits(128):032x}" for _ in range(rows)]),
        "number": pa.array([dice.randrange(10**12) for _ in range(rows)]),
        "too_many": pa.array([f"{dice.randrange(30_000):060}" for _ in range(rows)]),
        "some": pa.array([f"agent {dice.randrange(2_000)}" for _ in range(rows)]),
        "few": pa.array([dice.choice((200, 304, 404)) for _ in range(rows)]),
        "mostly_null": pa.array([f"{n}" if n % 100 == 0 else None for n in range(rows)]),
        "in_runs": pa.array([f"session {n // 50}" for n in range(rows)]),
        "pairs": pairs,
    }

    found = dictionaries(columns)

    assert found == {"some", "few", "mostly_null", "in_runs", "pairs.key_value.key", "pairs.key_value.value"}


def test_of_few_rows_and_of_large_values_nothing_is_known_and_there_is_a_dictionary() -> None:
    assert dictionaries({"few_rows": pa.array([f"{n}" for n in range(20)])}) == {"few_rows"}
    large = pa.array([f"{n}" * 20_000 for n in range(100)])
    assert dictionaries({"large": large}) == {"large"}


def test_a_filter_that_no_file_can_have_is_left_out_and_the_file_written(tmp_path: Path) -> None:
    """Anybody may set a property, of any column, in the spelling of any engine."""
    rows = pa.table(
        {
            "yes": [True, None],
            "map": pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
            "list": [["x"], None],
            "text": ["x", None],
            "day": pa.array([1, None], pa.date32()),
            "at": pa.array([1, None], pa.timestamp("us", "UTC")),
            "real": [0.5, None],
            "exact": [Decimal("1.5"), None],
            "bytes": [b"x", None],
            "number": [7, None],
        }
    )
    asked = {f"write.parquet.bloom-filter-enabled.column.{name}": "TRUE" for name in rows.column_names}
    path = str(tmp_path / "file.parquet")
    with open(path, "wb") as out, parquet_writer(out, rows, asked) as writer:
        writer.write_table(rows)

    assert pq.read_table(path) == rows
    with duckdb.connect() as connection:
        query = "SELECT path_in_schema FROM parquet_metadata(?) WHERE bloom_filter_offset IS NOT NULL"
        filtered = {name for (name,) in connection.execute(query, [path]).fetchall()}
    assert filtered == {*rows.column_names} - {"yes", "map", "list"}
