"""One suite over all checkpoint stores, with the same histories; how they differ is data."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.pool import NullPool

from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.local_file import LocalFile
from sls_io.checkpoints.policy import begin
from sls_io.checkpoints.sql_guard import CHECKPOINTS, READERS
from sls_io.checkpoints.sql_table import SqlTable
from sls_io.checkpoints.store import CURSOR_MAX, CheckpointStore
from sls_io.emulator import Emulator, start
from sls_io.values.errors import (
    CheckpointOutside,
    ConfigError,
    ServiceError,
    SlsError,
    StoreBroken,
    TransportError,
)
from sls_io.values.settings import Group, Service
from sls_io.values.shard import Head, Shard
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient
from tests import needs
from tests.backends.mariadb import MariaDB
from tests.backends.postgres import Postgres
from tests.contract.copies import copied

OF = "access_logs-3f9c01aa"


@dataclass
class Place:
    """Where the stores of one test are: `open(reader)` is a store as another process would open it."""

    open: Callable[..., CheckpointStore]
    address: str = ""
    client: SlsClient | None = None
    emulator: Emulator | None = None
    path: Path | None = None


@dataclass(frozen=True)
class Kind:
    """A store. `lasting`: a freeze is seen by others, what is not held any more can be dropped, and of two
    writes at once the further one stays. `rows`: a row may be locked by itself."""

    name: str
    lasting: bool = True
    sql: bool = False
    rows: bool = False


KINDS = (
    Kind("file"),
    Kind("sqlite", sql=True),
    Kind("postgres", sql=True, rows=True),
    Kind("mariadb", sql=True, rows=True),
    Kind("group", lasting=False),
)
every = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
lasting = pytest.mark.parametrize("kind", [k for k in KINDS if k.lasting], ids=lambda k: k.name)
rows = pytest.mark.parametrize("kind", [k for k in KINDS if k.rows], ids=lambda k: k.name)
sql = pytest.mark.parametrize("kind", [k for k in KINDS if k.sql], ids=lambda k: k.name)


@dataclass
class Servers:
    """Servers that a test asked for, each started once."""

    started: dict[str, Postgres | MariaDB | Emulator] = field(default_factory=dict)

    def get(self, name: str) -> Postgres | MariaDB | Emulator:
        """The server of that name."""
        if name not in self.started:
            if name == "mariadb":
                needs.mariadb()
            self.started[name] = Postgres() if name == "postgres" else MariaDB()
        return self.started[name]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    servers = Servers()
    with start() as running:
        servers.started["emulator"] = running
        yield servers
    for server in servers.started.values():
        if isinstance(server, Postgres | MariaDB):
            server.end()


@pytest.fixture
def place(kind: Kind, servers: Servers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if kind.name == "file":
        path = tmp_path / "made" / "positions.json"
        yield Place(
            lambda reader="dev", of=OF: LocalFile(
                path if reader == "dev" else path.with_name(f"{reader}.json"),
                of=of,
                reader=reader,
            ),
            path=path,
        )
    elif kind.name == "group":
        emulator = servers.get("emulator")
        assert isinstance(emulator, Emulator)
        project = f"p-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]}"
        service = Service(endpoint=emulator.endpoint, project=project, logstore="logs", tries_max=1)
        with SlsClient(service) as client:
            client.transport.create_project(project, "")
            client.transport.create_logstore(project, "logs", ttl=30, shard_count=4)

            def group(reader: str = "dev", of: str = OF) -> GroupCheckpoints:
                client.create_group(Group(name=reader))
                return GroupCheckpoints(client, reader, forced=True)

            yield Place(group, client=client, emulator=emulator)
            emulator.admin.remove()
    else:
        address = f"sqlite:///{tmp_path}/positions.sqlite"
        if kind.name != "sqlite":
            server = servers.get(kind.name)
            assert isinstance(server, Postgres | MariaDB)
            address = server.new_database()
        yield Place(lambda reader="dev", of=OF: SqlTable(address, of=of, reader=reader), address=address)


def cursors(store: CheckpointStore) -> Mapping[int, int]:
    """What the store keeps, without shards that have nothing."""
    return {shard: kept.cursor for shard, kept in store.read().items() if kept.cursor is not None}


def fates(written: object) -> dict[int, str]:
    """What became of each shard."""
    assert isinstance(written, tuple)
    return {one.shard: one.fate for one in written}


def at(**cursors: int) -> dict[int, Cursor]:
    """`s0=5` is shard 0 at 5."""
    return {int(name[1:]): Cursor(cursor) for name, cursor in cursors.items()}


# --- the contract


@every
def test_before_the_first_write_there_is_none(kind: Kind, place: Place) -> None:
    assert cursors(place.open()) == {}


@every
def test_what_was_written_is_read_by_another_process(kind: Kind, place: Place) -> None:
    written = place.open().write(at(s0=5, s2=2**62 + 1, s3=0))
    assert fates(written) == {0: "sent", 2: "sent", 3: "sent"}
    kept = place.open().read()
    assert {s: kept[s].cursor for s in (0, 2, 3)} == {0: 5, 2: 2**62 + 1, 3: 0}
    assert all(kept[s].saved_s > 1_700_000_000 and not kept[s].frozen for s in (0, 2, 3))
    assert kept.get(1) is None or kept[1].cursor is None


@every
def test_a_checkpoint_never_goes_back_and_says_so(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s0=100))
    (said,) = store.write(at(s0=99))
    assert (said.fate, said.kept) == ("ahead", 100)
    assert fates(place.open().write(at(s0=50, s1=7))) == {0: "ahead", 1: "sent"}
    assert fates(store.write(at(s0=100))) == {0: "sent"}
    assert fates(store.write(at(s0=101))) == {0: "sent"}
    assert cursors(place.open()) == {0: 101, 1: 7}


@every
def test_readers_keep_their_positions_apart(kind: Kind, place: Place) -> None:
    place.open("dev").write(at(s0=5))
    place.open("Dev").write(at(s0=3, s1=4))
    assert cursors(place.open("dev")) == {0: 5}
    assert cursors(place.open("Dev")) == {0: 3, 1: 4}


@every
def test_one_shard_that_fails_stops_no_other(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s1=6))
    written = store.write({0: Cursor(4), 1: Cursor(CURSOR_MAX + 1), 2: Cursor(-1), 3: Cursor(9)})
    assert fates(written) == {0: "sent", 1: "failed", 2: "failed", 3: "sent"}
    assert "not a cursor" in written[1].why
    assert cursors(place.open()) == {0: 4, 1: 6, 3: 9}


@every
def test_nothing_to_write_is_nothing(kind: Kind, place: Place) -> None:
    store = place.open()
    assert store.write({}) == () and store.place({}) == ()
    store.thaw({})
    assert cursors(store) == {}


@every
def test_a_frozen_shard_is_moved_by_no_write_until_it_is_thawed(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s0=10, s1=10))
    assert fates(store.place(at(s0=10, s2=0))) == {0: "sent", 2: "sent"}
    (first, second, third) = store.write(at(s0=11, s1=11, s2=1))
    assert [one.fate for one in (first, second, third)] == ["frozen", "sent", "frozen"]
    assert first.kept == 10
    assert cursors(store) == {0: 10, 1: 11, 2: 0}
    assert store.read()[0].frozen and store.read()[2].frozen and not store.read()[1].frozen
    store.thaw(at(s0=10, s2=0, s3=1))
    assert fates(store.write(at(s0=11, s2=1))) == {0: "sent", 2: "sent"}
    assert cursors(store) == {0: 11, 1: 11, 2: 1}


@lasting
def test_a_freeze_holds_for_every_process(kind: Kind, place: Place) -> None:
    reader, person = place.open(), place.open()
    reader.write(at(s0=100))
    assert fates(person.place(at(s0=50))) == {0: "sent"}
    assert fates(reader.write(at(s0=101))) == {0: "frozen"}
    assert cursors(place.open()) == {0: 50}


@every
def test_what_goes_back_is_frozen_in_the_same_change(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s0=100, s1=100))
    assert fates(store.place(at(s0=5, s2=5))) == {0: "sent", 2: "sent"}
    assert cursors(store) == {0: 5, 1: 100, 2: 5}
    assert [store.read()[shard].frozen for shard in (0, 1, 2)] == [True, False, True]
    assert fates(store.place({0: Cursor(CURSOR_MAX + 1)})) == {0: "failed"}
    assert cursors(store)[0] == 5


@every
def test_the_reader_after_a_reset_begins_there_and_writes_again(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s0=100, s1=7))
    store.place(at(s0=50))
    again = place.open() if kind.lasting else store
    (head,) = heads(0)
    starts = begin(again, {0: head})
    assert starts[0] is not None and starts[0].cursor == 50
    assert fates(again.write(at(s0=51, s1=8))) == {0: "sent", 1: "sent"}


@every
def test_a_checkpoint_out_of_its_shard_stops_and_thaws_nothing(kind: Kind, place: Place) -> None:
    store = place.open()
    store.place(at(s0=5))
    (head,) = heads(0)
    with pytest.raises(CheckpointOutside, match="retention took"):
        begin(store, {0: head})
    assert store.read()[0].frozen
    starts = begin(store, {0: head}, policy="begin")
    assert starts[0] is not None
    assert (starts[0].cursor, starts[0].moved_from, starts[0].place) == (head.begin, 5, "expired")
    assert not store.read()[0].frozen


@lasting
def test_shards_that_are_not_held_any_more_are_forgotten(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s0=1, s1=2, s2=3))
    place.open("other").write(at(s0=1))
    assert store.forget([0, 2, 7]) == {0, 2}
    assert store.forget([0]) == frozenset()
    assert cursors(place.open()) == {1: 2}
    assert cursors(place.open("other")) == {0: 1}
    assert store.forget([1]) == {1}
    assert cursors(place.open()) == {}


@every
def test_a_copy_is_the_same_also_where_it_goes_back(kind: Kind, place: Place) -> None:
    source, target = place.open("source"), place.open("target")
    source.write(at(s0=10, s1=20))
    target.write(at(s0=500, s3=1))
    moves, done = copied(source, target, drop=True)
    assert {move.shard: move.difference for move in moves if move.moves} == {0: "back", 1: "behind"}
    assert fates(done) == {0: "sent", 1: "sent"}
    there = cursors(target)
    assert {s: there[s] for s in (0, 1)} == {0: 10, 1: 20}
    assert (3 in there) is not kind.lasting
    assert fates(target.write(at(s0=11))) == {0: "frozen"}
    target.thaw(at(s0=10))
    assert fates(target.write(at(s0=11))) == {0: "sent"}
    assert cursors(source) == {0: 10, 1: 20}


@every
def test_a_copy_that_goes_forward_only_leaves_what_is_ahead(kind: Kind, place: Place) -> None:
    source, target = place.open("source"), place.open("target")
    source.write(at(s0=10, s1=20, s2=30))
    target.write(at(s1=25, s2=30, s3=1))
    found, written = copied(source, target, forward_only=True)
    kinds = {one.shard: one.difference for one in found}
    assert {s: kinds[s] for s in (0, 1, 2)} == {0: "behind", 1: "ahead", 2: "equal"}
    assert kinds[3] == ("extra" if kind.lasting else "empty")
    assert fates(written) == {0: "sent"}
    assert cursors(target) == {0: 10, 1: 25, 2: 30, 3: 1}
    assert copied(source, target, forward_only=True)[1] == ()
    copied(source, target, forward_only=True, drop=True)
    assert (3 in cursors(target)) is not kind.lasting


@lasting
def test_of_two_processes_that_write_at_once_the_further_one_stays(kind: Kind, place: Place) -> None:
    place.open().write(at(s0=1))

    def writer(first: int) -> None:
        store = place.open()
        for cursor in range(first, 60, 3):
            assert fates(store.write({0: Cursor(cursor), 1: Cursor(cursor)})).keys() == {0, 1}

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(writer, (2, 3, 4)))
    assert cursors(place.open()) == {0: 59, 1: 59}


@every
def test_what_cannot_be_read_is_an_error_and_never_none(kind: Kind, place: Place) -> None:
    place.open().write(at(s0=5))
    broken = place.open()
    if place.path is not None:
        place.path.write_bytes(place.path.read_bytes()[:-20])
    elif place.emulator is not None:
        place.emulator.admin.fault("error", call="get_checkpoints", times=None, status=500)
    elif kind.name == "sqlite":
        Path(place.address.removeprefix("sqlite:///")).write_bytes(b"no database at all" * 100)
    else:
        broken = SqlTable(place.address.rpartition("/")[0] + "/no_such_one", of=OF, reader="dev")
    with pytest.raises(SlsError):
        broken.read()
    with pytest.raises(SlsError):
        broken.write(at(s0=6))
    with pytest.raises(SlsError):
        begin(broken, {0: heads(0)[0]})


def heads(*shards: int) -> list[Head]:
    """Shards of which the service has [40, 1000]."""
    return [Head(Shard(shard, readonly=False), Cursor(40), Cursor(1000)) for shard in shards]


# --- databases


@rows
def test_a_row_that_somebody_locks_stops_no_other(kind: Kind, place: Place) -> None:
    store = place.open()
    store.write(at(s0=1, s1=1, s2=1))
    engine = create_engine(place.address, poolclass=NullPool)
    with engine.connect() as other:
        row = {"reader": "dev", "origin": OF, "shard": 1}
        other.execute(select(CHECKPOINTS).filter_by(**row).with_for_update())
        written = store.write(at(s0=2, s1=2, s2=2))
    assert fates(written) == {0: "sent", 1: "failed", 2: "sent"}
    assert cursors(place.open()) == {0: 2, 1: 1, 2: 2}


@sql
def test_another_programs_table_is_refused(kind: Kind, place: Place) -> None:
    with create_engine(place.address, poolclass=NullPool).begin() as connection:
        connection.execute(text("CREATE TABLE sls_lake_checkpoint (name VARCHAR(10))"))
    with pytest.raises(StoreBroken, match="lacks frozen, kept_cursor"):
        place.open().read()
    with pytest.raises(StoreBroken):
        place.open().write(at(s0=1))


@sql
def test_two_that_make_the_table_at_once_find_it_made(kind: Kind, place: Place) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda shard: place.open().write({shard: Cursor(1)}), range(4)))
    assert [fates(one) for one in found] == [{shard: "sent"} for shard in range(4)]
    assert cursors(place.open()) == dict.fromkeys(range(4), 1)


@sql
def test_logstores_keep_their_positions_apart(kind: Kind, place: Place) -> None:
    place.open("dev").write(at(s0=5))
    assert cursors(place.open("dev", of="access_logs-00000000")) == {}


def stops(store: CheckpointStore, *, says: str) -> None:
    """Every word of the store that could begin anew stops, and names what and the cure."""
    for act in (store.read, lambda: store.write(at(s0=6)), lambda: store.place(at(s0=1))):
        with pytest.raises(StoreBroken, match=says) as caught:
            act()
        assert store.name in str(caught.value) and "Restore the database" in str(caught.value)
        assert READERS.name in str(caught.value) and OF in str(caught.value)


def by_hand(place: Place, *statements: str) -> None:
    """What a person does in the database."""
    with create_engine(place.address, poolclass=NullPool).begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


@sql
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("DELETE FROM sls_lake_checkpoint WHERE shard = 0", "shard 0 is gone"),
        ("DELETE FROM sls_lake_checkpoint", "shard 0, 1 is gone"),
        ("DROP TABLE sls_lake_checkpoint", "shard 0, 1 is gone"),
        ("ALTER TABLE sls_lake_checkpoint RENAME TO renamed", "shard 0, 1 is gone"),
        ("UPDATE sls_lake_checkpoint SET reader = 'zz' WHERE shard = 1", "shard 1 is gone"),
        ("UPDATE sls_lake_checkpoint SET origin = 'zz' WHERE shard = 1", "shard 1 is gone"),
        ("UPDATE sls_lake_checkpoint SET shard = 7 WHERE shard = 1", "shard 1 is gone.*shard 7 was not"),
        ("UPDATE sls_lake_checkpoint SET kept_cursor = NULL WHERE shard = 1", "shard 1 is not what"),
        ("UPDATE sls_lake_checkpoint SET kept_cursor = 0 WHERE shard = 1", "shard 1 is not what"),
        ("UPDATE sls_lake_checkpoint SET kept_cursor = -1 WHERE shard = 1", "kept_cursor of the row shard"),
        ("UPDATE sls_lake_checkpoint SET frozen = NOT frozen WHERE shard = 1", "shard 1 is not what"),
        ("UPDATE sls_lake_checkpoint SET saved_s = -1 WHERE shard = 1", "saved_s of the row shard = 1"),
        ("UPDATE sls_lake_checkpoint_reader SET shards = 'zz'", "what was written last is not readable"),
    ],
)
def test_rows_that_were_lost_or_edited_stop_and_are_never_none(
    kind: Kind, place: Place, what: str, says: str
) -> None:
    place.open().write(at(s0=5, s1=6))
    by_hand(place, what)
    stops(place.open(), says=says)


@sql
def test_rows_are_taken_as_they_stand_once_a_person_says_so(kind: Kind, place: Place) -> None:
    place.open().write(at(s0=5, s1=6))
    by_hand(place, "DELETE FROM sls_lake_checkpoint WHERE shard = 0", f"DELETE FROM {READERS.name}")
    assert cursors(place.open()) == {1: 6}
    assert fates(place.open().write(at(s0=2))) == {0: "sent"}
    assert cursors(place.open()) == {0: 2, 1: 6}


@sql
def test_a_table_of_an_older_release_goes_on_and_is_guarded_from_its_next_write(
    kind: Kind, place: Place
) -> None:
    place.open().write(at(s0=5, s1=6))
    by_hand(place, f"DROP TABLE {READERS.name}")
    assert cursors(place.open()) == {0: 5, 1: 6}
    assert fates(place.open().write(at(s0=4, s1=7))) == {0: "ahead", 1: "sent"}
    by_hand(place, "DELETE FROM sls_lake_checkpoint WHERE shard = 0")
    stops(place.open(), says="shard 0 is gone")


@sql
def test_who_reads_while_another_writes_sees_one_moment(kind: Kind, place: Place) -> None:
    place.open().write(at(s0=0, s1=0))

    def write() -> None:
        store = place.open()
        for cursor in range(1, 40):
            store.write({shard: Cursor(cursor) for shard in (0, 1)})
            store.place({shard: Cursor(cursor) for shard in (0, 1)})
            store.thaw({shard: Cursor(cursor) for shard in (0, 1)})

    with ThreadPoolExecutor(1) as pool:
        writing, seen = pool.submit(write), []
        while not writing.done():
            seen.append(cursors(place.open()))
        writing.result()
    assert seen and all(kept[0] == kept[1] for kept in seen) and cursors(place.open()) == {0: 39, 1: 39}


def test_the_password_of_a_database_is_in_no_name_and_no_error() -> None:
    store = SqlTable("postgresql+psycopg2://lake:geheim@127.0.0.1:9/none", of=OF, reader="dev")
    with pytest.raises(TransportError) as caught:
        store.read()
    assert "geheim" not in store.name + str(caught.value) and "127.0.0.1:9" in store.name


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nonsense", "is none: write KIND"),
        ("postgresql://u:geheim@127.0.0.1:xx/db", "is none: write KIND"),
        ("postgresql://u:ge@geheim@127.0.0.1/db", "more than one @"),
        ("oracle://u:geheim@h/d", "'oracle' is not known"),
        ("nodialect://u:geheim@h/d", "'nodialect' is not known"),
        ("mysql+nodriver://u:geheim@h/d", "is not installed here"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///file:/x.db?uri=true", "the path alone"),
    ],
)
def test_an_address_that_cannot_be_used_is_told(address: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        SqlTable(address, of=OF, reader="dev")
    assert "geheim" not in str(caught.value)
    with pytest.raises(ConfigError, match="1 to 128 characters"):
        SqlTable("sqlite:///x", of=OF, reader="d" * 129)


@pytest.mark.parametrize("query", ["password=geheim", "user=u&sslpassword=geheim", "passfile=/geheim"])
def test_a_password_behind_the_question_mark_is_in_no_name_and_no_error(query: str) -> None:
    store = SqlTable(f"postgresql://lake@127.0.0.1:9/none?{query}", of=OF, reader="dev")
    with pytest.raises(TransportError) as caught:
        store.read()
    assert "geheim" not in store.name + str(caught.value) and "127.0.0.1:9" in store.name


def test_the_kinds_of_addresses_are_those_of_the_leases() -> None:
    store = SqlTable("mysql://lake@127.0.0.1:9/none", of=OF, reader="dev")
    with pytest.raises(TransportError, match="database mysql://127"):
        store.read()


def test_looking_into_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    assert SqlTable(f"sqlite:///{tmp_path}/none.db", of=OF, reader="dev").read() == {}
    assert list(tmp_path.iterdir()) == []


# --- the service's group

only_group = pytest.mark.parametrize("kind", [KINDS[-1]], ids=lambda k: k.name)


@only_group
def test_nothing_is_forced_unless_it_was_asked_for(kind: Kind, place: Place) -> None:
    place.open().write(at(s0=5))
    assert place.client is not None
    quiet = GroupCheckpoints(place.client, "dev")
    assert quiet.read()[0].cursor == 5
    with pytest.raises(ConfigError, match="by force only"):
        quiet.write(at(s0=6))
    assert cursors(place.open()) == {0: 5}


@only_group
def test_a_shard_that_somebody_reads_is_left_to_it(kind: Kind, place: Place) -> None:
    store = place.open()
    assert place.client is not None
    held = place.client.heartbeat("dev", "consumer", ())
    assert held == {0, 1, 2, 3}
    (said,) = store.write(at(s0=5))
    assert said.fate == "held" and "'consumer' reads it" in said.why
    assert fates(store.place(at(s0=5))) == {0: "held"}
    own = GroupCheckpoints(place.client, "dev", forced=True, own="consumer")
    assert fates(own.write(at(s0=5))) == {0: "sent"}


@only_group
def test_a_refusal_of_the_service_is_one_shards(kind: Kind, place: Place) -> None:
    store = place.open()
    assert place.emulator is not None
    place.emulator.admin.fault("error", call="save_checkpoint", times=1, status=400, code="Strange")
    written = store.write(at(s0=5, s1=6, s9=7))
    assert fates(written) == {0: "failed", 1: "sent", 9: "failed"}
    assert "Strange" in written[0].why and "ShardNotExist" in written[2].why


@only_group
def test_a_group_that_is_not_there_is_no_empty_one(kind: Kind, place: Place) -> None:
    assert place.client is not None
    with pytest.raises(ServiceError, match="ConsumerGroupNotExist"):
        GroupCheckpoints(place.client, "nobody").read()
