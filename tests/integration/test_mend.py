"""Rows with errors are read again from their kept bytes: what fits the fixed contract is typed."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aliyun.log import log_logs_raw_pb2 as pb
from pyiceberg.types import StringType

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import Planned, execute
from pipelines.landing.ledger.codec import REWRITTEN_KEY, VERB_KEY
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.summary import summary_of
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.mend import Mend, plan_mend
from pipelines.landing.table.commands import shown
from sls_io.values.errors import ConfigError
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, group

HOUR = "2026-09-21-14:00"
ALL = range(HOUR0, HOUR0 + 2)
FIXED = {"n": "long", "status": "long", "at": "timestamp(%d/%b/%Y, UTC)"}


@pytest.fixture
def started(world: World) -> World:
    """20 rows of HOUR0: 12 sound ones, 3 with an int that needs a long, 3 with a date that no format
    fitted, one that is no number at all, one with bytes that are no text; 5 logs to come."""
    world.logstore = world.changed(columns={"n": "long", "status": "int", "at": "timestamp(iso, UTC)"})
    world.put(12)
    odd: list[dict[str, str | bytes]] = [{"n": "300", "status": "many"}]
    odd.append({"n": "400", "status": "200", "path": b"\xff\xfe"})
    for i in range(3):
        odd.append({"n": str(100 + i), "status": str(2**40 + i), "path": "/p"})
        odd.append({"n": str(200 + i), "status": "200", "at": f"0{i + 1}/Nov/2026"})
    with world.client as client:
        for log in odd:
            client.put_raw(group([log]), key=f"{len(str(log)) * 7 % 256:02x}".ljust(32, "0"))
    world.at(HOUR0_S + 120)
    assert world.land().error_rows == 8
    world.put(5, until_s=HOUR0_S + 300)
    return world


def planned(world: World, **columns: str) -> Planned[Mend]:
    """What the fixed contract, or another, would mend."""
    with world.client as client:
        return plan_mend(world.lake, world.changed(columns=columns or FIXED), client, ALL)


def mended(world: World, plan: Planned[Mend], **columns: str) -> int:
    """Carry it out."""
    return execute(world.lake, plan).snapshot


def by_n(world: World) -> dict[int, dict[str, Any]]:
    """The rows by their number."""
    return {r["n"]: r for r in world.table_rows()}


@pytest.mark.fault("4b.poison.after")
def test_what_fits_the_fixed_contract_is_typed_and_the_rest_keeps_its_bytes(started: World) -> None:
    before, ledger, sound = started.identities(), started.ledger, by_n(started)
    pulls = started.watch_pulls()
    plan = planned(started)
    assert (plan.view.rows, plan.view.mended) == (8, 6)
    assert plan.view.left == {"status is not long": 1, "path is not UTF-8": 1}
    assert by_n(started) == sound, "looking changes nothing"

    committed = mended(started, plan)

    head = started.table.current_snapshot()
    assert head is not None and head.snapshot_id == committed
    assert summary_of(head)[VERB_KEY].startswith(f"errors {HOUR}")
    assert int(summary_of(head)[REWRITTEN_KEY]) > 0
    assert reconcile(started.table) == []
    assert pulls.asked == [], "nothing is pulled"
    rows = by_n(started)
    assert [rows[n]["status"] for n in (100, 101, 102)] == [2**40, 2**40 + 1, 2**40 + 2]
    assert [rows[n]["at"].day for n in (200, 201, 202)] == [1, 2, 3]
    for n in (100, 101, 102, 200, 201, 202):
        assert rows[n]["__error__"] is None and rows[n]["__raw__"] is None
        assert not {"status", "at"} & set(dict(rows[n]["__rest__"] or []))
    assert rows[100]["__rest__"] == [("path", "/p")]
    assert rows[300]["__error__"] == "status is not long" and b"many" in rows[300]["__raw__"]
    assert rows[400] == sound[400]
    assert [rows[n] for n in range(12)] == [sound[n] for n in range(12)]
    assert (started.identities(), started.ledger) == (before, ledger)
    started.assert_proved()
    started.logstore = started.changed(columns=FIXED)
    assert started.land().rows == 5
    started.assert_proved()
    assert len(started.table_rows()) == 25


def test_bytes_that_no_one_could_read_are_text_once_their_encoding_is_declared(started: World) -> None:
    text = "登录失败"
    with started.client as client:
        client.put_raw(group([{"n": "500", "status": "200", "who": text.encode("gbk")}]), key="0" * 32)
    started.at(HOUR0_S + 600)
    assert started.land().error_rows == 1
    assert by_n(started)[500]["__error__"] == "who is not UTF-8"
    columns = {"n": "long", "status": "int", "at": "timestamp(iso, UTC)", "who": "string(gbk)"}

    mended(started, planned(started, **columns), **columns)

    row = by_n(started)[500]
    assert (row["who"], row["__error__"], row["__raw__"], row["__rest__"]) == (text, None, None, None)
    started.assert_proved()


def test_the_command_line_looks_first(started: World, command: Command, tmp_path: Path) -> None:
    defs = tmp_path / "defs.yaml"
    text = defs.read_text()
    assert "columns: {n: long, status: int}" in text
    verb = ("backfill", "--mode", "errors", "--local", "--from", HOUR)
    elsewhere = command(*verb[:3], *verb[4:])
    assert (elsewhere["code"], elsewhere["executed"]) == (0, False), "a dry run is made here, whoever runs it"
    defs.write_text(text.replace("status: int", "status: long"))

    dry = command(*verb)

    assert (dry["code"], dry["executed"], dry["committed"], dry["mended"]) == (0, False, None, 6)
    done = command(*verb, "--execute")
    assert done["code"] == 0 and done["committed"] == started.table.metadata.current_snapshot_id
    again = command(*verb, "--execute")
    assert (again["code"], again["committed"], again["files"]) == (0, None, 0)
    bad = command("backfill", "--mode", "errors", "--local", "--from", "yesterday")
    assert bad["code"] == EXIT_USAGE
    defs.write_text(text.replace("status: int", "status: date"))
    refused = command(*verb, "--execute")
    assert refused["code"] == EXIT_USAGE and "the contract says date" in refused["error"]
    started.table.append(started.table.scan().to_arrow().slice(0, 1))
    strangers = command(*verb, "--execute")
    assert strangers["code"] == EXIT_FAILED and "sls-lake verify" in strangers["error"]


def test_a_key_without_a_column_then_gets_one_and_a_dropped_one_leaves_the_kept_bytes(started: World) -> None:
    columns = {"n": "long", "status": "int", "at": "string", "path": "drop"}
    with pytest.raises(ConfigError):
        planned(started, **columns)
    columns = {"n": "long", "status": "int", "at": "timestamp(iso, UTC)", "path": "drop"}
    mended(started, planned(started, **columns), **columns)

    rows = by_n(started)

    assert rows[400]["__error__"] is None, "what was no text is not kept any more"
    assert b"/p" not in rows[100]["__raw__"] and rows[100]["__rest__"] == [("status", str(2**40))]


def test_a_hashed_value_is_not_hashed_again(world: World) -> None:
    digest = hashlib.sha256(b"alice").hexdigest()
    world.logstore = world.changed(columns={"n": "long", "status": "int", "user": "hash"})
    with world.client as client:
        client.put_raw(group([{"n": "1", "status": str(2**40), "user": "alice"}]))
        client.put_raw(group([{"n": "2", "status": "no", "user": "alice"}]))
    world.at(HOUR0_S + 120)
    world.land()
    columns = {"n": "long", "status": "long", "user": "hash"}

    mended(world, planned(world, **columns), **columns)

    rows = by_n(world)
    assert (rows[1]["user"], rows[1]["status"], rows[1]["__error__"]) == (digest, 2**40, None)
    assert rows[2]["user"] == digest and digest.encode() in rows[2]["__raw__"]
    columns["user"], columns["n"] = "hash", "long"
    assert planned(world, **columns).view.files == 0
    world.assert_proved()


def test_a_key_that_is_hashed_only_now_is_hashed_in_the_kept_bytes_too(world: World) -> None:
    with world.client as client:
        client.put_raw(group([{"n": "1", "status": "no", "user": "alice"}]))
    world.at(HOUR0_S + 120)
    world.land()
    columns = {"n": "long", "status": "int", "user": "hash"}
    plan = planned(world, **columns)
    assert (plan.view.rows, plan.view.mended, plan.view.changed) == (1, 0, 1)

    mended(world, plan, **columns)

    row = by_n(world)[1]
    assert row["user"] == hashlib.sha256(b"alice").hexdigest()
    assert b"alice" not in row["__raw__"] and row["__rest__"] == [("status", "no")]


def test_causes_of_the_group_stay(world: World) -> None:
    message = pb.LogGroupRaw()
    message.ParseFromString(group([{"n": "1", "status": str(2**40)}]))
    for _ in range(2):
        tag = message.LogTags.add()
        tag.Key, tag.Value = "host", "a"
    with world.client as client:
        client.put_raw(bytes(message.SerializeToString()))
    world.at(HOUR0_S + 120)
    world.land()
    columns = {"n": "long", "status": "long"}

    mended(world, planned(world, **columns), **columns)

    (row,) = world.table_rows()
    assert (row["status"], row["__error__"]) == (2**40, "repeated tag host")
    assert row["__raw__"] is not None and planned(world, **columns).view.files == 0
    world.assert_proved()


def test_a_column_that_another_engine_filled_keeps_its_values(started: World) -> None:
    with started.table.update_schema() as update:
        update.add_column("country", StringType())
    rows = started.table.scan().to_arrow()
    countries = pa.array([f"c{n}" for n in rows["n"].to_pylist()], pa.large_string())
    started.table.overwrite(rows.set_column(rows.schema.get_field_index("country"), "country", countries))

    mended(started, planned(started))

    assert {n: row["country"] for n, row in by_n(started).items()} == {n: f"c{n}" for n in by_n(started)}
    started.logstore = started.changed(columns=FIXED)
    started.land_more(10, pass_s=7200)
    assert Maintainer(started.logstore, started.lake).execute(["compact"]).compacted
    started.carried_out(plan_forget_where, "n = 101")
    kept = {n: row["country"] for n, row in by_n(started).items() if row["country"] is not None}
    assert 101 not in kept and len(kept) == 19 and all(c == f"c{n}" for n, c in kept.items())
    started.assert_proved()


def test_a_row_with_an_error_is_named_where_only_others_are_filled_or_compared(started: World) -> None:
    """Three of the eight have the path that is asked for, and their other error stays."""
    again = f"sls-lake backfill --mode errors --local --from {HOUR} --execute"
    columns = {"n": "long", "status": "int", "at": "timestamp(iso, UTC)", "path": "string"}
    started.logstore = started.changed(columns=columns)
    asked = started.lake, started.logstore
    with started.client as client:
        filled = plan_mend(*asked, client, range(HOUR0, HOUR0 + 1), kept_in="rest")
        assert filled.view.unread == 8 and [*map(shown, filled.view.then())] == [again]
        assert any("rows of these hours with an error: 8" in note.text for note in filled.view.said())
        started.land()

        with pytest.raises(ConfigError, match="nothing in a column of the filter: 8; ") as caught:
            plan_forget_where(*asked, client, "path = '/p'")
        assert [*map(shown, caught.value.cures)] == [again]
        assert execute(started.lake, plan_mend(*asked, client, range(HOUR0, HOUR0 + 1)))
        view = plan_forget_where(*asked, client, "path = '/p'").view

    assert (view.rows, view.unread) == (3, 5)
    assert [*map(shown, view.then())] == [again]
    assert any("nothing in a column of the filter: 5; " in note.text for note in view.said())
