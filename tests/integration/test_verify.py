"""`verify` finds what somebody did to the table behind the ledger's back, and says where."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import And, EqualTo, LessThan

from pipelines.landing.commit.planned import execute
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.proof import NOT_VERIFIED, Proof
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.table.commands import line
from sls_io.values.cures import Do
from sls_io.values.window import cursor_to_wire
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.three_hours import undo_of
from tests.worlds.wrong_answers import tell


@pytest.fixture
def landed(world: World) -> World:
    """Two receive hours over two shards, landed and proven."""
    world.put(40, until_s=HOUR0_S + 3600 + 60)
    assert world.land_more(40, until_s=HOUR0_S + 3600 + 180).rows == 80
    assert world.proof().ok
    return world


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

    proof = landed.proof()

    assert not proof.ok
    assert proof.problems == (f"file is gone: {path.name}",)
    assert proof.cures[0] == Do("restore the file")
    missing = task.file.record_count
    entry = landed.ledger.shards[1]
    total, window = wrong_shards(proof)[1]
    assert list(wrong_shards(proof)) == [1]
    assert total == f"the table holds {entry.rows - missing} rows, the ledger {entry.rows}"
    assert window.endswith(f": the table holds 0 rows, its landing brought {missing}")
    assert proof.rows == 80 - missing


def test_hours_are_proven_one_by_one_whatever_the_partitioning(landed: World) -> None:
    """A later partition field gives the same hour two kinds of file; twins are found across them."""
    with landed.table.update_spec() as update:
        update.add_identity("__shard__")
    _, here = one_row(landed)
    twin = landed.table.scan(row_filter=EqualTo(term="__shard__", value=0)).to_arrow().slice(1, 1)
    landed.table.overwrite(twin, overwrite_filter=here)
    assert {t.file.spec_id for t in landed.table.scan().plan_files()} == {0, 1}

    proof = landed.proof()

    assert wrong_shards(proof)[0] == (
        "the identities of the rows do not add up to the ledger's sum",
        "1 rows are there more than once",
    )
    assert pc.count_distinct(landed.table.scan().to_arrow()["__receive_hour__"]).as_py() == 2


def test_windows_of_kept_snapshots_are_counted_one_by_one_and_it_says_how_far(landed: World) -> None:
    proof = landed.proof()

    brought = sum(len(windows) for _, windows in landed.landings())
    assert brought == sum(s.windows for s in proof.shards) == 4
    assert proof.since_ms == landed.table.metadata.snapshots[0].timestamp_ms

    landed.land_more(10, until_s=HOUR0_S + 3600 + 300)
    kept = landed.table.current_snapshot()
    assert kept is not None
    landed.table.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in landed.table.metadata.snapshots if s.snapshot_id != kept.snapshot_id]
    ).commit()
    proof = landed.proof()

    assert proof.ok and proof.rows == 90
    assert sum(s.windows for s in proof.shards) == len(landed.landings()[0][1]) < 4
    assert proof.since_ms == kept.timestamp_ms


def test_what_retention_still_holds_is_pulled_again_and_compared(landed: World) -> None:
    proof = landed.proof(pull=True)
    assert proof.ok
    assert [s.rows_pulled for s in proof.shards] == [s.rows_ledger for s in proof.shards]

    second = range(HOUR0 + 1, HOUR0 + 2)
    proof = landed.proof(pull=True, hours=second)
    assert proof.ok
    assert sum(s.rows_pulled or 0 for s in proof.shards) == 40

    landed.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 1800)
    proof = landed.proof(pull=True)
    assert proof.ok
    assert sum(s.rows_pulled or 0 for s in proof.shards) == 40


def test_a_page_that_stays_wrong_is_named_as_not_compared(landed: World) -> None:
    landed.emulator.admin.fault("short", call="pull_logs", shard=1, times=None)

    proof = landed.proof(pull=True)

    assert proof.verdict == NOT_VERIFIED and not wrong_shards(proof), "asked for, and not proven"
    assert (proof.shards[1].rows_pulled, len(proof.problems), proof.cures) == (0, 2, ())
    assert all(
        text.startswith("shard 1: window ")
        and "was not compared with the service: a page could not be read" in text
        for text in proof.problems
    )
    landed.emulator.admin.fault("short", call="pull_logs", times=None)
    assert any("could not be pulled to its end" in note for note in landed.proof(pull=True).notes)


def test_hours_with_rows_removed_by_decision_are_not_held_against_the_service(landed: World) -> None:
    landed.carried_out(plan_forget_where, "n = 3", reason="asked for")

    proof = landed.proof(pull=True)

    assert proof.ok and proof.rows == 79
    assert 0 < sum(s.rows_pulled or 0 for s in proof.shards) < 79
    assert [s.windows_left for s in proof.shards].count(1) == 1
    (left,) = [n for s in proof.shards for n in s.notes if "not counted one by one" in n]
    assert left.startswith(f"1 windows of hours with rows removed by decision ({hour_text(HOUR0)})")

    landed.carried_out(plan_forget_where, "n = 5 or n = 6")
    assert all(s.windows_left == 1 for s in landed.proof().shards), "in each shard a row of the hour is gone"
    named = landed.proof(pull=True, hours=range(HOUR0, HOUR0 + 1))
    assert not named.ok
    assert "were removed by decision" in named.problems[0]


def test_hours_of_which_nothing_can_be_compared_are_not_proven(landed: World) -> None:
    """Unless the service says that they are empty, and the table has nothing of them."""
    for first, why in ((HOUR0 + 1000, "not received yet"), (HOUR0 - 1000, "nothing so old has landed")):
        proof = landed.proof(pull=True, hours=range(first, first + 2))
        assert not proof.ok and not wrong_shards(proof)
        (said,) = proof.problems
        assert said.startswith(f"nothing of {hour_text(first)}..") and why in said
    landed.at(HOUR0_S + 5 * 3600)
    landed.land_more(10, until_s=HOUR0_S + 6 * 3600 + 60)
    empty = landed.proof(pull=True, hours=range(HOUR0 + 3, HOUR0 + 4))
    assert empty.ok and "the service has no log" in empty.notes[0]

    landed.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 3600)
    gone = landed.proof(pull=True, hours=range(HOUR0, HOUR0 + 1))
    assert not gone.ok and "the service no longer has them" in gone.problems[0]
    landed.emulator.admin.retain(PROJECT, "access_logs", before_s=HOUR0_S + 10 * 3600)
    nothing = landed.proof(pull=True)
    assert nothing.ok and "it holds nothing any more" in nothing.notes[0]


def test_a_table_that_lost_rows_names_what_brings_them_back(landed: World) -> None:
    landed.table.delete(And(EqualTo(term="__shard__", value=0), LessThan(term="n", value=40)))

    first, second, last = (line(cure) for cure in landed.proof().cures)

    assert f"--mode replace --local --from {hour_text(HOUR0)} --execute " in first
    tagged = landed.table.metadata.refs[TAG].snapshot_id
    assert second.startswith(f"sls-lake table rollback {tagged} ") and "--without-missing" in last
    assert len(landed.proof(pull=True).cures) == 3
    execute(landed.lake, plan_rollback(landed.lake, landed.logstore.table, tagged))
    assert landed.proof().ok and not landed.proof().cures
    landed.assert_each_log_once()


def test_a_value_that_another_engine_changed_under_its_identity_is_green_as_the_reference_says(
    landed: World,
) -> None:
    """Proven is which logs there are; nothing of a value is kept that it could be held against."""
    rows = landed.table.scan().to_arrow()
    place = rows.schema.get_field_index("n")
    other = pc.add(rows.column("n"), 1).cast(rows.schema.field(place).type)
    landed.table.overwrite(rows.set_column(place, rows.schema.field(place), other))
    assert landed.proof(pull=True).ok


@pytest.mark.parametrize("wrong", [HOUR0_S - 60, HOUR0_S + 60], ids=["before all", "the hour before"])
def test_a_service_whose_hours_go_back_is_not_asked_for_ever(landed: World, wrong: int) -> None:
    """The group at the edge of the second hour is said to be of an hour before it."""
    landed.at(HOUR0_S + 2 * 3600 + 120)
    landed.land()
    execute(landed.lake, undo_of(landed, HOUR0, HOUR0 + 1))
    hours = f"{hour_text(HOUR0)}..{hour_text(HOUR0 + 1)}"
    for shard in landed.proof().shards:
        assert [text.partition(" of ")[2] for text in shard.withdrawn] == [hours]
    with landed.client as client:
        edge = cursor_to_wire(client.cursor_at(0, HOUR0_S + 3600))
    aimed = {"call": "get_cursor_time", "shard": 0, "query": {"cursor": re.escape(edge)}}
    lie = tell(landed, "answer", field="cursor_time", value=wrong, **{**aimed, "times": 50})

    first, second = landed.proof().shards

    assert [text.partition(" of ")[2] for text in first.withdrawn] == ["an hour the service no longer has"]
    assert [text.partition(" of ")[2] for text in second.withdrawn] == [hours]
    assert [fault["hits"] for fault in landed.emulator.admin.faults() if fault["id"] == lie] == [1]
