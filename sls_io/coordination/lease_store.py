"""The leases of one group and one logstore in a database: one statement a verb, guarded in its WHERE.

A change of a lease is a test-and-set: it names the lease id that the row must still have. How many rows a
statement changed is not asked. Answers get lost, and whether a change was carried out says only the id that
is there afterwards, so every change is followed by a look.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Table,
    and_,
    case,
    delete,
    false,
    insert,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite

from sls_io.coordination.cells import StrangeCell, rows
from sls_io.coordination.database import Answer, Database
from sls_io.coordination.lease import FREE, Lease, Take, View
from sls_io.coordination.lease_tables import INSTANCES, LEASES, SIGNATURE_CHARS_MAX, STEPS, ensure, made
from sls_io.values.errors import ConfigError, StoreBroken
from sls_io.values.window import Cursor

_I, _L = INSTANCES.c, LEASES.c
_INSTANCE = (_I.worker_instance, _I.update_time)
_LEASE = (
    _L.shard_id,
    _L.lease_id,
    _L.lease_owner,
    _L.consumer_owner,
    _L.check_point,
    _L.update_time,
    _L.weight,
)
"""In the order of `Lease`'s fields."""


class LeaseStore(Protocol):
    """What a coordinator asks of the place where leases are kept.

    Each change is one statement, carried out whole or not at all. It raises TransportError when no answer
    came, and then nobody knows which; ConfigError when it can never work, StoreBroken when what is kept was
    lost or edited. Stamps are unix milliseconds.
    """

    @property
    def name(self) -> str:
        """How the place is called in messages."""
        ...

    def there(self) -> bool:
        """Whether anybody has made it ready for leases."""
        ...

    def prepare(self) -> None:
        """Make what is needed to keep leases, where it is not there yet."""
        ...

    def read(self) -> View:
        """All leases and all instances of the group."""
        ...

    def join(self, me: str, stamp_ms: int) -> None:
        """Give a sign of life of the instance `me`."""
        ...

    def forget(self, name: str, stamp_ms: int) -> None:
        """Remove an instance whose last sign of life is still this one."""
        ...

    def add(self, shards: Iterable[int]) -> None:
        """Free leases without a checkpoint, where there are none of these shards."""
        ...

    def renew(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        """A new id for those of these leases that still are of `me` and have the id that is named. The stamp
        of one that is being handed over stays: it says when it was taken."""
        ...

    def take(self, me: str, wanted: Sequence[Take], lease_id: int, stamp_ms: int) -> None:
        """Owner and a new id for those of these leases that still have the id that is named; the consumer,
        too, where they may be begun at once."""
        ...

    def consume(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        """Let `me` be the consumer of those of these leases that still have the id that is named.

        It is a sign of life of the lease, too: who works on a shard must never look silent to others.
        """
        ...

    def hand_over(self, me: str) -> None:
        """Let go of every shard that `me` consumes and another owns: its owner may begin."""
        ...

    def free(self, me: str, lease_ids: Iterable[int], stamp_ms: int, weights: Mapping[int, int]) -> None:
        """Let go of what `me` owns and consumes under these ids; its name stays on it. Those of these shards
        that have a weight are left with it."""
        ...

    def checkpoint(self, me: str, shard: int, cursor: Cursor) -> bool:
        """Save it while `me` consumes the shard and no later one is there; whether it was."""
        ...

    def close(self) -> None:
        """Let go of connections; the next verb makes new ones."""
        ...


class SqlLeases:
    """`LeaseStore` over SQLAlchemy Core. `signature` names the logstore, for ever and for all workers."""

    def __init__(self, database: Database, *, group: str, signature: str) -> None:
        if not 0 < len(signature) <= SIGNATURE_CHARS_MAX:
            raise ConfigError(f"a logstore's signature has 1 to {SIGNATURE_CHARS_MAX} characters")
        self._database, self._group, self._signature = database, group, signature

    @property
    def name(self) -> str:
        return self._database.name

    def there(self) -> bool:
        return made(self._database) is not None

    def is_newest(self) -> bool:
        """Whether the tables are as this release has them: the next claim changes nothing of them."""
        return made(self._database) == STEPS[-1]

    def prepare(self) -> None:
        ensure(self._database)

    def read(self) -> View:
        return self._ask(self._read)

    def _read(self, connection: Connection) -> View:
        try:
            leases = rows(connection, LEASES, _LEASE, and_(*self._here(LEASES)))
            instances = rows(connection, INSTANCES, _INSTANCE, and_(*self._here(INSTANCES)))
        except StrangeCell as error:
            raise self._strange(error) from None
        return View({row[0]: Lease(*row) for row in leases}, dict(instances))

    def _strange(self, error: StrangeCell) -> StoreBroken:
        return StoreBroken(
            f"database {self.name}: {error}: it was edited. The row is of the group {self._group!r} and "
            f"the logstore {self._signature!r}. Put it right, or restore the table from a copy; or delete "
            "that row: the next claim makes it anew, without the checkpoint that was in it, which a landing "
            "publishes again. Nothing of it was taken"
        )

    def join(self, me: str, stamp_ms: int) -> None:
        me_now = {"worker_instance": me, "create_time": stamp_ms, "update_time": stamp_ms}
        self._insert(INSTANCES, [me_now], newer="update_time")

    def forget(self, name: str, stamp_ms: int) -> None:
        here = self._here(INSTANCES)
        self._do(delete(INSTANCES).where(*here, _I.worker_instance == name, _I.update_time == stamp_ms))

    def add(self, shards: Iterable[int]) -> None:
        new = {"lease_id": FREE, "lease_owner": "", "consumer_owner": "", "update_time": 0}
        if free := [{**new, "shard_id": shard} for shard in shards]:
            self._insert(LEASES, free)

    def renew(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        begun = _L.consumer_owner.in_(("", me))
        if owned:
            self._do(
                update(LEASES)
                .where(*self._here(LEASES), _L.lease_owner == me, _unchanged(owned))
                .values(lease_id=lease_id, update_time=case((begun, stamp_ms), else_=_L.update_time))
            )

    def take(self, me: str, wanted: Sequence[Take], lease_id: int, stamp_ms: int) -> None:
        ids = {take.shard: take.lease_id for take in wanted}
        at_once = _L.shard_id.in_([take.shard for take in wanted if take.at_once])
        if ids:
            self._do(
                update(LEASES)
                .where(*self._here(LEASES), _unchanged(ids))
                .values(
                    lease_id=lease_id,
                    lease_owner=me,
                    consumer_owner=case((at_once, me), else_=_L.consumer_owner),
                    update_time=stamp_ms,
                )
            )

    def consume(self, me: str, owned: Mapping[int, int], lease_id: int, stamp_ms: int) -> None:
        if owned:
            mine = (*self._here(LEASES), _L.lease_owner == me, _unchanged(owned))
            begun = {"lease_id": lease_id, "consumer_owner": me, "update_time": stamp_ms}
            self._do(update(LEASES).where(*mine).values(begun))

    def hand_over(self, me: str) -> None:
        here = (*self._here(LEASES), _L.consumer_owner == me, _L.lease_owner != me)
        self._do(update(LEASES).where(*here).values(consumer_owner=""))

    def free(self, me: str, lease_ids: Iterable[int], stamp_ms: int, weights: Mapping[int, int]) -> None:
        weighed = {"weight": case(dict(weights), value=_L.shard_id, else_=_L.weight)} if weights else {}
        held = (_L.lease_owner == me, _L.consumer_owner == me, _L.lease_id.in_(list(lease_ids)))
        self._do(
            update(LEASES)
            .where(*self._here(LEASES), *held)
            .values(lease_id=FREE, consumer_owner="", update_time=stamp_ms, **weighed)
        )

    def checkpoint(self, me: str, shard: int, cursor: Cursor) -> bool:
        later = _L.check_point.is_(None) | (_L.check_point <= cursor)
        return self._do(
            update(LEASES)
            .where(*self._here(LEASES), _L.shard_id == shard, _L.consumer_owner == me, later)
            .values(check_point=int(cursor))
        )

    def try_all(self) -> None:
        """All that the verbs above write, of no row: whether the database lets us. Raises as they do."""
        # A database looks at rights, and whether it takes writes at all, before it looks for rows.
        for table in (LEASES, INSTANCES):
            none = (*self._here(table), false())
            self._do(insert(table).from_select(list(table.c), select(table).where(*none)))
            self._do(update(table).where(*none).values(update_time=0))
        self._do(delete(INSTANCES).where(*self._here(INSTANCES), false()))

    def close(self) -> None:
        self._database.close()

    # --- below

    def _here(self, table: Table) -> tuple[ColumnElement[bool], ...]:
        return table.c.consume_group == self._group, table.c.logstream_sig == self._signature

    def _do(self, statement: Any) -> bool:
        return self._ask(lambda connection: connection.execute(statement).rowcount > 0)

    def _ask(self, call: Callable[[Connection], Answer]) -> Answer:
        """Ask the database. Where it refuses, its tables or their rows are not what they were: which, they
        say themselves."""
        try:
            return self._database.ask(call)
        except ConfigError:
            if made(self._database):
                self._database.ask(self._read)
            raise

    def _insert(self, table: Table, some: list[dict[str, object]], newer: str = "") -> None:
        """Insert these rows; where there are such, leave them, or write the column `newer` only.

        What is there already is no error: two workers may add the same shard at once, and both want the row,
        whoever made it.
        """
        here = {"consume_group": self._group, "logstream_sig": self._signature}
        values = [{**here, **row} for row in some]
        statement: Insert
        if self._database.kind == "mysql":
            inserted = mysql.insert(table).values(values)
            kept = newer or "consume_group"
            statement = inserted.on_duplicate_key_update({kept: inserted.inserted[kept]})
        else:
            dialect = postgresql if self._database.kind == "postgresql" else sqlite
            into = dialect.insert(table).values(values)
            key = [column.name for column in table.primary_key]
            statement = (
                into.on_conflict_do_update(index_elements=key, set_={newer: into.excluded[newer]})
                if newer
                else into.on_conflict_do_nothing(index_elements=key)
            )
        self._do(statement)


def _unchanged(ids: Mapping[int, int]) -> ColumnElement[bool]:
    """The rows of these shards that still have these lease ids."""
    if len(set(ids.values())) == 1:
        return _L.shard_id.in_(list(ids)) & (_L.lease_id == next(iter(ids.values())))
    return tuple_(_L.shard_id, _L.lease_id).in_(list(ids.items()))
