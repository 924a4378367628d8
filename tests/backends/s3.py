"""An S3 server on loopback that knows one key pair: the program, and its face for tests.

It keeps objects in its memory. What a test cannot do to a bucket by S3's own calls it asks for here:
that objects look older, and that the server refuses everything for a while.
"""

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pyarrow.fs import FileSelector, FileType, S3FileSystem

from sls_io.emulator.signing import FAKE_ID
from sls_io.values.clock import SYSTEM_CLOCK
from tests.backends.kept import Kept, serve
from tests.backends.strict import OSS, TEMPORARY_KEY_ID, App, Start, Strict

KEY_ID = "sls-lake-tests-key-id"
KEY_SECRET = "sls-lake-tests-key-secret"
REGION = "us-east-1"
_ACCOUNT = "123456789012"
_ERROR = "<Error><Code>{code}</Code><Message>{message}</Message></Error>"


class S3:
    """A running server; each test has a bucket of its own."""

    def __init__(self) -> None:
        self._kept = Kept(__name__)
        self.endpoint = f"http://127.0.0.1:{self._kept.said['port']}"
        self.proxy = f"http://127.0.0.1:{self._kept.said['strict']}"
        self._buckets = 0
        self.filesystem = S3FileSystem(
            access_key=KEY_ID, secret_key=KEY_SECRET, region=REGION, endpoint_override=self.endpoint
        )

    def new_bucket(self) -> str:
        """The name of an empty bucket."""
        self._buckets += 1
        name = f"lake-{self._buckets}"
        self._kept.ask(do="bucket", name=name)
        return name

    @property
    def properties(self) -> dict[str, str]:
        """What PyIceberg must know to read and write here."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.region": REGION,
            "s3.access-key-id": KEY_ID,
            "s3.secret-access-key": KEY_SECRET,
        }

    @property
    def oss_properties(self) -> dict[str, str]:
        """The same objects in a store that refuses what OSS does: an endpoint and keys are all that is said,
        beside the proxy that stands for the way to Aliyun."""
        return {
            "s3.endpoint": f"http://{OSS}",
            "s3.access-key-id": KEY_ID,
            "s3.secret-access-key": KEY_SECRET,
            "s3.proxy-uri": self.proxy,
        }

    def files(self, bucket: str) -> set[str]:
        """The addresses of all objects, without their scheme."""
        infos = self.filesystem.get_file_info(FileSelector(bucket, recursive=True))
        return {info.path for info in infos if info.type is FileType.File}

    def put(self, address: str, content: bytes) -> None:
        """Store an object."""
        with self.filesystem.open_output_stream(address.partition("://")[2]) as stream:
            stream.write(content)

    def age(self, addresses: Iterable[str], days: float) -> None:
        """As if these objects had been stored days earlier."""
        for address in addresses:
            bucket, _, key = address.partition("://")[2].partition("/")
            self._kept.ask(do="age", bucket=bucket, key=key, seconds=days * 86400)

    def add_key(self, key_id: str, ends_s: float) -> None:
        """Another key is taken, until that moment of the machine's clock (unix seconds)."""
        self._kept.ask(do="key", id=key_id, ends=ends_s)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Nothing can be read or stored."""
        self._kept.ask(do="refuse", refuse=True)
        try:
            yield
        finally:
            self._kept.ask(do="refuse", refuse=False)

    def be_busy(self, requests: int) -> None:
        """The next so many requests are told to come again later."""
        self._kept.ask(do="busy", requests=requests)

    def end(self) -> None:
        """End the server."""
        self._kept.end()


class _Guarded:
    """The server's application for whoever has the key; anybody else gets S3's own refusal."""

    def __init__(self, app: App) -> None:
        self._app, self.refusing, self.busy = app, False, 0
        self.keys = dict.fromkeys((KEY_ID, TEMPORARY_KEY_ID, FAKE_ID), float("inf"))

    def __call__(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        if self.refusing:
            return _refused(start, "403 Forbidden", "AccessDenied", "Access Denied")
        if self.busy:
            self.busy -= 1
            return _refused(start, "503 Slow Down", "SlowDown", "Please reduce your request rate.")
        named = re.search("Credential=([^/]+)/", request.get("HTTP_AUTHORIZATION", ""))
        ends_s = self.keys.get(named[1]) if named else None
        if ends_s is None:
            return _refused(start, "403 Forbidden", "InvalidAccessKeyId", "The key does not exist.")
        if SYSTEM_CLOCK.now() >= ends_s:
            message = "The security token you provided has expired."
            return _refused(start, "403 Forbidden", "SecurityTokenExpired", message)
        return self._app(request, start)


def _refused(start: Start, status: str, code: str, message: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/xml")])
    return [_ERROR.format(code=code, message=message).encode()]


def main() -> None:
    """Serve until the input ends."""
    from moto.backends import get_backend  # noqa: PLC0415
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Quiet(WSGIRequestHandler):
        """Keeps connections open, writes no log."""

        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log(self, type: str, message: str, *args: Any) -> None:
            """Nothing."""

    guarded = _Guarded(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, guarded, threaded=True, request_handler=Quiet)
    strict = make_server("127.0.0.1", 0, Strict(guarded), threaded=True, request_handler=Quiet)
    for each in (server, strict):
        threading.Thread(target=each.serve_forever, daemon=True).start()
    store = get_backend("s3")[_ACCOUNT]["aws"]

    def answer(command: dict[str, Any]) -> None:
        if command["do"] == "bucket":
            store.create_bucket(command["name"], REGION)
        elif command["do"] == "age":
            stored = store.buckets[command["bucket"]].keys[command["key"]]
            stored.last_modified -= timedelta(seconds=command["seconds"])
        elif command["do"] == "key":
            guarded.keys[command["id"]] = command["ends"]
        elif command["do"] == "busy":
            guarded.busy = command["requests"]
        else:
            guarded.refusing = command["refuse"]

    serve({"port": server.server_port, "strict": strict.server_port}, answer)


if __name__ == "__main__":
    main()
