"""The dbt test of landed rows against the ledger, run by dbt itself over a real table with real Spark."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from dbt.cli.main import dbtRunner
from pyiceberg.expressions import And, EqualTo

from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import read_state
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.table.lake import Lake
from tests.integration.dbt_here import PLACE, dbt_here
from tests.worlds.one_logstore import HOUR0, World, catalog_variables

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TEST = "rows_are_as_the_ledger_says"
TABLE = "bronze.access_logs"
COLUMNS = {"n": "long", "status": "int", "latency_ms": "double"}


@dataclass
class Dbt:
    """dbt in this process, so that it finds the Spark session that is there. It is parsed once."""

    runner: dbtRunner
    said: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """What the test says; empty when it passes."""
        self.said.clear()
        done = self.runner.invoke(["test", "--select", TEST, *PLACE])
        sentences = [s.removeprefix(f"{TEST}: ") for s in self.said if s.startswith(f"{TEST}: ")]
        assert done.exception is None, done.exception
        assert [r.status for r in self.results(done.result)] == ["fail" if sentences else "pass"], self.said
        assert done.success is not bool(sentences)
        return sentences

    @staticmethod
    def results(result: Any) -> list[Any]:
        return [r for r in result.results if r.node.name == TEST]


@pytest.fixture(scope="module")
def dbt(shared_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dbt]:
    said: list[str] = []
    folder = tmp_path_factory.mktemp("dbt")
    with dbt_here(shared_lake, folder, lambda event: said.append(getattr(event.info, "msg", ""))) as runner:
        yield Dbt(runner, said)


@pytest.fixture
def landed(world: World, shared_lake: Lake) -> Iterator[World]:
    """Three receive hours with rows in both shards, in the table that dbt's source names."""
    mine = World(world.emulator, shared_lake, world.changed(table=TABLE, columns=COLUMNS), world.engine)
    for _ in range(3):
        mine.land_more(20, pass_s=3600)
    yield mine
    catalog = shared_lake.catalog()
    # Not asked of the lake: what a purge leaves of dbt's tables looks like one that was lost.
    for name in (TABLE, "silver.access_logs_by_minute", "gold.access_logs_by_day"):
        if catalog.table_exists(name):
            catalog.purge_table(name)


def rows_of(world: World, shard: int) -> int:
    return int(pc.sum(pc.equal(world.table.scan().to_arrow()["__shard__"], shard)).as_py())


def test_dbt_by_hand_makes_all_models_and_runs_their_tests_with_one_command(
    landed: World, tmp_path: Path
) -> None:
    catalog = catalog_variables(landed.lake)
    program = str(Path(sys.executable).with_name("sls-lake"))
    done = subprocess.run(
        [program, "dbt", "build", "--no-use-colors"],
        cwd=tmp_path,
        env={**os.environ, **catalog, "SLS_LAKE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS=22 WARN=0 ERROR=0" in done.stdout


def test_it_passes_after_landings_and_after_everything_that_a_person_may_decide(
    landed: World, dbt: Dbt
) -> None:
    assert dbt.problems() == []
    newest = landed.table.metadata.current_snapshot_id
    assert newest is not None

    def settled(what: Callable[[], object]) -> None:
        before = len(landed.table_rows())
        what()
        assert len(landed.table_rows()) != before
        landed.assert_proved()
        assert dbt.problems() == []

    with landed.client as client:
        lake, logstore = landed.lake, landed.logstore
        settled(lambda: execute(lake, plan_undo(lake, logstore, client, range(HOUR0, HOUR0 + 1))).snapshot)
        settled(lambda: execute(lake, plan_rollback(lake, TABLE, newest)).snapshot)
        where = plan_forget_where(lake, logstore, client, "n < 5")
        settled(lambda: execute(lake, where).snapshot)


def test_a_row_deleted_by_hand_fails_and_the_shard_and_both_numbers_are_said(landed: World, dbt: Dbt) -> None:
    victim = next(r for r in landed.table_rows() if r["__shard__"] == 1)
    there = rows_of(landed, 1)
    place = (EqualTo(term=name, value=victim[name]) for name in ("__shard__", "__cursor__", "__index__"))
    landed.table.delete(And(*place))
    assert rows_of(landed, 1) == there - 1
    (problem,) = dbt.problems()
    assert problem == f"{victim['__origin__']}, shard 1: the table holds {there - 1} rows, the ledger {there}"


def test_a_file_that_left_by_hand_fails_for_its_shard_and_adopted_rows_are_told_apart(
    landed: World, dbt: Dbt
) -> None:
    table = landed.table
    first = min(row["__receive_hour__"] for row in landed.table_rows()).isoformat()
    hour = EqualTo(term="__receive_hour__", value=first)
    table.delete(And(hour, EqualTo(term="__shard__", value=0)))
    table.manage_snapshots().remove_tag(TAG).commit()
    (nobodys,) = dbt.problems()
    assert nobodys.startswith(
        f"the table holds {len(landed.table_rows())} rows of logstores that have no led"
    )
    landed.carried_out(plan_adopt, at="latest", without_missing=True)
    assert dbt.problems() == [], "what is there was adopted"
    assert landed.land_more(10, pass_s=120).rows == 10
    assert dbt.problems() == []
    landed.table.delete(EqualTo(term="__shard__", value=0))
    (problem,) = dbt.problems()
    assert problem.endswith("adopted") and "shard 0: the table holds 0 rows" in problem


def test_the_ledger_of_a_shard_that_is_suspected_to_be_gone_is_read_as_any_other(
    landed: World, dbt: Dbt
) -> None:
    table, state = landed.table, read_state(landed.table)
    (ledger,) = state.ledgers.values()
    suspected = ledger.with_shards({1: replace(ledger.shards[1], suspect_s=1)})
    head = table.current_snapshot()
    assert head is not None
    change = authored.Change(head, {ledger.origin: suspected}, state.adopted, Deed(Operation.OTHER, "test"))
    authored.commit(landed.lake, table, state, change, now_ms=state.last_updated_ms)
    assert read_state(landed.table).ledgers[ledger.origin].shards[1].suspect_s == 1
    assert dbt.problems() == []
    landed.table.delete(EqualTo(term="__shard__", value=1))
    (problem,) = dbt.problems()
    assert "shard 1: the table holds 0 rows" in problem
