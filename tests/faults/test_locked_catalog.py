"""The catalog's file is locked by another process: runs end in their time and say what they wait for."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pipelines.landing.run.driver import Run
from sls_io.deadline import Deadline
from sls_io.errors import ConfigError, LandingUnknown, TransportError
from tests.integration.command_line import environment, settings
from tests.integration.world import World


@contextmanager
def locked(world: World, *, readers: bool) -> Iterator[None]:
    """Nobody else writes to the catalog for the time of the block; without `readers` nobody reads it."""
    assert world.lake.sqlite_path is not None
    world.lake.catalog().close()
    with closing(sqlite3.connect(world.lake.sqlite_path, isolation_level=None)) as connection:
        mode = "wal" if readers else "delete"
        assert connection.execute(f"PRAGMA journal_mode={mode}").fetchone() == (mode,)
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


@pytest.fixture
def waiting(quick: World) -> World:
    """A history that has begun, and 30 logs to land by a run that has half a second to read them."""
    quick.put(10)
    quick.emulator.admin.advance(60)
    quick.land()
    quick.put(30)
    quick.emulator.admin.advance(60)
    budget = {**quick.logstore.budget.model_dump(), "seconds_max": 0.5}
    quick.logstore = quick.changed(budget=budget)
    return quick


@pytest.mark.parametrize("readers", [True, False], ids=["commits wait", "all wait"])
def test_a_run_at_a_locked_catalog_ends_by_its_one_deadline_and_names_what_it_waits_for(
    waiting: World, readers: bool
) -> None:
    before, checkpoints, said = waiting.table.metadata, waiting.checkpoints(), list[str]()
    around = Deadline(tell=said.append, patience_s=0.1)

    with locked(waiting, readers=readers), around.kept():
        run = Run(
            waiting.logstore,
            waiting.engine,
            lake=waiting.lake,
            publish_deadline_s=1.0,
            reload_deadline_s=1.0,
        )
        with run, pytest.raises((TransportError, LandingUnknown, ConfigError)) as ended:
            run.land()

    (line,) = said
    assert line.startswith("waiting for the Iceberg catalog") and "for at most" in line
    assert "the Iceberg catalog" in str(ended.value) and str(waiting.lake.sqlite_path) in str(ended.value)
    assert waiting.checkpoints() == checkpoints
    assert waiting.table.metadata == before
    assert waiting.land().rows == 30, "its shards were let go of"
    waiting.assert_each_log_once()
    waiting.assert_proved()


def test_a_verb_that_only_looks_says_after_five_seconds_what_it_waits_for(
    waiting: World, tmp_path: Path
) -> None:
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(waiting))
    program = Path(sys.executable).parent / "sls-lake"
    with (
        locked(waiting, readers=False) as _,
        subprocess.Popen(
            [program, "describe", "--logstore", defs],
            env=environment(waiting, tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        line = process.stderr.readline()
        process.kill()
    assert "waiting for the Iceberg catalog" in line and str(waiting.lake.sqlite_path) in line
    assert "no answer for 5 s" in line
