"""What a proof is made of: what is read of a table and asked of its service, before anybody concludes.

The identities of rows are read once, those of all origins in one pass. Of origins whose rows are proven
elsewhere, or that no ledger knows, the manifests tell how many rows there are.

In this order: the newest landing, file by file; the windows that `main` still tells of; the service's second
pull of what has landed; then one pass over the rows, cut at the edges of the ledgers and of these windows, so
that the same cells answer for both; at last the files that are read whole. A file that is lost in any of them
is named once.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.cells import Counted, count, edges, partition_origin, totals
from pipelines.landing.hours import hours_text
from pipelines.landing.inspection.second_pull import SecondPull, pull_again
from pipelines.landing.inspection.upcoming import left_alone
from pipelines.landing.inspection.whole import NO_FILES, Chosen, WholeFiles, read_chosen
from pipelines.landing.ledger.newest_landing import disagreements
from pipelines.landing.ledger.place import landable
from pipelines.landing.ledger.reading import (
    Unreadable,
    check_kept,
    readable_manifests,
    rows_shown,
    tasks_in,
    tasks_of,
)
from pipelines.landing.ledger.start import begins, unknown_beside
from pipelines.landing.ledger.state import (
    TableState,
    landed_by_now,
    others_here,
    others_text,
    windows_in,
)
from pipelines.landing.ledger.values import Count
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import said_readable
from pipelines.landing.table import commands
from sls_io.planning.again import Begins, begins_anew, begins_later, readable_again
from sls_io.planning.values import Again
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_SKIPPED, Ledger, ShardLedger
from sls_io.values.errors import ConfigError, CursorExpired, ShardGone, SlsError
from sls_io.values.shard import Head, Shard
from sls_io.values.side_by_side import answers
from sls_io.values.window import HOUR_S, Cursor, IntervalSet, Window
from sls_io.wire.client import Origin, SlsClient


@dataclass(frozen=True)
class Scope:
    """What is looked at beside the rows and the ledger: `pull`, what has landed is pulled again, of these
    `hours` or of all; `sums_of_others`, rows of other origins are read, too; `rows`, files to read whole."""

    pull: bool
    hours: range | None
    sums_of_others: bool
    rows: Chosen


@dataclass(frozen=True)
class Contents:
    """What the files of main hold.

    counted  rows that were read by their identities
    rows     how many of each origin: read, or as the manifests say
    lost     files that are gone or damaged
    short    the origins of which these may have held rows; None: of any
    listed   False when not all manifests can be read: there are at least so many rows
    """

    counted: Counted = field(default_factory=Counted)
    rows: Mapping[str, int] = field(default_factory=Counter)
    lost: tuple[Unreadable, ...] = ()
    short: frozenset[str | None] = frozenset()
    listed: bool = True


@dataclass(frozen=True)
class ServiceShard:
    """What the service says of a shard: its begin and end, None where it does not list it; what it shows of
    what the ledger gave up; what was skipped and can still be landed (`owed`); what never landed and can no
    more (`lost`); and the receive hours of withdrawn intervals, as far as it knows them."""

    begin: Cursor | None = None
    end: Cursor | None = None
    shown: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    withdrawn: Mapping[tuple[int, int], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Evidence:
    """What is known of a table and of one origin in it.

    asked     what was looked at
    there     what the files of main hold
    landed    windows of the landings that main still tells of, with the rows that each brought
    pulled    what the service has of landed windows, None when it was not asked
    windows   what is in each of these windows; of none where nobody can say which files there are
    answers   what the service says of each shard
    problems  what disagrees before a row is counted
    lost      files that are gone or damaged
    notes     of the whole table: what is no problem
    since_ms  time of the oldest snapshot still kept (milliseconds)
    whole     how many files were read whole
    """

    table: str
    origin: Origin
    state: TableState
    asked: Scope
    there: Contents
    landed: Mapping[Window, int]
    pulled: SecondPull | None
    windows: Mapping[Window, Count]
    answers: Mapping[int, ServiceShard]
    problems: tuple[str, ...]
    lost: tuple[Unreadable, ...]
    notes: tuple[str, ...]
    since_ms: int | None
    whole: WholeFiles = NO_FILES

    @property
    def ledger(self) -> Ledger:
        """The ledger of the origin."""
        return self.state.ledger(self.origin.id)

    @property
    def told(self) -> SecondPull:
        """What the service has, nothing when it was not asked."""
        return self.pulled or SecondPull()


def gather(
    logstore: Logstore, client: SlsClient, table: Table, state: TableState, origin: Origin, asked: Scope
) -> Evidence:
    """Read and ask all of it. Raises as `reading.py` does, not for lost files, where there are some as
    `check_kept`, and when the service does not answer."""
    problems, lost = disagreements(table)
    ledger = state.ledger(origin.id)
    if not ledger.started:
        beside = unknown_beside(state, origin, logstore)
        problems.append(beside or "the ledger is empty: nothing has landed")
    landed = _landed_windows(table, ledger)
    pulled = pull_again(client, table, ledger, hours=asked.hours) if asked.pull else None
    windows = {*landed, *(pulled.windows if pulled else ())}
    tasks, unlisted = _files(table)
    there = _contents(table, tasks, state, origin.id, windows, asked)
    there = replace(there, lost=(*unlisted, *there.lost), listed=not unlisted)
    mine = (t for t in tasks if partition_origin(table, t.file) in (origin.id, None))
    whole, damaged = read_chosen(table, tasks if asked.sums_of_others else mine, asked.rows)
    said = {each.path for each in lost}
    # Of the newest landing's file another logstore's may be gone, too.
    lost = list({each.path: each for each in (*damaged, *lost, *there.lost)}.values())
    if lost:
        check_kept(table)
    return Evidence(
        table=logstore.table,
        origin=origin,
        state=state,
        asked=asked,
        there=there,
        landed=landed,
        pulled=pulled,
        windows=there.counted.windows(origin.id, windows) if there.listed else {},
        answers=_answers(logstore, client, table, ledger, begins(client, logstore, state, origin.id)),
        problems=(*problems, *(str(each) for each in lost if each.path not in said)),
        lost=tuple(lost),
        notes=(*_refused(logstore, table), *_beside(table)),
        since_ms=min((s.timestamp_ms for s in table.metadata.snapshots), default=None),
        whole=whole,
    )


def _files(table: Table) -> tuple[list[FileScanTask], list[Unreadable]]:
    """The files of main, as far as its manifests can be read; and what cannot.

    Where a manifest cannot be read, the files of the others are still counted, and the numbers are said as
    "at least". Where deletes by value hide rows, no file can be told, and none is read.
    """
    try:
        return tasks_of(table, table.scan()), []
    except Unreadable as error:
        manifests, lost = readable_manifests(table, table.current_snapshot())
        # Nobody can tell the files either where deletes by value hide rows.
        return (tasks_in(table, manifests), lost) if lost else ([], [error])


def _contents(
    table: Table,
    tasks: Collection[FileScanTask],
    state: TableState,
    origin: str,
    windows: Iterable[Window],
    asked: Scope,
) -> Contents:
    """Read the identities of the rows of an origin, with `sums_of_others` those of all origins that have a
    ledger or adopted rows. Of others the manifests tell how many rows there are, and only files of which
    row-level deletes hide some are read. Raises as `reading.py` does, not for lost files."""
    names = {origin, *(accounted(state) if asked.sums_of_others else ())}
    cut = edges(map(state.ledger, names), {origin: windows})
    of = {task.file.file_path: partition_origin(table, task.file) for task in tasks}
    mine = (task for task in tasks if of[task.file.file_path] in {*names, None})
    counted = count(table, mine, cut)
    rows, lost = Counter[str](), list(counted.lost)
    for (name, _), (number, _) in totals(cell for each in counted.files.values() for cell in each).items():
        rows[name] += number
    for task in tasks:
        owner = of[task.file.file_path]
        if owner is not None and owner not in names:
            try:
                rows[owner] += rows_shown(table, task)
            except Unreadable as error:
                lost.append(error)
    short = frozenset(of.get(error.path) for error in lost)
    return Contents(counted, rows, tuple(lost), short)


def accounted(state: TableState) -> set[str]:
    """The origins that have a ledger, or rows that were adopted by shard."""
    return {*state.ledgers, *(name for name, _ in state.adopted.shards)}


def _refused(logstore: Logstore, table: Table) -> list[str]:
    """Says that nothing lands, although the rows may be right: the table's columns do not fit the
    contract."""
    try:
        landable(logstore, table)
    except ConfigError as error:
        named = (commands.line(cure, logstore.option) for cure in error.cures)
        return [f"landings are refused: {error}", *named]
    return []


def _beside(table: Table) -> Iterator[str]:
    """Metadata of other tables in the folder of this one."""
    if others := others_here(table, older_than_s=0):
        yield others_text(others)


def _landed_windows(table: Table, ledger: Ledger) -> dict[Window, int]:
    """The windows of the landings that `main` still tells of, and how many rows each brought.

    Without those of which something was withdrawn since, and of cursors that landed more than once those of
    the newest landing alone. A log never moves to another cursor, but what may land changes: story: a row is
    kept out of [0, 50), the decision ends, and the hour lands again as [0, 100). The table has that row now.
    """
    found: dict[Window, int] = {}
    newer: dict[int, IntervalSet] = defaultdict(IntervalSet)
    for landed in windows_in(table, ledger.origin):
        entry, window = ledger.shards.get(landed.window.shard), landed.window
        cursors, later = IntervalSet.of([(window.begin, window.end)]), newer[window.shard]
        if entry and not cursors.minus(entry.landed) and not later.overlaps(window.begin, window.end):
            found[window] = landed.rows
        newer[window.shard] = later.union(cursors)
    return found


def _answers(
    logstore: Logstore, client: SlsClient, table: Table, ledger: Ledger, asked: Begins
) -> dict[int, ServiceShard]:
    """What the service says of each shard that the ledger knows."""
    name = logstore.option

    def ask(shard: Shard) -> ServiceShard | None:
        entry = ledger.shards[shard.id]
        try:
            head = client.head(shard)
            parts = readable_again(client, head.shard, entry, head, asked)
            again = _asked_again(client, entry, head, asked, parts, name)
        except ShardGone:
            return None
        lost, unsure = _skipped_before(client, shard.id, entry, head.begin)
        owed = (said_readable(part, asked.lowered, name) for part in parts if part.owed)
        return ServiceShard(
            begin=head.begin,
            end=head.end,
            shown=(*_shown_again(entry, head), *again),
            owed=(*owed, *unsure),
            lost=lost,
            withdrawn=_withdrawn(client, shard.id, entry),
        )

    listed = {shard.id: shard for shard in client.shards()}
    mine = [shard for number, shard in listed.items() if number in ledger.shards]
    told = {shard.id: answer for shard, answer in answers(ask, mine)}
    behind = {
        s: a.begin for s, a in told.items() if a and a.begin and _lies_behind(ledger.shards[s], a.begin)
    }
    if behind:
        now = landed_by_now(table, ledger)[1].shards
        behind = {s: at for s, at in behind.items() if _lies_behind(now.get(s, ledger.shards[s]), at)}
    left = left_alone(logstore, client, table, ledger, listed, behind) if behind else {}
    found = {}
    for number, entry in ledger.shards.items():
        if (answer := told.get(number)) is None:
            lost, unsure = _skipped_before(client, number, entry, CURSOR_UNKNOWN)
            answer = ServiceShard(owed=unsure, lost=lost)
        elif number in behind:
            said = _never_landed(entry, behind[number], str(left.get(number, "")))
            answer = replace(answer, lost=(*answer.lost, said))
        found[number] = answer
    return found


def _lies_behind(entry: ShardLedger, begin: Cursor) -> bool:
    return not entry.closed and entry.frontier < begin


def _never_landed(entry: ShardLedger, begin: Cursor, doubt: str) -> str:
    """What no run has landed, and the service has no more; or, where the next run would not believe that,
    the `doubt`.

    Worked example: the frontier is 50, and the service's shard begins at 80: [50, 80) is lost, though no run
    has named the gap yet. It is a note and no problem: what landed is there, and nothing can be done. Where a
    pull from 50 gives logs, the begin was told wrong, and nothing is lost.
    """
    part = f"[{entry.frontier}, {begin}) had not landed"
    if doubt:
        return f"{part}: {doubt}"
    return f"{part}, and retention has taken it: it is lost; the next run names the gap"


def _skipped_before(
    client: SlsClient, shard: int, entry: ShardLedger, begin: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was skipped, never landed, and can land no more, since the service's shard begins at `begin`; and
    of what nobody knows whether it can, since a pull does not say the same. That stays owed.

    Worked example: [50, 90) was skipped. The shard begins at 70: [50, 70) is lost, and [70, 90) is still
    owed. A shard that is gone counts as one that begins behind everything.
    """
    lost, unsure = [], []
    for gap in entry.gaps:
        end = min(gap.end, begin)
        if gap.cause != GAP_SKIPPED or gap.begin >= begin:
            continue
        try:
            agrees = begins_later(client, shard, gap.begin, Cursor(end))
        except (CursorExpired, ShardGone):
            agrees = True
        except SlsError:
            agrees = False
        if agrees:
            lost.append(f"[{gap.begin}, {end}) was skipped and owed, and retention has taken it: it is lost")
        else:
            unsure.append(
                f"[{gap.begin}, {end}) was skipped, and the answers of the service contradict each other: "
                "ask again whether it is still there"
            )
    return tuple(lost), tuple(unsure)


def _asked_again(
    client: SlsClient, entry: ShardLedger, head: Head, asked: Begins, parts: Collection[Again], name: str
) -> tuple[str, ...]:
    """A start that a policy chose may turn out to be too high, once the service shows logs from before it. Of
    a shard of which nothing has landed the next run moves the start by itself; of another the logs are named
    with the command that lands them. What is owed is not said here, since `ServiceShard.owed` says it."""
    start = None if entry.closed else begins_anew(client, head, entry, parts, asked)
    left = (part for part in parts if not part.owed and (start is None or not part.early))
    found = tuple(said_readable(part, asked.lowered, name) for part in left)
    if start is None:
        return found
    anew = (
        f"the ledger begins this shard at {entry.start}, and the service at {start}; nothing has landed "
        "from there, so nothing is lost: the next live run lets the shard begin anew"
    )
    return (anew, *found)


def _shown_again(entry: ShardLedger, head: Head) -> list[str]:
    """Where the ledger gave a shard up or closed it, and the service shows it, or more of it. Nothing is
    wrong with the table then, and a proof is not green: the next live run settles it."""
    if entry.end == CURSOR_UNKNOWN:
        what = "calls this shard gone, and the service lists it and gives its cursors"
    elif entry.end is not None and (head.end > entry.end or not head.readonly):
        state = "read-only" if head.readonly else "open"
        what = f"closed this shard at {entry.end}, and the service has it {state} with its end at {head.end}"
    else:
        return []
    return [f"the ledger {what}: the next live run opens it again and goes on at its frontier"]


def _withdrawn(client: SlsClient, shard: int, entry: ShardLedger) -> dict[tuple[int, int], str]:
    """The receive hours of each withdrawn interval, as far as the service still knows them."""
    found: dict[tuple[int, int], str] = {}
    for begin, end in entry.withdrawn:
        with suppress(SlsError):
            hours = _hours_between(client, shard, Cursor(begin), end)
            if hours is not None:
                found[begin, end] = hours_text(hours)
    return found


def _hours_between(client: SlsClient, shard: int, begin: Cursor, end: int) -> range | None:
    """The receive hours from that of the group at `begin` to that of the last one before `end`. None where
    cursors and receive times contradict each other, as in `survey.next_span`. Raises what the calls raise.

    Worked example: the group at 200 is of 07:12 and `end` is 300. The edge of 08:00 is 240, of 09:40, and the
    edge of 10:00 is 300: hours 07 to 09. Did the service answer 06:50 for 240, the edge of 07:00 would be
    asked for next, then that of 08:00 again, and so on for ever. So with each edge cursor and hour must rise.
    """
    first = last = client.cursor_time_s(shard, begin) // HOUR_S
    at = begin
    while (edge := client.cursor_at(shard, (last + 1) * HOUR_S)) < end:
        hour = client.cursor_time_s(shard, edge) // HOUR_S
        if edge <= at or hour <= last:
            return None
        at, last = edge, hour
    return range(first, last + 1)
