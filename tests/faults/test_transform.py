"""A function of the user's on the rows of a landing: in its commit, proven; and what becomes of mistakes."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.cli.main import EXIT_USAGE
from pipelines.landing.commit.planned import execute
from pipelines.landing.operations.mend import plan_mend
from sls_io.values.errors import ConfigError
from tests.snippets import TRANSFORM, snippet
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World, group

HERE = "tests.faults.test_transform"


def negated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """n below zero, and no status."""
    place = batch.schema.get_field_index("n")
    return batch.set_column(place, "n", pc.negate(batch["n"])).drop_columns(["status"])


def stumbles(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Fails at one log."""
    if "666" in [str(value) for value in batch["n"].to_pylist()]:
        raise ValueError("canary")
    return batch


def shorter(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Leaves rows out."""
    return batch.slice(1)


@pytest.fixture
def world(started: World) -> World:
    """Two shards: 20 logs landed as they are, 60 wait."""
    return started


def numbers(world: World) -> Counter[int]:
    """How often each n is in the table."""
    return Counter(row["n"] for row in world.table_rows())


def assert_all_there(world: World, command: Command) -> None:
    """Each log once, by ledger, sums and a second pull."""
    assert set(world.identities()) == set(world.truth())
    assert max(world.identities().values()) == 1
    proof = command("verify", "--pull")
    assert proof["code"] == 0, proof


def test_rows_are_transformed_in_the_commit_of_their_landing_and_still_proven(
    world: World, command: Command
) -> None:
    world.logstore = world.changed(transform=f"{HERE}:negated")
    assert world.land().rows == 60
    assert numbers(world) == Counter([*range(20), *range(-79, -19)])
    assert [row["status"] for row in world.table_rows() if row["n"] < 0] == [None] * 60
    assert_all_there(world, command)


def test_a_backfill_transforms_as_well(world: World, command: Command) -> None:
    world.logstore, hours = world.changed(transform=f"{HERE}:negated"), world.hours
    assert world.land(mode="fill", hours=(hours.start, hours.stop)).rows == 60
    assert numbers(world) == Counter([*range(20), *range(-79, -19)])
    assert_all_there(world, command)


def test_the_shard_whose_rows_it_fails_at_stays_where_it_is_and_the_other_lands(world: World) -> None:
    with world.client as client:
        client.put_raw(group([{"n": "666", "status": "200", "path": "/p/1"}]), key="0" * 32)
    world.emulator.admin.advance(60)
    frontiers = {shard: entry.frontier for shard, entry in world.ledger.shards.items()}
    failing = world.changed(transform=f"{HERE}:stumbles")

    report = world.land(logstore=failing)

    assert report.undone and f"transform '{HERE}:stumbles' failed (ValueError)" in report.trouble
    assert "shard 0" in report.trouble and "canary" not in report.trouble
    moved = {s for s, entry in world.ledger.shards.items() if entry.frontier != frontiers[s]}
    assert moved == {1} and report.rows > 0
    world.assert_proved()
    with pytest.raises(ConfigError, match=rf"{HERE}:stumbles' failed \(ValueError\), of rows of shard 0"):
        world.land(logstore=failing)
    world.assert_next_lands(61 - report.rows)


def test_one_that_leaves_rows_out_lands_nothing(world: World) -> None:
    with pytest.raises(ConfigError, match=r"gave \d+ rows for \d+, of rows of shard \d: nothing"):
        world.land(logstore=world.changed(transform=f"{HERE}:shorter"))
    world.assert_next_lands(60)


def test_one_that_writes_into_what_it_was_given_lands_nothing(world: World) -> None:
    with pytest.raises(ConfigError, match="changed or left out __cursor__, which must come back as given"):
        world.land(logstore=world.changed(transform="tests.unit.test_transform:rotated"))
    world.assert_next_lands(60)


@pytest.mark.parametrize("decoder", ["panics", "cancelled", "generator_exit", "leaves", "config_error"])
def test_a_decoder_that_raises_what_is_no_ordinary_error_stops_no_shard(world: World, decoder: str) -> None:
    kind = f"custom(tests.unit.custom_troubles:{decoder}, string)"
    report = world.land(logstore=world.changed(columns={"n": "long", "path": kind}))
    assert (report.rows, report.error_rows, report.trouble) == (60, 60, "")
    errors = Counter(row["__error__"] for row in world.table_rows())
    assert errors == {f"path is not {kind}": 60, None: 20}
    world.assert_proved()


def test_one_that_cannot_be_loaded_ends_the_run_before_it_began(world: World) -> None:
    with pytest.raises(ConfigError, match=r"transform .* failed"):
        world.run(logstore=world.changed(transform=f"{HERE}:nowhere"))


def test_rows_with_errors_are_transformed_when_they_are_read_again(world: World) -> None:
    """One fits once the contract is mended; of one that still does not, nothing changes."""
    before = world.changed(transform=f"{HERE}:negated")
    with world.client as client:
        client.put_raw(group([{"n": "900", "status": str(2**40)}]), key="0" * 32)
        client.put_raw(group([{"n": "many", "status": "1"}]), key="0" * 32)
    world.emulator.admin.advance(60)
    assert world.land(logstore=before).error_rows == 2
    after = world.changed(transform=f"{HERE}:negated", columns={"n": "long", "status": "long"})

    with world.client as client:
        planned = plan_mend(world.lake, after, client, world.hours)
        assert (planned.view.rows, planned.view.mended, planned.view.changed) == (2, 1, 1)
        execute(world.lake, planned)
        again = plan_mend(world.lake, after, client, world.hours)

    assert (again.view.rows, again.view.changed) == (1, 0)
    found = {row["n"]: (row["status"], row["__error__"] is None) for row in world.table_rows()}
    assert found[-900] == (None, True) and found[None] == (None, False)
    world.assert_proved()


def test_plan_describe_and_peek_know_it(world: World, command: Command, tmp_path: Path) -> None:
    settings = tmp_path / "defs.yaml"
    settings.write_text(settings.read_text() + f"  transform: {HERE}:negated\n")
    for verb in (("land", "--dry-run"), ("describe",)):
        assert command(*verb)["transform"] == f"{HERE}:negated"
        assert f"{HERE}:negated" in command(*verb, json=False)["text"]
    shown = command("peek", "0", "--limit", "3")["logs"]
    assert shown and all(log["columns"]["n"] <= 0 and log["columns"]["status"] is None for log in shown)
    settings.write_text(settings.read_text().replace(":negated", ":shorter"))
    refused = command("peek", "0")
    assert refused["code"] == EXIT_USAGE and "rows for" in refused["error"]


def test_the_example_of_the_reference_does_what_it_says(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "masking_example.py").write_text(snippet(TRANSFORM))
    monkeypatch.syspath_prepend(str(tmp_path))
    world.logstore = world.changed(
        transform="masking_example:mask", columns={"n": "long", "status": "int", "address": "string"}
    )
    with world.client as client:
        client.put_raw(group([{"n": "900", "status": "7", "address": "10.20.30.40"}]), key="0" * 32)
    world.emulator.admin.advance(60)
    world.land()
    (row,) = [row for row in world.table_rows() if row["n"] == 900]
    assert (row["address"], row["status"]) == ("10.x", None)
    assert {row["status"] for row in world.table_rows() if row["n"] != 900} == {200}
    world.assert_proved()
