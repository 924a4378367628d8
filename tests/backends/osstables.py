"""OSS Tables on loopback, as its pages have it, before Iceberg's own REST server.

Vendor documentation: "Iceberg REST Catalog API compatibility" (13 endpoints; no views, no staged tables;
`owner` is the only property of a namespace; the configuration names no endpoints), "Data maintenance" and
`GetTableMaintenanceConfiguration` (what a table has that nobody configured). Signatures are computed again,
by code of its own. Its maintenance are real commits through PyIceberg, made when a test says so.

What the pages do not say stands here by choice: that errors have Iceberg's form, and, for a test to choose,
whether an expiry spares snapshots that a tag names.
"""

import base64
import hashlib
import hmac
import json
import re
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableUpdate,
)

from pipelines.landing.catalogs.upkeep import COMPACTION, DEFAULTS, EXPIRY
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from tests.backends.strict import Start

REGION, SERVICE = "cn-hangzhou", "osstables"
ARN = f"acs:osstables:{REGION}:1234567890:bucket/logs"
HOUR_MS = 3_600_000
_NAME = "[A-Za-z0-9_]+"
_ENDPOINTS = (
    ("GET", "config"),
    ("GET", "{p}/namespaces"),
    ("POST", "{p}/namespaces"),
    ("GET", "{p}/namespaces/{n}"),
    ("HEAD", "{p}/namespaces/{n}"),
    ("DELETE", "{p}/namespaces/{n}"),
    ("GET", "{p}/namespaces/{n}/tables"),
    ("POST", "{p}/namespaces/{n}/tables"),
    ("GET", "{p}/namespaces/{n}/tables/{n}"),
    ("HEAD", "{p}/namespaces/{n}/tables/{n}"),
    ("POST", "{p}/namespaces/{n}/tables/{n}"),
    ("DELETE", "{p}/namespaces/{n}/tables/{n}"),
    ("POST", "{p}/tables/rename"),
)
_MAINTENANCE = re.compile(
    f"/tables/{re.escape(quote(ARN, safe=''))}/({_NAME})/({_NAME})/maintenance(?:/(\\w+))?"
)
_AUTHORIZATION = re.compile(
    "AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<day>[0-9]{8})/(?P<region>[^/]+)/(?P<service>[^/]+)/"
    "aws4_request, SignedHeaders=(?P<headers>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)
_ALWAYS_SIGNED = {"host", "x-amz-date", "x-amz-content-sha256"}
_EMPTY = hashlib.sha256(b"").hexdigest()

Answer = tuple[int, object]


class TableBucket:
    """A table bucket in front of the REST catalog at `behind`; listens on `uri`.

    `storage` is how it reaches the files; `keys` are those that may sign, id -> (secret, token). `asked` are
    all requests, `refused` those that were refused, with why. `off` are the kinds of maintenance that are off
    where nobody configured them.

    With `name`, `service` and `lends`, the properties of keys for a table's files, it stands for DLF, whose
    pages tell no endpoints.
    """

    def __init__(
        self,
        behind: str,
        warehouse: str,
        storage: Mapping[str, str],
        *,
        name: str = ARN,
        service: str = SERVICE,
        lends: Mapping[str, str] | None = None,
    ) -> None:
        from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

        class Quiet(WSGIRequestHandler):
            """Keeps connections open, writes no log."""

            protocol_version = "HTTP/1.1"

            def log(self, type: str, message: str, *args: Any) -> None:
                """Nothing."""

        self._prefix, self._name, self._service, self._lends = quote(name, safe=""), name, service, lends
        self._endpoints = [
            (method, re.compile(f"/iceberg/v1/{path.format(p=re.escape(self._prefix), n=_NAME)}"))
            for method, path in _ENDPOINTS
        ]
        self._behind = {"type": "rest", "uri": behind, "warehouse": warehouse, **storage}
        self.keys, self.off = {FAKE_ID: (FAKE_SECRET, "")}, set[str]()
        self.asked: list[str] = []
        self.refused: list[str] = []
        self.configured: dict[tuple[str, str], dict[str, Any]] = {}
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=Quiet)
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        """Where Iceberg's clients ask."""
        return f"http://127.0.0.1:{self.port}/iceberg"

    @property
    def commits(self) -> str:
        """The beginning of the path of a commit to a table of the namespace bronze."""
        return f"/iceberg/v1/{self._prefix}/namespaces/bronze/tables/"

    def end(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    # --- the protocol --------------------------------------------------------------------------

    def __call__(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        method, raw = request["REQUEST_METHOD"], request["REQUEST_URI"]
        body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
        self.asked.append(f"{method} {urlsplit(raw).path}")
        why = self._unsigned(request, method, raw, body)
        status, said = (403, why) if why else self._answer(method, urlsplit(raw).path, raw, body)
        if status >= 400 and isinstance(said, str):
            self.refused.append(f"{method} {urlsplit(raw).path}: {said}")
            said = {"error": {"message": said, "type": "BadRequestException", "code": status}}
        content = b"" if method == "HEAD" or said is None else json.dumps(said).encode()
        start(f"{status} .", [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
        return [content]

    def _answer(self, method: str, path: str, raw: str, body: bytes) -> Answer:
        if found := _MAINTENANCE.fullmatch(path):
            return self._maintenance(method, found[1], found[2], found[3], body)
        if not any(method == known and pattern.fullmatch(path) for known, pattern in self._endpoints):
            return 404, f"OSS Tables has no {method} {path}"
        if path.endswith("/config"):
            if dict(parse_qsl(urlsplit(raw).query)).get("warehouse") != self._name:
                return 404, "no such table bucket"
            return 200, {"defaults": {}, "overrides": {"prefix": self._prefix}}
        said = json.loads(body) if body else {}
        if said.get("stage-create"):
            return 400, "stage-create is not supported"
        if path.endswith("/namespaces") and method == "POST" and set(said.get("properties", {})) - {"owner"}:
            return 400, "owner is the only property that a namespace may have"
        return self._forwarded(method, raw, body)

    def _forwarded(self, method: str, raw: str, body: bytes) -> Answer:
        inner = raw.removeprefix("/iceberg").replace(f"{self._prefix}/", "", 1)
        headers = {"Content-Type": "application/json"}
        answer = requests.request(method, self._behind["uri"] + inner, data=body, headers=headers, timeout=60)
        said = answer.json() if answer.content else None
        if isinstance(said, dict) and method == "GET" and set(said) == {"namespace", "properties"}:
            said.pop("properties")
        if self._lends is not None and isinstance(said, dict) and "metadata" in said:
            said["storage-credentials"] = [{"prefix": "s3://", "config": dict(self._lends)}]
        return answer.status_code, said

    def _maintenance(self, method: str, namespace: str, name: str, kind: str | None, body: bytes) -> Answer:
        table = (namespace, name)
        if method == "GET" and kind is None:
            return 200, {"tableARN": f"{ARN}/table/1", "configuration": self._configuration(table)}
        if method == "PUT" and kind is not None and kind in DEFAULTS:
            self.configured.setdefault(table, {})[kind] = json.loads(body)["value"]
            return 204, None
        return 405, "MethodNotAllowed"

    def _configuration(self, table: tuple[str, str]) -> dict[str, Any]:
        return {
            kind: self.configured.get(table, {}).get(kind)
            or {"status": "disabled" if kind in self.off else "enabled", "settings": {kind: dict(settings)}}
            for kind, settings in DEFAULTS.items()
        }

    def turn_off(self, table: str, *kinds: str) -> None:
        """As a person does with `ossutil`."""
        for kind in kinds or DEFAULTS:
            namespace, name = table.split(".")
            self.configured.setdefault((namespace, name), {})[kind] = {"status": "disabled"}

    # --- its signatures ------------------------------------------------------------------------

    def _unsigned(self, request: dict[str, Any], method: str, raw: str, body: bytes) -> str:
        """Why the request is not signed as it must be; "" where it is."""
        found = _AUTHORIZATION.fullmatch(request.get("HTTP_AUTHORIZATION", ""))
        if found is None:
            return "AccessDenied: no signature, version 4"
        if (found["region"], found["service"]) != (REGION, self._service):
            return f"InvalidArgument: signed for {found['region']}/{found['service']}"
        if found["key"] not in self.keys:
            return "InvalidAccessKeyId"
        secret, token = self.keys[found["key"]]
        named = {k[5:].lower().replace("_", "-"): v for k, v in request.items() if k.startswith("HTTP_")}
        named["content-type"] = request.get("CONTENT_TYPE", "")
        if named.get("x-amz-security-token", "") != token:
            return "InvalidSecurityToken"
        signed = found["headers"].split(";")
        needed = _ALWAYS_SIGNED | {name for name in named if name.startswith("x-amz-")}
        if missing := sorted(needed - set(signed)):
            return f"SignatureDoesNotMatch: {missing[0]} is not signed"
        digest = named["x-amz-content-sha256"]
        if digest != (hashlib.sha256(body).hexdigest() if body else _EMPTY) and not _is_base64(digest, body):
            return "SignatureDoesNotMatch: another body"
        scope = f"{found['day']}/{REGION}/{self._service}/aws4_request"
        place, query = urlsplit(raw).path, parse_qsl(urlsplit(raw).query, keep_blank_values=True)
        asked = [
            *(method, quote(place, safe="/-_.~")),
            "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in sorted(query)),
            *(f"{name}:{' '.join(named[name].split())}" for name in signed),
            *("", found["headers"], hashlib.sha256(body).hexdigest()),
        ]
        digest = hashlib.sha256("\n".join(asked).encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{named['x-amz-date']}\n{scope}\n{digest}"
        key = f"AWS4{secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        right = hmac.digest(key, text.encode(), "sha256").hex()
        return "" if hmac.compare_digest(right, found["signature"]) else "SignatureDoesNotMatch"

    # --- what it does by itself ----------------------------------------------------------------

    def maintain(
        self, name: str, *, hours_later: float = 0.0, spares_tags: bool = True, compactions: int = 1
    ) -> list[str]:
        """The table's maintenance as it is configured, as if so many hours had passed; what it did."""
        namespace, _, own = name.partition(".")
        configuration, did = self._configuration((namespace, own)), []
        settings = {
            kind: {**DEFAULTS[kind], **(entry.get("settings") or {}).get(kind, {})}
            for kind, entry in configuration.items()
            if entry["status"] == "enabled"
        }
        for number in range(compactions if COMPACTION in settings else 0):
            did += [COMPACTION] * compact(self._table(name), anyway=number > 0)
        if EXPIRY in settings:
            table, kept = self._table(name), int(settings[EXPIRY]["minSnapshotsToKeep"])
            until = hours_later - float(settings[EXPIRY]["maxSnapshotAgeHours"])
            newest = max(s.timestamp_ms for s in table.metadata.snapshots)
            if expire(table, older_than_ms=newest + until * HOUR_MS, kept=kept, spares_tags=spares_tags):
                did.append(EXPIRY)
        return did

    def _table(self, name: str) -> Table:
        return load_catalog("behind", **self._behind).load_table(name)


def compact(table: Table, *, anyway: bool = False) -> bool:
    """All files written anew, one for each Iceberg partition, in one commit; False where they are so few."""
    files = [task.file for task in table.scan().plan_files()]
    if not anyway and len(files) == len({repr(file.partition) for file in files}):
        return False
    rows = table.scan().to_arrow()
    transaction = table.transaction()
    with transaction.update_snapshot().overwrite() as rewrite:
        for file in files:
            rewrite.delete_data_file(file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            rewrite.append_data_file(file)
    transaction.commit_transaction()
    return True


def expire(table: Table, *, older_than_ms: float, kept: int, spares_tags: bool) -> list[int]:
    """The snapshots that leave: older ones, but the newest `kept` of main. With them the tags that name them,
    unless it `spares_tags`."""
    main, at = list[int](), table.metadata.current_snapshot_id
    while at is not None and (snapshot := table.snapshot_by_id(at)) is not None:
        main.append(at)
        at = snapshot.parent_snapshot_id
    refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"}
    stay = {*main[:kept], *(refs.values() if spares_tags else ())}
    gone = [
        s.snapshot_id
        for s in table.metadata.snapshots
        if s.timestamp_ms <= older_than_ms and s.snapshot_id not in stay
    ]
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=n) for n, s in refs.items() if s in gone]
    if gone:
        updates.append(RemoveSnapshotsUpdate(snapshot_ids=gone))
        required = (AssertTableUUID(uuid=table.metadata.table_uuid),)
        table.catalog.commit_table(table, required, tuple(updates))
    return gone


def _is_base64(said: str, body: bytes) -> bool:
    """As Iceberg's Java client writes the digest of a body that is not empty."""
    return unquote(said) == base64.b64encode(hashlib.sha256(body).digest()).decode()
