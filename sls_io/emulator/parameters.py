"""What calls take, as tables: a parameter's type, range, values and default are declared once and checked in
one place.

Sources: the vendor's API pages and the models of its OpenAPI SDK (2020-12-30). A page's `size` is 1 to 500;
`ttl` 1 to 3650 days, -1 is what its older SDKs send for ever; `hot_ttl` 7 days to `ttl`; `mode` standard or
query; `telemetryType` None or Metrics; `encrypt_type` default or sm4. What the pages give no range is what
fits the field's type.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sls_io.emulator.service import RoutedRequest, ServedAnswer
from sls_io.emulator.storage.refusal import Refused, parameter_invalid
from sls_io.emulator.storage.store import SHARDS_MAX, TTL_FOREVER_DAYS
from sls_io.values.settings import PAGE_GROUPS_MAX

Refusal = Callable[[str], Refused]
_INT32_MAX = 2**31 - 1
_SECONDS_MAX = 2**32 - 1
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, of a query or of a JSON body. `kind` is int, bool, str or dict; a dict has `parts`.

    Clients send whole numbers and truth values as JSON's or as text. Empty text is no value.
    """

    name: str
    kind: type = str
    required: bool = False
    least: int = 0
    most: int = _INT32_MAX
    values: tuple[str, ...] = ()
    default: Any = None
    parts: tuple["Parameter", ...] = ()

    def read(self, given: Any, refuse: Refusal = parameter_invalid) -> Any:
        """Its value, the default where there is none. Raises what `refuse` makes of the sentence.

        Worked example: `count`, a needed whole number from 1 to 1000. 10 and "10" are 10; 0, 1001, "1e3"
        and true are refused with its range; "" and nothing are "count is needed". `forceSuccess`: "True",
        as Python's client writes it, is true, "" is its default, 1 is refused.
        """
        if given is None or given == "":
            if self.required:
                raise refuse(f"{self.name} is needed")
            return self.default
        value = _READERS[self.kind](given)
        if value is None or (self.kind is int and not self.least <= value <= self.most):
            raise refuse(f"{self.name}: expected {self._expected()}")
        if self.values and value not in self.values:
            raise refuse(f"{self.name}: one of {', '.join(self.values)}")
        return taken(self.parts, value, refuse) if self.parts else value

    def _expected(self) -> str:
        if self.kind is int:
            return f"a whole number from {self.least} to {self.most}"
        return {bool: "true or false", str: "text", dict: "an object"}[self.kind]


def _whole(given: Any) -> int | None:
    return int(given) if not isinstance(given, bool) and _WHOLE.fullmatch(str(given)) else None


def _truth(given: Any) -> bool | None:
    return given if isinstance(given, bool) else _TRUTH.get(given.lower()) if isinstance(given, str) else None


_READERS: Mapping[type, Callable[[Any], Any]] = {
    int: _whole,
    bool: _truth,
    str: lambda given: given if isinstance(given, str) else None,
    dict: lambda given: given if isinstance(given, dict) else None,
}


def taken(table: Sequence[Parameter], given: Mapping[str, Any], refuse: Refusal) -> dict[str, Any]:
    """What `table` declares out of `given`, without what has no value. Raises at the first that is wrong.

    In the order of the table, so that a request with two mistakes is always refused for the same one. What
    the table does not name is passed over: each vendor's client sends something of its own.
    """
    found = {one.name: one.read(given.get(one.name), refuse) for one in table}
    return {name: value for name, value in found.items() if value is not None}


def paging(size: int) -> tuple[Parameter, ...]:
    """`offset` and `size` of a list; `size` is the default one."""
    return Parameter("offset", int, default=0), Parameter("size", int, least=1, most=500, default=size)


MAX_SPLIT_SHARDS = 256
MODES, KINDS = ("standard", "query"), ("None", "Metrics")
SHARD_ID = Parameter("shard", int)
LOGSTORES = (
    *paging(200),
    Parameter("logstoreName", default=""),
    Parameter("mode", values=MODES),
    Parameter("telemetryType", values=KINDS),
)
PROJECTS = (
    *paging(100),
    Parameter("projectName", default=""),
    Parameter("description", default=""),
    Parameter("resourceGroupId"),
    Parameter("fetchQuota", bool, default=False),
)
CHANGED_PROJECT = (Parameter("description", default=""), Parameter("recycleBinEnabled", bool))
PROJECT = (
    Parameter("projectName", required=True),
    *CHANGED_PROJECT,
    Parameter("resourceGroupId"),
    Parameter("dataRedundancyType", values=("LRS", "ZRS")),
)
_KEY_OF_ONES_OWN = tuple(Parameter(name, required=True) for name in ("cmk_key_id", "arn", "region_id"))
LOGSTORE = (
    Parameter("logstoreName", required=True),
    Parameter("shardCount", int, required=True, least=1, most=SHARDS_MAX),
    Parameter("ttl", int, required=True, least=-1, most=TTL_FOREVER_DAYS),
    Parameter("hot_ttl", int, least=7, most=TTL_FOREVER_DAYS),
    Parameter("infrequentAccessTTL", int, most=TTL_FOREVER_DAYS),
    *(Parameter(name, bool) for name in ("enable_tracking", "appendMeta", "autoSplit", "enableModify")),
    Parameter("maxSplitShard", int, least=-1, most=MAX_SPLIT_SHARDS),  # Java's client sends 0, or -1
    Parameter("mode", values=MODES),
    Parameter("telemetryType", values=KINDS),
    *(Parameter(name) for name in ("processorId", "productType", "resourceGroupId")),
    Parameter("shardingPolicy", dict),
    Parameter(
        "encrypt_conf",
        dict,
        parts=(
            Parameter("enable", bool, required=True),
            Parameter("encrypt_type", values=("default", "sm4")),
            Parameter("user_cmk_info", dict, parts=_KEY_OF_ONES_OWN),
        ),
    ),
)
CHANGED_LOGSTORE = tuple(
    replace(one, required=False) if one.name == "shardCount" else one for one in LOGSTORE
)
CHANGED_GROUP = (Parameter("timeout", int, least=1), Parameter("order", bool))
GROUP = tuple(replace(one, required=True) for one in (Parameter("consumerGroup"), *CHANGED_GROUP))
DELETED_LOGS = (
    Parameter("from", int, required=True, most=_SECONDS_MAX),
    Parameter("to", int, required=True, most=_SECONDS_MAX),
    Parameter("query"),
    Parameter("rowId"),
)
TAKES: Mapping[str, tuple[Parameter, ...]] = {
    "pull_logs": (
        Parameter("count", int, required=True, least=1, most=PAGE_GROUPS_MAX),
        *(Parameter(name, default="") for name in ("cursor", "end_cursor", "query")),
    ),
    "get_cursor": (Parameter("from", required=True),),
    "get_cursor_time": (Parameter("cursor", default=""),),
    "delete_logs": DELETED_LOGS,
    "split_shard": (
        Parameter("key", default=""),
        Parameter("shardCount", int, least=2, most=SHARDS_MAX, default=2),
    ),
    "heartbeat": (Parameter("consumer", required=True),),
    "get_checkpoints": (SHARD_ID,),
    "save_checkpoint": (Parameter("consumer", default=""), Parameter("forceSuccess", bool, default=False)),
    "create_group": GROUP,
    "update_group": CHANGED_GROUP,
    "create_logstore": LOGSTORE,
    "update_logstore": CHANGED_LOGSTORE,
    "list_logstores": LOGSTORES,
    "create_project": PROJECT,
    "update_project": CHANGED_PROJECT,
    "delete_project": (Parameter("forceDelete", bool),),
    "get_project": (Parameter("crossRegion", bool),),
    "list_projects": PROJECTS,
}
"""What each call takes in its query, or in its JSON body where it creates, updates or deletes logs.
`list_projects` is `get_project` with a page, or without a project."""


def in_query(call: RoutedRequest, name: str = "") -> dict[str, Any]:
    """What the query says of the call's parameters. 400 ParameterInvalid."""
    return taken(TAKES[name or call.name], call.query, parameter_invalid)


def in_body(call: RoutedRequest, code: str = "", *, wrong: str = "ParameterInvalid") -> dict[str, Any]:
    """The same of the body. 400 `code` where that is no JSON object, `wrong` where a parameter is wrong."""

    def refuse(sentence: str) -> Refused:
        return Refused(400, code or wrong, sentence)

    return taken(TAKES[call.name], json_body(call, code or "PostBodyInvalid"), refuse)


def json_body(call: RoutedRequest, code: str) -> dict[str, Any]:
    """The body's JSON object."""
    value = json_value(call, code)
    if not isinstance(value, dict):
        raise Refused(400, code, "the body is not a JSON object")
    return value


def json_value(call: RoutedRequest, code: str) -> Any:
    """The body's JSON. Refused when it could not be answered again: NaN, infinities, half characters.

    What was taken is said again later, by GetLogStore or in the state: a text with half a character in it
    would be accepted here and break each answer that repeats it.
    """
    try:
        value = json.loads(call.body)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise Refused(400, code, "the body is not JSON") from error
    return value


def json_answer(value: Any) -> ServedAnswer:
    """A successful answer."""
    return ServedAnswer(json.dumps(value).encode(), {"content-type": "application/json"})
