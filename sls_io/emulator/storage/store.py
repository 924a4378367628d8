"""Projects, logstores, shards and the positions of LogGroups: pure, no I/O, time is an argument.

A LogGroup is opaque here: the store knows its cursor, its receive second, its framed size and a
`place` that only the edge understands (bytes in memory, a position in a segment file).

Rules:
- cursors of a shard rise by one per LogGroup from a non-zero base; a jump may widen the step, as
  the real service does when a shard changes its machine, so a page ends before a jump;
- receive seconds never go back inside a shard, even when the clock is set back;
- key ranges of the writable shards tile [00..00, ff..ff); new shards get the next unused ids;
- every change is also put on `changes`, as a plain value that `apply` can repeat after a restart.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sls_io.emulator.storage.groups import ConsumerGroup, Shape
from sls_io.emulator.storage.refusal import (
    Refused,
    no_logstore,
    no_project,
    no_shard,
    parameter_invalid,
)
from sls_io.emulator.storage.shard_log import Change, Place, ShardLog
from sls_io.values.shard import KEY_MAX, ancestors

DAY_S = 86_400
TTL_FOREVER_DAYS = 3650
SHARDS_MAX = 256
CURSOR_MAX = 9_000_000_000_000_000_000
"""Cursors are kept in 64 bits with a sign: above it a jump would make a shard that nobody can read."""
_KEY = re.compile(r"[0-9a-f]{32}")
_PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_LOGSTORE = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
_KEYS = 1 << 128


@dataclass(slots=True)
class StoredLogstore:
    """A logstore: its settings, its shards (gone ones are absent) and its consumer groups."""

    uid: int
    project: str
    name: str
    created_s: float
    modified_s: float
    ttl_days: int
    settings: Change
    next_shard: int = 0
    version: int = 0
    shards: dict[int, ShardLog] = field(default_factory=dict)
    groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    turn: int = 0
    deleted: list[tuple[int, int]] = field(default_factory=list)
    """Seconds of log time, the ends not included, whose logs are deleted softly."""
    _shape: Shape | None = None

    def shard(self, shard: int, *, status: int = 400) -> ShardLog:
        """The shard, or ShardNotExist with `status`."""
        found = self.shards.get(shard)
        if found is None:
            raise no_shard(shard, status=status)
        return found

    def writable(self) -> list[ShardLog]:
        """Shards that take writes, by key."""
        return sorted((s for s in self.shards.values() if not s.readonly), key=lambda s: s.begin_key)

    def route(self, key: str | None) -> ShardLog:
        """Where a write goes: by hash key, or to each shard in turn.

        Shards that take writes tile the keys, so the last one that begins at or before a key has it.

        Worked example: four shards begin at 0, 4, 8 and c (with 31 zeros). The key 4000... is shard 1's,
        3fff... shard 0's, ffff... shard 3's. Five writes without a key go to 0, 1, 2, 3 and 0.
        """
        open_shards = self.writable()
        if not open_shards:
            raise Refused(400, "LogStoreWithoutShard", f"logstore {self.name} has no shard that takes writes")
        if key is None:
            self.turn += 1
            return open_shards[(self.turn - 1) % len(open_shards)]
        lowered = key.lower()
        if not _KEY.fullmatch(lowered):
            raise parameter_invalid("key: expected 32 hex digits")
        return [s for s in open_shards if s.begin_key <= lowered][-1]

    def shape(self) -> Shape:
        """What consumer groups need of the shards; the same value until a shard changes.

        Heartbeats ask for it each time, and lineage is worked out only after a change.
        """
        if self._shape is None or self._shape.version != self.version:
            above = ancestors(s.value() for s in self.shards.values())
            ends = {s.id: s.next if s.readonly else None for s in self.shards.values()}
            self._shape = Shape(self.version, above, ends)
        return self._shape

    def doc(self) -> Change:
        """All but groups and LogGroups."""
        return {
            "uid": self.uid, "project": self.project, "name": self.name, "created_s": self.created_s,
            "modified_s": self.modified_s, "ttl_days": self.ttl_days, "settings": self.settings,
            "next_shard": self.next_shard, "version": self.version,
            "deleted": self.deleted, "shards": [s.doc() for s in self.shards.values()],
        }  # fmt: skip


class Store:
    """All projects. `changes` collects what to write down; the edge drains it after each call.

    `numbered` promises places that are whole numbers below 2**63: then a LogGroup costs 32 bytes here.
    """

    def __init__(self, *, numbered: bool = False) -> None:
        self._numbered = numbered
        self.projects: dict[str, Change] = {}
        self.logstores: dict[tuple[str, str], StoredLogstore] = {}
        self.by_uid: dict[int, StoredLogstore] = {}
        self.changes: list[Change] = []
        self.released: list[Place] = []
        self.clock: Change = {}
        self.next_uid = 1

    def create_project(self, name: str, settings: Change, now: float) -> None:
        """With what is only kept of it. 400 ProjectAlreadyExist when it is there."""
        if not _PROJECT.fullmatch(name):
            raise parameter_invalid("projectName: 3 to 63 lower-case letters, digits and inner hyphens")
        if name in self.projects:
            raise Refused(400, "ProjectAlreadyExist", f"Project {name} already exist")
        self._project({"name": name, "description": "", **settings, "created_s": now, "modified_s": now})

    def update_project(self, name: str, settings: Change, now: float) -> None:
        """Change what is only kept of it."""
        self._project({**self.project(name), **settings, "modified_s": now})

    def project(self, name: str) -> Change:
        """The project's facts, or ProjectNotExist."""
        if name not in self.projects:
            raise no_project(name)
        return self.projects[name]

    def disabled(self, project: str) -> bool:
        """Whether the project is there and may not be used, as one whose account is overdue."""
        return self.projects.get(project, {}).get("status") == "Disable"

    def delete_project(self, name: str) -> None:
        """With all its logstores."""
        self.project(name)
        for logstore in self.in_project(name):
            self.delete_logstore(name, logstore.name)
        del self.projects[name]
        self.changes.append({"op": "drop_project", "name": name})

    def in_project(self, project: str) -> list[StoredLogstore]:
        """The project's logstores by name."""
        self.project(project)
        return [self.logstores[key] for key in sorted(self.logstores) if key[0] == project]

    def create_logstore(
        self, project: str, name: str, ttl_days: int, shard_count: int, settings: Change, now: float
    ) -> StoredLogstore:
        """With `shard_count` shards of equal key ranges. LogStoreAlreadyExist when it is there."""
        self.project(project)
        if not _LOGSTORE.fullmatch(name):
            raise Refused(
                400, "LogStoreInfoInvalid", "logstoreName: 3 to 63 lower-case letters, digits, '-' and '_'"
            )
        if (project, name) in self.logstores:
            raise Refused(400, "LogStoreAlreadyExist", f"logstore {name} already exists")
        if not 1 <= shard_count <= SHARDS_MAX or not 1 <= ttl_days <= TTL_FOREVER_DAYS:
            raise Refused(
                400, "LogStoreInfoInvalid", f"shardCount: 1..{SHARDS_MAX}; ttl: 1..{TTL_FOREVER_DAYS} days"
            )
        logstore = StoredLogstore(self.next_uid, project, name, now, now, ttl_days, settings)
        self.next_uid += 1
        edges = [_KEYS * i // shard_count for i in range(shard_count)]
        self._add_shards(logstore, [_hex(e) for e in edges] + [KEY_MAX], now)
        self._keep(logstore)
        return logstore

    def update_logstore(self, logstore: StoredLogstore, ttl_days: int, settings: Change, now: float) -> None:
        """Change retention and the settings that are only kept."""
        if not 1 <= ttl_days <= TTL_FOREVER_DAYS:
            raise Refused(400, "LogStoreInfoInvalid", f"ttl: 1..{TTL_FOREVER_DAYS} days")
        logstore.ttl_days, logstore.modified_s = ttl_days, now
        logstore.settings = {**logstore.settings, **settings}
        self._keep(logstore)

    def delete_softly(self, logstore: StoredLogstore, begin_s: int, end_s: int) -> None:
        """Mark the logs of these seconds as deleted."""
        logstore.deleted.append((begin_s, end_s))
        self._keep(logstore)

    def logstore(self, project: str, name: str, now: float | None = None) -> StoredLogstore:
        """The logstore, with retention applied as of `now`."""
        found = self.logstores.get((project, name))
        if found is None:
            self.project(project)
            raise no_logstore(name)
        if now is not None and found.ttl_days < TTL_FOREVER_DAYS:
            self.expire(found, int(now) - found.ttl_days * DAY_S)
        return found

    def delete_logstore(self, project: str, name: str) -> None:
        """With all its shards, groups and LogGroups."""
        logstore = self.logstore(project, name)
        for shard in logstore.shards.values():
            self.released += shard.places
        self._forget(logstore)
        self.changes.append({"op": "drop_logstore", "uid": logstore.uid})

    def split(
        self, logstore: StoredLogstore, shard: int, now: float, *, key: str = "", count: int = 2
    ) -> list[ShardLog]:
        """Parent first, then the children; evenly into `count` when no key is given.

        The last key stands for one behind it: 128 bits of ones are the end of the keys and no key. So the
        middle of all keys is 8000..., and not 7fff....

        Worked example: the one shard of a new logstore is split evenly: [0000..., 8000...) and [8000...,
        ffff...). A quarter, [0000..., 4000...), in three ends at 1555..., 2aaa... and 4000.... The parent
        keeps its groups and its number and takes no more writes; the children have the next numbers,
        whatever was deleted before.
        """
        parent = self._open(logstore, shard)
        begin, end = int(parent.begin_key, 16), int(parent.end_key, 16)
        if key:
            if not _KEY.fullmatch(key.lower()) or not parent.begin_key < key.lower() < parent.end_key:
                raise parameter_invalid("invalid mid hash")
            middle = [key.lower()]
        else:
            if not 2 <= count <= SHARDS_MAX or end - begin < count:
                raise parameter_invalid("invalid shard count")
            whole = end + (parent.end_key == KEY_MAX)
            middle = [_hex(begin + (whole - begin) * i // count) for i in range(1, count)]
        parent.closed_s = now
        children = self._add_shards(logstore, [parent.begin_key, *middle, parent.end_key], now)
        self._keep(logstore)
        return [parent, *children]

    def merge(self, logstore: StoredLogstore, shard: int, now: float) -> list[ShardLog]:
        """The new shard first, then its two parents: `shard` and its right neighbour."""
        left = self._open(logstore, shard)
        right = next((s for s in logstore.writable() if s.begin_key == left.end_key), None)
        if right is None:
            raise parameter_invalid("can not merge the last shard")
        left.closed_s = right.closed_s = now
        children = self._add_shards(logstore, [left.begin_key, right.end_key], now)
        self._keep(logstore)
        return [*children, left, right]

    def delete_shard(self, logstore: StoredLogstore, shard: int) -> None:
        """Only a readonly shard may go, with what it holds."""
        log = logstore.shard(shard)
        if not log.readonly:
            raise parameter_invalid("only a readonly shard can be deleted")
        self._drop_shard(logstore, log)
        self._keep(logstore)

    def expire(self, logstore: StoredLogstore, before_s: int) -> None:
        """Remove groups received before `before_s`, then readonly shards that are empty and older.

        A read-only shard goes once it is empty and was closed before that time, as retention takes one.

        Worked example: the logs of a shard are from seconds 100, 200 and 300, and it was closed at 310.
        Before 250: two groups go. Before 305: the last one goes, and the shard stays, empty and listed.
        Before 311: it goes.
        """
        for shard in list(logstore.shards.values()):
            if shard.times and shard.times[0] < before_s:
                self.trim(logstore, shard, shard.at_time(before_s))
            if shard.closed_s is not None and not shard.times and shard.closed_s < before_s:
                self._drop_shard(logstore, shard)
                self._keep(logstore)

    def trim(self, logstore: StoredLogstore, shard: ShardLog, cursor: int) -> None:
        """Remove groups before `cursor`."""
        self.released += shard.trim(cursor)
        self.changes.append({"op": "trim", "uid": logstore.uid, "shard": shard.id, "cursor": cursor})

    def jump(self, logstore: StoredLogstore, shard: int, step: int) -> None:
        """The next write gets a cursor `step` further on. Refused beyond CURSOR_MAX."""
        log = logstore.shard(shard)
        if log.next + step > CURSOR_MAX:
            raise parameter_invalid(f"step: the next cursor would be above {CURSOR_MAX}")
        log.next += step
        logstore.version += 1
        self._keep(logstore)

    def group_changed(self, logstore: StoredLogstore, group: ConsumerGroup) -> None:
        """Write the group down as it is now."""
        group.changed = False
        self.changes.append({"op": "group", "uid": logstore.uid, "doc": group.doc()})

    def drop_group(self, logstore: StoredLogstore, name: str) -> None:
        """Forget a consumer group."""
        del logstore.groups[name]
        self.changes.append({"op": "drop_group", "uid": logstore.uid, "name": name})

    def snapshot(self) -> list[Change]:
        """Changes that make all but the LogGroups.

        In this order, since `apply` needs it: a group's change finds its logstore by number. `next_uid`
        comes last and for itself: the logstore with the highest number may be deleted, and its LogGroups,
        still in an older segment, must never be taken for those of a new one.
        """
        found: list[Change] = [{"op": "project", "doc": p} for p in self.projects.values()]
        for logstore in self.logstores.values():
            found.append({"op": "logstore", "doc": logstore.doc()})
            found += ({"op": "group", "uid": logstore.uid, "doc": g.doc()} for g in logstore.groups.values())
        return [*found, {"op": "clock", "doc": self.clock}, {"op": "next_uid", "value": self.next_uid}]

    def restore(self, snapshot: list[Change], now: float) -> None:
        """Make everything but the LogGroups what `snapshot` says; what it lacks was deleted.

        Each segment begins with a snapshot. So what older segments said and it lacks was dropped meanwhile,
        and its LogGroups are let go of.
        """
        kept = {change["doc"]["uid"] for change in snapshot if change["op"] == "logstore"}
        for logstore in list(self.by_uid.values()):
            logstore.groups.clear()
            if logstore.uid not in kept:
                self.released += (p for s in logstore.shards.values() for p in s.places)
                self._forget(logstore)
        self.projects.clear()
        for change in snapshot:
            self.apply(change, now)

    def restore_group(self, uid: int, shard: int, cursor: int, time_s: int, place: Place, size: int) -> bool:
        """Add a LogGroup read back; False when it has no shard, or one that is beyond it already."""
        logstore = self.by_uid.get(uid)
        log = logstore.shards.get(shard) if logstore else None
        if log is None or (log.cursors and cursor <= log.cursors[-1]):
            return False
        log.restore(cursor, time_s, place, size)
        return True

    def apply(self, change: Mapping[str, Any], now: float) -> None:
        """Repeat one change read back; groups' members are taken as seen at `now`."""
        op = change["op"]
        if op == "project":
            self.projects[change["doc"]["name"]] = dict(change["doc"])
        elif op == "drop_project":
            self.projects.pop(change["name"], None)
        elif op == "logstore":
            self._restore(change["doc"])
        elif op == "clock":
            self.clock = dict(change["doc"])
        elif op == "next_uid":
            self.next_uid = max(self.next_uid, change["value"])
        elif (logstore := self.by_uid.get(change.get("uid", 0))) is not None:
            self._apply_to(logstore, change, now)

    def _apply_to(self, logstore: StoredLogstore, change: Mapping[str, Any], now: float) -> None:
        """The same of a change of one logstore.

        Of what is not there any more a change says nothing: a group's checkpoint may be behind its dropping.
        """
        op = change["op"]
        if op == "drop_logstore":
            self.released += (p for s in logstore.shards.values() for p in s.places)
            self._forget(logstore)
        elif op == "trim" and change["shard"] in logstore.shards:
            self.released += logstore.shards[change["shard"]].trim(change["cursor"])
        elif op == "group":
            group = ConsumerGroup.from_doc(change["doc"], now)
            logstore.groups[group.name] = group
        elif op == "checkpoint" and change["group"] in logstore.groups:
            logstore.groups[change["group"]].restore_checkpoint(change)
        elif op == "drop_group":
            logstore.groups.pop(change["name"], None)

    def _project(self, doc: Change) -> None:
        self.projects[doc["name"]] = doc
        self.changes.append({"op": "project", "doc": doc})

    def _open(self, logstore: StoredLogstore, shard: int) -> ShardLog:
        found = logstore.shards.get(shard)
        if found is None or found.readonly:
            raise parameter_invalid("invalid shard id")
        return found

    def _add_shards(self, logstore: StoredLogstore, edges: list[str], now: float) -> list[ShardLog]:
        added = []
        for begin, end in pairwise(edges):
            base = _base(logstore, now)
            shard = ShardLog(logstore.next_shard, begin, end, now, base, numbered=self._numbered)
            logstore.shards[shard.id] = shard
            logstore.next_shard += 1
            added.append(shard)
        return added

    def _drop_shard(self, logstore: StoredLogstore, shard: ShardLog) -> None:
        self.released += shard.places
        del logstore.shards[shard.id]

    def _keep(self, logstore: StoredLogstore) -> None:
        logstore.version += 1
        self.logstores[logstore.project, logstore.name] = logstore
        self.by_uid[logstore.uid] = logstore
        self.changes.append({"op": "logstore", "doc": logstore.doc()})

    def _forget(self, logstore: StoredLogstore) -> None:
        self.logstores.pop((logstore.project, logstore.name), None)
        self.by_uid.pop(logstore.uid, None)

    def _restore(self, doc: Mapping[str, Any]) -> None:
        """A logstore's document says its shards without their LogGroups, so those that are known keep theirs;
        what the document begins later, or does not name, is let go of."""
        plain = {key: value for key, value in doc.items() if key != "shards"}
        known = self.by_uid.get(doc["uid"])
        logstore = StoredLogstore(**plain, groups=known.groups if known else {})
        before = dict(known.shards) if known else {}
        for facts in doc["shards"]:
            shard = before.pop(facts["id"], None) or ShardLog(
                facts["id"], facts["begin_key"], facts["end_key"], facts["created_s"], facts["base"],
                numbered=self._numbered,
            )  # fmt: skip
            shard.closed_s, shard.next = facts["closed_s"], max(shard.next, facts["next"])
            self.released += shard.trim(facts["begin"])
            logstore.shards[shard.id] = shard
        self.released += (p for gone in before.values() for p in gone.places)
        self.logstores[logstore.project, logstore.name] = self.by_uid[logstore.uid] = logstore
        self.next_uid = max(self.next_uid, logstore.uid + 1)


def _hex(value: int) -> str:
    return f"{value:032x}"


def _base(logstore: StoredLogstore, now: float) -> int:
    """First cursor of a shard: looks like nanoseconds of its creation, differs between shards.

    Worked example: shards 0 and 1 of demo/logs, made at 1790000000, begin at 1790000000172729404 and
    1790000000135979178. A client that takes one shard's cursor for another's is refused or reads nothing,
    where cursors that all began at 0 would hide its mistake.
    """
    salt = zlib.crc32(f"{logstore.project}/{logstore.name}/{logstore.next_shard}".encode())
    return max(int(now), 1) * 1_000_000_000 + salt % 1_000_000_000
