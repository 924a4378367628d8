"""Data files are read and written a few megabytes at a time, and as PyIceberg reads them."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThan, IsNull, NotNull
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO  # noqa: TID251 - what it is compared with
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from pipelines.landing.table import second_look
from pipelines.landing.table.bounded_scan import BATCH_BYTES, BoundedScan, rows_counted, rows_of_file
from pipelines.landing.table.contract import arrow_schema
from pipelines.landing.table.data_files import LONG_GROUP_BYTES, ROW_GROUP_BYTES
from pipelines.landing.table.new_file import NewFile

MB = 1_000_000
ROWS = 40_000
SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "text", StringType()),
    NestedField(3, "text.of", StringType()),
    NestedField(4, "rest", MapType(20, StringType(), 21, StringType())),
    NestedField(5, "raw", BinaryType()),
    NestedField(6, "words", ListType(22, StringType(), element_required=False)),
    NestedField(
        7, "both", StructType(NestedField(23, "a", StringType()), NestedField(24, "b", IntegerType()))
    ),
    NestedField(8, "of none", DoubleType()),
)


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """An empty table of `SCHEMA`."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("t")
    yield catalog.create_table("t.t", SCHEMA)
    catalog.engine.dispose()


def rows(count: int) -> pa.Table:
    """So many rows: few distinct texts and many, nulls, empty maps and lists."""
    columns: dict[str, list[Any]] = {
        "n": list(range(count)),
        "text": [None if n % 7 == 0 else f"text {n % 5}" for n in range(count)],
        "text.of": [f"{n * 2654435761:032x}" * 3 for n in range(count)],
        "rest": [
            None if n % 11 == 0 else [("k", f"{n * 40503:064x}"), ("same", "v")][: n % 3]
            for n in range(count)
        ],
        "raw": [None if n % 3 else bytes([n % 251]) * (n % 40) for n in range(count)],
        "words": [["a", None, f"{n % 9}"][: n % 4] if n % 5 else None for n in range(count)],
        "both": [None if n % 13 == 0 else {"a": f"{n % 17}", "b": n % 19} for n in range(count)],
        "of none": [None] * count,
    }
    return pa.Table.from_pydict(columns, schema=arrow_schema(SCHEMA))


def stored(path: Path, table: pa.Table, **options: Any) -> DataFile:
    """The rows as a file, and its entry."""
    pq.write_table(table, path, **options)
    return entry(path, table.num_rows, DataFileContent.DATA)


def entry(path: Path, count: int, content: DataFileContent) -> DataFile:
    """What a manifest says of a file."""
    file = DataFile.from_args(
        content=content,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=count,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = UNPARTITIONED_PARTITION_SPEC.spec_id
    return file


def hiding(path: Path, file: DataFile, places: list[int]) -> DataFile:
    """Row-level deletes of the rows of `file` in these places, as an engine writes them."""
    deletes = pa.table(
        [pa.array([file.file_path] * len(places)), pa.array(places, pa.int64())], names=["file_path", "pos"]
    )
    pq.write_table(deletes, path)
    return entry(path, len(places), DataFileContent.POSITION_DELETES)


@pytest.mark.parametrize("group", [ROWS, 1_717], ids=["one row group", "many row groups"])
@pytest.mark.parametrize("hidden", [[], [0, 1, 1_716, 1_717, 20_000, ROWS - 1], list(range(1_000, 9_000))])
@pytest.mark.parametrize(
    "wanted",
    [
        AlwaysTrue(),
        GreaterThan(term="n", value=ROWS - 1_000),
        And(NotNull(term="text"), EqualTo(term="n", value=1_718)),
        IsNull(term="of none"),
    ],
    ids=["all", "the last", "one", "of nothing"],
)
def test_the_rows_of_a_file_are_those_that_pyiceberg_reads(
    tmp_path: Path, table: Table, group: int, hidden: list[int], wanted: BooleanExpression
) -> None:
    file = stored(tmp_path / "f.parquet", rows(ROWS).drop_columns(["of none"]), row_group_size=group)
    deletes = {hiding(tmp_path / "d.parquet", file, hidden)} if hidden else set()
    task = FileScanTask(file, deletes)
    for schema in (table.schema(), table.schema().select("rest", "text"), table.schema().select("of none")):
        scans = (scan(table.metadata, table.io, schema, wanted) for scan in (ArrowScan, BoundedScan))
        theirs, ours = (list(scan.to_record_batches([task])) for scan in scans)
        assert sum(batch.num_rows for batch in ours) == sum(batch.num_rows for batch in theirs)
        assert not theirs or pa.Table.from_batches(ours) == pa.Table.from_batches(theirs)


def test_a_text_that_a_row_group_has_once_and_shows_ten_thousand_times_is_read_some_rows_at_a_time(
    tmp_path: Path, table: Table
) -> None:
    """20 GB of rows in less than a megabyte: in a column, in a map beside it, and after many small rows."""
    small, large, long = 30_000, 10_000, "x" * MB
    path, schema = tmp_path / "f.parquet", arrow_schema(SCHEMA)
    texts = pa.array([0] * small + [1] * large, pa.int32())
    ends = pa.array(range(small + large + 1), pa.int32())
    both = pa.DictionaryArray.from_arrays(texts, pa.array(["y", long]))
    keys = pa.DictionaryArray.from_arrays(pa.array([0] * (small + large), pa.int32()), pa.array(["k"]))
    columns = {
        "n": pa.array(range(small + large), pa.int64()),
        "text": both,
        "rest": pa.MapArray.from_arrays(ends, keys, both),
    }
    fields = [pa.field(n, a.type, metadata=schema.field(n).metadata) for n, a in columns.items()]
    made = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    pq.write_table(made, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < MB and pq.read_metadata(path).num_row_groups == 1
    # The file is of a name mapping: another engine wrote it.
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    task = FileScanTask(entry(path, small + large, DataFileContent.DATA))
    before, seen, most = pa.total_allocated_bytes(), 0, 0

    for batch in BoundedScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches(
        [task]
    ):
        most = max(most, pa.total_allocated_bytes() - before)
        seen += batch.num_rows
        if seen > small + 200:
            break

    assert seen > small and most < 10 * BATCH_BYTES
    with table.io.new_input(f"file://{path}").open() as stream:
        assert next(rows_of_file(stream)).num_rows > 1
    with table.io.new_input(f"file://{path}").open() as stream:
        assert rows_counted(stream) == small + large
    assert pa.total_allocated_bytes() - before < 10 * BATCH_BYTES


def test_values_that_are_all_different_are_not_gathered_first(tmp_path: Path) -> None:
    """Without dictionaries in the file none are made: they took ten times what the rows take."""
    made = pa.table({f"c{i}": pa.array([f"{n}-{i}" for n in range(10_000)]) for i in range(100)})
    path, size = tmp_path / "wide.parquet", made.nbytes
    pq.write_table(made, path, use_dictionary=False)
    del made
    before, most = pa.total_allocated_bytes(), 0
    with pa.OSFile(str(path)) as stream:
        for _ in rows_of_file(stream):
            most = max(most, pa.total_allocated_bytes() - before)
    assert most < 4 * size


def test_columns_of_a_file_are_asked_for_by_name_and_a_missing_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = pa.table({"n": [1, 2], "text": ["a", "b"], "text.of": ["c", "d"]})
    pq.write_table(rows, path, row_group_size=1)
    io = PyArrowFileIO()
    with io.new_input(str(path)).open() as stream:
        found = pa.Table.from_batches(rows_of_file(stream, ["text.of", "n"]))
    assert found.equals(rows.select(["text.of", "n"]))
    with io.new_input(str(path)).open() as stream, pytest.raises(KeyError, match="lost"):
        list(rows_of_file(stream, ["n", "lost"]))


@pytest.mark.parametrize(("length", "most"), [(10_000, ROW_GROUP_BYTES), (2 * MB, LONG_GROUP_BYTES)])
def test_a_row_group_that_is_written_anew_takes_no_more_than_a_landings(
    tmp_path: Path, table: Table, length: int, most: int
) -> None:
    count = 4 * most // length
    batch = rows(1).drop_columns(["raw"]).append_column("raw", pa.array([b"r" * length], pa.binary()))
    batch = batch.select(arrow_schema(SCHEMA).names).cast(arrow_schema(SCHEMA)).to_batches()[0]
    like = stored(tmp_path / "like.parquet", rows(1))
    new = NewFile(table, table.schema(), like, "o-1/rewritten")
    for _ in range(count):
        new.add(batch)
    file = new.close()
    assert file is not None and file.record_count == count
    footer = pq.read_metadata(file.file_path.removeprefix("file://"))
    groups = [footer.row_group(n).num_rows for n in range(footer.num_row_groups)]
    assert sum(groups) == count and len(groups) >= 4 and max(groups) <= most // length + 1
    assert file.file_size_in_bytes == Path(file.file_path.removeprefix("file://")).stat().st_size


def test_a_file_without_a_row_is_not_written(tmp_path: Path, table: Table) -> None:
    new = NewFile(table, table.schema(), stored(tmp_path / "like.parquet", rows(1)), "o-1/rewritten")
    new.add(rows(1).to_batches()[0].slice(0, 0))
    assert new.close() is None and not list(tmp_path.rglob("rewritten/*"))


def test_what_another_reader_cannot_read_is_damaged_wherever_the_bit_is(tmp_path: Path) -> None:
    whole = tmp_path / "whole.parquet"
    texts = pa.table({"text": [f"word {i % 5}" for i in range(40)]})
    pq.write_table(texts, whole, compression="zstd", write_page_checksum=True)
    good = whole.read_bytes()
    column = pq.read_metadata(whole).row_group(0).column(0)
    begin, end = column.dictionary_page_offset, column.data_page_offset
    unreadable, called_whole = 0, []
    for place in range(8 * begin, 8 * end):
        content = bytearray(good)
        content[place // 8] ^= 1 << place % 8
        whole.write_bytes(content)
        try:
            pq.read_table(whole)
        except (pa.ArrowException, OSError, ValueError):
            unreadable += 1
            # What it raises without a number is damage for who asked it, too.
            with suppress(OSError):
                if not second_look.data_file(PyArrowFileIO(), str(whole), rows=40):
                    called_whole.append(place)

    assert unreadable
    assert called_whole == []


def test_a_manifest_is_damaged_where_another_reader_says_so_and_undecided_where_that_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = tmp_path / "one-m0.avro", tmp_path / "other-m0.avro"
    one.write_bytes(b"Obj\x01 no manifest")
    other.write_bytes(b"Obj\x01 no manifest either")
    assert second_look.manifest(PyArrowFileIO(), str(one)) == "another reader fails at it, too"
    (tmp_path / "pyiceberg_core.py").write_text("raise SystemExit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(second_look.Undecided, match="ended with 7"):
        second_look.manifest(PyArrowFileIO(), str(other))
    assert second_look.manifest(PyArrowFileIO(), str(one)), "what is known is not asked again"
