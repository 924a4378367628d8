"""Keys that a catalog lends for a table's files without telling their end: they are asked for again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from pipelines.landing.catalogs.keys import KEYS_AHEAD_S, KEYS_PROPERTY
from pipelines.landing.catalogs.profiles import expanded
from pipelines.landing.catalogs.signing import SigningCatalog, lent
from sls_io.values.clock import SYSTEM_CLOCK

ENDS_MS = "s3.session-token-expires-at-ms"


class _Lender(BaseHTTPRequestHandler):
    """A REST catalog of one table, whose files want keys: other ones each time that it is loaded."""

    told: dict[str, str]
    loads: int

    def do_GET(self) -> None:
        document: dict[str, Any] = {"defaults": {}, "overrides": {}}
        if self.path.split("?")[0].endswith("/tables/access_logs"):
            type(self).loads += 1
            place = "file:///nowhere"
            schema = Schema(NestedField(1, "n", LongType()))
            table = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, place)
            pair = {"s3.access-key-id": f"id {self.loads}", "s3.secret-access-key": "secret"}
            document = {
                "metadata-location": f"{place}/metadata/1.metadata.json",
                "metadata": json.loads(table.model_dump_json()),
                "config": {**pair, "s3.session-token": "token", **self.told},
            }
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@contextmanager
def loaded(**told: str) -> Iterator[dict[str, Any]]:
    """The properties of the table's files as a driver has them; `told` stands beside the keys."""
    handler = type("Lender", (_Lender,), {"told": told, "loads": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            facts = {"type": "dlf", "region": "cn-hangzhou", "warehouse": "logs", KEYS_PROPERTY: "env"}
            said = expanded({**facts, "uri": f"http://127.0.0.1:{server.server_port}"})
            yield dict(SigningCatalog("lake", **said).load_table("bronze.access_logs").io.properties)
        finally:
            server.shutdown()


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """What signs the catalog's requests."""
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "own")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "secret")


def used(properties: dict[str, Any]) -> tuple[str, int]:
    """(the id of the keys that a file is opened with, for how many minutes they are used without a word)."""
    found = lent(properties)
    assert found is not None
    return found.id, round((found.expires_s - SYSTEM_CLOCK.now() - KEYS_AHEAD_S) / 60)


@pytest.mark.parametrize("told", [{}, {ENDS_MS: "soon"}])
def test_keys_without_an_end_are_asked_for_again_three_minutes_after_they_were_lent(
    told: dict[str, str],
) -> None:
    with loaded(**told) as properties:
        assert used(properties) == ("id 1", 3)
        first = lent(properties)
        assert lent(properties) == first, "their end comes no later because somebody looks again"
        (at,) = [name for name in properties if name.startswith("keys-lent-at")]
        properties[at] = str(float(properties[at]) - 180)  # as it is three minutes later
        assert used(properties) == ("id 2", 3)


def test_keys_with_an_end_are_used_until_they_nearly_end_and_asked_for_again_then() -> None:
    ends_s = SYSTEM_CLOCK.now() + 7200
    with loaded(**{ENDS_MS: str(int(ends_s * 1000))}) as properties:
        assert used(properties) == ("id 1", 105)
        properties[ENDS_MS] = str(int((SYSTEM_CLOCK.now() + 60) * 1000))
        assert used(properties)[0] == "id 2"
