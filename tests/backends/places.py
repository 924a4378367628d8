"""A catalog and a storage made ready for one test: what the landing contract is tried on.

The catalogs that are servers stand behind a gate that can lose what a test wants lost.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pipelines.landing.catalogs.keys import KEYS_PROPERTY
from pipelines.landing.catalogs.profiles import expanded
from pipelines.landing.catalogs.upkeep import DEFAULTS
from pipelines.landing.table.lake import Lake
from tests.backends.gate import Gate
from tests.backends.mariadb import MariaDB
from tests.backends.osstables import ARN, TableBucket
from tests.backends.postgres import Postgres
from tests.backends.rest import RestCatalogs
from tests.backends.s3 import S3
from tests.backends.storage import Bucket, Folder, Storage
from tests.worlds.lossy_catalog import lossy
from tests.worlds.one_logstore import make_lake

PLACES = ("sqlite-file", "postgres-s3", "postgres-oss", "rest-file", "rest-s3", "osstables-s3")
"""Each catalog and each storage, and each catalog of servers with a storage of servers."""
_PG_COMMIT = b"COMMIT"
_REST_COMMIT = b"POST /v1/namespaces/bronze/tables/"


class Servers:
    """The servers that tests asked for, each started once."""

    def __init__(self) -> None:
        self._postgres: Postgres | None = None
        self._mariadb: MariaDB | None = None
        self._s3: S3 | None = None
        self._rest: RestCatalogs | None = None

    @property
    def postgres(self) -> Postgres:
        """PostgreSQL."""
        self._postgres = self._postgres or Postgres()
        return self._postgres

    @property
    def mariadb(self) -> MariaDB:
        """MariaDB."""
        self._mariadb = self._mariadb or MariaDB()
        return self._mariadb

    @property
    def s3(self) -> S3:
        """S3."""
        self._s3 = self._s3 or S3()
        return self._s3

    @property
    def rest(self) -> RestCatalogs:
        """REST catalogs."""
        self._rest = self._rest or RestCatalogs()
        return self._rest

    def end(self) -> None:
        """End all of them."""
        for server in (self._rest, self._postgres, self._mariadb, self._s3):
            if server is not None:
                server.end()


@dataclass(frozen=True)
class Place:
    """`lose(word)` says what becomes of the next commit, in the words of the gate; `words` are those it
    knows. `gate` is None where nothing goes over the wire. `direct` is the lake without anything between.
    """

    name: str
    lake: Lake
    direct: Lake
    storage: Storage
    words: tuple[str, ...]
    lose: Callable[[str], None]
    gate: Gate | None = None
    bucket: TableBucket | None = None


@contextmanager
def made(name: str, folder: Path, servers: Servers) -> Iterator[Place]:
    """The place of this name, empty."""
    catalog, _, storage = name.partition("-")
    warehouse, files, properties = f"file://{folder}/warehouse", Folder(f"{folder}/warehouse"), {}
    keep: Storage = files
    if storage != "file":
        bucket = servers.s3.new_bucket()
        warehouse, keep = f"{storage}://{bucket}/warehouse", Bucket(servers.s3, bucket, storage)
        properties = servers.s3.oss_properties if storage == "oss" else servers.s3.properties
    if catalog == "sqlite":
        direct = make_lake(folder)
        lake, behind = lossy(direct)
        yield Place(name, lake, direct, keep, ("lost", "refused"), behind.script.append)
        return
    if catalog == "postgres":
        uri, pattern = servers.postgres.new_database(), _PG_COMMIT
        words: tuple[str, ...] = ("lost", "refused", "silent")
    else:
        uri, pattern = servers.rest.new(folder, warehouse, java_storage(properties)), _REST_COMMIT
        words = ("lost", "refused", "502", "503", "silent")
    kind = {"type": "rest" if catalog == "rest" else "sql", "warehouse": warehouse, **properties}
    tables: TableBucket | None = None
    if catalog == "osstables":
        tables = TableBucket(uri, warehouse, properties)
        uri, pattern = tables.uri, b"POST " + tables.commits.encode()
        tables.off = set(DEFAULTS)
        kind = expanded({"type": catalog, "warehouse": ARN, KEYS_PROPERTY: "env", **properties})
    port = urlsplit(uri).port or 0
    gate = Gate(port, pattern)
    try:
        through = uri.replace(f"127.0.0.1:{port}", f"127.0.0.1:{gate.port}")
        yield Place(
            name,
            Lake({**kind, "uri": through}),
            Lake({**kind, "uri": uri}),
            keep,
            words,
            gate.script.append,
            gate,
            tables,
        )
    finally:
        gate.end()
        if tables is not None:
            tables.end()


def java_storage(properties: dict[str, str]) -> dict[str, str]:
    """The same storage in the words of Iceberg's Java side."""
    if not properties:
        return {}
    renamed = {"s3.region": "client.region"}
    return {
        **{renamed.get(name, name): value for name, value in properties.items()},
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.path-style-access": "true",
    }
