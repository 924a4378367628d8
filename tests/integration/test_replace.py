"""Whole hours are dropped and landed again in one commit: all of it, or nothing."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.types import StringType

from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.codec import VERB_KEY
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.summary import summary_of
from sls_io.values.errors import ConfigError, LandingConflict, LedgerBroken, TransportError
from tests.worlds.command_line import Command, separately
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.printed_cures import named
from tests.worlds.removed_rows import carry_out, removal
from tests.worlds.three_hours import NEXT, fill, hours_in_table, replaced, started
from tests.worlds.three_hours import undo_of as plan_undo
from tests.worlds.two_runs import At

__all__ = ["started"]


@pytest.mark.spark
def test_an_hour_is_replaced_in_one_commit_and_a_dry_run_changes_nothing(
    started: World, command: Command, tmp_path: Path
) -> None:
    """The command line does it in a process of its own, with a Spark of its own."""
    verb = ("backfill", "--mode", "replace", "--from", NEXT, "--local")
    before, files, snapshots = (
        started.identities(),
        set(started.published()),
        started.table.metadata.snapshots,
    )
    ledger, checkpoints = started.ledger, started.checkpoints()

    dry = command(*verb)

    assert (dry["code"], dry["executed"], dry["rows"]) == (0, False, 10)
    assert [(each["shard"], each["rows_after"]) for each in dry["shards"]] == [
        (shard, ledger.shards[shard].rows) for shard in sorted(ledger.shards)
    ], "the rows that leave land again in the same commit"
    assert set(started.published()) == files
    elsewhere = command(*verb[:-1])
    assert (elsewhere["code"], elsewhere["executed"]) == (0, False), "a dry run is made here, whoever runs it"

    done = separately(*verb, "--execute", "--logstore", str(tmp_path / "defs.yaml"))

    assert (done["executed"], done["rows"], done["replaced"]["rows"]) == (True, 10, 10)
    table = started.table
    assert len(table.metadata.snapshots) == len(snapshots) + 1
    assert summary_of(table.current_snapshot())[VERB_KEY] == f"replace {NEXT}"
    assert len(files - set(started.published())) == 2, "the hour's files are others now"
    assert started.identities() == before
    assert started.ledger == ledger and reconcile(table) == []
    assert started.checkpoints() == checkpoints
    assert started.land().rows == 60
    started.assert_sound()


def test_of_the_hour_that_runs_what_has_landed_so_far_is_replaced(started: World, command: Command) -> None:
    """Its ten rows leave and come; the 60 logs behind the frontiers are the next live run's."""
    verb = ("backfill", "--mode", "replace", "--from", "2026-09-21-16:00", "--local")
    before, files, ledger = started.identities(), set(started.published()), started.ledger
    dry = command(*verb)
    assert (dry["code"], dry["rows"], dry["running"]) == (0, 10, [HOUR0 + 2]), dry
    assert "what has landed of it so far lands again" in command(*verb, json=False)["text"]

    assert replaced(started, range(HOUR0 + 2, HOUR0 + 3)).rows == 10

    assert started.ledger == ledger and started.identities() == before
    assert len(files - set(started.published())) == 2, "the hour's files are others now"
    started.assert_proved()
    assert started.land().rows == 60
    started.assert_sound()


def test_what_was_lost_by_hand_of_an_hour_is_back_after_a_replace(started: World) -> None:
    lost = next(r for r in started.table_rows() if r["n"] is not None and 10 <= r["n"] < 20)
    ledger = started.ledger
    started.table.delete(EqualTo(term="n", value=lost["n"]))
    with pytest.raises(AssertionError):
        started.assert_proved()

    with pytest.raises(LedgerBroken, match="misses rows: of access_logs") as refused:
        plan_undo(started)
    assert "sls-lake verify --pull" in named(refused.value.cures)

    assert replaced(started).rows == 10

    assert started.ledger == ledger, "the same cursors, so the same rows"
    started.land()
    started.assert_sound()


def test_what_a_backfill_had_left_of_the_hours_comes_with_the_replace(started: World) -> None:
    """One hour was undone, and landed again for one shard only."""
    execute(started.lake, plan_undo(started))
    narrow = started.changed(budget={"windows_max": 1, "settle_s": 10})
    first = started.land(logstore=narrow, mode="fill", hours=(HOUR0 + 1, HOUR0 + 2))
    assert 0 < first.rows < 10

    assert replaced(started).rows == 10

    assert not any(e.withdrawn for e in started.ledger.shards.values())
    started.land()
    started.assert_sound()


def test_a_changed_contract_is_applied_to_the_hours_that_are_replaced(started: World) -> None:
    """A new column and a wider one come with the same commit."""
    columns = {"n": "long", "status": "long", "path": "string"}

    assert replaced(started, columns=columns).rows == 10

    paths = {r["n"]: r["path"] for r in started.table_rows()}
    assert all(paths[n] == f"/p/{n % 7}" for n in range(10, 20))
    assert paths[0] is None and paths[25] is None
    started.land(logstore=started.changed(columns=columns))
    started.assert_sound()


def test_a_dry_run_counts_values_of_another_engine_that_a_replace_does_not_bring_back(
    started: World, command: Command
) -> None:
    with started.table.update_schema() as update:
        update.add_column("country", StringType())
    rows = started.table.scan().to_arrow()
    countries = pa.array([f"c{n}" if n % 2 else None for n in rows["n"].to_pylist()], pa.large_string())
    started.table.overwrite(rows.set_column(rows.schema.get_field_index("country"), "country", countries))

    for verb in (
        ("backfill", "--mode", "replace", "--from", NEXT, "--local"),
        ("table", "undo", "--hour", NEXT),
    ):
        assert command(*verb)["others"] == {"country": 5}


def test_of_two_replaces_of_the_same_hour_both_leave_it_whole(started: World) -> None:
    report = replaced(started, on_event=At("publish", lambda: replaced(started)))

    assert (report.rows, report.conflicts) == (10, 1)
    started.land()
    started.assert_sound()


def test_an_undo_meanwhile_stops_the_replace(started: World) -> None:
    race = At("publish", lambda: execute(started.lake, plan_undo(started)).snapshot)

    with pytest.raises(ConfigError, match="nothing to take back"):
        replaced(started, on_event=race)

    assert hours_in_table(started) == [0, 2]
    assert fill(started) == 10
    started.land()
    started.assert_sound()


def test_rows_that_are_removed_for_good_meanwhile_do_not_come_back(started: World) -> None:
    race = At("publish", lambda: carry_out(started, removal(started)))

    with pytest.raises(ConfigError, match="removed by `table forget`"):
        replaced(started, on_event=race)

    assert not {8, 9, 10, 11} & {row["n"] for row in started.table_rows()}
    started.assert_proved()


def test_hours_that_changed_meanwhile_are_not_replaced(started: World) -> None:
    """One of two hours is undone while both are written: what was looked at is not there any more."""
    race = At("publish", lambda: execute(started.lake, plan_undo(started)).snapshot)

    with pytest.raises(LandingConflict, match="changed meanwhile"):
        replaced(started, range(HOUR0, HOUR0 + 2), on_event=race)

    assert hours_in_table(started) == [0, 2]
    assert fill(started) == 10
    started.land()
    started.assert_sound()


def test_retention_that_overtakes_the_reading_stops_all_of_it(started: World) -> None:
    """The windows of both hours are planned; when they are read, the first is gone."""
    files = set(started.published())

    def expire() -> None:
        started.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 3600)

    with pytest.raises(TransportError, match="nothing was replaced"):
        replaced(started, range(HOUR0, HOUR0 + 2), on_event=At("write", expire))

    assert set(started.published()) == files
    started.assert_proved()


def test_an_hour_of_more_windows_than_a_run_may_have_is_replaced_and_is_the_cure_that_verify_names(
    started: World,
) -> None:
    narrow = started.changed(budget={"windows_max": 1, "settle_s": 10})
    lost = next(r for r in started.table_rows() if r["n"] is not None and 10 <= r["n"] < 20)
    started.table.delete(EqualTo(term="n", value=lost["n"]))
    with started.client as client:
        proof = verify(narrow, started.lake, client, pull=True)
    assert not proof.ok and f"--mode replace --local --from {NEXT}" in named(proof.cures), proof.cures

    report = replaced(started, **narrow.model_dump())

    assert report.rows == 10 and report.windows > narrow.budget.windows_max
    started.land()
    started.assert_sound()
