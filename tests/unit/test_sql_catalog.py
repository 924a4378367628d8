"""The SQL catalog that shares a table's past between copies: as PyIceberg's, and isolated like it."""

from copy import deepcopy
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from pipelines.landing.table.sql_catalog import (
    FrozenEntries,
    SharingSqlCatalog,
    UnreadableMetadata,
    server_address,
)

NAME = "lake.logs"
ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int64())})
SNAPSHOTS = 4


@pytest.fixture
def catalogs(tmp_path: Path) -> tuple[SqlCatalog, SharingSqlCatalog]:
    """PyIceberg's and ours on one database, with a table of a few snapshots that ours committed."""
    settings = {"uri": f"sqlite:///{tmp_path}/catalog.sqlite", "warehouse": f"file://{tmp_path}/warehouse"}
    plain, sharing = SqlCatalog("lake", **settings), SharingSqlCatalog("lake", **settings)
    sharing.create_namespace("lake")
    table = sharing.create_table(NAME, ROWS.schema)
    for _ in range(SNAPSHOTS):
        table.append(ROWS)
    return plain, sharing


def dump(table: Table) -> str:
    return table.metadata.model_dump_json()


def test_both_read_and_write_the_same(catalogs: tuple[SqlCatalog, SharingSqlCatalog]) -> None:
    plain, sharing = catalogs
    assert dump(plain.load_table(NAME)) == dump(sharing.load_table(NAME))
    plain.load_table(NAME).append(ROWS)
    sharing.load_table(NAME).append(ROWS)
    assert dump(plain.load_table(NAME)) == dump(sharing.load_table(NAME))
    assert sharing.load_table(NAME).scan().to_arrow().num_rows == (SNAPSHOTS + 2) * 3


def test_what_was_loaded_before_a_commit_stays_as_it_was(
    catalogs: tuple[SqlCatalog, SharingSqlCatalog],
) -> None:
    _, sharing = catalogs
    before, changed = sharing.load_table(NAME), sharing.load_table(NAME)
    text = dump(before)
    changed.append(ROWS)
    assert dump(before) == text
    assert (len(before.metadata.snapshots), len(changed.metadata.snapshots)) == (SNAPSHOTS, SNAPSHOTS + 1)


def test_a_commit_reads_no_metadata_that_was_read_last_and_one_that_another_wrote(
    catalogs: tuple[SqlCatalog, SharingSqlCatalog],
) -> None:
    """A file that is away tells whether it is read: a load fails, a commit on what was loaded does not."""
    plain, sharing = catalogs
    known = sharing.load_table(NAME)
    path = Path(known.metadata_location.removeprefix("file://"))
    away = path.rename(path.with_suffix(".away"))
    with pytest.raises(UnreadableMetadata):
        sharing.load_table(NAME)
    known.append(ROWS)
    away.rename(path)
    assert len(sharing.load_table(NAME).metadata.snapshots) == SNAPSHOTS + 1

    stale = sharing.load_table(NAME)
    plain.load_table(NAME).append(ROWS)
    requirements = (AssertRefSnapshotId(ref="main", snapshot_id=stale.metadata.current_snapshot_id),)
    changes = (SetPropertiesUpdate(updates={"a": "b"}),)
    with pytest.raises(CommitFailedException):
        sharing.commit_table(stale, requirements, changes)
    sharing.commit_table(stale, (), changes)
    after = sharing.load_table(NAME)
    assert after.properties["a"] == "b" and len(after.metadata.snapshots) == SNAPSHOTS + 2


def test_snapshots_are_removed_from_the_table_and_not_from_a_copy(
    catalogs: tuple[SqlCatalog, SharingSqlCatalog],
) -> None:
    _, sharing = catalogs
    before, changed = sharing.load_table(NAME), sharing.load_table(NAME)
    first = before.metadata.snapshots[0].snapshot_id
    changed.maintenance.expire_snapshots().by_id(first).commit()
    assert before.snapshot_by_id(first) is not None
    assert sharing.load_table(NAME).snapshot_by_id(first) is None
    assert len(sharing.load_table(NAME).metadata.snapshots) == SNAPSHOTS - 1


def test_a_deep_copy_holds_the_same_snapshots_in_a_list_of_its_own(
    catalogs: tuple[SqlCatalog, SharingSqlCatalog],
) -> None:
    plain, sharing = catalogs
    shared = sharing.load_table(NAME).metadata
    longer = shared.model_copy(update={"snapshots": shared.snapshots.__add__([shared.snapshots[0]])})
    for known in (shared, longer):
        copied = deepcopy(known)
        assert isinstance(copied.snapshots, FrozenEntries) and copied.snapshots is not known.snapshots
        assert all(a is b for a, b in zip(copied.snapshots, known.snapshots, strict=True))
    whole = plain.load_table(NAME).metadata
    assert deepcopy(whole).snapshots[0] is not whole.snapshots[0], "what PyIceberg does by itself"


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (
            "mysql://me:p%40ss@db:3307/lake?charset=utf8",
            "mysql+pymysql://me:p%40ss@db:3307/lake?charset=utf8",
        ),
        ("mariadb://db/lake", "mariadb+pymysql://db/lake"),
        ("mysql+mysqldb://db/lake", "mysql+mysqldb://db/lake"),
        ("postgresql://db/lake", "postgresql+psycopg2://db/lake"),
        ("other://db/lake", "other://db/lake"),
        ("no address", "no address"),
    ],
)
def test_a_server_is_reached_by_our_driver_where_its_address_names_none(said: str, taken: str) -> None:
    assert server_address(said) == taken
