"""The two tables of leases, and how a database comes to have them.

Alembic's migrations make and change them (`migrations/versions`, one file a step); what stands here is how
they are now, for the statements. Which step a database is at stands in `loghub_client_version`, a table of
its own: the same database may hold what others migrate, Dagster's tables for one.

Texts compare byte by byte in every database: MySQL would take `Lake` and `lake` for one group.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import BigInteger, Column, Connection, Integer, MetaData, String, Table, inspect, text
from sqlalchemy.dialects import mysql

from sls_io.coordination.cells import MOMENT_MS_MAX, MOST, unlike
from sls_io.coordination.database import Database
from sls_io.values.errors import ConfigError, StoreBroken, printable

VERSION_TABLE = "loghub_client_version"
STEPS = ("0001", "0002", "0003")
"""The steps of the migrations; the statements need the last one."""
_ADDED = {"loghub_client_worker_instance": ("update_time",), "loghub_client_shard_lease": ("weight",)}
"""What tables before the last step may lack."""
_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 5_106_841_523
"""Any number, the same in every release: who migrates holds it."""
_MIGRATE_DEADLINE_S = 60.0
NAME_CHARS_MAX = 128
SIGNATURE_CHARS_MAX = 255


def name_type(chars_max: int) -> String:
    """A text that compares byte by byte."""
    exact = mysql.VARCHAR(chars_max, charset="utf8mb4", collation="utf8mb4_bin")
    return String(chars_max).with_variant(exact, "mysql", "mariadb")


METADATA = MetaData()
INSTANCES = Table(
    "loghub_client_worker_instance",
    METADATA,
    Column("consume_group", name_type(NAME_CHARS_MAX), primary_key=True),
    Column("logstream_sig", name_type(SIGNATURE_CHARS_MAX), primary_key=True),
    Column("worker_instance", name_type(NAME_CHARS_MAX), primary_key=True),
    Column("create_time", BigInteger, nullable=False, info={MOST: MOMENT_MS_MAX}),
    Column("update_time", BigInteger, nullable=False, info={MOST: MOMENT_MS_MAX}),
)
"""Who is there: since when, and its last sign of life, both in unix milliseconds. The second column is ours:
LogHub's own library has the first alone."""
LEASES = Table(
    "loghub_client_shard_lease",
    METADATA,
    Column("consume_group", name_type(NAME_CHARS_MAX), primary_key=True),
    Column("logstream_sig", name_type(SIGNATURE_CHARS_MAX), primary_key=True),
    Column("shard_id", Integer, primary_key=True, autoincrement=False),
    Column("lease_id", BigInteger, nullable=False, info={MOST: 2**62}),
    Column("lease_owner", name_type(NAME_CHARS_MAX), nullable=False),
    Column("consumer_owner", name_type(NAME_CHARS_MAX), nullable=False),
    Column("check_point", BigInteger, nullable=True),
    Column("update_time", BigInteger, nullable=False, info={MOST: MOMENT_MS_MAX}),
    Column("weight", BigInteger, nullable=True),
)
"""A row a shard, see `lease.py`. `check_point` is a cursor as a number, `update_time` unix milliseconds,
`weight` raw bytes a second of receive time. The last one is ours: LogHub's own library counts shards."""


def made(database: Database) -> str | None:
    """The step of the tables that are there, None where nobody made them; a file that is not there is not
    made for the question.

    Raises as `ensure` for tables that are not ours, and for one that is gone.
    """
    return database.ask(lambda connection: _step(connection, database.name)) if database.there() else None


def ensure(database: Database) -> None:
    """Make the tables, or bring them up to date; nothing is done where they are.

    Many workers may start at once: one migrates, the others wait for it. Raises ConfigError when the tables
    are of a newer release, or of another program: LogHub's own library calls its tables the same. Raises
    StoreBroken when one is gone that was there: what it kept must not look like a first start.
    """
    if database.ask(lambda connection: _step(connection, database.name)) != STEPS[-1]:
        database.ask(lambda connection: _migrate(connection, database.name), deadline_s=_MIGRATE_DEADLINE_S)


def _step(connection: Connection, name: str) -> str | None:
    """The step that the tables are at, None where nobody made them.

    Story: MySQL makes the tables one by one, and B looks while A makes them: none is there. A ends, and B
    reads of the step that they were made: they would be lost. So the step, which is written last, is read
    first.
    """
    step = _version(connection, name)
    looked = inspect(connection)
    there = [table for table in METADATA.sorted_tables if looked.has_table(table.name)]
    for table in there:
        if differs := unlike(looked, table, () if step == STEPS[-1] else _ADDED.get(table.name, ())):
            raise ConfigError(
                f"database {name}: the table {table.name} there {differs}, so it is another program's, or "
                "somebody altered it; it was left as it is. Alter it back, or give the leases a database of "
                "their own"
            )
    if step == STEPS[-1] and (gone := [t.name for t in METADATA.sorted_tables if t not in there]):
        raise StoreBroken(
            f"database {name} lost what leases were kept in: {', '.join(gone)}. Restore it from a copy; or "
            f"drop the table {VERSION_TABLE}: the next claim makes what is gone anew, without the "
            "checkpoints that were in it, which a landing publishes again"
        )
    return step


def _version(connection: Connection, name: str) -> str | None:
    """The step that is written there. Raises ConfigError for one of a newer release."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).first()
    step = None if found is None else str(found[0] or "")
    if step is not None and step not in STEPS:
        raise ConfigError(
            f"database {name}: the tables of leases are of step {printable(repr(step))}, which this "
            f"release does not know; it needs {STEPS[-1]}: run the newest release everywhere. Where "
            f"no newer one was, somebody edited it: drop the table {VERSION_TABLE}; a claim makes it anew"
        )
    return step


def _migrate(connection: Connection, name: str) -> None:
    # Takes a fifth of a second to load, and almost every run finds its tables.
    from alembic import command
    from alembic.config import Config

    with _alone(connection):
        if _version(connection, name) == STEPS[-1]:
            return
        config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
        config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        command.upgrade(config, "head")


@contextmanager
def _alone(connection: Connection) -> Iterator[None]:
    """Nobody else migrates meanwhile.

    SQLite and PostgreSQL do all of it in one transaction. MySQL commits each change of a table by itself, so
    a step there must stand being begun a second time.
    """
    dialect = connection.dialect.name
    if dialect in ("mysql", "mariadb"):
        got = connection.execute(text("SELECT GET_LOCK(:name, 30)"), {"name": f"sls-lake-{_LOCK}"}).scalar()
        if got != 1:
            raise ConfigError("another worker has been making the tables of leases for 30 s; ask again")
        try:
            yield
        finally:
            connection.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": f"sls-lake-{_LOCK}"})
        return
    begin, lock = (
        ("BEGIN IMMEDIATE", "") if dialect == "sqlite" else ("BEGIN", "SELECT pg_advisory_xact_lock")
    )
    connection.exec_driver_sql(begin)
    try:
        if lock:
            connection.exec_driver_sql(f"{lock}({_LOCK})")
        yield
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")
