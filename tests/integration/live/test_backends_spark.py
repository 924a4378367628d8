"""Real Spark on every place: its tasks write the landing's files, its SQL reads and rewrites the table.

Through the settings that the product makes of PyIceberg's own; and once as a user has it, with nothing
but environment variables.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipelines.landing.spark.catalog import catalog_settings
from pipelines.landing.spark.session import JARS_VARIABLE, Engine, require_jars
from tests.backends.jars import FOLDER
from tests.backends.places import PLACES, Place, Servers, made
from tests.worlds.beside_servers import proved, world
from tests.worlds.command_line import settings
from tests.worlds.one_logstore import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

__all__ = ["world"]

TIMEOUT_S = 600


@pytest.fixture(params=PLACES[1:])
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[Place]:
    """Each place in turn; SQLite and a disk is what all other tests with Spark have."""
    with made(request.param, tmp_path / "place", servers) as place:
        yield place


def session_of(engine: Engine, place: Place) -> "SparkSession":
    """Another session of the shared Spark, with the place as its catalog `lake`."""
    session: SparkSession = engine.session.newSession()
    prefix = "spark.sql.catalog.lake."
    shared = [row["key"] for row in session.sql("SET").collect() if row["key"].startswith(prefix)]
    for name in shared:
        session.conf.unset(name)
    for name, value in catalog_settings(place.direct).items():
        if name != "spark.sql.extensions":
            session.conf.set(name, value)
    return session


def test_spark_lands_reads_and_compacts_and_landings_go_on(
    world: World, place: Place, engine: Engine, servers: Servers
) -> None:
    world.engine = engine
    table = f"lake.{world.logstore.table}"
    assert world.land().rows == 40
    session = session_of(engine, place)
    count = f"SELECT count(*) AS n, count(DISTINCT __shard__, __cursor__, __index__) AS d FROM {table}"

    assert tuple(session.sql(count).collect()[0]) == (50, 50)
    rewritten = session.sql(
        f"CALL lake.system.rewrite_data_files(table => '{world.logstore.table}', "
        "options => map('min-input-files', '2'))"
    ).collect()[0]

    assert rewritten["rewritten_data_files_count"] > 0
    world.put(20)
    world.emulator.admin.advance(60)
    assert world.land().rows == 20
    assert tuple(session.sql(count).collect()[0]) == (70, 70)
    proved(world, servers)


@pytest.mark.parametrize(("place", "how"), [("rest-s3", "land"), ("postgres-s3", "dbt")], indirect=["place"])
def test_a_user_sets_environment_variables_and_no_secret_is_seen(
    world: World, place: Place, how: str, servers: Servers, tmp_path: Path
) -> None:
    """As the README says. There is no AWS_* variable: tasks find the key where the driver does."""
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    variables = {
        f"PYICEBERG_CATALOG__LAKE__{name.upper().replace('.', '__').replace('-', '_')}": value
        for name, value in place.direct.properties.items()
    }
    jars = tmp_path / "jars"
    jars.mkdir()
    for path in (*require_jars(), *Path(FOLDER).absolute().glob("iceberg-aws-bundle-*.jar")):
        (jars / path.name).symlink_to(path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {**variables, JARS_VARIABLE: str(jars), "SLS_LAKE_HOME": str(tmp_path / "home")}
    environment["AWS_EC2_METADATA_DISABLED"] = "true"
    if how == "dbt":
        world.land()

    said = program(how, defs, environment)

    assert (said["landed"], said["rows"]) == (40 if how == "land" else None, 50)
    seen = str(said["seen"])
    assert "spark.sql.catalog.lake.s3.endpoint" in seen, "the settings that are no secrets can be seen"
    secrets = [servers.s3.properties[f"s3.{name}"] for name in ("access-key-id", "secret-access-key")]
    seen += "".join(path.read_text() for path in (tmp_path / "home" / "events").rglob("*") if path.is_file())
    assert ("SparkListenerSQLExecutionStart" in seen) == (how == "land")
    assert not any(secret in seen for secret in (*secrets, servers.postgres.password))
    proved(world, servers)


def program(how: str, defs: Path, environment: dict[str, str]) -> dict[str, object]:
    """What the program says at its end."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.spark_program", how, str(defs)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    document: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return document
