"""What the vendor's API model says of each call that the emulator claims, tried.

The model is the package alibabacloud-sls20201230: the signatures of its client, the types of its request and
answer classes, and their comments, which name required parameters, ranges and values. Nothing of it is
written down here but values that are valid. The SDK says where each parameter goes; then it is left out,
empty, of a wrong type, out of its range, and sent, signed by the SDK. Each difference is told.
"""

import argparse
import copy
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from alibabacloud_sls20201230 import models
from alibabacloud_sls20201230.client import Client
from alibabacloud_tea_openapi import utils_models
from darabonba.runtime import RuntimeOptions

from conformance.openapi.client import made, refusal
from conformance.telling import tell
from sls_io.emulator import api
from sls_io.emulator.storage.refusal import Refused
from sls_io.values.clock import SYSTEM_CLOCK

PLACES = {
    "project": "demo", "logstore": "logs", "log_store": "logs", "consumer_group": "g", "shard": "0",
    "shard_id": "0",
}  # fmt: skip
KEY = {"cmk_key_id": "k", "arn": "acs:ram::1:role/r", "region_id": "cn-hangzhou"}
ENCRYPTED = {"enable": True, "encrypt_type": "default", "user_cmk_info": KEY}
SHARDING = {
    "enabled": True, "queryActiveTime": 1, "shardHash": {"keys": ["a"], "maxHashCount": 1},
    "shardGroup": {"keys": ["a"], "groupCount": 1},
}  # fmt: skip
VALID: dict[str, Any] = {
    "projectName": "demo", "description": "d", "resourceGroupId": "rg", "dataRedundancyType": "LRS",
    "recycleBinEnabled": False, "fetchQuota": True, "crossRegion": False, "forceDelete": True, "offset": 0,
    "size": 10, "logstoreName": "logs", "ttl": 30, "hot_ttl": 7, "infrequentAccessTTL": 10, "shardCount": 2,
    "autoSplit": True, "maxSplitShard": 8, "appendMeta": True, "enable_tracking": True, "enableModify": True,
    "mode": "standard", "telemetryType": "None", "processorId": "p", "productType": "arms",
    "encrypt_conf": ENCRYPTED, "shardingPolicy": SHARDING, "consumerGroup": "g", "timeout": 60,
    "order": True, "consumer": "me", "body": [], "shard": 0, "forceSuccess": True, "from": "begin",
    "count": 10, "key": "2" + "0" * 31,
}  # fmt: skip
OF_CALL: dict[str, dict[str, Any]] = {
    "DeleteLogs": {"from": 0, "to": 4_000_000_000, "query": "*"},
    "CreateProject": {"projectName": "other"},
    "CreateLogStore": {"logstoreName": "other"},
    "CreateConsumerGroup": {"consumerGroup": "other"},
}
EXAMPLES = {"query": "* | where key = 'a'", "rowId": "0|1000001|638732499"}
"""Valid, too, but left out of the requests that must succeed: what they need is not emulated."""
WRONG: dict[type, Any] = {int: "x", bool: "x", str: 5, dict: "x", list: "x"}
_NUMBER = r"([\d,]+)"
_RANGES = (
    (rf"from {_NUMBER} to {_NUMBER}", (1, 2)),
    (rf"Valid values: {_NUMBER} to {_NUMBER}", (1, 2)),
    (rf"from {_NUMBER} to the value of", (1, 0)),
    (rf"[Mm]inimum value(?: is|:) {_NUMBER}", (1, 0)),
    (rf"[Mm]aximum value(?: is|:) {_NUMBER}", (0, 1)),
    (rf"maximum of {_NUMBER} ", (0, 1)),
)


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter or a field as the model has it. `name` is what it is called on the wire."""

    name: str
    kind: type
    required: bool = False
    least: int | None = None
    most: int | None = None
    values: tuple[str, ...] = ()


class Sending(Exception):
    """What the SDK was about to send."""

    def __init__(self, params: utils_models.Params, request: utils_models.OpenApiRequest) -> None:
        super().__init__(params.action)
        self.params, self.request = params, request


class Drafts(Client):  # type: ignore[misc]  # the SDK has no types
    """A client that sends nothing."""

    def execute(self, params: Any, request: Any, runtime: Any) -> Any:
        """In place of a request, what it would be."""
        raise Sending(params, request)


def declared(model: type) -> list[Declared]:
    """What a class of the model says of its fields."""
    hints, said = _fields(model), _comments(model)
    return [_declared(model, name, kind, said.get(name, "")) for name, kind in hints.items()]


def _declared(model: type, attribute: str, hint: Any, said: str) -> Declared:
    plain = get_origin(hint) or hint
    kind = plain if plain in WRONG else dict
    sample = (
        hint() if kind is dict and hasattr(plain, "to_map") else {int: 1, bool: True, str: "s"}.get(kind, {})
    )
    wire = next(iter(model(**{attribute: sample}).to_map() or {attribute: 0}))
    least, most = None, None
    for pattern, (low, high) in _RANGES if kind is int else ():
        if found := re.search(pattern, said):
            least = int(found[low].replace(",", "")) if low else least
            most = int(found[high].replace(",", "")) if high else most
    listed = (
        re.findall(r"^\s*[-*]\s+\**([A-Za-z]\w*)\**\s*(?::|$)", said, re.MULTILINE) if kind is str else ()
    )
    return Declared(wire, kind, "This parameter is required." in said, least, most, tuple(listed))


def _fields(model: Any) -> dict[str, Any]:
    """The types of a class's fields, which are those of the arguments that make it."""
    return {name: hint for name, hint in get_type_hints(model.__init__).items() if name != "return"}


def _comments(model: Any) -> dict[str, str]:
    """The comment above each field of the class."""
    found, lines = dict[str, str](), list[str]()
    for line in textwrap.dedent(inspect.getsource(model.__init__)).splitlines():
        if comment := re.match(r"\s*# ?(.*)", line):
            lines.append(comment[1])
        elif field := re.match(r"\s*self\.(\w+) = \w+$", line):
            found[field[1]], lines = "\n".join(lines), []
    return found


def claimed() -> dict[str, str]:
    """The model's call of each of the emulator's: the method of the client, by the call's name here."""
    drafts = Drafts(utils_models.Config(access_key_id="i", access_key_secret="s", endpoint="e"))
    found = dict[str, str]()
    for name in dir(Client):
        if not name.endswith("_with_options"):
            continue
        sending = drafted(drafts, name, {})
        path, _, query = sending.params.pathname.partition("?")
        try:
            route, _ = api.find(sending.params.method, path, dict([query.split("=")] if query else []))
        except Refused:
            continue
        found.setdefault(route.name, name)
    return found


def drafted(
    drafts: Drafts, method: str, places: Mapping[str, str], given: Mapping[str, Any] | None = None
) -> Sending:
    """What the method sends with `given` values of its request, by their names on the wire."""
    function, arguments = getattr(drafts, method), dict[str, Any]()
    for name, hint in get_type_hints(function).items():
        if name in ("return", "runtime", "headers"):
            continue
        if hint is str:
            arguments[name] = {**PLACES, **places}.get(name, "x")
        else:
            arguments[name] = hint().from_map(dict(given or {}))
    headers = get_type_hints(function)["headers"]
    arguments["headers"] = headers() if inspect.isclass(headers) else {}
    try:
        function(**arguments, runtime=RuntimeOptions())
    except Sending as sending:
        return sending
    raise AssertionError(f"{method} sent nothing")


class Trial:
    """One call of the model against the emulator."""

    def __init__(self, flags: argparse.Namespace, method: str, ground: list[str]) -> None:
        self._client, self._ground = made(flags), ground
        self._drafts = Drafts(utils_models.Config(access_key_id="i", access_key_secret="s", endpoint="e"))
        self._method = method
        hints = get_type_hints(getattr(Client, method))
        self._request, self._answer = hints.get("request"), hints["return"]
        self.places = [name for name, hint in hints.items() if hint is str]
        self.action = drafted(self._drafts, method, {}).params.action
        self.tried = 0

    def differences(self) -> Iterator[dict[str, str]]:
        """Each case whose end is not the model's."""
        status, body, kind = self.send(self._valid())
        if status != 200:
            raise AssertionError(f"{self.action}: a valid request ended with {status} {body}")
        yield from self._answered(body, kind)
        for place in self.places:
            yield from self._case(place, "unknown", "refused", self._valid(**{place: "nowhere"}))
        for one in declared(self._request) if self._request else ():
            yield from self._cases(one)

    def send(self, sending: Sending) -> tuple[int, Any, str]:
        """(status, JSON or bytes, content type). A refusal's body is its code."""
        self.tried += 1
        if sending.params.method != "GET":
            self._ground.clear()
        if self.action == "PullLogs":  # a page is no JSON, whatever the SDK takes it for
            sending.params.body_type = "byte"
        try:
            answer = self._client.execute(sending.params, sending.request, RuntimeOptions())
        except Exception as failed:
            found = refusal(failed)
            if found is None or (found[0] and not found[1]):
                raise AssertionError(f"{self.action}: {failed!r}") from failed
            return (found[0], found[1], "") if found[0] else (400, "by the SDK itself", "")
        return 200, answer["body"], answer["headers"].get("content-type", "")

    def _cases(self, one: Declared) -> Iterator[dict[str, str]]:
        if one.name in EXAMPLES and one.name not in self._values():
            yield from self._case(
                one.name, "given", "accepted", self._valid_with(one.name, EXAMPLES[one.name])
            )
            return
        whole = self._valid()
        if self._where(whole, one.name) is None:
            raise AssertionError(f"{self.action}: no valid value for {one.name}")
        yield from self._case(
            one.name, "missing", "refused" if one.required else "accepted", self._changed(one.name, None)
        )
        in_query = one.name in (whole.request.query or {})
        if one.required:
            yield from self._case(one.name, "empty", "refused", self._changed(one.name, ""))
        if not (in_query and one.kind is str):
            yield from self._case(one.name, "wrong type", "refused", self._changed(one.name, WRONG[one.kind]))
        for edge, beyond in ((one.least, -1), (one.most, 1)):
            if edge is not None:
                value = edge + beyond
                yield from self._case(
                    one.name, f"out of range: {value}", "refused", self._changed(one.name, value)
                )
        if one.values:
            yield from self._case(
                one.name, "not one of its values", "refused", self._changed(one.name, "bogus")
            )

    def _case(self, name: str, case: str, wanted: str, sending: Sending) -> Iterator[dict[str, str]]:
        status, body, _ = self.send(sending)
        if status >= 500:
            raise AssertionError(f"{self.action}: {name}, {case}: {status} {body}")
        if (status == 200) != (wanted == "accepted"):
            ended = "accepted" if status == 200 else f"refused: {body}"
            yield {"call": self.action, "name": name, "case": case, "model": wanted, "emulator": ended}

    def _answered(self, body: Any, kind: str) -> Iterator[dict[str, str]]:
        """Fields of the answer that are not there, or of another type."""
        model = _fields(self._answer).get("body")
        if model is None:
            return
        if not kind.startswith("application/json"):
            yield self._field("answer", "application/json", kind)
            return
        yield from self._held("answer", model, body)

    def _held(self, name: str, hint: Any, value: Any) -> Iterator[dict[str, str]]:
        """`value` against its type: of a list its first entry, of a class of the model each field."""
        plain = get_origin(hint) or hint
        kind = plain if plain in WRONG else dict
        if type(value) is not kind or value == []:
            yield self._field(name, kind.__name__, type(value).__name__ if value != [] else "empty")
        elif kind is list:
            yield from self._held(name, get_args(hint)[0], value[0])
        elif hasattr(plain, "to_map"):
            for one, below in zip(declared(plain), _fields(plain).values(), strict=True):
                if one.name in value:
                    yield from self._held(one.name, below, value[one.name])
                else:
                    yield self._field(one.name, one.kind.__name__, "not there")

    def _field(self, name: str, wanted: str, found: str) -> dict[str, str]:
        return {"call": self.action, "name": name, "case": "answer", "model": wanted, "emulator": found}

    def _values(self) -> dict[str, Any]:
        names = {one.name for one in declared(self._request)} if self._request else set()
        values = {**VALID, **self._cursors(), **OF_CALL.get(self.action, {})}
        return {name: copy.deepcopy(value) for name, value in values.items() if name in names}

    def _valid(self, **places: str) -> Sending:
        self._prepare()
        if self.action == "PutLogs":
            log = {"Time": int(SYSTEM_CLOCK.now()), "Contents": [{"Key": "a", "Value": "b"}]}
            sending = drafted(
                self._drafts, self._method, places, {"body": {"LogItems": [log], "LogTags": []}}
            )
            sending.request.body = {"LogItems": [log], "LogTags": [], "Topic": "", "Source": ""}
            return sending
        return drafted(self._drafts, self._method, places, self._values())

    def _valid_with(self, name: str, value: Any) -> Sending:
        sending = self._valid()
        place = sending.request.query if sending.params.method == "GET" else sending.request.body
        place[name] = value
        return sending

    def _changed(self, name: str, value: Any) -> Sending:
        """The valid request with another value; None: without it."""
        sending = self._valid()
        place = self._where(sending, name)
        if place is sending.request:
            sending.request.body = value
        elif value is None:
            del place[name]
        else:
            place[name] = str(value) if place is sending.request.query else value
        return sending

    @staticmethod
    def _where(sending: Sending, name: str) -> Any:
        """The query or the body that has the parameter; the request where it is the body itself."""
        query, body = sending.request.query or {}, sending.request.body
        if name in query:
            return query
        if isinstance(body, dict) and name in body:
            return body
        return sending.request if name == "body" and body is not None else None

    def _cursors(self) -> dict[str, Any]:
        if not {"cursor", "checkpoint"} & (
            {one.name for one in declared(self._request)} if self._request else set()
        ):
            return {}
        ask = models.GetCursorRequest
        begin, end = (
            self._client.get_cursor("demo", "logs", "0", ask(from_=at)).body.cursor for at in ("begin", "end")
        )
        return {"cursor": begin, "end_cursor": end, "checkpoint": end}

    def _prepare(self) -> None:
        """One project with a logstore of two shards that has logs, and a group with a member: made anew after
        a request that may have changed them."""
        client = self._client
        if self._ground:
            return
        self._ground.append("made")
        for name in ("demo", "other"):
            try:
                client.delete_project(name, models.DeleteProjectRequest())
            except Exception as failed:
                if refusal(failed) is None:
                    raise
        client.create_project(models.CreateProjectRequest(project_name="demo", description="d"))
        self._made_logstore()
        group = models.CreateConsumerGroupRequest(consumer_group="g", timeout=60, order=False)
        client.create_consumer_group("demo", "logs", group)
        beat = models.ConsumerGroupHeartBeatRequest(consumer="me", body=[])
        client.consumer_group_heart_beat("demo", "logs", "g", beat)

    def _made_logstore(self) -> None:
        given = {name: value for name, value in VALID.items() if name != "projectName"}
        request = models.CreateLogStoreRequest().from_map(given)
        self._client.create_log_store("demo", request)
        content = models.LogContent(key="a", value="b")
        item = models.LogItem(contents=[content], time=int(SYSTEM_CLOCK.now()))
        group = models.LogGroup(log_items=[item], log_tags=[], topic="", source="")
        for _ in range(2):  # one for each shard
            self._client.put_logs("demo", "logs", models.PutLogsRequest(body=group))


def tell_differences(flags: argparse.Namespace) -> None:
    """Tell each difference, and how many requests it took."""
    tried, methods, ground = 0, claimed(), list[str]()
    for _, method in sorted(methods.items()):
        trial = Trial(flags, method, ground)
        for difference in trial.differences():
            tell("difference", **difference)
        tried += trial.tried
    tell("left", calls=sorted(methods), tried=tried)
