"""What a run tells people: numbers per run and per receive hour, and why shards waited."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from pipelines.landing.commit.effect import Note
from pipelines.landing.hours import hour_text
from pipelines.landing.table import commands
from sls_io.planning.values import Again, Plan
from sls_io.planning.waits import Wait
from sls_io.values.claim import Gap
from sls_io.values.errors import some_of

STOPPED = {
    "bytes": "stopped at a page edge: the run's byte budget is used up",
    "time": "stopped at a page edge: the run's time is used up",
    "quota": "stopped at a page edge: bound by the shard's read quota, the run's time is used up",
    "throttled": "stopped at a page edge: throttled by the service until the run's time was used up",
    "failed": "stopped at a page edge: the service failed or could not be reached",
    "unproved": "not landed: whether retention took data meanwhile could not be asked",
    "short": "stopped before a page that contradicts its headers with each pull: trouble on the way, "
    "no content of a log. Nothing is skipped, the next run asks again; if it stays, use another endpoint "
    "of the region, and give the service's support the shard and its frontier",
    "not reached": "more is left for the next run: the bytes or the time of this one are used up",
    "transform": "not landed: the transform of the settings refused its rows, or failed",
    "overtaken": "retention removed data of the window while it was read",
}
"""What it means that a window stopped before its planned end."""
TROUBLE = frozenset({"failed", "unproved", "short", "transform"})
"""Kinds that are a failure of the service, the connection or the transform: what landed stands, and the run
is red."""
SPENT = frozenset({"time", "quota", "not reached"})
"""Kinds where the run's own time ended: nothing else kept it from landing."""
FIRST_RUN = "{table}: nothing has landed yet; the first run makes the table and fixes where each shard starts"


def stop_text(kind: str, cause: str = "") -> str:
    """Why a window stopped, in words, with what the page or the service said."""
    text = STOPPED.get(kind, kind)
    return f"{text} ({cause})" if cause else text


@dataclass(frozen=True)
class HourReport:
    """One receive hour of a landing; `raw_bytes` are uncompressed bytes of the service."""

    rows: int
    raw_bytes: int
    files: int
    file_bytes: int

    def plus(self, other: "HourReport") -> "HourReport":
        """Both together."""
        return HourReport(
            self.rows + other.rows,
            self.raw_bytes + other.raw_bytes,
            self.files + other.files,
            self.file_bytes + other.file_bytes,
        )


@dataclass(frozen=True)
class LandingReport:
    """One landing. `snapshot_id` is None when nothing had to be published.

    hours        receive hour (since 1970) -> what landed of it
    waits        shard -> why it has no window in this landing
    stopped      shard -> kind (a key of STOPPED) of the first window that ended before its planned end
    gaps         "shard: [begin, end) cause" of gaps named by this landing
    suspects     "shard: why" of shards that the service contradicts itself about, or says once that they
                 are gone: nothing of them was given up. While there are any, all is not well
    readable     "shard: gap, how to land it" of gaps that the service can read again, and of logs from before
                 a start that it told; shards that begin anew
    lag_s        of a live run: at most how long the oldest log waits that it left; None: unknown
    conflicts    tries that were not simply accepted
    barred_rows  rows of the windows that are not in the table, since a person said that such may not land
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
    waits: Mapping[int, Wait] = field(default_factory=dict)
    stopped: Mapping[int, str] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    closed: tuple[int, ...] = ()
    lag_s: float | None = None
    conflicts: int = 0
    replans: int = 0
    peak_bytes: int = 0
    barred_rows: int = 0

    @property
    def came_to_nothing(self) -> str:
        """Why none of the logs that were there landed; "" when some did, or none were there.

        Not where nothing was there: a run without logs is a good one.
        """
        if self.rows or not self.stopped:
            return ""
        cure = (
            ". Nothing is lost, the next run goes on where this one began; if that stays so, raise "
            "`budget.seconds_max`, or give runs more cores"
        )
        return f"logs are there and none landed: {self._named(self.stopped)}{cure * self.spent}"

    @property
    def spent(self) -> bool:
        """Whether the run's time was over before any window landed, and no shard waits for somebody else:
        the next run will do no better.

        Another run with the same time would end in the same place, so this one is red; where one shard landed
        something, the next goes on behind it.

        Worked example: shard 0 stopped by `time` before its first window was done: spent. The same, and shard
        1 `throttled`: not spent, since the service may let more through next time. The same, and 3 windows of
        other shards landed: not spent, the frontier moves.
        """
        return bool(self.stopped) and not self.windows and SPENT.issuperset(self.stopped.values())

    @property
    def undone(self) -> bool:
        """Whether the run did not do its work, however well what landed adds up.

        Worked example: a window landed with 5 rows, and of shard 0 the service `failed`: undone, though
        nothing that landed is in doubt. A run that stopped since its bytes were used up, with rows, did its
        work.
        """
        return bool(self.trouble or self.suspects) or self.spent

    @property
    def moved(self) -> bool:
        """Whether the frontier of any shard is another one than before the run."""
        return bool(self.windows or self.gaps or self.closed)

    @property
    def trouble(self) -> str:
        """Which shards stopped before their end because the service failed; "" when none did."""
        return self._named({s: kind for s, kind in self.stopped.items() if kind in TROUBLE})

    def _named(self, shards: Mapping[int, str]) -> str:
        why = (f"shard {s}: {self.waits.get(s, stop_text(k))}" for s, k in sorted(shards.items()))
        return some_of(why, between="; ")

    @property
    def raw_mb_per_s(self) -> float:
        """Raw megabytes a second of wall time, whole run."""
        return self.raw_bytes / 1e6 / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Verdict:
    """The answer to a check: empty `problems` means it holds."""

    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing disagrees."""
        return not self.problems


class CheckpointOutcome(StrEnum):
    """What became of a shard's checkpoint."""

    GONE = "gone"
    """The service knows the shard no more."""
    MOVED = "moved"
    UNCHANGED = "unchanged"
    AHEAD = "ahead"
    """Of the table, and it stays: the ledger decides where landings begin."""
    NOT_HELD = "not held"
    """Somebody else holds the shard and publishes it."""
    PUT_OFF = "put off"
    """It could not be sent; `why` says what kept it. The landing stands, the next run sends it."""


@dataclass(frozen=True)
class CheckpointReport:
    """One shard's checkpoint after a run, and what it could not move for."""

    shard: int
    cursor: int
    outcome: CheckpointOutcome
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.why}" if self.why else self.outcome.value


@dataclass(frozen=True)
class Backlog:
    """What waits in a shard, about, for people: nothing decides by it. The service says no size of what was
    not read, and cursors are no amounts, so it is estimated from what landed before and from the lag.

    raw_bytes   that wait
    hour_bytes  raw bytes a receive hour, as landed lately
    mb_per_s    the shard's read quota, as set
    reading_s   seconds it takes to read what waits at that quota
    """

    raw_bytes: int
    hour_bytes: float
    mb_per_s: float
    reading_s: float

    @staticmethod
    def of(rate: float | None, lag_s: float | None, mb_per_s: float) -> "Backlog | None":
        """Of a shard that is `lag_s` receive seconds behind, to which `rate` raw bytes come a second; None
        where nothing waits or is known."""
        if rate is None or not lag_s:
            return None
        return Backlog(int(rate * lag_s), rate * 3600, mb_per_s, rate * lag_s / (mb_per_s * 1e6))

    @property
    def hopeless(self) -> bool:
        """Whether more comes than the quota lets out: no schedule catches up.

        Worked example: 40 GB an hour come, and the quota is 10 MB a second, 36 GB an hour.
        """
        return self.hour_bytes >= self.mb_per_s * 1e6 * 3600


@dataclass(frozen=True)
class PlanReport:
    """What a live run would do now: windows as (shard, hour, begin, end), and reasons.

    unknown  that the table holds rows of others and does not know this logstore, and what to do; "" else
    """

    origin: str
    table: str
    first_start: bool
    until_s: int
    windows: tuple[tuple[int, int, int, int], ...] = ()
    closings: Mapping[int, int] = field(default_factory=dict)
    gaps: tuple[str, ...] = ()
    waits: Mapping[int, Wait] = field(default_factory=dict)
    backlog: Mapping[int, Backlog] = field(default_factory=dict)
    suspects: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    unknown: str = ""


def gap_lines(gaps: Mapping[int, Sequence[Gap]]) -> tuple[str, ...]:
    """Gaps by shard, one line each."""
    return tuple(
        f"shard {shard}: [{g.begin}, {g.end}) {g.cause}" for shard in sorted(gaps) for g in gaps[shard]
    )


def suspect_lines(plan: Plan) -> tuple[str, ...]:
    """The shards that a plan leaves alone because one answer proves nothing, one line each."""
    return tuple(f"shard {shard}: {why}" for shard, why in sorted(plan.suspects.items()))


def readable_lines(plan: Plan, lowered: bool | None, logstore: str) -> tuple[str, ...]:
    """One line for each gap that can be read after all, and for logs before a start that the service told,
    with the command that lands them; and one for each shard that begins anew. `lowered`: whether the settings
    name an earlier time than when the history began; None where nobody knows.

    What is owed, what was a gap and what lies before a start are one list, since one command lands each.
    """
    parts = [
        (shard, said_readable(part, lowered, logstore))
        for shard, found in plan.readable.items()
        for part in found
    ]
    parts += [(shard, _said_anew(*starts, lowered)) for shard, starts in plan.change.anew.items()]
    return tuple(f"shard {shard}: {said}" for shard, said in sorted(parts))


def said_readable(part: Again, lowered: bool | None, logstore: str) -> str:
    """A part of a gap that can be read after all, or logs from before a start, with the command that lands
    them; `lowered` as in `readable_lines`.

    A gap that the service shows again is not landed by itself: a live run goes on from its frontier, which is
    behind it.
    """
    first, last = hour_text(part.hours.start), hour_text(part.hours.stop - 1)
    what = "is a gap and the service can read it again"
    if part.owed:
        what = "was skipped and is owed"
    if part.early:
        what = (
            "lies before where this shard begins in the table, and the service has logs there that the "
            f"settings include: {_EARLIER[lowered]}"
        )
    call = commands.shown(commands.BACKFILL.plus("--from", first, "--to", last), logstore)
    return f"[{part.begin}, {part.end}) {what}: `{call}` lands it"


def _said_anew(seen: int, start: int, lowered: bool | None) -> str:
    return (
        f"begins at {start} and no longer at {seen}: {_EARLIER[lowered]}. Nothing had landed from there, so "
        "no log is lost or twice, and live runs go on from the new start"
    )


_EARLIER = {
    True: "`start` or `reset` names an earlier time than when the history began",
    False: "the service told a wrong begin then",
    None: "the service told a wrong begin then, or `start` was lowered since",
}
"""Why a history begins earlier than the ledger says."""


def notes_of(report: LandingReport | PlanReport) -> Iterator[Note]:
    """What a landing, or what one would be, tells of single shards."""
    yield from (Note(f"gap, {text}") for text in report.gaps)
    yield from (Note(f"suspect: {text}", "loss") for text in report.suspects)
    yield from (Note(f"gap: {text}", "warn") for text in report.readable)
    yield from notes_of_waits(report.waits)


def notes_of_waits(waits: Mapping[int, Wait]) -> Iterator[Note]:
    """Why shards wait: a line for all that wait for the same."""
    alike: dict[str, list[int]] = {}
    for shard, why in sorted(waits.items()):
        alike.setdefault(str(why), []).append(shard)
    for text, shards in alike.items():
        who = f"shard {shards[0]} waits" if len(shards) == 1 else f"shards {_rows(shards)} wait"
        yield Note(f"{who}: {text}")


def _rows(shards: Sequence[int]) -> str:
    """`0 to 3, 7` for 0, 1, 2, 3 and 7: of neighbours in the order, number less place stays the same."""
    said: list[str] = []
    for _, numbered in groupby(enumerate(shards), key=lambda each: each[1] - each[0]):
        row = [shard for _, shard in numbered]
        said += [f"{row[0]} to {row[-1]}"] if len(row) > 2 else map(str, row)
    return ", ".join(said)
