"""Real HTTP servers on loopback that answer what a test tells them to, however wrong."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sls_io.values.clock import Clock, ManualClock
from sls_io.values.settings import Service
from sls_io.wire.transport import Transport


@dataclass(frozen=True)
class Reply:
    """One scripted answer."""

    status: int = 200
    body: bytes = b"[]"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def error(status: int, code: str, message: str = "no", **headers: str) -> Reply:
    return Reply(status, json.dumps({"errorCode": code, "errorMessage": message}).encode(), headers)


class Script(ThreadingHTTPServer):
    """Answers with `replies` in turn, the last one for ever, and remembers what was asked."""

    daemon_threads = True

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies, self.seen = list(replies), list[Seen]()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Script

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        named = {k.lower(): v for k, v in self.headers.items()}
        self.server.seen.append(Seen(self.command, self.path, named, body))
        reply = self.server.replies.pop(0) if len(self.server.replies) > 1 else self.server.replies[0]
        self.send_response_only(reply.status)
        for name, value in {"x-log-requestid": "rid-1", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def script(*replies: Reply) -> Iterator[Script]:
    """A scripted server while the block runs."""
    server = Script(*replies)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def raw_server(talk: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A TCP server that hands each connection to `talk` with an event that is set at the end."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        # The client goes away in the middle: that is what these tests are about.
        with connection, suppress(OSError):
            talk(connection, over)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,), daemon=True))
            threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in [acceptor, *threads]:
            thread.join(5)


@contextmanager
def transport(
    endpoint: str, *, clock: Clock | None = None, deadline_s: float | None = None, **settings: Any
) -> Iterator[Transport]:
    service = Service(endpoint=endpoint, project="demo", logstore="logs", **settings)
    made = Transport(service, deadline_s=deadline_s, clock=clock or ManualClock())
    try:
        yield made
    finally:
        made.close()


@contextmanager
def talking(*replies: Reply, **settings: Any) -> Iterator[tuple[Transport, Script]]:
    """A transport, and the scripted server that it talks to."""
    with script(*replies) as server, transport(server.endpoint, **settings) as made:
        yield made, server
