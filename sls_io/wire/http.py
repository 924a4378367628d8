"""One HTTP request to one answer, under a deadline that counts the sum of all waiting.

Pooled connections, verified TLS, no proxy but one that the settings name, no netrc from the environment, no
redirects, no retries: what to do when there is no answer is decided by the caller (`transport.py`), which
is told whether the request may have reached the service.

Name resolution is the one step that the deadline cannot cut short: the system's resolver takes
no timeout.

Three things of HTTP libraries are not taken as they are, for what they make possible: a time-out that
begins anew with each byte, a hang (`_Reader`); a length that is guessed where the answer names none that
can be read, a wrong page (`_check_framing`, `_Received`); one word for all that went wrong, a put that is
done twice (`_lost`).
"""

import base64
import io
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, partial
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ProxyError, SSLError
from urllib3.exceptions import TimeoutError as PoolTimeoutError
from urllib3.util.ssl_match_hostname import CertificateError

from sls_io.values.clock import Clock
from sls_io.values.errors import ConfigError, printable
from sls_io.values.settings import is_loopback

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""The most an answer's body may have. The service's own pages stay near 10 MiB."""

_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(r"[0-9]{1,18}")
_CHUNK = re.compile(rb"[0-9A-Fa-f]{1,15}[ \t]*(?:;[^\r\n]*)?\r?\n")
_CHUNK_LINE_MAX = 4096
_CONNECTIONS_MAX = 16
_RECEIVE_BYTES = 256 * 1024
_OF_CERTIFICATE = (ssl.SSLCertVerificationError, CertificateError)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers with lower-case names, and the body as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Lost(Exception):
    """No whole answer.

    `timeout`: time ran out. `sent`: the service may have acted on the request. `hopeless`: the
    same request would fail the same way.
    """

    def __init__(
        self, reason: str, *, timeout: bool = False, sent: bool = True, hopeless: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason, self.timeout, self.sent, self.hopeless = reason, timeout, sent, hopeless


_remaining_s: ContextVar[Callable[[], float]] = ContextVar("_remaining_s")
"""Seconds left of the request that this thread is making: read before every receive."""


class _Reader(io.RawIOBase):
    """A socket's bytes, each receive bounded by what is left of the request.

    A socket's own timeout starts afresh with every byte: a server that sends one byte a second
    would hold a caller for ever. Here the sum counts.

    Worked example: 30 s are left, and a server sends a byte every 10 s of a page of 1,000. By the socket's
    time-out of 30 s the call lasts 10,000 s. Here 30, 20 and 10 s are left for the first three receives,
    and the call ends at 30 s.

    What is left comes by a context variable and not by an argument: the library makes the reader, and a
    connection out of the pool serves another call, in another thread, each time.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._sock, self._raw = sock, sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = _remaining_s.get()()
        if left <= 0:
            raise TimeoutError("deadline")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Received(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        plain = self.fp
        self.fp = io.BufferedReader(_Reader(sock), _RECEIVE_BYTES)
        plain.close()

    def _read_next_chunk_size(self) -> int:
        # The library's own takes a sign, spaces and underscores, and "-5" ends in a ValueError of a read.
        line = self.fp.readline(_CHUNK_LINE_MAX)
        if not _CHUNK.fullmatch(line):
            raise ValueError("a chunk without its size")
        return int(line.partition(b";")[0], 16)


class _Http(HTTPConnection):
    response_class = _Received


class _Trust(ssl.SSLContext):
    """What certificates are checked with: one for all connections of a process.

    The authorities of a machine are about 140: to read them takes 35 ms of CPU, ten times the handshake, and
    urllib3 reads them for each connection, if nobody gives it a context. Worked example: a run over eight
    shards opens 18 connections, 0.6 s; a thousand logstores are looked at in a minute, half a core.

    What is shared must not change. Python lets other threads run while OpenSSL copies a context's settings
    for a new connection, and urllib3 sets the protocols anew before each, which frees what is being copied.
    """

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Nothing: there is one protocol, and it was said when this was made."""

    @classmethod
    def now(cls) -> "_Trust":
        """By the bundle that the environment names now, as it is now: a process may run for months, and an
        authority be added meanwhile."""
        places = ssl.get_default_verify_paths()
        stands = os.stat(places.cafile) if places.cafile else None
        return cls._read(places.cafile, places.capath, stands and (stands.st_mtime_ns, stands.st_size))

    @classmethod
    @lru_cache(maxsize=1)
    def _read(cls, file: str | None, folder: str | None, version: tuple[int, int] | None) -> "_Trust":
        made = cls(ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.hostname_checks_common_name = False
        ssl.SSLContext.set_alpn_protocols(made, ["http/1.1"])
        made.load_default_certs()
        return made


class _NotShaken(ConnectionError):
    """The TLS handshake was cut off, stalled, or failed by anything but the certificate: nothing was sent."""


class _Https(HTTPSConnection):
    response_class = _Received

    def connect(self) -> None:
        self.ssl_context = _Trust.now()
        try:
            super().connect()
        except ssl.SSLCertVerificationError:
            raise
        except OSError as error:
            if self.proxy is not None and not self.has_connected_to_proxy:
                raise
            reason = error.reason if isinstance(error, ssl.SSLError) else None
            raise _NotShaken(reason or type(error).__name__) from error

    def _tunnel(self) -> None:
        try:
            super()._tunnel()
        except (OSError, HTTPException):
            # The library closes it itself where the proxy says no, and calls that the proxy's failure, before
            # which nothing was sent. A tunnel that is cut or stalls is no other.
            self.close()
            raise


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


class Wire:
    """Connections to one endpoint. Safe to use from many threads.

    With a loopback endpoint it connects to that very address, whatever the Host header says:
    `project.127.0.0.1` is no name that anybody resolves.
    """

    def __init__(self, endpoint: str, clock: Clock, *, proxy: str = "") -> None:
        parts = urlsplit(endpoint)
        self.scheme, self.host = parts.scheme, parts.hostname or ""
        self.place = parts.netloc
        self._port = parts.port or (443 if self.scheme == "https" else 80)
        self._direct = is_loopback(self.host)
        self._clock = clock
        # Where it is, without who we are there: errors say it.
        self._proxy = urlsplit(proxy).netloc.rpartition("@")[2]
        pools = partial(_proxied, proxy, self._proxy) if proxy else urllib3.PoolManager
        self._pool = pools(num_pools=8, maxsize=_CONNECTIONS_MAX, block=False)
        self._pool.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}

    def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        connect_timeout_s: float,
        until_s: float,
    ) -> Answer:
        """Send to `headers["Host"]`; the answer must be here by `until_s` of the monotonic clock.

        Raises Lost when it is not, ConfigError when a header cannot be sent as it is.

        The connection is closed on anything but a whole answer: what is left of this one in the socket
        would be taken for the beginning of the next one's. `preload_content` and `decode_content` are off,
        so a body comes as it was sent; a page's compression is `x-log-compresstype`, of which the library
        knows nothing.
        """
        if not all(_SENDABLE.fullmatch(value) for value in headers.values()):
            raise ConfigError("a header of the request holds characters that cannot be sent")
        left = max(until_s - self._clock.monotonic(), 0.001)
        address = self.host if self._direct else headers["Host"]
        pool = self._pool.connection_from_host(address, self._port, scheme=self.scheme)
        token = _remaining_s.set(lambda: until_s - self._clock.monotonic())
        try:
            response = pool.urlopen(
                method,
                target,
                body=body or None,
                headers=headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                timeout=urllib3.Timeout(connect=min(connect_timeout_s, left), read=left),
                preload_content=False,
                decode_content=False,
            )
            try:
                _check_framing(response)
                whole = _read_all(response)
            except BaseException:
                response.close()
                raise
        except (HTTPError, HTTPException, OSError, ValueError, OverflowError) as error:
            # The last two are the standard library's about lengths that are none: the request was checked.
            raise _lost(error, self.place, self._proxy) from None
        finally:
            _remaining_s.reset(token)
        return Answer(response.status, _headers(response), whole)

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()


def _proxied(proxy: str, place: str, **options: Any) -> urllib3.ProxyManager:
    """Connections through `proxy`. User and password, percent-encoded in its address, are sent to it alone,
    with the request for a tunnel (RFC 7617)."""
    parts = urlsplit(proxy)
    headers: Mapping[str, str] = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers = {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
    return urllib3.ProxyManager(f"{parts.scheme}://{place}", proxy_headers=headers, **options)


def _lost(error: Exception, place: str, proxy: str) -> Lost:
    """Sent or not is what the order is about. A name that does not resolve, a refused connection, a broken
    handshake, a proxy without a tunnel: nothing was sent, and even a put may be tried again. From the
    moment that the request is on its way anything may have been done. A certificate that nobody trusts is
    `hopeless`: each further try would say the same.
    """
    if isinstance(error, ProxyError):
        return _no_tunnel(error.original_error, place, proxy)
    name = type(error).__name__
    place += f" (through the proxy {proxy})" if proxy else ""
    if unshaken := [cause for cause in error.args if isinstance(cause, _NotShaken)]:
        return _not_shaken(unshaken[0], place)
    if isinstance(error, SSLError) and any(isinstance(e, _OF_CERTIFICATE) for e in error.args):
        return _not_trusted(error, place)
    if isinstance(error, NewConnectionError):
        return Lost(f"no connection to {place} ({name}); check the endpoint and the network", sent=False)
    if isinstance(error, ConnectTimeoutError):
        return Lost(f"no connection to {place} in time; check the endpoint", timeout=True, sent=False)
    if isinstance(error, PoolTimeoutError | TimeoutError):
        return Lost(f"no whole answer from {place} in time", timeout=True)
    if isinstance(error, ValueError | OverflowError):
        return Lost(f"{place} answered what is no HTTP (its length, chunks or status)")
    return Lost(f"{place} closed the connection, or answered no HTTP ({name})")


def _no_tunnel(cause: Exception, place: str, proxy: str | None) -> Lost:
    refused = re.fullmatch(r"Tunnel connection failed: ([0-9]{3}) .*", str(cause))
    why = f"answered {refused[1]}" if refused else f"gave no tunnel ({type(cause).__name__})"
    wants_a_user = refused is not None and refused[1] == "407"
    means = "its user and its password (`env:VARIABLE`), and" if wants_a_user else "and"
    return Lost(
        f"the proxy {proxy} {why}; check service.proxy, {means} that it lets us to {place}",
        timeout=isinstance(cause, PoolTimeoutError) and not isinstance(cause, NewConnectionError),
        sent=False,
    )


def _not_trusted(error: SSLError, place: str) -> Lost:
    # The text of OpenSSL's verification is fixed but for the name that was asked for.
    reasons = [e.verify_message for e in error.args if isinstance(e, ssl.SSLCertVerificationError)]
    why = f" ({printable(reasons[0].rstrip('.'))})" if reasons else ""
    return Lost(
        f"{place} shows no certificate we trust{why}; check the endpoint, or name a bundle of "
        "authorities with SSL_CERT_FILE",
        sent=False,
        hopeless=True,
    )


def _not_shaken(error: "_NotShaken", place: str) -> Lost:
    late = isinstance(error.__cause__, TimeoutError)
    did = "did not answer in time" if late else "closed the connection"
    return Lost(
        f"{place} {did} in the TLS handshake, or speaks no TLS ({error}); check the endpoint and the network",
        timeout=late,
        sent=False,
    )


def _check_framing(response: urllib3.BaseHTTPResponse) -> None:
    """ValueError when the answer does not say as HTTP does where it ends: the library would guess."""
    if response.status < 200:
        raise ValueError("an interim answer in the place of the answer")
    length = response.headers.get("content-length")
    if length is not None and not _LENGTH.fullmatch(length):
        raise ValueError("a length that is none")
    if response.headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise ValueError("a transfer encoding that nobody asked for")


def _headers(response: urllib3.BaseHTTPResponse) -> dict[str, str]:
    """Lower-case names. One that came twice with two values has both: none of them may be believed.

    Worked example: `x-log-count: 3` twice is 3. `x-log-cursor` once with MTI= and once with MTM= becomes
    `MTI=, MTM=`, which is no cursor: the page is pulled again. The first or the last of two would be
    believed, and be wrong half the time.
    """
    names = {name.lower() for name in response.headers}
    return {name: ", ".join(dict.fromkeys(response.headers.getlist(name))) for name in names}


def _read_all(response: urllib3.BaseHTTPResponse) -> bytes:
    """The whole body; OSError when it is over the bound, an HTTPError when it is cut short."""
    chunks: list[bytes] = []
    size = 0
    # The last, empty read is what makes a body shorter than its Content-Length an error.
    while chunk := response.read(ANSWER_BYTES_MAX + 1 - size):
        chunks.append(chunk)
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            raise OSError("answer too long")
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
