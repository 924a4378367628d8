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

from pipelines.landing.spark.catalog import catalog_settings, tell_running_java
from pipelines.landing.spark.session import JARS_VARIABLE, Engine
from tests import needs
from tests.backends.places import PLACES, Place, Servers, made
from tests.backends.strict import TEMPORARY_KEY_ID
from tests.worlds.beside_servers import proved, world
from tests.worlds.command_line import settings
from tests.worlds.fake_aliyun import fake_aliyun
from tests.worlds.one_logstore import World, configuration

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
    told = catalog_settings(place.direct)
    # The shared Java began for another lake.
    tell_running_java(session.sparkContext, told)
    for name, value in told.items():
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
    assert world.land_more(20).rows == 20
    assert tuple(session.sql(count).collect()[0]) == (70, 70)
    proved(world, servers)


@pytest.mark.parametrize(("place", "how"), [("rest-s3", "land"), ("postgres-s3", "dbt")], indirect=["place"])
def test_a_user_sets_environment_variables_and_no_secret_is_seen(
    world: World, place: Place, how: str, servers: Servers, tmp_path: Path
) -> None:
    """As the README says. There is no AWS_* variable: tasks find the key where the driver does."""
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    variables, jars = configuration(place.direct.properties), needs.s3_jars(tmp_path)
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


@pytest.mark.parametrize("place", ["postgres-oss"], indirect=True)
def test_the_role_of_a_node_is_enough_for_the_service_and_for_oss(
    world: World, place: Place, servers: Servers, tmp_path: Path
) -> None:
    """In the driver, its tasks and Spark's SQL; nothing is set but where things are, and that the vendor's
    chain finds the keys. With dbt it is in `test_deployment.py`."""
    defs, jars = tmp_path / "defs.yaml", needs.s3_jars(tmp_path)
    chain = "credentials: {provider: default}"
    defs.write_text(settings(world).replace("tries_max: 4", f"tries_max: 4, {chain}"))
    assert chain in defs.read_text()
    told = {name: value for name, value in place.direct.properties.items() if not name.endswith("access-key")}
    told = {**told, "client.credentials-provider": "default"}
    told.pop("s3.access-key-id")
    with fake_aliyun(tmp_path) as aliyun:
        aliyun.given = TEMPORARY_KEY_ID, "canary-secret", "canary-token"
        world.emulator.admin.add_key(TEMPORARY_KEY_ID, "canary-secret", token="canary-token")
        environment = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "ALIBABA_"))}
        environment |= {**configuration(told), JARS_VARIABLE: str(jars), **aliyun.variables}
        environment |= {"SLS_LAKE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
        said = program("land", defs, environment)

    assert (said["landed"], said["rows"]) == (40, 50)
    assert aliyun.asked.count("metadata keys") >= 4, "by the tasks, too"
    seen = str(said["seen"])
    seen += "".join(path.read_text() for path in (tmp_path / "home" / "events").rglob("*") if path.is_file())
    assert "client.legacy-md5-plugin-enabled" in seen
    assert not any(secret in seen for secret in (TEMPORARY_KEY_ID, "canary"))
    proved(world, servers)


@pytest.mark.parametrize("place", ["postgres-oss"], indirect=True)
def test_java_deletes_many_objects_at_once_as_oss_wants_it(
    place: Place, engine: Engine, servers: Servers
) -> None:
    session = session_of(engine, place)
    session.sql("CREATE NAMESPACE lake.other")
    session.sql("CREATE TABLE lake.other.numbers USING iceberg AS SELECT id FROM range(10)")
    assert len(place.storage.files()) > 2
    session.sql("DROP TABLE lake.other.numbers PURGE")
    assert {name for name in place.storage.files() if not name.endswith("/")} == set()


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
