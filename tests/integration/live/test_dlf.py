"""Landing on DLF, as far as its pages tell: signed for it, files by the keys that it lends for a table."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.engine import InProcess
from pipelines.landing.catalogs.keys import KEYS_PROPERTY
from pipelines.landing.catalogs.profiles import expanded
from pipelines.landing.table.lake import Lake
from pipelines.landing.task_storage import public_properties
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK
from tests.backends.osstables import TableBucket
from tests.backends.places import Servers, java_storage
from tests.backends.s3 import REGION
from tests.backends.storage import Bucket
from tests.backends.strict import TEMPORARY_KEY_ID
from tests.worlds.one_logstore import HOUR0_S, World, new_world

ENDS_MS = "s3.session-token-expires-at-ms"


@pytest.fixture
def lends() -> dict[str, str]:
    """The keys that the catalog lends; they have nearly ended."""
    return {
        "s3.access-key-id": TEMPORARY_KEY_ID,
        "s3.secret-access-key": "lent-secret",
        "s3.session-token": "lent-token",
        ENDS_MS: str(int((SYSTEM_CLOCK.now() + 60) * 1000)),
    }


@pytest.fixture
def catalog(tmp_path: Path, servers: Servers, lends: dict[str, str]) -> Iterator[TableBucket]:
    """A catalog whose own keys open no file."""
    warehouse = f"s3://{servers.s3.new_bucket()}/warehouse"
    uri = servers.rest.new(tmp_path / "place", warehouse, java_storage(servers.s3.properties))
    found = TableBucket(uri, warehouse, {}, name="logs", service="DlfNext", lends=lends)
    found.keys = {"catalog-only": ("secret", "")}
    yield found
    found.end()


@pytest.fixture
def world(
    catalog: TableBucket, tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A logstore of two shards beside it."""
    (tmp_path / "keys_of_dlf.py").write_text("def keys():\n    return 'catalog-only', 'secret', ''\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    facts = {"type": "dlf", "region": "cn-hangzhou", "warehouse": "logs", "uri": catalog.uri}
    store = {"s3.endpoint": servers.s3.endpoint, "s3.region": REGION}
    lake = Lake(expanded({**facts, **store, KEYS_PROPERTY: "import:keys_of_dlf:keys"}))
    bucket = f"lake-{servers.s3._buckets}"
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        yield new_world(emulator, lake, InProcess(), storage=Bucket(servers.s3, bucket, "s3"))


def test_files_are_written_with_keys_that_the_catalog_lends_and_renews(
    world: World, catalog: TableBucket, lends: dict[str, str]
) -> None:
    assert world.land_more(40).rows == 40
    travels = public_properties(world.table.io.properties)
    assert travels["keys-lent-for"] == world.logstore.table
    assert not any(secret in str(travels) for secret in (*lends.values(), "catalog-only"))
    loads = sum(each.startswith("GET") and each.endswith("/access_logs") for each in catalog.asked)
    lends[ENDS_MS] = str(int((SYSTEM_CLOCK.now() + 7200) * 1000))
    assert world.land_more(20).rows == 20
    again = sum(each.startswith("GET") and each.endswith("/access_logs") for each in catalog.asked) - loads
    assert again < loads, "those with an hour left are used by whoever loaded the table"
    world.assert_sound()
    assert all("stage-create" in each for each in catalog.refused), "which this one does not do, either"
