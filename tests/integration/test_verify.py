"""`verify` finds what somebody did to the table behind the ledger's back, and says where."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import And, EqualTo

from pipelines.landing.verify import Proof, verify
from tests.integration.world import HOUR0_S, World

pytestmark = pytest.mark.spark


@pytest.fixture
def landed(world: World) -> World:
    """Two receive hours over two shards, landed and proven."""
    world.put(40)
    world.at(HOUR0_S + 3600 + 60)
    world.put(40)
    world.at(HOUR0_S + 3600 + 180)
    assert world.land().rows == 80
    assert prove(world).ok
    return world


def prove(world: World) -> Proof:
    with world.client as client:
        return verify(world.logstore, world.lake, client)


def wrong_shards(proof: Proof) -> dict[int, tuple[str, ...]]:
    return {s.shard: s.problems for s in proof.shards if s.problems}


def one_row(world: World) -> tuple[pa.Table, And]:
    """A row of shard 0 and the filter that names it alone."""
    rows = world.table.scan(row_filter=EqualTo(term="__shard__", value=0)).to_arrow().slice(0, 1)
    cursor, index = rows["__cursor__"][0].as_py(), rows["__index__"][0].as_py()
    here = And(
        EqualTo(term="__shard__", value=0),
        EqualTo(term="__cursor__", value=cursor),
        EqualTo(term="__index__", value=index),
    )
    return rows, here


def test_a_file_that_is_gone_is_named_and_the_other_shards_are_still_proven(landed: World) -> None:
    task = next(t for t in landed.table.scan(row_filter=EqualTo(term="__shard__", value=1)).plan_files())
    path = Path(task.file.file_path.removeprefix("file://"))
    path.unlink()

    proof = prove(landed)

    assert not proof.ok
    assert proof.problems == (f"file is gone: {path.name}",)
    missing = task.file.record_count
    entry = landed.ledger.shards[1]
    assert wrong_shards(proof) == {
        1: (f"the table holds {entry.rows - missing} rows, the ledger {entry.rows}",)
    }
    assert proof.rows == 80 - missing


def test_a_row_that_somebody_deleted_is_missed(landed: World) -> None:
    _, here = one_row(landed)
    rows = landed.ledger.shards[0].rows
    landed.table.delete(here)

    assert wrong_shards(prove(landed)) == {0: (f"the table holds {rows - 1} rows, the ledger {rows}",)}


def test_a_row_in_the_place_of_another_is_found_by_the_sum(landed: World) -> None:
    row, here = one_row(landed)
    twin = landed.table.scan(row_filter=EqualTo(term="__shard__", value=0)).to_arrow().slice(1, 1)
    assert not twin.equals(row)
    landed.table.overwrite(twin, overwrite_filter=here)

    problems = wrong_shards(prove(landed))[0]

    assert problems == (
        "the identities of the rows do not add up to the ledger's sum",
        "1 rows are there more than once",
    )


def test_a_row_that_never_was_in_the_service_is_found(landed: World) -> None:
    row, here = one_row(landed)
    beyond = landed.ledger.shards[0].frontier + 7
    invented = row.set_column(
        row.schema.get_field_index("__cursor__"), row.schema.field("__cursor__"), pa.array([beyond])
    )
    landed.table.overwrite(invented, overwrite_filter=here)

    problems = wrong_shards(prove(landed))[0]

    assert "1 rows lie outside of what the ledger calls landed" in problems


def test_a_row_added_beside_the_ledger_is_of_unknown_origin(landed: World) -> None:
    row, _ = one_row(landed)
    landed.table.append(row)

    proof = prove(landed)

    assert not proof.ok
    assert "rows of unknown origin" in proof.problems[0]


def test_hours_are_proven_one_by_one_whatever_the_partitioning(landed: World) -> None:
    """A later partition field gives the same hour two kinds of file; twins are found across them."""
    with landed.table.update_spec() as update:
        update.add_identity("__shard__")
    _, here = one_row(landed)
    twin = landed.table.scan(row_filter=EqualTo(term="__shard__", value=0)).to_arrow().slice(1, 1)
    landed.table.overwrite(twin, overwrite_filter=here)
    assert {t.file.spec_id for t in landed.table.scan().plan_files()} == {0, 1}

    proof = prove(landed)

    assert "1 rows are there more than once" in wrong_shards(proof)[0]
    assert pc.count_distinct(landed.table.scan().to_arrow()["__receive_hour__"]).as_py() == 2
