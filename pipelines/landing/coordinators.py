"""How a logstore's shards are held, and where its checkpoints are, as its settings `shards` and `coordinator`
say; and the places that keep positions of others, as words: in the setting `mirror`, and where somebody types
them.

    group[:NAME]       a consumer group of the service, the logstore's own unless it is said
    file:PATH          a document on this machine
    sql:ADDRESS        a table in a database, without a password
    sql:env:VARIABLE   the same, at the address in an environment variable

Whoever names its `shards` holds them by declaration: it joins nobody, and keeps no checkpoint but the table.
Its group, or its database of leases, is where it looks first whether somebody else holds one of them.

Leases, files and databases keep a logstore under its origin's id. `known_as` is the one by which the table
has it (`ledger/start.py`), "" where there is no table: after a relabelling that is another one than today's
parts make, and what was kept before would be another logstore's.
"""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from sls_io.checkpoints.group import GroupCheckpoints
from sls_io.checkpoints.local_file import LocalFile
from sls_io.checkpoints.store import CheckpointStore
from sls_io.coordination.lease import ConsumerState
from sls_io.coordination.server_group import ServerGroup
from sls_io.coordination.static import Static
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Call, Do
from sls_io.values.errors import NO_GROUP_CODE, ClaimLost, ConfigError, ServiceError, amount, printable
from sls_io.values.settings import is_group_name
from sls_io.wire.client import GroupCheckpoint, SlsClient

if TYPE_CHECKING:
    from sls_io.coordination.sql_lease import SqlLease

KEPT_IN = ("group", "file", "sql")
"""Kinds of places that keep positions."""
GROUP_NAME = "a group's name: letters, digits, '_', '-', '.', at most 128"
_FILE = "sqlite:////"


def coordinator_of(
    logstore: Logstore, client: SlsClient, clock: Clock = SYSTEM_CLOCK, *, known_as: str = ""
) -> "ServerGroup | SqlLease | Static":
    """What holds shards for a live run. Nothing is asked before its first call.

    Raises ConfigError when the database of leases has no usable address.
    """
    if logstore.shards is not None:
        return Static(logstore.shards)
    if not logstore.coordinator.leases:
        return ServerGroup(client, logstore.group, clock=clock)
    return _leases(logstore, client, clock, known_as)


@dataclass(frozen=True)
class Standing:
    """What the coordinator says of the shards it knows, as of one look: their checkpoints, and who is how far
    with which shard, where leases say so; the service's group does not. `signs_s`: of each lease, when
    anybody last showed that it lives, unix seconds by the holder's own clock."""

    checkpoints: Mapping[int, GroupCheckpoint]
    consumers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    signs_s: Mapping[int, float] = field(default_factory=dict)


def standing(logstore: Logstore, client: SlsClient, *, known_as: str = "") -> Standing:
    """Look at what the coordinator knows, once; nothing is joined.

    Raises when it cannot be read: a ServiceError, also for a group that is not there, or what the database
    says. Tables of leases that nobody has made yet are no error and have none.
    """
    if not logstore.coordinator.leases:
        return Standing(client.checkpoints(logstore.group.name))
    with closing(_leases(logstore, client, SYSTEM_CLOCK, known_as)) as leases:
        view = leases.look()
    rows = view.leases
    return Standing(
        {
            shard: GroupCheckpoint(shard, one.checkpoint, one.stamp_ms * 1000, one.consumer or one.owner)
            for shard, one in rows.items()
        },
        {shard: {name: str(how) for name, how in one.states().items()} for shard, one in rows.items()},
        {shard: view.sign_ms(shard) / 1000 for shard in rows},
    )


def leases_rehearsed(logstore: Logstore, client: SlsClient) -> str:
    """What a claim reads and writes of leases, tried without a change where there are any. Raises as a claim
    that the database refuses."""
    from sls_io.coordination.database import Database
    from sls_io.coordination.lease_store import SqlLeases

    group = logstore.group
    database = Database(_address(logstore), deadline_s=group.heartbeat_s)
    with closing(SqlLeases(database, group=group.name, signature=client.origin().id)) as leases:
        if not leases.there():
            return "it answers; the first claim makes its tables"
        if not leases.is_newest():
            return "it answers; the first claim changes its tables, and older releases can use them no more"
        leases.try_all()
        return f"it answers, takes writes, and knows {amount(len(leases.read().leases), 'shard')}"


def standing_if_there(logstore: Logstore, client: SlsClient, *, known_as: str = "") -> Standing:
    """The same; a group that is not there knows of no shard: the first run makes it."""
    try:
        return standing(logstore, client, known_as=known_as)
    except ServiceError as error:
        if error.code == NO_GROUP_CODE:
            return Standing({})
        raise


def published(logstore: Logstore, client: SlsClient, *, known_as: str = "") -> Mapping[int, GroupCheckpoint]:
    """The checkpoint of every shard that the coordinator knows; as `standing`."""
    return standing(logstore, client, known_as=known_as).checkpoints


def holders(
    logstore: Logstore, client: SlsClient, *, since_s: float = 0.0, known_as: str = ""
) -> Mapping[int, tuple[str, ...]]:
    """Who is at work in each shard, by name, as the group or the leases say; without shards that nobody has,
    and without leases that nobody renewed since `since_s` (unix seconds).

    A lease that was let go keeps a name, and so is asked how far its holder is. Raises as `standing`, but a
    group that is not there has no holders.
    """
    now = standing_if_there(logstore, client, known_as=known_as)
    if logstore.coordinator.leases:
        done = ConsumerState.STOP_COMPLETED
        found = {s: tuple(n for n, how in one.items() if how != done) for s, one in now.consumers.items()}
        found = {s: names for s, names in found.items() if now.signs_s[s] >= since_s}
    else:
        found = {s: (point.holder,) for s, point in now.checkpoints.items() if point.holder}
    return {shard: names for shard, names in found.items() if names}


def check_unheld(
    logstore: Logstore, client: SlsClient, clock: Clock = SYSTEM_CLOCK, *, known_as: str = ""
) -> None:
    """Raises ClaimLost, naming who holds it and the way out, where one of the settings' `shards` is held.

    Both would read it, and each window that one of them lands the other one pulls for nothing. One look, so
    a reader that joins later is not seen, and the age of a lease is by two clocks: it saves work and protects
    no data, the fence is in the table's commit.

    Its own name counts, too: a landing of this deployment from before `shards` was written may be at work.
    """
    if logstore.shards is None:
        return
    group, held = logstore.group, dict[str, list[str]]()
    found = holders(logstore, client, since_s=clock.now() - group.timeout_s, known_as=known_as)
    for shard, names in sorted(found.items()):
        for name in names if shard in logstore.shards else ():
            held.setdefault(name, []).append(str(shard))
    if not held:
        return
    own = {group.holder: " (a run of this deployment, from before `shards` was written)"}
    who = "; ".join(
        f"{name!r} holds {', '.join(shards)}{own.get(name, '')}" for name, shards in sorted(held.items())
    )
    raise ClaimLost(
        f"`shards` names shards that group {group.name!r} has given to readers: {who}. Nothing was landed. "
        f"End that reader: its shards are free {group.timeout_s} s after its last sign of life, or what the "
        "group's own timeout is. Or take them out of `shards`",
        cures=(Do(f"give `group` a name that nobody reads with, where {group.name!r} is to go on"),),
    )


def _leases(logstore: Logstore, client: SlsClient, clock: Clock, known_as: str) -> "SqlLease":
    from sls_io.coordination.sql_lease import SqlLease

    # Nothing comes to a closed shard: whoever counts shards must not count it as work beside an open one.
    weighs = logstore.coordinator.weighs
    return SqlLease.at(
        _address(logstore),
        logstore.group,
        lambda: {shard.id: None if weighs else int(not shard.readonly) for shard in client.shards()},
        signature=known_as or client.origin().id,
        assignor=logstore.coordinator.assignor,
        clock=clock,
    )


def _address(logstore: Logstore) -> str:
    """Where the leases are; an address with a password comes from the environment and goes nowhere else."""
    setting = logstore.coordinator
    if not setting.variable:
        return setting.database
    address = os.environ.get(setting.variable, "")
    if not address:
        raise ConfigError(
            f"coordinator.database: the environment variable {setting.variable} is not set; export "
            "the address of the database of leases in it, wherever runs start"
        )
    if address.startswith("sqlite:") and not address.startswith(_FILE):
        raise ConfigError(
            f"{setting.variable}: name the file of leases from the root on ({_FILE}...); each process "
            "has a folder of its own"
        )
    return address


# --- places that keep positions


def kept_in(
    where: str,
    logstore: Logstore,
    client: SlsClient,
    *,
    reader: str | None = None,
    written: bool = False,
    known_as: str = "",
) -> CheckpointStore:
    """The store that `where` names. `reader` is the group's name unless it is said; `written`: something is
    copied to it.

    Raises ConfigError for what names none, and for a password in the words.
    """
    kind, _, rest = where.partition(":")
    name = reader or logstore.group.name
    if kind == "group":
        return _group(rest or name, logstore, client, written=written)
    of, filled_by = known_as or client.origin().id, _filled_by(logstore, where, name)
    if kind == "file" and rest:
        return LocalFile(Path(rest).expanduser(), of=of, reader=name, filled_by=filled_by)
    if kind == "sql" and rest:
        from sls_io.checkpoints.sql_table import SqlTable

        return SqlTable(_database(rest), of=of, reader=name, filled_by=filled_by)
    raise ConfigError(f"no place that keeps positions: {printable(kind)!r}")


def _group(name: str, logstore: Logstore, client: SlsClient, *, written: bool) -> CheckpointStore:
    if _beside_leases(logstore, name):
        raise ConfigError(
            f"runs of {logstore.name} keep their checkpoints beside leases, not in a consumer group",
            cures=(
                commands.DESCRIBE.plus(does="shows them"),
                commands.PUBLISH.plus(does="publishes them"),
                Do("name another group or store"),
            ),
        )
    if not is_group_name(name):
        raise ConfigError(GROUP_NAME)
    return GroupCheckpoints(client, name, forced=written)


def _beside_leases(logstore: Logstore, group: str) -> bool:
    """Whether the logstore's runs keep the checkpoints of this group in a database, not in the service."""
    return logstore.coordinator.leases and group == logstore.group.name


def _filled_by(logstore: Logstore, where: str, reader: str) -> str:
    """The call that fills a new store in the place of one that is lost, from the consumer group of its
    reader; "" where that is none. `where` as it was typed: `_database` has refused one with a password."""
    if _beside_leases(logstore, reader) or not is_group_name(reader):
        return ""
    named = ("--from", f"group:{reader}", "--to", where, "--reader", reader, "--forward-only")
    return commands.shown(Call(("checkpoints", "set", *named), harmless=True), logstore.option)


def _database(text: str) -> str:
    """An address of a database. A password in it would stand in the list of processes and in histories."""
    from sls_io.coordination.database import parsed, secrets_of

    kind, _, name = text.partition(":")
    if kind == "env":
        if not os.environ.get(name):
            raise ConfigError(f"the environment variable {printable(name)} is not set: it names the database")
        return os.environ[name]
    if secrets_of(parsed(text)):
        raise ConfigError(
            "a password on a command line is seen by everybody on this machine: put the address into an "
            "environment variable, and write sql:env:ITS_NAME"
        )
    return text
