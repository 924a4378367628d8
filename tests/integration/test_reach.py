"""Hours of which something can never be landed, or not yet, are named with the cause and are no success."""

import re

from pipelines.cli.main import EXIT_FAILED
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.table_files import hours_of
from pipelines.landing.operations import reach
from sls_io.planning.waits import Why
from tests.worlds.changed_table import expire_all
from tests.worlds.command_line import Command
from tests.worlds.graphql_server import answering, data
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.three_hours import HOUR, NEXT, hours_in_table, started

__all__ = ["started"]


def retain(world: World, before_hour: int) -> None:
    """Retention takes all receive hours before this one (counted from the first)."""
    world.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 3600 * before_hour)


def test_withdrawn_rows_that_retention_took_are_named_and_the_backfill_is_no_success(
    started: World, command: Command
) -> None:
    undone = command("table", "undo", "--hour", HOUR, "--execute")
    assert (undone["code"], undone["cannot_come_again"]) == (0, [])
    retain(started, 1)

    said = command("backfill", "--from", HOUR, "--local")

    assert (said["code"], said["rows"]) == (EXIT_FAILED, 0)
    found = [re.match(rf"shard \d: (\d+) withdrawn rows of {HOUR}, \[\d", x) for x in said["cannot_come"]]
    assert sum(int(match[1]) for match in found if match) == 10
    assert not any(wait["kind"] == Why.NOTHING_MISSING for wait in said["waits"].values())
    assert command("backfill", "--from", NEXT, "--local")["cannot_come"] == []

    retain(started, 2)
    warned = command("table", "undo", "--hour", NEXT)
    assert warned["code"] == 0 and len(warned["cannot_come_again"]) == 2
    assert all(f" of {NEXT}: these rows cannot be landed again" in x for x in warned["cannot_come_again"])
    assert hours_in_table(started) == [1, 2]


def test_a_rollback_that_brings_rows_back_says_all_rows_that_it_costs(
    started: World, command: Command
) -> None:
    """60 rows leave and retention has taken them, 10 return: 60 are lost, and not what is between."""
    before = started.table.current_snapshot()
    assert before is not None
    assert command("table", "undo", "--hour", NEXT, "--execute")["code"] == 0
    assert started.land().rows == 60
    retain(started, 4)

    said = command("table", "rollback", str(before.snapshot_id))

    assert (said["kept"]["rows"], said["kept"]["lost"]) == (60, 60)


def test_hours_that_nobody_has_are_said_to_be_none(started: World, command: Command) -> None:
    assert command("table", "forget", "--before", NEXT, "--execute")["code"] == 0
    for hour, why in (
        ("2030-01-01-00:00", "not received yet, the service's clock says 2026-09-21-16:10"),
        ("2026-09-20-00:00", "removed by `table forget`, for good"),
    ):
        for mode in ("fill", "errors"):
            said = command("backfill", "--from", hour, "--local", "--mode", mode)
            assert (said["code"], said["cannot_come"]) == (EXIT_FAILED, [f"{hour}: {why}"]), mode
    part = command("backfill", "--from", NEXT, "--to", "2026-09-21-18:00", "--local", "--mode", "errors")
    assert part["code"] == EXIT_FAILED and part["cannot_come"][0].startswith("2026-09-21-17:00..")


def test_a_backfill_of_the_running_hour_says_that_it_is_not_over_and_when_to_ask_again(
    started: World, command: Command
) -> None:
    """As Dagster tells it: the run is green, and the hour is not done."""
    running = "2026-09-21-16:00"
    counts = {"numPartitionsTargeted": 1, "numPartitionsMaterialized": 0, "numPartitionsFailed": 0}
    answer = data(
        launchPartitionBackfill={"__typename": "LaunchBackfillSuccess", "backfillId": "abc"},
        partitionBackfillOrError={
            "__typename": "PartitionBackfill",
            "status": "COMPLETED_FAILED",
            "numPartitions": 1,
            "error": None,
            "assetBackfillData": {"assetBackfillStatuses": [counts]},
        },
        runsOrError={"__typename": "Runs", "results": []},
    )
    rows = sum(x.rows for x in hours_of(started.logstore, started.lake) if hour_text(x.hour) == running)
    with answering(answer) as url:
        said = command("backfill", "--from", NEXT, "--to", running, "--dagster-url", url)
        text = command("backfill", "--from", running, "--dagster-url", url, json=False)["text"]
        over = command("backfill", "--from", NEXT, "--dagster-url", url)
    assert said["code"] == EXIT_FAILED
    assert said["not_over"] == [{"hour": running, "rows": rows}]
    assert f"{running} is not over" in text and "ask again after 2026-09-21 17:00:" in text
    assert f"{rows:,} rows are in the table so far" in text
    assert over["not_over"] == []


def test_before_the_first_landing_what_would_land_is_said_and_no_table_is_made(
    world: World, command: Command
) -> None:
    """The windows of a plan and of a fill are those that the first landing brings then."""
    world.put(40, until_s=HOUR0_S + 30 * 60)

    planned = command("land", "--dry-run")
    filled = command("backfill", "--from", HOUR, "--dry-run")

    assert world.lake.load(world.logstore.table) is None and world.files() == set()
    assert (planned["code"], planned["first_start"], planned["waits"]) == (0, True, {})
    assert (filled["code"], filled["first_start"], filled["waits"]) == (0, True, {})
    said = command("land", "--dry-run", json=False)["text"]
    assert "nothing has landed yet; the first run makes the table" in said and "windows would land" in said
    fields = ("shard", "hour", "begin", "end")
    assert [[str(part[name]) for name in fields] for part in filled["coming"]] == [
        [str(field) for field in window] for window in planned["windows"]
    ]
    assert world.land().rows == 40
    landed = [x.window for _, windows in world.landings() for x in windows]
    assert {(w.shard, w.hour, str(w.begin), str(w.end)) for w in landed} == {
        tuple(window) for window in planned["windows"]
    }


def test_before_the_first_landing_only_what_the_service_has_can_come(world: World) -> None:
    world.put(10)
    asked = range(HOUR0 - 2, HOUR0 + 1)
    (lack,) = world.asked(reach.lacking, asked)
    assert (lack.kind, lack.hours) == ("before", range(HOUR0 - 2, HOUR0))
    assert lack.text.endswith(f"the oldest log that it still has is of {HOUR}")


def test_a_named_gap_is_named_for_the_hours_it_lies_in_and_no_others(started: World) -> None:
    started.at(HOUR0_S + 3 * 3600)
    started.put(10)
    retain(started, 4)
    started.at(HOUR0_S + 5 * 3600)
    started.put(10, until_s=HOUR0_S + 5 * 3600 + 60)
    assert len(started.land().suspects) == 2  # logs so young are not deleted by age
    started.at(HOUR0_S + 5 * 3600 + 120)
    assert len(started.land().gaps) == 2

    found = [
        [x.kind for x in started.asked(reach.lacking, range(hour, hour + 1))]
        for hour in range(HOUR0, HOUR0 + 6)
    ]

    # Of the third hour 10 rows had landed, then 60 logs came that nobody landed in time.
    assert found == [[], [], ["gap", "gap"], ["gap", "gap"], ["gap", "gap"], []]


def test_what_was_withdrawn_and_no_window_tells_of_is_said_beside_what_one_does(
    started: World, command: Command
) -> None:
    """Of the first hour the snapshot with the windows is expired, of the third it is there."""
    expire_all(started)
    started.at(HOUR0_S + 3 * 3600 + 120)
    started.land()
    for hour in (HOUR, hour_text(HOUR0 + 2)):
        assert command("table", "undo", "--hour", hour, "--execute")["executed"]
    retain(started, 3)

    found = started.asked(reach.lacking, range(HOUR0, HOUR0 + 3))

    said = {lack.kind: lack for lack in found}
    assert said["withdrawn"].hours == range(HOUR0 + 2, HOUR0 + 3)
    assert said["unsure"].hours == range(HOUR0, HOUR0 + 3) and "nobody knows any more" in said["unsure"].text
