"""Columns are ids: what other hands make of a name is refused, and the values come back."""

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.types import BinaryType, IntegerType, LongType, MapType, StringType

from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.table import commands
from pipelines.landing.table.commands import shown
from sls_io.values.errors import ConfigError, LedgerBroken
from sls_io.values.window import HOUR_S
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World

RESTORE = ("table", "columns", "--restore")
TEXTS = MapType(1, StringType(), 2, StringType(), value_required=False)


@pytest.fixture
def world(calm: World) -> World:
    """Two receive hours of 20 rows, and 20 logs to come."""
    return calm.land_hours(2, more=20)


def change(world: World, *steps: Callable[[Any], object]) -> None:
    """Changes of the schema, a commit each, as another engine makes them."""
    for step in steps:
        with world.table.update_schema(allow_incompatible_changes=True) as update:
            step(update)


def rename(old: str, new: str) -> Callable[[Any], object]:
    return lambda update: update.rename_column(old, new)


def begun_anew(world: World) -> None:
    """The last three columns dropped, and added with the same names and types."""
    change(
        world,
        lambda u: [u.delete_column(name) for name in ("__error__", "__raw__", "__rest__")],
        lambda u: (
            u.add_column("__rest__", TEXTS),
            u.add_column("__error__", StringType()),
            u.add_column("__raw__", BinaryType()),
        ),
    )


def swapped(world: World) -> None:
    """Topic and source under each other's name."""
    change(world, rename("__topic__", "t"), rename("__source__", "__topic__"), rename("t", "__source__"))


def dropped(world: World) -> None:
    change(world, lambda u: u.delete_column("__raw__"))


def renamed(world: World) -> None:
    change(world, rename("__shard__", "shard"))


def rows(world: World) -> list[dict[str, object]]:
    """What readers see, without what is another engine's own, in the order of the identity."""
    names = ("__shard__", "__cursor__", "__index__", "__topic__", "__source__", "__rest__", "n", "status")
    found = [{name: row.get(name) for name in names} for row in world.table_rows()]
    return sorted(found, key=lambda row: [str(row[name]) for name in names[:3]])


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (begun_anew, "'__rest__' of table .* was dropped and added anew"),
        (swapped, "'__topic__' of table .* was renamed to '__source__'"),
        (dropped, "'__raw__' of table .* was dropped;"),
        (renamed, "'__shard__' of table .* was renamed to 'shard'"),
    ],
)
def test_a_column_of_ours_under_another_id_is_refused_and_comes_back_with_its_values(
    world: World, command: Command, made: Callable[[World], None], says: str
) -> None:
    before, fields = rows(world), {field.name: field for field in world.table.schema().fields}
    made(world)

    with pytest.raises(LedgerBroken, match=says) as refused:
        world.land()

    assert refused.value.cures == (commands.RESTORE,)
    assert not command("verify")["ok"] and command("table", "columns")["code"] != 0
    assert command(*RESTORE)["committed"] is None
    with pytest.raises(LedgerBroken, match=says):
        world.land()
    done = command(*shown(commands.RESTORE).split()[1:])
    assert done["code"] == 0 and done["committed"], done
    now = {field.name: field for field in world.table.schema().fields}
    assert {name: now[name] for name in fields} == fields
    assert rows(world) == before
    world.assert_next_lands(20)


def n_dropped(world: World) -> None:
    change(world, lambda u: u.delete_column("n"))


def n_renamed(world: World) -> None:
    change(world, rename("n", "m"))


def n_begun_anew(world: World) -> None:
    change(world, lambda u: u.delete_column("n"), lambda u: u.add_column("n", LongType()))


def n_swapped(world: World) -> None:
    change(world, rename("n", "m"), lambda u: u.add_column("n", LongType()))


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (n_dropped, "was dropped"),
        (n_renamed, "was renamed to 'm'"),
        (n_begun_anew, "was dropped and added anew"),
        (n_swapped, "was renamed to 'm'"),
    ],
)
def test_a_declared_column_is_not_begun_anew_in_silence_and_comes_back_with_its_values(
    world: World, command: Command, made: Callable[[World], None], says: str
) -> None:
    before = rows(world)
    made(world)

    with pytest.raises(ConfigError, match=f"'n' {says} by other hands"):
        world.land()

    assert any(says in note for note in command("verify")["notes"])
    shown = command("table", "columns")["columns"]
    assert says in next(column["note"] for column in shown if column["name"] == "n")
    assert says in command("table", "columns", "--rename", "status=code", "--execute")["error"]
    with pytest.raises(ConfigError, match=says):
        Maintainer(world.logstore, world.lake).execute(["compact"])
    done = command(*RESTORE, "--execute")
    assert done["code"] == 0 and done["committed"], done
    assert rows(world) == before
    assert world.land().rows == 20
    assert {row["n"] for row in rows(world)} == set(range(60))
    world.assert_whole()


@pytest.mark.parametrize("made", [n_dropped, n_begun_anew])
def test_a_commit_of_another_verb_does_not_bury_what_was_done_to_a_column(
    world: World, command: Command, made: Callable[[World], None]
) -> None:
    """The tag's own schema has another column of the name, or none; the landings before it have the first."""
    made(world)
    assert command("table", "maintain", "--only", "manifests", "--only", "metadata", "--execute")["code"] == 0
    head = world.table.current_snapshot()
    assert head is not None and head.schema_id == world.table.schema().schema_id
    with pytest.raises(ConfigError, match="'n' was dropped"):
        world.land()
    assert command(*RESTORE, "--execute")["committed"]
    assert {row["n"] for row in rows(world)} == set(range(40))


def test_a_column_that_is_declared_no_more_may_be_dropped_or_renamed(world: World) -> None:
    n_renamed(world)
    world.logstore = world.changed(columns={"status": "int", "m": "long"})
    assert world.land().rows == 20
    change(world, lambda u: u.delete_column("status"))
    world.logstore = world.changed(columns={"m": "long"})
    assert world.land_more(20, pass_s=HOUR_S).rows == 20
    world.assert_proved()
    assert {row["m"] for row in world.table_rows()} == {*range(40), None}


def test_columns_of_other_engines_stay_when_ours_are_put_back(world: World, command: Command) -> None:
    """Also one that took the name of ours, and may have been filled since."""
    change(world, lambda u: u.add_column("remark", StringType()))
    n_begun_anew(world)
    change(world, lambda u: u.delete_column("status"), lambda u: u.add_column("status", IntegerType()))
    own = {field.name: field.field_id for field in world.table.schema().fields}

    done = command(*RESTORE, "--execute")

    assert done["code"] == 0, done
    ids = {field.name: field.field_id for field in world.table.schema().fields}
    assert ids["remark"] == own["remark"]
    assert (ids[f"n_{own['n']}"], ids[f"status_{own['status']}"]) == (own["n"], own["status"])
    assert world.land().rows == 20
    assert command(*RESTORE, "--execute")["committed"] is None
    world.assert_whole()


def test_a_column_of_ours_that_was_made_optional_is_required_again(world: World, command: Command) -> None:
    """Nothing of it has another name or type, so no line says what changes."""
    change(world, lambda u: u.make_column_optional("__shard__"))
    done = command(*RESTORE, "--execute")
    assert done["executed"] and world.table.schema().find_field("__shard__").required
    assert command(*RESTORE, "--execute")["committed"] is None
