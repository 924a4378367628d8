"""A table that the catalog has lost, or names in an older state: registered again, or given up.

    plan_register, register      let the catalog name the newest metadata there is
    plan_start_over, start_over  a new, empty table in a folder of its own; the old files stay as they are

Neither deletes anything. The newest metadata is the one that was written last, as its own content says.
Several files may have one number, because a refused commit leaves its file: then the newest is the one whose
ledger has all that the group's checkpoints say was landed.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import BadRequestError, RESTError, TableAlreadyExistsError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.operation import Decision, Finished, Tools
from pipelines.landing.commit.standing import commits
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.start import check_beside, check_origin, moved, published_cursors
from pipelines.landing.ledger.start import known as known_as
from pipelines.landing.ledger.state import TableState, facts, read_state
from pipelines.landing.ledger.summary import least_rows
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import calls
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.former import (
    Version,
    beside,
    new_location,
    number_of,
    other_name,
    place_of,
    read,
    uuid_of,
    versions,
)
from pipelines.landing.table.home import CATALOG
from pipelines.landing.table.lake import Lake, NoMetadata, unreachable
from pipelines.landing.table.sql_catalog import named, repoint
from pipelines.landing.table.trouble import storage_trouble
from sls_io.values.cures import Call
from sls_io.values.errors import (
    ConfigError,
    LandingConflict,
    LandingUnknown,
    LedgerBroken,
    printable,
)
from sls_io.values.window import Cursor
from sls_io.wire.client import Origin, SlsClient

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
    THEN = (calls.VERIFY.plus(does="proves it"),)

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


@dataclass(frozen=True)
class StartOver(Effect):
    """What is given up, a phrase each, and where the new table lies; "" where the catalog decides.

    there  the catalog has the table's row, which names `named` (None: no file), and that cannot be read
    """

    QUIET = frozenset({"found"})
    THEN = (calls.LAND,)

    table: str
    found: tuple[str, ...]
    location: str
    there: bool = False
    named: str | None = None

    @property
    def headline(self) -> str:
        where = f"lies in {self.location}" if self.location else "lies where the catalog puts it"
        return f"given up: the old table {self.table}; a new, empty one {where}"

    def said(self) -> Iterable[Note]:
        return map(Note, self.found)


@dataclass(frozen=True, kw_only=True)
class PlannedStart(Decision[StartOver]):
    """A table begun anew as data: what `start_over` does, for these settings."""

    logstore: Logstore

    def carry_out(self, lake: Lake, tools: Tools) -> Finished:
        made = start_over(lake, self)
        return Finished(None, replace(self.view, location=made.location()))


@dataclass(frozen=True)
class _Known:
    """What the catalog says now: whether it has the table, which file it names, and the table if readable;
    else why not."""

    there: bool
    old: str | None
    table: Table | None
    why: NoMetadata | None = None


@dataclass(frozen=True)
class _Candidate:
    version: Version
    metadata: TableMetadata
    io: FileIO


def plan_register(
    lake: Lake, logstore: Logstore, client: SlsClient, *, metadata: str = ""
) -> PlannedRegistration:
    """Look for the newest metadata; `metadata` names another one. Changes nothing.

    Raises ConfigError when there is none, or the catalog names the newest already, or has the table under
    another name.
    """
    name, known = logstore.table, _known(lake, logstore.table)
    found, unreadable = _found(lake, name, known, metadata)
    points, origin = _checkpoints(client, logstore), client.origin()
    last = max(found, key=lambda c: c.metadata.last_updated_ms)
    same = [c for c in found if c.metadata.table_uuid == last.metadata.table_uuid]
    renamed = _renamed(lake, name, known, str(last.metadata.table_uuid))
    top = max(c.version.number for c in same)
    ranked = sorted(
        (c for c in same if c.version.number == top),
        key=lambda c: (-len(_behind(lake, name, c, origin, points)), c.metadata.last_updated_ms),
    )
    best = ranked[-1]
    table, notes = _table(lake, name, best), renamed
    trouble = [f"{v.name} is newer and cannot be read" for v in unreadable if v.number > best.version.number]
    if _older_than_named(known, best, unreadable):
        trouble.append(
            f"the catalog names {_last(known.old or '')}, which is gone: what it had and {best.version.name} "
            "has not is pulled again, or becomes a gap where retention has taken it"
        )
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
        does=calls.REGISTER.plus(*named_one),
    )


def _found(lake: Lake, name: str, known: _Known, metadata: str) -> tuple[list[_Candidate], list[Version]]:
    """The metadata that could be registered, `metadata` alone where it is named; and what cannot be read.
    Raises ConfigError when there is none."""
    try:
        found, unreadable = lake.answered(lambda: _candidates(lake, name, known))
    except OSError as error:
        raise ConfigError(storage_trouble(lake.properties.get("warehouse", ""), error)) from error
    if metadata:
        found = [c for c in found if metadata in (c.version.path, c.version.name)]
        found = found or _elsewhere(lake, known, metadata)
    if not found:
        raise ConfigError(_none(name, known, metadata), cures=(calls.START_OVER,))
    return found, unreadable


def _unsound(table: Table, state: TableState) -> Iterator[str]:
    """Why the table would not be landed on as it is."""
    try:
        read_state(table, newest=False)
    except LedgerBroken as error:
        yield str(error)
    yield from reconcile(table)
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
            raise _changed(view.table)
        made.what = f"the registration of {_last(view.metadata)} for {view.table} is committed"
        return _there(lake, view.table)


def _registered(lake: Lake, planned: PlannedRegistration) -> bool:
    """Whether the catalog took it; False where it says something else of the table by now."""
    catalog = lake.catalog()
    try:
        return lake.answered(lambda: _send(catalog, planned))
    except Exception as error:  # every catalog has its own exceptions
        # The bare class is a server's answer for what it does not do, its subclasses mean other things.
        if planned.there and type(error) in _UNABLE:
            raise ConfigError(
                f"{lake.place} does not let a table that it has name other metadata; drop the table there, "
                "without its files (purge), first",
                cures=(calls.REGISTER,),
            ) from error
        if isinstance(error, TableAlreadyExistsError):
            return False
        raise LandingUnknown(f"{unreachable(lake, error)}; asking for the same again is safe") from error


def _there(lake: Lake, name: str) -> Table:
    table = lake.load(name)
    if table is None:
        raise LandingConflict(f"the catalog ({lake.place}) has no table {name} any more")
    return table


def _changed(name: str) -> LandingConflict:
    return LandingConflict(
        f"the catalog says something else of {name} by now, so nothing was changed; look again "
        "without --execute"
    )


def plan_start_over(lake: Lake, logstore: Logstore, client: SlsClient) -> PlannedStart:
    """What giving the old table up means. Changes nothing.

    Raises ConfigError when the catalog has the table, or nothing says that there was one.
    """
    name = logstore.table
    known = _known(lake, name)
    if known.table is not None:
        raise ConfigError(f"table {name} is in the catalog ({lake.place}): there is nothing to give up")
    if known.why is not None and known.why.whole:
        raise known.why
    former = lake.former(name)
    shards = moved(client, logstore)
    if former is None and not shards and not known.there:
        raise ConfigError(
            f"nothing says that there ever was a table {name}: the first run makes it by itself"
        )
    group = f"group {logstore.group.name} has checkpoints of shards {', '.join(map(str, shards))}"
    place = place_of(lake.catalog(), name) if former or known.there else None
    view = StartOver(
        table=name,
        found=(
            *([str(known.why)] if known.why else []),
            *(former.found if former else ()),
            *([group] if shards else []),
        ),
        location=new_location(place.location) if place else "",
        there=known.there,
        named=known.old,
    )
    return PlannedStart(view=view, logstore=logstore)


def start_over(lake: Lake, decided: PlannedStart) -> Table:
    """Make the new table; the one in the catalog then.

    Raises as `Lake.create`; where the catalog has a row of the old one, LandingConflict when its metadata is
    there again, LandingUnknown when the catalog did not answer, and ConfigError for one that cannot do it.
    """
    planned = decided.view
    contract, name = Contract.from_columns(decided.logstore.columns), planned.table
    if not planned.there:
        return lake.create(name, contract, location=planned.location or None)
    known, catalog = _known(lake, name), lake.catalog()
    if not isinstance(catalog, SqlCatalog):
        raise ConfigError(
            f"{lake.place} does not let a table that it has begin anew; drop the table there, without its "
            "files (purge), first",
            cures=(calls.START_OVER,),
        )
    with commits(name) as made:
        if known.table is not None or known.old != planned.named:
            raise _changed(name)
        try:
            done = lake.answered(
                lambda: lake.create_instead(
                    name, contract, catalog, location=planned.location, named=planned.named
                )
            )
        except OSError as error:
            raise ConfigError(f"{storage_trouble(planned.location, error)}; nothing was changed") from error
        except Exception as error:  # every catalog has its own exceptions
            raise LandingUnknown(f"{unreachable(lake, error)}; asking for the same again is safe") from error
        if not done:
            raise _changed(name)
        made.what = f"a new, empty table {name} in {planned.location} is committed"
        return _there(lake, name)


def _send(catalog: Catalog, planned: PlannedRegistration) -> bool:
    view = planned.view
    if not planned.there:
        catalog.register_table(view.table, view.metadata)
        return True
    if isinstance(catalog, SqlCatalog):
        return repoint(catalog, view.table, planned.old, view.metadata)
    catalog.register_table(view.table, view.metadata, overwrite=True)
    return True


def _known(lake: Lake, name: str) -> _Known:
    try:
        table = lake.load(name)
    except LedgerBroken:
        return _Known(False, None, None)
    except NoMetadata as error:
        catalog = lake.catalog()
        old = named(catalog, name) if isinstance(catalog, SqlCatalog) else None
        return _Known(True, old, None, error)
    return _Known(table is not None, table.metadata_location if table else None, table)


def _candidates(lake: Lake, name: str, known: _Known) -> tuple[list[_Candidate], list[Version]]:
    """Per table and folder the metadata with the highest number that can be read and has snapshots, and
    files that nobody can read. Of a table that the catalog has only what is newer than it says."""
    found, unreadable = list[_Candidate](), list[Version]()
    for io, folder in _places(lake, name, known):
        tops: dict[str, int] = {}
        for version in versions(io, folder) or ():
            if known.table is not None and version.number <= number_of(known.table.metadata_location):
                break
            try:
                whose = uuid_of(io, version.path)
            except FileNotFoundError:
                continue
            if known.table is not None and whose != str(known.table.metadata.table_uuid):
                continue
            if whose is not None and version.number < tops.get(whose, -1):
                continue
            metadata = read(io, version.path)
            if metadata is None:
                unreadable.append(version)
            elif metadata.snapshots:
                tops[str(metadata.table_uuid)] = version.number
                found.append(_Candidate(version, metadata, io))
    return found, unreadable


def _elsewhere(lake: Lake, known: _Known, path: str) -> list[_Candidate]:
    """The metadata in a file that lies in no folder where one looks: a property of the table put it there.

    Raises ConfigError when the storage does not answer.
    """
    if "://" not in path and not path.startswith("/"):
        return []
    try:
        with warnings.catch_warnings():
            # PyIceberg only warns of an address that it has no file system for, and fails later.
            warnings.simplefilter("error", UserWarning)
            io = load_file_io(dict(lake.properties), path)
        metadata = read(io, path)
    except (OSError, ValueError, UserWarning) as error:
        raise ConfigError(storage_trouble(path, error)) from error
    if metadata is None or not metadata.snapshots:
        return []
    if known.table is not None and metadata.table_uuid != known.table.metadata.table_uuid:
        return []
    return [_Candidate(Version(path, number_of(path), 0, 0.0), metadata, io)]


def _places(lake: Lake, name: str, known: _Known) -> Iterator[tuple[FileIO, str]]:
    if known.table is not None:
        yield known.table.io, known.table.metadata_location.rpartition("/")[0]
        return
    place = place_of(lake.catalog(), name)
    folders = [f"{location}/metadata" for location in beside(place)] if place else []
    if place is not None:
        if known.old and (own := known.old.rpartition("/")[0]) not in folders:
            folders.append(own)
        yield from ((place.io, folder) for folder in folders)


def _renamed(lake: Lake, name: str, known: _Known, table_uuid: str) -> list[str]:
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


def _older_than_named(known: _Known, best: _Candidate, unreadable: list[Version]) -> bool:
    """Whether the catalog names a later state than `best`, or another one of its number, which is gone."""
    if known.table is not None or known.old is None or known.old in {v.path for v in unreadable}:
        return False
    return known.old != best.version.path and number_of(known.old) >= best.version.number


def _none(name: str, known: _Known, metadata: str) -> str:
    if metadata:
        return (
            f"there is no metadata file {printable(metadata, 400)} of table {name} that could be registered"
        )
    if known.table is not None:
        return f"the catalog names the newest metadata of table {name} already: there is nothing to register"
    return (
        f"no metadata with a snapshot lies where table {name} would: there is nothing to register. Restore "
        "its folder, or give the table up"
    )


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _of_others(found: list[_Candidate], best: _Candidate) -> Iterator[str]:
    """Other tables that left metadata there."""
    for uuid in sorted({str(c.metadata.table_uuid) for c in found} - {str(best.metadata.table_uuid)}):
        theirs = max((c for c in found if str(c.metadata.table_uuid) == uuid), key=lambda c: c.version.number)
        yield f"another table was there before, {uuid}: {theirs.version.path}"


def _checkpoints(client: SlsClient, logstore: Logstore) -> Mapping[int, Cursor]:
    stored = published_cursors(client, logstore)
    return {shard: cursor for shard, cursor in stored.items() if cursor is not None}


def _behind(
    lake: Lake, name: str, candidate: _Candidate, origin: Origin, points: Mapping[int, Cursor]
) -> list[int]:
    """The shards whose checkpoint is ahead of the candidate's ledger: a later state was published."""
    state = facts(_table(lake, name, candidate), damaged_too=True)
    shards = state.ledger(known_as(state, origin).id).shards
    return sorted(s for s, at in points.items() if s not in shards or shards[s].frontier < at)


def _table(lake: Lake, name: str, candidate: _Candidate) -> Table:
    namespace, _, last = name.rpartition(".")
    return Table(
        identifier=(namespace, last),
        metadata=candidate.metadata,
        metadata_location=candidate.version.path,
        io=candidate.io,
        catalog=lake.catalog(),
    )
