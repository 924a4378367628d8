"""A loaded table as facts: its head, its tag, the ledgers under the tag, and whether they agree.

The ledger is trusted only after three questions: does every known origin have a ledger, is the
tagged snapshot still an ancestor of `main` (else somebody rolled the table back by hand), and are
the rows that the landing under the tag brought still there. What cannot be proven stops with the
verb that settles it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import NestedField

from pipelines.landing.ledger import codec, epochs
from pipelines.landing.ledger.epochs import Epoch
from pipelines.landing.ledger.reading import (
    BY_VALUE,
    REWRITE,
    as_of_now,
    entries_in,
    loaded_again,
    manifests_of,
)
from pipelines.landing.ledger.summary import (
    adopted_of,
    check_windows,
    deed_in,
    forgotten_of,
    is_landing,
    known_rows,
    least_rows,
    ledgers_of,
    plain_number,
    total_of,
    total_records,
    windows_of,
)
from pipelines.landing.ledger.values import Adopted, Forgotten, Landed, Operation
from pipelines.landing.ledger.ways_back import newest_forgotten, pasts, ways
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Held
from pipelines.landing.table.former import newer, strangers, uuid_of, versions
from pipelines.landing.table.trouble import is_storage, storage_trouble
from pipelines.landing.table.usable import check_usable
from sls_io.values.claim import Ledger
from sls_io.values.cures import Call, Cure, Do
from sls_io.values.errors import Breach, LedgerBroken, TransportError, amount, some_of

_OF_CONTRACT = frozenset({Operation.COLUMNS, Operation.ERRORS, Operation.REPLACE, Operation.REST})
_AT_WORK_S = 3600
"""What was written before that is nobody's who is about to commit it."""


@dataclass(frozen=True)
class TableState:
    """What a commit is checked against, read once from one metadata version.

    `head` is the snapshot of `main`, `tagged` the newest landing's; both None before any.
    `last_updated_ms` is the latest time that the table names: a new snapshot must be younger.
    `paused` are the shards of each origin that a person paused, `epochs` the newest run of each deployment
    by origin, `aborted` the landings that may not be committed, with the time that was said, `asked` the
    oldest receive time (unix seconds) that the settings named when the history of an origin began, `kept` the
    oldest of which the service still had all logs then, where older ones were asked for.
    """

    uuid: str
    head: int | None
    tagged: int | None
    schema_id: int
    spec_id: int
    last_updated_ms: int
    ledgers: Mapping[str, Ledger]
    origins: Mapping[str, str]
    adopted: Adopted = field(default_factory=Adopted)
    forgotten: Forgotten = field(default_factory=Forgotten)
    paused: Mapping[str, frozenset[int]] = field(default_factory=dict)
    epochs: Mapping[str, Mapping[str, Epoch]] = field(default_factory=dict)
    aborted: Mapping[str, int] = field(default_factory=dict)
    asked: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    def ledger(self, origin: str) -> Ledger:
        """The origin's ledger; empty when the origin never landed here."""
        return self.ledgers.get(origin) or Ledger(origin)

    def paused_of(self, origin: str) -> frozenset[int]:
        """The origin's paused shards."""
        return self.paused.get(origin, frozenset())


def read_state(table: Table, *, newest: bool = True, columns: bool = True) -> TableState:
    """Read and check `table`. Raises LedgerBroken when its ledger cannot be trusted, or other hands changed
    it so that nothing can be written to it.

    `newest`: also that the catalog was not put back to an older state, which lists a folder. `columns`: False
    for who puts columns back.
    """
    check_usable(table, held_columns(table), columns=columns)
    if newest:
        check_newest(table)
    state = facts(table)
    if state.tagged is not None:
        check_ancestry(table)
    check_removed(table)
    _check_origins(table, state)
    return state


def landed_by_now(table: Table, ledger: Ledger) -> tuple[Table, Ledger]:
    """The table as of now, with the ledger of the same origin: asked before logs are called lost.

    Story: a proof reads for an hour what the table had at its begin. Meanwhile runs land what waited at the
    edge of retention, and then that takes it. By the ledger of the proof it is lost.
    """
    now = as_of_now(table)
    return now, facts(now, damaged_too=True).ledgers.get(ledger.origin, ledger)


def facts(table: Table, *, damaged_too: bool = False) -> TableState:
    """What the table says, unchecked: for a person who settles it, never for a landing.

    Raises LedgerBroken for a ledger that cannot be read; with `damaged_too` such a one is left out,
    and only a text of a later release stops.

    Nothing is proven here: it is what the metadata says, in one look, so that all of it is of one moment.
    """
    metadata = table.metadata
    tag = metadata.refs.get(codec.TAG)
    said = metadata.properties
    tagged = table.snapshot_by_id(tag.snapshot_id) if tag else None
    counted = forgotten_of(tagged, damaged_too=damaged_too)
    if not damaged_too:
        check_windows(tagged)
    return TableState(
        uuid=str(metadata.table_uuid),
        head=metadata.current_snapshot_id,
        tagged=tag.snapshot_id if tag else None,
        schema_id=metadata.current_schema_id,
        spec_id=metadata.default_spec_id,
        # Somebody whose clock was right may have set a property after one whose clock was ahead.
        last_updated_ms=max(metadata.last_updated_ms, *(e.timestamp_ms for e in metadata.snapshot_log), 0),
        ledgers=ledgers_of(tagged, damaged_too=damaged_too),
        origins=_by_origin(said, codec.ORIGIN_PROPERTY_PREFIX),
        adopted=adopted_of(tagged, damaged_too=damaged_too),
        forgotten=newest_forgotten(table)[0].counting(counted),
        paused={
            o: codec.decode_paused(o, t) for o, t in _by_origin(said, codec.PAUSED_PROPERTY_PREFIX).items()
        },
        epochs={o: epochs.decode(o, t) for o, t in _by_origin(said, epochs.PROPERTY_PREFIX).items()},
        aborted=epochs.decode_aborted(said.get(epochs.ABORTED_PROPERTY, "")),
        asked=_moments(_by_origin(said, codec.ASKED_PROPERTY_PREFIX)),
        kept=_moments(_by_origin(said, codec.KEPT_PROPERTY_PREFIX)),
    )


def _by_origin(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The table properties with this prefix, which are of one origin each."""
    return {name.removeprefix(prefix): text for name, text in properties.items() if name.startswith(prefix)}


def _moments(texts: Mapping[str, str]) -> Mapping[str, int]:
    # It only words a line for people: one that somebody changed by hand is as good as none.
    return {origin: at_s for origin, text in texts.items() if (at_s := plain_number(text)) is not None}


def check_newest(table: Table, *, before_s: float = 0.0) -> None:
    """Prove that the catalog does not name an older state of the table than there was.

    Story: the catalog's database comes back from a backup of last week. The ledger in it is as true as
    it was then, so all of the week would be landed once more, what retention took would become a gap,
    and the sweep would delete the week's own files, which no snapshot refers to any more.

    `before_s`: a state that is one commit further counts as well, where it was written before that time (unix
    seconds).

    Raises LedgerBroken, or TransportError when the storage or the catalog does not answer.

    Commits that came between the table's load and the listing are no trouble: the table is loaded once more,
    and held against what was listed before. Story: the folder was listed once more, too, and two others
    committed in between again. A catalog that was as new as can be was called restored from a backup.
    """
    name, mine = ".".join(table.name()), uuid_of(table)
    try:
        there = versions(table.io, table.metadata_location.rpartition("/")[0]) or ()
        if newer(table.io, there, table.metadata_location, mine, before_s=before_s) is None:
            return
        again = loaded_again(table)
        found = newer(again.io, there, again.metadata_location, mine, before_s=before_s)
    except Exception as error:  # every catalog has its own exceptions
        told = storage_trouble(table.location(), error) if is_storage(error) else type(error).__name__
        raise TransportError(f"nobody can say whether {name} is its newest state: {told}") from error
    if found is not None:
        named = again.metadata_location.rsplit("/", 1)[-1]
        raise LedgerBroken(
            f"the catalog names an older state of table {name} ({named}) than there was: its folder has "
            f"{found.name}. The catalog was restored from a backup, or two catalogs use the table; nothing "
            "was landed on the older state and nothing deleted",
            cures=(commands.REGISTER,),
        )


def check_before_loss(table: Table, now_s: float) -> None:
    """The same for who is about to name a loss: a state that is one commit further counts as well.

    Story: the catalog comes back from the copy of before the last landing, and retention takes the logs of
    that. What one commit more left may be a killed run's, so landings go on (`newer`); but these would call
    lost what lies in the folder, whole. A person registers it, whoever left it: its rows are what they say.

    Raises as `check_newest`.
    """
    check_newest(table, before_s=now_s - _AT_WORK_S)


def check_ancestry(table: Table) -> None:
    """Prove that the tagged landing is still part of `main`. Raises LedgerBroken otherwise.

    Story: rows land under the tag, somebody rolls `main` back behind them, the tag stays. Without
    this check the next landing would append after the hole and bury the evidence.

    Worked example: sequence numbers rise with each commit, and the tag is on 12. Main is 15, 14, 12: there it
    is. Main is 13 on top of 11: 11 is below 12 and 12 was not met: somebody rolled back, and committed since.
    Main is 15, 14, and what was before was expired, or 14 is the first of a table made again: nobody can say.
    """
    tag = table.metadata.refs[codec.TAG]
    tagged = table.snapshot_by_id(tag.snapshot_id)
    floor = tagged.sequence_number if tagged and tagged.sequence_number is not None else 0
    last_seen: Snapshot | None = None
    ahead: Snapshot | None = None
    for snapshot in ancestry(table):
        if snapshot.snapshot_id == tag.snapshot_id:
            _check_newest_tagged(table, snapshot, ahead)
            return
        last_seen = snapshot
        ahead = ahead or (snapshot if is_landing(snapshot) else None)
        if (snapshot.sequence_number or 0) < floor:
            break
    if last_seen is None or (last_seen.sequence_number or 0) < floor:
        raise _rolled_back(table, tag.snapshot_id)
    newest = f"the newest landing (snapshot {tag.snapshot_id})"
    # Expired or not, a snapshot keeps the name of the one before it.
    why = (
        f"main begins anew behind {newest}: somebody made the table again (CREATE OR REPLACE)"
        if last_seen.parent_snapshot_id is None
        else f"snapshots between main and {newest} were expired"
    )
    raise LedgerBroken(
        f"table {'.'.join(table.name())}: {why}, so nobody can prove that it was not rolled back",
        cures=(commands.ADOPT,),
        kind=Breach.UNEXPLAINED,
    )


def _rolled_back(table: Table, tagged: int) -> LedgerBroken:
    """The error for a `main` from before the newest landing: the way that loses nothing comes first."""
    since, cures = "", _ways_back(table, tagged)
    # What main holds now may be no landing (a compaction, rows by hand): a ledger goes with one.
    target = next((s.snapshot_id for s in ancestry(table) if is_landing(s)), None)
    if removal_undone(table) is not None:
        since = ", and rows that `table forget` removed are back"
    elif target is not None and (others := _ways_back(table, target)) != cures:
        out = "leaves it out: what landed since is pulled again, or lost where retention has taken it"
        cures = (
            *(_doing(cure, "brings back what was there by then") for cure in cures),
            *(_doing(cure, out) for cure in others),
        )
    return LedgerBroken(
        f"table {'.'.join(table.name())} was rolled back by hand: main no longer contains the newest "
        f"landing (snapshot {tagged}){since}",
        cures=cures,
    )


def _check_newest_tagged(table: Table, tagged: Snapshot, ahead: Snapshot | None) -> None:
    """Raises LedgerBroken when a landing `ahead` of the tagged one is in main. Each landing moves the tag in
    its own commit, so somebody moved it back: what landed since would look like rows of nobody."""
    if ahead is not None:
        name, newest = ".".join(table.name()), ahead.snapshot_id
        raise LedgerBroken(
            f"the tag {codec.TAG} of table {name} was moved back by hand to snapshot {tagged.snapshot_id}: "
            f"the newest landing in main is snapshot {newest}; nothing was changed",
            cures=(Do(f"ALTER TABLE lake.{name} REPLACE TAG `{codec.TAG}` AS OF VERSION {newest} in Spark"),),
        )


def check_removed(table: Table) -> None:
    """Prove that `main` was not put back to before a removal for good. Raises LedgerBroken otherwise.

    Story: rows are forgotten, somebody rolls `main` back to before that and deletes the tag or moves it
    along. Every ledger agrees with the rows then; only the removal's own snapshot knows better.
    """
    if (removal := removal_undone(table)) is not None:
        raise LedgerBroken(
            f"rows were removed from table {'.'.join(table.name())} by `table forget`, and main was put back "
            "to before that: they are there again",
            cures=_ways_back(table, removal),
        )


def removal_undone(table: Table) -> int | None:
    """The snapshot of the newest removal, or the first one after it that metadata still has, when `main` is
    from before the removal. None when there was no removal, or main contains it, or nobody can say.

    A removal's list only grows. So main has seen the newest removal where one of its landings says the same
    list; a landing from before it says a shorter one.
    """
    forgotten, removal = newest_forgotten(table)
    if removal is None:
        return None
    landings = list(filter(is_landing, ancestry(table)))
    contained = any(forgotten_of(s, damaged_too=True) == forgotten for s in landings)
    return removal if landings and not contained else None


def ancestry(table: Table, newest: int | None = None) -> Iterator[Snapshot]:
    """Snapshots of `main` (or from the snapshot `newest`), newest first, as far as metadata has them."""
    snapshot = table.current_snapshot() if newest is None else table.snapshot_by_id(newest)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None


def held_columns(table: Table) -> Held:
    """The columns of the newest landing, and older ones' that it has not, back to the last `table columns`.

    Story: a column is dropped and added anew, then manifests are regrouped, which moves the tag. That commit
    found the table's schema and looked at no contract: it proves nothing. Only what wrote with the declared
    columns does, and only a person's own renaming ends what was before it.

    Worked example: landings had `city` with the id 12; somebody drops it and adds it anew as 19. What files
    have under 12 would be null under 19, in silence. The newest landing's schema still says 12.
    """
    metadata, found = table.metadata, dict[str, NestedField]()
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    tag = metadata.refs.get(codec.TAG)
    at = metadata.current_snapshot_id if tag is None else tag.snapshot_id
    while at is not None and (snapshot := snapshots.get(at)) is not None:
        at = snapshot.parent_snapshot_id
        deed = deed_in(snapshot)
        schema = schemas.get(snapshot.schema_id) if snapshot.schema_id is not None else None
        if schema is None or not is_landing(snapshot) or (deed and deed.operation not in _OF_CONTRACT):
            continue
        for column in schema.fields:
            found.setdefault(column.name, column)
        if deed and deed.operation is Operation.COLUMNS:
            break
    return found


def _doing(cure: Cure, does: str) -> Cure:
    return cure.plus(does=does) if isinstance(cure, Call) else cure


def _ways_back(table: Table, wanted: int) -> tuple[Cure, ...]:
    """The rollback to the landing `wanted`; where that is refused, the rollback to one that is accepted."""
    past, removed = pasts(table, first=wanted), newest_forgotten(table)[0]
    for back in ways(past, removed):
        return (commands.rollback(back.id),)
    for holed in ways(past, removed, holed=True):
        return (commands.rollback(holed.id, "--without-missing"),)
    return (Do(f"restore the files of snapshot {wanted}"), commands.rollback(wanted, does="after that"))


def files_of(table: Table, snapshot: Snapshot | None) -> dict[str, DataFile]:
    """The live files of `snapshot` (row-level deletes included) by path. Raises as `reading.py` does."""
    return {
        entry.data_file.file_path: entry.data_file
        for entry in entries_in(table, manifests_of(table, snapshot))
    }


def others_here(table: Table, *, older_than_s: float) -> tuple[str, ...]:
    """Metadata files of other tables in the table's folder, and old ones of nobody knows which, a phrase
    each. Raises TransportError when the storage does not answer."""
    folder = f"{table.location()}/metadata"
    try:
        found = strangers(table.io, folder, table.metadata, table.metadata_location, older_than_s)
    except OSError as error:
        raise TransportError(f"{storage_trouble(table.location(), error)}; run it again") from error
    return tuple(found)


def others_text(others: tuple[str, ...]) -> str:
    """What is said where files of two tables lie in one folder."""
    return (
        f"{some_of(others, 3, '; ')}: files of another table may be here, so nothing here "
        "counts as left over until a person has moved that table's files, or that metadata file, away"
    )


def landed_snapshot(table: Table, tries: Iterable[int]) -> int | None:
    """The snapshot id of any of these tries that is part of `main`, else None."""
    wanted = set(tries)
    return next((s.snapshot_id for s in ancestry(table) if s.snapshot_id in wanted), None)


def windows_in(table: Table, origin: str, snapshots_max: int | None = None) -> Iterator[Landed]:
    """The windows of a logstore that the newest snapshots of `main` brought, the newest first."""
    for snapshot in islice(ancestry(table), snapshots_max):
        of, windows = windows_of(snapshot)
        yield from windows if of == origin else ()


def names_of(text: str) -> str:
    """project/logstore@created of an origin's readable identity: all of it but the region."""
    return text.partition("/")[2]


def origins_named(state: TableState, project: str, logstore: str) -> tuple[str, ...]:
    """The table's ids of a logstore, also from before it was made again; known without the service."""
    name = f"{project}/{logstore}"
    return tuple(sorted(o for o, text in state.origins.items() if names_of(text).rpartition("@")[0] == name))


def _check_origins(table: Table, state: TableState) -> None:
    """Raises LedgerBroken where rows are not explained: an origin that is registered and has no ledger, rows
    and no ledger at all, more rows than the ledgers know. Fewer rows are no matter of this look: what is
    missing is told by a proof, which reads the rows."""
    name = ".".join(table.name())
    orphaned = sorted(set(state.origins) - set(state.ledgers))
    if orphaned:
        raise LedgerBroken(
            f"table {name} knows the logstore {orphaned[0]} but has no ledger of it",
            cures=(commands.ADOPT,),
            kind=Breach.UNEXPLAINED,
        )
    head = table.current_snapshot()
    if head is None:
        return
    total = total_records(head)
    if not state.ledgers and total != 0:
        raise LedgerBroken(
            f"table {name} has rows ({'an unknown number' if total is None else total}) but no ledger of "
            "where they came from",
            cures=(commands.ADOPT,),
            kind=Breach.UNEXPLAINED,
        )
    known, least = known_rows(state.ledgers, state.adopted), least_rows(head)
    if least is not None and least > known:
        # Which landing takes them out has to be looked at row by row. Story: a row is deleted by hand, a
        # foreign one appended: the landing has as many rows as its ledger says. The deleted one is landed
        # again, and a rollback to that landing, chosen by its number of rows, takes it out and leaves the
        # foreign one, again and again.
        if total_of(head, "total-equality-deletes"):
            raise LedgerBroken(
                f"nobody can tell how many rows table {name} has: its files hold {total}, its ledger knows "
                f"{known}, and {BY_VALUE}",
                cures=(REWRITE,),
            )
        raise LedgerBroken(
            f"table {name} has {amount(least, 'row')}, its ledger knows {known}: rows of unknown origin "
            "were added",
            cures=(commands.VERIFY.plus(does="names what takes them out, and what keeps them"),),
            kind=Breach.FOREIGN,
        )
