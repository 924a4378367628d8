"""What makes a table's rows those of its ledger again, the way that keeps most first; each was looked at.

    repair     manifests are lost, and the files that they listed are there: they are listed again
    replace    hours that the service still has are landed again: nothing else of the table changes
    rollback   the table goes back to a landing from before the trouble; what landed since is pulled again, or
               lost where retention took it
    give-up    the rows of lost files, and no others, are given up, and stay a number that `verify` goes on
               to name
    adopt      the same for rows that were lost in another way: what is left gets a ledger that begins anew;
               rows that nothing explains are kept, and called adopted

A rollback that costs more rows than the loss itself is named after giving up. Cures are looked for only when
a table's rows are not those of its ledger: the search costs calls of the service, and a look at older
landings.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg.table import Table

from pipelines.landing.contents import cells
from pipelines.landing.contents.cells import Cells, Shown
from pipelines.landing.contents.fresh_starts import At
from pipelines.landing.contents.holdings import Asking, Holdings
from pipelines.landing.contents.sameness import way_back
from pipelines.landing.contents.slices import RowsElsewhere, hour_runs
from pipelines.landing.hours import spans
from pipelines.landing.ledger.place import Place, landable
from pipelines.landing.ledger.reading import Unreadable, listed_files
from pipelines.landing.ledger.start import find_table, known
from pipelines.landing.ledger.state import TableState, read_state
from pipelines.landing.ledger.ways_back import PastLanding
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.give_up import GivenUp, plan_give_up
from pipelines.landing.operations.repair_manifests import plan_repair_manifests
from pipelines.landing.operations.replace import accepted, accepted_together
from pipelines.landing.operations.rollback import kept_by_rollback
from pipelines.landing.recovery.adopt import begins_anew, find, plan_adopt
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Call, Cure, Do
from sls_io.values.errors import InvariantBroken, LedgerBroken, SlsError, TransportError, amount
from sls_io.wire.client import SlsClient

_HOURS_MAX = 48
_BROUGHT_BACK = "brings back what was there by then"
_EMPTIED = "leaves the table empty: nothing had landed by then"


@dataclass(frozen=True)
class Trouble:
    """How the rows of a logstore are not those that its ledger says.

    hours    receive hours (since 1970) that are known to hold other rows than they should
    missing  rows are missing
    strange  rows are there that nothing explains
    rows     how many rows are missing at least
    """

    hours: Collection[int]
    missing: bool
    strange: bool
    rows: int = 0


@dataclass(frozen=True)
class Case:
    """The table and the logstore that cures are looked for, and what has been counted of files already."""

    lake: Lake
    logstore: Logstore
    client: SlsClient
    table: Table
    state: TableState
    counted: Mapping[Shown, Cells] = field(default_factory=dict)

    @property
    def asked(self) -> tuple[Lake, Logstore, SlsClient]:
        """What each plan begins with."""
        return self.lake, self.logstore, self.client

    @property
    def origin(self) -> str:
        """The logstore's id, as the table knows it."""
        return known(self.state, self.client.origin()).id

    @cached_property
    def asking(self) -> Asking:
        """What the rules are about."""
        head = self.table.current_snapshot()
        if head is None:
            raise InvariantBroken(f"main of table {self.logstore.table} has no snapshot")
        origin = known(self.state, self.client.origin())
        place = Place(self.table, self.state, head, self.logstore, origin)
        return Asking(place, self.client, self.counted)


@dataclass(frozen=True)
class _Way:
    """Cures that go together, and how many rows at most they lose."""

    cures: tuple[Cure, ...]
    cost: int


def of_other_rows(case: Case, trouble: Trouble, *, pulled: bool) -> tuple[Cure, ...]:
    """The cures; where no command helps, what to do instead.
    `pulled`: all that the service has was compared, so no other of its hours is in trouble.

    Worked example: of hour 7 the table holds 2 rows and its landing brought 3, and the service has the hour:
    `backfill --mode replace` of hour 7 comes first, then the rollback, then `table adopt`. Where no hour can
    be replaced and the service was not compared, `verify --pull` comes first, which finds such hours.
    """
    instead = ", instead of the rows that nothing explains" * trouble.strange
    found = _replaces(case, sorted(trouble.hours), instead)
    if trouble.missing and not pulled and not found:
        found.append(
            commands.VERIFY_PULL.plus(does="names the hours that lost rows, where the service still has them")
        )
    back = _rollback(case, _brought_back(trouble)) or _Way((), 0)
    adopt, adopting = _adopt(case), tuple[Cure, ...]()
    if isinstance(adopt, Call):
        adopting = (adopt.plus(does=_left(trouble)),)
    elif isinstance(adopt, LedgerBroken):
        adopting = adopt.cures
    dear = trouble.missing and not trouble.strange and back.cost > trouble.rows
    ways = (*adopting, *back.cures) if dear and isinstance(adopt, Call) else (*back.cures, *adopting)
    return each_once((*found, *ways)) or (Do(f"no command settles this now: {adopt}"),)


def each_once(named: Iterable[Cure]) -> tuple[Cure, ...]:
    """The cures, of the same command only the first: two that name it may say differently what it does."""
    found: dict[object, Cure] = {}
    for cure in named:
        found.setdefault(cure.words if isinstance(cure, Call) else cure, cure)
    return tuple(found.values())


def _brought_back(trouble: Trouble) -> str:
    if not trouble.strange:
        return _BROUGHT_BACK
    return "takes out what nothing explains" + (", and brings back what was there by then" * trouble.missing)


def brought_back(past: PastLanding, does: str = _BROUGHT_BACK, since: str = "") -> Call:
    """The rollback to `past`. It does what is said, or empties the table where that landing has no rows."""
    return commands.rollback(past.id, does=f"{does if past.shown else _EMPTIED}{since}")


def _adopt(case: Case) -> Call | SlsError:
    """The command, with the options that it wants; or why it is refused."""
    try:
        found = find(*case.asked)
        at: At | None = "rows" if begins_anew(found) else None
        gives_up = plan_adopt(*case.asked, at=at, found=found).refusal
    except SlsError as error:
        return error
    return commands.ADOPT.plus(*("--at", "rows") * bool(at), *("--without-missing",) * bool(gives_up))


def with_options(case: Case, named: Sequence[Cure]) -> tuple[Cure, ...]:
    """These cures, `table adopt` with the options that it wants now, or what stands in its way instead."""
    if commands.ADOPT not in named:
        return tuple(named)
    adopt = _adopt(case)
    if isinstance(adopt, TransportError):
        raise adopt
    settles = (adopt,) if isinstance(adopt, Call) else adopt.cures
    instead = settles or (Do(f"no command settles this now: {adopt}"),)
    return each_once(each for cure in named for each in (instead if cure == commands.ADOPT else (cure,)))


def _left(trouble: Trouble) -> str:
    if not trouble.strange:
        return "gives up what nothing brings back"
    kept = "keeps the rows that nothing explains, and calls them adopted"
    return f"gives up what nothing brings back, and {kept}" if trouble.missing else kept


def of_lost_files(case: Case, lost: Sequence[Unreadable]) -> tuple[Cure, ...]:
    """As `of_other_rows`, for files of the logstore, data or manifests, that are gone or
    damaged. The first one is what to do with the files themselves."""
    named = [each.file for each in lost if not isinstance(each.file, str) and not each.first]
    owners = {file.file_path: cells.partition_origin(case.table, file) for file in named}
    files = [file for file in named if owners[file.file_path] in (case.origin, None)]
    restore = Do("restore the file" + "s" * (len(lost) > 1))
    found: list[Cure] = [next((each.first for each in lost if each.first), restore)]
    listed = len(named) == len(lost)
    if listed:
        hours = {cells.partition_hour(case.table, file) for file in files}
        found += _replaces(case, sorted(hour for hour in hours if hour is not None))
    paths = {file.file_path for file in files}
    found += _ways(case, None if listed else _relisted(case), [each.path for each in lost], paths)
    others = sorted({name for name in owners.values() if name} - {case.origin})
    return (*found, *(cure for other in others for cure in _give_up_of(case, other, owners.keys())))


def _ways(case: Case, relisted: _Way | None, lost: Collection[str], files: Collection[str]) -> list[Cure]:
    """What brings lost files back or gives them up, the way that loses the fewest rows first; `files` are
    those of the logstore's own rows.

    Worked example: a rollback would lose 500 rows, to give up costs the 20 of the lost file: giving up is
    named first. A way of which nobody knows what it loses is none: it is left out.
    """
    given_up = _give_up(case, files) if files else None
    ways = [way for way in (relisted, _rollback(case, _BROUGHT_BACK, lost), given_up) if way is not None]
    found = [cure for way in sorted(ways, key=lambda way: way.cost) for cure in way.cures]
    if files and given_up is None:
        # Rows were lost in another way, too.
        does, adopt = "gives up all rows that nothing brings back, also others", _adopt(case)
        found += [adopt.plus(does=does)] if isinstance(adopt, Call) else []
    return found


def give_cures(error: Exception, logstore: Logstore, lake: Lake | None = None) -> None:
    """As `give_cures_of_all`, of any error; one that is about no file is left as it is."""
    if isinstance(error, Unreadable):
        give_cures_of_all([error], logstore, lake)


def give_cures_of_all(errors: Sequence[Unreadable], logstore: Logstore, lake: Lake | None = None) -> None:
    """Whoever meets unreadable files that main needs says himself what settles it: the cures of each error
    become the cures that work now, for all of them together. They stay what they were, a look for
    them, where they cannot be looked for now.

    All at once: one search reads what tells which rows the whole table holds, and some cures are about every
    file that cannot be read, so that of one file alone they would name too few rows.
    """
    with suppress(SlsError), SlsClient(logstore.service) as client:
        lake = lake or Lake.default()
        table = find_table(lake, logstore, client)
        head = table.current_snapshot() if table is not None else None
        if table is None or head is None:
            return
        listed = listed_files(table, head, {})
        needed = [error for error in errors if listed is None or error.path in listed]
        if not needed:
            return
        found = of_lost_files(Case(lake, logstore, client, table, read_state(table)), needed)
        for error in needed:
            error.cures = found


def _give_up_of(case: Case, other: str, lost: Collection[str]) -> tuple[Cure, ...]:
    """What to do about lost files of another logstore, which may be gone from the service."""
    asked = Do(
        f"while origin {other} is there, prove it by its own settings: that says what brings rows back"
    )
    try:
        command, view = _planned_give_up(case, lost, other)
    except SlsError as error:
        return (asked, Do(f"from here nothing gives its lost files up: {error}"))
    does = f"once it is gone: gives up the {amount(view.rows, 'row')} of its lost files, {_beside(command)}"
    return (asked, command.plus(does=does))


def _planned_give_up(case: Case, lost: Collection[str], origin: str = "") -> tuple[Call, GivenUp]:
    """The command that gives these files (paths) up, and what it does. Raises as `plan_give_up`."""
    read = set[str]()

    def whole(path: str) -> bool:
        read.add(path)
        return path in lost

    view = plan_give_up(*case.asked, origin=origin, whole=whole).view
    # Of a file that tells which rows it holds only a look at every column told that it is damaged.
    rows = any(path.endswith(f"/{name}") for path in read for name in view.files)
    return commands.GIVE_UP.plus(*(("--origin", origin) if origin else ()), *("--rows",) * rows), view


def _beside(command: Call) -> str:
    """What else this command gives up: with `--rows` it reads files that nobody has read whole yet."""
    return "and of others that prove damaged" if "--rows" in command.words else "and nothing else"


def of_other_origins(case: Case, wrong: Sequence[str]) -> tuple[Cure, ...]:
    """The same for rows of the other origins `wrong` that are not those of their ledgers, no file lost."""
    if not wrong:
        return ()
    back = _rollback(case, "gives the table the rows of its ledgers")
    names = ", ".join(wrong)
    rest = Do(
        f"while the logstore of {names} is there, prove it by its own settings: that names more; its rows "
        "stop no landing"
    )
    return (*(back.cures if back is not None else ()), rest)


def _rollback(case: Case, does: str, lost: Collection[str] = ()) -> _Way | None:
    """To the newest landing from before the loss, if `table rollback` goes there."""
    back = way_back(case.table, lost, case.counted)
    if back is None or back.id == case.table.metadata.current_snapshot_id:
        return None  # the table is there already: what is wrong is not in it
    kept = kept_by_rollback(case.state, back, case.origin, case.client)
    since = "; what landed since is pulled again" + (f", but {kept}" if kept.lost else "")
    return _Way((brought_back(back, does, since),), kept.lost)


def _relisted(case: Case) -> _Way | None:
    """For lost manifests: list all of their files again, or, where that is refused, the files that are
    there."""
    try:
        missing = plan_repair_manifests(*case.asked, without_missing=True).view.missing
    except SlsError:
        return None
    does = "lists the data files again that are lost with it, and keeps every row"
    if missing:
        does = f"lists again what is there; {missing} rows are missing then, and are named by a proof"
    return _Way(
        (commands.REPAIR_MANIFESTS.plus(*("--without-missing",) * bool(missing), does=does),), missing
    )


def _give_up(case: Case, lost: Collection[str]) -> _Way | None:
    """For lost files, by path: what goes with them, or, where that cannot be told, a ledger that begins
    anew."""
    try:
        command, view = _planned_give_up(case, lost)
    except SlsError:
        return None
    again: tuple[Cure, ...] = ()
    if view.kept is not None and view.kept.lost < view.rows:
        does = "after that: lands again what the service still has"
        again = tuple(commands.of_hours(commands.BACKFILL, span, does) for span in spans(view.hours))
    does = f"gives up the {amount(view.rows, 'row')} of the lost files, {_beside(command)}"
    return _Way((command.plus(does=does), *again), view.kept.lost if view.kept is not None else view.rows)


def _replaces(case: Case, hours: list[int], instead: str = "") -> list[Cure]:
    does = f"lands again what the service still has{instead}, and leaves the rest of the table as it is"
    try:
        landable(case.logstore, case.table)
        found = case.asking.decide(lambda held: replaceable(held, hours)) if hours else ()
    except TransportError:
        raise  # nobody knows whether it works: what loses rows is not named instead
    except SlsError:
        return []
    return [commands.of_hours(commands.REPLACE, spans(each)[0], does) for each in found]


def replaceable(held: Holdings, hours: Sequence[int]) -> tuple[range, ...]:
    """These hours, as far as a replace accepts them, in spans that it accepts as a whole; with hours in which
    rows of them lie.

    Worked example: asked for are 1, 2, 3 and 7, and a replace takes 1 to 3 as a whole, and 7: two spans.
    Should it refuse 1 to 3, each of the three is tried alone. Of more than 48 hours the first 48 are tried.
    """
    found, named = list[range](), list[range]()
    for begin, end in hour_runs(hours[:_HOURS_MAX]):
        whole = _accepted(held, range(begin, end))
        single = (_accepted(held, range(hour, hour + 1)) for hour in range(begin, end))
        found += [whole] if whole is not None else [span for span in single if span is not None]
    for span in sorted(found, key=lambda span: span.start):
        both = range(named[-1].start, max(named[-1].stop, span.stop)) if named else span
        touching = bool(named) and span.start <= named[-1].stop
        if touching and (both == named[-1] or _accepted(held, both) == both):
            named[-1] = both
        else:
            named.append(span)
    return tuple(named)


def _accepted(held: Holdings, hours: range) -> range | None:
    """The hours that a replace accepts for these: themselves, or together with other hours where their rows
    lie."""
    try:
        accepted(held, hours)
    except RowsElsewhere as error:
        return accepted_together(held, error.hours)
    except SlsError:
        return None
    return hours
