"""Lines of the drivers that look as if they could go: each has a test that fails without it."""

from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.place import look_at
from pipelines.landing.maintenance.compact import compactions, plan_compaction
from sls_io.values.errors import LedgerBroken
from tests.worlds.one_logstore import PROJECT, World
from tests.worlds.two_runs import At


@pytest.mark.fault("4b.drain.after")
def test_the_checkpoint_of_a_shard_that_is_closed_is_sent_although_it_is_the_same(quick: World) -> None:
    """Story: a shard is drained and its checkpoint published; it is split while the next run holds it. That
    run closes it where its checkpoint is already, and the service looks only when one comes."""
    quick.land_more(20)
    name = quick.logstore.service.logstore

    with quick.run(on_event=At("survey", lambda: quick.emulator.admin.split(PROJECT, name, 0))) as run:
        report = run.land()
        assert run.reconcile().ok
        sent = {point.shard: point.outcome for point in run.checkpoint()}

    assert report.closed == (0,)
    assert sent == {0: "moved", 1: "unchanged"}


def test_a_file_that_lost_a_row_between_its_bounds_is_not_compacted(quick: World) -> None:
    """Its cursors and hours are within what the table says, so that no reader takes it for another file."""
    quick.land_hours(2)
    quick.land_more(40)
    quick.emulator.admin.advance(7200)
    quick.put(5)
    quick.land()
    head = quick.table.metadata.current_snapshot_id
    look = partial(look_at, quick.lake, quick.logstore.table)
    hour = plan_compaction(look())[0]
    path = max((Path(t.file.file_path.removeprefix("file://")) for t in hour.tasks), key=rows_of)
    rows = pq.read_table(path)
    pq.write_table(rows.take([n for n in range(rows.num_rows) if n != rows.num_rows // 2]), path)

    with pytest.raises(LedgerBroken, match=f"hold {hour.rows - 1} rows, the table says {hour.rows}"):
        (only,) = compactions(look, [hour])
        execute(quick.lake, only.planned)

    assert quick.table.metadata.current_snapshot_id == head


def rows_of(path: Path) -> int:
    """How many rows a Parquet file has."""
    return int(pq.read_metadata(path).num_rows)
