"""Columns that were declared later are filled from `__rest__` of older rows; a second pull is the judge."""

import json
from pathlib import Path
from typing import Any

import pytest
from aliyun.log import log_logs_raw_pb2 as pb

from pipelines.landing.commit.planned import Planned, Tools, execute
from pipelines.landing.ledger.codec import VERB_KEY
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.summary import summary_of
from pipelines.landing.operations.columns import plan_columns
from pipelines.landing.operations.mend import Kept, Mend, plan_mend
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.table import commands
from pipelines.landing.table.names import protected_keys
from sls_io.decoding.nested import digest
from sls_io.values.errors import ConfigError, LandingConflict
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, group
from tests.worlds.two_runs import At

HOUR = "2026-09-21-14:00"
ALL = range(HOUR0, HOUR0 + 2)
BEFORE = {"n": "long"}
LATER = {
    "n": "long",
    "city": "string",
    "code": "int",
    "mail": "hash",
    "secret": "drop",
    "at": "timestamp(epoch_s)",
    "size": "custom(tests.unit.custom_decoders:lengths, long)",
}
LOGS: list[dict[str, str | bytes]] = [
    {"n": "1", "city": "Roma", "code": "7", "mail": "a@b", "secret": "s1", "other": "x"},
    {"n": "2", "city": "", "at": "1760000000.5", "size": "four"},
    {"n": "3", "secret": "s3"},
    {"n": "4", "other": "y"},
    {"n": "5"},
    {"n": "6", "city": "北京", "size": "北京", "code": "-1", "mail": ""},
]
MISFITS: list[dict[str, str | bytes]] = [
    {"n": "7", "city": "Wien", "code": "seven"},
    {"n": "8", "code": "9" * 12, "secret": "s8", "at": "yesterday"},
]
BROKEN: dict[str, str | bytes] = {"n": "many", "city": "Oslo", "code": "3"}


@pytest.fixture
def started(world: World) -> World:
    """The logs above in HOUR0, landed when only `n` was declared; the hour is over."""
    world.logstore = world.changed(columns=BEFORE)
    put(world, [*LOGS, *MISFITS, BROKEN])
    world.at(HOUR0_S + 3700)
    assert world.land().error_rows == 1
    return world


def put(world: World, logs: list[dict[str, str | bytes]]) -> None:
    with world.client as client:
        for place, log in enumerate(logs):
            client.put_raw(group([log]), key=f"{place * 37 % 256:02x}".ljust(32, "0"))


def protected(world: World) -> frozenset[str]:
    return protected_keys(world.table.properties, world.logstore.service.full_name)


def planned(world: World, **columns: str) -> Planned[Mend]:
    with world.client as client:
        return plan_mend(world.lake, world.changed(columns=columns or LATER), client, ALL, kept_in="rest")


def filled(world: World, plan: Planned[Mend], **columns: str) -> int:
    return execute(world.lake, plan).snapshot


def by_n(world: World) -> dict[int | None, dict[str, Any]]:
    """Rows by their number, `__rest__` as a dictionary."""
    found = {}
    for row in world.table_rows():
        row["__rest__"] = None if row["__rest__"] is None else dict(row["__rest__"])
        found[row["n"]] = row
    return found


def test_later_columns_are_filled_and_what_does_not_fit_stays_where_it_is(started: World) -> None:
    before, ledger, broken = started.identities(), started.ledger, by_n(started)[None]
    pulls = started.watch_pulls()
    plan = planned(started)
    assert (plan.view.rows, plan.view.mended) == (6, 4)
    assert plan.view.left == {"code is not int": 2, "at is not timestamp": 1}
    assert set(by_n(started)[1]["__rest__"]) == {"city", "code", "mail", "secret", "other"}, "only looked"

    committed = filled(started, plan)

    head = started.table.current_snapshot()
    assert head is not None and head.snapshot_id == committed
    assert summary_of(head)[VERB_KEY].startswith(f"rest {HOUR}")
    assert reconcile(started.table) == [] and pulls.asked == []
    rows = by_n(started)
    one = rows[1]
    assert (one["city"], one["code"], one["mail"]) == ("Roma", 7, digest(b"a@b").decode())
    assert one["__rest__"] == {"other": "x"}
    assert (rows[2]["city"], rows[2]["at"].timestamp(), rows[2]["size"]) == ("", 1760000000.5, 4)
    assert (rows[6]["size"], rows[6]["mail"]) == (len("北京".encode()), digest(b"").decode())
    assert [rows[n]["__rest__"] for n in (2, 3, 4, 5, 6)] == [None, None, {"other": "y"}, None, None]
    assert (rows[7]["city"], rows[7]["code"], rows[7]["__rest__"]) == ("Wien", None, {"code": "seven"})
    assert rows[8]["__rest__"] == {"code": "9" * 12, "at": "yesterday"}
    assert all(row["__error__"] is None and row["__raw__"] is None for n, row in rows.items() if n)
    assert {k: v for k, v in rows[None].items() if k in broken} == broken, "its bytes say more"
    assert (started.identities(), started.ledger) == (before, ledger)
    started.assert_proved()


def test_the_rows_are_those_of_a_second_pull(started: World) -> None:
    filled(started, planned(started))
    ours = by_n(started)
    started.logstore = started.changed(columns=LATER)
    started.carried_out(plan_replace, range(HOUR0, HOUR0 + 1))
    pulled = by_n(started)
    assert [ours[n] for n in range(1, 7)] == [pulled[n] for n in range(1, 7)]
    for n in (7, 8):
        assert pulled[n]["__error__"], "a pull keeps the bytes and says why"
        unmarked = {**pulled[n], "__error__": None, "__raw__": None}
        assert ours[n] == unmarked


PLAIN: list[dict[str, str | bytes]] = [
    {"n": "1", "user": "ann", "pin": "4711", "mail": "ann@b"},
    {"n": "2", "user": "", "mail": b"ann\xff"},
    {"n": "many", "user": "ann", "pin": "4711", "mail": "ann@b"},
]


@pytest.mark.parametrize("modes", [("rest",), ("errors", "rest"), ("rest", "errors")])
def test_no_plain_value_is_left_in_any_row_once_its_key_is_declared_drop_or_hash(
    world: World, modes: tuple[Kept, ...]
) -> None:
    world.logstore = world.changed(columns={"n": "long", "user": "string", "pin": "string"})
    put(world, PLAIN)
    message = pb.LogGroupRaw()
    message.ParseFromString(group([{**PLAIN[0], "n": "4"}]))
    for _ in range(2):
        tag = message.LogTags.add()
        tag.Key, tag.Value = "host", "a"
    with world.client as client:
        client.put_raw(message.SerializeToString())
        client.put_raw(group([{"n": "5", "path": "/p"}]))
    world.at(HOUR0_S + 3700)
    assert world.land().error_rows == 3
    later = {"n": "long", "user": "hash", "pin": "drop", "mail": "hash"}
    world.logstore = world.changed(columns=later)

    for mode in modes:
        world.carried_out(plan_mend, ALL, kept_in=mode)

    assert "4711" not in repr(world.table_rows()) and "ann" not in repr(world.table_rows())
    rows, (ann, at) = by_n(world), (digest(sent).decode() for sent in (b"ann", b"ann@b"))
    assert [rows[n]["user"] for n in (1, 2, None, 4, 5)] == [ann, digest(b"").decode(), ann, ann, None]
    assert [rows[n]["__error__"] for n in (1, 4, None)] == [None, "repeated tag host", "n is not long"]
    assert rows[1]["mail"] == at and rows[1]["__rest__"] is None
    for n in (None, 4):
        assert ann.encode() in rows[n]["__raw__"] and at.encode() in rows[n]["__raw__"]
    if "errors" in modes:
        assert [rows[n]["mail"] for n in (2, None, 4)] == [digest(b"ann\xff").decode(), at, at]
    twice = world.asked(plan_mend, ALL, kept_in=modes[-1])
    assert twice.view.files == 0
    world.assert_proved()


@pytest.fixture
def half_landed(world: World) -> World:
    """Logs with plain values landed; as many wait in the same hour, which is over by now."""
    world.logstore = world.changed(columns={"n": "long", "user": "string"})
    put(world, [{"n": n, "user": "ann", "pin": "4711"} for n in ("1", "many")])
    world.at(HOUR0_S + 300)
    world.land()
    put(world, [{"n": n, "user": "ann", "pin": "4711"} for n in ("2", "more")])
    world.at(HOUR0_S + 3700)
    return world


HIDING = {"n": "long", "user": "hash", "pin": "drop"}


@pytest.mark.parametrize("mode", ["rest", "errors"])
def test_rows_of_older_settings_that_land_before_the_commit_stop_it(half_landed: World, mode: Kept) -> None:
    world, later = half_landed, half_landed.changed(columns=HIDING)
    with world.client as client:
        plan = plan_mend(world.lake, later, client, ALL, kept_in=mode)
    old_run = At("publish", world.land)

    with pytest.raises(LandingConflict, match="such rows came to"):
        execute(world.lake, plan, Tools(on_event=old_run))

    head = world.table.current_snapshot()
    assert head is not None and head.snapshot_id == world.reports[-1].snapshot_id
    assert repr(world.table_rows()).count("4711") == 6, "in __rest__ of four rows, in __raw__ of two"
    with world.client as client:
        whole = plan_mend(world.lake, later, client, ALL, kept_in="rest")
        execute(world.lake, whole)
    assert whole.view.protects == ("pin", "user")
    assert "4711" not in repr(world.table_rows()) and "ann" not in repr(world.table_rows())
    world.assert_proved()


@pytest.mark.parametrize("rows_before", [True, False])
def test_once_plain_values_were_taken_out_a_run_of_older_settings_lands_nothing(
    half_landed: World, rows_before: bool
) -> None:
    """Also one that was on its way, and where there was nothing to take out."""
    world, later = half_landed, half_landed.changed(columns=HIDING)
    hours = ALL if rows_before else range(HOUR0 + 1, HOUR0 + 2)

    def purge() -> None:
        with world.client as client:
            plan = plan_mend(world.lake, later, client, hours, kept_in="rest")
        assert (bool(plan.view.files), plan.view.protects) == (rows_before, ("pin", "user"))
        execute(world.lake, plan)

    before = world.identities()
    on_its_way, later_one = {"on_event": At("publish.built", purge)}, dict[str, At]()
    for how in (on_its_way, later_one):
        with pytest.raises(
            ConfigError, match="values of 'pin', 'user' may not land as they are sent"
        ) as told:
            world.land(**how)
        assert commands.plain("pin", "user") in told.value.cures
    assert world.identities() == before and protected(world) == {
        "pin",
        "user",
    }
    world.land(logstore=later)
    assert len(world.table_rows()) == 4
    assert repr(world.table_rows()).count("4711") == (0 if rows_before else 2 + 1)
    world.assert_proved()


def test_values_land_as_they_are_sent_again_once_somebody_has_said_so(half_landed: World) -> None:
    world, later = half_landed, half_landed.changed(columns={**HIDING, "mail": "drop"})
    with world.client as client:
        execute(world.lake, plan_mend(world.lake, later, client, ALL, kept_in="rest"))
        with pytest.raises(ConfigError, match="'mail', 'pin', 'user'"):
            plan_replace(world.lake, world.logstore, client, range(HOUR0, HOUR0 + 1))
    other_way = {"n": "long", "user": "drop", "pin": "hash"}
    for wrong in ({"plain"}, {"user", "n"}):
        with pytest.raises(ConfigError, match=r"has no key '\w+' as drop or hash; it has mail, pin, user"):
            plan_columns(world.lake, world.logstore, renamed={}, retyped=(), plain=wrong)

    shown = plan_columns(world.lake, world.logstore, renamed={}, retyped=()).view.columns
    assert [view.name for view in shown if "was drop or hash" in view.note] == ["user", "mail", "pin"]

    said = plan_columns(world.lake, world.logstore, renamed={}, retyped=(), plain={"mail"})
    execute(world.lake, said)

    assert said.view.changes == ("values of mail land as they are sent, where the settings say so",)
    world.land(logstore=world.changed(columns=other_way))
    aside, lifted = {"user": "user_hash"}, {"user", "pin"}
    execute(world.lake, plan_columns(world.lake, world.logstore, renamed=aside, retyped=(), plain=lifted))
    assert protected(world) == frozenset()
    world.carried_out(plan_replace, range(HOUR0, HOUR0 + 1))
    assert [row["user"] for row in world.table_rows()] == ["ann"] * 4
    world.assert_proved()


def test_a_column_that_somebody_dropped_is_not_forgotten_over_a_key_that_may_land(half_landed: World) -> None:
    """`table columns` says that all columns are as a person wants them, and only of a table that is sound."""
    world = half_landed
    world.land(logstore=world.changed(columns={**BEFORE, "user": "hash"}))
    with world.table.update_schema() as update:
        update.delete_column("user")
    with pytest.raises(ConfigError, match="was dropped by other hands"):
        plan_columns(world.lake, world.logstore, renamed={}, retyped=(), plain={"user"})


@pytest.mark.parametrize("mode", ["rest", "errors"])
def test_rows_of_these_settings_that_land_before_the_commit_do_not(half_landed: World, mode: Kept) -> None:
    world, later = half_landed, half_landed.changed(columns=HIDING)
    with world.client as client:
        plan = plan_mend(world.lake, later, client, ALL, kept_in=mode)

    done = execute(world.lake, plan, Tools(on_event=At("publish", lambda: world.land(logstore=later))))

    assert done.conflicts == 1 and len(world.table_rows()) == 4
    if mode == "rest":
        assert "4711" not in repr(world.table_rows()) and "ann" not in repr(world.table_rows())
    world.assert_proved()


def test_a_digest_that_came_to_the_rest_is_not_hashed_again(world: World) -> None:
    before = {"n": "long", "status": "int", "user": "hash"}
    world.logstore = world.changed(columns=before)
    put(world, [{"n": "1", "status": str(2**40), "user": "ann"}])
    world.at(HOUR0_S + 3700)
    world.land()
    without = {"n": "long", "status": "long"}
    execute(world.lake, plan_columns(world.lake, world.logstore, renamed={}, retyped=(), plain={"user"}))
    with world.client as client:
        logstore = world.changed(columns=without)
        execute(world.lake, plan_mend(world.lake, logstore, client, ALL))
    ann = digest(b"ann").decode()
    assert by_n(world)[1]["__rest__"] == {"user": ann}

    filled(world, planned(world, **without, user="hash"), **without, user="hash")

    row = by_n(world)[1]
    assert (row["user"], row["__rest__"], row["__error__"]) == (ann, None, None)
    assert planned(world, **without, user="hash").view.rows == 0
    world.assert_proved()


def test_asking_twice_changes_nothing_and_errors_are_another_mode(started: World) -> None:
    filled(started, planned(started))
    again = planned(started)
    assert (again.view.rows, again.view.mended, again.view.files) == (2, 0, 0)
    started.logstore = started.changed(columns=LATER)
    errors = started.asked(plan_mend, ALL)
    assert (errors.view.mode, errors.view.rows) == ("errors", 1)


def test_the_command_line_looks_first(started: World, command: Command, tmp_path: Path) -> None:
    verb = ("backfill", "--mode", "rest", "--from", HOUR)
    elsewhere = command(*verb)
    assert (elsewhere["code"], elsewhere["executed"]) == (0, False), "a dry run is made here, whoever runs it"
    defs = tmp_path / "defs.yaml"
    columns = json.dumps(LATER)
    defs.write_text(defs.read_text().replace("{n: long, status: int}", columns))
    dry = command(*verb, "--local")
    assert (dry["code"], dry["executed"], dry["rows"], dry["mode"]) == (0, False, 6, "rest")
    assert not by_n(started)[1].get("city")
    done = command(*verb, "--local", "--execute")
    assert done["code"] == 0 and done["committed"] == started.table.metadata.current_snapshot_id
    assert by_n(started)[1]["city"] == "Roma"
    again = command(*verb, "--local", "--execute")
    assert (again["code"], again["committed"], again["files"]) == (0, None, 0)
