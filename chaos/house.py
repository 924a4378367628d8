"""The housekeeper: one forked process that maintains the table and takes hours back, until it is killed.

`sls-lake table maintain` and `sls-lake table undo` as they are, beside landings, behind the catalog that
loses answers. Besides what a worker tells:

    maintain                 a maintenance begins; the product's own events follow (`refresh.built`)
    maintained C E S M       hours compacted, snapshots expired, files swept, metadata versions deleted
    undo INTERVALS           an undo is about to be sent; SHARD:BEGIN-END of what it withdraws, by comma
    undone ROWS              it was accepted

Files older than `aged_s` are made to look days old first: what is that old belongs to no run that still
lives, and the product's own floor for the sweep, a day, stays as it is.
"""

import os
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.engine import InProcess
from chaos.worker import Pipe, Task, armed
from pipelines.landing.commit.planned import execute
from pipelines.landing.contents.spread import Spread
from pipelines.landing.ledger.state import facts
from pipelines.landing.maintenance.compact import sealed_before
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations import undo
from pipelines.landing.table.lake import SWEEP_FLOOR_S, Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, DecodeError, InvariantBroken, LedgerBroken, SlsError
from sls_io.wire.client import SlsClient

POINTS = (
    "maintain", "compact.built", "manifests.built", "expire.built", "refresh.built", "maintained", "undo",
    "undone", "commit",
)  # fmt: skip
"""Where a housekeeper may be killed or stop itself."""
_TARGET_BYTES = 4 * 1024 * 1024
_MANIFESTS_MAX, _SNAPSHOTS_MAX = 30, 70
_HOURS_BACK = 4
_LOOKS_MAX, _LOOK_AGAIN_S = 40, 0.1


@dataclass(frozen=True)
class Keeping:
    """`task` says where; `undo` is the share of rounds that take an hour back."""

    task: Task
    aged_s: float
    every_s: float
    undo: float


def keep_house(keeping: Keeping, fd: int) -> None:
    """Round by round."""
    task = keeping.task
    tell, dice = Pipe(fd, task.fate), random.Random(task.seed)
    lake = armed(task, tell)
    tell("ready")
    while True:
        SYSTEM_CLOCK.sleep(keeping.every_s * dice.uniform(0.3, 1.7))
        try:
            if dice.random() < keeping.undo:
                _undo(task, lake, dice, tell)
            else:
                _maintain(task, lake, keeping.aged_s, tell)
        except ConfigError:
            tell("nothing-to-keep")  # nothing has landed yet, the hour is empty, a frontier is not there
            traceback.print_exc(limit=0)
        except (InvariantBroken, LedgerBroken, DecodeError):
            raise  # no fault explains these
        except SlsError as error:
            tell(f"failed {type(error).__name__}")
            traceback.print_exc()


def _maintain(task: Task, lake: Lake, aged_s: float, tell: Callable[[str], None]) -> None:
    table = lake.load(task.logstore.table)
    if table is None:
        return
    _age(Path(table.location().removeprefix("file://")), aged_s)
    tell("maintain")
    maintainer = Maintainer(
        task.logstore,
        lake,
        target_bytes=_TARGET_BYTES,
        manifests_max=_MANIFESTS_MAX,
        snapshots_max=_SNAPSHOTS_MAX,
        on_event=tell,
    )
    with Spread(InProcess()).kept():
        done = maintainer.execute()
    tell(f"maintained {len(done.compacted)} {len(done.expired)} {len(done.swept)} {len(done.metadata)}")


def _age(folder: Path, aged_s: float) -> None:
    """Turn the times of old files back behind the floor of the sweep."""
    now_s = SYSTEM_CLOCK.now()
    for path in folder.rglob("*"):
        try:
            age_s = now_s - path.stat().st_mtime
            if path.is_file() and aged_s < age_s < SWEEP_FLOOR_S:
                os.utime(path, (now_s - 3 * SWEEP_FLOOR_S, now_s - 3 * SWEEP_FLOOR_S))
        except FileNotFoundError:
            continue  # somebody swept it


def _undo(task: Task, lake: Lake, dice: random.Random, tell: Callable[[str], None]) -> None:
    """Take back one of the last sealed hours. While a shard that was just split has not landed no hour is
    sealed, and none can be taken back, so it looks a few times."""
    for left in reversed(range(_LOOKS_MAX)):
        try:
            planned = _planned(task, lake, dice)
            break
        except ConfigError:
            if not left:
                raise
            traceback.print_exc(limit=0)
            SYSTEM_CLOCK.sleep(_LOOK_AGAIN_S)
    # All of it, withdrawn before or not: the ledger counts only as far as somebody sent this.
    tell("undo " + ",".join(f"{s}:{b}-{e}" for s, xs in planned.taken.items() for b, e in xs.pairs))
    execute(lake, planned)
    tell(f"undone {planned.view.rows}")


def _planned(task: Task, lake: Lake, dice: random.Random) -> undo.PlannedUndo:
    table = lake.load(task.logstore.table)
    head = table.current_snapshot() if table is not None else None
    if table is None or head is None:
        raise ConfigError("nothing has landed yet")
    sealed = min((sealed_before(ledger) for ledger in facts(table).ledgers.values()), default=0)
    entries = (e for m in head.manifests(table.io) for e in m.fetch_manifest_entry(table.io))
    # The second partition field is the receive hour.
    hours = sorted(hour for hour in {int(e.data_file.partition[1]) for e in entries} if hour < sealed)
    if not hours:
        raise ConfigError("no hour is sealed yet")
    hour = dice.choice(hours[-_HOURS_BACK:])
    with SlsClient(task.logstore.service) as client:
        return undo.plan_undo(lake, task.logstore, client, range(hour, hour + 1))
