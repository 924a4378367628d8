"""Retention as a process: removes what has landed, and now and then a little of what has not.

What it removes it writes into the archive first, as the service's own dump has it, so that the truth
stays whole. What it removes without a landing must end as a named gap: at most `PAST_GROUPS_MAX` groups
of one shard at a time. Tells `cut SHARD LANDED PAST` (LogGroups), `dropped SHARD`, and `cut-failed` when
the service was away.
"""

import os
import random
from collections import defaultdict
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from chaos import history
from pipelines.landing.ledger.state import facts
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator.handle import Admin
from sls_io.values.claim import ShardLedger
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import SlsError

PAST_GROUPS_MAX = 6
_CUT, _PAST, _DROP = 0.7, 0.15, 0.1
"""Chances, of each shard: cut at all; cut past the frontier; removed as a whole once it is closed."""


@dataclass(frozen=True)
class Retaining:
    """What it removes from, where it writes, and how often on average."""

    logstore: Logstore
    lake: Lake
    folder: Path
    port: int
    seed: int
    every_s: float


def retain(task: Retaining, fd: int) -> None:
    """Remove until killed."""
    admin, dice = Admin(task.port), random.Random(task.seed)
    while True:
        SYSTEM_CLOCK.sleep(task.every_s * dice.uniform(0.3, 1.7))
        try:
            _round(task, admin, dice, fd)
        except (OSError, HTTPException, SlsError):
            _tell(fd, "cut-failed")


def _round(task: Retaining, admin: Admin, dice: random.Random, fd: int) -> None:
    table = task.lake.load(task.logstore.table)
    if table is None:
        return
    # The ledger first: whatever lands in between only makes less of a cut go past the frontier.
    entries = {s: e for ledger in facts(table).ledgers.values() for s, e in ledger.shards.items()}
    place = task.logstore.service.project, task.logstore.service.logstore
    groups: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in admin.dump(*place):
        groups[int(line["shard"])].append(line)
    past_left = 1
    for shard, lines in sorted(groups.items()):
        entry = entries.get(shard)
        if entry is None or dice.random() > _CUT:
            continue
        kept = [line for line in lines if int(line["cursor"]) >= entry.frontier]
        count = len(lines) - len(kept)
        landed = count if entry.closed else dice.randint(0, count)
        past = 0
        if kept and past_left and dice.random() < _PAST:
            landed, past = count, dice.randint(1, min(len(kept), PAST_GROUPS_MAX))
            past_left -= 1
        leaving = lines[: landed + past]
        if leaving:
            before = int(leaving[-1]["cursor"]) + 1
            history.write(task.folder / history.ARCHIVE, leaving)
            history.write(task.folder / history.CUTS, [{"shard": shard, "before": before}])
            _tell(fd, f"cut {shard} {landed} {past}")
            admin.retain(*place, shard=shard, before_cursor=before)
    _drop_empty(task, admin, dice, entries, fd)


def _drop_empty(
    task: Retaining, admin: Admin, dice: random.Random, entries: dict[int, ShardLedger], fd: int
) -> None:
    """Closed shards of which nothing is left go away as a whole."""
    place = task.logstore.service.project, task.logstore.service.logstore
    listed = next(x for x in admin.state()["logstores"] if (x["project"], x["logstore"]) == place)["shards"]
    for shard in listed:
        number = int(shard["shardID"])
        entry = entries.get(number)
        if entry is None or not entry.closed or shard["groups"] or shard["status"] == "readwrite":
            continue
        if dice.random() < _DROP:
            history.write(task.folder / history.SHARDS, [shard])
            _tell(fd, f"dropped {number}")
            admin.retain(*place, shard=number, drop=True)


def _tell(fd: int, line: str) -> None:
    os.write(fd, line.encode() + b"\n")
