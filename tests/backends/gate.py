"""A gate on loopback in front of a server: connections pass, until one is to lose something.

It knows nothing of what passes but one pattern, the bytes by which a commit is told from the rest. What
`script` says happens to the next connections that ask for one, a word each:

    lost      the request arrives, its answer does not: the connection breaks
    refused   the request does not arrive: the connection breaks
    502       as lost, but with an answer of HTTP that says nothing of what became of the request
    503       as refused, likewise
    silent    the request arrives, and nothing is heard of it until the gate ends
    late      the request, of HTTP, stays on its way until `deliver`, and the connection breaks
    doubled   the request, of HTTP, arrives and is answered, and comes again at `deliver`

`hold` lets nothing pass at all and breaks nothing: whoever asks waits.
"""

import re
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_BYTES = 1 << 16
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)\r\n")
_ERROR = b"HTTP/1.1 %b Gate\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Gate:
    """In front of `port`; listens on `self.port`."""

    def __init__(self, port: int, pattern: bytes) -> None:
        self._to, self._pattern = port, pattern
        self.script: deque[str] = deque()
        self.acted: list[str] = []
        self.held: list[bytes] = []
        self._open = threading.Event()
        self._open.set()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Nothing passes meanwhile."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def deliver(self) -> list[int]:
        """Let what is on its way arrive, in order; the status of each answer."""
        statuses = []
        while self.held:
            with socket.create_connection(("127.0.0.1", self._to)) as server:
                server.sendall(self.held.pop(0))
                statuses.append(int(server.recv(_BYTES).split(b" ", 2)[1]))
        return statuses

    def end(self) -> None:
        """Close everything."""
        self._ended.set()
        self._open.set()
        for each in (self._listener, *self._sockets):
            _close(each)
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with suppress(OSError):
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [client, server]
                passage = _Passage(self, client, server)
                threads = [
                    threading.Thread(target=work, daemon=True) for work in (passage.ask, passage.answer)
                ]
                self._threads += threads
                for thread in threads:
                    thread.start()
                continue
            _close(client)

    def wait(self) -> None:
        """Return once the gate is open."""
        self._open.wait()

    def wait_for_end(self) -> None:
        """Return once the gate ends."""
        self._ended.wait()

    def word(self, data: bytes) -> str:
        """What happens to this request."""
        if self._pattern not in data or not self.script:
            return ""
        self.acted.append(self.script.popleft())
        return self.acted[-1]


class _Passage:
    """One connection through the gate."""

    def __init__(self, gate: Gate, client: socket.socket, server: socket.socket) -> None:
        self._gate, self._client, self._server = gate, client, server
        self._word, self._request = "", b""

    def ask(self) -> None:
        """From the client to the server."""
        with suppress(OSError):
            while data := self._client.recv(_BYTES):
                self._gate.wait()
                self._word = self._gate.word(data) or self._word
                if self._word in ("late", "doubled"):
                    self._hold(data)
                if self._word in ("refused", "503"):
                    self._break()
                    break
                if self._word != "late":
                    self._server.sendall(data)
        _close(self._server)

    def answer(self) -> None:
        """From the server to the client."""
        with suppress(OSError):
            while data := self._server.recv(_BYTES):
                self._gate.wait()
                if self._word == "silent":
                    self._gate.wait_for_end()
                if self._word in ("lost", "502", "silent"):
                    self._break()
                    break
                self._client.sendall(data)
        _close(self._client)

    def _hold(self, data: bytes) -> None:
        """Keep the request for later, once all of it is here."""
        self._request += data
        head, _, body = self._request.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + b"\r\n")
        if length is not None and len(body) >= int(length[1]):
            self._gate.held.append(self._request)
            if self._word == "late":
                self._break()
            self._word, self._request = "", b""

    def _break(self) -> None:
        if self._word.isdigit():
            self._client.sendall(_ERROR % self._word.encode())
        _close(self._client)
        _close(self._server)


def _close(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
