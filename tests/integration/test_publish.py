"""What one try asks of the catalog: every requirement, one snapshot, the tag with it."""

from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from pipelines.landing.commit import publish
from pipelines.landing.ledger import codec
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.state import read_state
from pipelines.landing.ledger.values import Delta
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.lake import Lake
from sls_io.planning.values import LedgerChange
from sls_io.values.claim import Ledger
from sls_io.values.window import Cursor
from tests.worlds.one_logstore import make_lake

NAME = "bronze.logs"
ORIGIN = publish.RegisteredOrigin("logs-00000000", "here/demo/logs@1")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A catalog with one empty table of ours."""
    lake = make_lake(tmp_path / "lake")
    lake.ensure(NAME, Contract.from_columns({"n": "long"}))
    return lake


def load(lake: Lake) -> Table:
    """The table as it is now."""
    table = lake.load(NAME)
    assert table is not None
    return table


def first_start(
    table: Table,
    *,
    now_ms: int = 1_790_000_000_000,
    schema: Schema | None = None,
    origin: publish.RegisteredOrigin = ORIGIN,
) -> publish.Request:
    """A try that starts the history of one shard."""
    state = read_state(table)
    delta = Delta(origin.id, live=True, change=LedgerChange(starts={0: Cursor(5)}), first=True)
    return publish.build(
        table,
        state,
        delta=delta,
        ledger=merge(Ledger(origin.id), delta).ledger,
        files=[],
        attempt="a" * 32,
        origin=origin,
        now_ms=now_ms,
        schema=schema,
    )


def send(table: Table, request: publish.Request) -> publish.Refusal | None:
    """Send it as a landing does."""
    return publish.send(table.catalog, table, request, deadline_s=30.0)


def test_a_first_try_requires_the_table_its_empty_main_its_schema_and_its_spec(lake: Lake) -> None:
    table = load(lake)

    request = first_start(table)

    metadata = table.metadata
    assert sorted(r.model_dump_json() for r in request.requirements) == sorted(
        r.model_dump_json()
        for r in (
            AssertTableUUID(uuid=metadata.table_uuid),
            AssertRefSnapshotId(ref="main", snapshot_id=None),
            AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
            AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
        )
    )


def test_a_later_try_requires_main_and_the_tag_where_they_were_read(lake: Lake) -> None:
    first = first_start(load(lake))
    assert send(load(lake), first) is None
    table = load(lake)
    with table.transaction() as transaction:
        transaction.append(table.schema().as_arrow().empty_table())
    table = load(lake)

    request = first_start(table, origin=publish.RegisteredOrigin("other-00000000", "here/demo/other@1"))

    refs = {r.ref: r.snapshot_id for r in request.requirements if isinstance(r, AssertRefSnapshotId)}
    assert refs == {"main": table.metadata.current_snapshot_id, codec.TAG: first.snapshot_id}
    assert refs["main"] != first.snapshot_id
    kinds = [type(r) for r in request.requirements]
    assert (
        kinds.count(AssertTableUUID)
        == kinds.count(AssertCurrentSchemaId)
        == kinds.count(AssertDefaultSpecId)
        == 1
    )


def test_a_try_adds_one_snapshot_moves_main_and_the_tag_to_it_and_registers_the_origin(lake: Lake) -> None:
    request = first_start(load(lake))

    added = [u.snapshot for u in request.updates if isinstance(u, AddSnapshotUpdate)]
    assert [s.snapshot_id for s in added] == [request.snapshot_id]
    moved = {u.ref_name: u for u in request.updates if isinstance(u, SetSnapshotRefUpdate)}
    assert {name: u.snapshot_id for name, u in moved.items()} == {
        "main": request.snapshot_id,
        codec.TAG: request.snapshot_id,
    }
    assert moved[codec.TAG].max_ref_age_ms == 2**63 - 1, "no expiry may take the tag"
    properties = [u.updates for u in request.updates if isinstance(u, SetPropertiesUpdate)]
    assert properties == [{codec.ORIGIN_PROPERTY_PREFIX + ORIGIN.id: ORIGIN.text}]


def test_a_new_schema_is_added_and_made_current_before_the_snapshot(lake: Lake) -> None:
    table = load(lake)
    schema = Contract.from_columns({"n": "long", "path": "string"}).evolve(table.schema())
    assert schema is not None

    request = first_start(table, schema=schema)

    kinds: list[type] = [type(u) for u in request.updates]
    added: list[type] = [AddSchemaUpdate, SetCurrentSchemaUpdate]
    assert kinds[:2] == added
    assert AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id) in request.requirements
    assert send(table, request) is None
    after = load(lake)
    snapshot = after.current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == after.schema().schema_id
    assert "path" in after.schema().column_names


@pytest.mark.parametrize("change", ["append", "tag", "schema", "spec", "again"])
def test_a_try_is_refused_once_what_it_was_checked_against_has_changed(lake: Lake, change: str) -> None:
    assert send(load(lake), first_start(load(lake))) is None
    stale = load(lake)
    request = first_start(stale, origin=publish.RegisteredOrigin("other-00000000", "here/demo/other@1"))
    table = load(lake)
    if change == "append":
        table.append(table.schema().as_arrow().empty_table())
    elif change == "tag":
        table.manage_snapshots().remove_tag(codec.TAG).commit()
    elif change == "schema":
        with table.update_schema() as update:
            update.add_column("more", table.schema().find_type("__topic__"))
    elif change == "spec":
        with table.update_spec() as spec:
            spec.add_field("__shard__", "identity", "shard")
    else:
        assert send(stale, request) is None
    head = load(lake).metadata.current_snapshot_id

    assert send(stale, request) == publish.Refusal(CommitFailedException.__name__)
    assert load(lake).metadata.current_snapshot_id == head


@pytest.mark.fault("4a.5a.late")
def test_a_dropped_and_remade_table_refuses_a_try_for_the_old_one(lake: Lake) -> None:
    stale = load(lake)
    request = first_start(stale)
    stale.catalog.drop_table(NAME)
    lake.create(NAME, Contract.from_columns({"n": "long"}))

    assert send(stale, request) == publish.Refusal(CommitFailedException.__name__)
    assert load(lake).metadata.current_snapshot_id is None


@pytest.mark.fault("4a.5a.clock")
def test_a_snapshot_is_younger_than_the_one_before_even_when_somebodys_clock_was_right_in_between(
    lake: Lake,
) -> None:
    """Spark refuses a table whose snapshots are not in order of time, or that is older than they are."""
    assert send(load(lake), first_start(load(lake), now_ms=2_990_000_000_000)) is None
    with load(lake).transaction() as transaction:
        transaction.set_properties(somebody="was here")

    late = publish.RegisteredOrigin("other-00000000", "here/demo/other@1")
    assert send(load(lake), first_start(load(lake), now_ms=1_000, origin=late)) is None

    metadata = load(lake).metadata
    times = [entry.timestamp_ms for entry in metadata.snapshot_log]
    assert times == sorted(set(times)) and len(times) == 2
    assert metadata.last_updated_ms == times[-1]
