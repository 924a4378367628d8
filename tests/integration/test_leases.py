"""Landings whose shards are held by leases in a database: each log once, and checkpoints in the same rows."""

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_USAGE
from pipelines.landing.coordinators import coordinator_of, published
from pipelines.landing.inspection.describe import describe
from pipelines.landing.ledger.start import find_table
from pipelines.landing.ledger.state import read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.operations.seek import readers_of
from pipelines.landing.run.report import CheckpointOutcome, LandingReport
from sls_io.coordination.lease_tables import METADATA, VERSION_TABLE
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.errors import ClaimLost, ConfigError, LedgerBroken, ServiceError, TransportError
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World, make_lake
from tests.worlds.other_region import relabel
from tests.worlds.two_runs import At, at_once


@pytest.fixture
def leased(world: World, tmp_path: Path) -> World:
    """A world of two shards whose leases are in a file; its holder is `one`."""
    world.logstore = world.changed(
        coordinator={"database": f"sqlite:///{tmp_path}/leases.db"},
        group={**world.logstore.group.model_dump(), "holder": "one", "patience_s": 1},
    )
    return world


def settled(world: World) -> list[Logstore]:
    """Settings of two holders that have a shard each, and 60 logs that nobody has landed."""
    world.begun(10, 60)
    both = [world.logstore, world.with_holder("two")]
    with world.client as client:
        for logstore in reversed(both):
            coordinator = coordinator_of(logstore, client)
            assert len(coordinator.claim().shards) == 1
            coordinator.release()
    return both


def checkpoints(world: World) -> dict[int, int | None]:
    with world.client as client:
        return {shard: point.cursor for shard, point in published(world.logstore, client).items()}


def test_two_holders_that_take_turns_land_each_log_once(leased: World) -> None:
    leased.begun(10, 60)
    pulls = leased.watch_pulls()

    second = leased.land(logstore=leased.with_holder("two"))
    first = leased.land()

    assert second.rows > 0 < first.rows and first.rows + second.rows == 60
    pulls.assert_none_twice()
    leased.assert_sound()
    assert checkpoints(leased) == {s: entry.frontier for s, entry in leased.ledger.shards.items()}
    with pytest.raises(ServiceError, match="ConsumerGroupNotExist"):
        leased.checkpoints()


def test_two_holders_at_once_land_each_log_once_and_pull_no_page_twice(leased: World) -> None:
    both = settled(leased)
    pulls = leased.watch_pulls()
    reports = at_once(leased, both)

    assert sorted(r.rows > 0 for r in reports) == [True, True]
    assert sum(r.rows for r in reports) == 60
    pulls.assert_none_twice()
    leased.assert_each_log_once()
    assert checkpoints(leased) == {s: entry.frontier for s, entry in leased.ledger.shards.items()}


def test_a_run_whose_name_another_process_takes_claims_no_checkpoint_back(leased: World) -> None:
    """Two processes of one name: the younger has the shards, and each log still lands once."""
    leased.begun(10, 60)
    won: list[LandingReport] = []
    lost = leased.land(on_event=At("publish", lambda: won.append(leased.land())))
    assert (won[0].rows, lost.rows) == (60, 0)
    leased.assert_each_log_once()
    assert checkpoints(leased) == {s: entry.frontier for s, entry in leased.ledger.shards.items()}


def test_who_stands_by_lands_nothing_and_says_whose_turn_it_is(leased: World) -> None:
    settled(leased)
    with pytest.raises(ClaimLost, match="'three' stands by: 3 workers share 2 shards, and 'one', 'two'"):
        leased.land(logstore=leased.with_holder("three"))


def test_describe_shows_how_far_who_is(leased: World) -> None:
    one, _ = settled(leased)
    with leased.client as client:
        held = coordinator_of(one, client)
        (mine,) = held.claim().shards
        views = {view.shard: view for view in describe(one, leased.lake, client)}
        assert views[mine].consumers == {"one": "PROCESSING"}
        assert views[1 - mine].consumers == {"two": "STOP_COMPLETED"}
        assert views[mine].holder == "one"
        held.release()


def test_holders_that_share_by_weight_know_it_from_what_those_before_them_landed(leased: World) -> None:
    """A busy shard is as much as two quiet ones, and the closed parent of these is nothing."""
    coordinator = {**leased.logstore.coordinator.model_dump(), "assignor": "weighted"}
    leased.logstore = leased.changed(coordinator=coordinator)
    leased.begun(10, 0)
    leased.emulator.admin.split(PROJECT, "access_logs", 1)
    for _ in range(4):
        for key, rows in (("0", 800), ("8", 400), ("f", 400)):
            leased.put(rows, key=key.ljust(32, "0"), logs_a_group=100)
        leased.emulator.admin.advance(HOUR_S)
        leased.land()
    came = Counter[int]()
    for landed in (one for _, windows in leased.landings() for one in windows):
        came[landed.window.shard] += landed.raw_bytes if landed.window.hour == HOUR0 + 2 else 0

    with leased.client as client:
        members = coordinator_of(leased.with_holder("two"), client)
        assert isinstance(members, SqlLease)
        weights = {shard: lease.weight for shard, lease in members.look().leases.items()}
        theirs = members.claim().shards
        members.release()

    assert came[0] > came[2] > 0 < came[3]
    assert weights == {0: near(came[0]), 1: 0, 2: near(came[2]), 3: near(came[3])}
    assert theirs == {0}
    leased.assert_each_log_once()


@pytest.mark.parametrize("assignor", ["sticky", "range", "round_robin"])
def test_after_a_split_each_of_two_holders_has_open_shards(leased: World, assignor: str) -> None:
    """One has let go of the two that were split, and the other takes what is its own of all six."""
    coordinator = {**leased.logstore.coordinator.model_dump(), "assignor": assignor}
    leased.logstore = leased.changed(coordinator=coordinator)
    leased.begun(10, 0)
    for parent in (0, 1):
        leased.emulator.admin.split(PROJECT, "access_logs", parent)
    with leased.client as client:
        still_open = {shard.id for shard in client.shards() if not shard.readonly}
        joined = coordinator_of(leased.with_holder("two"), client)
        joined.claim()
        joined.release()
        held = []
        for name in ("one", "two"):
            held.append(coordinator_of(leased.with_holder(name), client))
        shares = [one.claim().shards for one in held]
        for one in held:
            one.release()
    assert len(still_open) == 4
    assert [(len(share & still_open), len(share - still_open)) for share in shares] == [(2, 1), (2, 1)]


def near(size: int) -> object:
    """So many bytes an hour, in bytes a second, as near as a kept weight is."""
    return pytest.approx(size / HOUR_S, rel=0.25, abs=1)


def test_checkpoints_in_the_rows_are_repaired_from_the_table(leased: World) -> None:
    leased.begun(10, 60)
    with leased.run() as run:
        run.land()
    with leased.client as client:
        moves = plan_repair(leased.logstore, leased.lake, client)
        assert {move.difference for move in moves} == {"behind"}
        done = execute_repair(leased.logstore, leased.lake, client, moves)
    assert {point.outcome for point in done} == {CheckpointOutcome.MOVED}
    assert checkpoints(leased) == {s: entry.frontier for s, entry in leased.ledger.shards.items()}


def test_a_label_that_was_put_right_leaves_holders_and_checkpoints_where_they_are(leased: World) -> None:
    """A holder that joined before is not overlooked, and what it published goes on."""
    leased.begun(10, 60)
    before = checkpoints(leased)
    assert before == {s: entry.frontier for s, entry in leased.ledger.shards.items()}
    with leased.client as before_it:
        working = coordinator_of(leased.with_holder("two"), before_it)
        (theirs,) = working.claim().shards
        kept = relabel(leased)
        with leased.client as client:
            views = {view.shard: view for view in describe(leased.logstore, leased.lake, client)}
            assert {shard: view.checkpoint for shard, view in views.items()} == before
            assert views[theirs].holder == "two"
            assert readers_of(leased.logstore, leased.lake, client) == ["two"]
        first = leased.land()
        working.release()
    second = leased.land(logstore=leased.with_holder("two"))

    assert first.rows > 0 < second.rows and first.rows + second.rows == 60
    frontiers = {s: entry.frontier for s, entry in read_state(leased.table).ledger(kept).shards.items()}
    with leased.client as client:
        views = {view.shard: view for view in describe(leased.logstore, leased.lake, client)}
    assert {shard: view.checkpoint for shard, view in views.items()} == frontiers


def test_checkpoints_in_the_rows_tell_of_a_table_that_was_there(leased: World, tmp_path: Path) -> None:
    leased.begun(10, 60)
    leased.emulator.admin.advance(3600)
    leased.land()
    with leased.client as client, pytest.raises(LedgerBroken, match="has checkpoints of shards 0, 1"):
        find_table(make_lake(tmp_path / "elsewhere"), leased.logstore, client)


def test_all_tables_of_leases_dropped_at_once_are_a_first_start_and_a_landing_makes_them_again(
    leased: World, tmp_path: Path
) -> None:
    """As `docs/reference.md` says; the checkpoints that were in them come from the table."""
    leased.begun(10, 60)
    leased.land()
    before = checkpoints(leased)
    connection = sqlite3.connect(tmp_path / "leases.db")
    with connection:
        for name in (*METADATA.tables, VERSION_TABLE):
            connection.execute(f"DROP TABLE {name}")
    connection.close()

    assert leased.land().rows == 0

    assert checkpoints(leased) == before == {s: e.frontier for s, e in leased.ledger.shards.items()}
    leased.assert_each_log_once()


def test_a_new_table_may_begin_where_the_leases_stand(leased: World, tmp_path: Path) -> None:
    leased.begun(10, 60)
    elsewhere = make_lake(tmp_path / "elsewhere")
    anew = leased.changed(reset="group")
    report = leased.land(logstore=anew, lake=elsewhere)
    assert report.rows == 60, "the ten before were landed into the other table"


def test_looking_makes_nothing(leased: World, tmp_path: Path) -> None:
    leased.at(HOUR0_S + 120)
    with leased.client as client:
        assert published(leased.logstore, client) == {}
    assert not (tmp_path / "leases.db").exists()


def test_a_variable_that_is_not_set_is_named(leased: World, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = leased.changed(coordinator={"database": "env:NO_SUCH_LEASES"})
    with pytest.raises(ConfigError, match="NO_SUCH_LEASES is not set; export"):
        leased.land(logstore=secret)
    monkeypatch.setenv("NO_SUCH_LEASES", leased.logstore.coordinator.database)
    leased.begun(10, 5)
    assert leased.land(logstore=secret).rows == 5


def test_a_database_that_takes_no_change_is_said_and_nobody_is_blamed(leased: World, tmp_path: Path) -> None:
    settled(leased)
    with sqlite3.connect(tmp_path / "leases.db") as database:
        database.execute(
            "CREATE TRIGGER shut BEFORE UPDATE ON loghub_client_shard_lease "
            "BEGIN SELECT RAISE(ABORT, 'it is shut'); END"
        )
    with pytest.raises(TransportError, match=r"leases\.db cannot be asked: it is shut"):
        leased.land()
    with sqlite3.connect(tmp_path / "leases.db") as database:
        database.execute("DROP TRIGGER shut")
    assert leased.land().rows > 0


@pytest.mark.parametrize(
    "words",
    [
        ("checkpoints", "show"),
        ("checkpoints", "show", "group:lake"),
        ("checkpoints", "set", "--from", "ledger", "--to", "group"),
    ],
    ids=" ".join,
)
def test_verbs_about_a_group_say_that_checkpoints_are_beside_the_leases(
    leased: World, command: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    settled(leased)
    defs = tmp_path / "defs.yaml"
    kind = f'{{database: "sqlite:///{tmp_path}/leases.db"}}'
    defs.write_text(f"{defs.read_text()}  coordinator: {kind}\n")
    refused = command(*words)
    assert refused["code"] == EXIT_USAGE and "sls-lake describe   # shows them" in refused["error"]
    assert command("describe")["code"] == 0
    assert "by leases" in command("groups", "list", json=False)["text"]
