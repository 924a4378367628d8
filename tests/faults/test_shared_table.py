"""Two logstores and one table: only where the settings say that it is shared."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from dagster import AssetCheckSeverity, DagsterInstance, TableSchemaMetadataValue
from pyiceberg.transforms import HourTransform, IdentityTransform

from pipelines.components.logstore.health import told_by_landing
from pipelines.components.logstore.metadata import columns
from pipelines.landing.commit.planned import execute
from pipelines.landing.inspection.describe import refusal
from pipelines.landing.inspection.error_rows import error_rows
from pipelines.landing.ledger.state import TableState, origins_named, read_state
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations.mend import Kept, plan_mend
from pipelines.landing.run.driver import Run
from pipelines.landing.watch.health import Kind, Level, findings
from pipelines.landing.watch.vitals import after_landing, vitals
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import PROJECT, World, group, use_catalog
from tests.worlds.two_logstores import second_logstore
from tests.worlds.two_runs import At


@pytest.fixture
def world(quick: World) -> Iterator[World]:
    """Another logstore with 25 logs, and two columns of its own, whose file names the table of `quick`."""
    settings = second_logstore(quick, shared=False)
    settings = settings.model_copy(update={"columns": {"n": "long", "status": "int", "sku": "string"}})
    yield World(quick.emulator, quick.lake, settings, quick.engine)
    with quick.client as client:
        client.transport.delete_logstore(PROJECT, settings.service.logstore)


def live(world: World) -> None:
    """A live run."""
    world.land()


def fill(world: World) -> None:
    """A backfill of the hour that is running."""
    hour = int(world.emulator.admin.now()) // HOUR_S
    world.land(mode="fill", hours=(hour, hour + 1))


@pytest.mark.parametrize("run", [live, fill])
def test_a_logstore_lands_in_the_table_of_another_only_where_its_settings_say_shared(
    quick: World, world: World, run: Callable[[World], None]
) -> None:
    quick.land_more(20)
    before = quick.table.metadata

    with pytest.raises(ConfigError) as refused:
        run(world)

    (was, text), *_ = read_state(quick.table).origins.items()
    said = str(refused.value)
    assert f"holds rows of origin {was} ({text})" in said and "`shared: true`" in said
    assert f"sls-lake table adopt --moved {was} --at begin" in said
    assert quick.table.metadata == before, "neither rows nor columns nor an origin"
    with world.client as client:
        assert refusal(world.logstore, world.lake, client) in said, "describe says it, too"
        assert refusal(world.changed(shared=True), world.lake, client) == ""
    world.logstore = world.changed(shared=True)
    run(world)
    assert len(world.table_rows()) == 20 + 25
    world.assert_proved()
    quick.assert_proved()


def test_of_two_first_runs_into_one_table_the_second_is_refused(quick: World, world: World) -> None:
    """Each found the table empty; what the first registered the second meets when its try is refused."""
    quick.put(20, pass_s=60)
    first = At("resolve_start.done", lambda: [quick.land()])

    with pytest.raises(ConfigError, match="does not know"):
        world.land(on_event=first)

    assert {row["__origin__"] for row in quick.table_rows()} == set(read_state(quick.table).origins)
    assert len(quick.table_rows()) == 20
    quick.assert_proved()


@pytest.mark.parametrize(("mode", "value"), [("rest", "200"), ("errors", "no number")])
def test_rows_of_another_logstore_in_the_same_file_are_not_read_again(
    quick: World, world: World, mode: Kept, value: str
) -> None:
    """One logstore declares a key `drop`; rows of another one lie in a file with its own."""
    for each in (quick, world):
        each.logstore = each.changed(shared=True)
        each.put(10, value=value)
    quick.pass_by(60)
    for each in (quick, world):
        each.land()
    in_one_file(quick)
    before = of_both(quick)

    dropping = quick.changed(columns={"n": "long", "status": "drop"})
    hours = range(int(quick.emulator.admin.now()) // HOUR_S + 1)
    with quick.client as client:
        planned = plan_mend(quick.lake, dropping, client, hours, kept_in=mode)
        execute(quick.lake, planned)

    after = of_both(quick)
    (other,) = (name for name in before if name.startswith("other_logs"))
    (mine,) = before.keys() - {other}
    assert after[other] == before[other]
    assert planned.view.rows == len(after[mine]) == 10
    assert {(row["status"], row["__error__"], row["__raw__"]) for row in after[mine]} == {(None, None, None)}
    if mode == "rest":
        for each in (quick, world):
            each.put(3)
        quick.pass_by(60)
        with pytest.raises(ConfigError, match="'status' may not land as they are sent"):
            quick.land()
        assert world.land().rows == 3, "the settings of the other one say nothing of that key"


def in_one_file(world: World) -> None:
    """Another engine writes all rows anew while the table has no partitions, and gives it those it had."""
    rows, names = world.table.scan().to_arrow(), [field.name for field in world.table.spec().fields]
    with world.table.update_spec() as update:
        for name in names:
            update.remove_field(name)
    world.table.overwrite(rows)
    with world.table.update_spec() as update:
        update.add_field("__origin__", IdentityTransform(), "again_origin")
        update.add_field("__receive_hour__", HourTransform(), "again_hour")
    assert len(world.published()) == 1


def of_both(world: World) -> dict[str, list[dict[str, Any]]]:
    """Rows by their origin."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(world.table_rows(), key=lambda r: (r["__shard__"], r["__cursor__"], r["__index__"])):
        found.setdefault(row["__origin__"], []).append(row)
    return found


def said_by(world: World, logstore: Logstore) -> list[str]:
    """What a run tells its operator."""
    said: list[str] = []
    with Run(logstore, world.engine, lake=world.lake, warn=said.append) as run:
        run.land()
    return said


def both_land(quick: World, world: World) -> None:
    """20 rows of the one and 25 of the other in their table."""
    quick.land_more(20)
    world.logstore = world.changed(shared=True)
    world.land()


def test_a_table_that_two_logstores_fill_already_goes_on_and_a_line_says_it(
    quick: World, world: World
) -> None:
    both_land(quick, world)
    for each in (quick, world):
        each.put(5)
    quick.pass_by(60)

    for each, beside in ((quick, world), (world, quick)):
        (line,) = said_by(each, each.changed(shared=False))
        assert beside.logstore.service.logstore in line and "also takes rows of origin" in line
        each.put(5, pass_s=60)
        assert said_by(each, each.changed(shared=True)) == []
    assert len(quick.table_rows()) == 20 + 25 + 4 * 5


def test_a_rollback_that_takes_rows_of_another_logstore_says_that_its_service_was_not_asked(
    quick: World, world: World, command: Command
) -> None:
    both_land(quick, world)
    target = quick.table.metadata.current_snapshot_id
    quick.land_more(5)

    said = command("table", "rollback", str(target))
    done = command("table", "rollback", str(target), "--execute", json=False)

    assert (said["kept"]["rows"], said["rows_leaving"]) == (0, 5)
    (loss,) = said["does_it"]["loses"]
    assert "other logstores still have was not asked" in loss
    assert "let the other logstores" in done["text"] and "sls-lake land" not in done["text"]
    assert quick.land().rows == 5


def test_the_verbs_that_give_a_table_to_a_logstore_refuse_one_that_is_not_its_own(
    quick: World, world: World, command: Command
) -> None:
    quick.land_more(20)
    before = quick.table.metadata
    for words in (("land",), ("table", "adopt")):
        done = command(*words)
        assert done["code"] != 0 and "does not know" in done["error"], words
    assert "does not know" in command("land", "--dry-run")["unknown"]
    assert quick.table.metadata == before


def test_rows_with_errors_of_another_logstore_of_the_table_are_not_ones_own(
    quick: World, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.logstore = world.changed(shared=True)
    world.put(40, value="no status")
    quick.put(20)
    quick.land_more(1, value="no status")
    world.land()

    own, theirs = (error_rows(each.logstore, each.lake) for each in (quick, world))

    assert [(h.rows, h.errors) for h in own.hours.values()] == [(21, 1)]
    assert (own.sample, own.causes) == (1, {"status is not int": 1})
    # 25 of them came with the logstore.
    assert [(h.rows, h.errors) for h in theirs.hours.values()] == [(65, 40)]
    use_catalog(quick.lake, monkeypatch)
    with DagsterInstance.ephemeral() as instance:
        told = told_by_landing(quick.logstore, instance, after_landing(quick.logstore, quick.lake))
    commit, errors = (next(each for each in told if each.check_name == name) for name in ("commit", "errors"))
    assert commit.passed and "nothing has landed" not in (commit.description or "")
    assert errors.severity is AssetCheckSeverity.WARN and "4.8% of 21 rows" in (errors.description or "")
    assert f"__origin__ IN ('{own.origins[0]}')" in str(errors.metadata["by hand"].value)
    with quick.client as client:
        levels = {
            found.kind: found.level
            for found in findings(vitals(quick.logstore, lambda: quick.lake, lambda: client), quick.logstore)
        }
    assert levels[Kind.ERRORS] is Level.WARN


def test_a_row_that_does_not_name_all_of_its_causes_makes_their_counts_lower_bounds(quick: World) -> None:
    bad = {f"k{number}": b"\xff" for number in range(9)}
    with quick.client as client:
        client.put_raw(group([bad, bad, bad | {"k9": b"\xff", "status": "no status"}, {"status": "none"}]))
    quick.pass_by(60)
    quick.land()

    found = error_rows(quick.logstore, quick.lake)
    assert found.causes is not None and found.sample == 4
    assert list(found.causes.items())[-1] == ("more than 8 causes", 3), "told beside the five that are shown"
    assert not any(cause.startswith("and ") for cause in found.causes)
    told = replace(found, causes={"status is not int": 1, "more than 8 causes": 3})
    shown = columns(quick.logstore, told)["dagster/column_schema"]
    assert isinstance(shown, TableSchemaMetadataValue)
    (status,) = (column for column in shown.schema.columns if column.name == "status")
    assert "; at least 25.0% of the rows" in str(status.description)


def test_rows_of_a_logstore_from_before_it_was_made_again_are_its_own() -> None:
    texts = {
        "a-1": "local/demo/a@17",
        "a-2": "local/demo/a@99",
        "a-3": "local/other/a@17",
        "b-1": "local/demo/b@17",
    }
    state = TableState("", None, None, 0, 0, 0, {}, texts)
    assert origins_named(state, "demo", "a") == ("a-1", "a-2")
