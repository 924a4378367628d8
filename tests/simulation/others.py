"""What everybody but the workers does: the catalog, the service, other writers, the sweep, people.

`Catalog` is where requests arrive, and it alone knows what a moved table does to those who stand on the
old one. `Others` lists what may happen next without a worker doing anything.
"""

from collections import Counter
from collections.abc import Iterator

from pipelines.landing.run import protocol
from tests.simulation.judging import Judge
from tests.simulation.lookups import Lookups
from tests.simulation.model import (
    CLAIM_LOST,
    COMMIT,
    CRASH,
    IDLE,
    RETENTION,
    ROLLBACK,
    SCHEMA,
    SWEEP,
    TAKEN,
    Lake,
    Local,
    Move,
    Parts,
    Sent,
    Source,
)
from tests.simulation.table import File, Request

_LANDED = {"landed": (0, 2, 2), "moved": (0, 1, 2), "rolled back": (0, 0, 2)}
"""What becomes of a worker's `landed` when somebody moves the table, by its value before."""


class Catalog:
    """Accepts a request whose base is the newest table; `any_base` is the bug of taking older ones, too."""

    def __init__(self, lookups: Lookups, judge: Judge, *, any_base: bool) -> None:
        self.lookups, self.judge, self.any_base = lookups, judge, any_base
        self._delivered: dict[tuple[Sent, int, int, bool], int] = {}

    def deliver(self, sent: Sent, parts: Parts, *, swept: bool) -> int | None:
        """The table after a request arrived, None when it is refused. Raises Violated.

        `swept`: its files were deleted.
        """
        lake = self.lookups.lake(parts)
        if not sent.fresh and not (self.any_base and self.lookups.ledger(lake).started):
            return None
        key = (sent, parts.source, parts.lake, swept)
        made = self._delivered.get(key)
        if made is None:
            made = self._delivered[key] = self._accept(sent, parts, lake, swept=swept)
        return made

    def _accept(self, sent: Sent, parts: Parts, lake: Lake, *, swept: bool) -> int:
        names = self.lookups.names
        effect: protocol.Publish = names.values[sent.effect]
        files = frozenset(
            File(-1 if swept else n, f.window, f.cursors, f.schema, 0) for n, f in enumerate(sent.files)
        )
        self.judge.request(Request(0, None, None, lake.schema, 0, files, effect, sent.live), parts)
        rows = tuple(sorted([*lake.rows, *((f.window.shard, c) for f in files for c in f.cursors)]))
        kept = (lake.ledger, lake.rows) if ROLLBACK in self.lookups.model.kinds else None
        made = Lake(names.of(effect.ledger), rows, lake.schema, kept, fallen=lake.fallen)
        if sent.epoch >= 0:
            self.judge.newest(sent.epoch, lake)
        made = made._replace(epoch=lake.epoch if sent.epoch < 0 else sent.epoch)
        self.judge.landing(made, parts)
        return names.of(made)

    def outdated(self, local: Local, how: str) -> Local:
        """The worker after somebody moved the table: its base is old, its requests are refused."""
        flying = local.flying if self.any_base else ()
        newest = local.newest and how != "landed"
        return local._replace(fresh=False, landed=_LANDED[how][local.landed], flying=flying, newest=newest)

    def landed(self, local: Local) -> Local:
        """The worker after its own request moved the table."""
        return self.outdated(local, "landed")._replace(landed=1, newest=local.epoch >= 0)

    def still(self, lost: tuple[int, ...]) -> tuple[int, ...]:
        """Of requests on their way, those that may be accepted after somebody moved the table."""
        return lost if self.any_base else ()


class Others:
    """What may happen next without a worker doing anything. `seen` counts rare situations."""

    def __init__(self, lookups: Lookups, catalog: Catalog, seen: Counter[str]) -> None:
        self.lookups, self.catalog, self.seen = lookups, catalog, seen
        self.last_stage = lookups.model.hours - 1 + lookups.model.split

    def of(self, parts: Parts) -> Iterator[tuple[str, Parts, str]]:
        """(label, parts afterwards, what it does to every worker's base). Raises Violated."""
        source, lake = self.lookups.source(parts), self.lookups.lake(parts)
        if source.stage < self.last_stage:
            yield "the service goes on", self._at(parts, source._replace(stage=source.stage + 1)), ""
        for number in parts.lost:
            made = self._arrive(number, parts, swept=False)
            if made is not None:
                yield "a late request lands", parts._replace(lake=made, lost=()), "landed"
        if lake.rolled_back and lake.before is not None:
            settled = Lake(lake.before[0], lake.rows, lake.schema, fallen=True, epoch=lake.epoch)
            yield "a person settles", self._with(parts, settled)._replace(lost=()), "moved"
        if parts.faults:
            yield from self._strike(parts._replace(faults=parts.faults - 1), source, lake)

    def befalling(self, local: Local, parts: Parts) -> Iterator[Move]:
        """What may befall a worker whatever it carries out. Raises Violated."""
        kinds = self.lookups.kinds(parts)
        if CRASH in kinds:
            yield Move(CRASH, IDLE, CRASH, lost=local.flying)
        if CLAIM_LOST in kinds and local.held:
            yield Move(CLAIM_LOST, local._replace(held=0), CLAIM_LOST)
        for shard in range(local.held.bit_length()) if TAKEN in kinds else ():
            if local.held >> shard & 1:
                yield Move(TAKEN, local._replace(held=local.held & ~(1 << shard)), TAKEN)
        if SWEEP in kinds and local.files and not local.swept:
            swept = self.catalog.outdated(local._replace(swept=True), "moved")
            yield Move(SWEEP, swept, SWEEP, others="moved")
        for number in local.flying:
            made = self._arrive(number, parts, swept=local.swept)
            if made is not None:
                waiting = local._replace(flying=tuple(n for n in local.flying if n != number))
                landed = self.catalog.landed(waiting)
                yield Move("a late request lands", landed, lake=made, others="landed")

    def _strike(self, parts: Parts, source: Source, lake: Lake) -> Iterator[tuple[str, Parts, str]]:
        """Faults between any two moves; `parts` has one fault less already."""
        kinds = self.lookups.model.kinds
        if RETENTION in kinds and source.expired < source.stage:
            yield RETENTION, self._at(parts, source._replace(expired=source.expired + 1)), ""
        if not self.lookups.ledger(lake).started:
            return
        moved = parts._replace(lost=self.catalog.still(parts.lost))
        if COMMIT in kinds:
            yield COMMIT, moved, "moved"
        if SCHEMA in kinds and not lake.schema:
            yield SCHEMA, self._with(moved, lake._replace(schema=1)), "moved"
        older = lake.before if ROLLBACK in kinds and not lake.rolled_back else None
        if older is not None and self.lookups.names.values[older[0]].started:
            self.seen["rolled back by hand"] += 1
            yield ROLLBACK, self._with(moved, lake._replace(rows=older[1], rolled_back=True)), "rolled back"

    def _arrive(self, number: int, parts: Parts, *, swept: bool) -> int | None:
        made = self.catalog.deliver(self.lookups.names.values[number], parts, swept=swept)
        if made is not None:
            self.seen["a late request landed"] += 1
        return made

    def _at(self, parts: Parts, source: Source) -> Parts:
        return parts._replace(source=self.lookups.names.of(source))

    def _with(self, parts: Parts, lake: Lake) -> Parts:
        return parts._replace(lake=self.lookups.names.of(lake))
