"""What a run tells people: numbers per run and per receive hour, and why shards waited."""

from collections.abc import Mapping
from dataclasses import dataclass, field

STOPPED = {
    "bytes": "stopped at a page edge: the run's byte budget is used up",
    "time": "stopped at a page edge: the run's time is used up",
    "short": "stopped before a page that stayed broken after several pulls",
    "not reached": "more is left for the next run: the bytes or the time of this one are used up",
    "overtaken": "retention removed data of the window while it was read",
}
"""What it means that a window stopped before its planned end."""
_NAMED_MAX = 5


@dataclass(frozen=True)
class HourReport:
    """One receive hour of a landing; `raw_bytes` are uncompressed bytes of the service."""

    rows: int
    raw_bytes: int
    files: int
    file_bytes: int


@dataclass(frozen=True)
class LandingReport:
    """One landing. `snapshot_id` is None when nothing had to be published.

    hours        receive hour (since 1970) -> what landed of it
    waits        shard -> why it has no window in this landing
    gaps         "shard: [begin, end) cause" of gaps named by this landing
    lag_s        seconds between the service's now and the oldest receive time reached; None: unknown
    conflicts    tries that were not simply accepted
    """

    mode: str
    origin: str
    table: str
    snapshot_id: int | None
    rows: int
    raw_bytes: int
    files: int
    file_bytes: int
    error_rows: int
    pages: int
    seconds: float
    until_s: int
    windows: int = 0
    hours: Mapping[int, HourReport] = field(default_factory=dict)
    waits: Mapping[int, str] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    closed: tuple[int, ...] = ()
    lag_s: float | None = None
    conflicts: int = 0
    replans: int = 0
    first_start: bool = False
    peak_bytes: int = 0

    @property
    def came_to_nothing(self) -> str:
        """Why none of the logs that were there landed; "" when some did, or none were there."""
        why = [f"shard {s}: {text}" for s, text in sorted(self.waits.items()) if text in STOPPED.values()]
        if self.rows or not why:
            return ""
        more = f"; and {len(why) - _NAMED_MAX} more shards" if len(why) > _NAMED_MAX else ""
        return f"logs are there and none landed: {'; '.join(why[:_NAMED_MAX])}{more}"

    @property
    def raw_mb_per_s(self) -> float:
        """Raw megabytes a second of wall time, whole run."""
        return self.raw_bytes / 1e6 / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Verdict:
    """The answer to a check: empty `problems` means it holds. `facts` are lines worth showing."""

    problems: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing disagrees."""
        return not self.problems


@dataclass(frozen=True)
class CheckpointReport:
    """One shard's checkpoint after a run: `moved`, `unchanged`, or why it was put off."""

    shard: int
    cursor: int
    outcome: str


@dataclass(frozen=True)
class PlanReport:
    """What a live run would do now: windows as (shard, hour, begin, end), and reasons."""

    origin: str
    table: str
    first_start: bool
    until_s: int
    windows: tuple[tuple[int, int, int, int], ...] = ()
    closings: Mapping[int, int] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    waits: Mapping[int, str] = field(default_factory=dict)
