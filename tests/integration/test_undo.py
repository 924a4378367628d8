"""Whole receive hours are taken back, and landed again by whoever names them."""

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table.snapshots import Operation

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.describe import lacking_hours
from pipelines.landing.inspection.landings import landings_of
from pipelines.landing.ledger.codec import VERB_KEY
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.summary import summary_of, total_records
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError
from tests.worlds.changed_table import append_by_hand, compact
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.removed_rows import WHERE, carry_out, removal
from tests.worlds.spark_table import counted, expire, in_spark
from tests.worlds.three_hours import HOUR, NEXT, fill, hours_in_table, started, undo_of
from tests.worlds.two_hours import snapshots
from tests.worlds.two_runs import At

__all__ = ["started"]


def test_an_hour_is_taken_back_stays_away_and_comes_with_a_backfill(started: World, command: Command) -> None:
    before, files = started.ledger, started.files()
    checkpoints = started.checkpoints()

    dry = command("table", "undo", "--hour", NEXT)

    assert (dry["code"], dry["executed"], dry["rows"]) == (0, False, 10)
    assert dry["hours"] == {str(HOUR0 + 1): 10} and dry["files"] == 2
    assert sum(s["rows"] for s in dry["shards"]) == 10
    assert started.files() == files and len(started.table_rows()) == 30, "a dry run changes nothing"

    done = command("table", "undo", "--hour", NEXT, "--execute")

    assert done["code"] == 0 and done["executed"]
    head = started.table.current_snapshot()
    assert head is not None and head.snapshot_id == done["committed"]
    assert summary_of(head)[VERB_KEY] == f"undo {NEXT}"
    assert (total_records(head), len(started.table_rows())) == (20, 20)
    assert hours_in_table(started) == [0, 2]
    assert {s: e.frontier for s, e in started.ledger.shards.items()} == {
        s: e.frontier for s, e in before.shards.items()
    }
    assert reconcile(started.table) == []
    assert started.land().rows == 60, "a live run lands what is new and nothing else"
    assert hours_in_table(started) == [0, 2]
    assert checkpoints.keys() == started.checkpoints().keys()
    proof = command("verify")
    assert proof["code"] == 0 and proof["ok"]
    assert all(NEXT in shard["withdrawn"][0] for shard in proof["shards"])
    assert {m["cause"] for m in command("landings", "show")["missing"]} == {"withdrawn"}

    there, files = started.table.metadata, started.files()
    dry = command("backfill", "--from", NEXT, "--dry-run")
    assert (dry["code"], dry["executed"], dry["committed"], dry["first_start"]) == (0, False, None, False)
    assert {part["hour"] for part in dry["coming"]} == {HOUR0 + 1} and dry["windows"] == len(dry["coming"])
    assert "--dry-run" not in dry["does_it"]["call"] and "--execute" not in dry["does_it"]["call"]
    assert (started.table.metadata, started.files()) == (there, files), "a dry run changes nothing"

    assert fill(started) == 10

    nothing = command("backfill", "--from", NEXT, "--dry-run", json=False)
    assert nothing["code"] == 0 and "nothing of these hours is missing" in nothing["text"]
    assert "this does it" not in nothing["text"]
    started.assert_sound()
    assert not any(e.withdrawn for e in started.ledger.shards.values())
    assert {s: e.rows for s, e in started.ledger.shards.items()} != {}
    assert fill(started) == 0, "asking twice lands nothing"


def test_several_hours_go_together_and_a_backfill_of_one_brings_only_that(
    started: World, command: Command
) -> None:
    done = command("table", "undo", "--hour", f"{HOUR}..{NEXT}", "--execute")
    assert (done["code"], done["rows"], len(done["hours"])) == (0, 20, 2)

    assert fill(started, HOUR0) == 10

    assert hours_in_table(started) == [0, 2]
    with started.client as client:
        hours = range(HOUR0, HOUR0 + 2)
        assert lacking_hours(started.logstore, started.lake, client, hours, HOUR0_S + 7200) == {HOUR0 + 1}
    assert fill(started) == 10
    started.land()
    started.assert_sound()


def test_a_compacted_hour_is_taken_back_as_well(started: World) -> None:
    """Its one file holds rows of both shards."""
    compact(started)
    planned = undo_of(started)
    assert (planned.view.rows, len(planned.view.shards)) == (10, 2)

    execute(started.lake, planned)

    assert fill(started) == 10
    started.land()
    started.assert_sound()


def test_a_shard_that_was_born_after_the_hour_or_idles_since_holds_nothing_up(started: World) -> None:
    """Neither says by a landing that it passed the hour; the service says that it has nothing of it."""
    started.land()
    started.emulator.admin.split(PROJECT, "access_logs", 0)
    assert execute(started.lake, undo_of(started)).snapshot
    with pytest.raises(ConfigError, match="land once they are over"):
        undo_of(started, HOUR0 + 2)

    started.at(HOUR0_S + 4 * 3600)
    assert execute(started.lake, undo_of(started, HOUR0 + 2)).snapshot
    assert hours_in_table(started) == [0]
    assert fill(started) + fill(started, HOUR0 + 2) == 80
    started.land()
    started.assert_sound()


def test_an_hour_that_some_shard_has_not_passed_is_refused(started: World, command: Command) -> None:
    verb = ("table", "undo", "--hour", "2026-09-21-16:00", "--execute")
    refused = command(*verb)
    assert refused["code"] == EXIT_USAGE and "land once they are over" in refused["error"]
    started.at(HOUR0_S + 4 * 3600)
    over = command(*verb)
    assert over["code"] == EXIT_USAGE and "land first" in over["error"], "60 logs have not landed"
    started.land()
    with started.client as client:
        client.transport.split_shard(PROJECT, "access_logs", 0, "40000000000000000000000000000000")
    started.put(10, until_s=HOUR0_S + 5 * 3600)
    child = command(*verb[:3], "2026-09-21-18:00", "--execute")
    assert child["code"] == EXIT_USAGE and "land once they are over" in child["error"]
    assert len(started.table_rows()) == 90


def test_hours_without_rows_bad_hours_and_broken_tables_are_refused(started: World, command: Command) -> None:
    none = command("table", "undo", "--hour", "2026-09-21-10:00", "--execute")
    assert none["code"] == EXIT_USAGE and "nothing to take back" in none["error"]
    for wrong in ("noon", f"{NEXT}..{HOUR}", "2026-09-21-15:30"):
        assert command("table", "undo", "--hour", wrong)["code"] == EXIT_USAGE
    append_by_hand(started)
    strangers = command("table", "undo", "--hour", NEXT, "--execute")
    assert strangers["code"] == EXIT_FAILED and "sls-lake verify" in strangers["error"]


def test_an_hour_of_a_table_that_lost_rows_is_not_taken_back(started: World, command: Command) -> None:
    """What leaves could not be told from what is missing; a replace puts the hour right."""
    started.table.delete(EqualTo(term="n", value=0))
    refused = command("table", "undo", "--hour", NEXT, "--execute")
    assert refused["code"] == EXIT_FAILED
    assert " in shard " in refused["error"] and "sls-lake verify --pull" in refused["error"]
    assert len(started.table_rows()) == 29


def test_an_undo_between_plan_and_publish_of_a_backfill_lets_it_land_what_it_has(started: World) -> None:
    """The backfill brings the hour that was undone before; the one undone meanwhile stays away."""
    execute(started.lake, undo_of(started, HOUR0))
    race = At("publish", lambda: execute(started.lake, undo_of(started, HOUR0 + 1)).snapshot)

    assert started.land(mode="fill", hours=(HOUR0, HOUR0 + 2), on_event=race).rows == 10

    assert hours_in_table(started) == [0, 2]
    assert fill(started) == 10
    started.land()
    started.assert_sound()


def test_a_rollback_brings_an_undone_hour_back_and_another_takes_it_away_again(started: World) -> None:
    """No manifest says that the files are deleted, so nobody's expiry may take them meanwhile."""
    newest = snapshots(started)[-1]
    undone = execute(started.lake, undo_of(started)).snapshot

    execute(started.lake, plan_rollback(started.lake, started.logstore.table, newest))

    assert hours_in_table(started) == [0, 1, 2]
    started.assert_proved()
    started.land()
    started.assert_each_log_once()
    execute(started.lake, plan_rollback(started.lake, started.logstore.table, undone))
    assert hours_in_table(started) == [0, 2]
    started.land()
    assert fill(started) == 10
    started.assert_sound()


def test_files_that_left_are_orphans_only_once_no_snapshot_has_them(started: World) -> None:
    execute(started.lake, undo_of(started))
    assert landings_of(started.logstore, started.lake, floor_s=-3600, clock=SYSTEM_CLOCK).orphans == ()
    table = started.table
    head = table.current_snapshot()
    assert head is not None
    assert summary_of(head)["total-data-files"] == str(len(started.published()))
    assert head.summary is not None and head.summary.operation == Operation.OVERWRITE
    statuses = {
        int(entry.status)
        for manifest in head.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    assert 2 not in statuses, "no entry is marked as deleted"


def test_an_hour_that_expired_in_the_service_is_withdrawn_by_its_rows(started: World) -> None:
    started.land()
    started.emulator.admin.advance(40 * 86400)
    started.land_more(5, pass_s=120)
    rows = len(started.table_rows())

    execute(started.lake, undo_of(started))

    assert len(started.table_rows()) == rows - 10
    proof = started.proof()
    assert proof.ok
    assert any("no longer has" in text for s in proof.shards for text in s.withdrawn)
    assert fill(started) == 0, "retention took what a backfill could bring"
    started.assert_proved()


@pytest.mark.spark
def test_spark_reads_and_expires_a_table_after_an_undo_a_rollback_and_a_removal(
    world: World, spark_lake: Lake
) -> None:
    """New snapshots list old manifests, and expiry by another engine must not take their files; after it no
    snapshot has rows any more that were removed for good."""
    mine = in_spark(world, spark_lake, "undone")
    for _ in range(3):
        mine.land_more(10, pass_s=3600)
    newest = snapshots(mine)[-1]
    hour = min(mine.reports[0].hours) if mine.reports[0].hours else HOUR0

    rows = counted(mine)
    planned = undo_of(mine, hour)
    execute(spark_lake, planned)
    assert counted(mine) == rows - planned.view.rows
    execute(spark_lake, plan_rollback(spark_lake, mine.logstore.table, newest))
    assert counted(mine) == rows
    expire(mine)
    assert counted(mine) == rows
    mine.assert_each_log_once()
    execute(spark_lake, undo_of(mine, hour))
    expire(mine)
    assert counted(mine) == rows - planned.view.rows
    carry_out(mine, removal(mine))
    expire(mine)
    assert counted(mine, WHERE) == 0 and len(mine.table.metadata.snapshots) == 1
    assert mine.land_more(10, pass_s=120).rows == 10
    mine.assert_proved()
