"""A catalog that reloads and applies again: what it was not asked to compare, it does not compare.

PyIceberg's SQL catalog refuses more than the requirements of a request: a snapshot whose sequence number
is not above the table's, and a metadata version that somebody replaced in the meantime. A server may be
kinder. This one, as REST servers do, checks the requirements on the table as it is by then, applies the
updates to it, and tries again when another request was first. And it goes further than they do: an
append that was built on an older head gets the next sequence number, and its files are put on top of
what is there, as a client's own retry of an append does. The summary stays as it was sent. So nothing
but the requirements of a request keeps two landings of the same windows apart.
"""

from collections.abc import Iterator

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import UNASSIGNED_SEQ, write_manifest_list
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate

from chaos.troubles.behind import behind
from pipelines.landing.table.lake import Lake

REAPPLY = "chaos-reapply"
"""Catalog property: "yes" makes it so; else it is PyIceberg's SQL catalog as it is."""
_TRIES_MAX = 50


class ReapplyingCatalog(SqlCatalog):
    """See the module's head."""

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """One request. Raises CommitFailedException only when one of its requirements does not hold."""
        if self.properties.get(REAPPLY) != "yes":
            return super().commit_table(table, requirements, updates)
        for left in reversed(range(_TRIES_MAX)):
            now = self.load_table(table.name())
            for requirement in requirements:
                requirement.validate(now.metadata)
            try:
                return super().commit_table(table, requirements, tuple(_applied(now, updates)))
            except (CommitFailedException, ValueError):
                # Somebody was first between our look and theirs: look again, the requirements decide.
                if not left or any(_known(now, u) for u in updates):
                    raise
        raise CommitFailedException("unreachable: the last try raises")


def reapplying(lake: Lake) -> Lake:
    """The same lake behind such a catalog."""
    return behind(lake, ReapplyingCatalog, **{REAPPLY: "yes"})


def _known(table: Table, update: TableUpdate) -> bool:
    """Whether it adds a snapshot that the table has: a doubled request, which every catalog refuses."""
    return (
        isinstance(update, AddSnapshotUpdate)
        and table.snapshot_by_id(update.snapshot.snapshot_id) is not None
    )


def _applied(table: Table, updates: tuple[TableUpdate, ...]) -> Iterator[TableUpdate]:
    for update in updates:
        if isinstance(update, AddSnapshotUpdate):
            yield AddSnapshotUpdate(snapshot=_on_top(table.io, table.metadata, update.snapshot))
        else:
            yield update


def _on_top(io: FileIO, metadata: TableMetadata, sent: Snapshot) -> Snapshot:
    """`sent` as a child of the head there is. What is no append stays what it says the table is."""
    head = metadata.current_snapshot()
    if head is None or sent.parent_snapshot_id == head.snapshot_id:
        return sent
    sequence, place = metadata.next_sequence_number(), sent.manifest_list
    if sent.summary is not None and sent.summary.operation is Operation.APPEND:
        mine = [m for m in sent.manifests(io) if m.added_snapshot_id == sent.snapshot_id]
        for manifest in mine:
            manifest.sequence_number = UNASSIGNED_SEQ
            manifest.min_sequence_number = UNASSIGNED_SEQ
        place = place.removesuffix(".avro") + f"-on-{head.snapshot_id}-{sequence}.avro"
        with write_manifest_list(
            format_version=2,
            output_file=io.new_output(place),
            snapshot_id=sent.snapshot_id,
            parent_snapshot_id=head.snapshot_id,
            sequence_number=sequence,
            avro_compression="deflate",
        ) as writer:
            writer.add_manifests([*mine, *head.manifests(io)])
    return sent.model_copy(
        update={
            "parent_snapshot_id": head.snapshot_id,
            "sequence_number": sequence,
            "manifest_list": place,
            "timestamp_ms": max(sent.timestamp_ms, metadata.last_updated_ms + 1),
        }
    )
