"""`sls-lake landings show`: the landings of a table, what is missing of it, and the files beside it."""

import io
from pathlib import Path

from pipelines.cli.deciding import show_effect
from pipelines.cli.landings import show_all
from pipelines.cli.main import EXIT_USAGE
from pipelines.cli.output import Output
from pipelines.landing.commit.planned import execute
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.landings import landings_of
from pipelines.landing.operations.rollback import plan_rollback
from sls_io.values.clock import SYSTEM_CLOCK
from tests.worlds.changed_table import append_by_hand, roll_back
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, World
from tests.worlds.two_hours import snapshots, started
from tests.worlds.two_logstores import second_logstore

__all__ = ["started"]


def test_each_landing_says_when_by_which_run_and_which_windows(started: World, command: Command) -> None:
    said = command("landings", "show")

    assert said["code"] == 0 and said["trouble"] == "" and said["orphans"] == []
    assert [e["snapshot_id"] for e in said["landings"]] == snapshots(started)
    assert [e["rows"] for e in said["landings"]] == [0, 10, 10]
    assert all(e["in_table"] and e["run"] for e in said["landings"])
    windows = [w for e in said["landings"] for w in e["windows"]]
    assert all("sum" not in w for w in windows), "none is kept, and 0 would be a claim"
    assert {w["window"]["hour"] for w in windows} == {HOUR0, HOUR0 + 1}
    assert {w["window"]["shard"] for w in windows} == {0, 1}
    assert [e["rows"] for e in command("landings", "show", "--last", "1")["landings"]] == [10]


def test_what_a_rollback_took_back_is_said_and_what_it_brought_back_too(
    started: World, command: Command
) -> None:
    first, second, third = snapshots(started)

    def there() -> list[int]:
        return [e["snapshot_id"] for e in command("landings", "show")["landings"] if e["in_table"]]

    roll_back(started)
    refusal = command("landings", "show")
    assert "rolled back by hand" in refusal["trouble"]
    assert any(f"table rollback {second}" in cure.get("call", "") for cure in refusal["cures"])
    assert there() == [first, second]
    back = command("table", "rollback", str(second), "--execute")["committed"]
    assert there() == [first, second, back]
    again = command("table", "rollback", str(third), "--execute")["committed"]
    assert there() == [first, second, third, again]
    listed = command("landings", "show")["landings"]
    assert [e["verb"] for e in listed] == ["", "", "", f"rollback {second}", f"rollback {third}"]
    assert [command("landings", "show", e["run"])["snapshot_id"] for e in listed] == [
        e["snapshot_id"] for e in listed
    ]
    text = command("landings", "show", listed[2]["run"], json=False)["text"]
    assert "committed" in text and "rows 10" in text


def test_a_window_that_was_taken_back_is_said_until_it_is_landed_again(
    started: World, command: Command
) -> None:
    assert command("table", "undo", "--hour", hour_text(HOUR0), "--execute")["executed"]

    _, first, second, _ = command("landings", "show")["landings"]
    assert [w["hour"] for w in first["withdrawn"]] == [w["window"]["hour"] for w in first["windows"]] != []
    assert second["withdrawn"] == [] and second["windows"]

    started.land(mode="fill", hours=(HOUR0, HOUR0 + 1))
    assert [e["withdrawn"] for e in command("landings", "show")["landings"]] == [[]] * 5


def test_gaps_are_listed_with_their_cause(started: World, command: Command) -> None:
    first, *_ = snapshots(started)
    planned = plan_rollback(started.lake, started.logstore.table, first)
    execute(started.lake, planned)
    started.emulator.admin.advance(40 * 86400)
    started.land_more(10, pass_s=120)

    missing = command("landings", "show")["missing"]

    assert {gap["cause"] for gap in missing} == {"expired"}
    assert {gap["shard"] for gap in missing} == {0, 1}


def test_files_that_no_snapshot_refers_to_are_orphans_once_they_are_old(
    started: World, command: Command
) -> None:
    """A file that a rollback took out of main is none, as long as its snapshot is kept."""
    landed = Path(started.published()[0])
    orphan = landed.with_name("left-behind.parquet")
    orphan.write_bytes(b"1234")
    execute(started.lake, plan_rollback(started.lake, started.logstore.table, snapshots(started)[0]))

    assert command("landings", "show")["orphans"] == [], "a landing may be about to publish it"
    found = landings_of(started.logstore, started.lake, floor_s=-3600, clock=SYSTEM_CLOCK).orphans

    assert found is not None
    assert [(Path(o.path).name, o.size) for o in found] == [("left-behind.parquet", 4)]
    assert command("landings", "show", "--no-orphans")["orphans"] is None


def test_landings_of_another_logstore_and_rows_by_hand_are_not_ours(started: World, command: Command) -> None:
    started.land(logstore=second_logstore(started))
    append_by_hand(started)

    said = command("landings", "show")

    assert [e["rows"] for e in said["landings"]] == [0, 10, 10]
    assert "rows of unknown origin" in said["trouble"]


def test_people_read_whole_snapshot_ids_that_they_can_copy(started: World) -> None:
    file = io.StringIO()
    output = Output(file=file)
    found = landings_of(started.logstore, started.lake)
    show_all(output, found, list(found.found), 48.0)
    second = snapshots(started)[1]
    show_effect(output, plan_rollback(started.lake, started.logstore.table, second).view)

    said = file.getvalue()

    assert all(str(snapshot) in said for snapshot in snapshots(started))
    assert all(str(entry.frontier) in said for entry in started.ledger.shards.values())
    assert "receive hours: 2026" in said and "no orphan files older than 48 hours" in said
    assert "/p/" not in said, "what logs say is nobody's business here"


def test_without_a_table_there_is_nothing_to_show(world: World, command: Command) -> None:
    said = command("landings", "show")
    assert said["code"] == EXIT_USAGE and "nothing has landed" in said["error"]
