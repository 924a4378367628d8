"""What a run tells at its end, from where its protocol stands and what its attempt wrote.

The report is of the whole run and not of its last try. The plan is the newest one: what a plan before it
would have closed or named is not told, since it was given up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipelines.landing.ledger.values import Landed
from pipelines.landing.run.attempt import Attempt
from pipelines.landing.run.protocol import State
from pipelines.landing.run.report import HourReport, LandingReport, gap_lines, readable_lines, suspect_lines
from sls_io.planning.values import Plan
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import Gap, Ledger


def report_of(
    state: State,
    attempt: Attempt,
    *,
    mode: str,
    logstore: str,
    until_s: int,
    now_s: float,
    seconds: float,
    stopped: Mapping[int, str],
    lowered: bool | None,
) -> LandingReport:
    """The landing in numbers. `now_s` and `until_s` are the service's time, `seconds` how long it took;
    `stopped` says which shards were left before their planned end, `lowered` is as in `readable_lines`.

    Without a plan (a first start that waits, a run that was fenced) an empty one stands in, so that each
    field has the value that it has where nothing was to be done.
    """
    plan, ledger = state.plan or Plan(attempt.origin.id, mode == "live", until_s), state.ledger
    counted = counts_of(attempt, state.landed, mode=mode, snapshot_id=state.snapshot_id)
    return replace(
        counted,
        seconds=seconds,
        until_s=until_s,
        waits=dict(sorted((state.waits or {}).items())),
        stopped=dict(sorted(stopped.items())),
        gaps=gap_lines(noted_gaps(plan, ledger)),
        suspects=suspect_lines(plan),
        readable=readable_lines(plan, lowered, logstore),
        # A window that stopped early leaves its shard open, whatever was planned.
        closed=tuple(s for s in sorted(plan.change.closings) if ledger and ledger.closed({s})),
        lag_s=lag_s(ledger, state.waits or {}, until_s=until_s, now_s=now_s) if mode == "live" else None,
        conflicts=state.conflicts,
        replans=state.replans,
    )


def noted_gaps(plan: Plan, ledger: Ledger | None) -> dict[int, list[Gap]]:
    """The gaps of the plan that the ledger has, by shard, each as the ledger has it.

    Story: a run plans the gap [100, 150), since the service denies it. While it writes, another run lands
    [100, 130): the service had it after all. What is merged is [130, 150), and that alone is lost. Nothing is
    lost by a plan that was never published.
    """
    shards = ledger.shards if ledger is not None else {}
    return {
        shard: [g for g in shards[shard].gaps if any(g.begin < p.end and p.begin < g.end for p in planned)]
        for shard, planned in plan.change.gaps.items()
        if shard in shards
    }


def counts_of(
    attempt: Attempt, landed: Sequence[Landed], *, mode: str, snapshot_id: int | None
) -> LandingReport:
    """The numbers of these windows, in all and by receive hour; until when and how long is left open.

    Files are those of windows that landed: what was written of others is left to the sweep, and counted
    nowhere.
    """
    files = [row for each in landed for row in attempt.file_rows(each)]
    hours: dict[int, HourReport] = {}
    for each in landed:
        mine = attempt.file_rows(each)
        hour = HourReport(each.rows, each.raw_bytes, len(mine), sum(row.size for row in mine))
        hours[each.window.hour] = hours.get(each.window.hour, HourReport(0, 0, 0, 0)).plus(hour)
    return LandingReport(
        mode=mode,
        origin=attempt.origin.id,
        table=".".join(attempt.table.name()),
        snapshot_id=snapshot_id,
        rows=sum(x.rows for x in landed),
        raw_bytes=sum(x.raw_bytes for x in landed),
        files=len(files),
        file_bytes=sum(row.size for row in files),
        error_rows=sum(row.errors for row in files),
        pages=sum(row.pages for row in files),
        seconds=0.0,
        until_s=0,
        windows=len(landed),
        hours=dict(sorted(hours.items())),
        peak_bytes=max((row.peak_bytes for row in files), default=0),
        barred_rows=sum(each.barred[0] for each in landed),
    )


def lag_s(ledger: Ledger | None, waits: Mapping[int, Wait], *, until_s: int, now_s: float) -> float | None:
    """At most how long the oldest log waits that a live run leaves, in seconds; 0 where none was left, None
    before a history has begun, and where nothing was reached of a shard with logs.

    A shard that was read up to `until_s`, or that had nothing new, leaves none, however long ago its last log
    came. In any other no log that waits is older than the receive time that the shard has reached.

    Worked example: it is 2,010 and the run read up to 2,000. Shard 0 has reached 2,000, shard 1, stopped by
    the budget, 1,000: the lag is at most 1,010 s.
    """
    if ledger is None or not ledger.started:
        return None
    left = [
        entry.reached_s
        for shard, entry in ledger.shards.items()
        if not entry.closed
        and entry.reached_s < until_s
        and not (shard in waits and waits[shard].kind is Why.DRAINED)
    ]
    if not left:
        return 0.0
    return max(0.0, now_s - min(left)) if all(left) else None
