"""Values that may not land any more: landings, fills, replaces and mends leave their rows out, and count."""

import json
from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.proof import VERIFIED
from pipelines.landing.ledger.codec import FORGOTTEN_KEY, TAG
from pipelines.landing.ledger.newest_landing import reconcile
from pipelines.landing.ledger.state import read_state
from pipelines.landing.ledger.summary import summary_of
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.mend import plan_mend
from sls_io.values.errors import ConfigError, LandingConflict
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World, group
from tests.worlds.three_hours import fill, replaced
from tests.worlds.two_logstores import second_logstore
from tests.worlds.two_runs import At

COLUMNS = {
    "n": "long",
    "user": "string",
    "score": "int",
    "price": "decimal(9,2)",
    "at": "timestamp(epoch_s)",
    "day": "date",
    "ratio": "double",
    "beta": "boolean",
}
USERS = ("ann", "bob", "cid")
BOB = "user = 'bob'"
VERB = ("table", "forget", "--where", BOB)


def put(world: World, rows: int, **more: str) -> None:
    """Numbered logs of three users in turn, four in a group, on both shards."""
    with world.client as client:
        for begin in range(0, rows, 4):
            numbers = range(world.counter + begin, world.counter + min(begin + 4, rows))
            logs = [log_of(n, **more) for n in numbers]
            client.put_raw(group(logs), key=f"{begin * 2654435761 % 2**32:08x}".ljust(32, "0"))
    world.counter += rows


def log_of(n: int, **more: str) -> dict[str, str]:
    """One log."""
    value = {
        "score": str(n % 3),
        "price": f"{n % 3}.50",
        "at": str(HOUR0_S + n % 3),
        "day": f"2026-09-0{n % 3 + 1}",
    }
    return {
        "n": str(n),
        "user": USERS[n % 3],
        **value,
        "ratio": f"{n % 3}.25",
        "beta": str(n % 3 == 1),
        **more,
    }


def land_hours(world: World) -> World:
    """12 rows in each of three receive hours, landed; 12 wait in the third."""
    world.logstore = world.changed(columns=COLUMNS)
    for hour in range(3):
        world.at(HOUR0_S + hour * 3600 + 60)
        put(world, 12)
        world.at(HOUR0_S + hour * 3600 + 300)
        world.land()
    put(world, 12)
    world.at(HOUR0_S + 2 * 3600 + 900)
    return world


@pytest.fixture
def command(command: Command, tmp_path: Path) -> Command:
    """The verbs, with the columns of these logs declared."""
    defs = tmp_path / "defs.yaml"
    declared = ", ".join(f'{name}: "{kind}"' for name, kind in COLUMNS.items())
    text = defs.read_text().replace("{n: long, status: int}", f"{{{declared}}}")
    assert declared in text
    defs.write_text(text)
    return command


@pytest.fixture
def started(world: World) -> World:
    """Three hours of 12 rows, a third of them bob's; 12 wait."""
    return land_hours(world)


def numbers(world: World) -> list[int]:
    """The numbers of the table's rows."""
    return sorted(row["n"] for row in world.table_rows())


def others(first: int, last: int) -> list[int]:
    """The numbers of the logs that are not bob's."""
    return [n for n in range(first, last) if n % 3 != 1]


def prove(command: Command, forgotten: int) -> None:
    """All that there is, by counts, sums and a second pull; so many rows are said to be kept out."""
    proof = command("verify", "--pull", "--rows")
    assert proof["code"] == 0, json.dumps(proof)[:2000]
    assert proof["verdict"] == VERIFIED
    assert sum(s["rows_forgotten"] for s in proof["shards"]) == forgotten
    assert sum(s["rows_pulled"] for s in proof["shards"]) > 0
    left = sum(s["windows_left"] for s in proof["shards"])
    assert left == 0, "every window was counted and compared"
    notes = [note for s in proof["shards"] for note in s["notes"]]
    assert any("were kept out by decision" in note for note in notes) == (forgotten > 0)


def test_rows_of_a_person_leave_and_never_land_again(started: World, command: Command) -> None:
    dry = command(*VERB, "--from-now-on")
    assert (dry["code"], dry["rows"], dry["barred"], dry["standing"], dry["executed"]) == (0, 12, 1, 0, False)
    assert numbers(started) == list(range(36))

    done = command(*VERB, "--from-now-on", "--reason", "request 17", "--execute")

    assert done["code"] == 0 and numbers(started) == others(0, 36)
    assert done["what"] == "forget --where on user --from-now-on: request 17"
    assert command("describe")["barred"] == {"user": 1}
    assert "rows with 1 values of user are kept out" in command("describe", json=False)["text"]
    prove(command, 12)
    landed = started.land()
    assert (landed.rows, landed.barred_rows) == (8, 4)
    assert numbers(started) == others(0, 48) and reconcile(started.table) == []
    prove(command, 16)
    text = json.dumps([summary_of(s) for s in started.table.metadata.snapshots])
    assert '"bob"' not in text.replace("\\", "") and "user = " not in text
    for again in (("--from-now-on",), ()):
        told = command(*VERB, *again, "--execute")
        assert told["code"] == EXIT_USAGE and "nothing to do" in told["error"]


def test_hours_that_are_taken_back_replaced_or_filled_lack_these_rows_too(
    started: World, command: Command
) -> None:
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    hour = range(HOUR0 + 1, HOUR0 + 2)

    assert command("table", "undo", "--hour", "2026-09-21-15:00", "--execute")["code"] == 0
    assert numbers(started) == [n for n in others(0, 36) if not 12 <= n < 24]
    prove(command, 8)
    assert fill(started) == 8
    assert numbers(started) == others(0, 36)
    prove(command, 12)

    before = started.ledger
    assert replaced(started, hour).rows == 8
    assert started.ledger == before, "rows and sums are what they were"
    prove(command, 12)


def test_a_replace_of_hours_from_before_the_decision_ended_brings_the_rows_back(
    started: World, command: Command
) -> None:
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    wrong = command("table", "forget", "--where", "user = 'zoe'", "--end", "--execute")
    assert wrong["code"] == EXIT_USAGE and "no such value" in wrong["error"]

    ended = command(*VERB, "--end", "--execute")

    assert (ended["code"], ended["barred"], ended["ends"]) == (0, 1, True)
    assert numbers(started) == others(0, 36), "what left stays away"
    prove(command, 12)
    assert started.land().rows == 12
    assert replaced(started, range(HOUR0, HOUR0 + 1)).rows == 12
    assert numbers(started) == sorted([*range(12), *others(12, 36), *range(36, 48)])
    prove(command, 8)


def test_rows_that_are_read_again_and_turn_out_to_be_that_persons_leave(
    world: World, command: Command
) -> None:
    world.logstore = world.changed(columns=COLUMNS)
    put(world, 6)
    put(world, 6, score=str(2**40))
    world.at(HOUR0_S + 120)
    world.land()
    narrow = command("table", "forget", "--where", "score = 1", "--from-now-on", "--execute")
    assert (narrow["code"], narrow["rows"]) == (0, 2)
    wide = world.logstore = world.changed(columns={**COLUMNS, "score": "long"})
    put(world, 6)
    world.at(HOUR0_S + 240)
    assert world.land().rows == 4, "1 is 1, also as a long"
    with world.client as client:
        asked = f"score = {2**40}"
        plan = plan_forget_where(world.lake, wide, client, asked, from_now_on=True)
        assert plan.view.rows == 0, "rows with an error show no score yet"
        execute(world.lake, plan)
        mend = plan_mend(world.lake, wide, client, range(HOUR0, HOUR0 + 1))
    assert (mend.view.rows, mend.view.barred) == (6, 6)
    before = sum(e.rows for e in world.ledger.shards.values())
    with world.client as client:
        execute(world.lake, mend)
        again = plan_mend(world.lake, wide, client, range(HOUR0, HOUR0 + 1))
    assert not again.needed
    assert sum(e.rows for e in world.ledger.shards.values()) == before - 6
    assert not [row for row in world.table_rows() if row["score"] in (1, 2**40)]
    prove(command, 10)


def test_a_rollback_to_before_the_decision_is_refused_and_one_after_it_keeps_it(
    started: World, command: Command
) -> None:
    first = started.table.current_snapshot()
    assert first is not None
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    decided = started.table.current_snapshot()
    assert decided is not None
    started.land()

    refused = command("table", "rollback", str(first.snapshot_id), "--execute")
    assert refused["code"] != 0 and "removed" in refused["error"]
    assert command("table", "rollback", str(decided.snapshot_id), "--execute")["code"] == 0
    prove(command, 12)
    assert started.land().rows == 8
    prove(command, 16)


def test_a_landing_that_is_on_its_way_is_written_again_without_them(started: World, command: Command) -> None:
    def decide() -> None:
        assert command(*VERB, "--from-now-on", "--execute")["code"] == 0

    report = started.land(on_event=At("publish", decide))

    assert (report.rows, report.replans) == (8, 1)
    assert numbers(started) == others(0, 48)
    prove(command, 16)


def test_rows_that_land_between_the_look_and_the_commit_stop_it(started: World) -> None:
    plan = started.asked(plan_forget_where, BOB, from_now_on=True)
    started.land()

    with pytest.raises(LandingConflict, match="came to"):
        execute(started.lake, plan)

    assert not read_state(started.table).forgotten


@pytest.mark.parametrize(
    "where",
    [
        "user in ('bob', 'nobody')",
        "score = 1",
        "price = 1.5",
        f"at = '{'2026-09-21T13:33:21+00:00'}'",
        "day = '2026-09-02'",
        "ratio = 1.25",
        "beta = true",
    ],
)
def test_values_of_every_type_are_kept_out(world: World, where: str) -> None:
    world.logstore = world.changed(columns=COLUMNS)
    world.at(HOUR0_S + 60)
    put(world, 6)
    world.at(HOUR0_S + 120)
    world.land()
    moment = next(row["at"] for row in world.table_rows() if row["n"] == 1).isoformat()
    asked = f"at = '{moment}'" if where.startswith("at") else where
    with world.client as client:
        plan = plan_forget_where(world.lake, world.logstore, client, asked, from_now_on=True)
        assert plan.view.rows == 2
        execute(world.lake, plan)
    put(world, 6)
    world.at(HOUR0_S + 240)
    assert world.land().rows == 4
    assert numbers(world) == others(0, 12)
    assert world.proof(pull=True).verdict == VERIFIED


@pytest.mark.parametrize(
    "where", ["user != 'bob'", "user = 'bob' or n = 1", "user like 'b%'", "__shard__ = 0", "user is null"]
)
def test_what_is_no_list_of_values_of_a_column_cannot_be_kept_out(
    started: World, command: Command, where: str
) -> None:
    refused = command("table", "forget", "--where", where, "--from-now-on", "--execute")
    assert refused["code"] == EXIT_USAGE and "column = value" in refused["error"]
    assert "bob" not in refused["error"]
    unknown = command("table", "forget", "--where", "nobody = 'x'", "--from-now-on")
    assert unknown["code"] == EXIT_USAGE and "no column" in unknown["error"]


def test_a_column_that_is_declared_no_more_stops_landings_until_it_is_or_the_decision_ends(
    started: World, command: Command
) -> None:
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    started.logstore = started.changed(columns={"n": "long"})

    with pytest.raises(ConfigError, match="may not land") as told:
        started.land()

    assert "'user'" in str(told.value) and "bob" not in str(told.value)
    started.logstore = started.changed(columns=COLUMNS)
    assert started.land().rows == 8


def test_a_part_of_an_hour_that_the_service_still_has_is_said_to_be_left_out(
    started: World, command: Command
) -> None:
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    started.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 3600 + 61)

    proof = command("verify", "--pull")

    assert proof["code"] in (0, EXIT_FAILED), proof
    assert not [p for s in proof["shards"] for p in s["problems"]]


def test_maintenance_and_a_ledger_that_is_settled_anew_keep_the_decision(
    started: World, command: Command
) -> None:
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    started.land()
    upkeep = command("table", "maintain", "--snapshots", "2", "--only", "compact,expire", "--execute")
    assert upkeep["code"] == 0, upkeep
    prove(command, 16)
    started.table.manage_snapshots().remove_tag(TAG).commit()

    adopted = command("table", "adopt", "--execute")

    assert adopted["code"] == 0, adopted
    prove(command, 16)
    put(started, 12)
    started.at(HOUR0_S + 2 * 3600 + 1500)
    assert started.land().rows == 8
    prove(command, 20)


def test_a_mend_that_was_looked_at_before_the_decision_is_to_be_looked_at_again(
    world: World, command: Command
) -> None:
    world.logstore = world.changed(columns=COLUMNS)
    put(world, 6, score=str(2**40))
    world.at(HOUR0_S + 120)
    world.land()
    wide, hours = world.changed(columns={**COLUMNS, "score": "long"}), range(HOUR0, HOUR0 + 1)
    with world.client as client:
        mend = plan_mend(world.lake, wide, client, hours)
    assert (mend.view.mended, mend.view.barred) == (6, 0)
    assert (
        command("table", "forget", "--where", "day = '2026-01-01'", "--from-now-on", "--execute")["code"] == 0
    )

    with pytest.raises(LandingConflict, match="what may land"):
        execute(world.lake, mend)

    assert world.proof(pull=True).verdict == VERIFIED


def test_another_logstore_of_the_table_lands_what_it_has(started: World, command: Command) -> None:
    other = World(started.emulator, started.lake, second_logstore(started, rows=0), started.engine)
    other.logstore = other.changed(columns=COLUMNS)
    started.logstore = started.changed(shared=True)
    assert command(*VERB, "--from-now-on", "--execute")["code"] == 0
    put(other, 6)
    other.at(HOUR0_S + 2 * 3600 + 1000)

    assert (other.land().rows, started.land().rows) == (6, 8)

    assert other.proof(pull=True).verdict == started.proof(pull=True).verdict == VERIFIED


def test_a_table_without_such_a_decision_has_the_text_that_it_had(started: World) -> None:
    assert FORGOTTEN_KEY not in summary_of(started.table.current_snapshot())
