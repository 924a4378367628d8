"""A table that the catalog has lost, or names in an older state, registered again.

The catalog names the newest metadata there is (`candidates.py`) from then on. Nothing is deleted. Of several
files with one number the newest is the one whose ledger has all that the group's checkpoints say was landed.

Worked example: two files have the number 41. In a the frontier of shard 0 is 480, in b it is 500, and the
group's checkpoint of shard 0 is 500. A checkpoint follows its commit and never goes before it, so b was the
table's, and a is what a refused commit left. Registered with a, [480, 500) would be pulled again, and would
be a gap where retention has taken it. Where the checkpoints tell no difference, the one that was written last
is taken.

What looks unsound is not registered unless a person names the file: newer metadata that cannot be read, a
ledger that does not add up, a catalog that names a later version which is gone. Each of these says that
something better may still be found, in a backup of the folder or of the catalog.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import BadRequestError, RESTError, TableAlreadyExistsError
from pyiceberg.table import Table

from pipelines.landing.commit.after_commit import commits
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Decision, Finished, Tools
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.newest_landing import disagreements
from pipelines.landing.ledger.start import check_beside, check_origin, published_cursors
from pipelines.landing.ledger.start import known as known_as
from pipelines.landing.ledger.state import TableState, facts, read_state
from pipelines.landing.ledger.summary import least_rows
from pipelines.landing.logstore import Logstore
from pipelines.landing.recovery.candidates import (
    Candidate,
    CatalogEntry,
    candidates_of,
    catalog_changed,
    entry_of,
    loaded,
    newest_of,
    table_of,
)
from pipelines.landing.table import commands
from pipelines.landing.table.former import (
    Version,
    number_of,
    other_name,
)
from pipelines.landing.table.home import CATALOG
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.sql_catalog import repoint
from pipelines.landing.table.trouble import unanswered
from sls_io.values.cures import Call
from sls_io.values.errors import (
    ConfigError,
    LedgerBroken,
    printable,
)
from sls_io.values.window import Cursor
from sls_io.wire.client import Origin, SlsClient

_LOOKS_MAX = 3
_UNABLE = (TableAlreadyExistsError, NotImplementedError, BadRequestError, RESTError)


@dataclass(frozen=True)
class Registration(Effect):
    """What would be registered.

    metadata   the file that the catalog would name, and `named` the one that it names now, "" for none
    rows       of its newest snapshot, None where that does not say
    trouble    why it is not registered without being named: it is not sound, or not the newest
    notes      what else was found
    """

    WHAT = "{table}: the catalog names {metadata} of table {uuid}"
    QUIET = frozenset({"trouble", "notes"})
    THEN = (commands.VERIFY.plus(does="proves it"),)

    table: str
    metadata: str
    named: str
    uuid: str
    rows: int | None
    snapshots: int
    updated_ms: int
    trouble: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def said(self) -> Iterable[Note]:
        yield Note(
            f"it was written {moment_text(self.updated_ms // 1000)} UTC; the catalog names "
            f"{self.named or 'nothing'} now"
        )
        yield from map(Note, self.notes)
        yield from (Note(trouble, "loss") for trouble in self.trouble)


@dataclass(frozen=True, kw_only=True)
class PlannedRegistration(Decision[Registration]):
    """A registration as data: what `register` does, if the catalog still says what it said. Metadata with
    trouble has to be named (`does`), so that nobody takes it for the newest."""

    does: Call
    there: bool
    old: str | None
    chosen: bool

    def carry_out(self, lake: Lake, tools: Tools) -> Finished:
        register(lake, self)
        return Finished(None, self.view)


def plan_register(
    lake: Lake, logstore: Logstore, client: SlsClient, *, metadata: str = ""
) -> PlannedRegistration:
    """Look for the newest metadata; `metadata` names another one. Changes nothing.

    Raises ConfigError when there is none, or the catalog names the newest already, or has the table under
    another name.
    """
    name = logstore.table
    known, found, unreadable = _looked(lake, name, metadata)
    origin, newest = client.origin(), newest_of(found)
    points = _checkpoints(client, logstore, known_as(_said(lake, name, newest[-1]), origin).id)
    renamed = _renamed(lake, name, known, str(newest[-1].metadata.table_uuid))
    ranked = sorted(newest, key=lambda c: -len(_behind(lake, name, c, origin, points)))
    best = ranked[-1]
    table, notes = table_of(lake, name, best), renamed
    trouble = [f"{v.name} is newer and cannot be read" for v in unreadable if v.number > best.version.number]
    trouble += _undone(known, best, unreadable)
    state = facts(table, damaged_too=True)
    trouble += _unsound(table, state)
    try:
        check_origin(state, origin, name)
        check_beside(state, origin, logstore)
    except (LedgerBroken, ConfigError) as error:
        notes.append(f"landings will be refused then: {error}")
    if behind := _behind(lake, name, best, origin, points):
        shards = ", ".join(map(str, behind))
        notes.append(
            f"the group's checkpoints of shards {shards} are ahead of it: it may lack what landed last"
        )
    notes += [f"{c.version.path} was written beside it" for c in ranked[:-1]]
    notes += _of_others(found, best)
    view = Registration(
        table=name,
        metadata=best.version.path,
        named=known.old or "",
        uuid=str(best.metadata.table_uuid),
        rows=least_rows(table.current_snapshot()),
        snapshots=len(best.metadata.snapshots),
        updated_ms=best.metadata.last_updated_ms,
        trouble=tuple(trouble),
        notes=tuple(notes),
    )
    named_one = ("--metadata", view.metadata) if metadata or view.trouble else ()
    return PlannedRegistration(
        view=view,
        there=known.there,
        old=known.old,
        chosen=bool(metadata),
        does=commands.REGISTER.plus(*named_one),
    )


def _looked(lake: Lake, name: str, metadata: str) -> tuple[CatalogEntry, list[Candidate], list[Version]]:
    """What the catalog says, and `candidates_of`, both of one moment. Raises as that does, LandingConflict
    where others commit at each look.

    Story: a run lands between the two. Its metadata is newer than what the catalog has named, and the catalog
    names it by now: a person is told to register what is registered.
    """
    for _ in range(_LOOKS_MAX):
        known = entry_of(lake, name)
        found, unreadable = candidates_of(lake, name, known, metadata)
        now = entry_of(lake, name)
        if (now.there, now.old) == (known.there, known.old):
            return known, found, unreadable
    raise catalog_changed(name)


def _unsound(table: Table, state: TableState) -> Iterator[str]:
    """Why the table would not be landed on as it is."""
    try:
        read_state(table, newest=False)
    except LedgerBroken as error:
        yield str(error)
    yield from disagreements(table)[0]
    if not state.origins:
        yield "it knows no logstore: sls-lake never landed in it"


def register(lake: Lake, planned: PlannedRegistration) -> Table:
    """Do it; the table as the catalog has it then.

    Raises LedgerBroken for metadata with trouble that nobody has named, LandingConflict when the catalog
    says something else by now, ConfigError for a catalog that cannot do it, LandingUnknown when it did
    not answer.
    """
    view = planned.view
    if view.trouble and not planned.chosen:
        raise LedgerBroken(
            f"{view.metadata} is not registered: {'; '.join(view.trouble)}. Name it to register it "
            "all the same",
            cures=(planned.does,),
        )
    if not planned.there:
        lake.ensure_namespace(view.table)
    with commits(view.table) as made:
        if not _registered(lake, planned):
            raise catalog_changed(view.table)
        made.what = f"the registration of {_last(view.metadata)} for {view.table} is committed"
        return loaded(lake, view.table)


def _registered(lake: Lake, planned: PlannedRegistration) -> bool:
    """Whether the catalog took it; False where it says something else of the table by now.

    A catalog in a database has its row changed under the condition that it names what was seen; a REST server
    is asked to overwrite. An error in any other words than "not able" or "there already" means unknown, as it
    does for a commit.
    """
    catalog = lake.catalog()
    try:
        return lake.answered(lambda: _send(catalog, planned))
    except Exception as error:  # every catalog has its own exceptions
        # The bare class is a server's answer for what it does not do, its subclasses mean other things.
        if planned.there and type(error) in _UNABLE:
            raise ConfigError(
                f"{lake.place} does not let a table that it has name other metadata; drop the table there, "
                "without its files (purge), first",
                cures=(commands.REGISTER,),
            ) from error
        if isinstance(error, TableAlreadyExistsError):
            return False
        raise unanswered(lake.place, error) from error


def _send(catalog: Catalog, planned: PlannedRegistration) -> bool:
    view = planned.view
    if not planned.there:
        catalog.register_table(view.table, view.metadata)
        return True
    if isinstance(catalog, SqlCatalog):
        return repoint(catalog, view.table, planned.old, view.metadata)
    catalog.register_table(view.table, view.metadata, overwrite=True)
    return True


def _renamed(lake: Lake, name: str, known: CatalogEntry, table_uuid: str) -> list[str]:
    """A note where nobody can say whether the catalog has the table under another name.

    Raises ConfigError where it does. Story: somebody renames the table. Its folder, which keeps the old name,
    has the newest metadata, so it is registered: two names for one table. A landing under one of them moves
    that name on, the other stays behind, and maintenance of that one deletes files the first one needs.
    """
    if known.table is not None:
        return []
    catalog = lake.catalog()
    try:
        other = lake.answered(lambda: other_name(catalog, name, table_uuid))
    except Exception as error:  # who cannot list the tables may be able to register one
        return [
            f"whether {lake.place} has it under another name is not known ({type(error).__name__}): look "
            "there first, one table under two names is damaged by the maintenance of either"
        ]
    if not other:
        return []
    raise ConfigError(
        f"the catalog ({lake.place}) has this very table ({table_uuid}) as {printable(other)}: somebody "
        f"renamed it, and registered as {name} it would have two names. Rename it back in the catalog, in "
        f"Spark ALTER TABLE {CATALOG}.{printable(other)} RENAME TO {name}; or name the new one in defs.yaml, "
        f"`table: {printable(other)}`"
    )


def _undone(known: CatalogEntry, best: Candidate, unreadable: list[Version]) -> Iterator[str]:
    """What is undone where the catalog names a later state than `best`, or another one of its number.

    Worked example: `best` is 00041-a. A catalog that names 00044-x, gone or not, has three commits more. So
    it has with 00041-b, another one of that number. With 00041-a itself, or with 00040, it has not. Where
    00044-x is there and cannot be read, that is said as trouble of its own.
    """
    named, path = known.old or "", best.version.path
    if named in {"", path, *(v.path for v in unreadable)} or number_of(named) < best.version.number:
        return
    gone = ", which is gone" if known.table is None else ", a later state"
    yield (
        f"the catalog names {_last(named)}{gone}: what landed in it and not in {best.version.name} is pulled "
        "again, or becomes a gap where retention has taken it; and what a person decided since is undone: "
        "rows that were removed for good are back"
    )


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _of_others(found: list[Candidate], best: Candidate) -> Iterator[str]:
    """Other tables that left metadata there."""
    for uuid in sorted({str(c.metadata.table_uuid) for c in found} - {str(best.metadata.table_uuid)}):
        theirs = max((c for c in found if str(c.metadata.table_uuid) == uuid), key=lambda c: c.version.number)
        yield f"another table was there before, {uuid}: {theirs.version.path}"


def _said(lake: Lake, name: str, candidate: Candidate) -> TableState:
    return facts(table_of(lake, name, candidate), damaged_too=True)


def _checkpoints(client: SlsClient, logstore: Logstore, origin: str) -> Mapping[int, Cursor]:
    stored = published_cursors(client, logstore, known_as=origin)
    return {shard: cursor for shard, cursor in stored.items() if cursor is not None}


def _behind(
    lake: Lake, name: str, candidate: Candidate, origin: Origin, points: Mapping[int, Cursor]
) -> list[int]:
    """The shards whose checkpoint is ahead of the candidate's ledger: a later state was published.

    A shard that the ledger does not know counts, too: its first landing is what the candidate lacks. Nothing
    is decided by this alone, since a checkpoint can be set by hand; it orders candidates of one number, and
    is said.
    """
    state = _said(lake, name, candidate)
    shards = state.ledger(known_as(state, origin).id).shards
    return sorted(s for s, at in points.items() if s not in shards or shards[s].frontier < at)
