"""A commit that a person asked for: a new ledger on a content that is there, fenced like a landing.

    `build`    data: one snapshot on top of `main`, with the content of an existing snapshot, without
               the dropped files and with the added ones
    `commit`   one try, sent once; what the table says afterwards decides what is reported

Refs never point back. A rollback is a *new* snapshot that lists the manifests of an older one, as they are:
row-level deletes keep their meaning, and no file is marked as deleted, so that an expiry by anyone can never
take a file that a later rollback brought back. For the same reason a manifest that lists dropped files is
written anew without them, instead of marking them. The sweep deletes what leaves the table this way.

Story: a landing reads the table, a person rolls it back, the landing appends on what is gone. Both
require the `main` and the tag they read, so whoever comes second is refused and looks again.

A request that was not accepted is looked for in the table (`lost_answer.py`).
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyiceberg.manifest import (
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from pipelines.landing.commit import lost_answer, publish
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import Unreadable, entries_of, manifests_of
from pipelines.landing.ledger.state import TableState, held_columns
from pipelines.landing.ledger.summary import summary_of
from pipelines.landing.ledger.values import Adopted, Deed, Forgotten, Landed
from pipelines.landing.table.data_files import partition_text
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.trouble import storage_trouble
from pipelines.landing.table.usable import check_usable
from sls_io.values.claim import Ledger
from sls_io.values.errors import InvariantBroken, LandingConflict, TransportError

DEADLINE_S = 60.0
_TOTALS = (
    "total-data-files",
    "total-delete-files",
    "total-records",
    "total-files-size",
    "total-position-deletes",
    "total-equality-deletes",
)
_COUNTED = {
    DataFileContent.DATA: ("total-data-files", "total-records"),
    DataFileContent.POSITION_DELETES: ("total-delete-files", "total-position-deletes"),
    DataFileContent.EQUALITY_DELETES: ("total-delete-files", "total-equality-deletes"),
}


@dataclass(frozen=True)
class Change:
    """What a person wants the table to say from now on.

    content   the snapshot whose rows the table shall have
    ledgers   of every origin of the table
    deed      what was asked for, kept in the summary: `rollback 123`, `adopt`
    origin    a logstore to register in the same commit, if any
    dropped   paths of data files of `content` that leave
    added     files that come; they hold the rows of `windows`, or, when there are no windows, rows
              that were there before, written anew
    schema    the table's next schema, with which `added` was written, if it changes
    same_rows the rows stay what they are, only their files or manifests change: readers that follow
              what is appended pass over it
    paused    the shards of each origin that are paused from now on, where that changes
    properties  of the table, set in the same commit
    regroup   write all data manifests anew, with at most so many files in each; 0: leave them
    manifests those of `content` that stay, where not all of them can be read; None: all

    What the verbs make of it:

        rollback            content an older snapshot; ledgers of then
        undo, give up       dropped
        replace             dropped, added, windows
        mend, forget        dropped, added; rows are others or fewer
        compact             dropped, added, same_rows
        manifests           regroup, same_rows
        repair-manifests    manifests, added, same_rows
        pause, skip, abort  nothing but what stands beside the rows (`unchanged`)
    """

    content: Snapshot
    ledgers: Mapping[str, Ledger]
    adopted: Adopted
    deed: Deed
    origin: publish.RegisteredOrigin | None = None
    forgotten: Forgotten = field(default_factory=Forgotten)
    dropped: frozenset[str] = frozenset()
    added: tuple[DataFile, ...] = ()
    windows: tuple[Landed, ...] = ()
    window_origin: str = ""
    schema: Schema | None = None
    same_rows: bool = False
    paused: Mapping[str, frozenset[int]] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    regroup: int = 0
    manifests: tuple[ManifestFile, ...] | None = None


def unchanged(head: Snapshot, state: TableState, deed: Deed) -> Change:
    """A change that leaves rows, ledgers and what was decided as they are; readers pass over it."""
    return Change(head, state.ledgers, state.adopted, deed, forgotten=state.forgotten, same_rows=True)


def build(table: Table, state: TableState, change: Change, *, now_ms: int) -> publish.Request:
    """The change as one request on exactly `state`. Writes manifests, which nobody sees yet.

    Raises LedgerBroken for a table that cannot be written to, InvariantBroken when a file that shall leave
    is not there, or rows that shall stay would be more or fewer.

    Unlike a landing it may name any snapshot's content, so the manifest list is written here, and not by
    PyIceberg's producer, which appends to the head.
    """
    # Who changes columns has planned that on a table that was checked, or puts right what is wrong with them.
    check_usable(table, held_columns(table), columns=change.schema is None)
    # Where somebody dropped the branch main, it goes on from what it shall be.
    metadata, head = table.metadata, table.current_snapshot() or change.content
    snapshot_id, sequence = metadata.new_snapshot_id(), metadata.next_sequence_number()
    location = table.location_provider().new_metadata_location(f"snap-{snapshot_id}-0-{uuid.uuid4()}.avro")
    manifests, totals = _manifests(table, change, snapshot_id)
    schema_updates = publish.schema_updates(metadata, change.schema)
    with write_manifest_list(
        format_version=2,
        output_file=table.io.new_output(location),
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence,
        avro_compression="deflate",
    ) as writer:
        writer.add_manifests(manifests)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=sequence,
        timestamp_ms=max(now_ms, state.last_updated_ms + 1),
        manifest_list=location,
        summary=_summary(change, totals, same=change.content.snapshot_id == head.snapshot_id),
        schema_id=metadata.current_schema_id if change.schema is None else change.schema.schema_id,
    )
    registered: tuple[TableUpdate, ...] = ()
    if change.origin is not None:
        registered = publish.origin_registered(state, change.origin)
    return publish.Request(
        snapshot_id=snapshot_id,
        updates=(
            *schema_updates,
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate(
                ref_name=MAIN_BRANCH,
                type="branch",
                snapshot_id=snapshot_id,
                max_ref_age_ms=None,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
            publish.tag_moved(snapshot_id),
            *registered,
            *publish.paused(change.paused),
            *publish.properties_set(change.properties),
        ),
        requirements=publish.fence(
            table, state, (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=state.head),)
        ),
    )


@dataclass(frozen=True)
class Expiry:
    """Snapshots that leave the metadata; rows, ledgers and files stay."""

    snapshots: tuple[int, ...]


Commit = Change | Expiry


def commit(lake: Lake, table: Table, state: TableState, asked: Commit, *, now_ms: int) -> int:
    """Build and send once; the id of the new snapshot, or of main where only others leave.

    Raises TransportError when its manifests cannot be written and LandingConflict when the table is not
    `state` any more (nothing was changed then), and LandingUnknown when the answer was lost and may
    still come true, or the table does not say any more whether it did.

    Built and sent once. Whoever is refused has looked at an older table, and what a person agreed to was
    about that.
    """
    if isinstance(asked, Expiry):
        leaving = frozenset(asked.snapshots)
        request = _expired(lake, table, state, asked)
        _send(lake, table, request, lambda now: not leaving & {s.snapshot_id for s in now.snapshots()})
        return request.snapshot_id
    try:
        request = build(table, state, asked, now_ms=now_ms)
    except OSError as error:
        raise TransportError(f"{storage_trouble(table.location(), error)}; nothing was changed") from error
    except Unreadable as error:
        # Also what was swept between the look and the commit.
        raise TransportError(f"{error}, so nothing was changed", cures=error.cures) from error
    _send(lake, table, request, lambda now: lost_answer.landed(now, state, request.snapshot_id))
    return request.snapshot_id


def _expired(lake: Lake, table: Table, state: TableState, asked: Expiry) -> publish.Request:
    """Fenced by every ref there is: whoever takes a snapshot out takes the refs on it along.

    Story: between plan and commit somebody puts the tag `audit` on an old snapshot. The expiry goes by, the
    tag is gone, and the sweep deletes what it should keep. No requirement forbids a name that is new, so refs
    are looked at once more, right before; `left_too` finds what is made after that.
    """
    name = ".".join(table.name())
    now = lake.load(name) or table
    refs = {ref: on.snapshot_id for ref, on in now.metadata.refs.items() if ref != codec.TAG}
    if held := sorted(ref for ref, snapshot_id in refs.items() if snapshot_id in asked.snapshots):
        raise LandingConflict(
            f"{held[0]!r} of {name} names a snapshot by now that should be expired; nothing was changed"
        )
    known = {**refs, MAIN_BRANCH: state.head}
    return publish.Request(
        snapshot_id=state.head or 0,
        updates=(RemoveSnapshotsUpdate(snapshot_ids=list(asked.snapshots)),),
        requirements=publish.fence(
            table, state, [AssertRefSnapshotId(ref=ref, snapshot_id=at) for ref, at in known.items()]
        ),
    )


def _send(lake: Lake, table: Table, request: publish.Request, there: Callable[[Table], bool | None]) -> None:
    refusal = publish.send(table.catalog, table, request, deadline_s=DEADLINE_S)
    if refusal is not None:
        lost_answer.look(lake, table, request, refusal, there)


def _manifests(
    table: Table, change: Change, snapshot_id: int
) -> tuple[list[ManifestFile], Mapping[str, int]]:
    """The manifests of the new snapshot, and by how much its totals differ from those of its content. Where
    not all of the content can be read, its totals count as zero."""
    totals = dict.fromkeys(_TOTALS, 0)
    if change.regroup:
        return list(_regrouped(table, change, snapshot_id)), totals
    staying = list(_staying(table, change, snapshot_id, totals))
    for file in change.added:
        _count(totals, file, 1)
    # Whoever writes files together has counted their rows; here nobody can have forgotten it.
    more = totals["total-records"]
    # A repair lists files again that no manifest listed, so there rows may come; it has proven them itself.
    if change.same_rows and change.manifests is None and more:
        raise InvariantBroken(
            f"the rows of {'.'.join(table.name())} should stay, and there would be {more:+} of them; nothing "
            "was changed"
        )
    return [*staying, *_coming(table, change, snapshot_id)], totals


def _staying(
    table: Table, change: Change, snapshot_id: int, totals: dict[str, int]
) -> Iterator[ManifestFile]:
    """The manifests of the content; one that lists dropped files anew without them. Raises InvariantBroken
    when a dropped file is in none.

    Only manifests that list a dropped file are written anew. In those, too, files that stay keep their
    sequence numbers, by which row-level deletes apply to them.

    Worked example: three manifests list a and b, c, and d. With b and c dropped the first is written anew
    with a, the second leaves, and the third is the very same file. What a drop costs follows from the
    manifests that list the dropped files, not from the table.
    """
    # Where manifests are lost, the content's totals are not to be believed, so they begin at zero and what is
    # left is counted file by file. Else they are the content's own, and only what leaves and comes is
    # counted.
    for manifest in change.manifests or ():
        for entry in entries_of(table, manifest):
            _count(totals, entry.data_file, 1)
    missing = set(change.dropped)
    for manifest in manifests_of(table, change.content) if change.manifests is None else change.manifests:
        listed = missing and manifest.content == ManifestContent.DATA
        entries = entries_of(table, manifest) if listed else []
        leaving = [e.data_file for e in entries if e.data_file.file_path in missing]
        if not leaving:
            yield manifest
            continue
        missing -= {file.file_path for file in leaving}
        for file in leaving:
            _count(totals, file, -1)
        if kept := [e for e in entries if e.data_file.file_path not in change.dropped]:
            yield _written(table, change, manifest.partition_spec_id, kept, snapshot_id)
    if missing:
        raise InvariantBroken(f"{len(missing)} files that should leave are not in {'.'.join(table.name())}")


def _coming(table: Table, change: Change, snapshot_id: int) -> Iterator[ManifestFile]:
    """The manifests of the added files, one for each partitioning."""
    for spec_id in sorted({file.spec_id for file in change.added}):
        fresh = [_added(file, snapshot_id) for file in change.added if file.spec_id == spec_id]
        yield _written(table, change, spec_id, fresh, snapshot_id)


def _regrouped(table: Table, change: Change, snapshot_id: int) -> Iterator[ManifestFile]:
    """All data files in manifests sorted by partition; manifests of row-level deletes as they are.

    Sorted by partition, so that a scan of an hour reads a few manifests and not all. No file is written.
    """
    specs: dict[int, list[ManifestEntry]] = {}
    for manifest in manifests_of(table, change.content):
        if manifest.content != ManifestContent.DATA:
            yield manifest
        else:
            specs.setdefault(manifest.partition_spec_id, []).extend(entries_of(table, manifest))
    for spec_id, entries in sorted(specs.items()):
        entries.sort(key=lambda entry: partition_text(entry.data_file))
        for begin in range(0, len(entries), change.regroup):
            yield _written(table, change, spec_id, entries[begin : begin + change.regroup], snapshot_id)


def _added(file: DataFile, snapshot_id: int) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=UNASSIGNED_SEQ,
        file_sequence_number=None,
        data_file=file,
    )


def _written(
    table: Table, change: Change, spec_id: int, entries: list[ManifestEntry], snapshot_id: int
) -> ManifestFile:
    """A new manifest: kept files with the sequence numbers they have, so that row-level deletes go on
    to apply to them; added files get this commit's."""
    location = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
    with write_manifest(
        format_version=2,
        spec=table.specs()[spec_id],
        schema=change.schema or table.schema(),
        output_file=table.io.new_output(location),
        snapshot_id=snapshot_id,
        avro_compression="deflate",
    ) as writer:
        for entry in entries:
            if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot_id:
                writer.add(entry)
            else:
                writer.existing(entry)
    return writer.to_manifest_file()


def _count(totals: dict[str, int], file: DataFile, times: int) -> None:
    files, rows = _COUNTED[file.content]
    totals[files] += times
    totals[rows] += times * file.record_count
    totals["total-files-size"] += times * file.file_size_in_bytes


def _summary(change: Change, totals: Mapping[str, int], *, same: bool) -> Summary:
    """Totals of the content; `append` of nothing where main already holds it, else `overwrite`.

    Totals are those of the content, changed by what leaves and comes: readers believe them without counting.
    A commit that leaves all rows is a `replace`, which incremental readers pass over.
    """
    source = summary_of(change.content) if change.manifests is None else dict.fromkeys(_TOTALS, "0")
    origin = change.window_origin or (change.origin.id if change.origin else min(change.ledgers, default=""))
    rewritten = 0 if change.windows else sum(file.record_count for file in change.added)
    properties = {
        **{name: str(int(source[name]) + totals[name]) for name in _TOTALS if name in source},
        codec.ATTEMPT_KEY: uuid.uuid4().hex,
        codec.VERB_KEY: str(change.deed),
        codec.WINDOWS_KEY: codec.encode_windows(origin, change.windows),
        **({codec.REWRITTEN_KEY: str(rewritten)} if rewritten else {}),
        **publish.carried(change.ledgers, change.adopted, change.forgotten),
    }
    if change.same_rows:
        return Summary(Operation.REPLACE, **properties)
    same = same and not change.dropped and not change.added
    return Summary(Operation.APPEND if same else Operation.OVERWRITE, **properties)
