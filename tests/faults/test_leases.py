"""A run takes a shard from another, by leases, and is killed, stopped, starved or not answered meanwhile.

Two holders have a shard each, and 60 logs are to come. Then `two` has let go of everything and takes its
shard back, or has it taken: in each case every log lands once.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from pipelines.landing.coordinators import coordinator_of, published
from sls_io.coordination.lease import FREE, Lease
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.errors import ClaimLost, ConfigError, SlsError, TransportError
from tests.backends.gate import Gate
from tests.backends.places import Servers
from tests.faults.forked_run import Forge
from tests.worlds.catalog_outage import Outage
from tests.worlds.one_logstore import World
from tests.worlds.two_runs import At
from tests.worlds.wrong_clocks import MINUTES_S, Stepped

LANDED_BEFORE, TO_COME = 20, 60
_TAKE = b"lease_owner='two', consumer_owner="
"""Only the statement in which `two` takes a lease has these bytes."""


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """PostgreSQL, where a test asks for it."""
    made = Servers()
    yield made
    made.end()


@pytest.fixture
def filed(started: World, tmp_path: Path) -> World:
    """Leases in a file."""
    return settled(started, f"sqlite:///{tmp_path}/leases.db")


@pytest.fixture
def served(
    started: World, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[World, Gate, str]]:
    """Leases in PostgreSQL behind a gate, and its address without the gate."""
    address = servers.postgres.new_database()
    gate = Gate(servers.postgres.port, _TAKE)
    monkeypatch.setenv("LEASES", address.replace(f":{servers.postgres.port}/", f":{gate.port}/"))
    yield settled(started, ""), gate, address
    gate.end()


def settled(world: World, database: str) -> World:
    """The world with `one` as its holder; `one` and `two` have a shard each, and both have let go."""
    place = {"database": database or "env:LEASES"}
    world.logstore = world.changed(
        coordinator=place,
        group={**world.logstore.group.model_dump(), "holder": "one", "patience_s": 3},
    )
    with world.client as client:
        for holder, count in (("one", 2), ("two", 1), ("one", 1)):
            coordinator = coordinator_of(world.with_holder(holder), client)
            assert len(coordinator.claim().shards) == count
            coordinator.release()
    return world


def leases(world: World) -> dict[int, Lease]:
    with world.client as client:
        coordinator = coordinator_of(world.logstore, client)
        assert isinstance(coordinator, SqlLease)
        rows = dict(coordinator.look().leases)
        coordinator.close()
        return rows


def of_two(world: World) -> Lease:
    (found,) = (lease for lease in leases(world).values() if lease.owner == "two")
    return found


def assert_the_next_runs_land(world: World, rows: int) -> None:
    """The next run of each holder lands what is missing, and then all is whole."""
    assert world.land(logstore=world.with_holder("two")).rows + world.land().rows == rows
    assert_whole(world)


def assert_whole(world: World) -> None:
    world.assert_sound()
    with world.client as client:
        points = {shard: point.cursor for shard, point in published(world.logstore, client).items()}
    assert points == {shard: entry.frontier for shard, entry in world.ledger.shards.items()}


@pytest.mark.fault("4a.9.kill")
@pytest.mark.parametrize("word", ["silent", "refused"])
def test_a_taker_that_is_killed_while_it_takes(
    served: tuple[World, Gate, str], forge: Forge, word: str
) -> None:
    """Its request arrived, and it never hears of it; or it never arrived."""
    world, gate, _ = served
    gate.script.append(word)
    variables = {"LEASES": os.environ["LEASES"]}
    run = forge.run(world.with_holder("two"), world.lake, environment=variables)
    until(lambda: bool(gate.acted))

    os.kill(run.pid, signal.SIGKILL)

    assert run.ended() == -signal.SIGKILL
    gate.end()
    os.environ["LEASES"] = served[2]
    assert len(world.table_rows()) == LANDED_BEFORE
    assert_the_next_runs_land(world, TO_COME)


@pytest.mark.fault("4a.9.stop")
def test_a_holder_that_sleeps_while_its_shard_is_taken_lands_nothing_twice(
    filed: World, forge: Forge
) -> None:
    sleeper = forge.run(filed.with_holder("two"), filed.lake, act="stop", point="write.done")
    sleeper.stopped()
    first = filed.land()
    assert of_two(filed).lease_id != FREE

    second = filed.land(clock=Stepped(60.0))

    assert first.rows > 0 < second.rows and first.rows + second.rows == TO_COME
    assert {lease.owner for lease in leases(filed).values()} == {"one"}
    sleeper.wake()
    assert len(filed.table_rows()) == LANDED_BEFORE + TO_COME
    assert_the_next_runs_land(filed, 0)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("refused", marks=pytest.mark.fault("4a.9.request_lost", "4a.9.refused"), id="refused"),
        pytest.param("lost", marks=pytest.mark.fault("4a.9.reply_lost"), id="lost"),
    ],
)
def test_a_taking_without_an_answer_is_tried_again_or_seen_in_the_row(
    served: tuple[World, Gate, str], answer: str
) -> None:
    world, gate, _ = served
    gate.script.append(answer)
    landed = world.land(logstore=world.with_holder("two")).rows
    assert gate.acted == [answer]
    assert 0 < landed < TO_COME
    assert world.land().rows == TO_COME - landed
    assert_whole(world)


@pytest.mark.fault("4a.9.refused")
def test_a_database_that_refuses_the_taking_ends_the_run_with_its_name(
    served: tuple[World, Gate, str],
) -> None:
    world, _, address = served
    rows = "loghub_client_shard_lease"
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {rows} RENAME COLUMN lease_owner TO owner"))
    with pytest.raises((ConfigError, TransportError), match="database postgresql://"):
        world.land(logstore=world.with_holder("two"))
    with engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {rows} RENAME COLUMN owner TO lease_owner"))
    engine.dispose()
    assert_the_next_runs_land(world, TO_COME)


@pytest.mark.fault("4a.9.late")
def test_a_taking_that_arrives_late_is_refused_by_the_lease_id(served: tuple[World, Gate, str]) -> None:
    """The row is locked by whoever takes it first; the second one's statement waits behind it, in the
    database, and meets another id."""
    world, gate, address = served
    shard, sent, done = of_two(world).shard, threading.Event(), threading.Event()
    outcome: list[object] = []

    def two() -> None:
        sent.set()
        try:
            outcome.append(world.land(logstore=world.with_holder("two")).rows)
        except SlsError as error:
            outcome.append(error)
        done.set()

    engine = create_engine(address)
    thread = threading.Thread(target=two)
    gate.script.append("")
    with engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE loghub_client_shard_lease SET lease_id = 77, lease_owner = 'one', "
                "consumer_owner = 'one' WHERE shard_id = :shard"
            ),
            {"shard": shard},
        )
        thread.start()
        until(lambda: bool(gate.acted))
        assert not done.is_set()
    thread.join(60)
    engine.dispose()

    assert isinstance(outcome[0], ClaimLost), outcome
    assert leases(world)[shard].consumer == "one" or leases(world)[shard].owner == "two"
    assert len(world.table_rows()) == LANDED_BEFORE
    assert world.land().rows == TO_COME, "under its own name it needs not wait"
    assert_whole(world)


@pytest.mark.fault("4a.9.clock")
@pytest.mark.parametrize("off_s", MINUTES_S, ids=["ahead", "behind"])
def test_a_clock_that_is_wrong_by_minutes_takes_nothing_from_who_works(filed: World, off_s: float) -> None:
    with filed.client as client:
        working = coordinator_of(filed.with_holder("two"), client)
        (shard,) = working.claim().shards
        mine = filed.land(clock=Stepped(off_s)).rows
        assert 0 < mine < TO_COME
        assert working.renew().shards == {shard}
        working.release()
    assert filed.land(logstore=filed.with_holder("two")).rows == TO_COME - mine
    assert_whole(filed)


@pytest.mark.fault("4a.9.disk_full")
def test_a_full_disk_under_the_leases_ends_the_run_and_takes_nothing(filed: World, forge: Forge) -> None:
    before = leases(filed)
    run = forge.run(filed.with_holder("two"), filed.lake, act="disk", point="claim")
    assert run.ended() == 2
    assert leases(filed) == before
    assert_the_next_runs_land(filed, TO_COME)


@pytest.mark.fault("4a.9.catalog_down")
def test_taking_needs_no_catalog_and_what_was_taken_is_let_go_without_one(filed: World) -> None:
    outage = Outage(filed)
    two = filed.with_holder("two")
    with pytest.raises(TransportError, match=r"catalog .* cannot be (reached|used)"):
        filed.land(logstore=two, on_event=At("read_ledger", outage.begin))
    outage.end()
    assert of_two(filed).lease_id == FREE
    assert_the_next_runs_land(filed, TO_COME)


def until(true: Callable[[], bool]) -> None:
    """Return once it is, looking again and again; a test that waits for ever is ended from outside."""
    while not true():
        os.sched_yield()
