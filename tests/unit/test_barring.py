"""What is kept of a value that may not land finds it again, whatever type the column has by then."""

import hashlib
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.landing.barring import Barring, Bars
from sls_io.decoding.decode import PagePart, identity_sum

AT = datetime(2026, 11, 26, 7, 30, 0, 5, tzinfo=UTC)
MICROS = pa.timestamp("us", tz="UTC")


def barring(values: pa.Array, column: int = 7, name: str = "key") -> Barring:
    """What a writer knows once these values of a column may not land."""
    salted, made = Bars().made("a", column, values)
    assert salted.salt
    return Barring(salted.salt, {name: (column, frozenset(bar.digest for bar in made))})


def taken(by: Barring, values: pa.Array) -> list[bool]:
    """Which of these values may not land."""
    found: list[bool] = by.taken(pa.record_batch({"key": values})).to_pylist()
    return found


@pytest.mark.parametrize(
    ("barred", "kind", "shown", "later"),
    [
        ("bob", pa.string(), ["bob", "Bob", "bob ", None], pa.large_string()),
        (7, pa.int32(), [7, 70, -7, None], pa.int64()),
        (-2, pa.int64(), [-2, 2, 0, None], pa.int64()),
        (0, pa.int64(), [0, 10, 100, None], pa.int32()),
        (Decimal("1.50"), pa.decimal128(9, 2), [Decimal("1.50"), Decimal("15.00"), Decimal("-1.50"), None],
         pa.decimal128(20, 4)),
        (Decimal(9 * 10**30), pa.decimal128(38, 0), [Decimal(9 * 10**30), Decimal(9 * 10**30 + 1)],
         pa.decimal128(38, 0)),
        (0.1, pa.float64(), [0.1, 0.2, float("nan"), None], pa.float64()),
        (0.5, pa.float32(), [0.5, 0.25, float("inf"), None], pa.float64()),
        (-0.0, pa.float64(), [0.0, 1.0], pa.float64()),
        (True, pa.bool_(), [True, False, None], pa.bool_()),
        (date(2026, 11, 26), pa.date32(), [date(2026, 11, 26), date(2026, 11, 27), None], pa.date32()),
        (AT, MICROS, [AT, AT.replace(microsecond=6), None], MICROS),
        (b"\x00\xff", pa.binary(), [b"\x00\xff", b"\x00", None], pa.large_binary()),
    ],
)  # fmt: skip
def test_a_value_is_found_again_in_every_type_that_can_have_it(
    barred: Any, kind: pa.DataType, shown: list[Any], later: pa.DataType
) -> None:
    by = barring(pa.array([barred], kind))
    for each in (kind, later):
        assert taken(by, pa.array(shown, kind).cast(each)) == [True] + [False] * (len(shown) - 1)


def test_a_text_is_found_again_in_what_hash_makes_of_it() -> None:
    digest = hashlib.sha256(b"bob").hexdigest()
    plain = barring(pa.array(["bob"]))
    later = replace(plain, hashed=frozenset({"key"}))
    assert taken(later, pa.array([digest, "bob", None])) == [True, False, False]
    salted, made = Bars().made("a", 7, pa.array([digest]), hashed=True)
    named = Barring(salted.salt, {"key": (7, frozenset(bar.digest for bar in made))})
    assert taken(named, pa.array(["bob", digest])) == [True, False]


def test_what_is_kept_says_neither_the_value_nor_the_same_in_another_table_or_column() -> None:
    values = pa.array(["bob", "ann"])
    salted, one = Bars().made("a", 7, values)
    again, same = salted.made("a", 7, values)
    other, strange = Bars().made("a", 7, values)
    _, beside = salted.made("a", 8, values)
    assert (again, same) == (salted, one) and len(one) == 2
    digests = {bar.digest for bar in one}
    assert not digests & {bar.digest for bar in (*strange, *beside)} and other.salt != salted.salt
    assert all(len(digest) == 22 and "bob" not in digest for digest in digests)


def test_nothing_is_barred_by_null_or_nan() -> None:
    salted, made = Bars().made("a", 7, pa.array([None, float("nan")], pa.float64()))
    assert made == frozenset() and not Barring(salted.salt, {})


def test_a_page_loses_these_rows_and_their_share_of_its_sum() -> None:
    by, cursors, indexes = barring(pa.array(["bob"])), np.array([5, 5, 6, 7]), np.array([0, 1, 0, 0])
    batch = pa.record_batch(
        {
            "__cursor__": pa.array(cursors),
            "__index__": pa.array(indexes.astype(np.int32)),
            "key": pa.array(["ann", "bob", None, "bob"]),
            "__error__": pa.array([None, None, "key is not UTF-8", "n is not long"]),
        }
    )
    whole = PagePart(batch, 4, 2, identity_sum(3, cursors, indexes))

    part, rows, total = by.part(whole, 3)

    assert (part.rows, part.errors, rows) == (2, 1, 2)
    assert part.batch.column("key").to_pylist() == ["ann", None]
    kept = np.array([0, 2])
    assert part.sum == identity_sum(3, cursors[kept], indexes[kept])
    assert (part.sum + total) % 2**64 == whole.sum
    assert by.part(part, 3) == (part, 0, 0)
