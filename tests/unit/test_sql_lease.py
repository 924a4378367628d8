"""Leases at work, on simulated clocks over a dictionary: who works on what, and what a fault costs."""

import contextlib
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sls_io.coordination.lease import FREE, Lease
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost, ConnectFailed, TransportError
from sls_io.values.window import Cursor
from tests.unit.lease_world import HEARTBEAT_S, TIMEOUT_S, Waits, Worker, World


def run(world: World, workers: list[Worker], for_s: float, tick_s: float = 1.0) -> None:
    """Let time pass; each worker acts every heartbeat, at a moment of its own."""
    for _ in range(round(for_s / tick_s)):
        world.now_s += tick_s
        for place, worker in enumerate(workers):
            if round(world.now_s / tick_s + place) % round(HEARTBEAT_S / tick_s) == 0:
                worker.step()
        at_most_one_works_on_a_shard(workers)


def at_most_one_works_on_a_shard(workers: list[Worker]) -> None:
    twice = [s for s, count in Counter(s for w in workers for s in w.working).items() if count > 1]
    assert not twice, {w.name: sorted(w.working) for w in workers}


def shares(workers: list[Worker]) -> list[int]:
    return sorted(len(w.working) for w in workers)


@pytest.mark.parametrize("assignor", ["sticky", "range", "round_robin"])
def test_ten_workers_share_256_shards_within_four_timeouts_and_then_take_nothing(assignor: str) -> None:
    world = World(256, assignor)
    first = Worker(world, "w0")
    run(world, [first], 60)
    assert shares([first]) == [256]
    workers = [first, *(Worker(world, f"w{n}", ahead_s=n - 5.0, begun_s=99.0 * n) for n in range(1, 10))]
    run(world, workers, 4 * TIMEOUT_S)
    assert shares(workers) == [25] * 4 + [26] * 6
    moved = len(world.store.moved)
    run(world, workers, 8 * TIMEOUT_S)
    assert len(world.store.moved) == moved
    assert shares(workers) == [25] * 4 + [26] * 6


def test_who_goes_is_replaced_after_a_timeout_and_nothing_else_moves() -> None:
    world = World(12)
    workers = [Worker(world, name) for name in "abc"]
    run(world, workers, 5 * TIMEOUT_S)
    assert shares(workers) == [4, 4, 4]
    kept = {w.name: w.working for w in workers[:2]}
    run(world, workers[:2], 4 * TIMEOUT_S)
    assert shares(workers[:2]) == [6, 6]
    assert all(kept[w.name] <= w.working for w in workers[:2])


def test_who_goes_is_replaced_though_the_database_is_slow() -> None:
    """A call takes a twentieth of a timeout, and one waits for the other, as with SQLite: more than half a
    timeout lies between two looks of a worker. Two timeouts may pass until a claim, and one until silence."""
    world = World(16)
    workers = [Worker(world, name) for name in "abcd"]
    run(world, workers, 8 * TIMEOUT_S)

    def call() -> None:
        world.now_s += TIMEOUT_S / 20

    world.store.on_call = call

    def turns(until: Callable[[], bool]) -> float:
        """One after the other until it is so; in how many timeouts, 40 at most."""
        begun_s = world.now_s
        while not until() and world.now_s < begun_s + 40 * TIMEOUT_S:
            for worker in workers:
                worker.step()
        return (world.now_s - begun_s) / TIMEOUT_S

    settled_s = world.now_s + 6 * TIMEOUT_S
    turns(lambda: world.now_s > settled_s)
    moved, dead = len(world.store.moved), workers.pop()
    its = {s for s, lease in world.store.leases.items() if lease.owner == dead.name}
    assert len(its) == 4

    took = turns(lambda: its <= {shard for worker in workers for shard in worker.working})

    assert took < 4, f"{took:.1f} timeouts"
    assert len(world.store.moved) - moved == 4, "taken from one who lives"


def test_a_shard_that_appears_is_taken_by_who_has_fewest() -> None:
    world = World(4)
    workers = [Worker(world, name) for name in "ab"]
    run(world, workers, 4 * TIMEOUT_S)
    world.weights = dict.fromkeys(range(5), 1)
    run(world, workers, 4 * TIMEOUT_S)
    assert shares(workers) == [2, 3]


def test_more_workers_than_shards_means_that_one_stands_by_and_takes_over() -> None:
    world = World(2)
    workers = [Worker(world, name) for name in "abc"]
    run(world, workers, 4 * TIMEOUT_S)
    assert shares(workers) == [0, 1, 1]
    idle = next(w for w in workers if not w.working)
    with pytest.raises(ClaimLost, match="stands by: 3 workers share 2 shards"):
        idle.leases.claim()
    run(world, [idle], 3 * TIMEOUT_S)
    assert shares([idle]) == [2]


def test_after_splits_each_works_on_open_shards_and_who_gets_none_says_so() -> None:
    """Both parents are with one, and with the other who was away all that came of them."""
    world = World(2)
    a, b = (Worker(world, name) for name in "ab")
    run(world, [a], 2 * TIMEOUT_S)
    world.weights = {0: 0, 1: 0, 2: 1, 3: 1, 4: 1, 5: 1}
    run(world, [b], 3 * TIMEOUT_S)
    run(world, [a, b], 6 * TIMEOUT_S)
    assert [len(w.working & {2, 3, 4, 5}) for w in (a, b)] == [2, 2]
    assert shares([a, b]) == [3, 3]

    world.weights = {0: 0, 1: 1}
    c = Worker(world, "c")
    run(world, [a, b, c], 6 * TIMEOUT_S)
    idle = next(w for w in (a, b, c) if not w.working)
    with pytest.raises(ClaimLost, match=r"stands by: 3 workers share 2 shards \(1 of them closed\)"):
        idle.leases.claim()


def test_an_outage_of_the_database_moves_nothing() -> None:
    world = World(8)
    workers = [Worker(world, name) for name in "abc"]
    run(world, workers, 4 * TIMEOUT_S)
    owners, moved = {s: lease.owner for s, lease in world.store.leases.items()}, len(world.store.moved)
    world.store.down = True
    run(world, workers, 20 * TIMEOUT_S)
    assert shares(workers) == [0, 0, 0]
    world.store.down = False
    newcomer = Worker(world, "d")
    run(world, workers, 2 * TIMEOUT_S)
    assert len(world.store.moved) == moved
    assert {s: lease.owner for s, lease in world.store.leases.items()} == owners
    assert sum(shares(workers)) == 8
    run(world, [*workers, newcomer], 4 * TIMEOUT_S)
    assert shares([*workers, newcomer]) == [2, 2, 2, 2]


def test_a_worker_that_starts_in_an_outage_or_right_after_it_takes_only_its_share() -> None:
    world = World(8)
    old = [Worker(world, name) for name in "ab"]
    run(world, old, 4 * TIMEOUT_S)
    again = Worker(world, "c")
    run(world, [*old, again], 4 * TIMEOUT_S)
    again.end()
    world.store.down = True
    run(world, old, 10 * TIMEOUT_S)
    world.store.down = False
    restarted = Worker(world, "c")
    restarted.step()
    run(world, [*old, restarted], 4 * TIMEOUT_S)
    assert shares([*old, restarted]) == [2, 3, 3]


# --- one act after the other


def two(world: World, clock: ManualClock) -> tuple[SqlLease, SqlLease]:
    return (
        world.coordinator("a", clock=clock, patience_s=12.0),
        world.coordinator("b", clock=clock, patience_s=12.0),
    )


def test_a_thief_owns_at_once_and_begins_after_a_timeout_so_the_loser_saves_its_checkpoint() -> None:
    world = World(4)
    loser, thief = Worker(world, "a"), Worker(world, "b")
    loser.step()
    with pytest.raises(Waits):
        thief.leases.claim()
    taken = {s for s, lease in world.store.leases.items() if lease.owner == "b"}
    assert taken == {2, 3}
    assert loser.leases.renew().shards == {0, 1, 2, 3}
    for shard in taken:
        assert loser.leases.checkpoint(shard, Cursor(50)) == "sent"
    run(world, [loser, thief], TIMEOUT_S + HEARTBEAT_S)
    assert thief.working == taken
    with pytest.raises(ClaimLost, match="not held by 'a'"):
        loser.leases.checkpoint(2, Cursor(60))
    assert thief.leases.checkpoints()[2] == 50


def test_a_loser_that_lets_go_is_followed_at_once() -> None:
    world = World(4)
    loser, thief = Worker(world, "a"), Worker(world, "b")
    loser.step()
    thief.step()
    assert thief.working == frozenset()
    loser.end()
    thief.step()
    assert thief.working == {2, 3}


def test_a_loser_that_sleeps_cannot_save_once_the_thief_has_begun() -> None:
    world = World(2)
    loser, thief = Worker(world, "a"), Worker(world, "b", begun_s=500.0)
    loser.step()
    thief.step()
    run(world, [thief], TIMEOUT_S + HEARTBEAT_S)
    assert world.store.checkpoint("a", 1, Cursor(9)) is False
    with pytest.raises(ClaimLost, match="Claim again"):
        loser.leases.checkpoint(1, Cursor(9))


def test_runs_that_take_turns_each_find_their_own_shards_without_waiting() -> None:
    world, clock = World(4), ManualClock()
    a, b = two(world, clock)
    for _ in range(3):
        for coordinator, shards in ((a, {0, 1}), (b, {2, 3})):
            held = coordinator.claim().shards
            assert held == shards or (held == {0, 1, 2, 3} and clock.monotonic() == 0.0)
            coordinator.release()
    assert clock.monotonic() == 0.0


def test_after_a_kill_the_next_run_of_the_name_goes_on_without_waiting() -> None:
    world, clock = World(4), ManualClock()
    world.coordinator("a", clock=clock).claim()
    clock.advance(1.0)
    assert world.coordinator("a", clock=clock).claim().shards == {0, 1, 2, 3}
    assert clock.monotonic() == 1.0


def test_short_runs_notice_that_another_is_gone_for_good() -> None:
    world, clock = World(4), ManualClock()
    a, b = two(world, clock)
    a.claim()
    a.release()
    b.claim()
    b.release()
    waited = []
    for _ in range(3):
        clock.advance(300)
        began_s = clock.monotonic()
        alone = world.coordinator("b", clock=clock, patience_s=12.0)
        held = alone.claim().shards
        alone.release()
        waited.append(clock.monotonic() - began_s)
    assert held == {0, 1, 2, 3}
    assert 0 < waited[0] <= 3 * HEARTBEAT_S and waited[1:] == [0.0, 0.0]
    assert set(world.store.instances) == {"b"}


@pytest.mark.parametrize("tenths", range(1, 13))
def test_who_is_given_up_while_a_round_goes_on_is_replaced_by_that_claim(tenths: int) -> None:
    """On a busy machine a call takes so many tenths of a heartbeat. Whenever it is given up, it is missed
    until a round has taken its shards."""
    world, clock = World(4), ManualClock()
    a, b = two(world, clock)
    for each in (a, b):
        each.claim()
        each.release()
    clock.advance(300)
    world.store.on_call = lambda: clock.advance(tenths / 10 * HEARTBEAT_S)

    held = world.coordinator("b", clock=clock, patience_s=12.0).claim().shards

    assert held == {0, 1, 2, 3}


class Wrong(ManualClock):
    """Another's clock, whose wall time is ahead."""

    def __init__(self, true: ManualClock, ahead_s: float) -> None:
        super().__init__()
        self._true, self._ahead_s = true, ahead_s

    def now(self) -> float:
        return self._true.now() + self._ahead_s

    def monotonic(self) -> float:
        return self._true.monotonic()

    def sleep(self, duration_s: float) -> None:
        self._true.sleep(duration_s)


@pytest.mark.parametrize("ahead_s", [0.0, 3600.0, 86_400.0])
def test_a_clock_that_was_wrong_for_one_run_delays_no_takeover_by_more_than_a_timeout(ahead_s: float) -> None:
    world, clock = World(4), ManualClock()

    def run_of(name: str, ahead_s: float = 0.0, *, killed: bool = False) -> tuple[set[int], float]:
        began_s = clock.monotonic()
        of = world.coordinator(name, clock=Wrong(clock, ahead_s), patience_s=12.0)
        held = of.claim().shards
        if not killed:
            of.release()
        waited_s = clock.monotonic() - began_s
        clock.advance(300)
        return {*held}, waited_s

    for name in "abab":
        mine, _ = run_of(name)
    run_of("a")
    run_of("b", ahead_s)
    theirs = {*range(4)} - mine
    assert [run_of(name) for name in "abab"] == [(theirs, 0.0), (mine, 0.0)] * 2, (
        "who lives is not waited for"
    )
    run_of("a")
    run_of("b", killed=True)

    assert run_of("a") == (theirs, 0.0), "b was there since the run before"
    held, waited_s = run_of("a")

    assert held == {0, 1, 2, 3}
    assert waited_s <= (TIMEOUT_S if ahead_s else 0) + 3 * HEARTBEAT_S
    assert run_of("a") == ({0, 1, 2, 3}, 0.0)


def test_where_stamps_are_ahead_a_run_waits_for_what_it_took_from_one_who_lives() -> None:
    """The stamp of the taking is never old, so no later run would begin it."""
    world, clock = World(4), ManualClock()
    world.coordinator("b", clock=Wrong(clock, 86_400.0)).claim()
    world.store.leases[0] = Lease(0)

    held = world.coordinator("a", clock=clock, patience_s=12.0).claim().shards

    assert held > {0} and clock.monotonic() <= TIMEOUT_S + 2 * HEARTBEAT_S


def test_a_second_process_of_one_name_fences_the_first() -> None:
    world = World(4)
    first, second = Worker(world, "a"), Worker(world, "a")
    first.step()
    first.leases.checkpoint(1, Cursor(50))
    second.step()
    second.leases.checkpoint(1, Cursor(100))
    assert first.leases.checkpoint(1, Cursor(50)) == "ahead"
    with pytest.raises(ClaimLost, match="another process holds its shards under the name 'a'"):
        first.leases.renew()
    first.leases.release()
    assert second.leases.renew().shards == {0, 1, 2, 3}
    assert world.store.leases[1].checkpoint == 100


def test_a_claim_again_takes_from_the_living_only_every_second_timeout() -> None:
    world, clock = World(8), ManualClock()
    coordinator = world.coordinator("a", clock=clock, patience_s=0.0)
    world.store.instances["b"] = 1
    assert len(coordinator.claim().shards) == 4
    rest = [s for s, lease in world.store.leases.items() if not lease.owner]
    world.store.leases.update({s: Lease(s, 1, "b", "b") for s in range(8, 16)})
    world.weights = dict.fromkeys([*range(16)], 1)
    world.store.leases.update({s: Lease(s, 1, "b", "b") for s in rest})
    clock.advance(1.0)
    coordinator.claim()
    assert not [victim for _, victim, _ in world.store.moved if victim]
    clock.advance(2 * TIMEOUT_S)
    world.store.leases.update({s: Lease(s, 2, "b", "b") for s in [*rest, *range(8, 16)]})
    coordinator.claim()
    assert [victim for _, victim, _ in world.store.moved if victim] == ["b"] * 4


# --- faults of single changes


@pytest.mark.parametrize("fault", ["request_lost", "reply_lost", "late"])
@pytest.mark.parametrize("place", range(4))
def test_a_lost_answer_is_asked_of_the_rows(fault: str, place: int) -> None:
    """The changes of a first claim: join, add, take. Whichever is lost, the next one finds the truth."""
    world = World(4)
    worker = Worker(world, "a")
    world.store.faults = [""] * place + [fault]
    worker.step()
    world.store.deliver()
    run(world, [worker], 2 * HEARTBEAT_S)
    assert worker.working == {0, 1, 2, 3}
    assert world.store.instances.keys() == {"a"}


@pytest.mark.parametrize("fault", ["request_lost", "reply_lost", "late"])
def test_a_renewal_whose_answer_was_lost_costs_nothing(fault: str) -> None:
    world = World(4)
    worker = Worker(world, "a")
    worker.step()
    world.store.faults = [fault]
    worker.leases.renew()
    world.store.deliver()
    assert worker.leases.renew().shards == {0, 1, 2, 3}
    world.now_s += TIMEOUT_S - 1
    assert worker.working == {0, 1, 2, 3}


def test_a_checkpoint_whose_answer_was_lost_is_looked_for() -> None:
    world = World(1)
    worker = Worker(world, "a")
    worker.step()
    world.store.faults = ["reply_lost"]
    assert worker.leases.checkpoint(0, Cursor(5)) == "sent"
    world.store.faults = ["request_lost"]
    with pytest.raises(TransportError):
        worker.leases.checkpoint(0, Cursor(6))
    assert world.store.leases[0].checkpoint == 5


def test_a_claim_waits_for_a_database_that_is_away_until_patience_ends() -> None:
    world, clock = World(1), ManualClock()
    coordinator = world.coordinator("a", clock=clock, patience_s=12.0)
    coordinator.look()
    world.store.down = True
    with pytest.raises(ConnectFailed):
        coordinator.claim()
    assert 0 < clock.monotonic() <= 12.0


def test_a_release_out_of_reach_says_nothing() -> None:
    world = World(1)
    worker = Worker(world, "a")
    worker.step()
    world.store.down = True
    worker.end()
    assert world.store.leases[0].lease_id != FREE


# --- anything, in any order


# The example: who begins after its sign of life was lost is not silent for those that come after.
@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 6), st.booleans())
@example(91576415, 3, 3, False)
def test_whatever_happens_two_never_work_on_one_shard_and_all_are_worked_on_in_the_end(
    seed: int, count: int, shards: int, ahead: bool
) -> None:
    chance = random.Random(seed)
    world = World(shards)
    if ahead:
        world.store.instances["of tomorrow"] = 1_700_086_400_000
    names = [f"w{n}" for n in range(count)]
    workers = {name: Worker(world, name, chance.uniform(-3, 3), chance.uniform(0, 1e4)) for name in names}
    asleep_until_s = dict.fromkeys(names, 0.0)
    saved: dict[int, int] = {}
    for _ in range(400):
        world.now_s += chance.choice((0.5, 1.0, 2.0, 5.0))
        name = chance.choice(names)
        act = chance.random()
        if act < 0.04:
            workers[name] = Worker(world, name, chance.uniform(-3, 3), chance.uniform(0, 1e4))
        elif act < 0.06:
            workers[name].end()
        elif act < 0.08:
            asleep_until_s[name] = world.now_s + chance.uniform(0, 3 * TIMEOUT_S)
        elif act < 0.10:
            world.store.down = not world.store.down
        elif act < 0.14:
            world.store.faults = [chance.choice(("request_lost", "reply_lost", "late"))]
        elif act < 0.18:
            world.store.deliver()
        if world.now_s >= asleep_until_s[name]:
            workers[name].step()
        at_most_one_works_on_a_shard(list(workers.values()))
        for shard, lease in world.store.leases.items():
            assert (lease.checkpoint or 0) >= saved.get(shard, 0)
            saved[shard] = lease.checkpoint or 0
        if workers[name].working and not world.store.down:
            shard = chance.choice(sorted(workers[name].working))
            with contextlib.suppress(ClaimLost, TransportError):
                workers[name].leases.checkpoint(shard, Cursor(chance.randrange(100)))
    world.store.down, world.store.faults = False, []
    world.store.deliver()
    run(world, list(workers.values()), 8 * TIMEOUT_S)
    assert sum(shares(list(workers.values()))) == shards
    assert max(shares(list(workers.values()))) - min(shares(list(workers.values()))) <= 1


# --- weights


def weighing(world: World, name: str, ahead_s: float = 0.0) -> Worker:
    """A worker that shares by what rows say."""
    world.assignor, world.weights = "weighted", dict.fromkeys(world.weights)
    return Worker(world, name, ahead_s=ahead_s)


def kept(world: World) -> dict[int, int | None]:
    return {shard: lease.weight for shard, lease in world.store.leases.items()}


def test_what_a_run_measured_stays_with_its_leases_in_the_statement_that_lets_them_go() -> None:
    world = World(3)
    mine = weighing(world, "a")
    mine.step()
    mine.leases.weigh({0: 900, 1: 100, 7: 5})
    changes = world.store.changes
    mine.end()
    assert world.store.changes - changes == 2, "handed over and let go, as ever"
    assert kept(world) == {0: 900, 1: 100, 2: None}
    mine.step()
    mine.end()
    assert kept(world) == {0: 900, 1: 100, 2: None}, "a run that measured nothing leaves what is there"


def test_who_takes_a_shard_knows_what_it_weighs_from_those_before() -> None:
    world = World(4)
    mine, other = weighing(world, "a"), weighing(world, "b", ahead_s=3.0)
    mine.step()
    mine.leases.weigh({0: 3000, 1: 1000, 2: 1000, 3: 1000})
    mine.end()
    other.step()
    assert other.working in ({0}, {1, 2, 3}), "half of the weight"
    mine.step()
    assert mine.working | other.working == set(range(4)) and not mine.working & other.working
    moved = len(world.store.moved)
    run(world, [mine, other], 6 * TIMEOUT_S)
    assert len(world.store.moved) == moved


def test_weights_that_are_about_what_rows_say_change_no_row() -> None:
    world = World(2)
    mine = weighing(world, "a")
    mine.step()
    mine.leases.weigh({0: 1000, 1: 1000})
    mine.end()
    mine.step()
    mine.leases.weigh({0: 1200, 1: 5000})
    mine.end()
    assert kept(world) == {0: 1000, 1: 5000}


def test_who_lost_its_shards_says_nothing_of_their_weight() -> None:
    """It sleeps with what it measured while another takes them and measures anew."""
    world = World(1)
    mine, other = weighing(world, "a"), weighing(world, "b")
    mine.step()
    mine.leases.weigh({0: 10})
    run(world, [other], 3 * TIMEOUT_S)
    other.leases.weigh({0: 2000})
    assert other.working == {0}
    mine.end()
    assert kept(world) == {0: None}
    other.end()
    assert kept(world) == {0: 2000}
