"""Rows of databases that somebody wrote who is not us: each is ours by its values, or is named and stops."""

import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, String, create_engine, text
from sqlalchemy.pool import NullPool

from sls_io.checkpoints.sql_guard import CHECKPOINTS, READERS
from sls_io.checkpoints.sql_table import SqlTable
from sls_io.coordination.lease_tables import INSTANCES, LEASES
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost, ConfigError, SlsError, StoreBroken
from sls_io.values.settings import Group
from sls_io.values.window import Cursor
from tests.contract.lease_databases import Databases
from tests.unit.lease_world import Waits

OF, READER, KEPT = "access_logs-3f9c01aa", "dev", 500
TABLES = (LEASES, INSTANCES, CHECKPOINTS, READERS)
CELLS = [column for table in TABLES for column in table.columns]
named = pytest.mark.parametrize("column", CELLS, ids=lambda column: f"{column.table.name}-{column.name}")
EDGES = (-(2**63), -1, 0, 1, 2**31, 2**53, 2**62 + 1, 2**63 - 1)
HOSTILE = (
    st.none()
    | st.sampled_from(EDGES)
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([math.inf, -math.inf, math.nan, 1e300, -0.0, 1.5])
    | st.sampled_from(["", "zz", "12", "1e400", "a\0b", "\x1b[2J", "ä" * 300])
    | st.sampled_from(["[]", '{"0": 5}', '{"0": ["a", {}]}', "[" * 5000])
    | st.binary(max_size=4)
)


class Impatient(ManualClock):
    """Nobody waits."""

    def sleep(self, duration_s: float) -> None:
        raise Waits


def worker(address: str) -> SqlLease:
    """A worker of the one shard, as a process starts it."""
    group = Group(name="g", holder="me", timeout_s=600, heartbeat_s=60)
    return SqlLease.at(address, group, lambda: {0: 1}, signature="s", clock=Impatient(now=1_790_000_000))


def reader(address: str) -> SqlTable:
    """The checkpoint store, as a process opens it."""
    return SqlTable(address, of=OF, reader=READER)


def filled(address: str) -> tuple[SqlLease, SqlTable]:
    """A worker and a reader that go on, with a position in the rows of each."""
    leases, store = worker(address), reader(address)
    leases.claim()
    assert leases.checkpoint(0, Cursor(KEPT)) == "sent"
    store.write({0: Cursor(KEPT)})
    return leases, store


def verbs(leases: SqlLease, store: SqlTable) -> tuple[Callable[[], object], ...]:
    """All that is asked of the rows."""
    return (
        leases.look,
        leases.claim,
        leases.renew,
        lambda: leases.checkpoint(0, Cursor(KEPT + 1)),
        leases.checkpoints,
        leases.release,
        store.read,
        lambda: store.write({0: Cursor(KEPT + 1)}),
        lambda: store.place({0: Cursor(1)}),
        lambda: store.thaw({0: Cursor(1)}),
        lambda: store.forget([0]),
    )


def said_by(leases: SqlLease, store: SqlTable, column: Column[object]) -> list[SlsError]:
    """What the verbs say of the strange rows; anything but an error that names the column fails."""
    said: list[SlsError] = []
    for verb in verbs(leases, store):
        try:
            if verb() == "ahead":
                further = leases.checkpoints()[0]
                assert further is not None and further > KEPT + 1, "a save that was not, and nobody is told"
        except (StoreBroken, ConfigError) as error:
            said.append(error)
            assert column.table.name in str(error) and "\0" not in str(error) and "\x1b" not in str(error)
        except (ClaimLost, Waits):
            pass
    return said


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables filled."""
    path = tmp_path_factory.mktemp("rows") / "rows.db"
    filled(f"sqlite:///{path}")
    return path


@named
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(value=HOSTILE, text_of_bytes=st.booleans())
def test_any_value_in_any_column_is_ours_or_is_named(
    template: Path, tmp_path: Path, column: Column[object], value: object, text_of_bytes: bool
) -> None:
    path = Path(shutil.copyfile(template, tmp_path / "rows.db"))
    leases, store = worker(f"sqlite:///{path}"), reader(f"sqlite:///{path}")
    with closing(sqlite3.connect(path)) as connection:
        cast = "CAST(? AS TEXT)" if text_of_bytes and isinstance(value, bytes) else "?"
        # Nothing keeps a cell from being empty.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
        connection.execute("PRAGMA schema_version = 9999")
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE {column.table.name} SET {column.name} = {cast}", (value,))
        connection.commit()

    said_by(leases, store, column)


STRANGE: dict[str, dict[str, tuple[str, str]]] = {
    "postgres": {
        "text": ("TEXT", "'zz'"),
        "number": ("DOUBLE PRECISION", "'NaN'"),
        "bytes": ("BYTEA", r"'\xff'"),
        "endless": ("NUMERIC", "1e40"),
        "moment": ("TIMESTAMP", "'infinity'"),
    },
    "mariadb": {
        "text": ("VARCHAR(64)", "'zz'"),
        "number": ("DOUBLE", "1e300"),
        "bytes": ("VARBINARY(64)", "x'ff'"),
        "endless": ("BIGINT UNSIGNED", "18446744073709551615"),
        "moment": ("DATETIME", "'2026-01-01'"),
    },
}


def altered(kind: str, column: Column[object], to: str, value: str) -> tuple[str, ...]:
    """Make the column another type, with this in each row."""
    table, name = column.table.name, column.name
    if kind == "mariadb":
        return (
            f"ALTER TABLE {table} DROP COLUMN {name}",
            f"ALTER TABLE {table} ADD COLUMN {name} {to}",
            f"UPDATE {table} SET {name} = {value}",
        )
    return (
        f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {to} USING {value}::{to}",
        f"UPDATE {table} SET {name} = {value}::{to}",
    )


PLAIN = [column for column in CELLS if not column.primary_key and column is not INSTANCES.c.create_time]
"""What statements read, each for itself: since when an instance is there, people alone ask."""


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("turn", [0, 2])
def test_a_column_that_was_altered_is_named(kind: str, turn: int, databases: Databases) -> None:
    for place, column in enumerate(PLAIN, turn):
        what = [*STRANGE[kind]][place % len(STRANGE[kind])]
        fits = "text" if isinstance(column.type, String) else "number" if column.name == "saved_s" else ""
        to, value = STRANGE[kind]["bytes" if what == fits else what]
        address = databases.new(kind)
        leases, store = filled(address)
        *spoiled, again = altered(kind, column, to, value)
        by_hand(address, *spoiled)
        # Of those that go on, and of those that start. Whoever lets go puts a stamp of its own there.
        for processes in ((leases, store), (worker(address), reader(address))):
            by_hand(address, again)
            said = said_by(*processes, column)
            assert said and any(column.name in str(error) for error in said), (column.name, what)


@pytest.mark.parametrize("kind", STRANGE)
def test_a_cell_that_must_not_be_empty_and_is_is_named(kind: str, databases: Databases) -> None:
    for column in PLAIN:
        if column.nullable:
            continue
        address = databases.new(kind)
        leases, store = filled(address)
        table, name = column.table.name, column.name
        loosened = f"ALTER TABLE {table} ALTER COLUMN {name} DROP NOT NULL"
        if kind == "mariadb":
            to = column.type.compile(dialect=create_engine(address).dialect)
            loosened = f"ALTER TABLE {table} MODIFY COLUMN {name} {to} NULL"
        by_hand(address, loosened)
        for processes in ((leases, store), (worker(address), reader(address))):
            by_hand(address, f"UPDATE {table} SET {name} = NULL")
            said = said_by(*processes, column)
            assert any(isinstance(one, StoreBroken) and f"{name} of" in str(one) for one in said), name


@pytest.mark.parametrize("kind", ["sqlite", *STRANGE])
def test_a_moment_that_no_clock_has_is_named(kind: str, databases: Databases) -> None:
    for column in (LEASES.c.update_time, INSTANCES.c.update_time):
        for value in (-1, 2**62, 2**63 - 1):
            address = databases.new(kind)
            leases, store = filled(address)
            for processes in ((leases, store), (worker(address), reader(address))):
                by_hand(address, f"UPDATE {column.table.name} SET {column.name} = {value}")
                assert any(column.name in str(error) for error in said_by(*processes, column)), value


def test_a_checkpoint_that_is_a_text_is_told_to_who_saves(databases: Databases) -> None:
    address = databases.new("sqlite")
    leases, _ = filled(address)
    by_hand(address, f"UPDATE {LEASES.name} SET check_point = 'far ahead'")
    with pytest.raises(StoreBroken, match=f"check_point of the row shard_id = 0 in the table {LEASES.name}"):
        leases.checkpoint(0, Cursor(KEPT + 1))


def test_the_cure_of_a_strange_lease_makes_its_row_anew(databases: Databases) -> None:
    address = databases.new("sqlite")
    filled(address)
    by_hand(address, f"UPDATE {LEASES.name} SET lease_owner = x'ff'")
    with pytest.raises(StoreBroken, match="or delete that row"):
        worker(address).claim()
    by_hand(address, f"DELETE FROM {LEASES.name}")
    again = worker(address)
    assert again.claim().shards == {0} and again.checkpoints() == {0: None}


def by_hand(address: str, *statements: str) -> None:
    """What a person does in the database."""
    engine = create_engine(address, poolclass=NullPool)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
