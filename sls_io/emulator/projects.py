"""What the calls about projects and logstores do. Most of what these keep is only said again."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sls_io.emulator.parameters import MAX_SPLIT_SHARDS, in_body, in_query, json_answer
from sls_io.emulator.policy import ACCOUNT, REGION
from sls_io.emulator.service import LogService, RoutedRequest, ServedAnswer
from sls_io.emulator.storage.refusal import Refused
from sls_io.emulator.storage.shard_log import Change
from sls_io.emulator.storage.store import TTL_FOREVER_DAYS

_DEFAULTS: Change = {
    "enable_tracking": False, "appendMeta": False, "autoSplit": False, "maxSplitShard": 64,
    "telemetryType": "", "mode": "standard", "productType": "",
}  # fmt: skip
_MOMENTS = ("created_s", "modified_s")
_INVALID = "LogStoreInfoInvalid"


def _slice(given: Mapping[str, Any], names: list[str]) -> tuple[int, list[str]]:
    """(total, one page) by `offset` and `size`."""
    return len(names), names[given["offset"] : given["offset"] + given["size"]]


# projects


def _project_doc(service: LogService, call: RoutedRequest, doc: Change) -> Change:
    """The endpoint is what the caller named, without the project: this service has no other."""
    endpoint = call.headers.get("host", "").removeprefix(f"{call.project}.")
    made, changed = (f"{datetime.fromtimestamp(doc[at], UTC):%Y-%m-%d %H:%M:%S}" for at in _MOMENTS)
    return {
        "projectName": doc["name"], "status": "Normal", "owner": ACCOUNT, "region": REGION,
        "location": REGION, "resourceGroupId": "", "dataRedundancyType": "LRS", "recycleBinEnabled": False,
        "internetEndpoint": endpoint, "internalEndpoint": endpoint,
        "quota": {
            "logstore": service.limits.logstores_max,
            "readQpsPerMin": service.limits.project_read_calls_per_min,
            "writeQpsPerMin": service.limits.project_write_calls_per_min,
        },
        **{name: value for name, value in doc.items() if name not in ("name", *_MOMENTS)},
        "createTime": made, "lastModifyTime": changed,
    }  # fmt: skip


def create_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{projectName, description}. 400 ProjectAlreadyExist."""
    given = in_body(call)
    service.store.create_project(given.pop("projectName"), given, service.now())
    return ServedAnswer()


def update_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{description}."""
    service.store.update_project(call.project, in_body(call), service.now())
    return ServedAnswer()


def get_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """GET / lists projects when it pages or names no project, and describes the host's one otherwise."""
    if not call.project or any(name in call.query for name in ("offset", "size", "projectName")):
        return list_projects(service, call)
    in_query(call)
    return json_answer(_project_doc(service, call, service.store.project(call.project)))


def delete_project(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """With everything in it. 404 ProjectNotExist."""
    in_query(call)
    service.store.delete_project(call.project)
    return ServedAnswer()


def list_projects(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{count, total, projects}, by name; `projectName` and `description` are parts of them."""
    wanted, projects = in_query(call, "list_projects"), service.store.projects
    found = [
        name
        for name, doc in sorted(projects.items())
        if wanted["projectName"] in name
        and wanted["description"] in doc["description"]
        and wanted.get("resourceGroupId", doc.get("resourceGroupId", "")) == doc.get("resourceGroupId", "")
    ]
    total, names = _slice(wanted, found)
    docs = [_project_doc(service, call, projects[n]) for n in names]
    if not wanted["fetchQuota"]:
        docs = [{name: value for name, value in doc.items() if name != "quota"} for doc in docs]
    return json_answer({"count": len(names), "total": total, "projects": docs})


# logstores


def _logstore_settings(call: RoutedRequest, before: Change) -> tuple[int, Change]:
    """(days that logs are kept, settings) by the body, and what was `before`. LogStoreInfoInvalid.

    An update says only what changes, so the settings of before stand in for the rest. `maxSplitShard` below
    1 is Java's way to leave it out; it is refused only where shards are to split by themselves, and then
    says its range.
    """
    given = {**before, **in_body(call, wrong=_INVALID)}
    ttl = given.pop("ttl")
    ttl = TTL_FOREVER_DAYS if ttl == -1 else ttl
    if given.get("hot_ttl", 0) > ttl:
        raise Refused(400, _INVALID, "hot_ttl: from 7 days to ttl")
    if given["maxSplitShard"] < 1:
        if given["autoSplit"]:
            said = f"maxSplitShard: from 1 to {MAX_SPLIT_SHARDS} where autoSplit is true"
            raise Refused(400, _INVALID, said)
        given["maxSplitShard"] = before["maxSplitShard"]
    if given.get("encrypt_conf", {}).get("enable") and "encrypt_type" not in given["encrypt_conf"]:
        raise Refused(400, _INVALID, "encrypt_conf: encrypt_type is needed where it is enabled")
    return ttl, given


def create_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{logstoreName, ttl in days (-1: for ever), shardCount}. LogStoreAlreadyExist, LogStoreInfoInvalid."""
    if len(service.store.in_project(call.project)) >= service.limits.logstores_max:
        raise Refused(400, "ProjectQuotaExceed", f"project {call.project} logstore count quota exceed")
    ttl, settings = _logstore_settings(call, _DEFAULTS)
    name, shards = settings.pop("logstoreName"), settings.pop("shardCount")
    service.store.create_logstore(call.project, name, ttl, shards, settings, service.now())
    return ServedAnswer()


def get_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """Its settings; shardCount counts the shards that take writes."""
    logstore = service.logstore(call)
    return json_answer({
        "logstoreName": logstore.name, "ttl": logstore.ttl_days, "shardCount": len(logstore.writable()),
        **_DEFAULTS, **logstore.settings, "createTime": int(logstore.created_s),
        "lastModifyTime": int(logstore.modified_s),
    })  # fmt: skip


def update_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """ttl and the settings that are only kept; shardCount is changed by split and merge alone."""
    logstore = service.logstore(call)
    ttl, settings = _logstore_settings(call, {**_DEFAULTS, **logstore.settings})
    for name in ("logstoreName", "shardCount"):
        settings.pop(name, None)
    service.store.update_logstore(logstore, ttl, settings, service.now())
    return ServedAnswer()


def delete_logstore(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """With shards, groups and LogGroups."""
    service.store.delete_logstore(call.project, call.names["logstore"])
    return ServedAnswer()


def list_logstores(service: LogService, call: RoutedRequest) -> ServedAnswer:
    """{count, total, logstores: names}; `logstoreName` is a part of the name. Without `mode` and
    `telemetryType` there are all kinds."""
    wanted = in_query(call)
    found = [
        logstore.name
        for logstore in service.store.in_project(call.project)
        if wanted["logstoreName"] in logstore.name
        and wanted.get("mode") in (None, logstore.settings["mode"])
        and wanted.get("telemetryType") in (None, logstore.settings["telemetryType"] or "None")
    ]
    total, names = _slice(wanted, found)
    return json_answer({"count": len(names), "total": total, "logstores": names})
