"""What cannot work is one clear sentence with the cure, and nothing is landed or moved."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError, ServiceError, SlsError, TransportError
from sls_io.values.settings import Credentials
from tests.integration.killed_run import land_elsewhere
from tests.worlds.one_logstore import HOUR0_S, World


@pytest.fixture
def ready(world: World) -> World:
    """A world with logs that could be landed."""
    world.put(10)
    world.at(HOUR0_S + 120)
    return world


def refused(world: World, kind: type[SlsError], **options: Any) -> str:
    """What a landing says that must fail; nothing of it may be left."""
    with pytest.raises(kind) as raised:
        world.land(**options)
    assert_nothing_landed(world)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


def assert_nothing_landed(world: World) -> None:
    """No table, no file, no checkpoint."""
    assert world.lake.load(world.logstore.table) is None
    groups = [g for x in world.emulator.admin.state()["logstores"] for g in x["groups"]]
    assert all(s["checkpoint"] is None for g in groups for s in g["shards"])


def with_service(world: World, **changes: Any) -> Logstore:
    """The logstore's settings with another service."""
    return world.changed(service={**world.logstore.service.model_dump(), **changes})


def test_a_wrong_key_names_where_it_is_set(ready: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "not-the-secret")

    with pytest.raises(ServiceError) as raised:
        ready.land()

    message = str(raised.value)
    assert "ALIBABA_CLOUD_ACCESS_KEY_SECRET" in message
    assert "not-the-secret" not in message
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "emulator-secret")
    assert_nothing_landed(ready)


def test_a_missing_key_names_where_it_is_set(ready: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALIBABA_CLOUD_ACCESS_KEY_ID")

    with pytest.raises(ConfigError, match="ALIBABA_CLOUD_ACCESS_KEY_ID"):
        ready.land()


def test_a_provider_that_does_not_exist_is_named(ready: World) -> None:
    service = with_service(
        ready, credentials=Credentials(provider="import", name="no.such:thing").model_dump()
    )

    assert "no.such:thing" in refused(ready, ConfigError, logstore=service)


def test_an_unknown_project_is_named(ready: World) -> None:
    message = refused(ready, ServiceError, logstore=with_service(ready, project="no-such-project"))

    assert "ProjectNotExist" in message
    assert "no-such-project" in message


def test_an_unknown_logstore_is_named(ready: World) -> None:
    message = refused(ready, ServiceError, logstore=with_service(ready, logstore="no_such_logs"))

    assert "LogStoreNotExist" in message
    assert "no_such_logs" in message


def test_an_endpoint_where_nobody_listens_is_one_error(ready: World) -> None:
    message = refused(
        ready,
        TransportError,
        logstore=with_service(ready, endpoint=f"http://127.0.0.1:{closed_port()}", tries_max=2),
    )

    assert "127.0.0.1" in message


def test_a_catalog_in_a_place_that_cannot_be_made_is_one_sentence(ready: World, tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.write_text("not a folder")
    lake = Lake(
        {"type": "sql", "uri": f"sqlite:///{file}/catalog.sqlite", "warehouse": f"file://{tmp_path}/w"}
    )

    message = refused(ready, TransportError, lake=lake)

    assert "catalog" in message and "PYICEBERG_CATALOG__LAKE__" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_catalog_in_a_folder_without_rights_is_one_sentence(ready: World, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    lake = Lake(
        {"type": "sql", "uri": f"sqlite:///{folder}/catalog.sqlite", "warehouse": f"file://{folder}/w"}
    )

    assert "catalog" in refused(ready, TransportError, lake=lake)


def test_a_database_that_does_not_answer_is_one_sentence_without_its_password(
    ready: World, tmp_path: Path
) -> None:
    uri = f"postgresql+psycopg2://user:hidden-word@127.0.0.1:{closed_port()}/lake"

    message = refused(
        ready, TransportError, lake=Lake({"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/w"})
    )

    assert "catalog" in message
    assert "hidden-word" not in message


def test_a_warehouse_that_cannot_be_written_is_one_sentence(ready: World, tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.write_text("not a folder")
    lake = Lake({**ready.lake.properties, "warehouse": f"file://{file}/warehouse"})

    with pytest.raises(SlsError) as raised:
        ready.land(lake=lake)

    assert "\n" not in str(raised.value)


def test_a_catalog_without_a_warehouse_is_one_sentence(ready: World, tmp_path: Path) -> None:
    lake = Lake({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.sqlite"})

    message = refused(ready, ConfigError, lake=lake)

    assert message.endswith(
        "is told of no folder for its tables: set PYICEBERG_CATALOG__LAKE__WAREHOUSE to one"
    )


def test_a_catalog_type_that_is_unknown_is_one_sentence(ready: World) -> None:
    assert "catalog" in refused(ready, ConfigError, lake=Lake({"type": "no-such-type"}))


def test_bad_column_types_are_refused_before_anything_starts(ready: World) -> None:
    message = refused(ready, ConfigError, logstore=ready.changed(columns={"status": "integer"}))

    assert "status" in message and "int" in message


@pytest.mark.parametrize(
    ("java_home", "said"),
    [
        ("", "no Java was found on the PATH; install Java 17, or set JAVA_HOME to where it is"),
        (
            "/nonexistent",
            "JAVA_HOME is /nonexistent, and there is no program bin/java in it; unset it to take the Java on "
            "the PATH, or set it to the folder of one",
        ),
    ],
    ids=["none", "another home"],
)
def test_java_missing_is_one_sentence_and_nothing_lands(
    ready: World, tmp_path: Path, java_home: str, said: str
) -> None:
    """A machine without Java: found out before the first start is landed or a shard is claimed."""
    variables = {"PATH": str(tmp_path), "JAVA_HOME": java_home}

    done = land_elsewhere(ready.logstore, ready.lake, tmp_path / "home", variables)

    assert done.returncode == 2, done.stderr[-2000:]
    assert done.stderr.strip() == f"ConfigError: {said}"
    assert_nothing_landed(ready)
    assert ready.emulator.admin.state()["logstores"][0]["groups"] == []


def closed_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
