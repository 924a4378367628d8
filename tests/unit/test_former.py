"""The metadata files in a folder: which is the newest, and whose they are."""

import gzip
import multiprocessing
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from pipelines.landing.table.former import (
    Version,
    listed,
    look_for,
    new_location,
    newer,
    number_of,
    read,
    strangers,
    uuid_in,
    versions,
)

IO = PyArrowFileIO()
MINE, THEIRS = uuid.UUID(int=1), uuid.UUID(int=2)


def metadata(table: uuid.UUID = MINE) -> TableMetadata:
    schema = Schema(NestedField(1, "n", LongType(), required=False))
    return new_table_metadata(
        schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "file:///nowhere", {}, table
    )


def write(folder: Path, name: str, table: uuid.UUID = MINE) -> str:
    text = metadata(table).model_dump_json().encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz.metadata.json") else text)
    return f"{folder}/{name}"


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("00012-abc.metadata.json", 12),
        ("file:///w/t/metadata/00000-abc.metadata.json", 0),
        ("123456-abc.gz.metadata.json", 123456),
        ("v7.metadata.json", 7),
        ("snap-12-abc.avro", -1),
        ("restored.metadata.json", -1),
    ],
)
def test_a_metadata_file_says_by_its_name_how_many_commits_came_before(name: str, number: int) -> None:
    assert number_of(name) == number


def test_the_newest_file_comes_first_whatever_order_the_storage_lists(tmp_path: Path) -> None:
    for number in (3, 100001, 20):
        write(tmp_path, f"{number:05d}-x.metadata.json")
    (tmp_path / "snap-1.avro").write_bytes(b"")
    found = versions(IO, str(tmp_path))
    assert found is not None and [v.number for v in found] == [100001, 20, 3]
    assert versions(IO, f"{tmp_path}/not-there") == []


def test_a_file_that_was_cut_off_still_says_its_table_as_long_as_its_head_is_there(tmp_path: Path) -> None:
    path = Path(write(tmp_path, "00001-x.metadata.json"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert uuid_in(IO, str(path)) == str(MINE) and read(IO, str(path)) is None
    path.write_bytes(whole[:20])
    assert uuid_in(IO, str(path)) is None


def test_a_compressed_file_says_its_table(tmp_path: Path) -> None:
    path = write(tmp_path, "00001-x.gz.metadata.json")
    assert uuid_in(IO, path) == str(MINE)
    Path(path).write_bytes(b"no gzip")
    assert uuid_in(IO, path) is None


def later_than(pointer: str) -> Version | None:
    there = versions(IO, str(Path(pointer).parent))
    assert there is not None
    return newer(IO, there, pointer, str(MINE))


def test_only_two_commits_further_prove_that_a_catalog_was_put_back(tmp_path: Path) -> None:
    """The next number may be a try that was refused, or killed before the catalog heard of it."""
    pointer = write(tmp_path, "00005-x.metadata.json")
    write(tmp_path, "00006-x.metadata.json")
    write(tmp_path, "00009-x.metadata.json", THEIRS)
    assert later_than(pointer) is None
    write(tmp_path, "00007-x.metadata.json")
    found = later_than(pointer)
    assert found is not None and found.number == 7
    assert later_than(f"{tmp_path}/by-hand.metadata.json") is None


def test_files_of_another_table_are_named_and_torn_ones_only_when_they_are_old(tmp_path: Path) -> None:
    pointer = write(tmp_path, "00001-mine.metadata.json")
    write(tmp_path, "00000-mine.metadata.json")
    write(tmp_path, "00004-theirs.metadata.json", THEIRS)
    (tmp_path / "00002-empty.metadata.json").write_bytes(b"")
    torn = tmp_path / "00002-torn.metadata.json"
    torn.write_bytes(b"{")
    written_s = torn.stat().st_mtime

    young = strangers(IO, str(tmp_path), metadata(), pointer, before_s=written_s - 1)
    old = strangers(IO, str(tmp_path), metadata(), pointer, before_s=written_s + 1)

    assert young == [f"metadata/00004-theirs.metadata.json is of another table, {THEIRS}"]
    assert len(old) == 2 and "00002-torn.metadata.json cannot be read" in str(old)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert listed(IO, f"{tmp_path}/none", recursive=True) == []


def test_no_two_tables_share_a_folder() -> None:
    assert new_location("s3://bucket/logs") != new_location("s3://bucket/logs/")
    assert new_location("s3://bucket/logs/").startswith("s3://bucket/logs-")


@contextmanager
def coming_and_going(path: Path, flip: Callable[[Path], None]) -> Iterator[None]:
    """What another process makes and removes, thousands of times a second."""
    processes = multiprocessing.get_context("spawn")
    here, there = processes.Pipe()
    other = processes.Process(target=_again_and_again, args=(flip, path, there))
    other.start()
    try:
        assert here.recv() == "begun"
        yield
    finally:
        here.send("over")
        other.join()


def _again_and_again(flip: Callable[[Path], None], path: Path, there: Connection) -> None:
    there.send("begun")
    while not there.poll():
        flip(path)


def a_folder(path: Path) -> None:
    path.mkdir()
    path.rmdir()


def a_first_version(path: Path) -> None:
    write(path.parent, path.name)
    path.unlink()


def test_a_folder_that_another_makes_while_it_is_listed_is_no_error(tmp_path: Path) -> None:
    """Of 5,000 listings about a hundred fail here at their first try."""
    folder = tmp_path / "bronze"
    with coming_and_going(folder, a_folder):
        for _ in range(5_000):
            assert listed(IO, str(folder), recursive=True) == []


def test_a_table_that_another_makes_while_its_folder_is_looked_at_was_not_lost(tmp_path: Path) -> None:
    """Its first version is there before the catalog has it. Of 3,000 looks some hundred find it between two
    listings."""
    metadata_folder = tmp_path / "bronze" / "logs" / "metadata"
    metadata_folder.mkdir(parents=True)
    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}")
    with coming_and_going(metadata_folder / "00000-a.metadata.json", a_first_version):
        found = [look_for(catalog, "bronze.logs") for _ in range(3_000)]
    assert [former for former in found if former] == []
