"""Land receive hours again and drop what was there of them, in one commit.

An undo and a backfill of the same hours, with nothing in between: a reader of the table sees the old
rows or the new ones. It is all or nothing, so a window that ends early ends all of it, and the run's
budget of bytes, windows and seconds does not apply: Spark works on as many tasks at a time as it has cores,
and half the sweep's floor is the time there is. Refused where retention has taken a part: those rows could
not come back.

The ledger says afterwards what it said before: the cursors are the same, so the rows must be. It is not
lowered by the rows that leave and raised by those that come, because then nothing would prove that both are
the same. That is also why an hour that lost rows by hand is right again after a replace. Where more rows come
than had landed, since the service had kept some back, the ledger goes up (`sameness.recounted`).

What is landed again of an hour is what its shards' frontiers have passed, and what a fill has landed beyond
one. Of an hour that is over that is all of it; of the hour that runs it is what has landed so far. That much
can be replaced, because nothing else of the hour is in the table: its files hold rows of landed intervals
only, each file those of the windows of one commit, live runs go on at the frontier and not at the hour's
edge, and no frontier moves. What lies beyond is neither pulled nor promised: the next live run lands it, as
if nothing had been.

Worked example: it is 09:20; of hour 09, which begins at cursor 600, shard 0 has landed up to 640, shard 1 up
to 610. [600, 640) and [600, 610) leave and land again. Meanwhile a live run lands [640, 655) of shard 0: its
file is not among those that leave, and the frontier is 655 afterwards.

Story: it writes for minutes, a landing commits meanwhile. What is to be dropped is looked up again on the new
head: what was looked at leaves, what landed since stays, the same files are added. It gives up when something
of what was looked at is not there any more, or when both have been written into one file.
"""

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile

from pyiceberg.schema import Schema

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Note
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.commit.planned import Planned, Tools, execute
from pipelines.landing.contents import slices
from pipelines.landing.contents.holdings import Asking, Holdings
from pipelines.landing.contents.sameness import Exchange, recounted
from pipelines.landing.contents.slices import RowsElsewhere
from pipelines.landing.hours import hours_text, spans
from pipelines.landing.ledger.epochs import RUN_CHARS, Fenced
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.place import Place, Trust, landable, look
from pipelines.landing.ledger.values import Adopted, Count, Delta, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.skip import Skip
from pipelines.landing.operations.undo import Leaving, PlannedUndo, Undo, has_whole, leaving, undone
from pipelines.landing.run.attempt import Attempt
from pipelines.landing.run.report import LandingReport, stop_text
from pipelines.landing.run.reporting import counts_of
from pipelines.landing.run.write import WrittenWindow
from pipelines.landing.table import commands
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.planning.plan import only, plan_fill
from sls_io.planning.survey import survey_hours
from sls_io.planning.values import LedgerChange, PlannedWindow, Survey
from sls_io.values.claim import CURSOR_UNKNOWN, Ledger
from sls_io.values.cures import Cure
from sls_io.values.errors import (
    ConfigError,
    InvariantBroken,
    LandingConflict,
    SlsError,
    TransportError,
)
from sls_io.values.window import HOUR_S, IntervalSet
from sls_io.wire.client import SlsClient

_WIDENED_MAX = 4


@dataclass(frozen=True)
class _Replacing:
    """Hours of the table that was looked at, and what is pulled in their place.

    `windows` are those of what is there and then those, `more` of them, of what the hours lack. `look` gives
    what would leave of the table as it is later. What of the hours was received before `until_s` (unix
    seconds) is all that can have landed; of the `running` ones live runs land more.
    Of the shards `whole` the service certainly has all that landed of the hours.
    """

    look: Callable[[], PlannedUndo]
    client: SlsClient
    logstore: Logstore
    undone: PlannedUndo
    hours: range
    windows: tuple[PlannedWindow, ...]
    more: int
    schema: Schema | None
    skip: Skip | None
    until_s: int
    running: tuple[int, ...]
    whole: frozenset[int]

    @property
    def view(self) -> "Replacement":
        """What is shown of it. What leaves lands again in the same commit, so a shard's ledger has afterwards
        the rows that it has now."""
        now, view = self.undone.place.ledger.shards, self.undone.view
        shards = tuple(replace(each, rows_after=now[each.shard].rows) for each in view.shards)
        of = {**vars(view), "shards": shards}
        return Replacement(**of, windows=len(self.windows), running=self.running)

    def work(self, tools: Tools) -> "PlannedReplace":
        """Pull and write the hours as a run does. Raises TransportError when a window ended early.

        The files carry the age of before the first pull. After each refused try `again` looks at the table,
        and the same files are sent: minutes of pulling are not done twice for somebody else's landing.
        """
        tools.on_event("write")
        if tools.engine is None:
            raise InvariantBroken("a replace works with an engine")
        tools.engine.require()
        place, fresh = self.undone.place, Freshness(tools.clock)
        attempt = Attempt(uuid.uuid4().hex, place.origin, place.table, place.state, self.schema, fresh)
        written = attempt.write(
            tools.engine,
            self.logstore,
            self.windows,
            deadline_s=self.client.now_s() + SWEEP_FLOOR_S / 2,
            tag=f"sls-lake-{attempt.id[:12]}",
        )
        _check_whole(self.windows, written)
        attempt = attempt.wrote(written, fresh)

        def on(current: PlannedUndo) -> PlannedReplace:
            change, risen = _change(self, current, attempt)
            now = change.ledgers[current.ledger.origin].shards
            shards = tuple(replace(each, rows_after=now[each.shard].rows) for each in self.view.shards)
            view = replace(self.view, shards=shards, risen=risen)
            return PlannedReplace(view, current.place, change, again=again, coming=self, attempt=attempt)

        def again() -> PlannedReplace:
            current = self.look()
            if attempt.id[:RUN_CHARS] in current.place.state.aborted:
                raise LandingConflict(f"{Fenced.ABORTED}: nothing was replaced")
            _check_unchanged(attempt, self.undone, current, self.hours)
            return on(current)

        return on(self.undone)


@dataclass(frozen=True)
class Replacement(Undo):
    """What `backfill --mode replace` would do; so many `windows` are pulled and landed instead. `running` are
    hours (since 1970) that not every frontier has passed. `risen`, once they were pulled: of which shards
    more rows came than had landed."""

    WHAT = "{table}: the rows of these hours leave, and windows land instead, in the same commit"
    QUIET = Undo.QUIET | {"running", "risen"}

    windows: int = 0
    running: tuple[int, ...] = ()
    risen: tuple[str, ...] = ()

    def said(self) -> Iterable[Note]:
        yield from super().said()
        yield from (Note(text, "warn") for text in self.risen)
        if self.running:
            hours = hours_text(range(self.running[0], self.running[-1] + 1))
            yield Note(
                f"not every shard has passed {hours}: what has landed of it so far lands again, and live "
                "runs go on behind that"
            )

    def then(self) -> Iterable[Cure]:
        return ()


@dataclass(frozen=True)
class PlannedReplace(Planned[Replacement]):
    """What would leave; `coming` in the same commit, `attempt` once that was pulled."""

    coming: _Replacing = field(kw_only=True)
    attempt: Attempt | None = None


def plan_replace(
    lake: Lake, logstore: Logstore, client: SlsClient, hours: range, *, skip: Skip | None = None
) -> PlannedReplace:
    """Look at what replacing these receive hours would do. Changes nothing. `skip`: shards of which live runs
    go on later, from the same commit on.

    Raises what `plan_undo` does, and ConfigError when retention has taken a part of the hours. Where rows
    of the hours lie in others, too, RowsElsewhere names the replace of all of them if that one can be done.
    """
    place, asking = _looked(lake, logstore, client)
    schema = landable(logstore, place.table)
    running = asking.decide(lambda held: _running(held, hours))
    try:
        left = asking.decide(lambda held: accepted(held, hours))
    except RowsElsewhere as error:
        together = asking.decide(partial(accepted_together, hours=error.hours))
        if together is None:
            raise
        cure = commands.of_hours(commands.REPLACE, spans(together)[0], "lands all of them again")
        raise RowsElsewhere(logstore.table, error.asked, error.others, cures=(cure,)) from error
    before = undone(place, logstore, asking, hours, left, Operation.REPLACE)
    surveys = survey_hours(
        client,
        client.shards(),
        hours=hours,
        until_s=hours.stop * HOUR_S,
        pieces=logstore.splits_per_hour,
        also=left.taken,
    )
    # The service goes on, too: what it shows by now is more than what its edges showed.
    surveys = only(surveys, passed(place.ledger, place.adopted))
    again = _windows(logstore, surveys, _only(before), hours)
    lacking = _windows(logstore, surveys, place.ledger, hours)
    # Retention may have gone on since the edges were asked for.
    # `accepted` went by the edges of the hours, this goes by the very windows that will be pulled; what they
    # do not cover is refused before anything is written.
    _check_covered(left.taken, _cursors(again))
    # Both plans number their chains from 0. Under one number two windows of different plans would be one
    # task, and share the bytes of one chain.
    chains = 1 + max((p.chain for p in again), default=0)
    more = tuple(replace(p, chain=p.chain + chains) for p in lacking)

    def now() -> PlannedUndo:
        place, asking = _looked(lake, logstore, client)
        there = asking.decide(lambda held: leaving(held, hours, holed=True, only=left.taken))
        return undone(place, logstore, asking, hours, there, Operation.REPLACE)

    until_s = min(hours.stop * HOUR_S, int(asking.holdings.edges.settled_s))
    windows = (*again, *more)
    whole = asking.decide(lambda held: frozenset(s for s in left.taken if has_whole(held, hours, s)))
    coming = _Replacing(
        now, client, logstore, before, hours, windows, len(more), schema, skip, until_s, running, whole
    )
    return PlannedReplace(coming.view, place, None, work=coming.work, coming=coming)


def _looked(lake: Lake, logstore: Logstore, client: SlsClient) -> tuple[Place, Asking]:
    place = look(lake, logstore, client, trust=Trust.SOUND)
    return place, Asking(place, client)


def accepted(held: Holdings, hours: range) -> Leaving:
    """What leaves with these receive hours and can be landed again. Raises as `plan_replace` does.

    The rows come from between the service's edges of the hours, as far as a replace may land them. What they
    must cover is all that leaves. What the hours lack is landed with them.
    """
    left = leaving(held, hours, holed=True)
    coming, fresh = dict[int, IntervalSet](), dict[int, IntervalSet]()
    for shard, may in passed(held.ledger, held.adopted).items():
        # Of its own edges, whether or not a list has it: of one that is gone there are none.
        shown = held.edges.between(shard, hours)
        coming[shard] = shown.minus(shown.minus(may))
        fresh[shard] = coming[shard].minus(held.ledger.shards[shard].landed)
    for shard, gone in _uncovered(left.taken, coming).items():
        first = gone.pairs[0][0]
        begin = held.edges.at("begin", shard)
        other = held.edges.hour_of(shard, first) if begin is not None and first >= begin else None
        if other is not None and other not in hours:
            raise RowsElsewhere(held.name, range(other, other + 1), hours, cures=(commands.VERIFY_PULL,))
    _check_covered(left.taken, coming)
    slices.check_nowhere_else(held, fresh, hours)
    return left


def passed(ledger: Ledger, adopted: Adopted) -> dict[int, IntervalSet]:
    """What of each shard a replace may land: what its frontier has passed, and what has landed beyond that.

    Not more: it would move the frontier past logs that are younger than the settle time, and a child past its
    parents. Of a shard with adopted rows nothing from before its start.

    Worked example: history begins at 100, the frontier is 640, and a fill has landed [700, 720) beyond it.
    What may land is [0, 640) and [700, 720): a fill may land what lies before the start, too. With adopted
    rows it is [100, 640) and [700, 720): those rows lie somewhere before the start, no window knows where,
    and pulled again they would be there twice.
    """
    strange, found = adopted.shards_of(ledger.origin), dict[int, IntervalSet]()
    for shard, entry in ledger.shards.items():
        reached = entry.landed.union([(0, entry.frontier)])
        found[shard] = reached.within(entry.start, CURSOR_UNKNOWN) if shard in strange else reached
    return found


def _running(held: Holdings, hours: range) -> tuple[int, ...]:
    """The last of these hours, as far as not every frontier has passed them."""
    return tuple(takewhile(lambda hour: slices.not_passed(held, hour + 1), hours[::-1]))[::-1]


def accepted_together(held: Holdings, hours: range) -> range | None:
    """These hours, and those in which rows of them lie, as far as all can be replaced at once."""
    for _ in range(_WIDENED_MAX):
        try:
            accepted(held, hours)
        except RowsElsewhere as error:
            hours = error.hours
        except SlsError:
            return None
        else:
            return hours
    return None


def _uncovered(taken: Mapping[int, IntervalSet], coming: Mapping[int, IntervalSet]) -> dict[int, IntervalSet]:
    left = {shard: each.minus(coming.get(shard, IntervalSet())) for shard, each in taken.items()}
    return {shard: each for shard, each in left.items() if each}


def _check_covered(taken: Mapping[int, IntervalSet], coming: Mapping[int, IntervalSet]) -> None:
    for shard in _uncovered(taken, coming):
        raise ConfigError(
            f"retention has already taken a part of these hours from shard {shard}: its rows could not "
            "come back, so nothing is replaced"
        )


def _cursors(windows: Iterable[PlannedWindow]) -> dict[int, IntervalSet]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for planned in windows:
        found[planned.window.shard].append((planned.window.begin, planned.window.end))
    return {shard: IntervalSet.of(pairs) for shard, pairs in found.items()}


def _only(undone: PlannedUndo) -> Ledger:
    """A ledger that lacks what would leave, and nothing else.

    Gaps count as landed here. This ledger is asked what of the hours comes in the place of what leaves; what
    the hours lack beside that, gaps among it, is planned by the true ledger and counted apart (`more`), since
    only those windows are merged into it.

    Worked example: [0, 640) has landed and [600, 640) leaves: landed is [0, 600), withdrawn [600, 640), and a
    fill of the hour plans [600, 640) and nothing else.
    """
    return Ledger(
        undone.ledger.origin,
        {
            shard: replace(
                undone.ledger.shards[shard],
                landed=undone.place.ledger.shards[shard].accounted.minus(taken),
                withdrawn=taken,
            )
            for shard, taken in undone.taken.items()
        },
    )


def _windows(
    logstore: Logstore, surveys: Mapping[int, Survey], ledger: Ledger, hours: range
) -> tuple[PlannedWindow, ...]:
    mine = {shard: survey for shard, survey in surveys.items() if shard in ledger.shards}
    budget, until_s = logstore.budget.unended, hours.stop * HOUR_S
    return plan_fill(surveys=mine, ledger=ledger, budget=budget, until_s=until_s).windows


def execute_replace(lake: Lake, planned: PlannedReplace, tools: Tools) -> tuple[LandingReport, Replacement]:
    """Pull and write the hours, then commit; `tools.on_event` hears `write`, `publish` before each. What
    landed, and what became of the hours. Raises TransportError when a window ended early or fewer rows came,
    LandingConflict when the hours changed meanwhile or a person aborted it, ConfigError and LedgerBroken as
    `recounted`; nothing has changed then. LandingUnknown when the answer was lost.
    """
    begun_s = tools.clock.monotonic()
    done = execute(lake, planned, tools)
    if not isinstance(done.planned, PlannedReplace) or done.planned.attempt is None:
        raise InvariantBroken("another plan was committed")
    attempt = done.planned.attempt
    report = replace(
        counts_of(attempt, attempt.landed, mode=Operation.REPLACE, snapshot_id=done.snapshot),
        seconds=tools.clock.monotonic() - begun_s,
        until_s=planned.coming.until_s,
        conflicts=done.conflicts,
    )
    return report, done.planned.view


def _check_whole(windows: Iterable[PlannedWindow], written: Iterable[WrittenWindow]) -> None:
    """Raises TransportError when a window ended early."""
    for wanted, window in zip(windows, written, strict=True):
        if window.landed is None or window.landed.window != wanted.window:
            why = stop_text(window.stopped, window.cause)
            raise TransportError(f"shard {wanted.window.shard}: {why}; nothing was replaced, run it again")


def _change(
    coming: _Replacing, current: PlannedUndo, attempt: Attempt
) -> tuple[authored.Change, tuple[str, ...]]:
    """What is committed, and of which shards more rows came than left."""
    place, landed = current.place, attempt.landed
    # Only what the hours lacked is merged. What lands in the place of what leaves is in the ledger already:
    # merged, each of these windows would overlap itself and be lost.
    lacking = landed[len(landed) - coming.more :]
    skip = LedgerChange() if coming.skip is None else coming.skip.change
    merged = merge(place.ledger, Delta(place.origin.id, live=False, windows=lacking, change=skip))
    if merged.lost:
        raise LandingConflict(
            f"another backfill landed a part of these hours in {place.name} meanwhile; nothing was "
            "replaced, look again"
        )
    exchange = Exchange(
        place=place,
        shards=frozenset(current.taken),
        lowered=current.ledger,
        forgotten=current.commit.forgotten,
        files=current.commit.dropped,
        again=landed[: len(landed) - coming.more],
        whole=coming.whole,
    )
    ledger, risen = recounted(merged.ledger, exchange)
    change = replace(
        current.commit,
        ledgers={**place.state.ledgers, place.origin.id: ledger},
        forgotten=current.commit.forgotten.landed(place.origin.id, landed),
        added=tuple(attempt.files(landed)),
        windows=landed,
        window_origin=place.origin.id,
        schema=coming.schema,
        properties=coming.logstore.protection(place.table.properties),
    )
    return change, risen


def _check_unchanged(attempt: Attempt, then: PlannedUndo, now: PlannedUndo, hours: range) -> None:
    """What was looked at is still there, however its files were rewritten since.

    What is barred is counted by hour, not by cursor: of rows that a live run kept out of a running hour
    meanwhile nobody could tell whether they are of what leaves.
    """
    barred_then, barred_now = _barred(then, hours), _barred(now, hours)
    if not attempt.fits(now.place.state, fill=False) or then.taken != now.taken or barred_then != barred_now:
        raise LandingConflict(
            f"these hours, the schema or the partitioning of {now.place.name} changed meanwhile; nothing "
            "was replaced, look again without --execute"
        )


def _barred(undone: PlannedUndo, hours: range) -> list[tuple[int, int, Count]]:
    """Shard, hour and count of what may not land of the hours that leave."""
    origin, forgotten = undone.ledger.origin, undone.place.state.forgotten
    return [
        (shard, hour, count)
        for shard in sorted(undone.taken)
        for hour, count in sorted(forgotten.barred_of(origin, shard).items())
        if hour in hours
    ]
