"""What a run tells at its end, from where its protocol stands and what its attempt wrote."""

from collections.abc import Mapping

from pipelines.landing.run.attempt import Attempt
from pipelines.landing.run.protocol import State
from pipelines.landing.run.report import HourReport, LandingReport, gap_lines, readable_lines, suspect_lines
from sls_io.planning.plan import Plan
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import Ledger


def report_of(
    state: State,
    attempt: Attempt,
    *,
    mode: str,
    table: str,
    logstore: str,
    until_s: int,
    now_s: float,
    seconds: float,
    stopped: Mapping[int, str],
    lowered: bool | None,
) -> LandingReport:
    """The landing in numbers. `now_s` and `until_s` are the service's time, `seconds` how long it took;
    `stopped` says which shards were left before their planned end, `lowered` is as in `readable_lines`."""
    files = [row for landed in state.landed for row in attempt.file_rows(landed)]
    plan, ledger = state.plan or Plan(attempt.origin.id, mode == "live", until_s), state.ledger
    return LandingReport(
        mode=mode,
        origin=attempt.origin.id,
        table=table,
        snapshot_id=state.snapshot_id,
        rows=sum(x.rows for x in state.landed),
        raw_bytes=sum(x.raw_bytes for x in state.landed),
        files=len(files),
        file_bytes=sum(row.size for row in files),
        error_rows=sum(row.errors for row in files),
        pages=sum(row.pages for row in files),
        seconds=seconds,
        until_s=until_s,
        windows=len(state.landed),
        hours=_hours(state, attempt),
        waits=dict(sorted((state.waits or {}).items())),
        stopped=dict(sorted(stopped.items())),
        gaps=gap_lines(plan),
        suspects=suspect_lines(plan),
        readable=readable_lines(plan, lowered, logstore),
        # A window that stopped early leaves its shard open, whatever was planned.
        closed=tuple(s for s in sorted(plan.closings) if ledger and ledger.closed({s})),
        lag_s=lag_s(ledger, state.waits or {}, until_s=until_s, now_s=now_s) if mode == "live" else None,
        conflicts=state.conflicts,
        replans=state.replans,
        peak_bytes=max((row.peak_bytes for row in files), default=0),
    )


def _hours(state: State, attempt: Attempt) -> dict[int, HourReport]:
    hours: dict[int, HourReport] = {}
    for x in state.landed:
        mine = attempt.file_rows(x)
        old = hours.get(x.window.hour, HourReport(0, 0, 0, 0))
        hours[x.window.hour] = HourReport(
            rows=old.rows + x.rows,
            raw_bytes=old.raw_bytes + x.raw_bytes,
            files=old.files + len(mine),
            file_bytes=old.file_bytes + sum(row.size for row in mine),
        )
    return dict(sorted(hours.items()))


def lag_s(ledger: Ledger | None, waits: Mapping[int, Wait], *, until_s: int, now_s: float) -> float | None:
    """At most how long the oldest log waits that a live run leaves, in seconds; 0 where none was left, None
    before a history has begun, and where nothing was reached of a shard with logs.

    A shard that was read up to `until_s`, or that had nothing new, leaves none, however long ago its last log
    came. In any other no log that waits is older than the receive time that the shard has reached.
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
