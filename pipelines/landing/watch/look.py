"""One look at a logstore: its table, its ledger, its listed shards; and what follows without another call.

`passed_s` is why most looks are cheap. All that was received before it has landed, so nothing older waits:
lag is at most its age, and the runway at least what is left of the retention then. Only where that is not
enough are shards asked one by one.
"""

from dataclasses import dataclass

from pyiceberg.table import Table

from pipelines.landing.ledger.pinned import own, unread
from pipelines.landing.ledger.start import table_and_ledger
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.planning.gone import passed_over
from sls_io.values.claim import Ledger
from sls_io.values.shard import Shard
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class Look:
    """What table and service say now. `now_s` is the service's time, unix seconds; `table` is None before
    the first landing; `paused` are shards that a person paused."""

    logstore: Logstore
    table: Table | None
    ledger: Ledger
    shards: tuple[Shard, ...]
    now_s: float
    paused: frozenset[int] = frozenset()

    @property
    def passed_s(self) -> int | None:
        """Receive time, unix seconds, up to which every shard is landed; None before the first landing.

        A listed shard that the table does not know holds nothing from before it was made.
        """
        return min(self.passed_by.values(), default=None) if self.ledger.started else None

    @property
    def unread(self) -> frozenset[int]:
        """Shards that the settings do not name, and that nobody reads; see `pinned.py`."""
        return unread(self.logstore, self.shards, self.ledger)

    @property
    def own(self) -> frozenset[int]:
        """The shards that this deployment answers for; see `pinned.py`."""
        return own(self.logstore, self.shards, self.ledger)

    @property
    def own_by(self) -> dict[int, int]:
        """`passed_by` of the `own` ones."""
        mine = self.own
        return {shard: at for shard, at in self.passed_by.items() if shard in mine}

    @property
    def passed_by(self) -> dict[int, int]:
        """The same shard by shard, of those that may still bring something; of all where none may, as
        between a split and the first look at its children.

        One of which neither list nor ledger says anything may still bring something, until a run has asked
        for it. It is younger than any with a lower id. Worked example: 1 was made at 08:00 and 3 at 10:30,
        and the list lacks 2: it holds nothing from before 08:00.
        """
        new = {s.id: s.created_s for s in self.shards if s.id not in self.ledger.shards}
        for hidden in passed_over(self.shards, self.ledger):
            new[hidden] = max((s.created_s for s in self.shards if s.id < hidden), default=0)
        still = {s: e.reached_s for s, e in self.ledger.shards.items() if not e.closed}
        return {**still, **new} or {s: e.reached_s for s, e in self.ledger.shards.items()}


def look(logstore: Logstore, lake: Lake, client: SlsClient) -> Look:
    """Two calls and the table's newest snapshot. Raises LedgerBroken when the table cannot be trusted, and
    what the service's calls raise.

    The table first, and then the shards. Story: B lists 0 and 1. Then 0 is split, logs come to its children,
    and a run closes 0 and reads 1 into the next hour. In that ledger nothing of the old hour is open, and B's
    list has no child: the hour is told as complete, and their logs of it land later. Listed behind the
    ledger, each shard that it has closed shows its children.
    """
    # That the catalog was put back to an older state is found by a run, and by the finding `reconciled`: it
    # takes a list of a folder, which is what an object store charges most for, and this is asked each minute.
    table, ledger, paused = table_and_ledger(lake, logstore, client, newest=False)
    return Look(logstore, table, ledger, tuple(client.shards()), client.now_s(), paused)
