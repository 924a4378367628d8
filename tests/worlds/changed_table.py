"""A table that somebody else changed: other engines, people, a damage."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.table.update import AddSnapshotUpdate

from pipelines.landing.commit import authored, publish
from pipelines.landing.ledger.codec import LEDGER_PREFIX, TAG
from pipelines.landing.ledger.state import facts, read_state
from pipelines.landing.ledger.values import Deed, Operation
from sls_io.values.window import HOUR_S
from tests.worlds.foreign_deletes import mark_deleted
from tests.worlds.one_logstore import HOUR0_S, World


def compact(world: World) -> None:
    """Rewrite all rows into new files, as a compaction does, by PyIceberg."""
    table = world.table
    rows = table.scan().to_arrow()
    table.overwrite(rows)


def roll_back(world: World) -> None:
    """Put `main` one snapshot back, as a person would."""
    table = world.table
    head = table.current_snapshot()
    assert head is not None and head.parent_snapshot_id is not None
    table.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()


def append_by_hand(world: World) -> None:
    """One row that no landing brought."""
    table = world.table
    schema = table.schema().as_arrow()
    values: dict[str, Callable[[pa.DataType], object]] = {
        "__origin__": lambda kind: "someone",
        "__receive_hour__": lambda kind: HOUR0_S * 1_000_000,
    }
    arrays = [
        pa.array([values[f.name](f.type) if f.name in values else (0 if not f.nullable else None)], f.type)
        for f in schema
    ]
    table.append(pa.Table.from_arrays(arrays, schema=schema))


def invent(world: World) -> None:
    """Append a row of the logstore that no landing brought, and write the row n = 0 anew."""
    table = world.table
    mine = table.scan().to_arrow()
    place = mine.schema.get_field_index("__index__")
    row = mine.slice(0, 1)
    table.append(
        row.set_column(place, mine.schema.field(place), pa.array([99], mine.schema.field(place).type))
    )
    table.delete(EqualTo(term="n", value=0))
    table.append(mine.filter(pc.equal(mine["n"], 0)))


def damage(world: World, text: str = "1;9;damaged", key: str = "") -> None:
    """A landing-shaped commit whose text `key` is broken, that of the ledger without one, tagged like one."""
    table = world.table
    origin = next(iter(read_state(table).ledgers))
    state = facts(table)
    head = table.current_snapshot()
    assert head is not None
    change = authored.Change(head, state.ledgers, state.adopted, Deed(Operation.OTHER, "test"))
    request = authored.build(table, state, change, now_ms=state.last_updated_ms)
    added = request.updates[0]
    assert isinstance(added, AddSnapshotUpdate) and added.snapshot.summary is not None
    added.snapshot.summary[key or LEDGER_PREFIX + origin] = text
    assert publish.send(table.catalog, table, request, deadline_s=30) is None


def deleted_by_hand(world: World) -> None:
    world.table.delete(And(GreaterThanOrEqual(term="n", value=25), LessThan(term="n", value=35)))


def deleted_by_hand_and_landed_on(world: World) -> None:
    deleted_by_hand(world)
    world.land_more(20, pass_s=HOUR_S)


def marked(world: World) -> None:
    assert mark_deleted(world, lambda n: 25 <= n < 35) == 10


def marked_and_landed_on(world: World) -> None:
    marked(world)
    world.land_more(20, pass_s=HOUR_S)


def manifest_gone(world: World) -> None:
    newest = world.table.current_snapshot()
    assert newest is not None
    mine = [m for m in newest.manifests(world.table.io) if m.added_snapshot_id == newest.snapshot_id]
    Path(mine[0].manifest_path.removeprefix("file://")).unlink()


def list_cut(world: World) -> None:
    newest = world.table.current_snapshot()
    assert newest is not None
    path = Path(newest.manifest_list.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:100])


def tag_deleted(world: World) -> None:
    world.table.manage_snapshots().remove_tag(TAG).commit()


def expire_all(world: World) -> None:
    """Only the newest snapshot stays, as somebody's `expire_snapshots` leaves it."""
    table = world.table
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    table.maintenance.expire_snapshots().by_ids(
        [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in kept]
    ).commit()
