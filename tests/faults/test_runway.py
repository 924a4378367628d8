"""Retention on its way to logs that have not landed: seen from far, counted down, named when it was there."""

from contextlib import ExitStack
from functools import partial

import pytest

from pipelines.landing.inspection.describe import describe
from pipelines.landing.inspection.runway import Runway, runway, spoken
from pipelines.landing.inspection.table_files import hours_of
from pipelines.landing.operations.pause import plan_pause
from pipelines.landing.watch.health import Kind, Level, TimeLeft, Vitals, Waits, findings
from pipelines.landing.watch.vitals import vitals
from sls_io.checkpoints.lag import lags
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.wire.heads import Heads
from tests.worlds.one_logstore import PROJECT, World

LOW, HIGH = "0" * 32, "f" * 32
DAY = 24 * 3600.0


def look(world: World, later_s: float = 0.0) -> Runway:
    """The runway, seen by a driver whose clock stands `later_s` after now."""
    with world.client as client:
        return runway(world.logstore, world.lake, client, clock=ManualClock(SYSTEM_CLOCK.now() + later_s))


def level(world: World, found: Runway) -> Level:
    """How wrong it is."""
    (finding,) = findings(Vitals(runway=TimeLeft(found)), world.logstore)
    return finding.level


def deleted_at_s(world: World, found: Runway, shard: int) -> float:
    left_s = next(s for s in found.shards if s.shard == shard).left_s
    assert left_s is not None
    return world.emulator.admin.now() + left_s


@pytest.mark.fault("4b.expired.after")
def test_a_landing_is_warned_long_before_retention_is_at_its_frontier_and_what_it_takes_is_said(
    quick: World,
) -> None:
    assert level(quick, look(quick)) is Level.OK, "there is no log"
    quick.put(20, key=LOW)
    quick.land_more(20, key=HIGH)
    caught_up = look(quick)
    assert (level(quick, caught_up), caught_up.shortest_s) == (Level.OK, 30 * DAY)

    quick.put(10, key=LOW)
    received_s = quick.emulator.admin.now()
    quick.pass_by(20 * DAY)
    far = look(quick)
    assert level(quick, far) is Level.OK
    assert deleted_at_s(quick, far, 0) == pytest.approx(received_s + 30 * DAY, abs=5)
    assert [s.left_s for s in far.shards if s.shard == 1] == [None], "nothing of it waits"

    quick.pass_by(3 * DAY)
    near = look(quick, later_s=3600)
    assert level(quick, near) is Level.WARN
    assert near.shortest_s == pytest.approx(7 * DAY, abs=120)
    (short,) = near.short(7.5 * DAY)
    assert (short.shard, short.pace) == (0, 0.0), "no landing since, so the pace is nothing"
    assert short.overtaken_in_s == short.left_s

    quick.pass_by(8 * DAY)
    over = look(quick)
    assert (level(quick, over), over.shortest_s, [s.shard for s in over.short(0)]) == (Level.FAIL, 0.0, [0])
    assert "had not landed, and retention has taken it" in str([s.notes for s in quick.proof().shards])
    report = quick.land()
    assert len(report.gaps) == 1 and report.gaps[0].startswith("shard 0: ")
    named = look(quick)
    assert named.named == report.gaps and level(quick, named) is Level.FAIL, "whoever looks hears of a loss"
    assert level(quick, look(quick, later_s=DAY + 60)) is Level.OK, "for a day; nothing else is behind"


def test_the_pace_is_what_landings_of_the_last_day_say(quick: World) -> None:
    quick.land_more(20, key=LOW, pass_s=3600)
    first_s = quick.ledger.shards[0].reached_s
    quick.land_more(20, key=LOW, pass_s=6 * 3600)
    reached_s = quick.ledger.shards[0].reached_s - first_s
    quick.put(5, key=LOW, pass_s=60)
    # An hour of the driver's time after six hours of logs: landings are six times as fast as logs come.
    shard = look(quick, later_s=3600).shards[0]
    assert shard.pace == pytest.approx(reached_s / 3600, rel=0.05)
    assert shard.pace is not None and shard.pace > 5
    assert shard.overtaken_in_s is None


def test_a_logstore_that_keeps_its_logs_for_ever_has_no_end(quick: World) -> None:
    name = quick.logstore.service.logstore
    with quick.client as client:
        client.transport.update_logstore(PROJECT, name, ttl=3650, shard_count=2)
    quick.land_more(5)
    quick.put(5, pass_s=900 * DAY)
    found = look(quick)
    assert (found.retention_s, found.shortest_s, level(quick, found)) == (None, None, Level.OK)


def test_a_child_whose_beginning_went_unseen_is_lost_before_a_landing_says_so(quick: World) -> None:
    quick.land_more(20)
    quick.emulator.admin.split(PROJECT, quick.logstore.service.logstore, 0)
    quick.put(20, pass_s=60)
    assert level(quick, look(quick)) is Level.OK
    quick.pass_by(31 * DAY)
    quick.put(10)
    unseen = {s.shard for s in look(quick).shards if s.lost} - set(quick.ledger.shards)
    assert unseen == {2, 3}
    quick.pass_by(3 * 3600)
    with quick.client as client:
        seen = vitals(quick.logstore, lambda: quick.lake, lambda: client)
    assert isinstance(seen.lag, Waits) and seen.lag.age_s == pytest.approx(3 * 3600, abs=60)
    gaps = [gap for _ in range(2) for gap in quick.land().gaps]
    assert {2, 3} <= {int(gap.split(":")[0].removeprefix("shard ")) for gap in gaps}
    quick.pass_by(60)
    quick.land()
    assert {*look(quick).named} >= {*gaps}
    assert level(quick, look(quick, later_s=DAY + 60)) is Level.OK


def test_what_retention_takes_of_a_paused_shard_waits_for_a_person(quick: World) -> None:
    quick.land_more(20, key=LOW)
    quick.carried_out(plan_pause, [0])
    quick.land_more(20, key=LOW, pass_s=25 * DAY)
    (said,) = spoken(look(quick), 7 * DAY)
    assert said.startswith("shard 0: its oldest log not landed is deleted in") and "pace" not in said
    assert said.endswith("nothing of it lands before somebody resumes it")
    assert look(quick).waits_for_a_person(7 * DAY) and not look(quick).suspect
    quick.pass_by(6 * DAY)
    lost = look(quick)
    assert not quick.land().gaps
    (said,) = spoken(lost, 0.0)
    assert (
        said.endswith("nothing of it lands before somebody resumes it") and level(quick, lost) is Level.FAIL
    )


def test_before_the_first_landing_it_is_that_of_what_would_land(quick: World) -> None:
    quick.put(20, key=LOW)
    received_s = quick.emulator.admin.now()
    quick.pass_by(23 * DAY)
    near = look(quick)
    assert level(quick, near) is Level.WARN
    assert deleted_at_s(quick, near, 0) == pytest.approx(received_s + 30 * DAY, abs=5)
    with quick.client as client:
        seen = vitals(quick.logstore, lambda: quick.lake, lambda: client)
    assert isinstance(seen.lag, Waits) and seen.lag.age_s == pytest.approx(23 * DAY, abs=5)
    quick.pass_by(8 * DAY)
    assert look(quick).lost is False, "where the history begins is not fixed yet"


def test_of_what_waits_behind_a_loss_the_lag_is_told(quick: World) -> None:
    quick.land_more(20, key=LOW)
    quick.put(10, key=LOW, pass_s=30 * DAY - 7 * 3600)
    quick.put(10, key=LOW, pass_s=8 * 3600)
    of_each = {"gap": "the next run names the gap", "fail": "with `expired: gap` the loss is named"}
    for expired, said in of_each.items():
        logstore = quick.logstore.model_copy(update={"expired": expired})
        with ExitStack() as opened:
            seen = vitals(logstore, lambda: quick.lake, partial(opened.enter_context, quick.client))
        assert isinstance(seen.lag, Waits) and seen.lag.age_s == pytest.approx(8 * 3600, abs=60)
        level_of = {found.kind: found.level for found in findings(seen, logstore)}
        assert level_of[Kind.LAG] is level_of[Kind.RUNWAY] is Level.FAIL
        (runway_of,) = (found for found in findings(seen, logstore) if found.kind is Kind.RUNWAY)
        assert said in runway_of.text and runway_of.numbers["runway h"] == 0


def test_the_files_of_each_hour_are_counted_for_those_who_look(quick: World) -> None:
    assert hours_of(quick.logstore, quick.lake) == ()
    quick.land_more(20, pass_s=3600)
    quick.land_more(30)
    first, second = hours_of(quick.logstore, quick.lake)
    assert (first.hour + 1, first.rows, first.files) == (second.hour, 20, 2)
    assert (second.rows, second.files) == (30, 2)


def test_who_shows_shards_from_several_sides_asks_each_question_once(quick: World) -> None:
    """Of 256 shards each question asked twice is 256 requests, and half a second."""
    for key in (LOW, HIGH):
        quick.put(20, key=key)
    quick.pass_by(60)
    quick.land()
    quick.put(10, key=LOW)
    quick.put(10, key=HIGH)
    admin = quick.emulator.admin
    asked = [admin.fault("observe", call=call, times=None) for call in ("get_cursor", "get_cursor_time")]
    with quick.client as client:
        heads = Heads(client)
        views = describe(quick.logstore, quick.lake, client, heads=heads)
        left = runway(quick.logstore, quick.lake, client, heads=heads)
        found = lags(client, {view.shard: view.frontier for view in views}, heads=heads)
    assert [view.lag_s for view in views] == pytest.approx([one.lag_s for one in found], abs=2)
    assert [view.end for view in views] == [one.end for one in found]
    assert all(one.waiting_since_s == there.received_s for one, there in zip(left.shards, found, strict=True))
    hits = {fault["id"]: fault["hits"] for fault in admin.faults()}
    assert [hits[one] for one in asked] == [2 * len(views), len(views)]
