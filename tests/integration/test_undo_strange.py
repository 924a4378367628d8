"""An undo of a table whose rows are as many as its ledger says, and not the same ones."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import EqualTo

from chaos.engine import InProcess
from pipelines.landing.commit.planned import execute
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from sls_io.emulator import start
from sls_io.values.errors import LedgerBroken
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, make_lake, new_world
from tests.worlds.printed_cures import named


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """One shard, five rows in each of two hours that it has passed; landings run in this process."""
    with start(now=HOUR0_S + 60.0) as emulator:
        world = new_world(emulator, make_lake(tmp_path / "lake"), InProcess(), shards=1)
        for hour in range(2):
            world.at(HOUR0_S + 3600 * hour + 60)
            world.land_more(5, until_s=HOUR0_S + 3600 * hour + 3660)
        yield world


def test_an_hour_with_a_strange_row_is_not_taken_back_while_one_is_missing_elsewhere(world: World) -> None:
    """The count agrees; the ledger would be lowered by a row that it never knew."""
    newest = world.table.metadata.current_snapshot_id
    rows = world.table.scan().to_arrow()
    one = rows.filter(pc.equal(rows["n"], 0))
    place = one.schema.get_field_index("__index__")
    kind = one.schema.field(place)
    world.table.append(one.set_column(place, kind, pa.array([77], kind.type)))
    world.table.delete(EqualTo(term="n", value=7))
    before = world.identities()
    assert before.total() == 10 == sum(entry.rows for entry in world.ledger.shards.values())

    with world.client as client, pytest.raises(LedgerBroken, match="holds other rows") as refused:
        plan_undo(world.lake, world.logstore, client, range(HOUR0, HOUR0 + 1))

    assert world.identities() == before
    assert f"sls-lake table rollback {newest}" in named(refused.value.cures)
    execute(world.lake, plan_rollback(world.lake, world.logstore.table, newest or 0))
    world.carried_out(plan_undo, range(HOUR0, HOUR0 + 1))
    assert world.identities().total() == 5
    world.assert_proved()
