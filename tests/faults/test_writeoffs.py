"""One wrong answer gives nothing up, and what was given up is taken back when the service shows it."""

import shlex
from collections.abc import Callable

import pytest

from fuzz.lies import wire
from pipelines.landing.commit.planned import Tools
from pipelines.landing.hours import hour_of
from pipelines.landing.inspection.describe import describe, preview
from pipelines.landing.inspection.runway import PACE_S, runway, spoken
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.run.report import LandingReport
from pipelines.landing.watch.look import look
from pipelines.landing.watch.sealed import Sealing, sealing
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_SHARD_GONE
from sls_io.values.clock import ManualClock
from sls_io.values.window import HOUR_S
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.wrong_answers import LOW, all_right, tell

TIMEOUT_S = 31.0


@pytest.fixture
def begun(quick: World) -> World:
    """Both shards have landed 20 logs, and 20 more are there."""
    return quick.begun(20, 20)


def no_cursor(world: World, shard: int) -> None:
    """GetCursor says that there is no such shard."""
    tell(world, "error", call="get_cursor", shard=shard, status=404, code="ShardNotExist")


def unlisted(world: World, shard: int) -> None:
    """ListShards leaves it out."""
    tell(world, "answer", call="list_shards", item=shard, drop=True)


def nothing_listed(world: World, shard: int) -> None:
    """ListShards is empty."""
    tell(world, "answer", call="list_shards", value=[])


def begins_later(world: World, shard: int) -> None:
    """GetCursor says that the shard begins at its end."""
    with world.client as client:
        end = client.cursor_at(shard, "end")
    aimed = {"call": "get_cursor", "shard": shard, "query": {"from": "begin"}}
    tell(world, "answer", field="cursor", value=wire(int(end)), **aimed)


ONE_KIND: list[Callable[[World, int], None]] = [no_cursor, unlisted, nothing_listed, begins_later]


def assert_suspects(world: World, report: LandingReport, shard: int = 0) -> None:
    """The run is not green because of the shard, and nothing of it is given up."""
    assert any(line.startswith(f"shard {shard}: ") for line in report.suspects)
    entry = world.ledger.shards[shard]
    assert (entry.gaps, entry.closed) == ((), False)


@pytest.mark.parametrize("lie", ONE_KIND, ids=lambda lie: lie.__name__)
def test_one_kind_of_answer_never_gives_a_shard_up_however_long_it_is_told(
    begun: World, lie: Callable[[World, int], None]
) -> None:
    lie(begun, 0)
    for _ in range(4):
        report = begun.land()
        assert_suspects(begun, report)
        begun.pass_by(3600)
    with begun.client as client:
        assert preview(begun.logstore, begun.lake, client).suspects == report.suspects

    all_right(begun)
    report = begun.land()

    assert (report.suspects, report.gaps) == ((), ())
    begun.land()
    begun.assert_whole()


@pytest.mark.parametrize("lie", ONE_KIND, ids=lambda lie: lie.__name__)
def test_whoever_looks_is_told_what_the_run_says_and_not_that_logs_were_lost(
    begun: World, lie: Callable[[World, int], None]
) -> None:
    lie(begun, 0)
    with begun.client as client:
        left = runway(begun.logstore, begun.lake, client)
    report = begun.land()
    assert left.suspect and not left.lost
    assert set(report.suspects) <= set(spoken(left, 0.0)) and report.suspects


@pytest.fixture
def hidden(begun: World) -> World:
    """Shard 0 was split into 2 and 3, and an hour later 2 into 4 and 5; no list has shown 2."""
    name = begun.logstore.service.logstore
    begun.land()
    begun.emulator.admin.split(PROJECT, name, 0)
    unlisted(begun, 2)
    begun.put(10, key=LOW, pass_s=HOUR_S)
    begun.emulator.admin.split(PROJECT, name, 2)
    begun.put(20, key=LOW, pass_s=HOUR_S)
    return begun


@pytest.mark.parametrize("ordered", [True, False], ids=["in order", "in no order"])
@pytest.mark.parametrize("asked", ["is there", "does not answer"])
def test_a_parent_that_no_list_has_shown_is_waited_for(hidden: World, asked: str, ordered: bool) -> None:
    """In a group that keeps no order, too: nobody would ask for it any more once its children have begun."""
    hidden.logstore = hidden.changed(group=hidden.logstore.group.model_dump() | {"order": ordered})
    if asked == "does not answer":
        tell(hidden, "error", call="get_cursor", shard=2, status=500)
    for _ in range(3):
        report = hidden.land()
        assert any(line.startswith("shard 2: ") for line in report.suspects)
    assert hidden.ledger.shards[0].closed
    assert not any(hidden.ledger.shards[s].rows for s in (4, 5) if s in hidden.ledger.shards)
    assert str(report.waits[4]) == "parents not closed yet: 2"

    all_right(hidden)
    while hidden.land().rows:
        pass
    of_windows = [w.window.shard for _, windows in hidden.landings() for w in windows]
    children = [of_windows.index(shard) for shard in (4, 5) if shard in of_windows]
    assert not ordered or of_windows.index(2) < min(children)
    hidden.assert_whole()


def test_a_fill_brings_what_is_in_a_shard_that_no_list_has_shown(hidden: World) -> None:
    hours = range(hidden.hours[0], hidden.hours[-1] + 1)
    hidden.land(mode="fill", hours=(hours.start, hours.stop))
    assert hidden.ledger.shards[2].rows == 10
    hidden.assert_each_log_once()
    all_right(hidden)
    for _ in range(4):
        hidden.land()
    hidden.assert_whole()


def test_an_hour_is_replaced_although_a_list_lacks_a_shard_of_it(begun: World) -> None:
    hours = range(begun.hours[-1], begun.hours[-1] + 1)
    begun.pass_by(HOUR_S)
    begun.land()
    unlisted(begun, 0)
    with begun.client as client:
        planned = plan_replace(begun.lake, begun.logstore, client, hours)
        assert execute_replace(begun.lake, planned, Tools(engine=begun.engine))[0].rows == 40
    all_right(begun)
    begun.land()
    begun.assert_whole()


def test_no_hour_is_complete_while_a_list_lacks_a_shard_that_nobody_knows(hidden: World) -> None:
    for _ in range(3):
        hidden.land()
    hour = hidden.hours[0]

    def complete() -> Sealing:
        with hidden.client as client:
            seen = look(hidden.logstore, hidden.lake, client)
        return sealing(seen, hour, hours_max=24, start=hidden.logstore.start_hour)

    assert not complete().hours
    all_right(hidden)
    while hidden.land().rows:
        pass
    assert len(complete().hours) > 1


def test_no_hour_is_complete_while_a_list_lacks_an_open_shard(begun: World) -> None:
    begun.land()
    hour = begun.hours[0]
    begun.emulator.admin.split(PROJECT, begun.logstore.service.logstore, 0)
    unlisted(begun, 3)
    begun.pass_by(HOUR_S)
    begun.put(10, pass_s=HOUR_S)
    for _ in range(3):
        begun.land()
    with begun.client as client:
        seen = look(begun.logstore, begun.lake, client)
    found = sealing(seen, hour, hours_max=24, start=begun.logstore.start_hour)
    assert found.short and not found.hours


def test_a_shard_that_is_gone_without_ever_being_listed_is_waited_for_by_nobody(hidden: World) -> None:
    """As after an outage that was longer than retention."""
    all_right(hidden)
    hidden.emulator.admin.retain(PROJECT, hidden.logstore.service.logstore, shard=2, drop=True)
    for _ in range(3):
        report = hidden.land()
        assert not report.suspects
    assert hidden.ledger.shards[4].rows


def test_other_shards_go_on_beside_a_suspect(begun: World) -> None:
    no_cursor(begun, 0)
    report = begun.land()
    assert report.rows > 0
    assert {w.window.shard for w in begun.landings()[-1][1]} == {1}


def test_two_kinds_of_answers_in_one_run_give_nothing_up(begun: World) -> None:
    no_cursor(begun, 0)
    unlisted(begun, 0)
    report = begun.land()
    assert_suspects(begun, report)
    with begun.client as client:
        (view, _) = describe(begun.logstore, begun.lake, client)
    assert view.suspect_s > 0
    assert any("suspected since" in note for note in begun.proof().shards[0].notes)

    begun.pass_by(5)
    assert_suspects(begun, begun.land())
    all_right(begun)
    assert begun.land().suspects == ()
    assert begun.ledger.shards[0].suspect_s == 0
    begun.land()
    begun.assert_whole()


def misled(world: World, shard: int = 0) -> None:
    """Two kinds of answers say for long enough that the shard is gone: it is written off."""
    no_cursor(world, shard)
    unlisted(world, shard)
    assert world.land().gaps == ()
    world.pass_by(TIMEOUT_S)
    gap = f"shard {shard}: [{world.ledger.shards[shard].frontier}, {CURSOR_UNKNOWN}) {GAP_SHARD_GONE}"
    assert world.land().gaps == (gap,)
    assert world.ledger.shards[shard].closed
    all_right(world)


@pytest.mark.fault("4b.expired.plan")
def test_a_shard_that_is_shown_again_is_said_by_verify_and_opened_by_the_next_run(begun: World) -> None:
    misled(begun)
    begun.put(10, pass_s=60)
    (said,) = begun.proof().shards[0].problems
    assert "calls this shard gone" in said and "the next live run opens it again" in said

    begun.land()
    begun.land()

    entry = begun.ledger.shards[0]
    assert (entry.closed, entry.gaps) == (False, ())
    begun.assert_whole()


def written_off_to_the_end(world: World) -> str:
    """Shard 0 was said to begin at its end, by two kinds of answers and for long enough: the gap."""
    begins_later(world, 0)
    tell(world, "error", call="pull_logs", shard=0, status=400, code="InvalidCursor")
    assert world.land().gaps == ()
    world.pass_by(TIMEOUT_S)
    (gap,) = world.land().gaps
    assert gap.startswith("shard 0: ")
    all_right(world)
    return gap


@pytest.fixture
def gap_that_can_be_read(begun: World) -> World:
    written_off_to_the_end(begun)
    return begun


def test_a_gap_that_can_be_read_again_is_said_by_each_run_and_by_verify(gap_that_can_be_read: World) -> None:
    world = gap_that_can_be_read
    for _ in range(2):
        (said,) = world.land().readable
        assert "the service can read it again" in said
    found = world.proof()
    assert not found.ok
    assert said == f"shard 0: {found.shards[0].problems[0]}"


def test_the_fill_that_verify_names_lands_what_is_in_the_gap(gap_that_can_be_read: World) -> None:
    world = gap_that_can_be_read
    verb = world.proof().shards[0].problems[0].split("`")[1]
    words = shlex.split(verb)
    assert words[:3] == ["sls-lake", "backfill", "--local"]
    first, last = (words[words.index(option) + 1] for option in ("--from", "--to"))
    world.land(mode="fill", hours=(hour_of(first), hour_of(last) + 1))

    assert world.ledger.shards[0].gaps == ()
    world.assert_whole()


def test_a_fill_of_a_part_of_an_old_gap_makes_no_new_loss_of_the_rest(begun: World) -> None:
    hour = begun.hours[-1]
    begun.pass_by(HOUR_S)
    begun.put(20, pass_s=60)
    gap = written_off_to_the_end(begun)
    named_ms = last_ms(begun)
    begun.land(mode="fill", hours=(hour, hour + 1))
    (rest,) = begun.ledger.shards[0].gaps
    assert str(rest.begin) not in gap and rest.begin < rest.end, "the fill has landed the first hour of it"

    def named_since(since_ms: float) -> tuple[str, ...]:
        with begun.client as client:
            clock = ManualClock(since_ms / 1000 + PACE_S)
            return runway(begun.logstore, begun.lake, client, clock=clock).named

    assert named_since((named_ms + last_ms(begun)) / 2) == ()
    assert named_since(named_ms - 1) == (f"shard 0: [{rest.begin}, {rest.end}) {rest.cause}",)


def last_ms(world: World) -> int:
    """When the newest snapshot was committed."""
    snapshot = world.table.current_snapshot()
    assert snapshot is not None
    return snapshot.timestamp_ms


@pytest.mark.fault("4b.expired.plan")
def test_a_begin_cursor_that_is_too_high_for_a_new_child_skips_nothing(begun: World) -> None:
    begun.land()
    begun.emulator.admin.split(PROJECT, begun.logstore.service.logstore, 0)
    begun.land_more(30, key=LOW)
    begins_later(begun, 2)
    begun.land()
    begun.land()
    all_right(begun)
    begun.land()
    begun.land()
    begun.assert_whole()


@pytest.mark.parametrize("reset", ["earliest", "2026-01-01-00:00"])
def test_one_wrong_cursor_at_the_first_start_skips_nothing(quick: World, reset: str) -> None:
    quick.put(20, pass_s=60)
    with quick.client as client:
        end = int(client.cursor_at(0, "end"))
    for asked in ("begin", "[0-9]+"):
        tell(quick, "answer", call="get_cursor", shard=0, query={"from": asked}, field="cursor",
             value=wire(end), times=1)  # fmt: skip
    try_once = quick.changed(reset=reset)
    quick.land(logstore=try_once)
    all_right(quick)
    quick.land(logstore=try_once)
    quick.assert_each_log_once()


def test_a_shard_that_is_called_read_only_by_one_answer_is_not_closed(begun: World) -> None:
    begun.land()
    tell(begun, "answer", call="list_shards", item=0, field="status", value="readonly", times=2)
    report = begun.land()
    assert report.closed == ()
    all_right(begun)
    begun.land_more(10)
    begun.assert_whole()


def test_an_end_that_is_too_low_does_not_close_a_read_only_shard(begun: World) -> None:
    begun.emulator.admin.split(PROJECT, begun.logstore.service.logstore, 0)
    frontier = int(begun.ledger.shards[0].frontier)
    tell(begun, "answer", call="get_cursor", shard=0, query={"from": "end"}, field="cursor",
         value=wire(frontier))  # fmt: skip
    report = begun.land()
    assert report.closed == ()
    assert "more lies behind" in "".join(report.suspects)
    all_right(begun)
    for _ in range(3):
        begun.land()
    assert begun.ledger.shards[0].closed
    begun.assert_each_log_once()


@pytest.mark.fault("4b.corrupt.pull")
@pytest.mark.parametrize("last", [True, False], ids=["last group read says so", "no last group read"])
def test_a_page_that_contradicts_itself_proves_no_emptiness(begun: World, last: bool) -> None:
    """Count 0, size 0, no body, and the next cursor is the window's end."""
    with begun.client as client:
        end = int(client.cursor_at(0, "end"))
    said: dict[str, str | None] = {"x-log-count": "0", "x-log-cursor": wire(end)}
    if not last:
        said["x-log-read-last-cursor"] = None
    times = None if last else 1
    tell(begun, "headers", call="pull_logs", shard=0, headers=said, times=times)
    tell(begun, "short", call="pull_logs", shard=0, groups=1000, times=times)

    report = begun.land()
    all_right(begun)

    if last:
        assert report.stopped[0] == "short"
    begun.land()
    begun.assert_whole()
