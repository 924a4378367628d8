"""`spark.read.format("sls")` in a real Spark; what is expected comes from the emulator's own store."""

from collections.abc import Mapping

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import CaseInsensitiveDict

from pipelines.landing.spark.source import SlsDataSource, register
from sls_io.values.errors import ConfigError
from tests import needs
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World

pytestmark = pytest.mark.spark
CANARY = "canary-4711"


def read(world: World, **options: object) -> DataFrame:
    needs.java()
    session = world.engine.session
    register(session)
    reader = session.read.format("sls").option("endpoint", world.emulator.endpoint)
    for name, value in {"project": PROJECT, "logstore": "access_logs", **options}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def three_hours(world: World) -> None:
    """6 logs, an hour later 4, and 5 more two hours after that."""
    for hour, rows in ((0, 6), (1, 4), (3, 5)):
        world.at(HOUR0_S + hour * 3600 + 60)
        world.put(rows, logs_a_group=2)
    world.at(HOUR0_S + 4 * 3600)


def test_each_log_is_a_row_once_with_typed_columns(world: World) -> None:
    three_hours(world)
    frame = read(world, columns="n long, status int")
    kinds = dict(frame.dtypes)
    assert (kinds["n"], kinds["status"], kinds["__time__"]) == ("bigint", "int", "timestamp")
    rows = frame.collect()
    truth = world.truth()
    assert len(rows) == len(truth) == 15
    for row in rows:
        pairs = truth[row["__shard__"], row["__cursor__"], row["__index__"]]
        assert (row["n"], row["status"]) == (int(pairs["n"]), int(pairs["status"]))
        assert row["__rest__"] == {"path": pairs["path"].decode()} and row["__error__"] is None
    assert {row["n"] for row in rows} == set(range(15))


def test_times_and_shards_choose_what_is_read_and_a_partition_is_a_shard_or_an_hour(world: World) -> None:
    three_hours(world)
    second = read(world, start=HOUR0_S + 3600, end=HOUR0_S + 2 * 3600, columns="n long")
    assert sorted(row["n"] for row in second.collect()) == [6, 7, 8, 9]
    shards = {shard for shard, _, _ in world.truth()}
    one = read(world, shards="1")
    assert {row["__shard__"] for row in one.collect()} == {1} and shards == {0, 1}
    assert one.count() == sum(1 for shard, _, _ in world.truth() if shard == 1)
    assert read(world).rdd.getNumPartitions() == 2
    hours = {(row["__shard__"], row["__receive_hour__"]) for row in read(world).collect()}
    by_hour = read(world, split="hour")
    assert by_hour.rdd.getNumPartitions() == len(hours) > 2
    assert by_hour.count() == 15


def test_a_logstore_without_logs_is_an_empty_frame_and_sql_asks_it(world: World) -> None:
    assert read(world).count() == 0
    world.put(8)
    read(world, columns="n long").createOrReplaceTempView("looked_at")
    said = world.engine.session.sql("SELECT sum(n) AS total FROM looked_at").collect()
    assert said[0]["total"] == sum(range(8))


def test_what_the_service_refuses_is_an_error_in_spark_with_its_words(world: World) -> None:
    world.put(10, key="0" * 32)
    frame = read(world, shards="0")
    world.emulator.admin.fault("error", call="pull_logs", status=400, code="ParameterInvalid", times=None)
    with pytest.raises(PySparkException, match="ParameterInvalid"):
        frame.collect()


def test_a_secret_is_refused_in_spark_and_never_repeated(world: World) -> None:
    with pytest.raises(PySparkException, match="looks like a secret") as caught:
        read(world, accessKeySecret=CANARY)
    assert CANARY not in str(caught.value)


def source(**options: str) -> SlsDataSource:
    given = {"endpoint": "http://127.0.0.1:1", "project": "demo", "logstore": "logs", **options}
    return SlsDataSource(dict(CaseInsensitiveDict(given)))


@pytest.mark.parametrize(
    "name", ["accessKeyId", "access_key_secret", "SECRET", "securityToken", "password", "credential", "ak"]
)
def test_an_option_that_looks_like_a_secret_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ConfigError, match=r"looks like a secret.*environment") as caught:
        source(**{name: CANARY}).schema()
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": CANARY}, "there is no option 'path'"),
        ({"startt": "1"}, "there is no option 'startt'"),
        ({"project": ""}, "option project is missing"),
        ({"endpoint": f"https://me:{CANARY}@host"}, "expected https://HOST"),
        ({"shards": "0;1"}, "option shards"),
        ({"split": "minute"}, "option split"),
        ({"start": "yesterday"}, "is no time"),
        ({"columns": "status"}, "option columns"),
        ({"columns": "status number"}, "status"),
        ({"columns": "status int, status long"}, "'status' is named twice"),
        ({"start": "9999999999999"}, "option start: a time after 2199: write unix seconds"),
        ({"end": "2200-01-01"}, "option end: a time after 2199"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        source(**options).schema()
    assert CANARY not in str(caught.value)


def test_columns_may_have_types_with_commas() -> None:
    names = (
        source(columns="amount decimal(10,2), at timestamp(iso, Asia/Shanghai), path string").schema().names
    )
    assert names[9:12] == ["amount", "at", "path"]


def test_a_schema_of_the_users_own_is_refused() -> None:
    made = source(columns="status int")
    with pytest.raises(ConfigError, match=r"leave \.schema"):
        made.reader(source().schema())
