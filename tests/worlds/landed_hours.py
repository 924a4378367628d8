"""Receive hours that have landed and are over: their files, and how they get lost."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.landing.hours import hour_text
from sls_io.values.window import HOUR_S
from tests.worlds.one_logstore import PROJECT, World


def hours(world: World) -> list[int]:
    """The receive hours that have landed, oldest first."""
    return sorted({w.window.hour for _, windows in world.landings() for w in windows})


def data_of(world: World, hour: int) -> Path:
    """A data file of a receive hour."""
    return next(Path(path) for path in world.published() if f"/{hour}/" in path)


def files_of(world: World, hour: int) -> list[Path]:
    """The data files of a receive hour."""
    return [Path(path) for path in world.published() if f"/{hour}/" in path]


def numbers(world: World) -> list[int]:
    """`n` of all rows."""
    return sorted(row["n"] for row in world.table_rows())


def lose(world: World, hour: int) -> None:
    """All files of an hour are removed from the storage."""
    for path in files_of(world, hour):
        path.unlink()


def an_hour_later(rows: pa.Table) -> pa.Table:
    """The same rows, labelled as if they had been received an hour later."""
    place = rows.schema.get_field_index("__receive_hour__")
    field = rows.schema.field(place)
    moved = pc.add(rows.column(place), pa.scalar(HOUR_S * 1_000_000, pa.duration("us")))
    return rows.set_column(place, field, moved.cast(field.type))


def take_all_hours(world: World) -> None:
    """Retention takes what has landed so far; what comes later stays."""
    name = world.logstore.service.logstore
    with world.client as client:
        world.emulator.admin.retain(PROJECT, name, before_s=int(client.now_s()))


def first_hour(world: World) -> str:
    """The first receive hour that has landed, as people write it."""
    return hour_text(min(w.window.hour for _, windows in world.landings() for w in windows))
