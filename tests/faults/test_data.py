"""What the logs, the logstore and its operators may do in the middle of a run."""

import base64
import threading
from collections.abc import Callable
from typing import Any

import pytest

from chaos.engine import InProcess
from pipelines.landing.ledger.codec import TAG
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_EXPIRED, GAP_SHARD_GONE
from sls_io.values.errors import LedgerBroken, SlsError
from tests.worlds.one_logstore import PROJECT, World, group
from tests.worlds.two_runs import At

LOW, HIGH = "0" * 32, "f" * 32
MIB = 1024 * 1024


def name_of(world: World) -> str:
    """The logstore's name."""
    return world.logstore.service.logstore


def at_the_first_pull(world: World, action: Callable[[], object]) -> None:
    """Windows are planned, none is read yet."""
    world.engine = InProcess(At("task", action))


def put_groups(world: World, *groups: list[dict[str, str | bytes]], key: str = LOW) -> None:
    """LogGroups as they are."""
    with world.client as client:
        for logs in groups:
            client.put_raw(group(logs), key=key)
    world.emulator.admin.advance(60)


# --- shards


@pytest.mark.fault("4b.reshape.pull", "4b.reshape.plan", "4b.reshape.after")
@pytest.mark.parametrize("change", ["split", "merge"])
def test_a_shard_that_is_split_or_merged_while_it_is_read_is_read_to_its_end(
    started: World, change: str
) -> None:
    """The planned windows are whole; what came before the change and after the plan is the next run's."""

    def reshape() -> None:
        started.put(10)
        admin = started.emulator.admin
        (admin.split if change == "split" else admin.merge)(PROJECT, name_of(started), 0)
        started.put(20)

    at_the_first_pull(started, reshape)

    during = started.land()
    started.pass_by(60)
    closing, children = started.land(), started.land()

    assert (during.rows, during.closed) == (60, ())
    assert closing.closed == ((0,) if change == "split" else (0, 1))
    assert closing.rows + children.rows == 30
    assert_order_of_generations(started)
    started.land()
    started.assert_sound()


def assert_order_of_generations(world: World) -> None:
    """No landing with rows of a child comes before, or together with, the last one of its parent."""
    of_shard: dict[int, list[int]] = {}
    for number, (_, windows) in enumerate(world.landings()):
        for landed in windows:
            of_shard.setdefault(landed.window.shard, []).append(number)
    parents = {shard for shard in of_shard if world.ledger.shards[shard].closed}
    children = set(of_shard) - {0, 1}
    assert children
    assert max(max(of_shard[p]) for p in parents) < min(min(of_shard[c]) for c in children)


@pytest.mark.fault("4b.drain.pull", "4b.drain.after", "4b.drain.plan")
def test_a_read_only_shard_with_a_page_of_empty_groups_is_read_to_its_end_and_closed(quick: World) -> None:
    """Its end is a cursor; a page without a log says nothing."""
    put_groups(quick, [{"n": "1"}], [], [], [{"n": "2"}], [])
    quick.emulator.admin.split(PROJECT, name_of(quick), 0)
    small = quick.changed(budget={**quick.logstore.budget.model_dump(), "page_groups_max": 1})

    report = quick.land(logstore=small)

    assert (report.rows, report.closed) == (2, (0,))
    entry = quick.ledger.shards[0]
    assert entry.end == entry.frontier == quick.checkpoints()[0]
    put_groups(quick, [{"n": "3"}])
    assert quick.land().rows == 1
    quick.assert_each_log_once()


@pytest.mark.fault("4b.expired.plan")
def test_parents_that_retention_removed_before_anybody_read_them_hold_no_child_back(quick: World) -> None:
    """Two generations are gone with their logs; the grandchild goes on, and what is missing has a name."""
    quick.land_more(10, key=LOW)
    quick.put(20, key=LOW)
    for parent in (0, 2):
        quick.emulator.admin.split(PROJECT, name_of(quick), parent)
        quick.put(10, key=LOW)
    for parent in (0, 2):
        quick.emulator.admin.retain(PROJECT, name_of(quick), shard=parent, drop=True)
    truth = quick.truth()
    quick.emulator.admin.advance(60)

    reports = []
    for _ in range(4):
        reports.append(quick.land())
        quick.pass_by()

    assert sum(r.rows for r in reports) == 10
    assert set(truth) <= set(quick.identities())
    assert max(quick.identities().values()) == 1
    assert any("shard 0" in line for r in reports for line in r.gaps)
    entry = quick.ledger.shards[0]
    assert entry.closed and (entry.gaps[0].end, entry.gaps[0].cause) == (CURSOR_UNKNOWN, GAP_SHARD_GONE)
    proof = quick.proof()
    assert proof.ok and proof.shards[0].gaps == (f"[{entry.gaps[0].begin}, ?) {GAP_SHARD_GONE}",)


@pytest.mark.fault("4b.expired.pull")
def test_retention_between_two_pages_of_a_window_costs_the_window_and_then_a_gap(started: World) -> None:
    """The first page was whole and the second is: only the beginning of the shard tells."""
    frontier = int(started.ledger.shards[0].frontier)
    truth = started.truth()
    begin = sorted({c for shard, c, _ in truth if shard == 0 and c >= frontier})[1]
    held = started.fault("hold", call="pull_logs", shard=0, after=1)

    def expire() -> None:
        started.emulator.admin.wait(held, timeout_s=60)
        started.emulator.admin.retain(PROJECT, name_of(started), shard=0, before_cursor=begin)
        started.emulator.admin.release(held)

    budget = {**started.logstore.budget.model_dump(), "page_groups_max": 2}
    service = {**started.logstore.service.model_dump(), "read_timeout_s": 60.0}
    beside = threading.Thread(target=expire)
    beside.start()
    overtaken = started.land(logstore=started.changed(budget=budget, service=service))
    beside.join(60)
    after = started.land_a_gap()

    assert "retention" in overtaken.waits[0].text
    assert started.ledger.shards[0].gaps[0].end == begin
    assert after.gaps == (f"shard 0: [{frontier}, {begin}) {GAP_EXPIRED}",)
    assert set(started.identities()) == {i for i in truth if not (i[0] == 0 and frontier <= i[1] < begin)}
    started.assert_proved()


@pytest.mark.fault("4b.reshape.commit", "4b.drain.commit")
def test_generations_of_empty_shards_are_closed_without_rows(quick: World) -> None:
    for parent in (0, 2, 4):
        quick.emulator.admin.split(PROJECT, name_of(quick), parent)
    quick.put(20, key=LOW, pass_s=60)

    reports = [quick.land() for _ in range(4)]

    assert [r.rows for r in reports] == [0, 0, 0, 20]
    assert [r.closed for r in reports[:3]] == [(0,), (2,), (4,)]
    assert all(e.end == e.start for e in quick.ledger.shards.values() if e.closed)
    quick.assert_sound()


# --- the logstore made again


def make_again(world: World, rows: int) -> None:
    """Delete the logstore and make another of the same name with other logs in it."""
    world.emulator.admin.advance(5)
    with world.client as client:
        client.transport.delete_logstore(PROJECT, name_of(world))
        client.transport.create_logstore(PROJECT, name_of(world), ttl=30, shard_count=2)
    world.counter += 1000
    world.put(rows)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("survey", id="plan", marks=pytest.mark.fault("4b.recreated.plan")),
        pytest.param("write", id="pull", marks=pytest.mark.fault("4b.recreated.pull")),
        pytest.param("publish", id="commit", marks=pytest.mark.fault("4b.recreated.commit")),
    ],
)
def test_a_logstore_that_is_made_again_in_the_middle_of_a_run_lands_nothing_of_the_new_one(
    started: World, step: str
) -> None:
    """Its logs would stand under the name of the old one."""
    old = started.truth()
    landed, said = 0, ""
    with started.run(on_event=At(step, lambda: make_again(started, 80))) as run:
        try:
            landed = run.land().rows
            said = "; ".join(run.reconcile().problems)
            run.checkpoint()
        except SlsError as error:
            said = str(error)

    assert "created again" in said and "\n" not in said
    values = {i: {k: str(v) for k, v in r.items()} for i, r in by_identity(started).items()}
    assert set(values) <= set(old), "logs of the new logstore landed as those of the old one"
    assert all(row["n"] == old[i]["n"].decode() for i, row in values.items())
    if step == "publish":
        assert landed == 60, "they were read from the old one"
    with pytest.raises(LedgerBroken, match="created again"):
        started.land()


def by_identity(world: World) -> dict[tuple[int, int, int], dict[str, Any]]:
    """The rows of the table by their identity."""
    return {(r["__shard__"], r["__cursor__"], r["__index__"]): r for r in world.table_rows()}


# --- pages and records


@pytest.mark.fault("4b.lying.pull", "4b.corrupt.pull")
@pytest.mark.parametrize(
    "fault",
    [
        {"do": "headers", "headers": {"x-log-count": "1"}},
        {"do": "headers", "headers": {"x-log-count": "1000"}},
        {"do": "headers", "headers": {"x-log-bodyrawsize": "0"}},
        {"do": "headers", "headers": {"x-log-bodyrawsize": "99999999999"}},
        {"do": "headers", "headers": {"x-log-compresstype": "zstd"}},
        {"do": "truncate", "bytes": 40},
        {"do": "short", "groups": 1},
    ],
    ids=lambda f: "-".join(map(str, [f["do"], *f.get("headers", {}).items()])),
)
def test_a_page_that_stays_wrong_is_never_taken_for_an_empty_one(
    started: World, fault: dict[str, Any]
) -> None:
    """However often it is pulled: its shard stays where it is, and nothing of it is skipped."""
    frontier = started.ledger.shards[0].frontier
    wrong = started.fault(call="pull_logs", shard=0, times=None, **fault)
    try:
        rows = started.land().rows
    except SlsError as error:
        assert "\n" not in str(error)
        rows = 0

    assert started.ledger.shards[0].frontier == frontier
    started.emulator.admin.remove(wrong)
    started.assert_next_lands(60 - rows)


@pytest.mark.fault("4b.huge.pull", "4b.huge.stage")
@pytest.mark.parametrize(
    "logs",
    [
        pytest.param([{"n": "1", "body": "x" * (10 * MIB - 500)}], id="10-MB-value"),
        pytest.param([{"n": "1", "k" * MIB: "v"}], id="1-MB-key"),
        pytest.param([{f"key{i}": "v" for i in range(100_000)}], id="100000-keys"),
        pytest.param([{"n": str(i)} for i in range(20_000)], id="20000-logs"),
    ],
)
def test_a_huge_group_lands_as_it_is(started: World, logs: list[dict[str, str | bytes]]) -> None:
    started.land()
    put_groups(started, logs, [{"n": "2"}])

    report = started.land()

    assert (report.rows, report.error_rows) == (len(logs) + 1, 0)
    started.assert_whole()


@pytest.mark.fault("4b.huge.plan", "4b.huge.pull")
def test_a_group_larger_than_the_whole_budget_is_one_page_and_the_run_ends_there(started: World) -> None:
    started.land()
    big: list[dict[str, str | bytes]] = [{"n": "1", "body": "x" * MIB}]
    put_groups(started, big, big, big)
    small = started.changed(budget={**started.logstore.budget.model_dump(), "bytes_max": 1000})

    rows = [started.land(logstore=small).rows for _ in range(3)]

    assert rows[0] >= 1, "else it would never get past it"
    assert sum(rows) == 3
    started.assert_whole()


@pytest.mark.fault("4b.poison.pull", "4b.poison.stage", "4b.poison.commit", "4b.drift.stage")
def test_records_that_fit_nothing_are_in_the_same_commit_with_their_cause_and_their_bytes(
    started: World,
) -> None:
    """No second table that could be committed without the first."""
    started.land()
    landings = len(started.landings())
    put_groups(started, [{"n": "no number"}, {"n": "1"}, {"n": b"\xff\xfe"}, {"status": "9" * 30}])

    report = started.land()

    assert (report.rows, report.error_rows) == (4, 3)
    assert len(started.landings()) == landings + 1
    kept = [r for r in started.table_rows() if r["__error__"] is not None]
    assert len(kept) == 3
    assert all(r["__raw__"] and r["__cursor__"] and r["__shard__"] == 0 for r in kept)
    started.assert_whole()


# --- operators


def force_checkpoint(world: World, shard: int, cursor: int) -> None:
    """As a person does in the console: without asking the holder."""
    wire = base64.b64encode(str(cursor).encode()).decode()
    with world.client as client:
        client.transport.update_check_point(
            PROJECT, name_of(world), "lake", shard, wire, consumer="", force_success=True
        )


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("survey", id="plan", marks=pytest.mark.fault("4b.reset.plan")),
        pytest.param("publish", id="commit", marks=pytest.mark.fault("4b.reset.commit")),
    ],
)
@pytest.mark.parametrize("where", ["begin", "end"])
def test_a_checkpoint_that_a_person_moves_changes_no_plan_and_no_landing(
    started: World, step: str, where: str
) -> None:
    """Back to the beginning it is brought forward again; ahead of the table it is left, and skips nothing."""

    def move() -> None:
        with started.client as client:
            for shard in (0, 1):
                force_checkpoint(started, shard, int(client.cursor_at(shard, "begin")))
                if where == "end":
                    force_checkpoint(started, shard, int(client.cursor_at(shard, "end")) + 1)

    report = started.land(on_event=At(step, move))

    assert (report.rows, report.replans) == (60, 0)
    assert started.land_more(200, pass_s=31).rows == 200
    started.land()
    started.assert_whole()


@pytest.mark.fault("4b.rollback.commit", "4b.rollback.plan")
def test_a_tag_that_is_removed_while_a_landing_is_on_its_way_stops_it(started: World) -> None:
    """Rows and no ledger: never a first start."""
    checkpoints = started.checkpoints()
    rows = len(started.table_rows())

    with pytest.raises(LedgerBroken):
        started.land(on_event=At("publish", lambda: remove_tag(started, TAG)))
    with pytest.raises(LedgerBroken) as raised:
        started.land()

    assert raised.value.cures
    assert len(started.table_rows()) == rows
    assert started.checkpoints() == checkpoints


def remove_tag(world: World, tag: str) -> None:
    """As a person may."""
    world.table.manage_snapshots().remove_tag(tag).commit()


# --- backfill and nothing new


@pytest.mark.fault("4b.backfill.plan", "4b.backfill.commit", "4b.backfill.after", "4b.overlap.commit")
@pytest.mark.parametrize("first", ["live", "fill"])
def test_a_backfill_and_a_live_run_over_the_same_logs_land_them_once(started: World, first: str) -> None:
    """Both are planned before either publishes; the second one has nothing left."""
    fill = {"mode": "fill", "hours": (started.hours.start, started.hours.stop)}
    inner, outer = (fill, {}) if first == "fill" else ({}, fill)
    won: list[int] = []

    lost = started.land(**outer, on_event=At("publish", lambda: won.append(started.land(**inner).rows)))

    assert (won, lost.rows) == ([60], 0)
    started.put(10, pass_s=31)
    started.assert_next_lands(10)


@pytest.mark.fault("4b.empty.plan", "4b.empty.after")
def test_with_nothing_new_nothing_is_committed_and_a_lost_checkpoint_is_repaired(started: World) -> None:
    started.land()
    landings = started.landings()
    for shard in (0, 1):
        with started.client as client:
            force_checkpoint(started, shard, int(client.cursor_at(shard, "begin")))

    report = started.land()

    assert (report.rows, report.snapshot_id) == (0, None)
    assert started.landings() == landings
    started.assert_whole()
