"""A user's function on rows: what is taken of it, and what is refused, by a sentence without a value."""

import traceback
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pytest

from pipelines.landing.table.casts import unsound
from pipelines.landing.transform import Transform, TransformFailed
from sls_io.errors import ConfigError

HERE = "tests.unit.test_transform"
BATCH = pa.RecordBatch.from_pydict(
    {
        "__shard__": pa.array([3, 3], pa.int32()),
        "__cursor__": pa.array([5, 6], pa.int64()),
        "__rest__": pa.array([[("a", "canary")], None], pa.map_(pa.string(), pa.string())),
        "n": pa.array([1, 2], pa.int64()),
        "text": pa.array(["canary", None], pa.string()),
    }
)
NO_FUNCTION = 7


def put(name: str, values: pa.Array) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that puts a column."""
    return lambda batch: batch.set_column(batch.schema.get_field_index(name), name, values)


Function = Callable[[pa.RecordBatch], pa.RecordBatch]


def _named(function: Function) -> Function:
    return function


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """n twice, text left out, and the columns in another order."""
    return pa.RecordBatch.from_pydict(
        {
            "n": pa.array([2 * n for n in batch["n"].to_pylist()], pa.int64()),
            **{name: batch[name] for name in ("__rest__", "__cursor__", "__shard__")},
        }
    )


def raises(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Its error has a log in it."""
    raise ValueError(str(batch["text"][0]))


def no_batch(batch: pa.RecordBatch) -> object:
    """Rows as Python has them."""
    return batch.to_pydict()


fewer = _named(lambda batch: batch.slice(1))
more = _named(lambda batch: pa.concat_batches([batch, batch]))
turned = _named(lambda batch: batch.take(pa.array([1, 0])))
other_cursor = put("__cursor__", pa.array([5, 7], pa.int64()))
other_type = put("n", pa.array(["1", "2"]))
other_rest = put("__rest__", BATCH["__rest__"].take(pa.array([1, 0])))
no_shard = _named(lambda batch: batch.drop_columns(["__shard__"]))
undeclared = _named(lambda batch: batch.append_column("new", batch["n"]))
no_text = put("text", pa.array([b"\xff\xfe", None], pa.binary()).view(pa.string()))
twice = _named(lambda batch: batch.append_column("n", batch["n"]))


def test_values_of_declared_columns_change_and_one_that_is_left_out_is_null() -> None:
    made = Transform(f"{HERE}:doubled").of(BATCH, 3)
    assert made.schema == BATCH.schema
    assert made["n"].to_pylist() == [2, 4] and made["text"].to_pylist() == [None, None]
    assert all(made[name].equals(BATCH[name]) for name in ("__shard__", "__cursor__", "__rest__"))


def test_without_one_and_without_rows_nothing_is_called() -> None:
    assert Transform("").of(BATCH, 3) is BATCH
    none = BATCH.slice(0, 0)
    assert Transform(f"{HERE}:raises").of(none, 3) is none


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("raises", "raised ValueError"),
        ("no_batch", "gave a dict, not a RecordBatch"),
        ("fewer", "gave 1 rows for 2"),
        ("more", "gave 4 rows for 2"),
        ("turned", "changed or left out __cursor__, __rest__"),
        ("other_cursor", "changed or left out __cursor__,"),
        ("other_rest", "changed or left out __rest__,"),
        ("no_shard", "changed or left out __shard__,"),
        ("other_type", "gave n as string, declared is int64"),
        ("undeclared", "gave new, which the settings do not declare"),
        ("twice", "gave a column twice"),
        ("no_text", "gave text values that are no string"),
    ],
)
def test_what_is_refused_names_function_shard_and_cause_and_no_value(name: str, told: str) -> None:
    with pytest.raises(TransformFailed) as raised:
        Transform(f"{HERE}:{name}").of(BATCH, 3)
    text = str(raised.value)
    assert told in text and f"{HERE}:{name}" in text and "shard 3" in text
    assert "canary" not in "".join(traceback.format_exception(raised.value))


def of_buffer(kind: pa.DataType, *values: int) -> pa.Array:
    """An array of `kind` over these integers, as wrong arithmetic makes one."""
    size = 16 if pa.types.is_decimal(kind) else kind.bit_width // 8
    raw = b"".join(value.to_bytes(size, "little", signed=True) for value in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(raw)])


DAYS, US = pa.date32(), pa.timestamp("us", tz="UTC")
DAY_FIRST, DAY_LAST = (date(1, 1, 1) - date(1970, 1, 1)).days, (date(9999, 12, 31) - date(1970, 1, 1)).days
US_A_DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("values", "sound"),
    [
        (of_buffer(pa.decimal128(5, 2), 99_999, -99_999), True),
        (of_buffer(pa.decimal128(5, 2), 100_000), False),
        (of_buffer(DAYS, DAY_FIRST, DAY_LAST), True),
        (of_buffer(DAYS, DAY_FIRST - 1), False),
        (of_buffer(DAYS, DAY_LAST + 1), False),
        (of_buffer(US, DAY_FIRST * US_A_DAY, (DAY_LAST + 1) * US_A_DAY - 1), True),
        (of_buffer(US, DAY_FIRST * US_A_DAY - 1), False),
        (of_buffer(US, 0, (DAY_LAST + 1) * US_A_DAY), False),
        (pa.nulls(2, US), True),
        (pa.nulls(0, DAYS), True),
    ],
    ids=str,
)
def test_what_no_reader_could_read_is_told_from_the_last_that_one_can(values: pa.Array, sound: bool) -> None:
    assert (unsound(values) == "") is sound


@pytest.mark.parametrize("path", [f"{HERE}:nowhere", "no.such.module:f", HERE, f"{HERE}:NO_FUNCTION"])
def test_one_that_cannot_be_loaded_is_a_setting_to_mend(path: str) -> None:
    with pytest.raises(ConfigError, match=r"transform .* name a function"):
        Transform(path)
