"""Beside the landings: audits what must hold at every moment, and does what others do to a table.

    audit     no checkpoint of any group is ahead of the table; no frontier and no closing goes back;
              the table has exactly the rows its ledger says; no gap goes beyond what retention removed
    history   the files of every landing are written down and linked, before anything takes them away
    expiry    the oldest snapshots go, as any engine's maintenance does it
    property  a table property changes, so that the next commit meets another metadata version
    delivery  requests of the spool arrive, late or a second time, their senders dead or alive

Tells `audit`, `breach TEXT`, `expired N`, `delivered` and `turned-away`, one a line; `blind` when the
service was away and nothing could be audited.
"""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from chaos import history
from chaos.troubles.catalog import deliver
from pipelines.landing.ledger.state import facts
from pipelines.landing.ledger.summary import total_records
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.emulator.handle import Admin
from sls_io.values.claim import ShardLedger
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ServiceError

_ROUND_S = 0.25
_SNAPSHOTS_MAX, _SNAPSHOTS_KEPT = 100, 50
_VERSIONS_KEPT = 100
_LAST = "01"
"""Spooled requests whose name begins so arrive only when everything is over."""


@dataclass(frozen=True)
class Watching:
    """What a watch looks at, and the folder it writes its history into."""

    logstore: Logstore
    lake: Lake
    folder: Path
    spool: Path
    port: int
    seed: int


def watch(task: Watching, fd: int) -> None:
    """Look, round by round, until killed."""
    admin, dice = Admin(task.port), random.Random(task.seed)
    before: dict[int, ShardLedger] = {}
    seen: set[int] = set()
    while True:
        SYSTEM_CLOCK.sleep(_ROUND_S)
        # Checkpoints first: what the table says afterwards can only be further.
        try:
            checkpoints = _checkpoints(admin, task.logstore)
        except (OSError, HTTPException, ServiceError):
            _tell(fd, "blind")
            checkpoints = {}
        table = task.lake.load(task.logstore.table)
        if table is None:
            continue
        history.write(task.folder / history.HISTORY, list(history.landed_files(table, seen, task.folder)))
        now, problems = audit(table, before, checkpoints, history.cut_before(task.folder))
        before |= now
        for problem in problems:
            _tell(fd, f"breach {problem}")
        _tell(fd, "audit")
        for request in waiting(task.spool):
            if request.name[0] not in _LAST and dice.random() < 0.5:
                arrive(task.lake, request, fd)
        if dice.random() < 0.1:
            _change_property(table, dice)
        if len(table.metadata.snapshots) > _SNAPSHOTS_MAX:
            _expire(task, fd)


def waiting(spool: Path) -> list[Path]:
    """The requests that are on their way."""
    return sorted(spool.glob("*.json"))


def arrive(lake: Lake, request: Path, fd: int) -> None:
    """One request of the spool arrives."""
    catalog = lake.catalog()
    if isinstance(catalog, SqlCatalog):
        _tell(fd, "delivered" if deliver(catalog, request) else "turned-away")


def audit(
    table: Table,
    before: Mapping[int, ShardLedger],
    checkpoints: Mapping[tuple[str, int], int],
    cuts: Mapping[int, int],
) -> tuple[dict[int, ShardLedger], list[str]]:
    """The table's shards now, and what is wrong with them; `before` is what an earlier look saw, `cuts`
    the cursors before which retention removed everything."""
    state = facts(table)
    now = {s: entry for ledger in state.ledgers.values() for s, entry in ledger.shards.items()}
    problems = [
        f"checkpoint of shard {shard} in group {group} is {at}, the table's frontier "
        f"{now[shard].frontier if shard in now else 'unknown'}"
        for (group, shard), at in checkpoints.items()
        if shard not in now or at > now[shard].frontier
    ]
    for shard, entry in before.items():
        if (
            shard not in now
            or now[shard].frontier < entry.frontier
            or (entry.closed and not now[shard].closed)
        ):
            problems.append(f"shard {shard} went back from {entry.frontier}")
    for shard, entry in now.items():
        beyond = [gap for gap in entry.gaps if gap.end > cuts.get(shard, 0)]
        if beyond:
            problems.append(f"shard {shard} has gaps that no retention made: {beyond}")
    counted, known = total_records(table.current_snapshot()) or 0, sum(e.rows for e in now.values())
    if counted != known:
        problems.append(f"the table has {counted} rows, its ledger says {known}")
    return now, problems


def _checkpoints(admin: Admin, logstore: Logstore) -> dict[tuple[str, int], int]:
    found = {}
    for entry in admin.state()["logstores"]:
        if entry["logstore"] == logstore.service.logstore:
            for group in entry["groups"]:
                for slot in group["shards"]:
                    if slot["checkpoint"] is not None:
                        found[group["name"], int(slot["shard"])] = int(slot["checkpoint"])
    return found


def _expire(task: Watching, fd: int) -> None:
    """Forget all but the newest snapshots, and remove metadata versions that nobody reads any more."""
    table = task.lake.load(task.logstore.table)
    if table is None:
        return
    snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0)
    ids = [s.snapshot_id for s in snapshots[:-_SNAPSHOTS_KEPT]]
    try:
        table.maintenance.expire_snapshots().by_ids(ids).commit()
    except (CommitFailedException, ValueError):
        return  # somebody else was first, and first again
    _tell(fd, f"expired {len(ids)}")
    newest = int(Path(table.metadata_location).name.partition("-")[0])
    for path in Path(table.metadata_location.removeprefix("file://")).parent.glob("*.metadata.json"):
        if int(path.name.partition("-")[0]) < newest - _VERSIONS_KEPT:
            path.unlink(missing_ok=True)


def _change_property(table: Table, dice: random.Random) -> None:
    try:
        with table.transaction() as transaction:
            # The versions kept by the product's default are a few seconds' worth at this rate of commits.
            transaction.set_properties(
                {"chaos.touched": str(dice.random()), "write.metadata.previous-versions-max": "100"}
            )
    except CommitFailedException:
        return


def _tell(fd: int, line: str) -> None:
    os.write(fd, line.replace("\n", " ").encode() + b"\n")
