"""Small files of an object store are fetched before they are asked for, and nothing else of them changes."""

import pickle
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask

from pipelines.landing.table.object_store import ObjectStoreIO, one_after_another

LARGE = (1 << 20) + 1


def task(path: Path, *, said: int) -> FileScanTask:
    """A file as a manifest has it, with the size that it says there."""
    return FileScanTask(
        DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=str(path),
            file_format=FileFormat.PARQUET,
            record_count=1,
            file_size_in_bytes=said,
        )
    )


def written(folder: Path, *sizes: int) -> list[FileScanTask]:
    """Files of so many bytes, each of its own."""
    tasks = []
    for number, size in enumerate(sizes):
        path = folder / f"{number}.parquet"
        path.write_bytes(bytes([number]) * size)
        tasks.append(task(path, said=size))
    return tasks


def read(io: PyArrowFileIO, of: FileScanTask) -> bytes:
    with io.new_input(of.file.file_path).open() as stream:
        return bytes(stream.read())


def test_a_file_is_there_when_its_turn_comes_and_only_then(tmp_path: Path) -> None:
    io, tasks = ObjectStoreIO(), written(tmp_path, *range(1, 41))
    for number, each in enumerate(one_after_another(io, tasks)):
        path = Path(each.file.file_path)
        path.unlink()  # what is read now was fetched before
        file = io.new_input(str(path))
        assert each is tasks[number] and file.exists() and len(file) == number + 1
        with file.open() as stream:
            assert stream.read() == bytes([number]) * (number + 1)
        assert not io.new_input(str(path)).exists(), "a second look is at the store"


def test_what_nobody_opened_in_its_turn_is_not_kept(tmp_path: Path) -> None:
    io, tasks = ObjectStoreIO(), written(tmp_path, *range(1, 41))
    for each in one_after_another(io, tasks):
        Path(each.file.file_path).unlink()
    assert not any(io.new_input(each.file.file_path).exists() for each in tasks)


def test_a_large_file_is_opened_as_ever_and_one_of_another_size_than_its_manifest_says(
    tmp_path: Path,
) -> None:
    io, (small, large, *others) = ObjectStoreIO(), written(tmp_path, 3, LARGE, LARGE, 3, 3)
    strange = [task(Path(o.file.file_path), said=s) for o, s in zip(others, (3, 2, 4), strict=True)]
    for each in one_after_another(io, [small, large, *strange]):
        Path(each.file.file_path).write_bytes(b"new")
        assert read(io, each) == (b"\0\0\0" if each is small else b"new")


def test_a_file_that_cannot_be_fetched_says_so_to_its_reader_and_stops_no_other(tmp_path: Path) -> None:
    io, (first, second, third) = ObjectStoreIO(), written(tmp_path, 1, 2, 3)
    Path(second.file.file_path).unlink()
    seen = []
    for each in one_after_another(io, [first, second, third]):
        if each is second:
            with pytest.raises(FileNotFoundError):
                read(io, each)
        else:
            seen.append(read(io, each))
    assert seen == [b"\0", b"\2\2\2"]


def test_who_stops_early_leaves_nothing_and_a_copy_holds_nothing(tmp_path: Path) -> None:
    io, tasks = ObjectStoreIO(), written(tmp_path, 1, 2)
    ahead = one_after_another(io, tasks)
    next(ahead)
    Path(tasks[0].file.file_path).write_bytes(b"new")
    assert read(io, tasks[0]) == b"\0"
    assert read(pickle.loads(pickle.dumps(io)), tasks[0]) == b"new"
    ahead.close()  # type: ignore[attr-defined]
    assert read(io, tasks[0]) == b"new"


@pytest.mark.parametrize(("io", "files"), [(ObjectStoreIO(), 1), (PyArrowFileIO(), 3)])
def test_where_nothing_is_gained_nothing_is_fetched(io: PyArrowFileIO, files: int, tmp_path: Path) -> None:
    """One file alone; files of this machine."""
    for each in one_after_another(io, written(tmp_path, *[1] * files)):
        Path(each.file.file_path).write_bytes(b"new")
        assert read(io, each) == b"new"
