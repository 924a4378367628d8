"""What other engines and people do to a table, without asking sls-lake. PyIceberg does it, or we write what
Spark and Trino would: position deletes are a file of (path, position) in a delete manifest."""

import uuid
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import EqualTo, In
from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.types import StringType

TAG = "sls-lake"
STRANGER = "someone"
Identity = tuple[str, int, int, int]
_KEYS = ("__origin__", "__shard__", "__cursor__", "__index__")
_FIELDS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def identities(rows: pa.Table) -> list[Identity]:
    """Of each row, in order."""
    columns = (rows.column(name).to_pylist() for name in _KEYS)
    return list(zip(*columns, strict=True))


def records(table: Table) -> int:
    """Rows of all live data files, hidden ones too, from the manifests."""
    return _counted(table, ManifestContent.DATA)


def deletes(table: Table) -> int:
    """Rows that the live delete files name, whether they hide one or not."""
    return _counted(table, ManifestContent.DELETES)


def _counted(table: Table, content: ManifestContent) -> int:
    head = table.current_snapshot()
    return sum(
        entry.data_file.record_count
        for manifest in (head.manifests(table.io) if head else [])
        if manifest.content == content
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    )


def missing_files(table: Table) -> list[str]:
    """Files that a kept snapshot needs and that are not there: nobody may delete those."""
    gone: set[str] = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            gone |= {e.data_file.file_path for e in entries if not _is_there(table, e.data_file.file_path)}
    return sorted(gone)


def _is_there(table: Table, path: str) -> bool:
    return bool(table.io.new_input(path).exists())


def lineage(table: Table) -> str:
    """How `main` stands to the tag: well, untagged, behind it, or undecided (history expired between)."""
    tag = table.metadata.refs.get(TAG)
    if tag is None:
        return "untagged"
    tagged = table.snapshot_by_id(tag.snapshot_id)
    floor = (tagged.sequence_number if tagged else None) or 0
    snapshot, last = table.current_snapshot(), None
    while snapshot is not None:
        if snapshot.snapshot_id == tag.snapshot_id:
            return "well"
        last = snapshot
        if (snapshot.sequence_number or 0) < floor:
            return "behind"
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return "behind" if last is None or (last.sequence_number or 0) < floor else "undecided"


def delete(table: Table, numbers: Collection[int]) -> None:
    """Rows leave: their files are written anew without them."""
    table.delete(In(term="n", literals=set(numbers)))


def rewrite(table: Table, origin: str = "") -> None:
    """All rows, or those of one origin, come in new files: what a compaction does."""
    rows = table.scan().to_arrow()
    if origin:
        mine = rows.filter(pc.equal(rows.column("__origin__"), origin))
        table.overwrite(mine, overwrite_filter=EqualTo(term="__origin__", value=origin))
    else:
        table.overwrite(rows)


def append(table: Table, chosen: Callable[[list[Identity]], Iterable[int]], *, index: int | None) -> None:
    """Copies of some rows: under another place in the group, or exactly the same once more."""
    rows = table.scan().to_arrow()
    copies = rows.take(pa.array(list(chosen(identities(rows))), pa.int64()))
    if index is not None:
        place = copies.schema.get_field_index("__index__")
        kind = copies.schema.field(place)
        copies = copies.set_column(place, kind, pa.array([index] * copies.num_rows, kind.type))
    table.append(copies)


def intrude(table: Table, hour: int) -> None:
    """A row of an origin that nobody knows."""
    schema = table.schema().as_arrow()
    given = {"__origin__": STRANGER, "__receive_hour__": hour * 3600 * 1_000_000}
    arrays = [pa.array([given.get(f.name, None if f.nullable else 0)], f.type) for f in schema]
    table.append(pa.Table.from_arrays(arrays, schema=schema))


class DeleteManifest(ManifestWriterV2):
    """A manifest of row-level deletes, which PyIceberg does not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def mark(table: Table, marked: Collection[Identity]) -> None:
    """Rows are hidden by position deletes; their files stay as they are."""
    head = table.current_snapshot()
    assert head is not None
    snapshot_id, sequence = table.metadata.new_snapshot_id(), table.metadata.next_sequence_number()
    hidden = 0
    by_spec: dict[int, list[DataFile]] = {}
    for task in table.scan().plan_files():
        with table.io.new_input(task.file.file_path).open() as stream:
            rows = pq.read_table(stream, columns=list(_KEYS))
        places = [i for i, identity in enumerate(identities(rows)) if identity in marked]
        if places:
            hidden += len(places)
            by_spec.setdefault(task.file.spec_id, []).append(_delete_file(table, task.file, places))
    manifests = [_manifest(table, spec, files, snapshot_id) for spec, files in sorted(by_spec.items())]
    location = table.location_provider().new_metadata_location(f"snap-{snapshot_id}-0-{uuid.uuid4()}.avro")
    with write_manifest_list(
        format_version=2,
        output_file=table.io.new_output(location),
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence,
        avro_compression="deflate",
    ) as writer:
        writer.add_manifests([*head.manifests(table.io), *manifests])
    said = head.summary.additional_properties if head.summary else {}
    totals: dict[str, Any] = {k: v for k, v in said.items() if k.startswith("total-")}
    totals["total-position-deletes"] = str(int(totals.get("total-position-deletes", 0)) + hidden)
    totals["total-delete-files"] = str(int(totals.get("total-delete-files", 0)) + len(manifests))
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence,
        timestamp_ms=table.metadata.last_updated_ms + 1,
        manifest_list=location,
        summary=Summary(Operation.OVERWRITE, **totals),
        schema_id=table.metadata.current_schema_id,
    )
    moved = SetSnapshotRefUpdate(
        ref_name=MAIN_BRANCH, type="branch", snapshot_id=snapshot_id,
        max_ref_age_ms=None, max_snapshot_age_ms=None, min_snapshots_to_keep=None,
    )  # fmt: skip
    table.catalog.commit_table(
        table,
        (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id),),
        (AddSnapshotUpdate(snapshot=snapshot), moved),
    )


def _delete_file(table: Table, data: DataFile, places: list[int]) -> DataFile:
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    rows = pa.table({"file_path": [data.file_path] * len(places), "pos": places}, schema=_FIELDS)
    output = table.io.new_output(path)
    with output.create() as stream:
        pq.write_table(rows, stream)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=data.partition,
        record_count=len(places),
        file_size_in_bytes=len(table.io.new_input(path)),
        lower_bounds={2147483546: data.file_path.encode()},
        upper_bounds={2147483546: data.file_path.encode()},
    )
    file.spec_id = data.spec_id
    return file


def _manifest(table: Table, spec: int, files: list[DataFile], snapshot_id: int) -> ManifestFile:
    location = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
    output = table.io.new_output(location)
    with DeleteManifest(table.specs()[spec], table.schema(), output, snapshot_id, "deflate") as writer:
        for file in files:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=UNASSIGNED_SEQ,
                file_sequence_number=None,
                data_file=file,
            )
            writer.add(entry)
    return writer.to_manifest_file()


def line(table: Table) -> list[int]:
    """The snapshots of `main`, newest first, as far as metadata has them."""
    found, snapshot = [], table.current_snapshot()
    while snapshot is not None:
        found.append(snapshot.snapshot_id)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return found


def expire(table: Table, snapshots: list[int]) -> None:
    """Snapshots leave the metadata; no file is deleted."""
    table.maintenance.expire_snapshots().by_ids(snapshots).commit()


def settle(table: Table, kind: str, number: int) -> None:
    """A setting of somebody else: property, column, branch, comment on a column."""
    head = table.current_snapshot()
    assert head is not None
    if kind == "property":
        with table.transaction() as change:
            change.set_properties({f"owner.{number}": "team", "write.parquet.compression-codec": "gzip"})
    elif kind == "branch":
        table.manage_snapshots().create_tag(head.snapshot_id, f"kept-{number}").commit()
    else:
        with table.update_schema() as update:
            if kind == "column":
                update.add_column(f"note_{number}", StringType())
            else:
                update.update_column("n", doc=f"number {number}")


def untag(table: Table) -> None:
    """The tag of the newest landing goes."""
    table.manage_snapshots().remove_tag(TAG).commit()


def once(table: Table) -> None:
    """All but one of each row that is there more than once leave."""
    rows = table.scan().to_arrow()
    first: dict[Identity, int] = {}
    for place, identity in enumerate(identities(rows)):
        first.setdefault(identity, place)
    table.overwrite(rows.take(pa.array(sorted(first.values()), pa.int64())))
