"""The calls of the service as one table, and what each does. The table is also the documentation:
`ROUTES` are supported, `UNSUPPORTED` answer 400 NotSupported with the reason.

Sources: the vendor's API pages and the wire of its Python, Go and Java SDKs. Refusals carry the
vendor's codes. Success is always 200, with an empty body where the vendor sends none.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sls_io.emulator.policy import ACCOUNT, REGION
from sls_io.emulator.service import LogService, RoutedRequest, ServedAnswer
from sls_io.emulator.storage.groups import ConsumerGroup
from sls_io.emulator.storage.refusal import Refused, no_group, parameter_invalid
from sls_io.emulator.storage.shard_log import Change, ShardLog
from sls_io.emulator.storage.store import TTL_FOREVER_DAYS
from sls_io.values.errors import ConfigError
from sls_io.values.window import cursor_from_wire, cursor_to_wire

Handler = Callable[[LogService, RoutedRequest], ServedAnswer]
_GROUP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DEFAULTS: Change = {
    "enable_tracking": False, "appendMeta": False, "autoSplit": False, "maxSplitShard": 64,
    "telemetryType": "", "mode": "standard",
}  # fmt: skip


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


def _json(value: Any) -> ServedAnswer:
    return ServedAnswer(json.dumps(value).encode(), {"content-type": "application/json"})


def _body(call: RoutedRequest, *, code: str = "PostBodyInvalid") -> dict[str, Any]:
    value = _loads(call, code)
    if not isinstance(value, dict):
        raise Refused(400, code, "the body is not a JSON object")
    return value


def _loads(call: RoutedRequest, code: str) -> Any:
    """The body's JSON. Refused when it could not be answered again: NaN, infinities, half characters."""
    try:
        value = json.loads(call.body)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(400, code, "the body is not JSON") from error
    return value


def _integer(value: Any, name: str) -> int:
    """A whole number out of JSON or a query value; clients send both `5` and `"5"`."""
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise parameter_invalid(f"{name}: expected a whole number")
    return int(value)


def _shard_id(call: RoutedRequest) -> int:
    return _integer(call.names["shard"], "shard")


def _cursor(text: str | None) -> int:
    """A cursor of the query; text that is no cursor is ParameterInvalid, a wrong one InvalidCursor."""
    try:
        return cursor_from_wire(text or "")
    except ConfigError as error:
        raise parameter_invalid("Parameter Cursor is not valid") from error


def _slice(call: RoutedRequest, names: list[str]) -> tuple[int, list[str]]:
    """(total, one page) by `offset` and `size`."""
    offset = _integer(call.query.get("offset") or 0, "offset")
    size = _integer(call.query.get("size") or 500, "size")
    if offset < 0 or size == 0 or size < -1:
        raise parameter_invalid("offset and size: from 0 and from 1")
    return len(names), names[offset:] if size == -1 else names[offset : offset + size]


# projects


def _project_doc(doc: Change) -> dict[str, str]:
    return {
        "projectName": doc["name"], "status": "Normal", "owner": ACCOUNT, "description": doc["description"],
        "region": REGION, "dataRedundancyType": "LRS", "createTime": str(int(doc["created_s"])),
        "lastModifyTime": str(int(doc["modified_s"])),
    }  # fmt: skip


def create_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{projectName, description}. 400 ProjectAlreadyExist."""
    body = _body(call)
    name = str(body.get("projectName") or call.project)
    service.store.create_project(name, str(body.get("description") or ""), service.now())
    return ServedAnswer()


def update_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{description}."""
    description = str(_body(call).get("description") or "")
    service.store.update_project(call.project, description, service.now())
    return ServedAnswer()


def get_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """GET / lists projects when it pages or names no project, and describes the host's one otherwise."""
    if not call.project or any(name in call.query for name in ("offset", "size", "projectName")):
        return list_projects(service, call)
    return _json(_project_doc(service.store.project(call.project)))


def delete_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """With everything in it. 404 ProjectNotExist."""
    service.store.delete_project(call.project)
    return ServedAnswer()


def list_projects(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{count, total, projects}, by name; `projectName` is a part of the name."""
    wanted = call.query.get("projectName", "")
    total, names = _slice(call, sorted(n for n in service.store.projects if wanted in n))
    docs = [_project_doc(service.store.projects[n]) for n in names]
    return _json({"count": len(names), "total": total, "projects": docs})


# logstores


def create_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{logstoreName, ttl in days (-1: for ever), shardCount}. LogStoreAlreadyExist, LogStoreInfoInvalid."""
    body = _body(call)
    if len(service.store.in_project(call.project)) >= service.limits.logstores_max:
        raise Refused(
            400, "ProjectQuotaExceed", f"a project has at most {service.limits.logstores_max} logstores"
        )
    settings = {**_DEFAULTS, **{k: body[k] for k in _DEFAULTS if body.get(k) is not None}}
    ttl, shards = _integer(body.get("ttl") or 30, "ttl"), _integer(body.get("shardCount") or 2, "shardCount")
    ttl = TTL_FOREVER_DAYS if ttl == -1 else ttl
    name = str(body.get("logstoreName") or "")
    service.store.create_logstore(call.project, name, ttl, shards, settings, service.now())
    return ServedAnswer()


def get_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Its settings; shardCount counts the shards that take writes."""
    logstore = service.logstore(call)
    return _json({
        "logstoreName": logstore.name, "ttl": logstore.ttl_days, "shardCount": len(logstore.writable()),
        **logstore.settings, "createTime": int(logstore.created_s),
        "lastModifyTime": int(logstore.modified_s),
    })  # fmt: skip


def update_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """ttl and the settings that are only kept; shardCount is changed by split and merge alone."""
    logstore, body = service.logstore(call), _body(call)
    settings = {k: body[k] for k in _DEFAULTS if body.get(k) is not None}
    ttl = _integer(body.get("ttl") or logstore.ttl_days, "ttl")
    service.store.update_logstore(logstore, TTL_FOREVER_DAYS if ttl == -1 else ttl, settings, service.now())
    return ServedAnswer()


def delete_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """With shards, groups and LogGroups."""
    service.store.delete_logstore(call.project, call.names["logstore"])
    return ServedAnswer()


def list_logstores(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{count, total, logstores: names}; `logstoreName` is a part of the name."""
    wanted = call.query.get("logstoreName", "")
    total, names = _slice(call, [x.name for x in service.store.in_project(call.project) if wanted in x.name])
    return _json({"count": len(names), "total": total, "logstores": names})


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
    return _json([shard_doc(shards[i]) for i in sorted(shards)])


def split_shard(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Parent first, then the children. 400 ParameterInvalid: invalid shard id, invalid mid hash."""
    count = _integer(call.query.get("shardCount") or 2, "shardCount")
    key = call.query.get("key", "")
    found = service.store.split(service.logstore(call), _shard_id(call), service.now(), key=key, count=count)
    return _json([shard_doc(s) for s in found])


def merge_shard(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """The new shard first, then its parents. 400 ParameterInvalid for the last one."""
    found = service.store.merge(service.logstore(call), _shard_id(call), service.now())
    return _json([shard_doc(s) for s in found])


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
    wanted = call.query.get("from", "")
    if wanted == "begin":
        return _json({"cursor": cursor_to_wire(shard.begin)})
    if wanted == "end":
        return _json({"cursor": cursor_to_wire(shard.next)})
    return _json({"cursor": cursor_to_wire(shard.at_time(_integer(wanted, "from")))})


def get_cursor_time(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Receive second of the group at the cursor, or of the next one. 400 InvalidCursor at the end."""
    shard = service.logstore(call).shard(_shard_id(call))
    return _json({"cursor_time": shard.time_of(_cursor(call.query.get("cursor")))})


def pull_logs(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """`count` LogGroups from `cursor`, before `end_cursor`; progress is x-log-cursor, never the count."""
    logstore = service.logstore(call)
    shard = logstore.shard(_shard_id(call))
    if call.query.get("query"):
        raise Refused(
            400, "NotSupported", "the emulator does not do this: SPL in PullLogs needs the query engine"
        )
    count = _integer(call.query.get("count") or 1, "count")
    if not 1 <= count <= service.limits.page_groups_max:
        raise parameter_invalid(f"count: 1..{service.limits.page_groups_max}")
    end = _cursor(call.query["end_cursor"]) if call.query.get("end_cursor") else None
    span = shard.span(_cursor(call.query.get("cursor")), count, end, service.limits.page_bytes_max)
    answer = service.page(logstore, shard, span, call.headers.get("accept-encoding", ""))
    answer.headers["x-log-cursor"] = cursor_to_wire(span.next)
    return answer


# consumer groups


def _group_settings(body: Mapping[str, Any]) -> tuple[int | None, bool | None]:
    timeout, order = body.get("timeout"), body.get("order")
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 1):
        raise Refused(400, "JsonInfoInvalid", "timeout: expected whole seconds, at least 1")
    if order is not None and not isinstance(order, bool):
        raise Refused(400, "JsonInfoInvalid", "order: expected true or false")
    return timeout, order


def create_group(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{consumerGroup, timeout in seconds, order}. 400 ConsumerGroupAlreadyExist, ConsumerGroupQuotaExceed."""
    logstore, body = service.logstore(call), _body(call, code="JsonInfoInvalid")
    name = body.get("consumerGroup")
    timeout, order = _group_settings(body)
    if not isinstance(name, str) or not _GROUP_NAME.fullmatch(name) or timeout is None:
        raise Refused(400, "JsonInfoInvalid", "consumerGroup and timeout are needed")
    if name in logstore.groups:
        raise Refused(400, "ConsumerGroupAlreadyExist", f"consumer group {name} already exists")
    if len(logstore.groups) >= service.limits.groups_max:
        raise Refused(400, "ConsumerGroupQuotaExceed", f"at most {service.limits.groups_max} consumer groups")
    logstore.groups[name] = ConsumerGroup(name, timeout, bool(order))
    service.group(logstore, name)
    return ServedAnswer()


def update_group(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{timeout, order}, either or both. 404 ConsumerGroupNotExist."""
    logstore = service.logstore(call)
    timeout, order = _group_settings(_body(call, code="JsonInfoInvalid"))
    group = service.group(logstore, call.names["group"])
    group.configure(timeout_s=timeout, order=order, now=service.now(), shape=logstore.shape())
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
    return _json([{"name": g.name, "timeout": g.timeout_s, "order": g.order} for g in groups.values()])


def heartbeat(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Body: the shards `consumer` still works on. Answer: the ones it may read, a bare array."""
    logstore, consumer = service.logstore(call), call.query.get("consumer", "")
    claimed = _loads(call, "JsonInfoInvalid") if call.body else []
    if not consumer:
        raise parameter_invalid("consumer: who sends the heartbeat")
    if not isinstance(claimed, list) or not all(type(s) is int for s in claimed):
        raise Refused(400, "JsonInfoInvalid", "the body is not a list of shard ids")
    group = service.group(logstore, call.names["group"])
    return _json(group.heartbeat(consumer, claimed, service.now(), logstore.shape()))


def get_checkpoints(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """An entry for every shard, without checkpoint too; an empty one makes two vendor clients hang."""
    slots = service.group(service.logstore(call), call.names["group"]).slots
    wanted = call.query.get("shard", "")
    ids = sorted(slots) if not wanted else [i for i in (_integer(wanted, "shard"),) if i in slots]
    return _json([
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
    logstore, body = service.logstore(call), _body(call, code="JsonInfoInvalid")
    group = service.group(logstore, call.names["group"])
    shard, forced = body.get("shard"), call.query.get("forceSuccess", "").lower() == "true"
    if type(shard) is not int or not isinstance(body.get("checkpoint"), str):
        raise Refused(400, "JsonInfoInvalid", "shard and checkpoint are needed")
    try:
        cursor = cursor_from_wire(body["checkpoint"])
    except ConfigError as error:
        raise Refused(400, "InvalidShardCheckPoint", "the checkpoint is not a cursor") from error
    if not -(1 << 63) <= cursor < 1 << 63:
        raise Refused(400, "InvalidShardCheckPoint", "the checkpoint is not a cursor")
    consumer = call.query.get("consumer", "")
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
