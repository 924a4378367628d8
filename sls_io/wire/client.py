"""The calls we use, typed, for one logstore.

The control plane returns small frozen values. The data plane returns a page as it came:
compressed body, and what its headers say of it. Nothing is decoded here, and no answer is taken
for granted: one that is not what the protocol says raises instead of becoming "nothing there".

An empty answer that is believed is how data is lost. Story: a gateway answers ListShards with 200 and `{}`.
Taken for "no shards", every shard would look as if retention had taken it. So each field is read by its
type, a list that names one shard twice is refused, and what does not fit is a `BadResponse`, which a later
run asks again.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ClaimLost, ConfigError, CursorExpired, DecodeError, ServiceError, ShardGone
from sls_io.values.settings import PAGE_GROUPS_MAX, Group, Service
from sls_io.values.shard import Head, Shard
from sls_io.values.window import Cursor, cursor_from_wire, cursor_to_wire
from sls_io.wire import loggroup
from sls_io.wire.json_body import NOT_JSON, parse_json, whole_number
from sls_io.wire.page import Page, contradiction
from sls_io.wire.transport import Transport

_NOT_A_MEMBER = frozenset({"NotExistConsumerWithBody"})
_NOT_THE_HOLDER = frozenset({"ConsumerNotMatch", "ConsumerNotExist", "ConsumerNotExsit"})
_SECONDS_MAX = 10**11
_FOREVER_DAYS = 3650
_CURSOR_MAX = 2**63 - 2
"""The largest whole number of 63 bits is taken: it stands for the end that nobody knows."""
_LAST_S = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Identity of a logstore. One that is deleted and made again is another origin.

    `known_as` is the id under which a table has it, where that is not the one made of today's parts.

    Worked example: `access_logs` of project demo in cn-hangzhou, made at 1790000000, is
    `access_logs-d82cc884`; the same made again a second later is `access_logs-8a9e6d00`. So its cursors,
    which begin anew, are never compared with those of the one before.
    """

    region: str
    project: str
    logstore: str
    created_s: int
    known_as: str = ""

    @property
    def id(self) -> str:
        """The logstore's name and 8 hex digits of a hash of all four parts; or as it is known."""
        if self.known_as:
            return self.known_as
        text = f"{self.region}/{self.project}/{self.logstore}/{self.created_s}"
        return f"{self.logstore}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A consumer group as the service has it."""

    name: str
    timeout_s: int
    order: bool

    def drift(self, ours: Group) -> list[str]:
        """How it differs from the settings `ours` of it, a phrase each."""
        pairs = (("timeout_s", self.timeout_s, ours.timeout_s), ("order", self.order, ours.order))
        return [f"{word} is {there}, not {here}" for word, there, here in pairs if there != here]


@dataclass(frozen=True, slots=True)
class GroupCheckpoint:
    """One shard's checkpoint. `cursor` is None before the first one; `holder` wrote it, or has the shard."""

    shard: int
    cursor: Cursor | None
    updated_us: int
    holder: str


_PAGE_NAMES = 500


class SlsClient:
    """One logstore of the service. Safe to use from many threads.

    `deadline_s` bounds every call as a whole, retries included (see `transport.py`).
    """

    def __init__(
        self,
        service: Service,
        *,
        deadline_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
        transport: Transport | None = None,
    ) -> None:
        self.service = service
        self.transport = transport or Transport(service, deadline_s=deadline_s, clock=clock)
        self._clock = clock
        self._origin: Origin | None = None
        self._path = f"/logstores/{service.logstore}"

    def with_deadline(self, deadline_s: float | None) -> "SlsClient":
        """The same connections and counters under another deadline per call, in seconds."""
        transport = self.transport.with_deadline(deadline_s)
        return SlsClient(self.service, clock=self._clock, transport=transport)

    def close(self) -> None:
        """Close idle connections."""
        self.transport.close()

    def __enter__(self) -> "SlsClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the project

    def logstores(self) -> list[str]:
        """Names of all logstores of the project, this one's place in it apart. ListLogStore, in pages of 500;
        raises ServiceError for a list that is not as long as it says."""
        found: list[str] = []
        while True:
            path, page = "/logstores", {"offset": str(len(found)), "size": str(_PAGE_NAMES)}
            answer = self._object("GET", path, page)
            try:
                names, total = [*answer["logstores"]], whole_number(answer["total"])
            except (KeyError, TypeError, ValueError):
                raise _unexpected("ListLogStore") from None
            found += names
            if len(found) >= total or not names:
                break
        if len(found) != total or len({*found}) != total or not all(isinstance(x, str) for x in found):
            raise _unexpected("ListLogStore")
        return sorted(found)

    def project(self) -> dict[str, Any]:
        """What GetProject says: `region`, `status`, `owner` and more, as the service has them."""
        return self._object("GET", "/")

    # --- shards and cursors

    def shards(self) -> list[Shard]:
        """All listed shards by id, read-only ones included until retention removes them."""
        found = []
        for entry in self._list("GET", f"{self._path}/shards"):
            try:
                found.append(
                    Shard(
                        id=whole_number(entry["shardID"]),
                        readonly={"readwrite": False, "readonly": True}[entry["status"]],
                        begin_key=str(entry["inclusiveBeginKey"]).lower(),
                        end_key=str(entry["exclusiveEndKey"]).lower(),
                        created_s=whole_number(entry.get("createTime") or 0),
                    )
                )
            except (KeyError, TypeError, ValueError, AttributeError):
                raise _unexpected("ListShards") from None
        ids = {s.id for s in found}
        if len(ids) < len(found) or min(ids, default=0) < 0 or any(s.begin_key >= s.end_key for s in found):
            # One shard named twice is another one left out.
            raise _unexpected("ListShards")
        return sorted(found, key=lambda s: s.id)

    def split(self, shard: int, key: str) -> None:
        """Split an open shard before `key`, 32 hex digits: it is read-only then, and two new ones take over.

        A lost answer says nothing: list the shards. SplitShard of the service's API reference.
        """
        self._json("POST", self._shard(shard), {"action": "split", "key": key})

    def merge(self, shard: int) -> None:
        """Merge an open shard with its right neighbour into a new one; both are read-only then."""
        self._json("POST", self._shard(shard), {"action": "merge"})

    def head(self, shard: Shard) -> Head:
        """Begin and end cursor of `shard`.

        The end is read after the status in `shard` was seen, so a read-only shard's end is final.

        The order is the point. Story: the end is read, a last log comes, the shard is split, and then it is
        listed as read-only. With the end of before it would be closed with that log behind it.
        """
        begin = self.cursor_at(shard.id, "begin")
        return Head(shard=shard, begin=begin, end=self.cursor_at(shard.id, "end"))

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        """Cursor of the first group received at or after `at` (unix seconds), or of an edge.

        Before the oldest kept group it is the begin cursor, in the future the end. Raises
        ShardGone when retention took the shard.

        The answer has no word for "there was something, and it is gone": a time before the oldest group
        gets the begin cursor, as a time does that is right on it. Whoever needs to tell the two asks for
        the receive time of that cursor.
        """
        # A log's time has 32 bits, and so has this one: behind all that can come there is the end, too.
        place = min(at, _LAST_S) if isinstance(at, int) else at
        answer = self._object("GET", self._shard(shard), {"type": "cursor", "from": str(place)})
        try:
            return _possible(cursor_from_wire(answer["cursor"]))
        except (KeyError, TypeError, ConfigError):
            raise _unexpected("GetCursor") from None

    def cursor_time_s(self, shard: int, cursor: Cursor) -> int:
        """Receive time of the group at `cursor`, unix seconds. Raises CursorExpired."""
        params = {"type": "cursor_time", "cursor": cursor_to_wire(cursor)}
        try:
            return whole_number(self._object("GET", self._shard(shard), params)["cursor_time"])
        except (KeyError, TypeError, ValueError):
            raise _unexpected("GetCursorTime") from None

    def waits_since_s(self, shard: int, cursor: Cursor) -> int | None:
        """Receive time of what a reader at `cursor` would get first, unix seconds; None where it would get
        nothing. Retention may have overtaken the cursor: what is oldest by now is nearest then."""
        try:
            return self.cursor_time_s(shard, cursor)
        except CursorExpired:
            begin = self.cursor_at(shard, "begin")
            return self.cursor_time_s(shard, begin) if begin < self.cursor_at(shard, "end") else None

    # --- data

    def pull(
        self, shard: int, cursor: Cursor, *, end: Cursor | None = None, groups_max: int = PAGE_GROUPS_MAX
    ) -> Page:
        """One page of `shard` from `cursor`, never beyond `end`, of at most `groups_max` LogGroups.

        Raises CursorExpired, ShardGone, and DecodeError when the headers a page must have are
        missing, broken or contradict each other: pull it again.

        `end` is exclusive, and the service stops exactly there; a page beyond it is refused by `fetch.py`.
        A page of 0 groups with an advanced cursor is progress, one with the cursor that was asked for is
        the end of what is there.
        """
        params = {"type": "logs", "cursor": cursor_to_wire(cursor), "count": str(groups_max)}
        if end is not None:
            params["end_cursor"] = cursor_to_wire(end)
        accept = {"Accept": "application/x-protobuf", "Accept-Encoding": self.service.compression}
        body, headers = self.transport.exchange("GET", self._shard(shard), params=params, headers=accept)
        last = headers.get("x-log-read-last-cursor")
        try:
            page = Page(
                shard=shard,
                cursor=cursor,
                next=_possible(cursor_from_wire(headers["x-log-cursor"])),
                count=whole_number(headers["x-log-count"]),
                raw_bytes=whole_number(headers["x-log-bodyrawsize"]),
                compression=headers.get("x-log-compresstype", "").lower(),
                body=body,
                last=Cursor(whole_number(last)) if last else None,
            )
        except (KeyError, ValueError, ConfigError):
            raise DecodeError("a page without its headers", shard=shard, cursor=cursor) from None
        if why := contradiction(page):
            raise DecodeError(why, shard=shard, cursor=cursor)
        return page

    def put_raw(self, group: bytes, *, key: str | None = None, compression: str = "lz4") -> None:
        """Store one serialised LogGroup; `key` (32 hex digits) names the shard by its range.

        A lost answer is not sent again: the group may be stored, and twice would be worse.
        """
        headers = {"Content-Type": "application/x-protobuf", "x-log-bodyrawsize": str(len(group))}
        if compression:
            headers["x-log-compresstype"] = compression
        body = loggroup.compress(group, compression)
        tail, params = ("lb", {}) if key is None else ("route", {"key": key})
        path = f"{self._path}/shards/{tail}"
        answer, _ = self.transport.exchange("POST", path, params=params, headers=headers, body=body)
        if answer:
            # The service says nothing to a put. A page of a gateway that answers 200 stored no logs.
            raise _unexpected("PutLogs")

    # --- time and identity

    def now_s(self, *, shard: int | None = None) -> float:
        """The service's own time, unix seconds, from the Date of its last answer.

        Where there is none yet it asks, for the end of `shard` if one is named: a thousand tasks that ask for
        the list of their thousand shards are sent 200 MB.
        """
        if (now := self.transport.service_now()) is None:
            if shard is None:
                self.shards()
            else:
                with suppress(ShardGone):
                    self.cursor_at(shard, "end")
            now = self.transport.service_now()
        if now is None:
            raise ServiceError("NoDate", "answers carry no Date", hint="Check what stands before the service")
        return now

    def described(self) -> dict[str, Any]:
        """What GetLogStore says: `mode`, `telemetryType`, `encrypt_conf` and more, as it came."""
        return self._object("GET", self._path)

    def origin(self, said: Mapping[str, Any] | None = None) -> Origin:
        """Identity of this logstore, by `said`, what GetLogStore said; asked once."""
        if self._origin is None:
            try:
                created_s = whole_number((said or self.described())["createTime"])
            except (KeyError, TypeError, ValueError):
                raise _unexpected("GetLogStore") from None
            service = self.service
            self._origin = Origin(service.region_name, service.project, service.logstore, created_s)
        return self._origin

    def retention_s(self, said: Mapping[str, Any] | None = None) -> float | None:
        """Age at which the service deletes a log, seconds; None for a logstore that keeps all.

        Source: `ttl` of GetLogStore (`said`, else asked), in days; 3650 stands for ever.
        """
        try:
            ttl = (said or self.described())["ttl"]
            days = 0 if ttl == -1 else whole_number(ttl)
        except (KeyError, TypeError, ValueError):
            raise _unexpected("GetLogStore") from None
        return None if days >= _FOREVER_DAYS or days < 1 else days * 86_400.0

    # --- consumer groups

    def groups(self) -> list[GroupInfo]:
        """The consumer groups of this logstore."""
        try:
            return [
                GroupInfo(name=str(e["name"]), timeout_s=whole_number(e["timeout"]), order=bool(e["order"]))
                for e in self._list("GET", f"{self._path}/consumergroups")
            ]
        except (KeyError, TypeError, ValueError):
            raise _unexpected("ListConsumerGroup") from None

    def create_group(self, group: Group | GroupInfo) -> bool:
        """Make the group; False when it is there already, whose settings are left as they are."""
        body = {"consumerGroup": group.name, "timeout": group.timeout_s, "order": group.order}
        try:
            self._post(f"{self._path}/consumergroups", {}, body)
        except ServiceError as error:
            if error.code != "ConsumerGroupAlreadyExist":
                raise
            return False
        return True

    def update_group(self, name: str, *, timeout_s: int | None = None, order: bool | None = None) -> None:
        """Change what is given, leave the rest. Other members rely on both settings."""
        body = {
            name: value for name, value in (("timeout", timeout_s), ("order", order)) if value is not None
        }
        self._json("PUT", self._group(name), {}, json.dumps(body).encode())

    def delete_group(self, name: str) -> None:
        """Delete the group, its members and its checkpoints; who is in it gets errors from then on."""
        self._json("DELETE", self._group(name), {})

    def heartbeat(self, group: str, holder: str, held: Iterable[int]) -> frozenset[int]:
        """Say that `holder` lives and still works on `held`; the shards that are its own now.

        Raises ClaimLost when the service does not know the holder any more: it was silent for
        too long and must join again with nothing held.

        `held` is what the holder has not let go of, and not what it was granted last: a shard that is being
        taken away goes to its next holder only when it is missing here.
        """
        params = {"type": "heartbeat", "consumer": holder}
        try:
            answer = self._post(self._group(group), params, sorted(held))
        except ServiceError as error:
            if error.code not in _NOT_A_MEMBER:
                raise
            raise ClaimLost(
                f"group {group!r} dropped {holder!r}: it was silent too long. Claim again"
            ) from error
        if not isinstance(answer, list) or not all(type(s) is int for s in answer):
            raise _unexpected("ConsumerGroupHeartBeat")
        return frozenset(answer)

    def checkpoints(self, group: str) -> dict[int, GroupCheckpoint]:
        """Every listed shard's checkpoint in `group`. A failed read raises; it is never "none".

        A shard without a checkpoint has an entry with an empty text. One without an entry is no such shard:
        it is not listed.
        """
        found: dict[int, GroupCheckpoint] = {}
        for entry in self._list("GET", self._group(group)):
            try:
                shard, text = whole_number(entry["shard"]), entry["checkpoint"]
                updated = whole_number(entry.get("updateTime") or 0)
                found[shard] = GroupCheckpoint(
                    shard=shard,
                    cursor=_stored_cursor(group, shard, text) if text else None,
                    # The documentation says seconds, every sample has microseconds.
                    updated_us=updated * 1_000_000 if 0 < updated < _SECONDS_MAX else updated,
                    holder=str(entry.get("consumer") or ""),
                )
            except (KeyError, TypeError, ValueError, AttributeError):
                raise _unexpected("GetCheckPoint") from None
        return found

    def save_checkpoint(self, group: str, holder: str, shard: int, cursor: Cursor) -> None:
        """Publish `cursor` if `holder` has the shard, and never by force.

        Raises ClaimLost when the service says that it has not, ShardGone when retention took it.

        Not by force, as the vendor's Python and Go libraries do it: a holder that was paused for longer
        than the group's time-out would set back what its successor has published since.
        """
        params = {"type": "checkpoint", "consumer": holder, "forceSuccess": "false"}
        body = {"shard": shard, "checkpoint": cursor_to_wire(cursor)}
        try:
            self._post(self._group(group), params, body)
        except ServiceError as error:
            if error.code not in _NOT_THE_HOLDER:
                raise
            raise ClaimLost(
                f"shard {shard} of group {group!r} is not {holder!r}'s any more, its checkpoint stays. "
                "Claim again"
            ) from error

    def force_checkpoint(self, group: str, shard: int, cursor: Cursor) -> None:
        """Store `cursor` whoever holds the shard, also a lower one: nothing in the service refuses it.

        A call without a consumer is taken by force only (vendor documentation of UpdateCheckPoint). It opens
        a shard again that the group had finished. Only for a group that nobody works with: a holder would go
        on from its own place, and its next checkpoint would undo this one.
        """
        body = {"shard": shard, "checkpoint": cursor_to_wire(cursor)}
        self._post(self._group(group), {"type": "checkpoint", "forceSuccess": "true"}, body)

    # --- below

    def _shard(self, shard: int) -> str:
        return f"{self._path}/shards/{shard}"

    def _group(self, group: str) -> str:
        return f"{self._path}/consumergroups/{group}"

    def _json(self, method: str, path: str, params: Mapping[str, str], body: bytes = b"") -> Any:
        headers = {"Content-Type": "application/json"} if body else {}
        answer, _ = self.transport.exchange(method, path, params=params, headers=headers, body=body)
        parsed = parse_json(answer)
        if parsed is NOT_JSON:
            raise _unexpected(f"{method} {path}")
        return parsed

    def _post(self, path: str, params: Mapping[str, str], body: object) -> Any:
        return self._json("POST", path, params, json.dumps(body).encode())

    def _list(self, method: str, path: str) -> list[Any]:
        answer = self._json(method, path, {})
        if not isinstance(answer, list):
            raise _unexpected(f"{method} {path}")
        return answer

    def _object(self, method: str, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        answer = self._json(method, path, params or {})
        if not isinstance(answer, dict):
            raise _unexpected(f"{method} {path}")
        return answer


def _possible(cursor: Cursor) -> Cursor:
    if cursor > _CURSOR_MAX:
        raise ConfigError("not a cursor: the service's are whole numbers of 63 bits")
    return cursor


def _stored_cursor(group: str, shard: int, text: object) -> Cursor:
    try:
        return cursor_from_wire(str(text))
    except ConfigError:
        raise ServiceError(
            "BadCheckpoint",
            f"group {group!r} has a checkpoint for shard {shard} that is no cursor",
            hint="Somebody forced it: delete the group at the service; the next run makes it again and goes "
            "on from the table's ledger",
        ) from None


def _unexpected(call: str) -> ServiceError:
    return ServiceError(
        "BadResponse", f"{call} succeeded with an answer that is not the protocol's", status=200
    )
