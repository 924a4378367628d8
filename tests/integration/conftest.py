"""A world of its own for each test: its tasks are Spark's where the test is marked so, else this process's.

Story: every landing of every test went through Spark. Half of what these tests cost was Spark's workers, and
what most of them are about is a table, a ledger or a shard: the task is the same, wherever it is carried out.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.engine import InProcess
from pipelines.landing.contents.spread import Spread
from pipelines.landing.spark.java import OPTIONS, OPTIONS_SETTING
from pipelines.landing.spark.session import DAEMON, DAEMON_SETTING, Engine, installed_jars
from pipelines.landing.table.lake import Lake
from sls_io.emulator import start
from tests import needs
from tests.backends.jars import FOLDER
from tests.backends.places import Servers
from tests.integration import canary
from tests.integration.sensor_site import make_site, sensor_instance, sensor_place
from tests.integration.shop_site import shop
from tests.worlds.command_line import command
from tests.worlds.dagster_page import page, page_mold
from tests.worlds.one_logstore import HOUR0_S, World, make_lake, new_world

__all__ = ["command", "make_site", "page", "page_mold", "sensor_instance", "sensor_place", "shop"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark leaves the sockets of `collect()` to the garbage collector, which complains."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the shared Spark; its event log is in `events`."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def shared_lake(home: Path) -> Lake:
    """The lake that the shared Spark knows as its catalog `lake`. All tests share it."""
    return make_lake(home / "lake")


@pytest.fixture
def spark_lake(shared_lake: Lake) -> Lake:
    """The lake of the Spark session, where it has the jars to use it."""
    needs.spark_jars()
    return shared_lake


@pytest.fixture(scope="session")
def engine(home: Path, shared_lake: Lake) -> Iterator[Engine]:
    """One local Spark for all tests that are marked so: a JVM takes seconds to start."""
    before = os.environ.get("SLS_LAKE_HOME")
    os.environ["SLS_LAKE_HOME"] = str(home)
    # Spark's workers read the key pair in their own environment, which is this one's at start.
    os.environ.setdefault("ALIBABA_CLOUD_ACCESS_KEY_ID", "emulator-key")
    os.environ.setdefault("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "emulator-secret")
    events = home / "events"
    events.mkdir()
    # With Iceberg's jar for S3 beside those of set-up: a session takes jars only at its start.
    jars = [*installed_jars(), *Path(FOLDER).absolute().glob("iceberg-aws-bundle-*.jar")]
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.jars": ",".join(map(str, jars)),
        # As a person gives Spark the key of a store; nobody may see it.
        "spark.hadoop.fs.s3a.secret.key": canary.ACCESS_SECRET,
        # The queries of tests are small: the second compiler costs more than all of them together.
        OPTIONS_SETTING: " ".join(OPTIONS),
        # As a landing has it, also where a test asks for SQL.
        DAEMON_SETTING: DAEMON,
    }
    engine = Engine(lake=shared_lake, conf=conf)
    # Now: a test that takes the keys out of the environment may be the first to land something.
    assert engine.context.version
    yield engine
    engine.stop()
    if before is None:
        del os.environ["SLS_LAKE_HOME"]
    else:
        os.environ["SLS_LAKE_HOME"] = before


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """PostgreSQL, S3 and REST catalogs: whichever a test asks for starts, once."""
    servers = Servers()
    yield servers
    servers.end()


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A project with the logstore `access_logs` of two shards; the clock stands in HOUR0_S."""
    in_spark = request.node.get_closest_marker("spark") is not None
    engine: Engine = request.getfixturevalue("engine") if in_spark else InProcess()
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator, Spread(engine).kept():
        yield new_world(emulator, make_lake(tmp_path / "lake"), engine)
