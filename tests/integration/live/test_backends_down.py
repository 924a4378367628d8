"""Catalogs and storage that are wrong, gone or mute: one sentence, nothing moves, the next run lands."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text

from pipelines.landing.table.lake import Lake
from sls_io.values.errors import LandingUnknown, SlsError, TransportError
from tests.backends import s3
from tests.backends.places import Place, Servers, made
from tests.backends.postgres import only_read
from tests.worlds.beside_servers import proved, world
from tests.worlds.one_logstore import World
from tests.worlds.two_runs import At

__all__ = ["world"]

PAUSE_S = 0.5


@pytest.fixture(params=["postgres-file"])
def place(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Iterator[Place]:
    """The place a test names."""
    with made(request.param, tmp_path / "place", servers) as place:
        yield place


def refused(world: World, lake: Lake, error: type[SlsError] = TransportError) -> str:
    """What a landing into this lake says; it is one sentence without keys, and nothing moved."""
    head, checkpoints = world.table.metadata.current_snapshot_id, world.checkpoints()
    with pytest.raises(error) as raised:
        world.land(lake=lake)
    assert world.table.metadata.current_snapshot_id == head and world.checkpoints() == checkpoints
    said = str(raised.value)
    assert "\n" not in said and s3.KEY_SECRET not in said and "Traceback" not in said
    return said


def elsewhere(lake: Lake, **properties: str) -> Lake:
    """The same lake with other properties; `_` stands for `.`."""
    return Lake({**lake.properties, **{name.replace("_", "."): value for name, value in properties.items()}})


def test_a_wrong_password_names_the_database_and_the_setting(
    world: World, place: Place, servers: Servers
) -> None:
    url = urlsplit(place.lake.properties["uri"])
    wrong = servers.postgres.address(url.path.strip("/"), "hunter2")

    said = refused(world, elsewhere(place.lake, uri=wrong))

    assert f"PostgreSQL at 127.0.0.1:{servers.postgres.port}" in said
    assert "password authentication failed" in said and "PYICEBERG_CATALOG__LAKE__" in said
    assert "hunter2" not in said and servers.postgres.password not in said


def test_a_database_that_takes_no_writes_is_told_after_a_few_tries(
    world: World, place: Place, servers: Servers
) -> None:
    """It would be behind a failover, or where the user lacks the right. By the database's code: no sentence
    of it is shown."""
    uri = place.lake.properties["uri"]
    only_read(uri)
    try:
        said = refused(world, elsewhere(place.lake, pool_recycle="1000"), TransportError)
    finally:
        only_read(uri, on=False)
    assert "3 tries were refused (InternalError: the user of its address may not do that" in said
    assert "Give that user the right to read and write the tables iceberg_tables" in said
    assert world.land().rows == 40
    proved(world, servers)


def test_a_database_of_another_program_is_not_called_unreachable(
    world: World, place: Place, servers: Servers
) -> None:
    uri = servers.postgres.new_database()
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE iceberg_tables (id int)"))
    engine.dispose()

    said = refused(world, elsewhere(place.lake, uri=uri))

    assert "cannot be used: its tables iceberg_tables and" in said and "of its own" in said


@pytest.mark.fault("4a.2.catalog_down")
@pytest.mark.parametrize("place", ["rest-file"], indirect=True)
def test_a_rest_catalog_that_is_down_is_named_and_its_return_is_noticed(
    world: World, place: Place, servers: Servers
) -> None:
    table, checkpoints = world.table, world.checkpoints()
    with servers.rest.down(), pytest.raises(TransportError) as raised:
        world.land(lake=place.direct)

    assert f"rest catalog at 127.0.0.1:{urlsplit(place.direct.properties['uri']).port}" in str(raised.value)
    assert world.table.metadata == table.metadata and world.checkpoints() == checkpoints
    assert world.land(lake=place.direct).rows == 40
    proved(world, servers)


@pytest.mark.parametrize("place", ["postgres-s3"], indirect=True)
def test_a_bucket_that_is_not_there_and_a_key_that_is_not_known_are_named(
    world: World, place: Place, servers: Servers
) -> None:
    nowhere = elsewhere(place.lake, warehouse="s3://no-such-bucket/lake")
    with pytest.raises(TransportError, match=r"s3://no-such-bucket/lake.*NO_SUCH_BUCKET.*check the bucket"):
        fresh = world.changed(
            table="bronze.new_logs", group={**world.logstore.group.model_dump(), "name": "new"}
        )
        world.land(lake=nowhere, logstore=fresh)

    stranger = elsewhere(place.lake, **{"s3.access-key-id": "stranger"})

    said = refused(world, stranger)
    assert re.search(r"files below s3://lake-\d+/warehouse .*ACCESS_DENIED.*the key and its secret", said)
    assert world.land().rows == 40
    proved(world, servers)


@pytest.mark.fault("4a.4.refused")
@pytest.mark.parametrize("place", ["postgres-s3", "rest-s3"], indirect=True)
@pytest.mark.parametrize("event", ["write", "publish"])
def test_storage_that_fails_under_a_landing_ends_it_and_the_next_run_lands(
    world: World, servers: Servers, event: str
) -> None:
    """In the middle of a run: as tasks write their files, and as the commit's manifests are written."""
    head, checkpoints = world.table.metadata.current_snapshot_id, world.checkpoints()
    with ExitStack() as stack:
        away = At(event, lambda: stack.enter_context(servers.s3.refusing()))
        with pytest.raises(TransportError, match="ACCESS_DENIED") as raised:
            world.land(on_event=away)

    assert "\n" not in str(raised.value) and "check the bucket" in str(raised.value)
    assert world.table.metadata.current_snapshot_id == head and world.checkpoints() == checkpoints
    assert world.land().rows == 40
    proved(world, servers)


@pytest.mark.fault("4a.5b.catalog_down", "4b.commit_unknown.after")
@pytest.mark.parametrize("place", ["postgres-file", "rest-file"], indirect=True)
def test_a_catalog_that_accepts_and_says_nothing_costs_a_deadline(
    world: World, place: Place, servers: Servers
) -> None:
    """Their drivers would wait for ever. A run that has sent its commit leaves it to the next one."""
    assert place.gate is not None
    with place.gate.hold(), pytest.raises(TransportError, match=r"no answer within 0\.(5|4[0-9]) s"):
        world.lake.load(world.logstore.table, deadline_s=PAUSE_S)

    checkpoints = world.checkpoints()
    place.lose("lost")
    with ExitStack() as stack:
        mute = At("reload", lambda: stack.enter_context(place.gate.hold()))  # type: ignore[union-attr]
        with pytest.raises(LandingUnknown, match="run again"):
            world.land(on_event=mute, reload_deadline_s=PAUSE_S)

    assert world.checkpoints() == checkpoints
    assert world.land().rows == 0, "it had landed"
    assert world.checkpoints() != checkpoints
    proved(world, servers)


def test_a_database_that_stands_still_for_a_while_is_asked_again(
    world: World, place: Place, servers: Servers
) -> None:
    """The server process itself is stopped, with the connections that it has."""
    with servers.postgres.paused(), pytest.raises(TransportError, match="no answer within"):
        world.lake.load(world.logstore.table, deadline_s=PAUSE_S)

    assert world.land().rows == 40
    proved(world, servers)
