"""Shards that wait until a landing of them is worth it: enough has come, or it has waited long enough. Pure.

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

from collections.abc import Mapping

from sls_io.claim import Ledger
from sls_io.pace import MB
from sls_io.planning import Survey
from sls_io.settings import Budget
from sls_io.waits import Wait, Why
from sls_io.window import HOUR_S


def gathering(
    surveys: Mapping[int, Survey],
    ledger: Ledger,
    budget: Budget,
    rates: Mapping[int, float],
    *,
    until_s: int,
) -> Mapping[int, Wait]:
    """The surveyed shards of which too little waits for too short a time; `rates` as raw bytes a receive
    second. A shard of which nothing is known, or nothing waits, is not among them."""
    found: dict[int, Wait] = {}
    for shard, survey in surveys.items():
        entry = ledger.shards.get(shard)
        if not survey.spans or entry is None or shard not in rates:
            continue
        age_s = until_s - max(entry.reached_s, survey.spans[0].hour * HOUR_S)
        waiting = rates[shard] * age_s / MB
        if waiting < budget.mb_min and age_s < budget.wait_max_s:
            found[shard] = Wait(
                Why.GATHERING,
                f"gathering: about {waiting:.1f} of {budget.mb_min:g} MB wait; lands within "
                f"{budget.wait_max_s - age_s:.0f} s at the latest",
            )
    return found
