"""A logstore beside each catalog and storage in turn, and what has landed by three counts."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.engine import InProcess
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.state import check_ancestry
from sls_io.emulator import start
from tests.backends.places import Place, Servers
from tests.backends.s3 import S3
from tests.worlds.one_logstore import HOUR0_S, World, new_world


@pytest.fixture
def world(place: Place, tmp_path: Path) -> Iterator[World]:
    """A logstore of two shards beside the place; tasks of landings run in this process."""
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        yield new_world(emulator, place.lake, InProcess(), storage=place.storage).begun(10, 40)


def proved(world: World, servers: Servers) -> None:
    """Each log once by three counts: the table's proof, PyIceberg's scan, and DuckDB over the files."""
    world.assert_sound()
    assert TAG in world.table.metadata.refs
    check_ancestry(world.table)
    rows = len(world.truth())
    assert counted(world, servers.s3) == (rows, rows)


def counted(world: World, s3: S3) -> tuple[int, int]:
    """Rows and different identities in the published files, without any code of tables."""
    columns = ["__shard__", "__cursor__", "__index__"]
    files = []
    for name in world.published():
        if "://" in name:
            with s3.filesystem.open_input_file(name.partition("://")[2]) as file:
                files.append(pq.read_table(file, columns=columns))
        else:
            files.append(pq.read_table(name, columns=columns))
    rows = pa.concat_tables(files)  # noqa: F841 - DuckDB finds it by its name
    with duckdb.connect() as database:
        query = "SELECT count(*), count(DISTINCT (__shard__, __cursor__, __index__)) FROM rows"
        total, different = database.execute(query).fetchall()[0]
    return int(total), int(different)
