"""Looking at a logstore's health: a fact for each kind of finding, or why nobody knows it.

Changes nothing. Raises no SlsError and no OSError: what fails is a fact that nobody knows. Shards are asked
only where the ledger leaves open whether a limit is passed (see `look.py`), or where somebody wants to see
each.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeVar

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.inspection.error_rows import error_rows
from pipelines.landing.inspection.runway import PACE_S, Runway, gaps_since, runway
from pipelines.landing.ledger import codec, mirror
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.pinned import spoken
from pipelines.landing.ledger.state import ancestry, check_newest, facts, origins_named, read_state
from pipelines.landing.ledger.summary import deed_in, summary_of, windows_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import Latest, Level, TimeLeft, Unknown, Vitals, Waits, falling, rising
from pipelines.landing.watch.look import look
from pipelines.landing.watch.wear import wear
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Cure
from sls_io.values.errors import LedgerBroken, SlsError
from sls_io.wire.client import SlsClient
from sls_io.wire.heads import Heads

_T = TypeVar("_T")


def vitals(
    logstore: Logstore,
    lake: Callable[[], Lake],
    client: Callable[[], SlsClient],
    *,
    clock: Clock = SYSTEM_CLOCK,
    heads: Heads | None = None,
    whole: bool = False,
) -> Vitals:
    """All but the proof, which reads the whole table. `whole`: each shard is asked; `heads`: what was asked
    already. `lake` and `client` raise where a setting or keys are gone.

    A ledger that contradicts itself is told once: nothing that is read from it is known then.

    Each fact is asked for by itself, so that one that fails leaves the others known: a service that is away
    takes lag and runway, while commit, errors and wear come from the table. A `lake` is made once, when the
    first fact wants it; where that raises, each fact tries anew and has the reason.
    """

    lake_now = cache(lambda: lake().one_look())

    def by_the_service() -> tuple[Waits, TimeLeft]:
        return _waits_and_left(logstore, lake_now(), client(), clock, heads=heads, whole=whole)

    try:
        problems = known(lambda: _problems(logstore, lake_now()), broken=True)
        waits = known(by_the_service, broken=True)
    except LedgerBroken as error:
        return _broken(error)
    lag, left = (waits, waits) if isinstance(waits, Unknown) else waits
    return Vitals(
        reconciled=problems,
        lag=lag,
        runway=left,
        commit=known(lambda: _newest(logstore, lake_now(), clock)),
        errors=known(lambda: error_rows(logstore, lake_now())),
        wear=known(lambda: wear(lake_now().load(logstore.table))),
        mirror=known(lambda: mirror.standing(logstore, lake_now(), client())) if logstore.mirror else None,
    )


def after_landing(logstore: Logstore, lake: Lake) -> Vitals:
    """What a run that lands looks at beside its landing, which does not fail because of that.

    The newest landing is not reconciled here: the run has its own verdict of that. The proof is not there,
    since it reads the whole table.
    """

    now = lake.one_look()

    def by_the_service() -> tuple[Waits, TimeLeft]:
        with SlsClient(logstore.service) as client:
            return _waits_and_left(logstore, now, client, SYSTEM_CLOCK, whole=True)

    waits = known(by_the_service)
    lag, left = (waits, waits) if isinstance(waits, Unknown) else waits
    return Vitals(
        lag=lag,
        runway=left,
        commit=known(lambda: _newest(logstore, now, SYSTEM_CLOCK)),
        errors=known(lambda: error_rows(logstore, now)),
    )


def reconciled(logstore: Logstore) -> tuple[str, ...] | Unknown:
    """What is wrong with the newest landing, seen by somebody who did not make it."""
    try:
        return known(lambda: _problems(logstore, Lake.default()), broken=True)
    except LedgerBroken as error:
        return (str(error),)


def known(look_at: Callable[[], _T], *, broken: bool = False) -> _T | Unknown:
    """A fact, or why nobody knows it. `broken`: raises what says that the ledger contradicts itself."""
    try:
        return look_at()
    except (SlsError, OSError) as error:
        if broken and isinstance(error, LedgerBroken):
            raise
        return Unknown(str(error), _cures(error))


def _cures(error: SlsError | OSError) -> tuple[Cure, ...]:
    return error.cures if isinstance(error, SlsError) else ()


def _problems(logstore: Logstore, lake: Lake) -> tuple[str, ...]:
    table = lake.load(logstore.table)
    if table is None:
        return ()
    check_newest(table)  # before a ledger of an older state is called damaged
    read_state(table, newest=False)
    return tuple(reconcile(table))


def _broken(error: SlsError) -> Vitals:
    """The contradiction is the finding of `reconciled`, an error; all that would be read from that ledger is
    unknown, with the same reason, and is not called well."""
    why = Unknown(str(error), error.cures)
    broken = (str(error),)
    return Vitals(broken, runway=why, lag=why, commit=why, errors=why, wear=why, cures=error.cures)


def _waits_and_left(
    logstore: Logstore,
    lake: Lake,
    client: SlsClient,
    clock: Clock,
    *,
    heads: Heads | None = None,
    whole: bool,
) -> tuple[Waits, TimeLeft]:
    """The ledger says up to when each shard is known to be read. So no log that waits is older, and the
    oldest of these times bounds both: the lag from above, the time that is left from below. Where even these
    pass no limit, no shard is asked. Before the first landing it says nothing, and all are.

    Worked example: a day is kept, and the oldest shard was read up to ten minutes ago: at least 23 h 50 min
    are left, and nothing waits for longer than ten minutes. Should the limit of the lag be five minutes, the
    shards are asked, and an idle one turns out to have nothing waiting.
    """
    seen = look(logstore, lake, client)
    own = seen.own_by if seen.ledger.started else {}
    if not own and (to_come := logstore.ahead(seen.now_s)):
        return Waits(0.0, to_come=to_come), TimeLeft(None, to_come=to_come)
    retention_s, awake = client.retention_s(), [at for shard, at in own.items() if shard not in seen.paused]
    age_s = max(0.0, seen.now_s - min(own.values(), default=seen.now_s))
    lag_s = max(0.0, seen.now_s - min(awake, default=seen.now_s))
    nobodys = spoken(seen.unread)
    least_s = None if retention_s is None else max(0.0, retention_s - age_s)
    least, limits = Runway(logstore.table, retention_s, (), least_s), logstore.health.lag_s
    far = least_s is None or falling(least_s, *least.limits(logstore.health.runway_s)) is Level.OK
    if own and not whole and far and rising(lag_s, *limits) is Level.OK:
        since_ms = int((clock.now() - PACE_S) * 1000)
        least = replace(least, named=gaps_since(seen.table, seen.ledger, seen.own, since_ms))
        return Waits(lag_s, at_most=True, unread=nobodys), TimeLeft(least)
    found = runway(logstore, lake, client, clock=clock, heads=heads)
    since = {s.shard: s.waiting_since_s for s in found.shards if s.waiting_since_s is not None}
    oldest_s = min((at for shard, at in since.items() if shard not in seen.paused), default=seen.now_s)
    paused = tuple(shard for shard in since if shard in seen.paused)
    return Waits(max(0.0, seen.now_s - oldest_s), paused=paused, unread=nobodys), TimeLeft(found)


def _newest(logstore: Logstore, lake: Lake, clock: Clock) -> Latest:
    table = lake.load(logstore.table)
    newest, kept = _newest_landing(logstore, table) if table is not None else (None, True)
    if newest is None:
        return Latest(None)
    return Latest(max(0.0, clock.now() - newest.timestamp_ms / 1000), kept)


def _newest_landing(logstore: Logstore, table: Table) -> tuple[Snapshot | None, bool]:
    """Its newest landing in `main`; where none is kept, the oldest snapshot with its ledger, and False.

    Story: the schedule of one logstore is dead. Another one lands in the same table, a maintenance compacts
    it, another engine writes: all of them commit, and a maintenance lets the last landing expire. Whatever
    has its ledger is younger than that landing was.
    """
    state, oldest = facts(table, damaged_too=True), None
    mine = origins_named(state, logstore.service.project, logstore.service.logstore)
    for snapshot in ancestry(table):
        said = summary_of(snapshot)
        # What a person or a maintenance does names an origin, too, and is no landing.
        if deed_in(snapshot) is None and windows_of(snapshot)[0] in mine:
            return snapshot, True
        if any(f"{codec.LEDGER_PREFIX}{origin}" in said for origin in mine):
            oldest = snapshot
    return oldest, False
