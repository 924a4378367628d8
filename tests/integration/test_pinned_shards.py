"""Shards that the settings name: read by declaration, beside whoever reads the others."""

from pathlib import Path

import dagster as dg
import pytest

from pipelines.landing.coordinators import check_unheld, coordinator_of
from pipelines.landing.inspection.describe import describe, preview
from pipelines.landing.inspection.runway import runway, spoken
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.repair import plan_repair
from pipelines.landing.watch.health import Kind, Level, findings
from pipelines.landing.watch.look import look
from pipelines.landing.watch.sealed import sealing
from pipelines.landing.watch.vitals import vitals
from sls_io.planning.waits import Why
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from sls_io.values.errors import ClaimLost, ConfigError
from sls_io.values.window import HOUR_S
from tests.integration.sensor_site import MakeSite
from tests.worlds.command_line import Command, settings
from tests.worlds.one_logstore import HOUR0, PROJECT, World
from tests.worlds.two_runs import At, at_once

DAY_S = 24 * HOUR_S
LOW, HIGH = "0".ljust(32, "0"), "8".ljust(32, "0")


def named(world: World, *shards: int, **changes: object) -> Logstore:
    """The world's settings, with these shards."""
    return world.changed(shards=list(shards), **changes)


def landed_of(world: World) -> set[int]:
    """The shards of which rows are in the table."""
    return {row["__shard__"] for row in world.table_rows()}


def finding_of(world: World, logstore: Logstore, kind: Kind, *, whole: bool = False) -> tuple[Level, str]:
    """What the finding of that kind says."""
    with world.client as client:
        facts = vitals(logstore, lambda: world.lake, lambda: client, whole=whole)
    (found,) = (f for f in findings(facts, logstore) if f.kind is kind)
    return found.level, found.text


def lag_of(world: World, logstore: Logstore) -> tuple[Level, str]:
    """What the finding of the kind `lag` says."""
    return finding_of(world, logstore, Kind.LAG)


@pytest.mark.spark
def test_two_deployments_that_name_different_shards_land_all_rows_once(world: World) -> None:
    """Each with the same group, holder and table; the group is never made, and no checkpoint is kept."""
    both = [named(world, 0), named(world, 1)]
    world.put(40, pass_s=60)
    for logstore in both:
        world.land(logstore=logstore)
    world.put(40, pass_s=60)

    reports = at_once(world, both)

    assert all(report.rows for report in reports), "neither was fenced by the other"
    assert sum(report.rows for report in world.reports) == 80
    assert [report.waits[other].kind for report, other in zip(reports, (1, 0), strict=True)] == [
        Why.UNNAMED
    ] * 2
    world.assert_sound()
    with world.client as client:
        assert client.groups() == []


def test_a_landing_reads_the_named_shards_alone_and_the_others_are_not_missing(world: World) -> None:
    world.put(40, pass_s=60)

    report = world.land(logstore=named(world, 1))

    assert landed_of(world) == {1}
    assert str(report.waits[0]) == "left to others, `shards` names 1; nothing of it has landed"
    assert world.ledger.shards.keys() == {0, 1}, "a history begins once, for every shard"
    world.assert_proved()
    other = world.land(logstore=named(world, 0))
    assert other.rows > 0 and str(other.waits[1]) == "left to others, `shards` names 0"
    world.assert_each_log_once()


def test_a_plan_and_a_description_say_what_is_left_to_others(
    world: World, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "defs.yaml").write_text(f"{settings(world)}  shards: [0]\n")
    world.put(40, pass_s=60)

    before = command("land", "--dry-run")
    assert {window[0] for window in before["windows"]} == {0}
    assert before["waits"]["1"]["kind"] == "unnamed"
    landed = command("land")
    assert landed["code"] == 0 and landed["checkpoints"] == []
    assert command("land", "--dry-run")["waits"]["1"]["kind"] == "unnamed"

    shown = command("describe")
    assert [view["left"] for view in shown["shards"]] == [False, True]
    assert "shards 0 by name, table" in command("describe", json=False)["text"]
    assert [one["shard"] for one in shown["runway"]["shards"]] == [0, 1], "nobody has landed any of shard 1"
    assert {found["kind"]: found["level"] for found in shown["health"]}["lag"] == "warn"
    world.land(logstore=named(world, 1))
    shown = command("describe")
    assert [one["shard"] for one in shown["runway"]["shards"]] == [0]
    assert {found["kind"]: found["level"] for found in shown["health"]}["lag"] == "ok"
    assert command("verify")["code"] == 0 and command("verify", "--pull")["code"] == 0
    doctor = command("doctor", json=False)["text"]
    assert "shards 0 are read here" in doctor, doctor


def test_a_landing_is_refused_beside_a_group_that_holds_a_named_shard(world: World) -> None:
    world.land_more(20)
    world.pass_by(60)
    world.put(20, pass_s=60)
    with world.client as client:
        assert client.heartbeat("lake", "worker-7", []) == {0, 1}

    with pytest.raises(ClaimLost) as raised:
        world.land(logstore=named(world, 0))

    said = str(raised.value)
    assert "'worker-7' holds 0" in said and "`shards`" in said and "30 s" in said
    assert "give `group` a name" in str(raised.value.cures)
    world.pass_by(60)
    assert world.land(logstore=named(world, 0, 1)).rows == 20
    world.assert_each_log_once()


def test_a_landing_beside_a_group_that_holds_other_shards_goes_on(world: World) -> None:
    """A group with two members: one has shard 0, the other one shard 1, and then goes."""
    world.land_more(20)
    world.pass_by(60)
    with world.client as client:
        for _ in range(3):
            held = [client.heartbeat("lake", name, []) for name in ("one", "two")]
        (mine,) = held[0]
        world.put(20, pass_s=20)
        client.heartbeat("lake", "one", [mine])
        world.emulator.admin.advance(20)
        holders = {shard: point.holder for shard, point in client.checkpoints("lake").items()}
    free = [shard for shard, holder in holders.items() if holder != "one"]
    assert free == [1 - mine], holders

    assert world.land(logstore=named(world, *free)).rows > 0


def test_a_landing_is_refused_beside_a_lease_on_a_named_shard(world: World, tmp_path: Path) -> None:
    world.logstore = leased = world.changed(coordinator={"database": f"sqlite:///{tmp_path}/leases.db"})
    world.put(20, pass_s=60)
    with world.client as client:
        holder = coordinator_of(leased, client)
        assert holder.claim().shards == {0, 1}
        with pytest.raises(ClaimLost, match="holds 0"):
            world.land(logstore=named(world, 0))
        # A holder that was killed leaves its lease as it is: after a timeout nobody has it.
        check_unheld(named(world, 0), client, ManualClock(SYSTEM_CLOCK.now() + 31))
        holder.release()

    assert world.land(logstore=named(world, 0)).rows > 0


def test_a_shard_that_is_not_there_is_named_before_anything_begins(world: World) -> None:
    world.put(20, pass_s=60)
    wrong = named(world, 0, 7)

    with pytest.raises(ConfigError, match=r"shards: logstore access_logs has no shard 7; it has 0, 1"):
        world.land(logstore=wrong)

    assert not world.table_rows() and not world.landings(), "no history has begun"
    with world.client as client, pytest.raises(ConfigError, match="no shard 7"):
        preview(wrong, world.lake, client)


def test_children_of_a_named_shard_that_nobody_reads_are_told_until_somebody_names_them(world: World) -> None:
    mine, other = named(world, 0), named(world, 1)
    world.put(40, pass_s=60)
    for logstore in (mine, other):
        world.land(logstore=logstore)
    assert lag_of(world, mine)[0] is Level.OK
    world.put(10, key=LOW)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(30, key=LOW, pass_s=60)

    said = list[str]()
    report = world.land(logstore=mine, warn=said.append)
    told = (
        "the logstore has shards 2, 3, which `shards` does not name, and of which nothing has landed. Add "
        "2, 3 to `shards` of a deployment of the table, this one or another; where one names them already, "
        "this ends with its first landing of them"
    )

    assert (report.rows, report.closed) == (10, (0,)) and said == [told]
    with world.client as client:
        plan = preview(mine, world.lake, client)
    assert str(plan.waits[2]) == "left to others, `shards` names 0; nothing of it has landed"
    level, text = lag_of(world, mine)
    assert level is Level.WARN and told in text
    assert lag_of(world, other) == (level, text), "who named the parent may name it no more: all are told"
    world.emulator.admin.advance(2 * HOUR_S)
    assert lag_of(world, mine)[0] is Level.FAIL, "its logs wait, and they count"
    with world.client as client:
        views = {view.shard: view for view in describe(mine, world.lake, client)}
    assert (views[0].state, views[2].state) == ("closed", "left")

    assert world.land(logstore=named(world, 1, 2, 3)).rows == 30
    level, text = lag_of(world, mine)
    assert level is Level.OK and "does not name" not in text
    world.assert_sound()


def test_a_shard_that_no_deployment_names_is_told_before_and_after_its_logs_are_lost(world: World) -> None:
    mine = named(world, 0)
    world.put(40, pass_s=60)
    said = list[str]()
    world.land(logstore=mine, warn=said.append)
    world.land(logstore=mine, warn=said.append)
    told = "the logstore has shard 1, which `shards` does not name, and of which nothing has landed. Add 1 to"
    assert said and all(each.startswith(told) for each in said)
    level, text = lag_of(world, mine)
    assert level is Level.WARN and told in text
    world.emulator.admin.advance(2 * HOUR_S)
    assert lag_of(world, mine)[0] is Level.FAIL, "its logs wait, and they count"
    with world.client as client:
        left = runway(mine, world.lake, client)
    assert left.shortest_s is not None and left.retention_s is not None and left.shortest_s < left.retention_s

    world.emulator.admin.retain(PROJECT, "access_logs", shard=1, before_s=int(world.emulator.admin.now()))
    assert not world.land(logstore=mine).gaps
    with world.client as client:
        left = runway(mine, world.lake, client)
    taken = "shard 1: retention took logs that had not landed; left to others, `shards` names 0; nothing of"
    assert left.lost and [each.startswith(taken) for each in spoken(left, 0.0)] == [True]
    world.logstore = mine
    lines = [line for proved in world.proof().shards for line in proved.notes if proved.shard == 1]
    assert any("retention took" in line for line in lines) and not any("next run" in x for x in lines)


def test_before_the_first_landing_nobody_is_told_of_shards_that_others_will_read(world: World) -> None:
    world.put(20, key=HIGH, pass_s=26 * DAY_S)
    for kind in (Kind.LAG, Kind.RUNWAY):
        level, text = finding_of(world, named(world, 0), kind)
        assert level is Level.OK, text
        assert finding_of(world, named(world, 1), kind)[0] is not Level.OK
    with world.client as client:
        assert [s.shard for s in runway(named(world, 0), world.lake, client).shards] == [0]


def test_logs_of_a_shard_that_nobody_names_wait_for_a_person_before_they_are_lost(world: World) -> None:
    mine = named(world, 0)
    world.put(20, key=HIGH, pass_s=60)
    world.land(logstore=mine)
    world.emulator.admin.advance(26 * DAY_S)
    level, text = finding_of(world, mine, Kind.RUNWAY)
    assert level is Level.WARN
    assert text == (
        "shard 1: its oldest log not landed is deleted in 4.0 d; left to others, `shards` names 0; nothing "
        "of it has landed"
    )


@pytest.mark.parametrize("removed", ["logs", "shard"])
def test_a_loss_is_told_to_whoever_reads_the_shard(world: World, removed: str) -> None:
    both = [named(world, 0), named(world, 1)]
    world.put(40, pass_s=60)
    for logstore in both:
        world.land(logstore=logstore)
    world.put(10, key=HIGH, pass_s=60)
    admin = world.emulator.admin
    if removed == "shard":
        admin.split(PROJECT, "access_logs", 1)
        admin.retain(PROJECT, "access_logs", shard=1, drop=True)
    else:
        admin.retain(PROJECT, "access_logs", shard=1, before_s=int(admin.now()))
    world.logstore = both[1]
    (gap,) = world.land_a_gap().gaps
    assert world.ledger.shards[1].closed is (removed == "shard")
    world.pass_by(60)
    world.land(logstore=both[0])
    for whole in (False, True):
        level, text = finding_of(world, both[0], Kind.RUNWAY, whole=whole)
        assert level is Level.OK, text
        level, text = finding_of(world, both[1], Kind.RUNWAY, whole=whole)
        assert level is Level.FAIL and f"{gap}: lost to retention, named within a day" in text


def test_children_are_told_of_when_retention_has_taken_their_parent_from_the_list(world: World) -> None:
    mine, other = named(world, 0), named(world, 1)
    world.put(40, pass_s=60)
    for logstore in (mine, other):
        world.land(logstore=logstore)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(30, key=LOW, pass_s=60)
    assert world.land(logstore=mine).closed == (0,)
    assert world.land(logstore=named(world, 1, 2)).rows
    world.emulator.admin.retain(PROJECT, "access_logs", shard=0, drop=True)

    level, text = lag_of(world, mine)

    assert level is Level.WARN and "the logstore has shard 3, which" in text
    assert lag_of(world, other) == (level, text), "nobody can tell any more whose child it is"


def test_children_are_told_of_when_their_closed_parent_is_taken_out_of_the_list(world: World) -> None:
    """Nobody names the parent any more, so nobody but all can be told."""
    world.put(40, pass_s=60)
    world.land(logstore=named(world, 0, 1))
    world.emulator.admin.split(PROJECT, "access_logs", 1)
    world.put(30, key=HIGH, pass_s=60)
    assert world.land(logstore=named(world, 0, 1)).closed == (1,)

    level, text = lag_of(world, named(world, 0))

    assert level is Level.WARN and "the logstore has shards 2, 3, which `shards` does not name" in text


def test_a_merge_of_shards_of_two_deployments_is_told_to_both(world: World) -> None:
    both = [named(world, 0), named(world, 1)]
    world.put(40, pass_s=60)
    for logstore in both:
        world.land(logstore=logstore)
    world.emulator.admin.merge(PROJECT, "access_logs", 0)
    world.put(20, pass_s=60)

    told = list[list[str]]()
    for logstore in (*both, both[0]):
        said = list[str]()
        world.land(logstore=logstore, warn=said.append)
        told.append([each.partition(", which")[0] for each in said])
    assert told == [[], ["the logstore has shard 2"], ["the logstore has shard 2"]], (
        "the other read its own still"
    )
    assert world.land(logstore=named(world, 0, 2)).rows == 20
    for logstore in both:
        assert lag_of(world, logstore)[0] is Level.OK
    world.assert_each_log_once()


def test_a_child_waits_for_its_parent_of_another_deployment(world: World) -> None:
    world.put(10, key=LOW, pass_s=60)
    world.land(logstore=named(world, 0))
    world.put(10, key=LOW)
    world.emulator.admin.split(PROJECT, "access_logs", 0)
    world.put(30, key=LOW, pass_s=60)

    waiting = world.land(logstore=named(world, 2, 3))
    assert waiting.rows == 0 and {waiting.waits[c].kind for c in (2, 3)} == {Why.PARENTS}
    world.land(logstore=named(world, 0))

    assert world.land(logstore=named(world, 2, 3)).rows == 30
    world.assert_each_log_once()


def test_an_hour_is_sealed_when_every_shard_of_the_table_has_passed_it(world: World) -> None:
    world.put(40, pass_s=HOUR_S)
    world.land(logstore=named(world, 0))

    def sealed() -> list[int]:
        with world.client as client:
            seen = look(named(world, 0), world.lake, client)
        return list(sealing(seen, HOUR0, hours_max=5, start=HOUR0).hours)

    assert sealed() == [], "shard 1 may still bring rows of it, whoever reads it"
    world.land(logstore=named(world, 1))
    assert sealed() == [HOUR0]


def test_a_history_may_begin_where_a_group_stands_in_which_nobody_reads(world: World) -> None:
    world.put(10, key=LOW, pass_s=60)
    with world.client as client:
        client.create_group(world.logstore.group)
        client.heartbeat("lake", "before", [])
        at = client.cursor_at(0, "end")
        client.save_checkpoint("lake", "before", 0, at)
    world.pass_by(60)
    world.put(15, key=LOW, pass_s=60)
    mine = named(world, 0, reset="group")

    assert world.land(logstore=mine).rows == 15
    with world.client as client:
        client.transport.delete_consumer_group(PROJECT, "access_logs", "lake")
    assert world.land(logstore=mine).rows == 0, "the group is asked once"


def test_no_checkpoint_is_repaired_where_none_is_kept(world: World) -> None:
    world.put(10, pass_s=60)
    world.land(logstore=named(world, 0))
    with world.client as client, pytest.raises(ConfigError, match="the table has the position"):
        plan_repair(named(world, 0), world.lake, client)


def test_a_newer_run_of_the_same_shards_fences_an_older_one(world: World) -> None:
    world.begun(20, 40)
    world.pass_by(60)
    mine = named(world, 0, 1)

    older = world.land(logstore=mine, on_event=At("write.done", lambda: world.land(logstore=mine)))

    assert older.rows == 0
    world.assert_each_log_once()


def test_demand_asks_for_named_shards_alone(make_site: MakeSite) -> None:
    """Logs of a shard that is read elsewhere wait there; a split of it is drained there."""
    site = make_site("pinned_demand", health={"lag_s": [600, 1200]})
    site.settings["shards"] = [0]
    world = site.world
    world.put(20, pass_s=60)
    world.land(logstore=site.logstore)
    elsewhere = world.land(logstore=site.logstore.model_copy(update={"shards": frozenset({1})})).rows
    site.tick("demand")
    world.put(10, key=HIGH)
    world.emulator.admin.split(PROJECT, "pinned_demand", 1)
    world.emulator.admin.advance(420)

    quiet = site.tick("demand")
    assert not quiet.run_requests, "neither its drain nor its lag is asked for"
    (observed,) = (e for e in quiet.asset_events if isinstance(e, dg.AssetObservation))
    assert "left to others" in str(observed.metadata)

    world.put(10, key=LOW, pass_s=420)
    (asked,) = site.tick("demand").run_requests
    assert site.launch(asked, "microbatch").success
    assert sum(row["__shard__"] != 0 for row in world.table_rows()) == elsewhere > 0
