"""What a row becomes: columns that grow, values that do not fit, pages that lie."""

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from aliyun.log import log_logs_raw_pb2 as pb

from pipelines.landing.run.report import STOPPED
from sls_io.values.errors import ConfigError, TransportError
from tests.worlds.lossy_catalog import lossy
from tests.worlds.one_logstore import HOUR0_S, World, group
from tests.worlds.two_logstores import second_logstore
from tests.worlds.two_runs import At

LOW, HIGH = "0" * 32, "f" * 32


def put(world: World, *groups: list[Mapping[str, str | bytes]], key: str = LOW) -> None:
    """Put groups of logs as they are, and let them settle."""
    with world.client as client:
        for logs in groups:
            client.put_raw(group(logs), key=key)
    world.emulator.admin.advance(60)


def one_row(world: World, **wanted: Any) -> dict[str, Any]:
    """The only row with these values."""
    rows = [r for r in world.table_rows() if all(r[k] == v for k, v in wanted.items())]
    assert len(rows) == 1, rows
    return rows[0]


@pytest.fixture
def started(world: World) -> World:
    """A world with 20 landed logs and 30 to come."""
    return world.begun(20, 30)


# --- columns ------------------------------------------------------------------------------------


def test_a_new_key_gets_its_column_in_the_commit_of_the_landing(started: World) -> None:
    versions = len(started.table.metadata.snapshots)
    logstore = started.changed(columns={**started.logstore.columns, "path": "string"})

    report = started.land(logstore=logstore)

    assert report.rows == 30
    assert len(started.table.metadata.snapshots) == versions + 1
    snapshot = started.table.current_snapshot()
    assert snapshot is not None and snapshot.schema_id == started.table.schema().schema_id == 1
    paths = {int(r["n"]): r["path"] for r in started.table_rows()}
    assert all((paths[n] is None) == (n < 20) for n in range(50)), "earlier rows have it in __rest__"
    started.assert_sound()


def test_int_widens_to_long_and_float_to_double_in_place(world: World) -> None:
    narrow = world.changed(columns={"status": "int", "ratio": "float"})
    wide = world.changed(columns={"status": "long", "ratio": "double"})
    put(world, [{"n": "1", "status": "200", "ratio": "0.5"}])
    world.land(logstore=narrow)
    put(world, [{"n": "2", "status": str(2**40), "ratio": "0.1"}])

    world.land(logstore=wide)

    rows = {dict(r["__rest__"])["n"]: (r["status"], r["ratio"]) for r in world.table_rows()}
    assert rows == {"1": (200, 0.5), "2": (2**40, 0.1)}
    assert str(world.table.schema().find_type("status")) == "long"
    assert str(world.table.schema().find_type("ratio")) == "double"


@pytest.mark.fault("4b.drift.stage")
def test_a_removed_key_keeps_its_column_and_its_values_go_to_rest(started: World) -> None:
    started.land(logstore=started.changed(columns={"n": "long"}))

    assert "status" in started.table.schema().column_names
    rows = {int(r["n"]): r for r in started.table_rows()}
    assert rows[5]["status"] == 200
    assert rows[25]["status"] is None
    assert dict(rows[25]["__rest__"])["status"] == "200"
    started.assert_each_log_once()


@pytest.mark.parametrize(
    "columns",
    [{"n": "long", "status": "string"}, {"n": "int", "status": "int"}, {"n": "long", "STATUS": "int"}],
    ids=["another type", "narrower", "another case"],
)
@pytest.mark.fault("4b.drift.plan")
def test_a_refused_change_of_a_column_moves_nothing(started: World, columns: dict[str, str]) -> None:
    metadata, checkpoints = started.table.metadata_location, started.checkpoints()
    pulls = started.watch_pulls()

    with pytest.raises(ConfigError, match=r"column '(status|n|STATUS)'"):
        started.land(logstore=started.changed(columns=columns))

    assert started.table.metadata_location == metadata
    assert started.checkpoints() == checkpoints
    assert pulls.asked == []


@pytest.mark.fault("4b.drift.commit")
def test_a_new_key_survives_a_lost_race_and_is_added_once(started: World) -> None:
    """Another logstore lands in between: the same files and the same new column on the new head."""
    other = second_logstore(started)
    logstore = started.changed(columns={**started.logstore.columns, "path": "string"})
    race = At("publish", lambda: started.land(logstore=other))

    report = started.land(logstore=logstore, on_event=race)

    assert (report.rows, report.conflicts, report.replans) == (30, 1, 0)
    assert started.table.schema().column_names.count("path") == 1
    assert [r["path"] is not None for r in started.table_rows() if r["n"] == 30] == [True]
    started.assert_proved()


@pytest.mark.fault("4b.drift.commit")
def test_a_new_key_whose_publish_got_no_answer_is_added_once(started: World) -> None:
    started.lake, catalog = lossy(started.lake)
    catalog.script.append("late")
    logstore = started.changed(columns={**started.logstore.columns, "path": "string"})

    report = started.land(logstore=logstore)
    catalog.deliver()

    assert catalog.deliveries == ["CommitFailedException"]
    assert report.rows == 30
    assert len(started.table.metadata.schemas) == 2
    started.assert_each_log_once()


@pytest.mark.fault("4b.drift.commit")
def test_of_two_runs_that_add_the_same_key_the_second_plans_again(started: World) -> None:
    """Disjoint windows, one new column: its id must be the table's, not the loser's own."""
    other = second_logstore(started)
    columns = {**started.logstore.columns, "path": "string"}
    race = At("publish", lambda: started.land(logstore=other.model_copy(update={"columns": columns})))

    report = started.land(logstore=started.changed(columns=columns), on_event=race)

    assert (report.rows, report.replans) == (30, 1)
    assert len(started.table.metadata.schemas) == 2
    assert sum(r["path"] is not None for r in started.table_rows()) == 30 + 25
    started.assert_proved()


# --- values -------------------------------------------------------------------------------------


@pytest.mark.fault("4b.poison.stage", "4b.drift.stage")
def test_a_value_that_does_not_fit_its_type_is_kept_with_the_cause(world: World) -> None:
    put(world, [{"n": "1", "status": "abc"}, {"n": "2", "status": "200"}])

    report = world.land()

    assert (report.rows, report.error_rows) == (2, 1)
    bad, good = one_row(world, n=1), one_row(world, n=2)
    assert bad["status"] is None
    assert dict(bad["__rest__"]) == {"status": "abc"}
    assert "status" in bad["__error__"] and "abc" not in bad["__error__"]
    assert b"abc" in bad["__raw__"]
    assert (good["__error__"], good["__raw__"], good["status"]) == (None, None, 200)
    world.assert_each_log_once()


def test_a_repeated_key_is_kept_with_the_cause_and_the_original_bytes(world: World) -> None:
    message = pb.LogGroupRaw()
    log = message.Logs.add()
    log.Time = HOUR0_S
    for value in ("first", "second"):
        content = log.Contents.add()
        content.Key, content.Value = "again", value.encode()
    with world.client as client:
        client.put_raw(message.SerializeToString(), key=LOW)
    world.emulator.admin.advance(60)

    report = world.land()

    assert (report.rows, report.error_rows) == (1, 1)
    row = world.table_rows()[0]
    assert "repeated" in row["__error__"] or "twice" in row["__error__"] or "again" in row["__error__"]
    assert b"first" in row["__raw__"] and b"second" in row["__raw__"]


@pytest.mark.fault("4b.poison.pull")
def test_bytes_that_are_not_utf8_are_kept_as_they_were(world: World) -> None:
    put(world, [{"n": "1", "name": b"\xff\xfe\x00caf\xe9"}, {"n": "2", "name": "caf\u00e9"}])

    report = world.land()

    assert (report.rows, report.error_rows) == (2, 1)
    bad = one_row(world, n=1)
    assert bad["__error__"]
    assert b"\xff\xfe\x00caf\xe9" in bad["__raw__"]
    assert dict(one_row(world, n=2)["__rest__"])["name"] == "caf\u00e9"


def test_empty_log_groups_are_passed_without_a_row(world: World) -> None:
    put(world, [], [{"n": "1"}], [])

    assert world.land().rows == 1
    assert world.land().snapshot_id is None, "nothing is left"
    world.assert_each_log_once()


def test_a_window_of_empty_groups_only_lands_without_a_file(world: World) -> None:
    put(world, [], [])

    report = world.land()
    again = world.land()

    assert (report.rows, report.files) == (0, 0)
    assert again.snapshot_id is None
    assert world.checkpoints()[0] == world.ledger.shards[0].frontier
    world.assert_proved()


# --- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"do": "truncate", "bytes": 40},
        {"do": "short", "groups": 2},
        {"do": "headers", "headers": {"x-log-count": "1"}},
        {"do": "headers", "headers": {"x-log-bodyrawsize": "0"}},
        {"do": "headers", "headers": {"x-log-cursor": "MA=="}},
        {"do": "drop_reply"},
        {"do": "error", "status": 500},
        {"do": "error", "status": 403, "code": "ReadQuotaExceed"},
    ],
    ids=lambda f: "-".join(map(str, [f["do"], *f.get("headers", {}), f.get("status", "")])).strip("-"),
)
@pytest.mark.fault("4b.corrupt.pull", "4b.lying.pull")
def test_a_page_that_is_broken_once_is_pulled_again(started: World, fault: dict[str, Any]) -> None:
    wanted = started.emulator.admin.fault(call="pull_logs", **fault)

    report = started.land()

    assert started.emulator.admin.wait(wanted, 1)["hits"] == 1
    assert (report.rows, report.error_rows) == (30, 0)
    started.assert_sound()


@pytest.mark.fault("4b.lying.pull")
def test_a_page_that_stays_short_stops_its_shard_there_and_no_other(started: World) -> None:
    """Its shard waits with the reason; once pages are whole again, it goes on where it stopped."""
    wanted = started.emulator.admin.fault("short", call="pull_logs", shard=0, times=None)
    frontier = started.ledger.shards[0].frontier

    report = started.land()

    assert report.waits[0].text == f"{STOPPED['short']} (page has 3 groups, the header says 4)"
    assert started.ledger.shards[0].frontier == frontier
    assert 0 < report.rows < 30
    started.emulator.admin.remove(wanted)
    assert started.land().rows == 30 - report.rows
    started.assert_each_log_once()


def test_a_service_that_fails_every_page_is_one_error_and_nothing_moves(started: World) -> None:
    before, checkpoints = started.table.metadata.current_snapshot_id, started.checkpoints()
    wanted = started.emulator.admin.fault(
        "error", call="pull_logs", times=None, status=400, code="NoSuchThing"
    )

    with pytest.raises(Exception, match="NoSuchThing") as raised:
        started.land()

    assert type(raised.value).__module__ == "sls_io.values.errors", type(raised.value)
    assert "\n" not in str(raised.value)
    assert started.table.metadata.current_snapshot_id == before
    assert started.checkpoints() == checkpoints
    started.emulator.admin.remove(wanted)
    assert started.land().rows == 30


@pytest.mark.spark
def test_a_transform_runs_in_the_tasks_of_spark(started: World) -> None:
    """Its function is found by its name in a worker's own process; the bound on memory goes there, too."""
    budget = {**started.logstore.budget.model_dump(), "task_mb": 300}
    started.logstore = started.changed(transform="tests.faults.test_transform:negated", budget=budget)
    assert started.land().rows == 30
    changed = [row for row in started.table_rows() if row["n"] < 0]
    assert {(row["n"], row["status"]) for row in changed} == {(-n, None) for n in range(20, 50)}
    assert set(started.identities()) == set(started.truth())
    assert max(started.identities().values()) == 1
    started.assert_proved()


def ended(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As a fault in somebody's native library does."""
    os._exit(3)


@pytest.mark.spark
def test_a_function_that_ends_the_process_of_its_task_is_named(started: World) -> None:
    checkpoints = started.checkpoints()
    name = f"{__name__}:{ended.__name__}"
    started.logstore = started.changed(transform=name)
    with pytest.raises(TransportError, match=f"what the settings let it call: {name}"):
        started.land()
    assert started.checkpoints() == checkpoints
    started.logstore = started.changed(transform="")
    assert started.land().rows == 30
    started.assert_each_log_once()
