"""A plan on the way: what has been found of one shard after the other, and how long a suspicion must last."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sls_io.planning.values import Again, LedgerChange, Suspicion
from sls_io.planning.waits import Wait, Why
from sls_io.values.claim import ShardLedger
from sls_io.values.window import Window


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a suspicion has to last before it is believed.

    now_s     service time of the look, unix seconds
    outage_s  it must be as old as this
    known     shard -> suspicion that this run found when it first read the ledger: one that it made
              itself proves nothing, however long the run takes
    """

    now_s: int = 0
    outage_s: float = 0.0
    known: Mapping[int, int] = field(default_factory=dict)

    def over(self, shard: int, since_s: int) -> bool:
        """Whether a suspicion that began then has lasted long enough to be believed.

        Worked example: with a timeout of 60 s a run suspects a shard at 1,000. However long that run takes,
        `known` has no 1,000, so it believes nothing. A run at 1,090 reads 1,000 in the ledger: 90 s are
        enough. One at 1,040 is too early.
        """
        return 0 < since_s == self.known.get(shard) and self.now_s - since_s >= self.outage_s


@dataclass(slots=True)
class Draft:
    """A plan on the way: what is found of one shard after the other. The windows are those of each shard."""

    patience: Patience
    name_gaps: bool = True
    change: LedgerChange = field(default_factory=LedgerChange)
    windows: dict[int, list[Window]] = field(default_factory=dict)
    waits: dict[int, Wait] = field(default_factory=dict)
    suspects: dict[int, str] = field(default_factory=dict)
    readable: dict[int, tuple[Again, ...]] = field(default_factory=dict)

    def suspect(self, shard: int, why: str) -> None:
        """Report the shard as suspect. That closes nothing and names no gap."""
        self.suspects[shard] = why
        self.waits[shard] = Wait(Why.SUSPECT, f"suspect: {why}")

    def stop_at_loss(self, shard: int, why: str) -> None:
        """Retention took logs, and the settings leave it to a person what becomes of the shard."""
        self.suspects[shard] = why
        self.waits[shard] = Wait(Why.LOST, why)

    def remember(self, shard: int, entry: ShardLedger, since_s: int) -> None:
        """What the ledger is to suspect of the shard from now on: since when; 0: nothing."""
        if since_s != entry.suspect_s:
            self.change.suspicions[shard] = Suspicion(entry.frontier, entry.suspect_s, since_s)
