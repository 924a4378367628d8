"""Proves a table: the ledger against itself, against the rows, and against the service.

Questions, each answered for every shard:
- is the ledger free of holes from its start, apart from named gaps and withdrawn intervals;
- do the rows in the table add up to the ledger's rows and identity sums, at any age;
- is every row there once, and inside an interval that the ledger calls landed;
- does each window hold the rows that its landing brought, as far back as snapshots are kept;
- on demand, does the service tell the same when it is asked again, as far as retention allows;
- how far is the frontier from the service's end;
- does the service show anything that the ledger gave up: a shard, what is in a gap, logs from before a begin;
- do the rows of the table's other origins add up to their ledgers: from the table alone.
Only the columns that tell which rows there are are read, unless other ones are asked for (`whole.py`). The
answer names what is wrong and where, never a row's content.
"""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from pyiceberg.table import Table

from pipelines.landing.contents.tally import Count, Tally, tally
from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.inspection import cures
from pipelines.landing.inspection.other_origins import not_once, other_sums, prove_others
from pipelines.landing.inspection.proof import Proof, ShardProof
from pipelines.landing.inspection.runway import CALLS_PARALLEL
from pipelines.landing.inspection.second_pull import SecondPull, pull_again
from pipelines.landing.inspection.whole import Chosen, no_file, read_chosen
from pipelines.landing.ledger.reading import Misread
from pipelines.landing.ledger.start import begins, check_origin, find_table, unknown_beside
from pipelines.landing.ledger.state import (
    TableState,
    disagreements,
    facts,
    held_columns,
    others_here,
    others_text,
    read_state,
    windows_in,
)
from pipelines.landing.ledger.values import Gone
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.run.report import said_readable
from pipelines.landing.table import calls
from pipelines.landing.table.contract import Contract, check_landable
from pipelines.landing.table.lake import Lake, NoMetadata
from sls_io.planning.survey import Begins, begins_anew, readable_again
from sls_io.planning.values import Again
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_SKIPPED, Ledger, ShardLedger
from sls_io.values.errors import Breach, ConfigError, LedgerBroken, ShardGone, SlsError
from sls_io.values.shard import Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet, Window
from sls_io.wire.client import SlsClient

_EMPTY = "the service has no log of the hours asked for, and the table no row: nothing is missing"
_NAMED_MAX = 5
"""Of windows that are wrong, this many are named for a shard; the rest is counted."""


@dataclass(frozen=True)
class _Told:
    """What is known of single windows: by their landings, and by a second pull when one was made."""

    landed: Mapping[Window, int]
    pulled: SecondPull | None

    @property
    def windows(self) -> Collection[Window]:
        return {*self.landed, *(self.pulled.windows if self.pulled else ())}


def verify(
    logstore: Logstore,
    lake: Lake,
    client: SlsClient,
    *,
    pull: bool = False,
    hours: range | None = None,
    sums_of_others: bool = True,
    rows: Chosen = no_file,
) -> Proof:
    """Prove the logstore's part of its table. With `pull`, what has landed is pulled again and
    compared: of these receive hours (since 1970), or of all that retention holds. Of files that `rows` takes
    every column is read.

    Rows of the table's other origins are held against their ledgers, without their services. Without
    `sums_of_others` only their number, by the manifests: where each of them is proven by itself, nobody has
    to read the whole table for each.

    Raises only when there is nothing to prove yet or the service or catalog cannot be reached;
    everything else is a problem in the `Proof`.
    """
    try:
        return _verified(logstore, lake, client, _Asked(pull, hours, sums_of_others, rows))
    except Misread as error:
        # Nothing is known to be wrong with the table, so nothing is said that would take rows from it.
        return Proof(logstore.table, client.origin().id, problems=(str(error),))


@dataclass(frozen=True)
class _Asked:
    """What is looked at beside the rows and the ledger."""

    pull: bool
    hours: range | None
    sums_of_others: bool
    rows: Chosen


def _verified(logstore: Logstore, lake: Lake, client: SlsClient, asked: _Asked) -> Proof:
    origin = client.origin()
    try:
        table = find_table(lake, logstore, client)
    except (NoMetadata, LedgerBroken) as error:
        return Proof(logstore.table, origin.id, problems=(str(error),), cures=error.cures)
    if table is None:
        return Proof(logstore.table, origin.id, problems=("there is no table yet: nothing has landed",))
    try:
        state = read_state(table)
        origin = check_origin(state, origin, logstore.table)
    except LedgerBroken as error:
        if error.kind is not Breach.FOREIGN:
            return Proof(logstore.table, origin.id, problems=(str(error),), cures=error.cures)
        foreign = cures.Trouble((), missing=False, strange=True)
        named = cures.of_other_rows(lake, logstore, client, table, facts(table), foreign, pulled=True)
        return Proof(logstore.table, origin.id, problems=(str(error),), cures=named)
    problems, lost = disagreements(table)
    ledger = state.ledger(origin.id)
    if not ledger.started:
        beside = unknown_beside(state, origin, logstore)
        problems.append(beside or "the ledger is empty: nothing has landed")
    told = _Told(
        _landed_windows(table, ledger), pull_again(client, ledger, hours=asked.hours) if asked.pull else None
    )
    tallies, unread = tally(table, origin.id, ledger, told.windows)
    others = prove_others(table, state, origin.id, sums=asked.sums_of_others)
    whole, damaged = read_chosen(table, origin.id, asked.rows, others=asked.sums_of_others)
    said = {each.path for each in lost}
    # Of the newest landing's file another logstore's may be gone, too.
    lost = list({each.path: each for each in (*damaged, *lost, *unread, *others.lost)}.values())
    problems += [str(each) for each in lost if each.path not in said]
    problems += others.problems
    ends, seen = _ends(client, ledger, begins(client, logstore, state, origin.id), logstore.name)
    decided = _decisions(client, state, ledger, tallies, ends)
    shards = tuple(
        _prove(s, ledger, tallies.get(s), ends, decided[s], told, seen.get(s, _Seen()))
        for s in sorted(decided)
    )
    since_ms = min((s.timestamp_ms for s in table.metadata.snapshots), default=None)
    notes = [*_refused(logstore, table), *others.notes, *_beside(table)]
    if told.pulled is not None and not any(s.windows_pulled for s in shards):
        why = _why_none(lake, logstore, client, ledger, asked.hours, told.pulled)
        # That an hour is empty here and there was compared; everything else proves nothing.
        (problems if asked.hours is not None and why != _EMPTY else notes).append(why)
    proof = Proof(
        logstore.table,
        origin.id,
        shards,
        tuple(problems),
        since_ms,
        state.tagged,
        tuple(notes),
        begun=bool(origin.known_as) or ledger.started,
        whole=whole,
    )
    # Of files that cannot be read nobody knows yet that rows are missing: what is said of them comes first.
    if lost:
        named = cures.of_lost_files(lake, logstore, client, table, state, lost)
        return replace(proof, cures=named)
    named = cures.of_other_origins(lake, logstore, client, table, state, others.wrong)
    if not (proof.short or proof.strange):
        return replace(proof, cures=named)
    trouble = _trouble(proof)
    found = cures.of_other_rows(
        lake, logstore, client, table, state, trouble, pulled=asked.pull and asked.hours is None
    )
    return replace(proof, cures=(*found, *(cure for cure in named if cure not in found)))


def _trouble(proof: Proof) -> cures.Trouble:
    wrong = {hour for shard in proof.shards for hour in (*shard.hours_short, *shard.hours_over)}
    rows_missing = sum(max(0, s.rows_ledger + s.rows_adopted - s.rows_table) for s in proof.shards)
    return cures.Trouble(wrong, proof.short, proof.strange, rows_missing)


def _refused(logstore: Logstore, table: Table) -> list[str]:
    """Says that nothing lands, although the rows may be right: the table's columns do not fit the
    contract."""
    try:
        contract = Contract.from_columns(logstore.columns)
        check_landable(contract, table.metadata, logstore.table, held_columns(table))
    except ConfigError as error:
        named = (calls.line(cure, logstore.name) for cure in error.cures)
        return [f"landings are refused: {error}", *named]
    return []


def _beside(table: Table) -> Iterator[str]:
    """Metadata of other tables in the folder of this one."""
    if others := others_here(table, older_than_s=0):
        yield others_text(others)


def _why_none(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    ledger: Ledger,
    hours: range | None,
    pulled: SecondPull,
) -> str:
    """Why a second pull compared nothing."""
    if hours is None:
        if pulled.windows or pulled.missed:
            return "nothing was compared with the service: it holds hours only that were left out"
        return "nothing was compared with the service: of all that has landed it holds nothing any more"
    if pulled.windows:
        why = "rows of them were removed by decision, so both sides differ"
    elif pulled.missed:
        why = "they could not be pulled to their end"
    else:
        lacks = reach.lacking(lake, logstore, client, hours)
        reached_s = min(
            (e.reached_s for e in ledger.shards.values() if not e.closed), default=hours.stop * HOUR_S
        )
        kept = reach.oldest(client).values()
        if lacks:
            why = "; ".join(lack.text for lack in lacks)
        elif reached_s < hours.stop * HOUR_S:
            why = "not landed to their end yet"
        elif any(x.at_s is None or x.at_s >= hours.start * HOUR_S for x in kept):
            why = "the service no longer has them"
        else:
            return _EMPTY
    return f"nothing of {hours_text(hours)} was compared with the service: {why}"


def _landed_windows(table: Table, ledger: Ledger) -> dict[Window, int]:
    """The windows of the landings that `main` still tells of, and how many rows each brought.

    Without those of which something was withdrawn since. Landed again, a window holds what it held:
    a log never moves to another cursor.
    """
    found: dict[Window, int] = {}
    for landed in windows_in(table, ledger.origin):
        entry, window = ledger.shards.get(landed.window.shard), landed.window
        if entry and not IntervalSet.of([(window.begin, window.end)]).minus(entry.landed):
            found.setdefault(window, landed.rows)
    return found


@dataclass(frozen=True)
class _Seen:
    """What the service shows beside the rows of a shard: what the ledger gave up; what was skipped, and can
    still be landed, or can no more."""

    shown: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def _ends(
    client: SlsClient, ledger: Ledger, asked: Begins, name: str
) -> tuple[dict[int, Cursor], dict[int, _Seen]]:
    """The end of each listed shard, and what the service shows of each that the ledger knows."""
    ends: dict[int, Cursor] = {}
    seen: dict[int, _Seen] = {}

    def ask(shard: Shard) -> None:
        entry = ledger.shards.get(shard.id)
        try:
            head = client.head(shard)
            if entry is not None:
                parts = readable_again(client, head.shard, entry, head, asked)
                seen[shard.id] = _Seen(
                    shown=(
                        *_shown_again(entry, head),
                        *_asked_again(client, entry, head, asked, parts, name),
                    ),
                    owed=tuple(said_readable(part, asked.lowered, name) for part in parts if part.owed),
                    lost=_owed_no_more(entry, head.begin),
                )
        except ShardGone:
            return
        ends[shard.id] = head.end

    with ThreadPoolExecutor(CALLS_PARALLEL) as pool:
        list(pool.map(ask, client.shards()))
    for number, entry in ledger.shards.items():
        if number not in ends:
            seen[number] = _Seen(lost=_owed_no_more(entry, CURSOR_UNKNOWN))
    return ends, seen


def _owed_no_more(entry: ShardLedger, begin: int) -> tuple[str, ...]:
    """What was skipped, never landed, and can land no more, since the service's shard begins at `begin`."""
    gone = [gap for gap in entry.gaps if gap.cause == GAP_SKIPPED and gap.begin < begin]
    return tuple(
        f"[{gap.begin}, {min(gap.end, begin)}) was skipped and owed, and retention has taken it: it is lost"
        for gap in gone
    )


def _asked_again(
    client: SlsClient, entry: ShardLedger, head: Head, asked: Begins, parts: Collection[Again], name: str
) -> Iterator[str]:
    start = None if entry.closed else begins_anew(client, head, entry, parts, asked)
    if start is not None:
        yield (
            f"the ledger begins this shard at {entry.start}, and the service at {start}; nothing has landed "
            "from there, so nothing is lost: the next live run lets the shard begin anew"
        )
    left = (part for part in parts if not part.owed and (start is None or not part.early))
    yield from (said_readable(part, asked.lowered, name) for part in left)


def _shown_again(entry: ShardLedger, head: Head) -> list[str]:
    if entry.end == CURSOR_UNKNOWN:
        what = "calls this shard gone, and the service lists it and gives its cursors"
    elif entry.end is not None and (head.end > entry.end or not head.readonly):
        state = "read-only" if head.readonly else "open"
        what = f"closed this shard at {entry.end}, and the service has it {state} with its end at {head.end}"
    else:
        return []
    return [f"the ledger {what}: the next live run opens it again and goes on at its frontier"]


@dataclass(frozen=True)
class _Decisions:
    """What people decided about a shard: rows adopted, forgotten, given up as missing, hours withdrawn."""

    adopted: tuple[int, int]
    forgotten: Gone
    hours: Mapping[tuple[int, int], str]
    missing: int = 0


def _decisions(
    client: SlsClient,
    state: TableState,
    ledger: Ledger,
    tallies: Collection[int],
    ends: Collection[int],
) -> dict[int, _Decisions]:
    """What people decided about each shard that ledger or table have."""
    adopted = {s: v for (name, s), v in state.adopted.shards.items() if name == ledger.origin}
    missing = {s: rows for (name, s), rows in state.adopted.missing.items() if name == ledger.origin}
    return {
        shard: _Decisions(
            adopted.get(shard, (0, 0)),
            state.forgotten.of(ledger.origin, shard),
            _withdrawn(client, shard, ledger) if shard in ends else {},
            missing.get(shard, 0),
        )
        for shard in {*ledger.shards, *tallies, *adopted, *missing}
    }


def _withdrawn(client: SlsClient, shard: int, ledger: Ledger) -> dict[tuple[int, int], str]:
    """The receive hours of each withdrawn interval, as far as the service still knows them."""
    entry = ledger.shards.get(shard)
    found: dict[tuple[int, int], str] = {}
    for begin, end in entry.withdrawn if entry else ():
        try:
            first = last = client.cursor_time_s(shard, Cursor(begin)) // HOUR_S
            while (edge := client.cursor_at(shard, (last + 1) * HOUR_S)) < end:
                last = client.cursor_time_s(shard, edge) // HOUR_S
            found[begin, end] = hours_text(range(first, last + 1))
        except SlsError:
            continue
    return found


def _prove(
    shard: int,
    ledger: Ledger,
    tally: Tally | None,
    ends: Mapping[int, Cursor],
    decided: _Decisions,
    told: _Told,
    seen: _Seen,
) -> ShardProof:
    entry = ledger.shards.get(shard)
    rows = tally.rows if tally else 0
    adopted, gone = decided.adopted, decided.forgotten
    before = adopted[0]
    notes = [f"{before} rows were adopted: there before the ledger begins, by a decision"] if before else []
    if decided.missing:
        notes.append(f"at least {decided.missing} rows that are missing were given up, by decision")
    if gone.rows or gone.before:
        notes.append(f"{gone.rows} rows of {_hours_gone(gone)} were removed by decision")
    if entry is None:
        problems = [f"{rows} rows of a shard that the ledger does not know"]
        if before or not rows:
            problems = other_sums(ShardLedger(Cursor(0)), tally, adopted)
        return ShardProof(
            shard, 0, rows, Cursor(0), None, False, (), tuple(problems), tuple(notes), before,
            strange=bool(problems) and rows > before,
        )  # fmt: skip
    single = _singly(shard, tally, told, decided.forgotten)
    sums, once = other_sums(entry, tally, adopted), not_once(tally, before)
    problems = [*sums, *once, *single.problems, *seen.shown]
    notes += [*single.notes, *seen.lost]
    if entry.suspect_s:
        notes.append(
            f"suspected since {moment_text(entry.suspect_s)} to be gone from the service: nothing is given "
            "up yet"
        )
    notes += [f"landed ahead of the frontier: [{b}, {e})" for b, e in entry.landed if b > entry.frontier]
    end = ends.get(shard)
    anew = bool(seen.shown) and entry.frontier == entry.start
    if end is not None and entry.frontier > end and not entry.closed and not anew:
        problems.append(
            f"the ledger reached {entry.frontier}, the service ends at {end}: not the same logstore"
        )
    return ShardProof(
        shard=shard,
        rows_ledger=entry.rows,
        rows_table=rows,
        frontier=entry.frontier,
        end=end,
        closed=entry.closed,
        gaps=tuple(f"[{g.begin}, {'?' if g.end == CURSOR_UNKNOWN else g.end}) {g.cause}" for g in entry.gaps),
        problems=tuple(problems),
        notes=tuple(notes),
        rows_adopted=before,
        withdrawn=tuple(
            f"[{b}, {e}) of {decided.hours.get((b, e), 'an hour the service no longer has')}"
            for b, e in entry.withdrawn
        ),
        rows_forgotten=gone.rows,
        windows=single.windows,
        rows_pulled=single.rows_pulled,
        windows_left=single.left,
        windows_pulled=single.pulled,
        hours_short=tuple(sorted(single.short)),
        others=bool(sums) and rows == entry.rows + before,
        hours_over=tuple(sorted(single.over)),
        strange=bool(once) or rows > entry.rows + before,
        owed=seen.owed,
        rows_missing=decided.missing,
    )


@dataclass
class _Single:
    """What counting window by window found of one shard."""

    windows: int = 0
    left: int = 0
    rows_pulled: int | None = None
    pulled: int = 0
    short: set[int] = field(default_factory=set)
    over: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _singly(shard: int, tally: Tally | None, told: _Told, gone: Gone) -> _Single:
    """Each window on its own. Windows of hours with rows removed by decision are left out: nobody knows which
    windows those rows were in."""
    held: Mapping[Window, Count] = tally.windows if tally else {}
    found, wrong = _Single(), list[str]()
    asked = [w for w in sorted(held) if not gone.hours.overlaps(w.hour, w.hour + 1)]
    rest = {w for w in held if w.hour >= gone.before}.difference(asked)
    found.left = len(rest & told.landed.keys())
    for window in (w for w in told.landed if w.shard == shard and w.hour < gone.before):
        found.windows += 1
        if held[window][0]:
            wrong.append(
                f"{_place(window)}: the table holds {held[window][0]} rows of an hour that is forgotten"
            )
    for window in (w for w in asked if w in told.landed):
        found.windows += 1
        (rows, _), brought = held[window], told.landed[window]
        if rows != brought:
            (found.short if rows < brought else found.over).add(window.hour)
            wrong.append(f"{_place(window)}: the table holds {rows} rows, its landing brought {brought}")
    if told.pulled is not None:
        found.rows_pulled = 0
        for window in (w for w in asked if w in told.pulled.windows):
            here, count = held[window], told.pulled.windows[window]
            found.rows_pulled += count[0]
            found.pulled += 1
            if here != count:
                (found.short if here[0] <= count[0] else found.over).add(window.hour)
            if here[0] != count[0]:
                wrong.append(f"{_place(window)}: the table holds {here[0]} rows, the service {count[0]}")
            elif here != count:
                wrong.append(f"{_place(window)}: the table holds other rows than the service")
        found.notes = [
            f"{_place(window)} was not compared with the service: {why}"
            for window, why in sorted(told.pulled.missed.items())
            if window.shard == shard
        ]
    if rest:
        compared = " nor compared with the service" if told.pulled is not None else ""
        hours = ", ".join(map(hour_text, sorted({w.hour for w in rest})[:_NAMED_MAX]))
        found.notes.append(
            f"{found.left or len(rest)} windows of hours with rows removed by decision ({hours}) were not "
            f"counted one by one{compared}: the sums of the shard prove them"
        )
    found.problems = wrong[:_NAMED_MAX]
    if len(wrong) > _NAMED_MAX:
        found.problems.append(f"and {len(wrong) - _NAMED_MAX} more windows do not hold what they should")
    return found


def _hours_gone(gone: Gone) -> str:
    before = [f"all hours before {hour_text(gone.before)}"] if gone.before else []
    beside = gone.hours.minus(IntervalSet.of([(0, gone.before)]))
    return ", ".join([*before, *(hours_text(range(b, e)) for b, e in beside)])


def _place(window: Window) -> str:
    return f"window [{window.begin}, {window.end}) of {hour_text(window.hour)}"
