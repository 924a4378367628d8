"""Shards that a live run leaves alone: paused by a person, or with too little waiting; and at which rate logs
came, as far as the landings tell: lately, for what waits, and smoothed, for who gets which shard.

A landing writes at least one file for each shard and receive hour. A schedule of a minute makes sixty small
ones of an hour, which compaction has to write again; with `budget.mb_min` a shard lands when about that
much of it waits, and with `budget.wait_max_s` at the latest when its oldest log has waited so long. Files
are large or fresh, as asked.

The service says no size of what was not read. What waits is estimated from what landed lately and from the
lag; where nothing is known yet the shard lands. A wrong estimate costs a smaller file or a later landing,
never a log.

Worked example: 2 MB a minute come to shard 3, `mb_min` is 32 and `wait_max_s` 900. Ten minutes after its
last landing about 20 MB wait: gathering. After 15 minutes it lands, since its oldest log is 900 s old; at 4
MB a minute it would have landed after eight.
"""

import math
from collections.abc import Callable, Mapping

from pyiceberg.table import Table

from pipelines.landing.ledger.state import TableState, windows_in
from sls_io.planning import waits
from sls_io.planning.values import Survey
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import Ledger
from sls_io.values.errors import SlsError
from sls_io.values.settings import Budget
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.pace import MB

HOURS = 24
"""The rate is that of so many receive hours before what was reached last."""
WEIGHT_HOURS = 6
"""The time constant of weights: what came so many receive hours ago counts 1/e of what comes now."""
_LEAST_S = 600
_LANDINGS_MAX = 200


def left_alone(
    state: TableState,
    ledger: Ledger,
    surveys: Mapping[int, Survey],
    budget: Budget,
    *,
    until_s: int,
    rates: Callable[[], Mapping[int, float]],
    received_s: Callable[[int, Cursor], int],
) -> Mapping[int, Wait]:
    """The shards that a live run up to `until_s` plans nothing of, with the reason. `rates` as `rates_of`,
    asked for only where shards gather; `received_s` as `gathering` wants it."""
    paused = {shard: waits.paused(shard) for shard in state.paused_of(ledger.origin)}
    if not budget.mb_min:
        return paused
    return {**gathering(surveys, ledger, budget, rates(), received_s, until_s=until_s), **paused}


def gathering(
    surveys: Mapping[int, Survey],
    ledger: Ledger,
    budget: Budget,
    rates: Mapping[int, float],
    received_s: Callable[[int, Cursor], int],
    *,
    until_s: int,
) -> Mapping[int, Wait]:
    """The surveyed shards of which too little waits for too short a time; `rates` as raw bytes a receive
    second. A shard of which nothing is known, or nothing waits, is not among them.

    How long the oldest log waits is at most the time since the shard was last reached. Only where that would
    let it land, `received_s(shard, cursor)` is asked when its first log came: a shard that was quiet for an
    hour gathers like any other. What cannot be told lands.

    Two looks, the dear one last: an age from the ledger is at most too large, so a shard that gathers by it
    gathers. Only one that would land by it is asked about.
    """
    found: dict[int, Wait] = {}
    for shard, survey in surveys.items():
        entry = ledger.shards.get(shard)
        if not survey.spans or entry is None or shard not in rates:
            continue
        age_s = until_s - max(entry.reached_s, survey.spans[0].hour * HOUR_S)
        if age_s >= budget.wait_max_s or rates[shard] * age_s / MB >= budget.mb_min:
            try:
                age_s = min(age_s, max(0, until_s - received_s(shard, survey.spans[0].begin)))
            except SlsError:
                continue
        waiting = rates[shard] * age_s / MB
        if waiting < budget.mb_min and age_s < budget.wait_max_s:
            found[shard] = Wait(
                Why.GATHERING,
                f"gathering: about {waiting:.1f} of {budget.mb_min:g} MB wait; lands within "
                f"{budget.wait_max_s - age_s:.0f} s at the latest",
            )
    return found


def rates_of(table: Table, ledger: Ledger) -> Mapping[int, float]:
    """Raw bytes a receive second, shard by shard, of what landed lately; none where too little is known.

    By receive hour of the windows, and not by when they landed: a run that catches up lands a day in a
    minute.
    """
    rates: dict[int, float] = {}
    for shard, hours in _landed_lately(table, ledger).items():
        entry = ledger.shards.get(shard)
        rate = rate_of(hours, entry.reached_s if entry else 0)
        if rate:
            rates[shard] = rate
    return rates


def rate_of(hours: Mapping[int, int], reached_s: int) -> float | None:
    """Bytes a second out of bytes by receive hour, up to the receive time reached; None: too little.

    Hours in which nothing came count as hours. `reached_s` 0: up to the end of the newest hour.

    Worked example: 36 MB came in hour 7, none in hour 8, 72 MB in hour 9, and 10:00 was reached: 108 MB in
    three hours are 10,000 bytes a second.
    """
    end_s = reached_s or (max(hours) + 1) * HOUR_S
    lately = {h: size for h, size in hours.items() if end_s - HOURS * HOUR_S <= h * HOUR_S < end_s}
    if not lately:
        return None
    covered_s = end_s - min(lately) * HOUR_S
    return sum(lately.values()) / covered_s if covered_s >= _LEAST_S else None


def weights_of(table: Table, ledger: Ledger) -> Mapping[int, int]:
    """What each shard weighs where shards are shared by weight: raw bytes a receive second, smoothed. A shard
    that is closed weighs nothing; one of which no whole hour is known is not among them."""
    sizes = _landed_lately(table, ledger)
    oldest = min((hour for hours in sizes.values() for hour in hours), default=None)
    weights: dict[int, int] = {}
    for shard, entry in ledger.shards.items():
        first = min(sizes.get(shard, ()), default=oldest)
        weight = 0 if entry.closed else weight_of(sizes.get(shard, {}), first, entry.reached_s)
        if weight is not None:
            weights[shard] = weight
    return weights


def weight_of(hours: Mapping[int, int], first: int | None, reached_s: int) -> int | None:
    """Bytes a second out of bytes by receive hour, each hour counting e^(-1/6) of the next one. `first` is
    the oldest hour of which anything is known, None where there is none. None: no whole hour is known.

    A mean that forgets: an hour out of the ordinary counts for little, and what a shard was yesterday does
    not count for ever. By whole hours: the last one is not over, and of the first one an expired snapshot may
    have taken a part. By receive time, and not by how long a run took: that says how fast it was read.

    Worked example: hours 4 to 6 brought 9, 36 and 72 MB, and 07:20 was reached. Hour 4 is the first, and hour
    7 is not over. 72 MB count once and 36 MB 0.846 times: 102.5 MB in 1.846 hours, 15,416 bytes a second.
    """
    end = reached_s // HOUR_S
    begin = end if first is None else max(first + 1, end - HOURS)
    parts = {hour: math.exp((hour + 1 - end) / WEIGHT_HOURS) for hour in range(begin, end)}
    if not parts:
        return None
    size = sum(hours.get(hour, 0) * part for hour, part in parts.items())
    return round(size / sum(parts.values()) / HOUR_S)


def _landed_lately(table: Table, ledger: Ledger) -> Mapping[int, Mapping[int, int]]:
    """Shard -> receive hour -> raw bytes, as the newest landings brought them."""
    found: dict[int, dict[int, int]] = {}
    for landed in windows_in(table, ledger.origin, _LANDINGS_MAX):
        hours = found.setdefault(landed.window.shard, {})
        hours[landed.window.hour] = hours.get(landed.window.hour, 0) + landed.raw_bytes
    return found
