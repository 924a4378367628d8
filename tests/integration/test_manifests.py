"""Manifests and plans are read as by PyIceberg, with what was worked out for the first of their kind."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.transforms import IdentityTransform

from pipelines.landing.ledger.reading import manifests_of, tasks_of
from sls_io.values.window import HOUR_S
from tests.worlds.foreign_deletes import mark_deleted
from tests.worlds.one_logstore import HOUR0_S, World

BEGIN, LATER, END = (datetime.fromtimestamp(HOUR0_S + s, UTC).isoformat() for s in (0, 1, HOUR_S))
OF_HOUR = f"__receive_hour__ >= '{BEGIN}' and __receive_hour__ < '{END}'"
FILTERS = {
    "all": "__origin__ is not null",
    "an hour": OF_HOUR,
    "from within an hour on": f"__receive_hour__ > '{LATER}'",
    "a shard of an hour": f"__shard__ = 1 and {OF_HOUR}",
    "values, or another hour": f"n in (1, 2, 3) or not ({OF_HOUR})",
}
"""With two partitionings: by origin and hour, and by shard, too."""


@pytest.fixture
def table(world: World) -> Table:
    """Files of four hours and two partitionings, and row-level deletes of another engine on some of them."""
    world.land_hours(2)
    mark_deleted(world, lambda n: n % 3 == 0)
    with world.table.update_spec() as update:
        update.add_field("__shard__", IdentityTransform(), "shard")
    world.land_hours(2)
    return world.table


def told(task: FileScanTask) -> tuple[Any, ...]:
    return (
        task.file.file_path,
        task.file.spec_id,
        str(task.residual),
        sorted(file.file_path for file in task.delete_files),
    )


@pytest.mark.parametrize("wanted", FILTERS.values(), ids=FILTERS)
def test_a_plan_is_that_of_pyiceberg(table: Table, wanted: str) -> None:
    scan = table.scan(row_filter=wanted)
    ours, theirs = tasks_of(table, scan), list(scan.plan_files())
    assert [told(task) for task in ours] == [told(task) for task in theirs] != []


def test_what_is_left_of_a_filter_is_worked_out_once_a_partition(table: Table) -> None:
    tasks = tasks_of(table, table.scan(row_filter="n != 1 or status = 7"))
    kinds = {(task.file.spec_id, str(task.file.partition)) for task in tasks}
    assert len({id(task.residual) for task in tasks}) == len(kinds) < len(tasks)


def test_manifests_and_their_entries_are_those_of_pyiceberg(table: Table) -> None:
    table.delete(f"__shard__ = 1 and {OF_HOUR}")
    table = table.refresh()
    statuses = set[ManifestEntryStatus]()
    for snapshot in table.metadata.snapshots:
        ours, theirs = manifests_of(table, snapshot), snapshot.manifests(table.io)
        assert list(map(fields, ours)) == list(map(fields, theirs))
        for one, other in zip(ours, theirs, strict=True):
            for live in (True, False):
                entries = one.fetch_manifest_entry(table.io, discard_deleted=live)
                assert entries == other.fetch_manifest_entry(table.io, discard_deleted=live)
                statuses |= {entry.status for entry in entries}
    assert statuses == set(ManifestEntryStatus)


def fields(manifest: ManifestFile) -> str:
    """Two are called the same where their paths are, so what they say is compared."""
    return repr(manifest).partition("[")[2]
