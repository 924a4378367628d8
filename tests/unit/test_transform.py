"""A user's function on rows: what is taken of it, and what is refused, by a sentence without a value."""

import ctypes
import struct
import traceback
from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.landing.table.contract import Contract
from pipelines.landing.table.decoders import unsound
from pipelines.landing.transform import Transform, TransformFailed
from sls_io.values.errors import ConfigError
from tests.worlds.pages import HOUR, group, page

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
VALUES = {
    "string": b"a",
    "boolean": b"true",
    "int": b"1",
    "long": b"2",
    "float": b"0.5",
    "double": b"-inf",
    "decimal": b"1.50",
    "date": b"2026-01-02",
    "timestamp": b"2026-01-02T03:04:05Z",
}
KINDS = {key: key for key in VALUES} | {"decimal": "decimal(9,2)", "timestamp": "timestamp(iso)"}


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
negative = _named(lambda batch: put("n", pc.negate(batch["n"]))(batch))
as_it_is = _named(lambda batch: batch)
of_a_struct = put("text", pa.array([{"canary": 1}, None]))
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
        ("raises", "failed (ValueError)"),
        ("no_batch", "gave a dict, not a RecordBatch"),
        ("fewer", "gave 1 row for 2"),
        ("more", "gave 4 rows for 2"),
        ("turned", "changed or left out __cursor__, __rest__"),
        ("other_cursor", "changed or left out __cursor__,"),
        ("other_rest", "changed or left out __rest__,"),
        ("no_shard", "changed or left out __shard__,"),
        ("other_type", "gave n as string, declared is int64"),
        ("of_a_struct", "gave text as StructType, declared is string"),
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


def rotated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The cursors of the first and the last row exchanged in the memory where they are; the same batch."""
    cursors, last = in_place(batch["__cursor__"]), batch.num_rows - 1
    cursors[0], cursors[last] = cursors[last], cursors[0]
    return batch


def in_place(column: pa.Array) -> ctypes.Array[ctypes.c_int64]:
    """The memory of int64 values, to be written to: Arrow calls that impossible."""
    return (ctypes.c_int64 * len(column)).from_address(column.buffers()[1].address + 8 * column.offset)


ONE_BUFFER = bytearray(16)


def to_one_buffer(batch: pa.RecordBatch) -> pa.RecordBatch:
    """n twice, each time in the same memory."""
    struct.pack_into("<2q", ONE_BUFFER, 0, *(2 * n for n in batch["n"].to_pylist()))
    return put("n", pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(ONE_BUFFER)]))(batch)


def test_what_is_written_into_the_memory_that_was_given_is_seen_and_refused() -> None:
    before = BATCH.to_pydict()
    with pytest.raises(TransformFailed, match="changed or left out __cursor__,"):
        Transform(f"{HERE}:rotated").of(BATCH, 3)
    assert BATCH.to_pydict() == before


def test_values_stay_what_they_were_when_the_function_writes_the_next_ones_over_them() -> None:
    transform, five = Transform(f"{HERE}:to_one_buffer"), put("n", pa.array([5, 5], pa.int64()))
    first = transform.of(BATCH, 3)
    second = transform.of(five(BATCH), 3)
    assert (first["n"].to_pylist(), second["n"].to_pylist()) == ([2, 4], [10, 10])


def test_the_rows_of_a_slice_are_given_alone_and_come_back_whole() -> None:
    seen = BATCH.slice(1)
    made = Transform(f"{HERE}:negative").of(seen, 3)
    assert made.schema == seen.schema and made["n"].to_pylist() == [-2]
    assert all(made[name].equals(seen[name]) for name in seen.schema.names if name != "n")


def test_rows_of_which_no_key_has_a_column_come_through_the_copies() -> None:
    ours = BATCH.drop_columns(["n", "text"])
    assert Transform(f"{HERE}:as_it_is").of(ours, 3).equals(ours)


def test_field_metadata_and_values_of_every_type_come_through_the_copies() -> None:
    contract = Contract.from_columns(KINDS)
    logs = [[(key, VALUES[key]) for key in KINDS], [], [("other", b"\xff"), ("int", b"x")]]
    batch = contract.decoder("o-1", contract.iceberg_schema()).decode(page(group(*logs)), hour=HOUR).batch
    assert None not in [batch[key][0].as_py() for key in KINDS]
    assert Transform(f"{HERE}:as_it_is").of(batch, 3).equals(batch, check_metadata=True)


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
