"""What two files have in common is told from some bytes a row, whatever their rows hold."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, NestedField

from pipelines.landing.contents.choice import Leaf
from pipelines.landing.contents.strays import Stray, conflicts, same_values
from pipelines.landing.ledger.reading import Unreadable

FEW, MANY = 33_000, 73_000


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Any table: it is named where a file cannot be read."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("t")
    yield catalog.create_table("t.t", Schema(NestedField(1, "n", IntegerType())))
    catalog.engine.dispose()


def rows(indexes: range, *, shard: int = 0, **columns: pa.Array) -> pa.Table:
    """Rows of one LogGroup of a shard."""
    identity = {
        "__shard__": pa.array([shard] * len(indexes), pa.int32()),
        "__cursor__": pa.array([2**40] * len(indexes), pa.int64()),
        "__index__": pa.array(indexes, pa.int32()),
    }
    return pa.table(identity | columns)


def same(table: Table, folder: Path, one: pa.Table, other: pa.Table) -> bool:
    """What is said of two files with these rows, which must not depend on the order of both."""
    paths = [folder / "one.parquet", folder / "other.parquet"]
    for path, made in zip(paths, (one, other), strict=True):
        pq.write_table(made, path, row_group_size=3)
    said = {same_values(table, *map(str, order)) for order in (paths, paths[::-1])}
    assert len(said) == 1
    return said.pop()


def test_only_rows_that_both_files_hold_are_compared_wherever_they_lie(table: Table, tmp_path: Path) -> None:
    up, down = range(8), range(9, 3, -1)
    one = rows(up, n=pa.array(up))
    assert same(table, tmp_path, one, rows(down, n=pa.array(down)))
    assert not same(table, tmp_path, one, rows(down, n=pa.array([9, 8, 7, 6, 55, 4])))
    assert same(table, tmp_path, one, rows(down, shard=1, n=pa.array([0] * 6)))


def test_a_column_that_one_file_lacks_is_null_there_and_nan_is_what_it_is(
    table: Table, tmp_path: Path
) -> None:
    bare, three = rows(range(3)), range(3)
    assert same(table, tmp_path, bare, rows(three, city=pa.array([None, None, None], pa.string())))
    assert not same(table, tmp_path, bare, rows(three, city=pa.array([None, None, "Rome"])))
    strange = rows(three, x=pa.array([float("nan"), -0.0, 1.0]))
    assert same(table, tmp_path, strange, strange)


def test_files_of_many_rows_are_compared_in_less_than_a_hundred_bytes_a_row_and_file(
    table: Table, tmp_path: Path
) -> None:
    peaks = []
    for count in (FEW, MANY):
        for name in ("one", "other"):
            pq.write_table(rows(range(count)), tmp_path / name)
        tracemalloc.start()
        try:
            assert same_values(table, str(tmp_path / "one"), str(tmp_path / "other"))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (MANY - FEW) < 2 * 100, peaks


def of_use(path: Path, *numbers: int) -> Stray:
    """What is known of a file with rows of these indexes, which is written."""
    index = range(min(numbers), max(numbers) + 1)
    place = {
        "__origin__": pa.array(["o"] * len(index)),
        "__receive_hour__": pa.array([0] * len(index), pa.timestamp("us", "UTC")),
    }
    pq.write_table(rows(index, **place), path)
    return Stray(Leaf(str(path), {("o", 0): (len(index), 0)}, 0.0, False), ("o", 0), path.stat().st_size)


def test_a_file_that_left_since_it_was_looked_at_is_named(table: Table, tmp_path: Path) -> None:
    """Somebody's sweep takes it meanwhile; cut off it is no better."""
    one, other = of_use(tmp_path / "one.parquet", 0, 3), of_use(tmp_path / "other.parquet", 3, 5)
    assert conflicts(table, [one, other], []) == ({(one.leaf.path, other.leaf.path)}, set())

    Path(other.leaf.path).write_bytes(b"PAR1")
    with pytest.raises(Unreadable, match=r"other\.parquet"):
        conflicts(table, [one, other], [])
    Path(other.leaf.path).unlink()
    with pytest.raises(Unreadable, match=r"is gone: other\.parquet"):
        conflicts(table, [one, other], [])
    with pytest.raises(Unreadable, match=r"is gone: other\.parquet"):
        conflicts(table, [other], [])


def test_a_file_without_rows_that_took_the_place_of_one_shares_none(table: Table, tmp_path: Path) -> None:
    one, other = of_use(tmp_path / "one.parquet", 0, 3), of_use(tmp_path / "other.parquet", 3, 5)
    pq.write_table(rows(range(0)), other.leaf.path)
    assert conflicts(table, [one, other], []) == (set(), set())
