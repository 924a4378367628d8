"""Shards that idle, start quietly, split, drain empty, or lose their data to retention."""

import pytest

from pipelines.landing.inspection.describe import describe, preview
from pipelines.landing.inspection.verify import verify
from sls_io.planning.waits import HELD, Why, for_parents
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_EXPIRED, GAP_SHARD_GONE
from sls_io.values.errors import ConfigError
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.two_runs import At

LOW, HIGH = "0" * 32, "f" * 32
"""Hash keys in the first and in the last shard."""


def gone_by_retention(world: World, shard: int) -> None:
    """Retention takes a read-only shard with all its logs."""
    world.emulator.admin.retain(PROJECT, "access_logs", shard=shard, drop=True)


def test_an_idle_shard_holds_no_other_back(world: World) -> None:
    world.put(20, key=LOW, pass_s=60)

    report = world.land()

    assert report.rows == 20
    assert report.waits[1].kind is Why.DRAINED
    assert set(world.ledger.shards) == {0, 1}
    world.assert_each_log_once()


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


@pytest.mark.fault("4b.drain.after")
def test_a_shard_drained_before_its_split_is_closed_and_lets_its_children_go(world: World) -> None:
    """Its checkpoint is the same as before and is sent all the same: only then the service looks."""
    world.land_more(20, key=LOW)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(30, key=LOW, pass_s=60)

    closing, children = world.land(), world.land()

    assert (closing.rows, closing.files, closing.closed) == (0, 0, (0,))
    assert closing.snapshot_id is not None
    assert children.rows == 30
    world.assert_each_log_once()


@pytest.mark.fault("4b.drain.commit")
def test_an_empty_read_only_shard_is_closed_with_zero_rows(world: World) -> None:
    world.emulator.admin.split(PROJECT, "access_logs", 1)
    world.put(15, key=HIGH, pass_s=60)

    closing, children = world.land(), world.land()

    assert (closing.rows, closing.closed) == (0, (1,))
    assert world.ledger.shards[1].end == world.ledger.shards[1].start
    assert children.rows == 15
    world.assert_each_log_once()


@pytest.mark.fault("4b.reshape.plan")
def test_merged_shards_child_waits_for_both_parents(world: World) -> None:
    world.land_more(20)
    world.put(10, key=HIGH)
    world.emulator.admin.merge(PROJECT, "access_logs", 0)
    world.put(30, pass_s=60)

    parents, child = world.land(), world.land()

    assert (parents.rows, parents.closed) == (10, (0, 1))
    assert child.rows == 30
    world.assert_sound()


@pytest.mark.fault("4b.reshape.commit", "4b.drain.plan")
def test_a_split_in_between_write_and_publish_does_not_close_a_shard_too_early(world: World) -> None:
    """The end was read while the shard took writes; what came after it is landed by the next run."""
    world.put(20, key=LOW, pass_s=60)

    def more_then_split() -> None:
        world.put(10, key=LOW)
        world.emulator.admin.split(PROJECT, "access_logs", 0)

    first = world.land(on_event=At("write.done", more_then_split))
    world.pass_by(60)
    second = world.land()

    assert (first.rows, first.closed) == (20, ())
    assert (second.rows, second.closed) == (10, (0,))
    world.assert_each_log_once()


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


@pytest.mark.fault("4b.expired.pull")
def test_retention_that_overtakes_a_run_costs_the_window_and_then_a_gap(world: World) -> None:
    """Between plan and pull the window's first groups go: what is read is not landed as if whole."""
    world.put(40, key=LOW)
    world.land_more(10, key=HIGH)
    world.put(40, key=LOW)
    world.put(10, key=HIGH, pass_s=60)
    frontier = int(world.ledger.shards[0].frontier)
    begin = sorted({c for shard, c, _ in world.truth() if shard == 0 and c >= frontier})[3]

    def expire() -> None:
        world.emulator.admin.retain(PROJECT, "access_logs", shard=0, before_cursor=begin)

    overtaken = world.land(on_event=At("write", expire))
    assert world.land().suspects, "younger than retention: it is looked at again, a group timeout later"
    world.pass_by(60)
    after = world.land()

    assert overtaken.rows == 10, "the other shard's"
    assert "retention" in overtaken.waits[0].text
    assert after.gaps == (f"shard 0: [{frontier}, {begin}) {GAP_EXPIRED}",)
    assert after.rows == 40 - 15
    world.assert_proved()


@pytest.mark.fault("4b.expired.plan")
def test_a_shard_that_retention_removed_is_a_gap_and_its_children_go_on(world: World) -> None:
    world.land_more(20, key=LOW)
    world.put(10, key=LOW)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(30, key=LOW)
    gone_by_retention(world, 0)
    world.pass_by(60)

    assert world.land().suspects
    world.pass_by(60)
    world.land()
    world.pass_by(60)
    children = world.land()

    gap = world.ledger.shards[0].gaps[0]
    assert (gap.end, gap.cause) == (CURSOR_UNKNOWN, GAP_SHARD_GONE)
    assert world.ledger.shards[0].closed
    assert children.rows == 30
    with world.client as client:
        assert verify(world.logstore, world.lake, client).shards[0].gaps == (f"[{gap.begin}, ?) {gap.cause}",)


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
