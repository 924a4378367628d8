"""A table that is given up takes along what was decided of it: removals, values that may not land, pauses.

Nothing of that is in the new table, so it is said before anybody decides.
"""

from pathlib import Path

import pytest

from sls_io.values.cures import Do
from sls_io.values.errors import LedgerBroken
from tests.worlds.command_line import Command
from tests.worlds.lost_metadata import newest_metadata
from tests.worlds.one_logstore import World
from tests.worlds.three_hours import NEXT, hours_in_table, started

__all__ = ["started"]

UNKNOWN = "nobody can tell"


def lose_row(world: World) -> None:
    """The catalog's row; the files stay."""
    world.lake.catalog().drop_table(world.logstore.table)


def test_hours_that_were_removed_for_good_are_said_to_land_again_and_do_unless_start_is_raised(
    started: World, command: Command
) -> None:
    removed = command("table", "forget", "--before", NEXT, "--execute")
    assert removed["rows"] == 10 and hours_in_table(started) == [1, 2]
    lose_row(started)

    dry = command("table", "start-over")

    assert (dry["code"], dry["removed"]) == (0, 10)
    said = " ".join(dry["ends"])
    assert "removed for good: 10 rows" in said and f"`start: {NEXT}`" in said and UNKNOWN not in said
    assert dry["does_it"]["loses"] == dry["ends"]
    done = command("table", "start-over", "--execute")
    assert done["executed"] and done["ends"] == dry["ends"]

    started.land(logstore=started.changed(start=NEXT))
    assert hours_in_table(started) == [1, 2]
    lose_row(started)
    assert command("table", "start-over", "--execute")["removed"] == 0
    started.land()
    assert hours_in_table(started) == [0, 1, 2], "without it they are back"


def test_single_rows_values_and_pauses_that_end_with_the_old_table_are_said(
    started: World, command: Command
) -> None:
    for words in (
        ("table", "forget", "--where", "n >= 8 and n < 12"),
        ("table", "forget", "--where", "n = 13", "--from-now-on"),
        ("shards", "pause", "1"),
    ):
        assert command(*words, "--execute")["code"] == 0, words
    started.put(1, pass_s=60)
    started.land(logstore=started.changed(columns={**started.logstore.columns, "who": "drop"}))
    lose_row(started)

    dry = command("table", "start-over")

    assert dry["removed"] == 4
    removal, values, plain, pause = dry["ends"]
    assert "may not land as sent, by key who:" in plain
    assert removal.startswith("removed for good, of 2 receive hours: 4 rows;")
    assert "by column n: 1:" in values and pause.startswith("paused: shards 1:")
    text = command("table", "start-over", json=False)["text"]
    assert removal in text.replace("\n", " ") and "removed 4" in text


def test_a_table_of_which_nothing_was_decided_ends_nothing(started: World, command: Command) -> None:
    lose_row(started)
    dry = command("table", "start-over")
    assert (dry["removed"], dry["ends"], dry["does_it"]["loses"]) == (0, [], [])


def test_what_only_the_metadata_said_that_is_gone_nobody_can_tell(
    started: World, command: Command, tmp_path: Path
) -> None:
    assert command("table", "forget", "--before", NEXT, "--execute")["code"] == 0
    newest = newest_metadata(started)
    newest.rename(tmp_path / newest.name)
    dry = command("table", "start-over")
    assert dry["code"] == 0 and dry["removed"] == 0, "the metadata before it knows of no removal"
    assert any(UNKNOWN in each and "decided after" in each for each in dry["ends"])

    for path in newest.parent.glob("*.metadata.json"):
        path.unlink()
    dry = command("table", "start-over")
    assert dry["removed"] is None and UNKNOWN in str(dry["ends"])


def test_a_dry_run_promises_no_folder_that_the_execution_does_not_make(
    started: World, command: Command
) -> None:
    old = started.table.location()
    lose_row(started)

    dry = command("table", "start-over")
    assert (dry["location"], dry["beside"]) == ("", old)
    text = command("table", "start-over", json=False)["text"]
    assert f"a new folder beside {old}" in text.replace("\n", "") and f"{old}-" not in text

    done = command("table", "start-over", "--execute", json=False)["text"].replace("\n", "")
    made = started.table.location()
    assert made.startswith(f"{old}-") and f"lies in {made}" in done


def test_a_mistyped_table_in_a_group_with_checkpoints_is_told_to_be_named_again_first(
    started: World,
) -> None:
    wrong = started.changed(table="bronze.acess_logs")
    with pytest.raises(LedgerBroken, match="there is no table bronze") as refused:
        started.run(logstore=wrong).land()
    first = refused.value.cures[0]
    assert isinstance(first, Do) and "bronze.acess_logs" in first.text
    started.land()
    started.assert_each_log_once()
