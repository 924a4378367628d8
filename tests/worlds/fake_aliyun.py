"""The places where Aliyun gives keys, on loopback: an ECS's metadata, STS over TLS, a URI of one's own.

The vendor's library has the addresses of the first two built in, and goes through a proxy that variables
name. So this is that proxy, and it answers itself, whatever the name. Its authority is trusted because a
package `certifi` of the test's own comes first on the path. Nothing of the machine is touched. As the proxy
that settings name it leads the service's own names to an emulator, by TLS.
"""

import base64
import hashlib
import hmac
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from sls_io.values.clock import SYSTEM_CLOCK
from tests.contract.tls_front import carry_both, make_papers

ROOT = Path(__file__).parents[2]
STS = "sts.aliyuncs.com"
REGION = "cn-hangzhou"
STS_HOSTS = (STS, f"sts.{REGION}.aliyuncs.com", f"sts-vpc.{REGION}.aliyuncs.com")
LOG_HOSTS = (f"*.{REGION}.log.aliyuncs.com", f"*.{REGION}-intranet.log.aliyuncs.com")
METADATA = "100.100.100.200"
ROLE = "acs:ram::1234:role/lake"
USER = ("canary-user-id", "canary-user-secret")
OIDC_TOKEN = "canary-oidc-token"
_METADATA_TOKEN = "canary-metadata-token"
_TIMEOUT_S = 60
Answer = tuple[int, dict[str, Any] | str]


@dataclass
class FakeAliyun:
    """`asked` are the calls as they came, by what they are. `fail` maps one of them to the answer it gets.
    `issued` is told all keys that are given. The log service is at `log_port`."""

    folder: Path
    lives_s: float = 3600.0
    given: tuple[str, str, str] | None = None
    asked: list[str] = field(default_factory=list)
    fail: dict[str, Answer] = field(default_factory=dict)
    port: int = 0
    log_port: int = 0
    secrets: dict[str, str] = field(default_factory=lambda: dict([USER]))
    issued: Callable[[str, str, str], None] = lambda *keys: None

    @property
    def authority(self) -> Path:
        """Of its certificates."""
        return self.folder / "authority.pem"

    @property
    def variables(self) -> dict[str, str]:
        """What a program must have in its environment to find this instead of Aliyun."""
        proxy = f"http://127.0.0.1:{self.port}"
        path = f"{self.folder / 'trust'}:{ROOT}"
        return {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": "", "PYTHONPATH": path}

    @property
    def uri(self) -> str:
        """An address that answers with keys."""
        return f"http://127.0.0.1:{self.port}/keys"

    def profile(self, name: str = "default", **words: str) -> None:
        """Add a profile to the command line tool's file; the first one is the current one."""
        path = self.folder / "home" / ".aliyun" / "config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(path.read_text()) if path.exists() else {"current": name, "profiles": []}
        known["profiles"].append({"name": name, **words})
        path.write_text(json.dumps(known))

    def keys(self) -> dict[str, str]:
        """New keys of the role."""
        number = len(self.asked)
        new = (f"STS.canary-{number}", f"canary-secret-{number}", f"canary-token-{number}")
        pair = self.given or new
        self.secrets[pair[0]] = pair[1]
        self.issued(*pair)
        ends = datetime.fromtimestamp(SYSTEM_CLOCK.now() + self.lives_s, UTC)
        return {
            "AccessKeyId": pair[0],
            "AccessKeySecret": pair[1],
            "SecurityToken": pair[2],
            "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def answer(self, what: str, good: Mapping[str, Any] | str) -> Answer:
        """What is said to the call `what`."""
        self.asked.append(what)
        return self.fail.get(what) or (200, dict(good) if isinstance(good, Mapping) else good)

    def resolve(
        self,
        credentials: Mapping[str, str],
        environment: Mapping[str, str] = MappingProxyType({}),
        times: int = 1,
    ) -> "Told":
        """What a program of its own gets that asks for the keys of `credentials` so many times, from the
        second on as after a refusal."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "tests.worlds.resolve_program", json.dumps(credentials), str(times)],
            env={"HOME": str(home), "PATH": "/usr/bin:/bin", **self.variables, **environment},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return Told(
            [each["keys"] for each in lines if "keys" in each], lines[-1].get("error", ""), done.stderr
        )


@dataclass(frozen=True)
class Told:
    """What a program got: keys as lists, the last error, and all it wrote beside that."""

    keys: list[list[Any]]
    error: str
    stderr: str

    @property
    def ids(self) -> list[str]:
        """Of the keys."""
        return [keys[0] for keys in self.keys]


@contextmanager
def fake_aliyun(folder: Path) -> Iterator[FakeAliyun]:
    """It, until the block is left."""
    trust = folder / "trust" / "certifi"
    trust.mkdir(parents=True)
    papers = make_papers(folder, address=STS, more=(*STS_HOSTS[1:], *LOG_HOSTS))
    (trust / "__init__.py").write_text(f"def where():\n    return {str(papers.authority)!r}\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.certificate, papers.key)
    aliyun = FakeAliyun(folder)
    server = _Server(aliyun, context)
    aliyun.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield aliyun
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, aliyun: FakeAliyun, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.aliyun, self.context = aliyun, context


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_CONNECT(self) -> None:
        """A tunnel to STS, whose other end is here, or to the log service."""
        host = self.path.removesuffix(":443")
        assert host in STS_HOSTS or host.endswith(".log.aliyuncs.com"), self.path
        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with self.server.context.wrap_socket(self.connection, server_side=True) as inside:
            if host in STS_HOSTS:
                _Handler(inside, self.client_address, self.server)
            else:
                with socket.create_connection(("127.0.0.1", self.server.aliyun.log_port)) as service:
                    carry_both(inside, service)
        self.close_connection = True

    def do_any(self) -> None:
        """A call of one of the services."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        place = urlsplit(self.path)
        words = dict(parse_qsl(place.query, keep_blank_values=True) + parse_qsl(body.decode()))
        status, said = self._said(place.path, words)
        text = (said if isinstance(said, str) else json.dumps(said)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = do_POST = do_any

    def _said(self, path: str, words: dict[str, str]) -> Answer:
        aliyun = self.server.aliyun
        if words.get("Action") == "AssumeRole":
            return aliyun.answer("AssumeRole", "") if "AssumeRole" in aliyun.fail else self._assume(words)
        if words.get("Action") == "GetCallerIdentity":
            return self._identity(words)
        if words.get("Action") == "AssumeRoleWithOIDC":
            assert words["OIDCToken"] == OIDC_TOKEN
            return aliyun.answer("AssumeRoleWithOIDC", {"Credentials": aliyun.keys()})
        if path == "/keys":
            return aliyun.answer("URI", {"Code": "Success", **aliyun.keys()})
        assert self.headers["Host"] == METADATA, self.path
        if path == "/latest/api/token":
            return aliyun.answer("metadata token", _METADATA_TOKEN)
        if self.headers.get("X-aliyun-ecs-metadata-token") != _METADATA_TOKEN:
            aliyun.asked.append("metadata without a token")
            return 403, ""
        name = path.removeprefix("/latest/meta-data/ram/security-credentials/")
        return aliyun.answer("metadata keys", {"Code": "Success", **aliyun.keys()} if name else "node-role")

    def _assume(self, words: dict[str, str]) -> Answer:
        assert self._signed(words) and words["RoleArn"].startswith(ROLE)
        return self.server.aliyun.answer("AssumeRole", {"Credentials": self.server.aliyun.keys()})

    def _identity(self, words: dict[str, str]) -> Answer:
        """Who signed, as the page of GetCallerIdentity has it."""
        if not self._signed(words):
            return 400, {
                "Code": "SignatureDoesNotMatch",
                "Message": f"signed was {words}",
                "RequestId": "id-1",
            }
        user = words["AccessKeyId"] == USER[0]
        kind, name = ("RAMUser", "user/reader") if user else ("AssumedRoleUser", "assumed-role/node-role/s")
        said = {
            "IdentityType": kind,
            "AccountId": "1234",
            "Arn": f"acs:ram::1234:{name}",
            "RequestId": "id-1",
        }
        return self.server.aliyun.answer("GetCallerIdentity", said)

    def _signed(self, words: dict[str, str]) -> bool:
        """By a signature as STS wants it: HMAC-SHA1 over the sorted words (RPC style of Aliyun's API)."""
        signature = words.pop("Signature")
        line = "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}" for k, v in sorted(words.items()))
        signed = f"GET&%2F&{quote(line, safe='~')}".encode()
        key = f"{self.server.aliyun.secrets.get(words['AccessKeyId'])}&".encode()
        return signature == base64.b64encode(hmac.digest(key, signed, hashlib.sha1)).decode()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
