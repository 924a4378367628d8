"""Row-level deletes as other engines write them: Spark by position, Flink by value. PyIceberg writes none."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles

from fuzz.strangers import DeleteManifest
from tests.worlds.one_logstore import World


def mark_deleted(world: World, wanted: Callable[[int], bool]) -> int:
    """Position deletes for the rows whose `n` is wanted, a commit a file; how many rows."""
    marked = 0
    for path, file in [(local(t.file.file_path), t.file) for t in world.table.scan().plan_files()]:
        numbers = pq.read_table(path, columns=["n"]).column("n").to_pylist()
        places = [i for i, n in enumerate(numbers) if wanted(n)]
        if places:
            _commit(world.table, _by_position(world.table, file, places))
            marked += len(places)
    return marked


def update(world: World, wanted: Callable[[int], bool]) -> int:
    """Position deletes for the rows whose `n` is wanted, and the same rows in another file; how many."""
    rows = world.table.scan().to_arrow()
    marked = mark_deleted(world, wanted)
    world.table.append(rows.filter(pa.array([wanted(n) for n in rows["n"].to_pylist()])))
    return marked


def update_by_value(world: World, n: int) -> None:
    """An equality delete for one `n`, and the same row in another file."""
    rows = world.table.scan().to_arrow()
    delete_by_value(world, n)
    world.table.append(rows.filter(pa.array([number == n for number in rows["n"].to_pylist()])))


def delete_by_value(world: World, n: int) -> None:
    """An equality delete for one `n`."""
    table = world.table
    file = next(iter(table.scan().plan_files())).file
    field = table.schema().find_field("n")
    schema = pa.schema([pa.field("n", pa.int64(), metadata={"PARQUET:field_id": str(field.field_id)})])
    deletes = _written(
        table, file, pa.table([[n]], schema), DataFileContent.EQUALITY_DELETES, [field.field_id]
    )
    _commit(table, deletes)


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def _by_position(table: Table, file: DataFile, places: list[int]) -> DataFile:
    fields = [("file_path", pa.string(), 2147483546), ("pos", pa.int64(), 2147483545)]
    schema = pa.schema(
        [
            pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(number)})
            for name, kind, number in fields
        ]
    )
    rows = pa.table([[file.file_path] * len(places), places], schema)
    return _written(table, file, rows, DataFileContent.POSITION_DELETES, None)


def _written(
    table: Table, file: DataFile, rows: pa.Table, content: DataFileContent, ids: list[int] | None
) -> DataFile:
    path = (
        f"{table.location()}/data/deletes-{len(table.metadata.snapshots)}-{file.file_path.rsplit('/', 1)[-1]}"
    )
    pq.write_table(rows, local(path))
    deletes = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=file.partition,
        record_count=rows.num_rows,
        file_size_in_bytes=local(path).stat().st_size,
        equality_ids=ids,
    )
    deletes.spec_id = file.spec_id
    return deletes


def _commit(table: Table, deletes: DataFile) -> None:
    with table.transaction() as transaction:
        producer = _Producer(Operation.OVERWRITE, transaction, table.io)
        producer.append_data_file(deletes)
        producer.commit()


class _Producer(_FastAppendFiles):
    """A snapshot with the manifests that were there and one of row-level deletes."""

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        writer = DeleteManifest(
            metadata.spec(), metadata.schema(), self.new_manifest_output(), self._snapshot_id, "deflate"
        )
        with writer:
            for file in self._added_data_files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        return [writer.to_manifest_file(), *self._existing_manifests()]
