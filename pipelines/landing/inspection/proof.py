"""What a proof says: of each shard, of the table, and in one word.

    verified      what landed is there, once. What did not land has a name, and no run will land it: a gap
                  that retention took, hours withdrawn, rows removed or given up by decision
    owed          the same, and logs were skipped that the service still has: somebody has to land them, or
                  retention takes them
    not verified  something is wrong, or could not be proven

The command line ends with another code for each, Dagster's check and the JSON say the same word.
"""

from dataclasses import dataclass
from typing import Literal

from pipelines.landing.inspection.whole import NO_FILES, WholeFiles
from sls_io.values.cures import Cure
from sls_io.values.window import Cursor

Verdict = Literal["verified", "owed", "not verified"]
VERIFIED: Verdict = "verified"
OWED: Verdict = "owed"
NOT_VERIFIED: Verdict = "not verified"


@dataclass(frozen=True)
class ShardProof:
    """One shard: what the ledger says, what the table holds, and what is wrong with it.

    windows         how many windows of kept snapshots were counted one by one
    windows_left    how many were not, since rows of their hours were removed by decision
    rows_pulled     rows that the service told again and that were compared, None when it was not asked
    windows_pulled  how many windows were compared with the service
    hours_short     receive hours (since 1970) of which rows are missing, where that is known
    hours_over      receive hours of which rows are there that no landing brought, where that is known
    others          there are as many rows as the ledger says, and not the same: some are missing and as
                    many are there that it does not know
    strange         rows are there that nothing explains, or that are there more than once
    owed            what was skipped and can still be landed, with the command that lands it
    rows_missing    rows that are missing and were given up, at least
    """

    shard: int
    rows_ledger: int
    rows_table: int
    frontier: Cursor
    end: Cursor | None
    closed: bool
    gaps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rows_adopted: int = 0
    withdrawn: tuple[str, ...] = ()
    rows_forgotten: int = 0
    windows: int = 0
    rows_pulled: int | None = None
    windows_left: int = 0
    windows_pulled: int = 0
    hours_short: tuple[int, ...] = ()
    others: bool = False
    hours_over: tuple[int, ...] = ()
    strange: bool = False
    owed: tuple[str, ...] = ()
    rows_missing: int = 0


@dataclass(frozen=True)
class Proof:
    """The verdict over one logstore in one table.

    since_ms  time of the oldest snapshot still kept (milliseconds): windows that landed before it are
              proven by the sums of their shard, not one by one
    landing   snapshot of the newest landing, which the rows are held against
    cures     what makes the rows those of the ledger again and brings files back, the way that keeps most
              first; none where none is needed
    notes     of the whole table: what is no problem, and rows of other origins, proven or not
    begun     the table knows this logstore: else there is nothing to prove of it yet
    whole     of how many files every column of every row was read, and of how many only what tells which
              rows there are
    uuid      which table it is of, whatever its name: one that was begun anew has another; "" where there
              was none, or nobody could open it
    """

    table: str
    origin: str
    shards: tuple[ShardProof, ...] = ()
    problems: tuple[str, ...] = ()
    since_ms: int | None = None
    landing: int | None = None
    notes: tuple[str, ...] = ()
    cures: tuple[Cure, ...] = ()
    begun: bool = True
    whole: WholeFiles = NO_FILES
    uuid: str = ""

    @property
    def verdict(self) -> Verdict:
        """The proof in one word."""
        if self.problems or any(s.problems for s in self.shards):
            return NOT_VERIFIED
        return OWED if any(s.owed for s in self.shards) else VERIFIED

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong and nothing is owed."""
        return self.verdict == VERIFIED

    @property
    def absent(self) -> tuple[str, ...]:
        """What is not in the table, or not from a landing, and has a name: how much of each kind."""
        counts = (
            (sum(len(s.gaps) for s in self.shards), "gaps"),
            (sum(len(s.withdrawn) for s in self.shards), "withdrawn intervals"),
            (sum(s.rows_forgotten for s in self.shards), "rows removed by decision"),
            (sum(s.rows_missing for s in self.shards), "rows given up"),
            (sum(s.rows_adopted for s in self.shards), "rows adopted"),
        )
        return tuple(f"{count:,} {what}" for count, what in counts if count)

    @property
    def rows(self) -> int:
        """Rows of this origin in the table."""
        return sum(s.rows_table for s in self.shards)

    @property
    def short(self) -> bool:
        """Whether rows are missing."""
        return any(
            s.rows_table < s.rows_ledger + s.rows_adopted or s.hours_short or s.others for s in self.shards
        )

    @property
    def strange(self) -> bool:
        """Whether rows are there that should not be."""
        return any(s.strange or s.hours_over or s.others for s in self.shards)
