"""The admin path: clock, faults, retention, shards, state and dump. Unsigned, loopback only.

All bodies and answers are JSON. A POST must say `Content-Type: application/json`, so that a web
page in a browser on the same machine cannot send one unnoticed.

Why it is not signed, and why that is safe. A test drives it with any HTTP client. Loopback alone keeps
other machines out; the name that was asked for keeps out a browser's page that had its own name resolved to
loopback; the JSON type keeps out a form of any page, which a browser sends without asking.
"""

import asyncio
import base64
import ipaddress
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sls_io.emulator.api import shard_doc
from sls_io.emulator.faults import Fault, Wanted
from sls_io.emulator.limits import Limits
from sls_io.emulator.moved_clock import checked
from sls_io.emulator.policy import Policy
from sls_io.emulator.server import ServiceApp
from sls_io.emulator.signing import Key
from sls_io.emulator.status_page import render
from sls_io.emulator.storage.refusal import Refused, no_group, parameter_invalid
from sls_io.emulator.storage.shard_log import ShardLog
from sls_io.emulator.storage.store import CURSOR_MAX, SHARDS_MAX, StoredLogstore
from sls_io.values.errors import ConfigError
from sls_io.values.settings import is_loopback
from sls_io.wire.loggroup import groups

_DUMP_GROUPS = 64
_LIMITS = TypeAdapter(dict[str, bool | int], config=ConfigDict(strict=True))
_WAIT_S_MAX = 600.0
_LASTS_S_MAX = 3.2e9
Handler = Callable[[Request], Awaitable[Response]]
Number = Annotated[int, Field(ge=0, le=CURSOR_MAX)]


class _Ask(BaseModel):
    """Strict: a number is a number, finite and within bounds, and neither true nor "1"."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)


class _AskClock(_Ask):
    now: float | None = None
    advance: float | None = None
    freeze: bool | None = None


class _AskShard(_Ask):
    project: str
    logstore: str
    shard: Number


class _AskLogstore(_Ask):
    project: str
    logstore: str


class _AskProject(_Ask):
    project: str
    status: Literal["Normal", "Disable"]


class _AskAssignor(_AskLogstore):
    group: str
    assignor: Literal["", "range", "round_robin", "sticky", "weighted"]


class _AskSplit(_AskShard):
    key: str = ""
    count: int = Field(default=2, ge=2, le=SHARDS_MAX)


class _AskJump(_AskShard):
    step: int = Field(ge=1, le=CURSOR_MAX)


class _AskRetain(_Ask):
    project: str
    logstore: str
    shard: Number | None = None
    before_s: Number | None = None
    before_cursor: Number | None = None
    drop: bool = False


class _AskKey(_Ask):
    id: str = Field(min_length=1)
    secret: str = Field(min_length=1)
    token: str = ""
    lasts_s: float | None = Field(default=None, ge=-_LASTS_S_MAX, le=_LASTS_S_MAX)
    policy: Policy | None = None


class AdminHandlers:
    """The handlers; each ends with a commit, so what it changed is written down."""

    def __init__(self, app: ServiceApp) -> None:
        self.app, self.service = app, app.service

    def starlette(self) -> Starlette:
        """The application that answers below /_admin."""
        table = (
            ("GET", "/clock", self.clock), ("POST", "/clock", self.move_clock),
            ("GET", "/faults", self.faults), ("POST", "/faults", self.add_fault),
            ("DELETE", "/faults", self.remove_faults), ("DELETE", "/faults/{fault}", self.remove_faults),
            ("POST", "/faults/{fault}/release", self.release),
            ("GET", "/faults/{fault}/wait", self.wait), ("POST", "/retain", self.retain),
            ("POST", "/split", self.split), ("POST", "/merge", self.merge), ("POST", "/jump", self.jump),
            ("POST", "/forget_members", self.forget_members), ("POST", "/assignor", self.assignor),
            ("POST", "/project", self.project),
            ("GET", "/limits", self.limits), ("POST", "/limits", self.change_limits),
            ("POST", "/keys", self.add_key), ("GET", "/state", self.state), ("GET", "/dump", self.dump),
            ("GET", "/", self.page),
        )  # fmt: skip
        return Starlette(routes=[Route("/_admin" + p, self._guarded(h), methods=[m]) for m, p, h in table])

    async def clock(self, request: Request) -> Response:
        return JSONResponse({"now": self.service.now(), **self.service.clock.doc()})

    async def move_clock(self, request: Request) -> Response:
        """{now, advance, freeze}: freeze first, then set, then advance; what is left out stays.

        Refused as a whole: nothing of it is done when the clock would leave its range.
        """
        ask = _AskClock.model_validate_json(await request.body())
        clock = self.service.clock
        checked((clock.now() if ask.now is None else checked(ask.now)) + (ask.advance or 0.0))
        if ask.freeze is not None:
            clock.freeze(ask.freeze)
        if ask.now is not None:
            clock.set(ask.now)
        if ask.advance is not None:
            clock.advance(ask.advance)
        self.service.clock_moved()
        return await self.clock(request)

    async def faults(self, request: Request) -> Response:
        return JSONResponse([f.doc() for f in self.service.faults.all.values()])

    async def add_fault(self, request: Request) -> Response:
        return JSONResponse(self.service.faults.add(Wanted.model_validate_json(await request.body())).doc())

    async def remove_faults(self, request: Request) -> Response:
        """Take one or all out of force, and let go what they held."""
        gone = self.service.faults.remove(self._fault(request).id if "fault" in request.path_params else None)
        for fault in gone:
            self.app.release(fault.id)
        return JSONResponse([f.doc() for f in gone])

    async def release(self, request: Request) -> Response:
        self.app.release(self._fault(request).id)
        return JSONResponse({})

    async def wait(self, request: Request) -> Response:
        """Answer once the fault has acted `hits` times; 408 after `timeout_s`.

        Story: a test holds a put, and must act while it is held. With a sleep that would be right most
        often. Here it asks for the fault's first hit, and the answer comes once the request has met the
        hold.
        """
        fault = self._fault(request)
        hits, timeout_s = (
            int(request.query_params.get("hits", 1)),
            float(request.query_params.get("timeout_s", 10)),
        )
        if not 0.0 <= timeout_s <= _WAIT_S_MAX:
            raise parameter_invalid(f"timeout_s: 0 to {_WAIT_S_MAX:.0f} seconds")
        try:
            async with asyncio.timeout(timeout_s), self.app.hit:
                await self.app.hit.wait_for(lambda: fault.hits >= hits)
        except TimeoutError:
            raise Refused(408, "Timeout", f"the fault acted {fault.hits} times in {timeout_s} s") from None
        return JSONResponse(fault.doc())

    async def retain(self, request: Request) -> Response:
        """Remove what retention would: groups before a time or a cursor, or a whole shard."""
        ask = _AskRetain.model_validate_json(await request.body())
        logstore = self.service.store.logstore(ask.project, ask.logstore)
        for shard in [s for s in logstore.shards.values() if ask.shard in (None, s.id)]:
            self._retain(logstore, shard, ask)
        return JSONResponse(_logstore_doc(logstore))

    async def split(self, request: Request) -> Response:
        ask = _AskSplit.model_validate_json(await request.body())
        logstore = self.service.store.logstore(ask.project, ask.logstore)
        found = self.service.store.split(
            logstore, ask.shard, self.service.now(), key=ask.key, count=ask.count
        )
        return JSONResponse([shard_doc(s) for s in found])

    async def merge(self, request: Request) -> Response:
        ask = _AskShard.model_validate_json(await request.body())
        logstore = self.service.store.logstore(ask.project, ask.logstore)
        found = self.service.store.merge(logstore, ask.shard, self.service.now())
        return JSONResponse([shard_doc(s) for s in found])

    async def jump(self, request: Request) -> Response:
        ask = _AskJump.model_validate_json(await request.body())
        self.service.store.jump(self.service.store.logstore(ask.project, ask.logstore), ask.shard, ask.step)
        return JSONResponse({})

    async def forget_members(self, request: Request) -> Response:
        """Every member of the logstore's groups counts as silent for longer than the timeout."""
        ask = _AskLogstore.model_validate_json(await request.body())
        logstore = self.service.store.logstore(ask.project, ask.logstore)
        for group in logstore.groups.values():
            group.forget_members(self.service.now(), logstore.shape())
        return JSONResponse([_group_doc(group) for group in logstore.groups.values()])

    async def assignor(self, request: Request) -> Response:
        """Let a group share its shards by one of our assignors from its next heartbeat on; "": as ever."""
        ask = _AskAssignor.model_validate_json(await request.body())
        logstore = self.service.store.logstore(ask.project, ask.logstore)
        if (group := logstore.groups.get(ask.group)) is None:
            raise no_group(ask.group)
        group.assignor, group.changed = ask.assignor, True
        return JSONResponse(_group_doc(group))

    async def project(self, request: Request) -> Response:
        """Disable a project, as the service does with one whose account is overdue, or take that back."""
        ask = _AskProject.model_validate_json(await request.body())
        self.service.store.update_project(ask.project, {"status": ask.status}, self.service.now())
        return JSONResponse(self.service.store.project(ask.project))

    async def limits(self, request: Request) -> Response:
        return JSONResponse(self.service.limits.model_dump())

    async def change_limits(self, request: Request) -> Response:
        """Replace the limits that are named; files and caches keep their size."""
        named = _LIMITS.validate_json(await request.body())
        self.service.limits = Limits.model_validate({**self.service.limits.model_dump(), **named})
        self.service.meter.forget()
        return await self.limits(request)

    async def add_key(self, request: Request) -> Response:
        """Let another key pair sign, or the same by another policy; with a token it ends after `lasts_s`."""
        ask = _AskKey.model_validate_json(await request.body())
        ends_s = self.service.machine.now() + ask.lasts_s if ask.lasts_s is not None else float("inf")
        self.service.keys.add(ask.id, Key(ask.secret, ask.token, ends_s, ask.policy))
        return JSONResponse({})

    async def state(self, request: Request) -> Response:
        return JSONResponse(self._state())

    async def page(self, request: Request) -> Response:
        """The status page."""
        moment = datetime.fromtimestamp(self.service.now(), UTC)
        frozen = self.service.clock.doc()["frozen_at"] is not None
        return HTMLResponse(render(self._state(), f"{moment:%Y-%m-%d %H:%M:%S} UTC", frozen))

    def _state(self) -> dict[str, Any]:
        store = self.service.store
        for logstore in store.logstores.values():
            for group in logstore.groups.values():
                group.look(self.service.now(), logstore.shape())
        return {
            "now": self.service.now(),
            "notes": self.service.journal.notes,
            "throttled": dict(self.service.meter.refused),
            "projects": list(store.projects.values()),
            "logstores": [_logstore_doc(logstore) for logstore in store.logstores.values()],
        }

    async def dump(self, request: Request) -> Response:
        """Every LogGroup kept: one JSON line each: shard, cursor, time (receive second), raw (base64)."""
        names = request.query_params.get("project", ""), request.query_params.get("logstore", "")
        return StreamingResponse(
            self._lines(self.service.store.logstore(*names)), media_type="application/jsonl"
        )

    async def _lines(self, logstore: StoredLogstore) -> AsyncIterator[bytes]:
        for shard in list(logstore.shards.values()):
            cursor, end = shard.begin, shard.next
            while cursor < end:
                cursor = max(cursor, shard.begin)
                span = shard.span(cursor, _DUMP_GROUPS, end)
                raw = self.service.journal.read(span.places, span.sizes)
                lines = []
                for i, (begin, stop) in enumerate(groups(raw)):
                    at = (span.first or 0) + i
                    line = {
                        "shard": shard.id, "cursor": at, "time": shard.time_of(at),
                        "raw": base64.b64encode(raw[begin:stop]).decode(),
                    }  # fmt: skip
                    lines.append(json.dumps(line))
                yield ("\n".join(lines) + "\n").encode() if lines else b""
                cursor = span.next

    def _retain(self, logstore: StoredLogstore, shard: ShardLog, ask: _AskRetain) -> None:
        """What a time or a cursor takes first, then the shard."""
        store = self.service.store
        if ask.before_s is not None:
            store.trim(logstore, shard, shard.at_time(ask.before_s))
        if ask.before_cursor is not None:
            store.trim(logstore, shard, ask.before_cursor)
        if ask.drop:
            store.delete_shard(logstore, shard.id)

    def _fault(self, request: Request) -> Fault:
        """The fault that the path names."""
        name = request.path_params["fault"]
        fault = self.service.faults.all.get(int(name)) if re.fullmatch("[0-9]{1,9}", name) else None
        if fault is None:
            raise parameter_invalid("no such fault")
        return fault

    def _guarded(self, handler: Handler) -> Handler:
        """The name that was asked for must be loopback's, too: a page in somebody's browser can reach
        loopback under a name of its own, and its script would move the clock. JSON is asked for in a POST,
        since a form cannot send it."""

        async def guarded(request: Request) -> Response:
            host = (request.url.hostname or "").strip("[]")
            client = request.client.host if request.client else ""
            try:
                if not ipaddress.ip_address(client or "0.0.0.0").is_loopback or not is_loopback(host):
                    raise Refused(403, "Forbidden", "the admin path answers on loopback only")
                if request.method == "POST" and request.headers.get("content-type") != "application/json":
                    raise Refused(415, "InvalidContentType", "Content-Type: expected application/json")
                return await handler(request)
            except Refused as refused:
                error = {"errorCode": refused.code, "errorMessage": refused.message}
                return JSONResponse(error, status_code=refused.status)
            except ValidationError as wrong:
                return _wrong(_sentence(wrong))
            except (ConfigError, ValueError) as wrong:
                return _wrong(str(wrong))
            finally:
                self.service.commit()

        return guarded


def _wrong(text: str) -> Response:
    return JSONResponse({"errorCode": "ParameterInvalid", "errorMessage": text}, status_code=400)


def _sentence(wrong: ValidationError) -> str:
    """What is wrong with a request, without what stood there: it need not be text that can be sent."""
    problems = wrong.errors(include_input=False, include_url=False, include_context=False)
    told = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'the body'}: {p['msg']}" for p in problems)
    return told.encode("utf-8", "replace").decode()


def _logstore_doc(logstore: StoredLogstore) -> dict[str, Any]:
    """A logstore with its shards and groups, as plain values."""
    shards = [
        {**shard_doc(s), "begin": s.begin, "end": s.next, "groups": len(s.cursors), "bytes": s.raw_bytes}
        for s in logstore.shards.values()
    ]
    return {
        "project": logstore.project, "logstore": logstore.name, "ttl_days": logstore.ttl_days,
        "created_s": logstore.created_s, "shards": shards,
        "groups": [_group_doc(g) for g in logstore.groups.values()],
    }  # fmt: skip


def _group_doc(group: Any) -> dict[str, Any]:
    slots = [
        {
            "shard": i, "state": s.state.value, "holder": s.holder, "taker": s.taker,
            "checkpoint": s.checkpoint, "updated_us": s.updated_us,
        }
        for i, s in sorted(group.slots.items())
    ]  # fmt: skip
    return {
        "name": group.name, "timeout_s": group.timeout_s, "order": group.order, "assignor": group.assignor,
        "members": dict(group.members), "shards": slots,
    }  # fmt: skip
