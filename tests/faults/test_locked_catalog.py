"""The catalog's file is locked by another process: runs end in their time and say what they wait for."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from sls_io.values.deadline import Deadline
from sls_io.values.errors import LandingUnknown, TransportError
from tests.worlds.command_line import environment, settings
from tests.worlds.lossy_catalog import LossyCatalog
from tests.worlds.one_logstore import World


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


READS_S = 2.0
"""How long a hurried run may read: enough for a slow machine, little enough to be waited for."""


def hurried(world: World, **changes: str) -> Logstore:
    """The logstore, read by a run that ends soon."""
    budget = {**world.logstore.budget.model_dump(), "seconds_max": READS_S}
    return world.changed(budget=budget, **changes)


@pytest.fixture
def waiting(quick: World) -> World:
    """A history that has begun, and 30 logs to land."""
    return quick.begun(10, 30)


@pytest.mark.parametrize("readers", [True, False], ids=["commits wait", "all wait"])
def test_a_run_at_a_locked_catalog_ends_by_its_one_deadline_and_names_what_it_waits_for(
    waiting: World, readers: bool
) -> None:
    before, checkpoints, said = waiting.table.metadata, waiting.checkpoints(), list[str]()
    around = Deadline(tell=said.append, patience_s=0.1)

    with locked(waiting, readers=readers), around.kept():
        run = Run(
            hurried(waiting),
            waiting.engine,
            lake=waiting.lake,
            publish_deadline_s=1.0,
            reload_deadline_s=1.0,
        )
        with run, pytest.raises((TransportError, LandingUnknown)) as ended:
            run.land()

    (line,) = said
    assert line.startswith("waiting for the Iceberg catalog") and "for at most" in line
    assert "the Iceberg catalog" in str(ended.value) and str(waiting.lake.sqlite_path) in str(ended.value)
    assert waiting.checkpoints() == checkpoints
    assert waiting.table.metadata == before
    assert waiting.land().rows == 30, "its shards were let go of"
    waiting.assert_sound()


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


def test_a_verb_at_a_locked_catalog_says_that_another_process_holds_it_and_not_that_settings_are_wrong(
    waiting: World,
) -> None:
    """Without write-ahead log who writes locks out who reads, also who opens the catalog."""
    with (
        locked(waiting, readers=False),
        pytest.raises(TransportError, match="another process holds it") as ended,
    ):
        waiting.lake.load(waiting.logstore.table, deadline_s=0.5)
    said = str(ended.value)
    assert f"{waiting.lake.sqlite_path}) cannot be used" in said and "open (lsof, fuser)" in said
    assert "PYICEBERG" not in said


# --- what a run waits for beside its catalog ---------------------------------------------------------------

LONGER_S = READS_S + 2.2
"""Past the deadline of a hurried run that gives its catalog a second, and another."""


class Restores:
    """A hook that works for longer than the run has."""

    def on_assigned(self, logstore: str, shards: frozenset[int]) -> None:
        """Waits for what does not come."""
        threading.Event().wait(LONGER_S)


RESTORES = Restores()


def test_a_hook_that_works_for_longer_than_the_run_has_is_no_catalog_out_of_reach(waiting: World) -> None:
    slow = hurried(waiting, hooks=f"{__name__}:RESTORES")
    report = waiting.land(logstore=slow, publish_deadline_s=1.0, reload_deadline_s=1.0)
    assert report.came_to_nothing, "its time to read was over"
    assert waiting.land().rows == 30


def test_what_is_told_of_a_landing_may_take_longer_than_the_run_has(waiting: World) -> None:
    """Dagster writes an event for each hour before the landing is checked and its checkpoints move."""
    before = waiting.checkpoints()
    with waiting.run(logstore=hurried(waiting), publish_deadline_s=1.0, reload_deadline_s=1.0) as run:
        assert run.land().rows == 30
        threading.Event().wait(LONGER_S)
        assert run.reconcile().ok
        assert {str(report.outcome) for report in run.checkpoint()} == {"moved"}
    assert waiting.checkpoints() != before


def test_a_try_that_was_not_answered_may_land_yet_whatever_became_of_those_after_it(
    started: World,
) -> None:
    catalog = started.lake.catalog()
    assert isinstance(catalog, LossyCatalog)
    catalog.script.extend(["silent", *["refused"] * 1000])
    with (
        started.run(logstore=hurried(started), publish_deadline_s=0.3, reload_deadline_s=30.0) as run,
        pytest.raises(LandingUnknown, match=r"did not confirm .*: ConnectionError\. .* may land yet"),
    ):
        run.land()
    catalog.script.clear()
    catalog.deliver()
    assert catalog.deliveries == [""], "it landed"
    assert started.land().rows == 0
    started.assert_each_log_once()
