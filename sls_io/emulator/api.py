"""The calls of the service as one table, and what each does. The table is also the documentation:
`ROUTES` are supported, `UNSUPPORTED` answer 400 NotSupported with the reason.

Sources: the vendor's API pages and the wire of its Python, Go and Java SDKs. Refusals carry the
vendor's codes. Success is always 200, with an empty body where the vendor sends none.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sls_io.emulator.parameters import (
    SHARD_ID,
    Parameter,
    in_body,
    in_query,
    json_answer,
    json_body,
    json_value,
)
from sls_io.emulator.projects import (
    create_logstore,
    create_project,
    delete_logstore,
    delete_project,
    get_logstore,
    get_project,
    list_logstores,
    update_logstore,
    update_project,
)
from sls_io.emulator.service import LogService, RoutedRequest, ServedAnswer
from sls_io.emulator.storage.groups import ConsumerGroup
from sls_io.emulator.storage.refusal import Refused, no_group, parameter_invalid
from sls_io.emulator.storage.shard_log import ShardLog
from sls_io.values.errors import ConfigError
from sls_io.values.window import cursor_from_wire, cursor_to_wire

Handler = Callable[[LogService, RoutedRequest], ServedAnswer]
_GROUP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_FROM = Parameter("from", int, required=True, most=2**32 - 1)


@dataclass(frozen=True, slots=True)
class Route:
    """One call: `query` holds the query values that tell it from others on the same path."""

    name: str
    method: str
    path: str
    handler: Handler
    query: Mapping[str, tuple[str, ...]]
    pattern: re.Pattern[str]


def find(method: str, path: str, query: Mapping[str, str]) -> tuple[Route, dict[str, str]]:
    """The route of a request and the names in its path. Refused when there is none.

    By method and query first: several calls share a path and differ by `type` or `action`. What the emulator
    does not do is a table, too, so that each refusal says why.

    Worked example: `GET /logstores/a/shards/0` is get_cursor with `type=cursor`, pull_logs with `type=logs`
    or `log` (Go says the one, Java and Python the other), and InvalidRequestPath without a type. `POST
    /logstores/a/shards/lb` is put_logs, since its route stands before the one of a shard's number. `GET
    /logstores/a` is the logstore's settings, with a `type` it is a search, and NotSupported.
    """
    for route in ROUTES:
        if route.method != method or not all(query.get(k, "") in v for k, v in route.query.items()):
            continue
        matched = route.pattern.fullmatch(path)
        if matched:
            return route, matched.groupdict()
    for other_method, pattern, reason in UNSUPPORTED:
        if other_method in ("*", method) and re.fullmatch(pattern, path):
            raise Refused(400, "NotSupported", f"the emulator does not do this: {reason}")
    raise Refused(
        404, "InvalidRequestPath", "no such call; the supported ones are in the emulator's documentation"
    )


def _shard_id(call: RoutedRequest) -> int:
    return int(SHARD_ID.read(call.names["shard"]))


def _cursor(text: str | None) -> int:
    """A cursor of the query; text that is no cursor is ParameterInvalid, a wrong one InvalidCursor."""
    try:
        return cursor_from_wire(text or "")
    except ConfigError as error:
        raise parameter_invalid("Parameter Cursor is not valid") from error


# shards


def shard_doc(shard: ShardLog) -> dict[str, Any]:
    """As ListShards prints it."""
    return {
        "shardID": shard.id, "status": "readonly" if shard.readonly else "readwrite",
        "inclusiveBeginKey": shard.begin_key, "exclusiveEndKey": shard.end_key,
        "createTime": int(shard.created_s), "serverIp": "",
    }  # fmt: skip


def list_shards(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """A bare array, by id."""
    shards = service.logstore(call).shards
    return json_answer([shard_doc(shards[i]) for i in sorted(shards)])


def split_shard(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Parent first, then the children. 400 ParameterInvalid: invalid shard id, invalid mid hash."""
    logstore, given = service.logstore(call), in_query(call)
    found = service.store.split(
        logstore, _shard_id(call), service.now(), key=given["key"], count=given["shardCount"]
    )
    return json_answer([shard_doc(s) for s in found])


def merge_shard(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """The new shard first, then its parents. 400 ParameterInvalid for the last one."""
    found = service.store.merge(service.logstore(call), _shard_id(call), service.now())
    return json_answer([shard_doc(s) for s in found])


def delete_shard(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Readonly shards only."""
    service.store.delete_shard(service.logstore(call), _shard_id(call))
    return ServedAnswer()


# data


def put_logs(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """One LogGroup into the next shard in turn. Go posts to the logstore, the others to shards/lb."""
    if not call.headers.get("content-type", "").startswith("application/x-protobuf"):
        code = (415, "InvalidContentType") if "content-type" in call.headers else (400, "MissingContentType")
        raise Refused(*code, "Content-Type: expected application/x-protobuf")
    service.put(service.logstore(call), call, None)
    return ServedAnswer()


def put_logs_by_key(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """One LogGroup into the shard whose range holds `key`."""
    if not call.query.get("key"):
        raise parameter_invalid("key: expected 32 hex digits")
    service.put(service.logstore(call), call, call.query["key"])
    return ServedAnswer()


def get_cursor(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """`from`: begin, end, or unix seconds: the first group received at or after them.

    A time that lies before the oldest group, or behind the newest, is the begin or the end: the service says
    no more.
    """
    shard = service.logstore(call).shard(_shard_id(call))
    wanted = in_query(call)["from"]
    if wanted == "begin":
        return json_answer({"cursor": cursor_to_wire(shard.begin)})
    if wanted == "end":
        return json_answer({"cursor": cursor_to_wire(shard.next)})
    return json_answer({"cursor": cursor_to_wire(shard.at_time(_FROM.read(wanted)))})


def get_cursor_time(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Receive second of the group at the cursor, or of the next one. 400 InvalidCursor at the end.

    The next group's second where the cursor itself has none: behind a jump or in front of one the question
    is still "when was what I would read first received?".
    """
    shard = service.logstore(call).shard(_shard_id(call))
    return json_answer({"cursor_time": shard.time_of(_cursor(in_query(call)["cursor"]))})


def pull_logs(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """`count` LogGroups from `cursor`, before `end_cursor`; progress is x-log-cursor, never the count."""
    logstore = service.logstore(call)
    shard = logstore.shard(_shard_id(call))
    given = in_query(call)
    if given["query"]:
        raise Refused(
            400, "NotSupported", "the emulator does not do this: SPL in PullLogs needs the query engine"
        )
    if given["count"] > service.limits.page_groups_max:
        raise parameter_invalid(f"count: 1..{service.limits.page_groups_max}")
    end = _cursor(given["end_cursor"]) if given["end_cursor"] else None
    span = shard.span(_cursor(given["cursor"]), given["count"], end, service.limits.page_bytes_max)
    answer = service.page(logstore, shard, span, call.headers.get("accept-encoding", ""))
    answer.headers["x-log-cursor"] = cursor_to_wire(span.next)
    return answer


def delete_logs(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{from, to} in seconds of log time, the end not included, and a query: {affectedRows}. Deleted is a mark
    that only search sees: PullLogs still delivers the logs (vendor documentation, "Soft deletion")."""
    given = in_body(call)
    if given["from"] >= given["to"]:
        raise parameter_invalid("from: before to")
    if "query" not in given and "rowId" not in given:
        raise parameter_invalid("query or rowId is needed")
    if given.get("query") != "*" or "rowId" in given:
        raise Refused(400, "NotSupported", "the emulator does not do this: only the query * needs no index")
    return json_answer({"affectedRows": service.delete(service.logstore(call), given["from"], given["to"])})


# consumer groups


def create_group(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{consumerGroup, timeout in seconds, order}. 400 ConsumerGroupAlreadyExist, ConsumerGroupQuotaExceed.

    A group begins with all shards at once, not with its first heartbeat: who lists checkpoints right after
    must find an entry for each.
    """
    logstore = service.logstore(call)
    given = in_body(call, "JsonInfoInvalid")
    name = given["consumerGroup"]
    if not _GROUP_NAME.fullmatch(name):
        raise Refused(400, "JsonInfoInvalid", "consumerGroup: 1 to 128 letters, digits, '.', '-', '_'")
    if name in logstore.groups:
        raise Refused(400, "ConsumerGroupAlreadyExist", f"consumer group {name} already exists")
    if len(logstore.groups) >= service.limits.groups_max:
        raise Refused(400, "ConsumerGroupQuotaExceed", f"at most {service.limits.groups_max} consumer groups")
    logstore.groups[name] = ConsumerGroup(name, given["timeout"], given["order"])
    service.group(logstore, name)
    return ServedAnswer()


def update_group(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{timeout, order}, either or both. 404 ConsumerGroupNotExist."""
    logstore = service.logstore(call)
    given = in_body(call, "JsonInfoInvalid")
    group = service.group(logstore, call.names["group"])
    group.configure(
        timeout_s=given.get("timeout"),
        order=given.get("order"),
        now=service.now(),
        shape=logstore.shape(),
    )
    return ServedAnswer()


def delete_group(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Members and checkpoints go with it. 404 ConsumerGroupNotExist."""
    logstore, name = service.logstore(call), call.names["group"]
    if name not in logstore.groups:
        raise no_group(name)
    service.store.drop_group(logstore, name)
    return ServedAnswer()


def list_groups(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """A bare array of {name, timeout, order}."""
    groups = service.logstore(call).groups
    return json_answer([{"name": g.name, "timeout": g.timeout_s, "order": g.order} for g in groups.values()])


def heartbeat(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Body: the shards `consumer` still works on. Answer: the ones it may read, a bare array.

    The vendor's own sample answer is an object, `{"shards": [...]}`; its Content-Length is 5, and every
    client reads a bare array.
    """
    logstore, consumer = service.logstore(call), in_query(call)["consumer"]
    claimed = json_value(call, "JsonInfoInvalid")
    if not isinstance(claimed, list) or not all(type(s) is int for s in claimed):
        raise Refused(400, "JsonInfoInvalid", "the body is not a list of shard ids")
    group = service.group(logstore, call.names["group"])
    return json_answer(group.heartbeat(consumer, claimed, service.now(), logstore.shape()))


def get_checkpoints(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """An entry for every shard, without checkpoint too; an empty one makes two vendor clients hang.

    A shard that is not there gives an empty list, as the vendor documents it. A shard without a checkpoint
    gives an entry with an empty text: on an empty list the Python and Java libraries fail their
    initialisation for ever.
    """
    slots = service.group(service.logstore(call), call.names["group"]).slots
    wanted = in_query(call).get("shard")
    ids = sorted(slots) if wanted is None else [i for i in (wanted,) if i in slots]
    return json_answer([
        {
            "shard": i, "checkpoint": _wire(slots[i].checkpoint),
            "updateTime": slots[i].updated_us, "consumer": slots[i].holder,
        }
        for i in ids
    ])  # fmt: skip


def _wire(cursor: int | None) -> str:
    return "" if cursor is None else cursor_to_wire(cursor)


def save_checkpoint(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{shard, checkpoint}. Unless forceSuccess, only the holder may: ConsumerNotMatch, ConsumerNotExist.

    A checkpoint that moves no state is one small change; where the group changed, its whole document is
    written, which has the checkpoint, too.
    """
    logstore, body = service.logstore(call), json_body(call, "JsonInfoInvalid")
    group, given = service.group(logstore, call.names["group"]), in_query(call)
    shard, forced, consumer = body.get("shard"), given["forceSuccess"], given["consumer"]
    if type(shard) is not int or not isinstance(body.get("checkpoint"), str):
        raise Refused(400, "JsonInfoInvalid", "shard and checkpoint are needed")
    try:
        cursor = cursor_from_wire(body["checkpoint"])
    except ConfigError as error:
        raise Refused(400, "InvalidShardCheckPoint", "the checkpoint is not a cursor") from error
    if not -(1 << 63) <= cursor < 1 << 63:
        raise Refused(400, "InvalidShardCheckPoint", "the checkpoint is not a cursor")
    group.save(shard, cursor, consumer, forced=forced, now=service.now(), shape=logstore.shape())
    if not group.changed:
        slot = group.slots[shard]
        service.store.changes.append({
            "op": "checkpoint", "uid": logstore.uid, "group": group.name, "shard": shard, "cursor": cursor,
            "updated_us": slot.updated_us, "saver": consumer,
        })  # fmt: skip
    return ServedAnswer()


def _route(method: str, path: str, handler: Handler, **query: tuple[str, ...]) -> Route:
    pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
    return Route(handler.__name__, method, path, handler, query, re.compile(pattern))


_STORE = "/logstores/{logstore}"
_SHARD = "/logstores/{logstore}/shards/{shard}"
_GROUPS = "/logstores/{logstore}/consumergroups"
_ONE_GROUP = "/logstores/{logstore}/consumergroups/{group}"
ROUTES: tuple[Route, ...] = (
    _route("POST", "/logstores/{logstore}/shards/lb", put_logs),
    _route("POST", "/logstores/{logstore}/shards/route", put_logs_by_key),
    _route("POST", _STORE, put_logs),
    _route("POST", _STORE + "/deletelogs", delete_logs),
    _route("GET", _SHARD, pull_logs, type=("log", "logs")),
    _route("GET", _SHARD, get_cursor, type=("cursor",)),
    _route("GET", _SHARD, get_cursor_time, type=("cursor_time",)),
    _route("POST", _ONE_GROUP, heartbeat, type=("heartbeat",)),
    _route("POST", _ONE_GROUP, save_checkpoint, type=("checkpoint",)),
    _route("GET", _ONE_GROUP, get_checkpoints),
    _route("POST", _GROUPS, create_group),
    _route("GET", _GROUPS, list_groups),
    _route("PUT", _ONE_GROUP, update_group, type=("",)),
    _route("DELETE", _ONE_GROUP, delete_group),
    _route("GET", _STORE + "/shards", list_shards),
    _route("POST", _SHARD, split_shard, action=("split",)),
    _route("POST", _SHARD, merge_shard, action=("merge",)),
    _route("DELETE", _SHARD, delete_shard),
    _route("POST", "/logstores", create_logstore),
    _route("GET", "/logstores", list_logstores),
    _route("GET", _STORE, get_logstore, type=("",)),
    _route("PUT", _STORE, update_logstore),
    _route("DELETE", _STORE, delete_logstore),
    _route("POST", "/", create_project),
    _route("PUT", "/", update_project),
    _route("DELETE", "/", delete_project),
    _route("GET", "/", get_project),
)

UNSUPPORTED: tuple[tuple[str, str, str], ...] = (
    ("GET", r"/logstores/[^/]+", "search and analysis (GetLogs, histograms) need the query engine"),
    ("POST", r"/logstores/[^/]+/logs", "search and analysis (GetLogs) need the query engine"),
    ("*", r"/logstores/[^/]+/index", "an index serves only search, which is not emulated"),
    ("*", r"/logstores/[^/]+/shipper.*", "shipping to other stores is not part of reading"),
    ("*", r"/(configs|machinegroups|machines)(/.*)?", "Logtail configuration is not part of reading"),
    ("*", r"/(jobs|jobschedules|etljobs|exports|ingestions)(/.*)?", "jobs run in the vendor's cloud"),
    ("*", r"/(dashboards|savedsearches|alerts|charts)(/.*)?", "the console's objects are not emulated"),
    ("*", r"/(topics|externalstores|resources|substores|metricstores)(/.*)?", "not a logstore"),
    ("*", r"/logstores/[^/]+/(meteringmode|processor|substores|contexts|tags).*", "settings outside reading"),
    ("GET", r"/direct_mode_ip", "direct mode names one of many servers; there is one here"),
)
