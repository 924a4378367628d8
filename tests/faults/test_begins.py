"""A begin that the service told wrong, however often, is not believed for ever: said, and its logs land."""

import contextlib
from collections.abc import Callable

import pytest
from pyiceberg.expressions import EqualTo

from fuzz.lies import wire
from pipelines.landing.commit.planned import execute
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.describe import preview
from pipelines.landing.operations.forget import plan_forget_before
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.table.commands import LAND
from sls_io.values.errors import LedgerBroken, SlsError
from sls_io.values.window import HOUR_S
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.wrong_answers import LOW, all_right, backfill, tell

START_S = str(1_767_225_600)
"""The hour that the settings of these worlds begin at, as GetCursor is asked for it."""


def heads(world: World) -> dict[int, tuple[int, int]]:
    """(begin, end) of each listed shard, as they are now."""
    with world.client as client:
        found = {s.id: client.head(s) for s in client.shards()}
    return {shard: (int(head.begin), int(head.end)) for shard, head in found.items()}


def says(world: World, shard: int, asked: str, cursor: int, *, times: int | None = None) -> None:
    """GetCursor of what is asked (`begin`, `end`, or `[0-9]+` for any time) answers with this cursor."""
    aimed = {"call": "get_cursor", "shard": shard, "query": {"from": asked}}
    tell(world, "answer", field="cursor", value=wire(cursor), times=times, **aimed)


def put(world: World, rows: int = 20, *, key: str | None = None) -> None:
    """Logs, and then a minute."""
    world.put(rows, key=key, pass_s=60)


@pytest.fixture
def two_hours(quick: World) -> World:
    """Logs of one receive hour and of the next but one, and nothing has landed."""
    put(quick)
    quick.pass_by(2 * HOUR_S)
    put(quick)
    return quick


def begun_late(world: World, asked: str = "begin", **changes: str) -> int:
    """A first run all through which shard 0 is said to begin with its second hour; where it begins really."""
    begin, _ = heads(world)[0]
    with world.client as client:
        late = int(client.cursor_at(0, int(client.now_s()) - HOUR_S))
    assert late > begin
    world.logstore = world.changed(**changes)
    says(world, 0, asked, late)
    world.land()
    all_right(world)
    assert world.ledger.shards[0].start == late
    return begin


@pytest.mark.parametrize("times", [2, 3, 4])
@pytest.mark.parametrize("asked", ["begin", "[0-9]+"])
@pytest.mark.parametrize("reset", ["earliest", "2026-01-01-00:00", "group"])
def test_a_begin_that_is_told_wrong_at_the_first_start_costs_no_log(
    quick: World, reset: str, asked: str, times: int
) -> None:
    put(quick)
    quick.logstore = quick.changed(reset=reset)
    _, end = heads(quick)[0]
    for each in {asked, "begin"}:
        says(quick, 0, each, end, times=times)
    quick.land()
    all_right(quick)
    quick.land()
    quick.assert_whole()
    assert (quick.ledger.shards[0].gaps, quick.land().readable) == ((), ())


@pytest.mark.parametrize(
    ("reset", "asked"), [("earliest", "begin"), ("earliest", START_S), ("2026-01-01-00:00", START_S)]
)
def test_logs_before_a_wrong_begin_are_said_by_each_run_and_by_verify_and_the_named_fill_lands_them(
    two_hours: World, reset: str, asked: str
) -> None:
    world = two_hours
    begin = begun_late(world, asked, reset=reset)
    start, before = world.ledger.shards[0].start, world.ledger.shards[0].rows
    for _ in range(2):
        (said,) = world.land().readable
        assert f"[{begin}, {start}) lies before where this shard begins" in said
    with world.client as client:
        assert preview(world.logstore, world.lake, client).readable == (said,)
    found = world.proof()
    assert f"shard 0: {found.shards[0].problems[0]}" == said
    assert (found.ok, found.shards[1].problems) == (False, ())

    backfill(world, said)

    entry = world.ledger.shards[0]
    assert entry.landed.pairs == ((begin, entry.frontier),)
    assert (entry.start, entry.rows > before) == (start, True)
    assert world.land().readable == ()
    world.assert_whole()


def test_a_begin_of_a_child_that_is_always_told_wrong_is_said_and_its_logs_land(quick: World) -> None:
    put(quick)
    quick.land()
    quick.emulator.admin.split(PROJECT, quick.logstore.service.logstore, 0)
    put(quick, 30, key=LOW)
    quick.pass_by(2 * HOUR_S)
    put(quick, 10, key=LOW)
    with quick.client as client:
        late = int(client.cursor_at(2, int(client.now_s()) - HOUR_S))
    for asked in ("begin", "1"):
        says(quick, 2, asked, late)
    for _ in range(4):
        quick.land()
    all_right(quick)
    entry = quick.ledger.shards[2]
    assert (entry.start, entry.rows) == (late, 10)

    (said,) = quick.land().readable
    assert quick.proof().shards[2].problems == (said.removeprefix("shard 2: "),)
    backfill(quick, said)
    quick.assert_whole()


def test_logs_before_a_wrong_begin_are_said_of_a_closed_shard_too(two_hours: World) -> None:
    world = two_hours
    begun_late(world)
    world.emulator.admin.split(PROJECT, world.logstore.service.logstore, 0)
    for _ in range(3):
        report = world.land()
    assert world.ledger.shards[0].closed
    (said,) = report.readable
    assert not world.proof().ok
    backfill(world, said)
    assert world.ledger.shards[0].closed
    world.assert_whole()


def test_retention_that_takes_the_logs_before_a_wrong_begin_ends_what_is_said(two_hours: World) -> None:
    world = two_hours
    begun_late(world)
    assert not world.proof().ok
    world.pass_by(30 * 86_400 - HOUR_S)
    world.land()
    assert world.land().readable == ()
    assert world.proof().ok


def chosen_hour(world: World) -> None:
    """The settings begin at the hour before this one."""
    with world.client as client:
        world.logstore = world.changed(start=hour_text(int(client.now_s()) // HOUR_S - 1))
    world.land()


def chosen_policy(reset: str) -> Callable[[World], None]:
    """The first run begins by this policy."""

    def choose(world: World) -> None:
        world.logstore = world.changed(reset=reset)
        world.land()

    choose.__name__ = reset
    return choose


def chosen_checkpoints(world: World) -> None:
    """The first run begins at the group's checkpoints, which are at the end."""
    world.land()
    assert world.land().readable == ()
    world.logstore = world.changed(table="bronze.other_" + world.logstore.table.split("_")[-1], reset="group")
    world.land()


def chosen_by_a_person(world: World) -> None:
    """Rows are lost, and a person lets shards begin at their end."""
    world.land()
    world.table.delete(EqualTo(term="__shard__", value=0))
    planned = world.asked(plan_adopt, at="latest", without_missing=True)
    execute(world.lake, planned)


POLICIES = [
    *map(chosen_policy, ("latest", "1h", "90m")),
    chosen_hour,
    chosen_checkpoints,
    chosen_by_a_person,
]


@pytest.mark.parametrize("choose", POLICIES, ids=lambda choose: choose.__name__)
def test_a_start_that_somebody_chose_is_no_wrong_begin(
    two_hours: World, choose: Callable[[World], None]
) -> None:
    world = two_hours
    choose(world)
    entry = world.ledger.shards[0]
    assert entry.start > heads(world)[0][0]
    put(world)
    report = world.land()
    assert (report.readable, report.rows) == ((), 20)
    assert world.proof().ok
    assert world.ledger.shards[0].start == entry.start


def test_logs_of_hours_that_are_forgotten_are_not_asked_for(two_hours: World) -> None:
    """No fill lands them, so nothing says that one should."""
    world = two_hours
    begun_late(world)
    assert world.land().readable
    with world.client as client:
        planned = plan_forget_before(world.lake, world.logstore, client, int(client.now_s()) // HOUR_S)
        execute(world.lake, planned)
    assert world.land().readable == ()
    assert world.proof().ok


@pytest.mark.parametrize("reset", ["earliest", "2026-01-01-00:00", "latest", "1h", "group"])
@pytest.mark.parametrize("rows", [20, 0], ids=["with logs", "without"])
@pytest.mark.parametrize("times", [False, True], ids=["edges", "edges and times"])
def test_begins_and_ends_of_two_shards_that_are_swapped_for_a_first_run_are_mended_by_the_next(
    quick: World, reset: str, rows: int, times: bool
) -> None:
    put(quick, rows)
    quick.logstore = quick.changed(reset=reset)
    at = heads(quick)
    for shard, other in ((0, 1), (1, 0)):
        says(quick, shard, "begin", at[other][0])
        says(quick, shard, "end", at[other][1])
        if times:
            says(quick, shard, "[0-9]+", at[other][0])
    with contextlib.suppress(LedgerBroken):
        quick.land()
    all_right(quick)
    quick.land()
    put(quick, 10)
    quick.land()
    quick.assert_proved()
    if reset in ("earliest", "2026-01-01-00:00", "group"):
        quick.assert_each_log_once()


def test_a_shard_that_begins_beyond_its_end_is_said_with_the_verb_that_mends_it(quick: World) -> None:
    put(quick)
    at = heads(quick)
    for shard, other in ((0, 1), (1, 0)):
        for asked, cursor in zip(("begin", "end"), at[other], strict=True):
            says(quick, shard, asked, cursor)
    low, high = sorted(at, key=lambda shard: at[shard])
    with pytest.raises(LedgerBroken, match="nothing is lost") as broken:
        quick.land()
    assert broken.value.cures == (LAND,)
    all_right(quick)
    (said,) = quick.proof().shards[low].problems
    assert f"begins this shard at {at[high][0]}, and the service at {at[low][0]}" in said
    assert "the next live run lets the shard begin anew" in said
    (line,) = quick.land().readable
    assert f"begins at {at[low][0]} and no longer at {at[high][0]}: the service told a wrong begin" in line
    quick.assert_whole()


def test_a_fill_says_that_a_live_run_is_first_where_a_shard_begins_beyond_its_end(quick: World) -> None:
    put(quick)
    at = heads(quick)
    for asked in ("begin", "[0-9]+", "end"):
        says(quick, 0, asked, at[0][1] + 10**9)
    quick.land()
    all_right(quick)
    with quick.client as client:
        hour = int(client.now_s()) // HOUR_S
    with pytest.raises(LedgerBroken) as broken:
        quick.land(mode="fill", hours=(hour, hour + 1))
    assert broken.value.cures == (LAND,)
    quick.land()
    quick.assert_sound()


def test_an_end_that_is_told_too_low_now_moves_no_start(quick: World) -> None:
    """A right start with nothing landed from it, and one wrong answer: nothing is changed by that."""
    put(quick)
    quick.logstore = quick.changed(reset="latest")
    quick.land()
    start = quick.ledger.shards[0].start
    says(quick, 0, "end", heads(quick)[0][0] + 1)
    with pytest.raises(LedgerBroken):
        quick.land()
    all_right(quick)
    quick.land()
    assert quick.ledger.shards[0].start == start


@pytest.mark.fault("4b.expired.plan")
def test_a_begin_beyond_the_end_names_no_gap_when_retention_took_logs_as_well(quick: World) -> None:
    put(quick)
    quick.land()
    quick.emulator.admin.advance(31 * 24 * HOUR_S)
    put(quick)
    _, end = heads(quick)[0]
    says(quick, 0, "begin", end + 1000, times=1)

    assert any("shard 0" in line for line in quick.land().suspects)

    all_right(quick)
    for _ in range(3):
        quick.pass_by(60)
        quick.land()
    assert all(gap.end <= end for gap in quick.ledger.shards[0].gaps)
    landed = quick.identities()
    assert set(quick.truth()) <= set(landed) and max(landed.values()) == 1
    assert quick.proof().ok


@pytest.mark.fault("4b.expired.plan")
@pytest.mark.parametrize("days", [29, 31])
@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("ttl", [-1, 1, 3650])
def test_a_retention_that_is_told_wrong_once_neither_hides_nor_makes_the_gap_of_a_child(
    quick: World, ttl: int, after: int, days: int
) -> None:
    """Story: a child is first seen after retention took its first logs. That run fixes its start, and one
    wrong answer about the retention said that nothing can be missing before it."""
    child, begin = seen_late(quick, days)
    tell(quick, "answer", call="get_logstore", field="ttl", value=ttl, after=after, times=1)

    with contextlib.suppress(SlsError):
        quick.land()
    quick.emulator.admin.remove()
    quick.land()

    entry = quick.ledger.shards[child]
    gaps = [(int(gap.begin), int(gap.end)) for gap in entry.gaps]
    assert (entry.start, gaps[:1]) == (begin, [(0, begin)] if days > 30 else [])


@pytest.mark.fault("4b.expired.plan")
def test_a_child_whose_creation_is_never_told_may_be_as_old_as_its_logstore(quick: World) -> None:
    child, begin = seen_late(quick, 31)
    tell(quick, "answer", call="list_shards", item=child, field="createTime", drop=True)

    quick.land()

    entry = quick.ledger.shards[child]
    assert [(int(gap.begin), int(gap.end)) for gap in entry.gaps] == [(0, begin)]


def seen_late(quick: World, days: int) -> tuple[int, int]:
    """A child with logs, so many days older than the first run that sees it; with its begin."""
    put(quick, key=LOW)
    quick.land()
    all_right(quick)
    quick.emulator.admin.split(PROJECT, quick.logstore.service.logstore, 0)
    put(quick, 10, key=LOW)
    quick.pass_by(days * 86_400)
    put(quick, 10, key=LOW)
    child = next(shard for shard, (begin, end) in heads(quick).items() if shard > 1 and begin < end)
    return child, heads(quick)[child][0]
