"""A Spark Connect server that is not there is said at once, and by name."""

import socket
from urllib.parse import urlsplit

import pytest

from pipelines.landing.doctor.engine import of_engine
from pipelines.landing.spark import remote
from pipelines.landing.spark.session import Engine, engine_here
from sls_io.values.errors import ConfigError, ConnectFailed


def dead() -> str:
    """An address where nobody listens any more."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"sc://127.0.0.1:{probe.getsockname()[1]}/;token=SECRET"


def test_a_server_that_does_not_answer_is_named_with_the_cure_and_without_its_token() -> None:
    address = dead()
    with pytest.raises(ConnectFailed) as said:
        remote.require_answer(address, wait_s=0.0)
    place = address.partition("/;")[0]
    assert place in str(said.value) and "unset SLS_SPARK_REMOTE" in str(said.value)
    assert "SECRET" not in str(said.value)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("sc://lake:15002/;token=SECRET;user_id=me", "sc://lake:15002"),
        ("sc://me:SECRET@lake", "what SLS_SPARK_REMOTE says"),
        ("SECRET", "what SLS_SPARK_REMOTE says"),
    ],
)
def test_what_a_doctor_says_of_a_server_holds_no_token(address: str, place: str) -> None:
    engine = Engine(remote=address)
    assert engine.place == place
    assert place in of_engine(engine, None, None).sent and "SECRET" not in of_engine(engine, None, None).sent


def test_an_engine_asks_a_dead_server_no_longer_than_that() -> None:
    engine = Engine(remote=dead(), wait_s=0.1)
    for ask in (engine.require, engine.ready):
        with pytest.raises(ConnectFailed, match="no Spark Connect server answers"):
            ask()
    assert not engine.started


def test_a_standalone_master_that_does_not_answer_is_named_before_any_act() -> None:
    """Spark's own driver asks for a minute, and says then that its context was stopped."""
    port = urlsplit(dead()).port
    engine = Engine(master=f"spark://127.0.0.1:{port}", wait_s=0.1)
    for ask in (engine.require, engine.ready):
        with pytest.raises(
            ConnectFailed, match=f"answers at spark://127.0.0.1:{port}: start it, or set SLS_SPARK"
        ):
            ask()
    assert not engine.started


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listens:
        other, here = urlsplit(dead()).port, listens.getsockname()[1]
        remote.require_master(f"spark://127.0.0.1:{other},127.0.0.1:{here}", wait_s=0.0)


@pytest.mark.parametrize(
    "master", ["local[2,3]", "yarn", "k8s://https://nowhere:1", "spark://nowhere", "spark://", "spark://:1"]
)
def test_what_is_no_standalone_master_is_left_to_spark(master: str) -> None:
    remote.require_master(master, wait_s=0.0)


@pytest.mark.parametrize("master", ["spark://127.0.0.1:99999", "spark://no..where:1", "spark://[::1]:1"])
def test_a_master_that_cannot_be_reached_by_its_name_is_one_that_does_not_answer(master: str) -> None:
    with pytest.raises(ConnectFailed, match="no Spark master answers"):
        remote.require_master(master, wait_s=0.0)


@pytest.mark.parametrize(
    "wrong", ["localhost:15002", "sc://", "http://host:1", "sc://host:port", "sc://u:p@h:1"]
)
def test_what_is_no_address_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(ConfigError, match="sc://HOST:PORT") as said:
        remote.place_of(wrong)
    assert "u:p" not in str(said.value)


def test_the_environment_says_where_spark_runs_and_what_is_given_goes_over_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(remote.REMOTE_VARIABLE, raising=False)
    monkeypatch.delenv(remote.MASTER_VARIABLE, raising=False)
    assert (engine_here().remote, engine_here().master) == ("", remote.DEFAULT_MASTER)
    monkeypatch.setenv(remote.REMOTE_VARIABLE, "sc://there:1")
    monkeypatch.setenv(remote.MASTER_VARIABLE, "local[7]")
    assert (engine_here().remote, engine_here().master) == ("sc://there:1", "local[7]")
    given = engine_here(remote="sc://here:2", master="local[1]")
    assert (given.remote, given.master) == ("sc://here:2", "local[1]")


@pytest.mark.parametrize(
    ("address", "without"),
    [
        ("sc://there:1/;session_id=7a", "sc://there:1"),
        ("sc://there:1/;token=t;session_id=7a", "sc://there:1/;token=t"),
        ("sc://there:1/;session_id=7a;use_ssl=true", "sc://there:1/;use_ssl=true"),
    ],
)
def test_who_wants_a_session_of_its_own_gets_the_rest_of_the_address(address: str, without: str) -> None:
    assert remote.names_session(address) and not remote.names_session(without)
    assert remote.without_session(address) == without == remote.without_session(without)
    assert remote.place_of(address) == remote.place_of(without) == ("there", 1)
