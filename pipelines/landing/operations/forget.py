"""Remove rows for good, because the law or the table's retention says so. One commit.

    where    rows that a filter takes; files that hold others, too, are written anew without them
    before   whole receive hours before one; their files leave, and all hours before it are forgotten
             from then on: those without rows, too, because they were withdrawn or never landed

The ledger's rows and sums are lowered by what leaves, the intervals stay landed: no run and no backfill
brings the rows back. How many rows left, of which shard and hours, stands beside the ledgers for ever, so
that `verify` says "removed by decision" and not nothing. A rollback to an older landing, an undo and a
replace of those hours are refused from then on.

With `from_now_on` the values of a filter `column = value` or `column in (...)` may not land any more either:
every landing, fill, replace and mend leaves such rows out and counts them. So undo and replace of the hours
are not refused; what lands in their place lacks these rows, too. It ends when a person ends it.

The filter itself is written nowhere, since it may name the very thing that is to be forgotten: only
the columns are, and the reason that the person gives; of a value that may not land a keyed hash is
(`barring.py`). Older snapshots hold the rows until they are expired, and the files lie there until they are
swept.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import NestedField

from pipelines.landing.barring import BARS_MAX, Bar
from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents import rewrite, slices
from pipelines.landing.contents.cells import Cells, Edges, IdentityReader, cells_in, edges
from pipelines.landing.contents.holdings import Asking
from pipelines.landing.contents.sameness import check_same
from pipelines.landing.contents.slices import Slice
from pipelines.landing.contents.spread import each_file, unless_wrong
from pipelines.landing.contents.where import Where, parse, quoted
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.barred import bars_of
from pipelines.landing.ledger.place import Place, look
from pipelines.landing.ledger.start import known, namesakes
from pipelines.landing.ledger.state import facts, held_columns
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.operations.removal import (
    UNREAD,
    Forget,
    Removal,
    deed_of,
    maybe_of,
    read_again,
    span_of,
    whole_before,
)
from pipelines.landing.table.contract import SYSTEM_COLUMNS, Contract
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError, amount, printable
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

_PLACES = frozenset(
    {"__origin__", "__shard__", "__cursor__", "__index__", "__receive_hour__", "__error__", "__raw__"}
)
"""Columns that say where a row is, or how it was read, and nothing of what it says."""


def plan_forget_where(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    where: str,
    *,
    reason: str = "",
    origin: str = "",
    without_missing: bool = False,
    from_now_on: bool = False,
    end: bool = False,
) -> Planned[Forget]:
    """Look at what removing the rows that `where` takes would do. Changes nothing. `from_now_on`: and what
    keeping them out of every later landing would; `end`: what landing them again would, from then on.

    `where` compares columns of the table, like `user = 'x' and __receive_hour__ < '...'`; `origin` is the
    id of another origin that the table knows, whose rows are meant. Raises ConfigError when it cannot be
    read or takes no row, LedgerBroken when the table cannot be trusted or, unless `without_missing`, misses
    rows.
    """
    place = look(lake, logstore, client).of_known(origin)
    # Files that are written anew have the table's columns only: what was dropped would be lost for good.
    schema = place.table.schema()
    contract = Contract.from_columns(logstore.columns)
    contract.check_held(schema, held_columns(place.table))
    asked = parse(where, schema)
    later = _later(lake, logstore, client, place)
    if end:
        return _ending(place, asked, contract, reason, later)
    salt, barred = _barred(place, asked, contract, mine=not origin) if from_now_on else ("", frozenset[Bar]())
    if not without_missing:
        _check_none_missing(place)
    leaving, whole, partly, unread = _looked(place, asked)
    news = barred - bars_of(place.state, place.origin)
    if not leaving.cells and not news:
        standing = " and none may land" if from_now_on else ""
        told = UNREAD.format(unread.rows) if unread.cells else "nothing to do"
        raise ConfigError(
            f"no row of {place.origin.logstore} in {place.name} is taken by that{standing}: {told}",
            cures=read_again(span_of(unread)),
        )
    deed = deed_of(_about(asked, from_now_on), reason)
    removal = Removal(
        place, later, asked, leaving, whole, partly, deed, barred=barred, salt=salt, unread=unread
    )
    return removal.planned()


_Files = tuple[FileScanTask, ...]


def _looked(place: Place, asked: Where) -> tuple[Slice, _Files, _Files, Slice]:
    """(the rows that leave, the files that leave whole, those that are written anew, the rows that nobody
    could compare)."""
    tasks, leaving = rewrite.files_of(place, maybe_of(place, asked)), Slice()
    whole, partly = list[FileScanTask](), list[FileScanTask]()
    take = partial(_taken, asked, edges([place.ledger]), place.ledger.origin)
    found = unless_wrong(each_file(place.table, tasks, take))
    for task, (taken, live) in zip(tasks, found, strict=True):
        if taken:
            leaving = leaving.plus(slices.sorted_by(place.ledger, taken))
            # A file leaves whole where all it has are rows of this logstore that are taken. -1 equals no
            # count: with rows of others in it, or with row-level deletes, it is written anew.
            owned = live if not task.delete_files and live == task.file.record_count else -1
            (whole if sum(cell.rows for cell in taken) == owned else partly).append(task)
    unread = slices.slice_of(place, _with_errors(place, tasks), _unread(asked))
    return leaving, tuple(whole), tuple(partly), unread


def _unread(asked: Where) -> Where:
    """Rows that may have, in the bytes that they keep, what the filter names and no column shows.

    Story: an order has an amount that is no number, so the row keeps its bytes. Later the key `who` is
    declared, older rows are filled from `__rest__`, and the rows of one person leave. The row with the error
    had nothing in `who`, stayed, and all was green.
    """
    nothing = " or ".join(f"{quoted(column)} is null" for column in asked.columns)
    return parse(f"__error__ is not null and ({nothing})", asked.schema)


def _with_errors(place: Place, tasks: Iterable[FileScanTask]) -> list[FileScanTask]:
    """Files that may have rows with an error: all but those whose writer counted them."""
    column = place.table.schema().find_field("__error__").field_id
    return [t for t in tasks if (t.file.null_value_counts or {}).get(column) != t.file.record_count]


def _taken(
    where: Where, cut: Edges, origin: str, table: Table
) -> Callable[[FileScanTask], tuple[Cells, int]]:
    """The cells of a logstore's rows in a file that `where` takes; and where there are such, how many rows of
    it there are."""
    chosen, every = IdentityReader(table, where), IdentityReader(table)

    def of(task: FileScanTask) -> tuple[Cells, int]:
        taken = tuple(cell for cell in cells_in(chosen.of(task), cut) if cell.origin == origin)
        live = cells_in(every.of(task), cut) if taken else ()
        return taken, sum(cell.rows for cell in live if cell.origin == origin)

    return of


def _about(asked: Where, from_now_on: bool) -> str:
    more = " --from-now-on" if from_now_on else ""
    return f"--where on {', '.join(map(printable, asked.columns))}{more}"


def _barred(place: Place, asked: Where, contract: Contract, *, mine: bool) -> tuple[str, frozenset[Bar]]:
    """The table's salt, and the values of the filter, none of which may land from then on. Raises ConfigError
    for a filter that is no list of values, or a logstore that nobody lands any more.

    The reason for each refusal is that a landing must be able to ask it of a row on its way. A comparison
    with `<` is no list of values; `__cursor__` says nothing of what a row says; a column that nobody declares
    is in `__rest__` of later rows; and rows of another origin land by other settings.
    """
    found = asked.values
    if found is None or found[0].name in _PLACES:
        raise ConfigError(
            "from now on only rows with a value of one column can be kept out: column = value, or column in "
            "(...), of a declared column, __topic__, __source__ or __time__; remove the others without that"
        )
    if not mine:
        raise ConfigError("rows of another origin are landed by nobody: remove them without --from-now-on")
    if found[0].name not in {*SYSTEM_COLUMNS, *(column.name for column in contract.shown)}:
        raise ConfigError(
            f"the column {printable(found[0].name)!r} is not declared, so nobody can tell what later rows "
            "have there: declare it first"
        )
    bars = place.state.forgotten.bars
    salted, made = bars.made(place.origin.id, found[0].field_id, found[1], hashed=_hashed(contract, found[0]))
    if len(bars.values | made) > BARS_MAX:
        raise ConfigError(f"{place.name} would keep more than {BARS_MAX} values out; end some of them first")
    return salted.salt, made


def _hashed(contract: Contract, field: NestedField) -> bool:
    return any(column.name == field.name and column.pii == "hash" for column in contract.columns)


def _ending(
    place: Place, asked: Where, contract: Contract, reason: str, look: Callable[[], Place]
) -> Planned[Forget]:
    """The plan by which the values of the filter may land again. Raises ConfigError when none of them is kept
    out.

    Bars are keyed hashes, so nobody can list which values stand. Ending asks for the values again and
    compares hashes: who does not know a value cannot end it. The bars of the logstore before it was deleted
    and made again are ended along.
    """
    found, standing = asked.values, bars_of(place.state, place.origin)
    if found is None:
        raise ConfigError(
            "what may land again is named as it was kept out: column = value, or column in (...)"
        )
    origins = {bar.origin for bar in standing}
    bars = place.state.forgotten.bars
    column, values = found
    hashed = _hashed(contract, column)
    made = (bars.made(origin, column.field_id, values, hashed=hashed)[1] for origin in origins)
    named = frozenset(bar for those in made for bar in those) & standing
    if not named:
        raise ConfigError(f"no such value is kept out of {place.name}: nothing to do")
    deed = deed_of(f"{_about(asked, True)}, ended", reason)
    view = Forget(
        table=place.name,
        origin=place.origin.id,
        what=str(deed),
        barred=len(named),
        ends=True,
        standing=len(standing),
    )

    def change_on(now: Place) -> authored.Change:
        forgotten = now.state.forgotten
        kept = replace(forgotten, bars=forgotten.bars.less(named))
        return replace(authored.unchanged(now.head, now.state, deed), forgotten=kept)

    def on(now: Place) -> Planned[Forget]:
        return Planned(view, now, change_on(now), again=lambda: on(look()))

    return on(place)


def plan_forget_before(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    hour: int,
    *,
    reason: str = "",
    origin: str = "",
    without_missing: bool = False,
) -> Planned[Forget]:
    """Look at what removing all receive hours before `hour` (since 1970) would do; `origin` as in
    `plan_forget_where`. Changes nothing.

    Raises ConfigError when all of them are forgotten already or a frontier has not passed them,
    LedgerBroken as `plan_where`.
    """
    mine = look(lake, logstore, client)
    place = mine.of_known(origin)
    if not without_missing:
        _check_none_missing(place)
    if place.origin == mine.origin:
        Asking(place, client).decide(lambda held: slices.check_passed(held, hour))
    # The service is asked of the settings' own logstore only; of another one its ledger says how far it got.
    # One that was deleted and made again lands nothing more, whatever its ledger had reached.
    elif place.origin.id not in namesakes(place.state, mine.origin):
        _check_reached(place, hour)
    whole = whole_before(place, hour)
    leaving = slices.slice_of(place, whole)
    moment = moment_text(hour * HOUR_S)
    if not leaving.cells and place.state.forgotten.before(place.origin.id) >= hour:
        raise ConfigError(
            f"all hours of {place.origin.logstore} before {moment} are forgotten already: nothing to do"
        )
    later, deed = _later(lake, logstore, client, place), deed_of(f"--before {moment}", reason)
    return Removal(place, later, None, leaving, tuple(whole), (), deed, before=hour).planned()


def has_landed(lake: Lake, logstore: Logstore, client: SlsClient) -> bool:
    """Whether the logstore has a history in its table: before it has, nothing is old."""
    table = lake.load(logstore.table)
    if table is None:
        return False
    state = facts(table)
    return state.ledger(known(state, client.origin()).id).started


def plan_forget_older(lake: Lake, logstore: Logstore, client: SlsClient, days: int) -> Planned[Forget]:
    """Look at what removing all receive hours of more than `days` days ago would do, as far as every shard
    has passed them: what has not landed yet lands first. Changes nothing.

    Nothing is needed where no such row is there and the service has none either, since no fill could bring
    one. Raises as `plan_forget_before`.

    Worked example: a shard has reached hour 270, and 30 days ago was hour 280. Removed is what came before
    270. Were it 280, the hours 270 to 279 would be forgotten before they ever landed, and no backfill could
    bring them. With that shard at 900 it is 280.
    """
    place = look(lake, logstore, client)
    passed = (entry.reached_s // HOUR_S for entry in place.ledger.shards.values() if not entry.closed)
    hour = min([int(client.now_s()) // HOUR_S - 24 * days, *passed])
    if hour > place.state.forgotten.before(place.origin.id):
        found = plan_forget_before(lake, logstore, client, hour, reason=f"older than {amount(days, 'day')}")
        shown = (each.at_s for each in reach.oldest(client).values())
        if found.view.rows or any(at_s is not None and at_s < hour * HOUR_S for at_s in shown):
            return found
    none = f"{place.name} has no rows of {place.origin.logstore} that are older than {amount(days, 'day')}"
    view = Forget(table=place.name, origin=place.origin.id, what="")
    return Planned(view, place, None, nothing=none)


def _check_none_missing(place: Place) -> None:
    """In any logstore of the table."""
    check_same(place, set(place.state.ledgers) & set(place.state.origins), "--without-missing")


def _later(lake: Lake, logstore: Logstore, client: SlsClient, place: Place) -> Callable[[], Place]:
    return lambda: replace(look(lake, logstore, client), origin=place.origin)


def _check_reached(place: Place, hour: int) -> None:
    """Raises ConfigError unless every shard in the ledger of another logstore has passed all hours before
    `hour`."""
    for shard, entry in sorted(place.ledger.shards.items()):
        if not entry.closed and entry.reached_s < hour * HOUR_S:
            raise ConfigError(
                f"shard {shard} of {place.origin.id} has reached {moment_text(entry.reached_s)} of the "
                "receive time; ask for earlier hours, or name rows with --where"
            )
