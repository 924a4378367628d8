"""A cold start: Java's class archive, whose options Java gets, what workers know, what is not started."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.landing.spark.archive import SUFFIX, found, key_of, options, place
from pipelines.landing.spark.java import OPTIONS, OPTIONS_SETTING, has_own_options, require_java
from pipelines.landing.spark.record import recorded
from pipelines.landing.spark.session import Engine
from tests import needs
from tests.integration.killed_run import land_elsewhere
from tests.worlds.one_logstore import HOUR0_S, World

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
_PROGRAM_S = 600.0
_OF_JAVA = ("-Xshare", "cds", "archive", "warning")


@pytest.fixture(scope="module")
def archives() -> Path:
    """The folder with the archive of this Java and these jars, as set-up makes it."""
    needs.java()
    path, why = recorded(place())
    assert path is not None, why
    return path.parent


@pytest.mark.slow
def test_two_that_make_the_archive_at_once_do_not_disturb_one_another(tmp_path: Path) -> None:
    needs.java()
    code = "import sys; from pathlib import Path; from pipelines.landing.spark.record import recorded; "
    code += "print(recorded(Path(sys.argv[1])))"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=_PROGRAM_S)[0].decode() for process in both]

    assert [process.returncode for process in both] == [0, 0], said
    assert found(require_java(), tmp_path) is not None
    assert {path.suffix for path in tmp_path.iterdir()} == {SUFFIX}
    assert cold({"archives": str(tmp_path)}, tmp_path)["mapped"]


def cold(arguments: dict[str, Any], home: Path, **variables: str) -> dict[str, Any]:
    """What `cold_program` tells, and what it and its Java said beside that, as `noise`."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYSPARK_PYTHON", "SPARK_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.cold_program", json.dumps(arguments)],
        cwd=ROOT,
        env={**environment, "SLS_LAKE_HOME": str(home), **variables},
        capture_output=True,
        text=True,
        timeout=_PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *before, told = done.stdout.splitlines()
    found: dict[str, Any] = json.loads(told)
    noise = [*before, *done.stderr.splitlines()]
    return {**found, "noise": [line for line in noise if any(word in line for word in _OF_JAVA)]}


def rows(told: dict[str, Any]) -> list[int]:
    """The numbers that the job's tasks had."""
    return sorted(number for worker in told["workers"] for number in worker["numbers"])


def test_the_archive_is_made_once_and_used_and_workers_come_from_one_that_knows_the_task(
    archives: Path, tmp_path: Path
) -> None:
    made = found(require_java(), archives)
    assert made is not None
    before = made.stat().st_ino

    assert recorded(archives) == (made, "")
    told = cold({"archives": str(archives)}, tmp_path)

    assert made.stat().st_ino == before
    assert told["mapped"]
    assert told["noise"] == []
    assert rows(told) == [0, 1]
    assert not told["jars"], "a landing needs no Iceberg jar"
    for worker in told["workers"]:
        assert worker["knew"]
        assert worker["archives"] == [], "Python reads the list of each before each task"
        # A fork takes one thread along: there must be no other one.
        assert worker["threads_there"] == 1


def damaged(whole: Path, folder: Path, damage: str) -> Path:
    """A folder whose archive is `whole` with this damage."""
    folder.mkdir()
    path = folder / whole.name
    if damage == "folder":
        path.mkdir()
        return folder
    shutil.copyfile(whole, path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if damage in ("empty", "short"):
            file.truncate(0 if damage == "empty" else size // 2)
        else:
            file.seek(64 if damage == "head" else size // 2)
            file.write(b"\xa5" * 4096)
    return folder


@pytest.mark.parametrize("damage", ["empty", "short", "folder"])
def test_an_archive_that_is_not_whole_is_not_taken(archives: Path, tmp_path: Path, damage: str) -> None:
    java = require_java()
    whole = found(java, archives)
    assert whole is not None
    folder = damaged(whole, tmp_path / "archives", damage)

    assert found(java, folder) is None
    assert options(java, folder).split() == list(OPTIONS)


def test_a_damaged_archive_is_harmless_and_nobody_hears_of_it(archives: Path, tmp_path: Path) -> None:
    java = require_java()
    whole = found(java, archives)
    assert whole is not None
    head, middle = (damaged(whole, tmp_path / damage, damage) for damage in ("head", "middle"))

    command = [java.path, *options(java, head).split(), "-version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=_PROGRAM_S, check=False)
    assert said.returncode == 0 and not any(word in said.stderr + said.stdout for word in _OF_JAVA)

    told = cold({"archives": str(middle)}, tmp_path)
    assert not told["mapped"]
    assert rows(told) == [0, 1]
    assert told["noise"] == []


def test_without_a_folder_for_it_there_is_no_archive_and_no_harm(tmp_path: Path) -> None:
    needs.java()
    taken = tmp_path / "file"
    taken.write_text("")

    path, why = recorded(taken / "archives")
    told = cold({"archives": str(taken / "archives")}, tmp_path)

    assert path is None
    assert "cannot be written" in why
    assert not told["mapped"]
    assert set(OPTIONS) <= set(told["command"])


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"])
def test_a_variable_with_options_for_java_keeps_ours_away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    others = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    for name in (*others, "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    assert not has_own_options({})
    monkeypatch.setenv(variable, "-Dmine=1")
    assert has_own_options({})


@pytest.mark.parametrize(
    ("conf", "variables"),
    [
        ({OPTIONS_SETTING: "-Dmine=1 -Dtoo=1 -XX:+UseG1GC"}, {}),
        (
            {},
            {
                "SPARK_SUBMIT_OPTS": "-Dmine=1",
                "PYSPARK_SUBMIT_ARGS": "--driver-java-options '-Dtoo=1 -XX:+UseG1GC' pyspark-shell",
            },
        ),
    ],
    ids=["conf", "variables"],
)
def test_who_gives_java_options_has_them_alone(
    archives: Path, tmp_path: Path, conf: dict[str, str], variables: dict[str, str]
) -> None:
    told = cold({"archives": str(archives), "conf": conf}, tmp_path, **variables)

    assert {"-Dmine=1", "-Dtoo=1", "-XX:+UseG1GC"} <= set(told["command"])
    assert not set(OPTIONS) & set(told["command"])
    assert not told["mapped"]


def test_ones_own_daemon_of_workers_stays(archives: Path, tmp_path: Path) -> None:
    mine = {"spark.python.daemon.module": "pyspark.daemon"}

    told = cold({"archives": str(archives), "conf": mine}, tmp_path)

    assert rows(told) == [0, 1]
    assert not any(worker["knew"] for worker in told["workers"])
    assert all(worker["archives"] for worker in told["workers"]), "the path is as Spark made it"


@pytest.fixture
def alone(world: World) -> Iterator[World]:
    """The world with an engine of its own: a process has one Spark, so the shared one ends first."""
    needs.spark_jars()
    world.engine.stop(wait=True)
    mine = Engine(lake=world.lake)
    yield World(world.emulator, world.lake, world.logstore, mine)
    mine.stop(wait=True)


def test_nothing_is_started_when_nothing_is_new_and_else_beside_the_survey(alone: World) -> None:
    heard: dict[str, bool] = {}

    def hear(name: str) -> None:
        heard.setdefault(name, alone.engine.begun)

    alone.land()
    assert not alone.engine.begun

    alone.put(20, until_s=HOUR0_S + 120)
    with alone.run(on_event=hear) as run:
        assert run.land().rows == 20
    assert not heard["survey"]
    assert heard["survey.done"]
    alone.assert_each_log_once()


def test_a_landing_has_no_iceberg_jar_sql_after_it_has_and_a_spark_that_ended_is_started_anew(
    alone: World,
) -> None:
    alone.land_more(20, until_s=HOUR0_S + 120)
    assert not alone.engine.context.getConf().get("spark.jars", "")

    alone.engine.context.stop()  # as somebody's notebook does

    alone.land_more(20, until_s=HOUR0_S + 240)
    alone.assert_each_log_once()

    question = f"SELECT count(*) AS n FROM lake.{alone.logstore.table}"
    assert alone.engine.session.sql(question).collect()[0]["n"] == 40
    assert "iceberg" in str(alone.engine.context.getConf().get("spark.jars", ""))

    assert alone.land_more(10, until_s=HOUR0_S + 360).rows == 10
    assert alone.engine.session.sql(question).collect()[0]["n"] == 50

    alone.engine.context.stop()

    assert alone.engine.context.version
    assert alone.engine.session.sql(question).collect()[0]["n"] == 50


def test_another_set_of_jars_or_another_java_has_another_archive(tmp_path: Path) -> None:
    needs.java()
    java = require_java()
    (tmp_path / "one.jar").write_bytes(b"1")
    first = key_of(java, tmp_path)
    assert key_of(java, tmp_path) == first

    (tmp_path / "two.jar").write_bytes(b"2")
    second = key_of(java, tmp_path)
    (tmp_path / "two.jar").write_bytes(b"22")
    third = key_of(java, tmp_path)
    os.utime(tmp_path / "two.jar", (1, 1))
    fourth = key_of(java, tmp_path)
    other = key_of(type(java)(java.path, java.said + "patched"), tmp_path)

    assert len({first, second, third, fourth, other}) == 5


@pytest.mark.parametrize("which", ["another minor version", "without our packages", "no Python"])
def test_workers_whose_python_cannot_run_our_tasks_are_refused_in_one_sentence(
    world: World, tmp_path: Path, which: str
) -> None:
    if which == "another minor version":
        python, said = needs.other_python(), "run another Python than this run"
    elif which == "no Python":
        python, said = "/bin/false", "run no task at all"
    else:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
        python, said = str(tmp_path / "bare" / "bin" / "python"), "cannot import"
    world.put(20, until_s=HOUR0_S + 120)
    done = land_elsewhere(world.logstore, world.lake, tmp_path / "home", {"PYSPARK_PYTHON": python})
    sentence = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and sentence.startswith("ConfigError: the workers of Spark"), sentence
    assert said in sentence and "unset PYSPARK_PYTHON, or name a Python" in sentence
    assert world.table_rows() == []


def test_an_engine_that_finds_a_spark_leaves_it_to_who_started_it(alone: World) -> None:
    alone.put(20)
    alone.land()
    found = Engine(lake=alone.lake)
    assert found.context is alone.engine.context

    found.stop()

    alone.land_more(20, until_s=HOUR0_S + 120)
    alone.assert_each_log_once()
