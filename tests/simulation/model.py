"""The values of a small world that is explored to its end: models, numbers for values, states.

A state of the world is a few numbers: one for what is shared (`Parts`) and one for each worker (`Local`).
Three things keep the space small and change nothing that anybody could observe:

- workers are interchangeable: their numbers are sorted;
- a table state is named by its content. Whether a worker's base is still the newest is one bit, since
  a head that was left never comes back; a request whose base is not the newest is dead and is dropped
  (not for the mutant with which any table state will do);
- of the protocol's state only what it will still look at is kept (`essence`); a test puts other
  values into the rest and sees the same steps.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from pipelines.landing.ledger.values import Delta
from pipelines.landing.run import protocol
from pipelines.landing.run.protocol import Phase
from sls_io.planning.values import LedgerChange, Plan
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.settings import Budget
from sls_io.values.shard import Shard
from sls_io.values.window import HOUR_S, Cursor, Window
from tests.simulation.service import Service
from tests.simulation.table import File, Snapshot, Table

EPOCH_S = 1000 * HOUR_S
FIRST_HOUR = EPOCH_S // HOUR_S

CRASH = "crash"
REQUEST_LOST = "request lost"
ANSWER_LOST = "answer lost"
LATE = "late request"
CLAIM_LOST = "claim lost"
UNREADABLE = "table cannot be read"
FENCED = "fenced: a newer run, or aborted"
PAGE = "window stopped"
PUT_OFF = "checkpoint put off"
COMMIT = "commit by another"
SCHEMA = "schema changed"
SWEEP = "paused until swept"
RETENTION = "retention"
ROLLBACK = "rolled back by hand"
LIE = "one kind of answer is wrong"
TAKEN = "a lease is taken"
LIES = "two kinds of answers are wrong"

NETWORK = frozenset({CRASH, REQUEST_LOST, ANSWER_LOST, LATE, CLAIM_LOST})
"""A request that arrives twice is one of these: its second copy is refused by its snapshot id, or the
first was lost and it is a late one."""
DRIVER = frozenset({UNREADABLE, PAGE, PUT_OFF})
TABLE = frozenset({COMMIT, SCHEMA, SWEEP, ROLLBACK, FENCED})
EVERY = NETWORK | DRIVER | TABLE | {RETENTION}


@dataclass(frozen=True)
class Model:
    """What is explored. `kinds` are the faults that may happen, `faults` how many of them in all.

    Shard 0 has `hours` windows, other first shards have one. Its split gives two more shards, one with a
    window, one empty. `fills`: a run may also be a backfill of the second hour. `pages`: groups in the
    first window, so that it can be stopped half-way. `singles`: a claim may be granted a single shard.
    `one_name`: all workers are runs of one deployment, so each may hold all shards.
    """

    name: str
    workers: int = 2
    shards: int = 2
    hours: int = 2
    split: bool = True
    faults: int = 2
    kinds: frozenset[str] = EVERY
    fills: bool = False
    pages: int = 1
    singles: bool = False
    replans_max: int = 1
    tries_max: int = 2
    one_name: bool = False

    def __str__(self) -> str:
        shards = some(self.shards, "shard") + (" and a split" if self.split else "")
        runs = "live and fill runs" if self.fills else "live runs"
        faults = f"{some(self.faults, 'fault')} of {len(self.kinds)} kinds" if self.faults else "no faults"
        workers, windows = some(self.workers, "worker"), some(self.hours, "window")
        return f"{self.name}: {workers}, {runs}, {shards}, {windows} in the first, {faults}"


def some(number: int, what: str) -> str:
    """So many of them, in words."""
    return f"{number} {what}{'s' * (number != 1)}"


@cache
def service(model: Model, source: "Source") -> Service:
    """The service after `source.stage` parts of its story and `source.expired` rounds of retention.

    Story: a window in each first shard; an hour later the next window in shard 0, and so on; an hour
    later shard 0 splits. The value is shared: nobody may change it.
    """
    made = Service(model.shards, EPOCH_S)
    for shard in made.live():
        for _ in range(model.pages if shard.id == 0 else 1):
            made.append(shard, jump=0)
    for stage in range(1, source.stage + 1):
        made.now_s = EPOCH_S + stage * HOUR_S
        first = made.shards[0]
        if stage < model.hours:
            made.append(first, jump=0)
        else:
            made.split(first)
            made.append(made.live()[-2], jump=0)
    for hour in range(1, source.expired + 1):
        made.expire(EPOCH_S + hour * HOUR_S)
    made.now_s += 60
    return made


class Source(NamedTuple):
    """The service: how much of its story has happened, and what retention took."""

    stage: int
    expired: int


class Lake(NamedTuple):
    """The table: its ledger's number, rows as (shard, cursor), schema.

    `before` is (ledger, rows) without the newest landing, kept where somebody may roll back; `rolled_back`
    says that `rows` are those; `fallen` that frontiers went back once, by a person. `epoch`: the newest run.
    """

    ledger: int
    rows: tuple[tuple[int, int], ...] = ()
    schema: int = 0
    before: tuple[int, tuple[tuple[int, int], ...]] | None = None
    rolled_back: bool = False
    fallen: bool = False
    epoch: int = -1


class Sent(NamedTuple):
    """A request on its way: number of its effect, its files; `fresh`: its base is the newest state."""

    effect: int
    files: tuple[File, ...]
    live: bool
    fresh: bool
    epoch: int = -1


class Local(NamedTuple):
    """One worker: numbers of its protocol state and of the effect it carries out, and what it knows.

    fresh   its base is the newest table state      landed  its try is in main: 0 no, 1 newest, 2 older
    held    truly held shards, as bits              flying  its requests that may still arrive
    listed  the service when it listed the shards   files   written under `schema`; `swept`: deleted since
    epoch   its number among the runs of its name           newest  the epoch in the table is its own
    """

    state: int = -1
    effect: int = -1
    fresh: bool = False
    schema: int = 0
    files: tuple[File, ...] = ()
    swept: bool = False
    landed: int = 0
    flying: tuple[int, ...] = ()
    held: int = 0
    listed: Source | None = None
    early: Source | None = None
    epoch: int = -1
    newest: bool = False


IDLE = Local()


class Parts(NamedTuple):
    """Everything but the workers; `lost` are requests on their way whose sender will not ask for them."""

    source: int
    lake: int
    checkpoints: tuple[tuple[int, int], ...]
    lost: tuple[int, ...]
    faults: int


class Move(NamedTuple):
    """A step of one worker: what it is called, the fault that it is, if any, and what it leaves behind.

    `others` says what it does to everybody else: "", "landed", "moved" or "rolled back".
    """

    label: str
    local: Local
    fault: str = ""
    lake: int | None = None
    checkpoints: tuple[tuple[int, int], ...] | None = None
    lost: tuple[int, ...] = ()
    others: str = ""


class Names:
    """Numbers for values: equal values have one number, and the first of them stands for all."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, int] = {}
        self.values: list[Any] = []

    def of(self, value: Any) -> int:
        """The number of `value`."""
        known = self._known.get(id(value))
        if known is not None:
            return known
        number = self._numbers.setdefault(self._parts(value), len(self.values))
        if number == len(self.values):
            self.values.append(value)
            self._known[id(value)] = number  # kept alive by `values`, so the id stays its own
        return number

    def _key(self, value: Any) -> Any:
        """Something hashable that is equal where values are; large values inside stand as their numbers."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        return (kind, self.of(value)) if kind in _NUMBERED else self._parts(value)

    def _parts(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind is dict:
            return tuple(sorted([(k, self._key(v)) for k, v in value.items()]))
        if kind is Budget:
            return "budget"  # one for all runs of a model
        members = _members_of(kind)
        if members is None:
            return value
        return (kind, *[v if type(v) in _PLAIN else self._key(v) for v in members(value)])


_PLAIN = frozenset({int, str, bool, frozenset, type(None)})
_NUMBERED = frozenset({Ledger, ShardLedger, Delta, LedgerChange, Plan, Shard})


@cache
def _members_of(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """What gives the members of a value of this kind; None when it has none and stands for itself."""
    if issubclass(kind, tuple):
        return tuple
    if not is_dataclass(kind):
        return None
    names = [f.name for f in fields(kind)]
    return attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, n) for n in names]


def essence(state: protocol.State) -> protocol.State:
    """The state without what no later step looks at."""
    state = replace(state, landed=(), snapshot_id=None, waits=None, problems=(), conflicts=0)
    if state.phase is not Phase.WRITING:
        state = replace(state, plan=None)
    if state.phase in (Phase.CHECKPOINTING, Phase.RELEASING, Phase.DONE):
        state = replace(state, ledger=None, claim=None)
    if state.phase in (Phase.RECONCILING, Phase.CHECKPOINTING, Phase.RELEASING, Phase.DONE):
        state = replace(state, replans=0)
    if state.phase in (Phase.CLAIMING, Phase.READING):
        state = replace(state, ledger=None)
    if state.phase is Phase.CLAIMING:
        state = replace(state, claim=None)
    return state


def table_of(lake: Lake, ledger: Ledger) -> Table:
    """A table state as the checks want it: one file a shard."""
    table = Table()
    shards = {s for s, _ in lake.rows}
    files = frozenset(
        File(s, Window(s, Cursor(0), Cursor(1), 0), tuple(c for t, c in lake.rows if t == s), 0, 0)
        for s in shards
    )
    table.snapshots = {1: Snapshot(1, None, 1, files, ledger)}
    table.main = table.tag = 1
    table.schema, table.deleted = lake.schema, {-1}
    return table
