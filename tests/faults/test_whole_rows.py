"""Files that are damaged where no identity is: a proof by identities cannot see it; it is found and cured."""

import json
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile

from pipelines.cli.main import EXIT_FAILED
from pipelines.components.logstore.checks import proven_result
from pipelines.components.logstore.failures import naming_cures, plainly
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.cures import Case, give_cures, of_lost_files
from pipelines.landing.inspection.error_rows import error_rows
from pipelines.landing.inspection.whole import DAYS, every_file, of_day
from pipelines.landing.ledger.reading import Unreadable, read_whole
from pipelines.landing.ledger.state import read_state
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.table.commands import VERIFY_ROWS, line
from sls_io.values.cures import Do
from sls_io.values.errors import TransportError
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.landed_hours import data_of, hours, take_all_hours
from tests.worlds.one_logstore import World
from tests.worlds.printed_cures import named, printed, run_as_printed, ways

Damage = Callable[..., object]
_DAY_S = 86_400


def column(path: Path, name: str) -> pq.ColumnChunkMetaData:
    """Where a column lies in a file."""
    group = pq.read_metadata(path).row_group(0)
    return next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == name)


def zero(path: Path, name: str = "n") -> None:
    """A lost block: the values of one column are zeros, and nobody can read them."""
    there = column(path, name)
    begin = min(filter(None, (there.dictionary_page_offset, there.data_page_offset)))
    text = bytearray(path.read_bytes())
    text[begin : begin + there.total_compressed_size] = bytes(there.total_compressed_size)
    path.write_bytes(text)


def turn(path: Path, name: str = "n") -> None:
    """A bit turns over in a value: it still is one, only another."""
    whole = pq.read_table(path)
    text = path.read_bytes()
    there = column(path, name)
    begin = min(filter(None, (there.dictionary_page_offset, there.data_page_offset)))
    for at in range(begin + there.total_compressed_size - 1, begin, -1):
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
        try:
            if pq.read_table(path).num_rows == whole.num_rows and not pq.read_table(path).equals(whole):
                return
        except (OSError, pa.ArrowException):
            continue
    raise AssertionError(f"no bit of {name} makes another value")


DAMAGES = [zero, turn]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_value_is_named_by_verify_rows_with_a_cure_that_works(
    world: World, command: Command, damage: Damage
) -> None:
    path = data_of(world, hours(world)[1])
    damage(path)

    by_identities, said = command("verify"), command("verify", json=False)["text"]
    assert by_identities["ok"] and by_identities["whole"]["others"] == len(world.published())
    assert "only the columns were read" in said and "--rows   # reads them all" in said

    proof = command("verify", "--rows")
    assert (proof["code"], proof["verdict"]) == (EXIT_FAILED, "not verified")
    (problem,) = proof["problems"]
    assert path.name in problem and "cannot be read" in problem

    cure = printed(" ".join(ways(proof)))[0]
    assert cure[:3] == ["backfill", "--mode", "replace"] and hour_text(hours(world)[1]) in cure
    run_as_printed(world, command, cure)
    proved = command("verify", "--rows")
    assert proved["ok"] and proved["whole"]["others"] == 0 and proved["whole"]["rows"] == 60
    world.assert_whole()


@pytest.mark.parametrize("damage", DAMAGES)
def test_whoever_meets_a_damaged_value_names_the_cures_and_not_a_verb_that_looks_for_them(
    world: World, command: Command, damage: Damage
) -> None:
    path = data_of(world, hours(world)[1])
    damage(path)
    cures = [shown for cure in ways(command("verify", "--rows")) for shown in printed(cure)]

    met = {
        "maintain": command("table", "maintain", "--execute", "--only", "compact"),
        "forget": command("table", "forget", "--where", "n = 25"),
    }
    for verb, said in met.items():
        told = said["error"] + json.dumps(said.get("put_off", []))
        assert said["code"] == EXIT_FAILED and path.name in told, (verb, said)
        assert printed(told) == cures, verb
    with pytest.raises(dg.Failure) as failed, plainly(world.logstore), naming_cures(world.logstore):
        read_whole(world.table, entry_of(world, path))
    assert printed(str(failed.value.description)) == cures


@pytest.mark.parametrize("damage", DAMAGES)
def test_rows_with_errors_that_cannot_be_read_again_name_the_cures(
    world: World, command: Command, damage: Damage
) -> None:
    world.land_more(20, value="no number", pass_s=HOUR_S)
    hour = hours(world)[-1]
    path = data_of(world, hour)
    damage(path)

    met = command("backfill", "--mode", "errors", "--from", hour_text(hour), "--local", "--execute")

    assert met["code"] == EXIT_FAILED and path.name in met["error"]
    cures = [shown for cure in ways(command("verify", "--rows")) for shown in printed(cure)]
    assert cures[0][:3] == ["backfill", "--mode", "replace"] and printed(met["error"]) == cures


@pytest.mark.parametrize("damage", DAMAGES)
def test_causes_of_errors_that_cannot_be_read_name_the_file(world: World, damage: Damage) -> None:
    for number in range(20):
        world.put(1, value=f"no number {number}", key="0" * 32)
    world.emulator.admin.advance(HOUR_S)
    world.land()
    path = data_of(world, hours(world)[-1])
    damage(path, "__error__")
    with pytest.raises(Unreadable, match=path.name):
        error_rows(world.logstore, world.lake)


def entry_of(world: World, path: Path) -> DataFile:
    """What the table says of a file."""
    return next(t.file for t in world.table.scan().plan_files() if t.file.file_path.endswith(path.name))


def test_a_damaged_file_that_nothing_brings_back_is_given_up_alone(world: World, command: Command) -> None:
    path = data_of(world, hours(world)[1])
    lost = pq.read_metadata(path).num_rows
    take_all_hours(world)
    zero(path)

    assert "nothing is lost" in command("table", "give-up")["error"]
    named = printed(" ".join(ways(command("verify", "--rows"))))
    assert named[0] == ["table", "give-up", "--rows"]
    run_as_printed(world, command, named[0])

    proof = command("verify", "--rows")
    assert proof["ok"] and proof["whole"]["rows"] == 60 - lost
    assert sum(shard["rows_missing"] for shard in proof["shards"]) == lost
    assert f"{lost} rows given up" in command("verify", json=False)["text"]


def test_the_proofs_of_seven_days_read_each_file_whole_and_one_of_them_is_red(world: World) -> None:
    zero(data_of(world, hours(world)[1]))
    now_s = world.emulator.admin.now()
    week_s = now_s // (DAYS * _DAY_S) * DAYS * _DAY_S

    days = [world.proof(rows=of_day(week_s + day * _DAY_S + now_s % _DAY_S)) for day in range(DAYS)]

    # The damaged one is read, and neither whole nor left.
    assert sum(proof.whole.files for proof in days) == len(world.published()) - 1
    red = [proof for proof in days if not proof.ok]
    assert len(red) == 1 and red[0].cures
    result = dg.AssetCheckResult(**proven_result(world.logstore, red[0], seconds=0.0))
    assert not result.passed and result.severity == dg.AssetCheckSeverity.ERROR
    assert "cannot be read" in (result.description or "")


def test_the_proofs_of_any_eight_days_in_a_row_meet_every_file() -> None:
    files = [f"s3://lake/data/{number:03}.parquet" for number in range(500)]
    for first in range(2 * DAYS):
        days = [of_day((first + day) * _DAY_S) for day in range(DAYS + 1)]
        assert all(any(chosen(file) for chosen in days) for file in files)


def test_a_proof_on_one_day_of_the_week_meets_every_file_within_seven_weeks() -> None:
    files = [f"s3://lake/data/{number:03}.parquet" for number in range(500)]
    for day in range(DAYS):
        met = [{f for f in files if of_day((week * DAYS + day) * _DAY_S)(f)} for week in range(DAYS)]
        assert set.union(*met) == set(files) and sum(map(len, met)) == len(files)


def test_a_cure_of_one_damaged_file_does_not_say_that_it_leaves_other_damaged_ones(
    world: World, command: Command
) -> None:
    """Only a part of the files is read whole each day, and what is given up then is every damaged one."""
    take_all_hours(world)
    first, second = (data_of(world, hour) for hour in hours(world)[:2])
    zero(first)
    zero(second)
    met = world.proof(rows=lambda path: path.endswith(first.name))
    (cure,) = (line(each) for each in met.cures if "give-up" in line(each))
    assert "and of others that prove damaged" in cure and "nothing else" not in cure
    assert command(*printed(cure)[0])["rows"] == sum(pq.read_metadata(p).num_rows for p in (first, second))


def test_a_compaction_that_meets_many_unreadable_files_looks_for_cures_once(world: World) -> None:
    """A search reads what tells which rows the whole table holds."""
    paths = [data_of(world, hour) for hour in hours(world)]
    for path in paths:
        zero(path)
    made = Maintainer(world.logstore, world.lake).execute(["compact"])

    assert made.unsettled and len(made.put_off) == len(paths)
    assert all(path.name in said for path, said in zip(paths, made.put_off, strict=True))
    assert [bool(printed(said)) for said in made.put_off] == [False, False, True]
    ways = printed(made.put_off[-1])
    assert ways == printed(named(world.proof(rows=every_file).cures))


def test_files_from_before_the_checksums_are_read_and_proven(world: World, command: Command) -> None:
    rows = world.table.scan().to_arrow()
    world.table.delete("n >= 0")
    for half in (rows.slice(0, 30), rows.slice(30)):
        world.table.append(half)  # as PyIceberg writes, without any
    assert command("verify", "--rows")["whole"]["rows"] == 60
    assert command("table", "maintain", "--execute", "--only", "compact")["compacted"]
    assert command("verify", "--rows")["ok"]
    world.assert_whole()


def test_readers_that_know_nothing_of_checksums_read_files_that_have_them(world: World) -> None:
    with duckdb.connect() as database:
        (found,) = database.execute(
            f"select count(*), sum(n) from read_parquet({world.published()!r})"
        ).fetchall()
    assert found == (60, sum(range(60)))
    assert pq.ParquetDataset(world.published()).read().num_rows == 60


def test_a_service_that_cannot_be_reached_is_no_reason_to_name_what_loses_rows(world: World) -> None:
    """Whether an hour can be replaced is not known then, and nobody shall go back to an older landing."""
    path = data_of(world, hours(world)[1])
    zero(path)
    with pytest.raises(Unreadable) as met:
        read_whole(world.table, entry_of(world, path))
    name = world.logstore.service.logstore
    world.emulator.admin.fault("drop_request", call="get_cursor", logstore=name, times=None)
    with world.client as client, pytest.raises(TransportError):
        case = Case(world.lake, world.logstore, client, world.table, read_state(world.table))
        of_lost_files(case, [met.value])


def test_a_file_is_named_with_a_verb_that_finds_it_where_no_cure_can_be_looked_for(world: World) -> None:
    path = data_of(world, hours(world)[1])
    zero(path)
    with pytest.raises(Unreadable) as met:
        read_whole(world.table, entry_of(world, path))
    gone = Service(endpoint="http://127.0.0.1:9", project="demo", logstore="gone", tries_max=1)
    give_cures(met.value, world.logstore.model_copy(update={"service": gone}), world.lake)
    assert met.value.cures == (Do("restore the file"), VERIFY_ROWS)


def test_a_whole_file_with_the_same_identities_and_other_values_is_named_by_its_size(
    world: World, command: Command
) -> None:
    """As a backup of the data folder would bring back what was read again since."""
    path = data_of(world, hours(world)[1])
    rows = pq.read_table(path)
    place = rows.schema.get_field_index("__rest__")
    none = pa.nulls(rows.num_rows, rows.schema.field(place).type)
    pq.write_table(rows.set_column(place, rows.schema.field(place), none), path)
    assert command("verify")["ok"], "it proves which rows there are"

    proof = command("verify", "--rows")

    assert proof["code"] == EXIT_FAILED and "overwritten by another one" in proof["problems"][0]
    run_as_printed(world, command, printed(" ".join(ways(proof)))[0])
    assert command("verify", "--rows")["ok"]
    world.assert_whole()
