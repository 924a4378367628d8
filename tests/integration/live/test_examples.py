"""The programs of `examples/`, each run as its head says; what they must print is worked out here."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sls_io.values.errors import ServiceError
from sls_io.values.settings import Group
from tests import needs
from tests.worlds.command_line import environment, settings
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World

ROOT = Path(__file__).parents[3]
NAME = "access_logs"
PROGRAM_S = 600.0


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "examples" / program), *arguments]


def around(world: World, folder: Path) -> dict[str, str]:
    """As a shell after `. var/dev/env`; our packages are found where they are installed."""
    return {**environment(world, folder), "SLS_ENDPOINT": world.emulator.endpoint, "PYTHONPATH": str(ROOT)}


def said(world: World, folder: Path, program: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        command(program, *arguments),
        env=around(world, folder),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def time(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M")


def test_shards_and_lag_names_the_shard_that_is_most_behind_first(world: World, tmp_path: Path) -> None:
    world.put(2, key="8" + "0" * 31, until_s=HOUR0_S + 3600 + 60)
    world.put(2, key="0" * 32)
    world.emulator.admin.set_clock(HOUR0_S + 2 * 3600 + 60)
    with world.client as client:
        client.create_group(Group(name="readers"))
        client.heartbeat("readers", "me", ())
        client.save_checkpoint("readers", "me", 0, client.cursor_at(0, "end"))
    first, second = said(world, tmp_path, "shards_and_lag.py", PROJECT, NAME, "readers")
    assert first.startswith("shard 1  readwrite") and first.endswith("me")
    assert 2 * 3600 - 1 <= int(first.split()[3]) < 2 * 3600 + 600
    assert second.split() == ["shard", "0", "readwrite", "0", "s", "behind", "me"]


def test_peek_shows_the_first_logs_and_what_their_keys_hold(world: World, tmp_path: Path) -> None:
    world.put(12, key="0" * 32, value="404", until_s=HOUR0_S + 3600 + 60)
    world.put(3, key="0" * 32)
    heads, *lines = said(world, tmp_path, "peek.py", PROJECT, NAME, "0")
    assert heads.split() == ["__time__", "n", "status", "path"]
    assert [line.split()[2:] for line in lines[:10]] == [[str(n), "404", f"/p/{n % 7}"] for n in range(10)]
    assert [line.split() for line in lines[10:]] == [["n", "10"], ["status", "1"], ["path", "7"]]
    later = said(world, tmp_path, "peek.py", PROJECT, NAME, "0", time(HOUR0_S + 3600))
    assert [line.split()[2] for line in later[1:4]] == ["12", "13", "14"]


def test_to_parquet_makes_a_file_of_exactly_the_window(world: World, tmp_path: Path) -> None:
    world.put(30, until_s=HOUR0_S + 3600)
    world.put(20, until_s=HOUR0_S + 2 * 3600)
    world.put(10)
    window = time(HOUR0_S + 3600), time(HOUR0_S + 2 * 3600)
    assert said(world, tmp_path, "to_parquet.py", PROJECT, NAME, *window, "hour.parquet") == [
        "20 logs in hour.parquet"
    ]
    rows = pq.read_table(tmp_path / "hour.parquet").to_pylist()
    truth = world.truth()
    expected = {place for place, pairs in truth.items() if 30 <= int(pairs["n"]) < 50}
    found = Counter((row["__shard__"], row["__cursor__"], row["__index__"]) for row in rows)
    assert found == Counter(expected)
    assert {row["status"] for row in rows} == {"200"}


def test_to_parquet_leaves_no_file_of_that_name_when_a_page_does_not_come(
    world: World, tmp_path: Path
) -> None:
    world.put(10)
    world.emulator.admin.fault("error", call="pull_logs", status=400, code="ParameterInvalid", times=None)
    window = time(HOUR0_S), time(HOUR0_S + 3600)
    done = subprocess.run(
        command("to_parquet.py", PROJECT, NAME, *window, "hour.parquet"),
        env=around(world, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
    )
    assert done.returncode != 0 and "ParameterInvalid" in done.stderr
    assert not (tmp_path / "hour.parquet").exists()


def test_hold_and_process_counts_each_log_once_over_its_runs(world: World, tmp_path: Path) -> None:
    world.put(12)
    world.put(4, value="500")
    call = ("hold_and_process.py", PROJECT, NAME, "counters", "worker-1")
    assert said(world, tmp_path, *call) == ["worker-1 held [0, 1]: {'200': 12, '500': 4}"]
    world.put(5, value="404")
    assert said(world, tmp_path, *call) == ["worker-1 held [0, 1]: {'404': 5}"]
    assert said(world, tmp_path, *call) == ["worker-1 held [0, 1]: {}"]


def test_hold_and_process_does_again_what_was_done_without_a_checkpoint(world: World, tmp_path: Path) -> None:
    world.put(6, key="0" * 32)
    call = ("hold_and_process.py", PROJECT, NAME, "counters", "worker-1")
    hold = world.emulator.admin.fault("hold", call="save_checkpoint")
    with subprocess.Popen(command(*call), env=around(world, tmp_path), cwd=tmp_path) as dies:
        while not world.emulator.admin.faults()[0]["hits"]:
            assert dies.poll() is None, "it ended before its checkpoint"
            with suppress(ServiceError):  # not yet
                world.emulator.admin.wait(hold, timeout_s=1)
        dies.send_signal(signal.SIGKILL)
    assert world.checkpoints("counters")[0] is None
    assert said(world, tmp_path, *call) == ["worker-1 held [0, 1]: {'200': 6}"]


@pytest.mark.spark
def test_ledger_frame_shows_what_a_landing_brought(world: World, tmp_path: Path) -> None:
    world.begun(landed=20, waiting=0)
    world.at(HOUR0_S + 3600 + 60)
    world.land_more(15, until_s=HOUR0_S + 3600 + 120)
    world.put(1, key="0" * 32, until_s=HOUR0_S + 2 * 3600 + 60)
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    lines = said(world, tmp_path, "ledger_frame.py", str(defs))
    hours = [line.split() for line in lines if line.startswith("20")]
    assert [(date, clock[:5], int(rows)) for date, clock, rows, _ in hours] == [
        (*time(HOUR0_S).split("T"), 20),
        (*time(HOUR0_S + 3600).split("T"), 15),
    ]
    shard, behind = lines[-2].split()[1], int(lines[-2].split()[3])
    assert shard == "0" and 3600 - 120 <= behind < 3600 + 600
    assert lines[-1] == "no gap"


@pytest.mark.spark
def test_spark_reader_asks_in_sql(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.java()
    world.put(9, until_s=HOUR0_S + 3600)
    world.put(7, value="500")
    world.put(2)
    day = f"newest {time(HOUR0_S)[:10]}"
    # As in a shell in which no environment is active: its `python3` does not have our packages.
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{bare}{os.pathsep}{os.environ['PATH']}")
    lines = said(world, tmp_path, "spark_reader.py", PROJECT, NAME)
    assert lines == [f"status 200: 11 logs, {day}", f"status 500: 7 logs, {day}"]


def test_every_program_is_run_by_a_test() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    programs = [path.name for path in (ROOT / "examples").glob("[a-z]*.py")]
    assert len(programs) == 6 and not [name for name in programs if f'"{name}"' not in here]
