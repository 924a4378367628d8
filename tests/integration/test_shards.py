"""Shards that idle, start quietly, split, drain empty, or lose their data to retention."""

import pytest

from pipelines.landing.inspection.describe import describe, preview
from pipelines.landing.inspection.verify import verify
from sls_io.planning.waits import HELD, for_parents
from sls_io.values.claim import GAP_EXPIRED
from sls_io.values.errors import ConfigError
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World

LOW, HIGH = "0" * 32, "f" * 32
"""Hash keys in the first and in the last shard."""


def test_an_idle_shard_moves_its_receive_time_on_without_rows(world: World) -> None:
    """Once an hour edge has passed, and only then, it costs a commit of its own."""
    world.land_more(20, key=LOW)
    world.at(HOUR0_S + 3600 + 30)

    idle = world.land()
    again = world.land()

    assert (idle.rows, idle.files) == (0, 0)
    assert idle.snapshot_id is not None
    assert {s: e.reached_s // 3600 for s, e in world.ledger.shards.items()} == {0: HOUR0 + 1, 1: HOUR0 + 1}
    assert again.snapshot_id is None
    assert idle.lag_s == 0
    world.emulator.admin.advance(1200)
    assert world.land().lag_s == 0, "nothing waits, however long ago the last log came"
    world.put(1, key=LOW, pass_s=300)
    assert world.land(mode="live").lag_s == 0


def test_a_quiet_start_with_latest_lands_only_what_comes_later(world: World) -> None:
    world.put(20, pass_s=60)
    logstore = world.changed(reset="latest")

    first = world.land(logstore=logstore)
    world.put(10, pass_s=60)
    second = world.land(logstore=logstore)

    assert (first.rows, second.rows) == (0, 10)
    assert {int(r["n"]) for r in world.table_rows()} == set(range(20, 30))
    world.assert_proved()


def test_a_start_by_policy_none_is_refused_until_somebody_chooses(world: World) -> None:
    world.put(10, pass_s=60)

    with pytest.raises(ConfigError, match="reset is 'none'"):
        world.land(logstore=world.changed(reset="none"))

    assert world.landings() == []
    assert world.land(logstore=world.changed(reset="1h")).rows == 10


def test_a_start_from_the_groups_checkpoint_lands_what_the_group_has_not_read(world: World) -> None:
    world.put(20, key=LOW)
    with world.client as client:
        client.create_group(world.logstore.group)
        client.heartbeat("lake", "before", [])
        middle = client.pull(0, client.cursor_at(0, "begin"), groups_max=1).next
        client.save_checkpoint("lake", "before", 0, middle)
    world.emulator.admin.advance(31)

    report = world.land(logstore=world.changed(reset="group"))

    assert report.rows == 15, "one group of five logs had been read"
    world.assert_proved()


@pytest.mark.fault("4b.reshape.plan")
def test_a_split_shards_children_land_after_their_parent_is_closed(world: World) -> None:
    world.land_more(20)
    world.put(10, key=LOW)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(30, key=LOW, pass_s=60)

    parent = world.land()
    children = world.land()

    assert (parent.rows, parent.closed) == (10, (0,))
    assert all(parent.waits.get(c, HELD) in (HELD, for_parents([0])) for c in (2, 3))
    assert children.rows == 30
    assert set(world.ledger.shards) == {0, 1, 2, 3}
    closed_in = next(i for i, (_, ws) in enumerate(world.landings()) if any(w.rows == 10 for w in ws))
    child_in = [i for i, (_, ws) in enumerate(world.landings()) if any(w.window.shard in (2, 3) for w in ws)]
    assert min(child_in) > closed_in
    world.assert_sound()


@pytest.mark.fault("4b.expired.plan")
def test_expired_logs_become_a_named_gap_that_everybody_sees(world: World) -> None:
    world.land_more(20, key=LOW)
    world.put(30, key=LOW)
    truth = world.truth()
    frontier = int(world.ledger.shards[0].frontier)
    begin = sorted({cursor for shard, cursor, _ in truth if shard == 0 and cursor >= frontier})[2]
    world.emulator.admin.retain(PROJECT, "access_logs", shard=0, before_cursor=begin)
    world.pass_by(60)

    with world.client as client:
        doubted = preview(world.logstore, world.lake, client)
        first = world.land()
        world.pass_by(60)
        planned = preview(world.logstore, world.lake, client).gaps
    report = world.land()

    assert doubted.suspects == first.suspects != () == doubted.gaps == first.gaps
    line = f"shard 0: [{frontier}, {begin}) {GAP_EXPIRED}"
    assert planned == report.gaps == (line,)
    assert set(world.identities()) == {i for i in truth if not (i[0] == 0 and frontier <= i[1] < begin)}, (
        "all but the expired ones"
    )
    assert [(int(g.begin), int(g.end), g.cause) for g in world.ledger.shards[0].gaps] == [
        (frontier, begin, GAP_EXPIRED)
    ]
    with world.client as client:
        proof = verify(world.logstore, world.lake, client)
        views = describe(world.logstore, world.lake, client)
    assert proof.ok
    assert proof.shards[0].gaps == (f"[{frontier}, {begin}) {GAP_EXPIRED}",)
    assert views[0].frontier == views[0].end == world.checkpoints()[0]
    assert world.land().gaps == (), "named once"


@pytest.mark.fault("4b.expired.plan")
@pytest.mark.parametrize("days", [31, 29], ids=["older than retention", "younger"])
def test_a_child_that_nobody_saw_for_longer_than_retention_begins_with_a_named_gap(
    world: World, days: int
) -> None:
    """Its first logs may have come and gone unseen; a child that is younger has lost nothing."""
    world.land_more(20, key=LOW)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(10, key=LOW, pass_s=days * 86400.0)
    world.put(30, key=LOW, pass_s=60)

    with world.client as client:
        child = next(s.id for s in client.shards() if s.id > 1 and client.head(s).begin < client.head(s).end)
        begin = client.cursor_at(child, "begin")
        planned = preview(world.logstore, world.lake, client).gaps
    reports = []
    for _ in range(4):  # the parent is gone, too: suspected, then written off, then the child's turn comes
        reports.append(world.land())
        world.pass_by(60)

    line = f"shard {child}: [0, {begin}) {GAP_EXPIRED}"
    assert (line in planned) == any(line in report.gaps for report in reports) == (days > 30)
    assert sum(r.rows for r in reports) == (30 if days > 30 else 40)
    assert world.ledger.shards[child].start == begin
    assert world.land().gaps == (), "named once"
    world.assert_proved()


@pytest.mark.fault("4b.huge.plan")
def test_a_run_out_of_budget_stops_at_a_page_edge_and_the_next_goes_on_there(world: World) -> None:
    budget = {**world.logstore.budget.model_dump(), "bytes_max": 1, "page_groups_max": 2}
    small = world.changed(budget=budget)
    world.put(30, key=LOW, pass_s=60)
    pulls = world.watch_pulls()

    reports = [world.land(logstore=small) for _ in range(3)]

    assert [r.rows for r in reports] == [10, 10, 10]
    assert "byte budget" in reports[0].waits[0].text
    pulls.assert_none_twice()
    world.assert_sound()


def test_many_hours_land_as_one_window_each(world: World) -> None:
    for hour in range(4):
        world.at(HOUR0_S + hour * 3600 + 1800)
        world.put(10, key=LOW)
    world.pass_by(60)

    report = world.land()

    assert {hour: x.rows for hour, x in report.hours.items()} == {HOUR0 + i: 10 for i in range(4)}
    assert [w.window.hour for w in world.landings()[-1][1]] == [HOUR0 + i for i in range(4)]
    world.assert_each_log_once()
