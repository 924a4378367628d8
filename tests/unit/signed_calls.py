"""Signed calls of the service over plain sockets, for tests that no vendor's client could make."""

import base64
import hashlib
import hmac
import http.client
import json
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, urlencode

from sls_io.emulator import Emulator
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET, SignedRequest, v1_text
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.wire.loggroup import compress

HOST = "demo.sls.emu"
GROUP = bytes.fromhex("0a0a08e8071205" + "0a016b1200") + b"\x1a\x01t"
LOGSTORE = "/logstores/logs"
FROM: dict[str, dict[str, Any]] = {at: {"from": at} for at in ("begin", "end")}
"""`from` is a word of Python."""


def sign(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes
) -> dict[str, str]:
    """The headers of a v1 request, signed for the emulator's fake pair."""
    date = formatdate(SYSTEM_CLOCK.now(), usegmt=True)
    sent = {
        "host": HOST, "date": date, "x-log-apiversion": "0.6.0", "x-log-signaturemethod": "hmac-sha1",
        **headers,
    }  # fmt: skip
    text = v1_text(SignedRequest(method, path, query, sent, body))
    digest = hmac.new(FAKE_SECRET.encode(), text.encode(), hashlib.sha1).digest()
    return {**sent, "authorization": f"LOG {FAKE_ID}:{base64.b64encode(digest).decode()}"}


class Caller:
    """Signed calls over one connection."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=120)

    def call(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, **query: str
    ) -> tuple[int, dict[str, str], bytes]:
        target = quote(path) + ("?" + urlencode(query) if query else "")
        self.connection.request(method, target, body, sign(method, path, query, headers or {}, body))
        reply = self.connection.getresponse()
        return reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read()

    def put(self, raw: bytes = GROUP, kind: str = "", size: int | None = None) -> tuple[int, str]:
        headers = {
            "content-type": "application/x-protobuf",
            "x-log-bodyrawsize": str(len(raw) if size is None else size),
        }
        if kind:
            headers["x-log-compresstype"] = kind
        return self.code(self.call("POST", LOGSTORE + "/shards/lb", compress(raw, kind), headers))

    def cursor(self, at: str = "begin") -> str:
        return str(
            json.loads(self.call("GET", LOGSTORE + "/shards/0", type="cursor", **FROM[at])[2])["cursor"]
        )

    def pull(self, accept: str = "lz4", count: int = 1000) -> tuple[int, dict[str, str], bytes]:
        query: dict[str, Any] = {"type": "logs", "cursor": self.cursor(), "count": str(count)}
        return self.call("GET", LOGSTORE + "/shards/0", headers={"accept-encoding": accept}, **query)

    @staticmethod
    def code(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
        return answer[0], json.loads(answer[2])["errorCode"] if answer[2] else ""
