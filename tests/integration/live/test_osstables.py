"""Landing on OSS Tables: what its pages have is refused or survived, and nothing lands twice."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.landing.catalogs.upkeep import COMPACTION, EXPIRY
from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import facts
from pipelines.landing.ledger.values import Forgotten
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.spark.session import JARS_VARIABLE, Engine
from sls_io.values.errors import LedgerBroken
from tests.backends.jars import jars_of
from tests.backends.osstables import TableBucket
from tests.backends.places import Place, Servers, made
from tests.worlds.beside_servers import proved, world
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World, configuration

__all__ = ["world"]

DAYS_LATER_H = 121.0


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[Place]:
    """A table bucket; its maintenance is off until a test turns it on."""
    name = getattr(request, "param", "osstables-file")
    with made(name, tmp_path / "place", servers) as place:
        yield place


@pytest.fixture
def bucket(place: Place) -> TableBucket:
    """The bucket."""
    assert place.bucket is not None
    return place.bucket


def more(world: World) -> None:
    """Logs for another landing."""
    world.put(20, pass_s=60)


def test_a_table_that_the_catalog_expires_and_compacts_is_refused_until_a_person_turns_it_off(
    world: World, bucket: TableBucket, servers: Servers
) -> None:
    bucket.off.clear()
    with pytest.raises(LedgerBroken) as refused:
        world.land()
    told = str(refused.value)
    assert "expires snapshots after 120 h, all but 1, and compacts files to 512 MB by itself" in told
    cures = [str(cure) for cure in refused.value.cures]
    assert [EXPIRY in cures[0], COMPACTION in cures[1]] == [True, True] and len(cures) == 2
    table = world.logstore.table
    bucket.turn_off(table, EXPIRY)
    with pytest.raises(LedgerBroken, match="compacts files to 512 MB by itself"):
        world.land()
    bucket.turn_off(table, COMPACTION)
    assert world.land().rows == 40
    proved(world, servers)


def test_a_foreign_compaction_and_an_expiry_that_spares_tags_change_nothing(
    world: World, bucket: TableBucket, servers: Servers
) -> None:
    world.land()
    before = world.table.metadata.refs[TAG].snapshot_id
    bucket.off.clear()
    assert bucket.maintain(world.logstore.table, hours_later=DAYS_LATER_H) == [COMPACTION, EXPIRY]
    bucket.turn_off(world.logstore.table)
    table = world.table
    assert table.metadata.refs[TAG].snapshot_id == before != table.metadata.current_snapshot_id
    assert len(table.metadata.snapshots) == 2, "main's, and the one that the tag names"
    world.assert_proved()
    more(world)
    assert world.land().rows == 20
    proved(world, servers)


def test_an_expiry_that_keeps_one_snapshot_takes_the_ledger_and_adopt_finds_it_again(
    world: World, bucket: TableBucket, servers: Servers
) -> None:
    world.land()
    ledger = world.ledger
    bucket.off.clear()
    bucket.maintain(world.logstore.table, hours_later=DAYS_LATER_H, spares_tags=False)
    bucket.turn_off(world.logstore.table)
    table = world.table
    assert TAG not in table.metadata.refs and len(table.metadata.snapshots) == 1
    with pytest.raises(LedgerBroken, match="has no ledger of it"):
        world.land()

    with world.client as client:
        planned = plan_adopt(world.lake, world.logstore, client)
        assert not planned.refusal and set(planned.view.kept) == {world.origin}
        execute(world.lake, planned)
    assert world.ledger == ledger
    world.assert_proved()
    more(world)
    assert world.land().rows == 20
    proved(world, servers)


def test_where_nobody_can_prove_that_main_was_not_rolled_back_adopt_keeps_the_ledger_that_the_rows_prove(
    world: World, bucket: TableBucket, servers: Servers
) -> None:
    """Compacted twice, and what was between main and the tag is expired."""
    world.land()
    ledger = world.ledger
    bucket.off.clear()
    did = bucket.maintain(world.logstore.table, hours_later=DAYS_LATER_H, compactions=2)
    assert did == [COMPACTION, COMPACTION, EXPIRY]
    bucket.turn_off(world.logstore.table)
    with pytest.raises(LedgerBroken, match="were expired, so nobody can prove"):
        world.land()
    world.carried_out(plan_adopt)
    assert world.ledger == ledger
    more(world)
    assert world.land().rows == 20
    proved(world, servers)


def test_what_was_removed_for_good_stays_so_when_the_landing_that_remembers_it_is_expired(
    world: World, bucket: TableBucket
) -> None:
    world.land()
    world.carried_out(plan_forget_where, "n < 20")
    removed = facts(world.table).forgotten
    bucket.off.clear()
    bucket.maintain(world.logstore.table, hours_later=DAYS_LATER_H, spares_tags=False, compactions=2)
    bucket.turn_off(world.logstore.table)
    assert not facts(world.table).forgotten.shards
    world.carried_out(plan_adopt)
    assert facts(world.table).forgotten == removed != Forgotten()
    world.assert_proved()


@pytest.mark.spark
@pytest.mark.parametrize("place", ["osstables-s3"], indirect=True)
def test_sql_of_spark_signs_too_and_dbt_tests_what_cannot_be_a_view(
    world: World, bucket: TableBucket, place: Place, tmp_path: Path
) -> None:
    """Java's own signer before ours: it is judged by the same server."""
    world.logstore = world.changed(columns={**world.logstore.columns, "latency_ms": "double"})
    world.land()
    before, asked = len(bucket.refused), len(bucket.asked)
    told = {**place.direct.properties, "type": "osstables"}
    environment = {n: v for n, v in os.environ.items() if not n.startswith("AWS_")}
    environment |= {**configuration(told), JARS_VARIABLE: str(jars_of(tmp_path))}
    environment |= {"SLS_LAKE_HOME": str(tmp_path / "home")}
    program = Path(sys.executable).with_name("sls-lake")
    done = subprocess.run(
        [program, "dbt", "build"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "keeps no views" in done.stdout and "PASS identity_is_unique" in done.stdout
    assert "PASS rows_are_as_the_ledger_says" in done.stdout and "view model" not in done.stdout
    assert len(bucket.asked) > asked + 2 and not any("/views" in each for each in bucket.asked)
    # Java looks for `bronze.access_logs.refs` in a namespace below `bronze` first.
    assert all("%1F" in each for each in bucket.refused[before:])


@pytest.mark.spark
def test_the_doctor_says_what_the_catalog_does_by_itself_before_the_first_landing_and_after(
    world: World, bucket: TableBucket, engine: Engine, command: Command
) -> None:
    bucket.off.clear()
    table = world.logstore.table
    said = command("doctor")
    found = {one["name"]: one for one in said["trials"]}
    assert found["table"]["grade"] == "wrong", "it has landed already, with all of it off"
    assert "by itself the catalog expires snapshots after 120 h" in found["table"]["came"]
    changes = [str(each) for each in found["table"]["changes"]]
    assert len(changes) == 3 and all("access_logs" in each for each in changes[1:])
    assert found["scratch"]["grade"] == "note" and "once the first landing" in str(
        found["scratch"]["changes"]
    )
    wrong = {name for name, one in found.items() if one["grade"] == "wrong"}
    assert wrong == {"table"} and found["away"]["grade"] == "fine"

    bucket.turn_off(table)
    again = {one["name"]: one for one in command("doctor")["trials"]}
    assert again["table"]["grade"] == "fine" and again["stale"]["grade"] == "fine"


def test_a_table_that_the_bucket_lost_is_not_begun_anew_and_nothing_registers_it(
    world: World, bucket: TableBucket, command: Command
) -> None:
    """Only the group's checkpoints tell that somebody landed: no call says where the table would lie."""
    world.land()
    old = world.table.metadata_location
    world.lake.catalog().drop_table(world.logstore.table)
    with pytest.raises(LedgerBroken, match="has checkpoints of shards 0, 1: somebody landed with it before"):
        world.land()
    for arguments in ((), ("--metadata", old, "--execute")):
        said = command("table", "register", *arguments)
        assert said["code"] and "sls-lake table start-over" in said["error"]
