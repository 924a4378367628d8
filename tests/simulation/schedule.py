"""One random schedule: everything it does follows from its seed.

The first half has faults; then they stop, the person settles what is broken, requests on their way
arrive, and runs follow each other until nothing is left to do. Then everything must be there.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from sls_io.values.settings import Budget
from sls_io.values.window import HOUR_S
from tests.simulation.checks import Checks, Violated
from tests.simulation.service import ONE_KIND, TWO_KINDS, Service
from tests.simulation.table import Table
from tests.simulation.worker import OUTAGE_S, SWEEP_FLOOR_S, Faults, Habits, Worker, World, deliver

EPOCH_S = 1000 * HOUR_S
NO_HABITS = Habits()


@dataclass(frozen=True)
class Rates:
    """How often each thing happens, relative to each other; a worker's own steps have the rest."""

    append: float
    tick: float
    split: float
    retention: float
    others: float
    schema: float
    rollback: float
    late: float
    kill: float
    sweep: float
    lie: float


class Schedule:
    """A world of some workers, driven by `seed`."""

    def __init__(self, seed: int, habits: Habits = NO_HABITS) -> None:
        rng = Random(seed)
        self.rng = rng
        self.service = Service(rng.choice((1, 1, 2)), EPOCH_S)
        self.table = Table()
        self.checks = Checks(latest=rng.random() < 0.2, outage_s=OUTAGE_S)
        self.checks.lied_to = self.misled = set[int]()
        self.lied_s: dict[int, int] = {}
        self.world = World(rng, self.service, self.table, self.checks, _faults(rng), habits, [])
        self.rates = _rates(rng)
        self.budget = Budget(windows_max=rng.choice((1, 2, 5, 1000)))
        self.long_s = rng.choice((60, HOUR_S, 5 * HOUR_S))
        self.fills = rng.choice((0.0, 0.2, 0.6))
        self.workers = rng.choice((1, 2, 3, 3))
        self.names = rng.choice((1, self.workers))
        self.runs: dict[int, Iterator[None]] = {}

    def play(self, events: int) -> Counter[str]:
        """All of it; what was seen on the way. Raises Violated or InvariantBroken."""
        for shard in self.service.live():
            for _ in range(self.rng.randrange(4)):
                self.service.append(shard, jump=0)
        for _ in range(events):
            self._event()
            self._note_long_lies()
            self.checks.after(self.service, self.table)
        self._quiet_end()
        return self.checks.seen

    def _event(self) -> None:
        rng, rates = self.rng, self.rates
        if rng.random() < 0.75:
            self._advance(rng.randrange(self.workers))
            return
        happenings = (
            (rates.append, self._append),
            (rates.tick, self._tick),
            (rates.split, self._reshard),
            (rates.retention, self._expire),
            (rates.others, self._others),
            (rates.schema, self._schema),
            (rates.rollback, self._roll_back),
            (rates.late, self._arrive),
            (rates.kill, self._kill),
            (rates.sweep, self._sweep),
            (rates.lie, self._lie),
        )
        pick = rng.random() * sum(rate for rate, _ in happenings)
        for rate, happen in happenings:
            pick -= rate
            if pick < 0:
                happen()
                return

    def _advance(self, number: int) -> None:
        run = self.runs.get(number)
        if run is None:
            run = self.runs[number] = self._start(number)
        if next(run, self) is self:
            del self.runs[number]

    def _start(self, number: int) -> Iterator[None]:
        hours = None
        if self.rng.random() < self.fills:
            first = self.rng.randrange(EPOCH_S // HOUR_S, self.service.now_s // HOUR_S + 1)
            hours = range(first, first + self.rng.choice((1, 2, 50)))
        return self._worker(self._name(number), hours).run()

    def _name(self, number: int) -> str:
        """The deployment that a worker is of; where there are fewer names, runs of one name meet."""
        return f"w{number % self.names}"

    def _worker(self, name: str, hours: range | None) -> Worker:
        until_s = self.service.now_s - 10
        return Worker(self.world, name, hours=hours, budget=self.budget, until_s=until_s)

    def _append(self) -> None:
        shard = self.rng.choice(self.service.live())
        for _ in range(self.rng.choice((1, 1, 3))):
            self.service.append(shard, jump=self.rng.choice((0, 0, 0, 2)))

    def _tick(self) -> None:
        """Time passes; the group evicts holders that are no more."""
        self.service.now_s += self.rng.choice((20, 300, 1800, HOUR_S, self.long_s))
        alive = {self._name(number) for number in self.runs}
        for shard in [s for s, holder in self.service.owners.items() if holder not in alive]:
            del self.service.owners[shard]

    def _reshard(self) -> None:
        if len(self.service.shards) < 7:
            shard = self.rng.choice(self.service.live())
            if self.rng.random() < 0.7:
                self.service.split(shard)
            else:
                self.service.merge(shard)

    def _expire(self) -> None:
        self.service.expire(self.service.now_s - self.rng.choice((HOUR_S, 6 * HOUR_S)))

    def _others(self) -> None:
        if self.rng.random() < 0.5:
            self.table.compact()
        else:
            self.table.refresh()

    def _schema(self) -> None:
        if self.rng.random() < 0.5:
            self.table.schema += 1
        else:
            self.table.spec += 1

    def _roll_back(self) -> None:
        if self.table.rolled_back:
            self.table.settle()
        elif self.table.main is not None and self.table.roll_back_by_hand(self.rng.randrange(1, 4)):
            self.checks.rolled_back()
            if self.rng.random() < 0.5:
                self.table.settle()

    def _arrive(self) -> None:
        waiting = self.world.on_the_way
        if waiting and deliver(self.world, waiting.pop(self.rng.randrange(len(waiting)))):
            self.checks.saw("a late request landed")

    def _kill(self) -> None:
        """The process is gone; the group hears of it later, or at once."""
        number = self.rng.randrange(self.workers)
        if self.runs.pop(number, None) is not None:
            self.checks.saw("kill")
            if self.rng.random() < 0.7:
                owners = self.service.owners
                for shard in [s for s, holder in owners.items() if holder == self._name(number)]:
                    del owners[shard]

    def _lie(self) -> None:
        """The service's answers about a shard become wrong, or right again."""
        shard = self.rng.choice(self.service.listed()).id
        if self.service.lies.pop(shard, None) is None:
            self.service.lies[shard] = self.rng.choice((*ONE_KIND, *TWO_KINDS))
            if self.service.lies[shard] in TWO_KINDS:
                # Nobody may have looked between two such lies: a suspicion of the first one stands.
                self.lied_s.setdefault(shard, self.service.now_s)
            self.checks.saw("wrong answers")

    def _note_long_lies(self) -> None:
        for shard, lie in self.service.lies.items():
            if lie in TWO_KINDS and shard not in self.table.ledger.shards:
                self.checks.unheard.add(shard)
            if lie in TWO_KINDS and self.service.now_s - self.lied_s[shard] >= OUTAGE_S:
                self.misled.add(shard)

    def _sweep(self) -> None:
        self.table.sweep(self.service.now_s - SWEEP_FLOOR_S)

    def _quiet_end(self) -> None:
        self.world.faults = Faults()
        self.service.lies.clear()
        self.runs.clear()
        self.service.owners.clear()
        while self.world.on_the_way:
            self._arrive()
            self.checks.after(self.service, self.table)
        if self.table.rolled_back:
            self.table.settle()
        self.service.now_s += HOUR_S
        self.budget = Budget()
        for _ in range(40):
            before = self.table.version
            self.service.now_s += int(OUTAGE_S)
            for _ in self._worker("last", None).run():
                self.checks.after(self.service, self.table)
            if self.table.version == before:
                self.checks.at_the_end(self.service, self.table, self.service.now_s - 10)
                return
        raise Violated("runs go on landing although nothing new was written")


def simulate(seed: int, *, habits: Habits = NO_HABITS, events: int = 200) -> Counter[str]:
    """Play the schedule of `seed`; what it saw. A broken invariant names the seed."""
    schedule = Schedule(seed, habits)
    try:
        return schedule.play(events)
    except Exception as error:
        error.add_note(f"seed {seed}, {events} events")
        raise


def _faults(rng: Random) -> Faults:
    """Each fault at a rate of its own; often none at all."""

    def rate(most: float) -> float:
        return rng.choice((0.0, 0.0, rng.random() * most, most))

    return Faults(
        reply_lost=rate(0.3),
        request_lost=rate(0.3),
        late=rate(0.3),
        doubled=rate(0.2),
        unreadable=rate(0.2),
        stop_early=rate(0.5),
        broken_page=rate(0.2),
        steal=rate(0.5),
        blind=rate(1.0),
    )


def _rates(rng: Random) -> Rates:
    def rate(most: float) -> float:
        return rng.choice((0.0, most * rng.random(), most))

    return Rates(
        append=3 + rate(5),
        tick=0.5 + rate(3),
        split=rate(0.6),
        retention=rate(0.4),
        others=rate(1.0),
        schema=rate(0.15),
        rollback=rate(0.25),
        late=rate(3.0),
        kill=rate(0.6),
        sweep=rate(0.3),
        lie=rate(0.5),
    )
