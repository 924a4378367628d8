"""Leases in real databases: each does what the dictionary does, keeps its word under load, and says what is
wrong with it."""

import contextlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from sqlalchemy import Table, create_engine, inspect, select, text

from sls_io.coordination import lease_tables
from sls_io.coordination.database import Database
from sls_io.coordination.lease import Lease, Take
from sls_io.coordination.lease_store import SqlLeases
from sls_io.coordination.lease_tables import INSTANCES, LEASES, METADATA, VERSION_TABLE, ensure
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost, ConfigError, ConnectFailed, StoreBroken, TransportTimeout
from sls_io.values.settings import Group
from sls_io.values.window import Cursor
from tests.contract.lease_databases import DATABASES, Databases
from tests.unit.dict_leases import DictLeases
from tests.unit.lease_world import Waits

every = pytest.mark.parametrize("kind", DATABASES)
servers = pytest.mark.parametrize("kind", [kind for kind in DATABASES if kind != "sqlite"])

# Names that a database may take for one: by case, by accents. None has a blank, which MySQL would overlook.
_AS_TIME = {
    "sqlite": "datetime({} / 1000, 'unixepoch')",
    "postgres": "to_timestamp({} / 1000.0) AT TIME ZONE 'UTC'",
    "mariadb": "CONVERT_TZ(FROM_UNIXTIME({} / 1000), @@session.time_zone, '+00:00')",
}
"""As the page on leases shows times, in UTC."""
NAMES = st.sampled_from(["lake", "Lake", "läke", "lake-2"])
IDS = st.integers(1, 4) | st.just(2**62)
SHARDS = st.integers(0, 3)
STAMPS = st.integers(1, 2**45)
SOME = st.dictionaries(SHARDS, IDS | st.just(0), max_size=4)
WEIGHTS = st.dictionaries(SHARDS, st.sampled_from([0, 5, 2**40]), max_size=4)
CURSORS = st.integers(0, 3).map(Cursor) | st.just(Cursor(2**63 - 1))


class Leases(RuleBasedStateMachine):
    """The statements beside the dictionary, in any order, each followed by a look at both."""

    database: Database
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.sql = SqlLeases(self.database, group="Group", signature=f"s{next(self.numbers)}")
        self.other = SqlLeases(self.database, group="group", signature=self.sql._signature)
        self.plain = DictLeases()

    def both(self, verb: str, *arguments: object) -> None:
        answers = [getattr(store, verb)(*arguments) for store in (self.sql, self.plain)]
        assert answers[0] == answers[1]
        assert self.sql.read() == self.plain.read()
        nothing = self.other.read()
        assert not nothing.leases and not nothing.instances, "another group's"

    @rule(me=NAMES, stamp=STAMPS)
    def join(self, me: str, stamp: int) -> None:
        self.both("join", me, stamp)

    @precondition(lambda self: self.plain.instances)
    @rule(data=st.data(), known=st.booleans())
    def forget(self, data: st.DataObject, known: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.plain.instances)))
        self.both("forget", name, self.plain.instances[name] if known else 0)

    @rule(shards=st.lists(SHARDS, unique=True))
    def add(self, shards: list[int]) -> None:
        self.both("add", shards)

    @rule(me=NAMES, known=st.booleans(), owned=SOME, lease_id=IDS, stamp=STAMPS)
    def renew(self, me: str, known: bool, owned: dict[int, int], lease_id: int, stamp: int) -> None:
        self.both("renew", me, self._ids() if known else owned, lease_id, stamp)

    @rule(me=NAMES, known=st.booleans(), some=SOME, at_once=st.booleans(), lease_id=IDS, stamp=STAMPS)
    def take(
        self, me: str, known: bool, some: dict[int, int], at_once: bool, lease_id: int, stamp: int
    ) -> None:
        wanted = [
            Take(shard, old, at_once or shard == 1) for shard, old in (self._ids() if known else some).items()
        ]
        self.both("take", me, wanted, lease_id, stamp)

    @rule(me=NAMES, known=st.booleans(), owned=SOME, lease_id=IDS, stamp=STAMPS)
    def consume(self, me: str, known: bool, owned: dict[int, int], lease_id: int, stamp: int) -> None:
        self.both("consume", me, self._ids() if known else owned, lease_id, stamp)

    @rule(me=NAMES)
    def hand_over(self, me: str) -> None:
        self.both("hand_over", me)

    @rule(me=NAMES, ids=st.lists(IDS, min_size=1, max_size=3), stamp=STAMPS, weights=WEIGHTS)
    def free(self, me: str, ids: list[int], stamp: int, weights: dict[int, int]) -> None:
        self.both("free", me, ids, stamp, weights)

    @rule(me=NAMES, shard=SHARDS, cursor=CURSORS)
    def checkpoint(self, me: str, shard: int, cursor: Cursor) -> None:
        self.both("checkpoint", me, shard, cursor)

    def _ids(self) -> dict[int, int]:
        return {shard: lease.lease_id for shard, lease in self.plain.leases.items()}


@every
def test_the_statements_do_what_the_dictionary_does(kind: str, databases: Databases) -> None:
    database = Database(databases.new(kind), deadline_s=30)
    ensure(database)
    machine = type("Machine", (Leases,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30 if kind == "sqlite" else 10,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    database.close()


# --- many at once


class Impatient(ManualClock):
    """Nobody waits: what cannot be begun now is not begun."""

    def sleep(self, duration_s: float) -> None:
        raise Waits


@every
def test_workers_that_start_in_one_moment_make_the_tables_once_and_share_without_a_double(
    kind: str, databases: Databases
) -> None:
    address, count = databases.new(kind), 6
    began = threading.Barrier(count)

    def work(place: int) -> tuple[SqlLease, frozenset[int]]:
        group = Group(name="g", holder=f"w{place}", timeout_s=600, heartbeat_s=60)
        coordinator = SqlLease.at(
            address, group, lambda: dict.fromkeys(range(32), 1), signature="s", clock=Impatient()
        )
        began.wait()
        try:
            return coordinator, coordinator.claim().shards
        except (ClaimLost, Waits):
            return coordinator, frozenset()

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(work, range(count)))
    held = [shard for _, shards in found for shard in shards]
    assert len(held) == len(set(held)), "two hold one shard"
    view = found[0][0].look()
    for coordinator, shards in found:
        assert {s for s, lease in view.leases.items() if lease.consumer == coordinator.holder} >= shards
    assert set(view.leases) == set(range(32))
    # Two that saw different members may have wanted one lease: who did not get it takes another later.
    for coordinator, _ in found:
        with contextlib.suppress(ClaimLost, Waits):
            coordinator.claim()
    view = found[0][0].look()
    assert all(lease.owner for lease in view.leases.values())
    assert set(view.instances) == {f"w{place}" for place in range(count)}


@every
def test_of_two_that_take_one_lease_one_wins(kind: str, databases: Databases) -> None:
    address = databases.new(kind)
    stores = [SqlLeases(Database(address, deadline_s=30), group="g", signature="s") for _ in range(2)]
    stores[0].prepare()
    stores[0].add(range(20))
    began = threading.Barrier(2)

    def take(place: int) -> None:
        for shard in range(20):
            began.wait()
            stores[place].take(f"w{place}", [Take(shard, 0, True)], place + 1, 1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(take, range(2)))
    for lease in stores[0].read().leases.values():
        assert (lease.owner, lease.consumer, lease.lease_id) in (("w0", "w0", 1), ("w1", "w1", 2))


# --- the tables


@every
def test_the_migrations_make_the_tables_that_the_statements_know(kind: str, databases: Databases) -> None:
    address = databases.new(kind)
    database = Database(address, deadline_s=30)
    ensure(database)
    ensure(database)
    engine = create_engine(address)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


@every
def test_tables_of_the_first_step_get_the_column_that_they_lack(kind: str, databases: Databases) -> None:
    """An instance that was there keeps its sign of life; from then on its creation stands still beside it."""
    address = databases.new(kind)
    engine, database = create_engine(address), Database(address, deadline_s=30)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
        config.set_main_option("script_location", str(Path(lease_tables.__file__).parent / "migrations"))
        command.upgrade(config, "0001")
        connection.execute(text(f"INSERT INTO {INSTANCES.name} VALUES ('g', 's', 'old', 1700000000000)"))
    store = SqlLeases(database, group="g", signature="s")
    assert store.there()

    store.prepare()
    store.join("new", 1_700_000_001_000)
    for stamp_ms in (1_700_000_002_000, 1_700_000_003_000):
        store.join("old", stamp_ms)

    with engine.connect() as connection:
        times = {
            name: (created, seen)
            for *_, name, created, seen in connection.execute(
                select(INSTANCES).order_by(text("worker_instance"))
            )
        }
        created = _AS_TIME[kind].format("create_time")
        asked = f"SELECT {created} FROM {INSTANCES.name} WHERE worker_instance = 'old'"
        shown = connection.execute(text(asked)).scalar_one()
    engine.dispose()
    assert times == {
        "new": (1_700_000_001_000, 1_700_000_001_000),
        "old": (1_700_000_000_000, 1_700_000_003_000),
    }
    assert str(shown).startswith("2023-11-14 22:13:20"), "docs/reference.md says so"
    assert store.read().instances == {"new": 1_700_000_001_000, "old": 1_700_000_003_000}


@every
@pytest.mark.parametrize("step", ["0001", "0002"])
def test_a_lease_of_an_earlier_step_keeps_its_checkpoint_and_gets_a_weight_once_it_is_let_go(
    kind: str, step: str, databases: Databases
) -> None:
    address = databases.new(kind)
    engine, database = create_engine(address), Database(address, deadline_s=30)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
        config.set_main_option("script_location", str(Path(lease_tables.__file__).parent / "migrations"))
        command.upgrade(config, step)
        rows = ", ".join(f"('g', 's', {shard}, 7, 'me', 'me', 500, 1700000000000)" for shard in (0, 1))
        connection.execute(text(f"INSERT INTO {LEASES.name} VALUES {rows}"))
    engine.dispose()
    store = SqlLeases(database, group="g", signature="s")
    assert store.there() and not store.is_newest()
    store.prepare()
    assert store.is_newest()
    before = {shard: Lease(shard, 7, "me", "me", Cursor(500), 1_700_000_000_000) for shard in (0, 1)}
    assert store.read().leases == before
    store.free("somebody else", [7], 1_700_000_000_500, {0: 4000})
    assert store.read().leases == before, "only who consumes a shard says what it weighs"

    store.free("me", [7], 1_700_000_001_000, {0: 4000})

    assert {s: (one.checkpoint, one.weight) for s, one in store.read().leases.items()} == {
        0: (500, 4000),
        1: (500, None),
    }


@every
def test_tables_of_a_newer_release_are_refused(kind: str, databases: Databases) -> None:
    address = databases.new(kind)
    database = Database(address, deadline_s=30)
    ensure(database)
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0999'"))
    engine.dispose()
    with pytest.raises(ConfigError, match=r"of step .0999.*run the newest release everywhere"):
        ensure(database)


@every
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("consume_group VARCHAR(64), shard INTEGER", "lacks .*check_point, .*lease_id.* another program's"),
        (
            "consume_group VARCHAR(64), logstream_sig VARCHAR(64), shard_id INTEGER, lease_id BIGINT, "
            "lease_owner VARCHAR(64), consumer_owner VARCHAR(64), check_point BIGINT, update_time BIGINT, "
            "project VARCHAR(64) NOT NULL",
            "wants project, which we do not know",
        ),
    ],
)
def test_tables_of_another_program_are_left_as_they_are(
    kind: str, databases: Databases, columns: str, says: str
) -> None:
    address = databases.new(kind)
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE loghub_client_shard_lease ({columns})"))
    database = Database(address, deadline_s=30)
    with pytest.raises(ConfigError, match=f"(?s){says}.*a database of their own"):
        ensure(database)
    assert inspect(engine).get_table_names() == ["loghub_client_shard_lease"]
    engine.dispose()


@every
@pytest.mark.parametrize("gone", [[INSTANCES], [LEASES], [LEASES, INSTANCES]], ids=len)
def test_a_table_that_is_gone_is_named_with_its_cure_and_is_no_first_start(
    kind: str, gone: list[Table], databases: Databases
) -> None:
    """Said to a process that used it, and to one that starts; the cure makes what is gone, and no more."""
    address = databases.new(kind)
    database = Database(address, deadline_s=30)
    store = SqlLeases(database, group="g", signature="s")
    store.prepare()
    store.add([0])
    engine = create_engine(address)
    METADATA.drop_all(engine, tables=gone)
    says = f"{database.name} lost .*{gone[0].name}.*drop the table {VERSION_TABLE}"
    for say in (store.read, store.prepare, store.there):
        with pytest.raises(StoreBroken, match=says):
            say()
    assert not {table.name for table in gone} & set(inspect(engine).get_table_names())
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))
    engine.dispose()
    store.prepare()
    assert set(store.read().leases) == (set() if LEASES in gone else {0})


@pytest.mark.parametrize("value", ["NULL", "x'ff'", "''", "'zz'"])
def test_a_step_that_no_release_wrote_is_refused_with_its_cure(value: str, databases: Databases) -> None:
    address = databases.new("sqlite")
    database = Database(address, deadline_s=30)
    ensure(database)
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))
        connection.execute(text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32))"))
        connection.execute(text(f"INSERT INTO {VERSION_TABLE} VALUES ({value})"))
    engine.dispose()
    with pytest.raises(ConfigError, match=f"of step .*drop the table {VERSION_TABLE}"):
        ensure(database)
    engine = create_engine(address)
    with engine.begin() as connection:
        connection.execute(text(f"DROP TABLE {VERSION_TABLE}"))
    engine.dispose()
    ensure(database)
    assert SqlLeases(database, group="g", signature="s").there()


# --- a database that does not work


@servers
def test_a_server_that_hangs_costs_a_deadline(kind: str, databases: Databases) -> None:
    address = databases.new(kind)
    server = databases.servers.mariadb if kind == "mariadb" else databases.servers.postgres
    database = Database(address, deadline_s=1.0)
    store = SqlLeases(database, group="g", signature="s")
    store.prepare()
    with server.paused(), pytest.raises((TransportTimeout, ConnectFailed), match="look"):
        store.read()
    assert store.read().leases == {}


@servers
def test_a_wrong_password_is_said_without_it(kind: str, databases: Databases) -> None:
    right = databases.new(kind)
    server = databases.servers.mariadb if kind == "mariadb" else databases.servers.postgres
    secret = "no-such-pass-word"
    address = right.replace(right.split("//lake:")[1].split("@127")[0], secret)
    assert secret in address
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{server.port}") as caught:
        SqlLeases(Database(address, deadline_s=10), group="g", signature="s").read()
    assert secret not in str(caught.value)
    assert "lake_" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("leases", "is none: write KIND"),
        ("postgresql://me:secret@host:port/db", "is none: write KIND"),
        ("postgresql://me:a@secret@host/db", "more than one @"),
        ("postgresql://me:a@s/secret@host/db", "more than one @.* / as %2F"),
        ("postgresql://me:a@secret?x@host/db", "more than one @.* ? as %3F"),
        ("postgresql://me:a@secret?x=1@host/db", "more than one @"),
        ("oracle://me:secret@host/db", "'oracle' is not known: sqlite, postgresql, mysql, mariadb"),
        ("sqlite://", "name a file"),
        ("mysql+nodriver://me:secret@host/db", "mysql.nodriver is not installed here"),
    ],
)
def test_an_address_that_is_none_is_said_without_its_password(address: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        Database(address, deadline_s=1)
    assert "secret" not in str(caught.value)


@every
def test_all_that_a_claim_writes_is_tried_without_a_row(kind: str, databases: Databases) -> None:
    leases = SqlLeases(Database(databases.new(kind), deadline_s=30), group="g", signature="s")
    leases.prepare()
    leases.add([0, 1])
    leases.join("me", 5)
    before = leases.read()
    leases.try_all()
    assert leases.read() == before and len(before.leases) == 2


def test_a_database_that_takes_no_writes_is_told_when_a_claim_is_tried(databases: Databases) -> None:
    address = databases.new("postgres")
    with contextlib.closing(SqlLeases(Database(address, deadline_s=30), group="g", signature="s")) as leases:
        leases.prepare()
    databases.only_read(address)
    with contextlib.closing(SqlLeases(Database(address, deadline_s=30), group="g", signature="s")) as leases:
        assert not leases.read().leases
        with pytest.raises(ConnectFailed, match=r"refuses: .*may read and write its tables, and whether it"):
            leases.try_all()


def test_a_server_that_is_not_there_is_said_with_its_place() -> None:
    database = Database("postgresql://me:secret@127.0.0.1:1/db", deadline_s=5)
    with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:1/db cannot be asked") as caught:
        SqlLeases(database, group="g", signature="s").read()
    assert "secret" not in str(caught.value)


def test_a_file_that_cannot_be_opened_is_said_with_its_place() -> None:
    with pytest.raises(ConnectFailed, match=r"/no-such-folder/leases\.db cannot be asked"):
        SqlLeases(
            Database("sqlite:////no-such-folder/leases.db", deadline_s=5), group="g", signature="s"
        ).read()
