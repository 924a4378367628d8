"""Rows that were removed for good, or may not land, stay away through every cure; the ledger counts them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.landing.commit.planned import Tools, execute
from pipelines.landing.inspection.proof import VERIFIED
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.operations.forget import plan_forget_before, plan_forget_where
from pipelines.landing.operations.give_up import GivenUp, plan_give_up
from pipelines.landing.operations.repair_manifests import plan_repair_manifests
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.operations.skip import plan_skip
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.adopt import plan_adopt
from sls_io.values.errors import LandingConflict, LedgerBroken
from sls_io.values.window import HOUR_S
from tests.worlds.one_logstore import World, group
from tests.worlds.two_hours import snapshots
from tests.worlds.two_runs import At
from tests.worlds.wrong_answers import LOW, all_right, tell

SECRET = "status = 500"


def put(world: World, rows: int) -> None:
    """Logs of which every other one is secret."""
    with world.client as client:
        for at in range(0, rows, 5):
            numbers = range(world.counter + at, world.counter + at + 5)
            logs = [{"n": str(n), "status": "500" if n % 2 else "200", "path": "/p"} for n in numbers]
            client.put_raw(group(logs), key=f"{at // 5 * 2654435761 % 2**32:08x}".ljust(32, "0"))
    world.counter += rows


def an_hour(world: World, rows: int = 40) -> int:
    """Rows of an hour of their own, landed when it was over."""
    world.emulator.admin.advance(HOUR_S + 60 - world.emulator.admin.now() % HOUR_S)
    put(world, rows)
    hour = int(world.emulator.admin.now()) // HOUR_S
    world.emulator.admin.advance(HOUR_S)
    world.land()
    return hour


def forget(world: World, what: str = SECRET, **more: Any) -> None:
    world.carried_out(plan_forget_where, what, **more)


def give_up(world: World) -> GivenUp:
    with world.client as client:
        return execute(
            world.lake, plan_give_up(world.lake, world.logstore, client), Tools(engine=world.engine)
        ).planned.view


def replace(world: World, hours: range, on_event: Callable[[str], None] = lambda name: None) -> None:
    with world.client as client:
        planned = plan_replace(world.lake, world.logstore, client, hours)
        execute_replace(world.lake, planned, Tools(engine=world.engine, on_event=on_event))


def lose(paths: list[str]) -> None:
    for path in paths:
        Path(path.removeprefix("file://")).unlink()


def secrets(world: World) -> int:
    return sum(row["status"] == 500 for row in world.table_rows())


def closed(world: World) -> set[int]:
    return {shard for shard, entry in world.ledger.shards.items() if entry.closed}


@pytest.mark.parametrize("more", [{"reason": "the law"}, {"from_now_on": True}], ids=["removed", "barred"])
def test_what_is_given_up_of_an_hour_with_removed_rows_lands_no_more(
    calm: World, more: dict[str, Any]
) -> None:
    hour, other = an_hour(calm), an_hour(calm)
    forget(calm, **more)
    lose(calm.published())

    done = give_up(calm)

    assert hour in done.hours and not list(done.then())[1:], "verify alone"
    assert done.kept is not None and done.kept.lost == done.rows
    for each in (hour, other):
        assert calm.land(mode="fill", hours=(each, each + 1)).rows == 0
    assert calm.proof().verdict == VERIFIED
    assert secrets(calm) == 0


def test_an_hour_beside_one_with_removed_rows_lands_again_after_it_was_given_up(calm: World) -> None:
    hour = an_hour(calm)
    forget(calm, reason="the law")
    other = an_hour(calm)
    lose(calm.published())

    done = give_up(calm)

    assert [str(cure) for cure in done.then()][1:], "a backfill"
    assert done.kept is not None
    assert (done.kept.lost, done.rows) == (done.rows - 40, done.rows), "what may land again is there"
    assert calm.land(mode="fill", hours=(hour, hour + 1)).rows == 0
    assert calm.land(mode="fill", hours=(other, other + 1)).rows == 40
    assert calm.proof().verdict == VERIFIED


def test_a_replace_of_the_running_hour_gives_way_to_a_landing_that_kept_rows_out(calm: World) -> None:
    calm.emulator.admin.advance(HOUR_S + 60 - calm.emulator.admin.now() % HOUR_S)
    put(calm, 40)
    calm.emulator.admin.advance(120)
    calm.land()
    calm.pass_by()
    forget(calm, from_now_on=True)
    put(calm, 40)
    calm.emulator.admin.advance(120)
    hour = range(calm.hours[-1], calm.hours[-1] + 1)

    with pytest.raises(LandingConflict, match="changed meanwhile"):
        replace(calm, hour, At("publish", lambda: assert_barred(calm.land().barred_rows)))

    assert calm.proof().verdict == VERIFIED
    replace(calm, hour)
    assert calm.proof().verdict == VERIFIED and secrets(calm) == 0


def assert_barred(rows: int) -> None:
    assert rows, "nothing was kept out"


def test_old_files_with_rows_that_may_not_land_are_not_listed_again(calm: World) -> None:
    first, *_ = (an_hour(calm) for _ in range(3))
    forget(calm, from_now_on=True)
    table = calm.table
    head, published = table.current_snapshot(), calm.published()
    assert head is not None
    lose([manifest.manifest_path for manifest in head.manifests(table.io)])
    rewritten = [path for path in published if "rewritten" in path]
    lose(rewritten)
    assert rewritten and first

    calm.carried_out(plan_repair_manifests, without_missing=True)

    assert secrets(calm) == 0


@pytest.mark.parametrize("from_now_on", [False, True])
def test_main_that_was_put_back_to_before_a_removal_is_not_adopted(calm: World, from_now_on: bool) -> None:
    calm.land_more(10)
    forget(calm, "n in (7, 8, 9)", from_now_on=from_now_on)
    older, removal = snapshots(calm), calm.table.metadata.refs[TAG].snapshot_id
    calm.table.manage_snapshots().rollback_to_snapshot(older[-2]).commit()
    calm.table.append(calm.table.scan(row_filter="n == 3").to_arrow())
    calm.table.delete("n == 3")
    kept = {removal, calm.table.metadata.current_snapshot_id}
    calm.table.maintenance.expire_snapshots().by_ids([s for s in older if s not in kept]).commit()

    with pytest.raises(LedgerBroken), calm.client as client:
        plan_adopt(calm.lake, calm.logstore, client, at="rows", without_missing=True)


@pytest.mark.parametrize("how", ["replace", "undo and fill"])
def test_rows_that_land_once_a_decision_has_ended_are_right(calm: World, how: str) -> None:
    an_hour(calm, 10)
    forget(calm, from_now_on=True)
    calm.emulator.admin.advance(HOUR_S)
    hour = int(calm.emulator.admin.now()) // HOUR_S
    for _ in range(2):
        put(calm, 10)
        calm.emulator.admin.advance(60)
        assert calm.land().barred_rows
    calm.emulator.admin.advance(HOUR_S)
    calm.land()
    forget(calm, end=True)
    if how == "replace":
        replace(calm, range(hour, hour + 1))
    else:
        calm.carried_out(plan_undo, range(hour, hour + 1))
        calm.land(mode="fill", hours=(hour, hour + 1))

    assert sum(row["__receive_hour__"].timestamp() == hour * HOUR_S for row in calm.table_rows()) == 20
    assert calm.proof().verdict == VERIFIED and calm.proof(pull=True).verdict == VERIFIED


def test_skipped_hours_that_were_removed_are_owed_no_more(calm: World) -> None:
    an_hour(calm)
    calm.put(20)
    hour = int(calm.emulator.admin.now()) // HOUR_S
    calm.emulator.admin.advance(2 * HOUR_S)
    with calm.client as client:
        ends = {shard: client.cursor_at(shard, "end") for shard in calm.ledger.shards}
        execute(calm.lake, plan_skip(calm.lake, calm.logstore, client, ends))
    calm.put(20, pass_s=HOUR_S)
    assert "owed" in str(calm.land().readable)
    calm.carried_out(plan_forget_before, hour + 1, reason="the law")

    assert calm.land().readable == ()
    assert calm.proof().verdict == VERIFIED


def test_a_shard_that_is_shown_again_brings_no_hour_back_that_was_removed(quick: World) -> None:
    """It was written off by wrong answers, and so did not hold the removal back."""
    world = quick.begun(20, 20)
    for _ in range(2):
        tell(world, "error", call="get_cursor", shard=0, status=404, code="ShardNotExist")
        tell(world, "answer", call="list_shards", item=0, drop=True)
        world.land()
        world.pass_by(3600)
    world.land()
    assert closed(world) == {0}
    hour = int(world.emulator.admin.now()) // HOUR_S
    world.carried_out(plan_forget_before, hour, reason="the law")
    assert not world.table_rows()
    all_right(world)
    world.put(10, key=LOW, pass_s=60)

    report = world.land()

    assert report.rows == 10 and [at >= hour for at in report.hours] == [True]
    assert closed(world) == set()
    assert world.land().readable == () and world.proof().verdict == VERIFIED
