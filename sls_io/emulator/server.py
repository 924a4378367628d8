"""The HTTP edge: request in, signature checked, faults acted out, answer sent.

uvicorn with httptools serves it on loopback. A forward proxy's client sends absolute-form targets,
so the project is the first label of the target's authority, else of `Host`; httptools keeps only
the path of a target, therefore the protocol below hands the whole one on.

Why one event loop, and nothing awaited between a signature that fits and a change in the journal. Two
requests never see one another's half: of two heartbeats one is first, and a put has its cursor before
another put is looked at. Only what changes nothing leaves the loop: compression, in two threads, and the
waits of faults.

Why a proxy's targets. No resolver knows `demo.127.0.0.1`, so the vendor's clients are told that the
emulator is their HTTP proxy. They then send `GET http://demo.sls.emu/logstores/x HTTP/1.1`, whatever the
made-up endpoint is called.
"""

import asyncio
import ipaddress
import json
import logging
import re
import sys
import uuid
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from types import FrameType
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sls_io.emulator import api
from sls_io.emulator.faults import Fault, Wanted, rewritten
from sls_io.emulator.parameters import json_body
from sls_io.emulator.service import LogService, RoutedRequest, ServedAnswer
from sls_io.emulator.signing import SignedRequest
from sls_io.emulator.storage.refusal import Refused
from sls_io.wire.loggroup import compress, decompress, frame, groups

_LOG = logging.getLogger("sls_io.emulator")
HOST_LABEL = re.compile(r"[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?")
_HEADER_BYTES_MAX = 64 * 1024
_BODY_ROOM_BYTES = 64 * 1024
TARGET, TRANSPORT = "sls_io.target", "sls_io.wire.transport"


class TargetProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with the raw target and the transport in the scope and a bound on headers.

    A target may be an authority alone, `http://demo.sls.emu?offset=0`. There is no path in it, on which
    uvicorn relies, so a slash is put in between.

    The bound counts target and headers as they come. Nothing else bounds them here: a client that sends a
    header for ever would fill the memory before anything is refused.
    """

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        scope: MutableMapping[str, Any] = self.scope  # type: ignore[assignment]
        scope[TARGET], scope[TRANSPORT] = self.url, self.transport
        scheme, found, rest = self.url.partition(b"://")
        if found and b"/" not in rest:
            host, mark, query = rest.partition(b"?")
            self.url = scheme + found + host + b"/" + mark + query
        super().on_headers_complete()

    def _count(self, size: int) -> None:
        self.head_bytes += size
        if self.head_bytes > _HEADER_BYTES_MAX:
            raise ValueError("target and headers are longer than 64 KiB")


class ServiceApp:
    """The log service's own calls as an ASGI application."""

    def __init__(self, service: LogService) -> None:
        self.service = service
        self.hit = asyncio.Condition()
        self._held: dict[int, asyncio.Event] = {}
        self._reading_bytes = 0
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="compress")
        self._compressing: dict[tuple[object, ...], asyncio.Future[bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Faults act around the call: before it (hold, delay, error, drop), a second time behind it
        (`duplicate`, whose answer nobody sees), and on its answer."""
        request_id = uuid.uuid4().hex[:24].upper()
        status, answer, met, name = 200, ServedAnswer(), list[Fault](), ""
        try:
            request, project = await self._read(scope, receive)
            route, names = api.find(request.method, request.path, request.query)
            if project and not HOST_LABEL.fullmatch(project):
                raise Refused(400, "InvalidHost", "Host header Host is invalid.")
            name = route.name
            call = RoutedRequest(name, project, names, request.query, request.headers, request.body)
            met = await self._meet(call)
            if not await self._before(met, scope, receive):
                return
            answer = await self._do(route, request, call)
            if any(f.wanted.do == "duplicate" for f in met):
                with suppress(Refused):
                    await self._do(route, request, call)
        except Refused as refused:
            status, answer = refused.status, _refusal(refused)
        except OSError as error:
            why = f"the data folder cannot be read or written: {error.strerror}"
            _LOG.error("request %s is not acknowledged: %s", request_id, why)
            status, answer = 500, _failed(why)
        except Exception:
            _LOG.exception("request %s failed", request_id)
            status, answer = 500, _failed("the emulator failed; see its log")
        _LOG.debug("%s %s %s %s", scope["method"], scope["path"], name or "-", status)
        await self._reply(scope, receive, send, status, answer, met, request_id)

    def release(self, fault: int) -> None:
        """Let go the requests that a `hold` or `hold_reply` fault stopped, now and later."""
        self._held.setdefault(fault, asyncio.Event()).set()

    async def _read(self, scope: Scope, receive: Receive) -> tuple[SignedRequest, str]:
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        limit = self.service.limits.put_bytes_max + _BODY_ROOM_BYTES
        if len(headers.get("content-length", "")) > 12 or int(headers.get("content-length", 0)) > limit:
            raise Refused(400, "PostBodyTooLarge", f"a body has at most {limit} bytes")
        body = await self._body(receive, limit)
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        request = SignedRequest(scope["method"], scope["path"], query, headers, body)
        return request, project_of(scope.get(TARGET, b""), headers.get("host", ""))

    async def _body(self, receive: Receive, limit: int) -> bytes:
        """The request's body. Refused over `limit`, and when all that are being read are too many.

        Two bounds, since each alone lets something through. Story: a thousand connections send 10 MB each,
        but for the last byte, and wait: each body is within its own limit, and together they are 10 GB. So
        what is being read is counted over all of them, and above `bodies_bytes_max` long bodies get 503.
        Short ones still pass: a heartbeat that were refused because of somebody's puts would cost its
        holder the shards.
        """
        chunks, size, more = [], 0, True
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "PostBodyInvalid", "the connection closed inside the body")
                chunk = message.get("body", b"")
                more, size = message.get("more_body", False), size + len(chunk)
                self._reading_bytes += len(chunk)
                chunks.append(chunk)
                if size > limit:
                    raise Refused(400, "PostBodyTooLarge", f"a body has at most {limit} bytes")
                full = self._reading_bytes > self.service.limits.bodies_bytes_max
                if full and size > _BODY_ROOM_BYTES:  # heartbeats and the like still go through
                    raise Refused(503, "ServerBusy", "bodies_bytes_max reached: fewer puts at one time")
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            self._reading_bytes -= size

    async def _do(self, route: api.Route, request: SignedRequest, call: RoutedRequest) -> ServedAnswer:
        """Check the signature and act; no await until the change is in the journal.

        First whose key it is, then whether the project may be used, then what the key may do: whoever
        cannot sign is told nothing of projects. The commit stands in `finally`, since a call that is
        refused may have changed something before: looking at a group evicts its silent members.
        """
        service = self.service
        key = service.keys.verify(request, service.machine.now(), service.limits.skew_s)
        if route.name != "get_project" and service.store.disabled(call.project):
            raise Refused(403, "ProjectForbidden", f"The Project has been forbidden : {call.project}")
        if key.policy is not None:
            key.policy.check(route.name, {"project": call.project, **call.names})
        try:
            answer = route.handler(service, call)
        finally:
            service.commit()
        if answer.compress and answer.key is not None:
            answer.body = await self._compressed(answer.key, answer.body, answer.compress)
        return answer

    async def _compressed(self, key: tuple[object, ...], plain: bytes, kind: str) -> bytes:
        """Compress beside the event loop, once for all who ask for the same page meanwhile.

        Worked example: eight readers ask for one page at the same time. The first one starts the work, the
        other seven wait for its future; a client that hangs up meanwhile takes only its own waiting with
        it, which is what `shield` is for.
        """
        running = self._compressing.get(key)
        if running is None:
            loop = asyncio.get_running_loop()
            running = loop.run_in_executor(self._threads, compress, plain, kind)
            self._compressing[key] = running
            running.add_done_callback(lambda _: self._compressing.pop(key, None))
        body = await asyncio.shield(running)
        self.service.pages.put(key, body)
        return body

    async def _meet(self, call: RoutedRequest) -> list[Fault]:
        if not self.service.faults.all:
            return []
        shard = _shard_of(call)
        met = self.service.faults.meet({
            "call": call.name, "project": call.project, "logstore": call.names.get("logstore", ""),
            "shard": int(shard) if shard.isascii() and shard.isdigit() else None,
            "consumer": call.query.get("consumer", ""), "query": dict(call.query), "at": self.service.now(),
            "user_agent": call.headers.get("user-agent", ""),
        })  # fmt: skip
        if met:
            async with self.hit:
                self.hit.notify_all()
        return met

    async def _pause(self, fault: int, longest_s: float | None = None) -> None:
        """Wait for `release`, at most `longest_s`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._held.setdefault(fault, asyncio.Event()).wait(), longest_s)

    async def _before(self, met: list[Fault], scope: Scope, receive: Receive) -> bool:
        """Act out what comes before the call; False when the request was dropped.

        Faults act in the order in which they were asked for. A `hold` before an `error` holds and then
        refuses; an `error` before a `hold` refuses at once.
        """
        for fault in met:
            wanted = fault.wanted
            if wanted.do == "hold":
                await self._pause(fault.id)
            elif wanted.do == "delay":
                await self._pause(fault.id, wanted.delay_s)
            elif wanted.do == "error":
                raise Refused(wanted.status, wanted.code, wanted.message)
            elif wanted.do == "drop_request":
                await _hang_up(scope, receive)
                return False
        return True

    async def _reply(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        status: int,
        answer: ServedAnswer,
        met: list[Fault],
        request_id: str,
    ) -> None:
        """A reply that is cut short says its whole length first, and then the connection ends: the client
        must notice."""
        reply = _Reply(status, answer, {**answer.headers, "x-log-requestid": request_id})
        now = self.service.now()
        reply.headers |= {"date": formatdate(now, usegmt=True), "x-log-time": str(int(now))}
        for fault in met:
            wanted = fault.wanted
            if wanted.do == "hold_reply":
                await self._pause(fault.id)
            elif wanted.do == "delay_reply":
                await self._pause(fault.id, wanted.delay_s)
            elif wanted.do == "drop_reply":
                await _hang_up(scope, receive)
                return
            else:
                reply.falsify(wanted)
        body, headers, through = reply.body, reply.headers, reply.through
        headers["content-length"] = str(len(body))
        if status >= 400 and scope["method"] in ("POST", "PUT") and _unread(scope):
            headers["connection"] = "close"
        raw = [(k.encode("latin-1"), v.encode("latin-1", "replace")) for k, v in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        if through is None or through >= len(body):
            await send({"type": "http.response.body", "body": body})
            return
        await send({"type": "http.response.body", "body": body[:through], "more_body": True})
        await _hang_up(scope, receive, flush=True)


class _Reply:
    """An answer on its way, as faults make it. `through`: how many bytes of the body go out; None: all."""

    def __init__(self, status: int, answer: ServedAnswer, headers: dict[str, str]) -> None:
        self.status, self.answer, self.headers = status, answer, headers
        self.body = answer.body
        self.through: int | None = None

    def falsify(self, wanted: Wanted) -> None:
        """What a fault wants of it that is no matter of time.

        The headers are made first and spoilt afterwards, so a fault can make any of them lie, the length of
        the plain body and the Date included. `content-length` is set behind all of it by what is sent: HTTP
        itself stays whole, or the client would see a broken connection and not a wrong answer.
        """
        if wanted.do == "headers":
            self.headers |= {k.lower(): v for k, v in wanted.headers.items() if v is not None}
            for name in (k.lower() for k, v in wanted.headers.items() if v is None):
                self.headers.pop(name, None)
        elif wanted.do == "answer" and self.status == 200:
            self.body = rewritten(self.body, wanted)
        elif wanted.do == "short" and "x-log-bodyrawsize" in self.headers:  # a refusal has no groups to lose
            self.body = _shortened(self.answer, self.headers, wanted.groups)
        elif wanted.do == "truncate":
            self.through = wanted.bytes


def project_of(target: bytes, host: str) -> str:
    """First label of the target's authority, else of `host`; empty for a bare address or name.

    Worked example: `http://demo.sls.emu/logstores` by a proxy's request, or `Host: demo.127.0.0.1:8080`, is
    `demo`; a bare `127.0.0.1:8080` names no project.
    """
    scheme, found, rest = target.partition(b"://")
    authority = (
        rest.split(b"/", 1)[0].split(b"?", 1)[0].decode("latin-1")
        if found and scheme in (b"http", b"https")
        else host
    )
    name = authority.rpartition("@")[2]
    name = name[: name.rindex(":")] if ":" in name and not name.endswith("]") else name
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        label, dot, _ = name.partition(".")
        return label.lower() if dot else ""
    return ""


def _failed(why: str) -> ServedAnswer:
    return _refusal(Refused(500, "InternalServerError", why))


def _refusal(refused: Refused) -> ServedAnswer:
    text = json.dumps({"errorCode": refused.code, "errorMessage": refused.message})
    return ServedAnswer(text.encode(), {"content-type": "application/json"})


def _shortened(answer: ServedAnswer, headers: dict[str, str], less: int) -> bytes:
    """The page without its last groups. Count and cursor still speak of all, the raw size does not.

    The raw size is made to fit what is left, so the body unpacks cleanly and every group in it is whole:
    only the count says that one is missing. That is the fault that a reader finds by counting and in no
    other way.
    """
    kind = answer.headers.get("x-log-compresstype", "")
    raw = decompress(answer.body, kind, int(answer.headers.get("x-log-bodyrawsize", "0")))
    found = list(groups(raw))
    kept = b"".join(frame(raw[begin:end]) for begin, end in found[: max(0, len(found) - less)])
    headers["x-log-bodyrawsize"] = str(len(kept))
    return compress(kept, kind)


def _shard_of(call: RoutedRequest) -> str:
    """The shard that a request is about: its path names it, or, of a checkpoint, its body."""
    if call.name == "save_checkpoint":
        with suppress(Refused):  # the call itself says what is wrong with its body
            return str(json_body(call, "").get("shard"))
    return call.names.get("shard", "")


def _unread(scope: Scope) -> bool:
    """Whether the client may still be sending a body that nobody will read."""
    return any(k == b"content-length" and len(v) > 6 for k, v in scope["headers"])


async def _hang_up(scope: Scope, receive: Receive, *, flush: bool = False) -> None:
    """Close the connection without a (whole) answer, and wait until it is closed.

    `abort` drops what is not sent yet, and the client sees a reset; with `flush` what was written goes out
    first, and the client sees an end inside a body whose length it knows. The wait for the disconnect keeps
    uvicorn from ending the answer itself.
    """
    transport = scope.get(TRANSPORT)
    if transport is not None:
        transport.close() if flush else transport.abort()
    while (await receive())["type"] != "http.disconnect":
        pass


class ReadyServer(uvicorn.Server):
    """Prints the ready line once it accepts connections, then calls `on_ready` with the endpoint."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            endpoint = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
            sys.stdout.write(f"sls-lake emulator ready on {endpoint}\n")
            sys.stdout.flush()
            self._on_ready(endpoint)

    # uvicorn looks ten times a second whether it shall end, and then waits a tenth of a second for
    # connections, open or not. A test that has an emulator of its own would wait for both at its end.

    async def main_loop(self) -> None:
        """Serve until a signal."""
        await self.on_tick(0)
        self._loop = asyncio.get_running_loop()
        if not self.should_exit:
            await self._ending.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: end once the loop runs on, also where it stands in a wait."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """Close what is idle; only for requests that are being answered is waited."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        # What is idle closes in the loop's next turn.
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
