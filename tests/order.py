"""In which order the files of a run are begun.

Story: some workers share the files. The last one takes minutes and is begun last, so one worker runs it and
the others have nothing to do. So the files that take longest come first, and small ones fill up the end.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
LONGEST = (
    "tests/integration/live/test_dagster_live.py",
    "tests/integration/live/test_own_project.py",
    "tests/integration/live/test_backends.py",
    "tests/integration/live/test_cluster.py",
    "tests/integration/live/test_deployment.py",
    "tests/integration/live/test_cold_start.py",
    "tests/integration/live/test_backends_spark.py",
    "tests/integration/live/test_howto.py",
    "tests/browser/test_page.py",
    "tests/integration/live/test_chaos.py",
    "tests/integration/live/test_demo.py",
    "tests/integration/live/test_dbt_minutes.py",
    "tests/integration/live/test_dagster_cold.py",
    "tests/integration/live/test_silent_catalog.py",
    "tests/integration/live/test_spark_connect.py",
    "tests/integration/live/test_examples.py",
    "tests/integration/live/test_osstables.py",
    "tests/integration/live/test_bench.py",
    "tests/integration/live/test_dbt_rows.py",
    "tests/integration/live/test_dagster_queue.py",
    "tests/integration/live/test_tutorial.py",
    "tests/integration/live/test_real.py",
    "tests/integration/live/test_dev.py",
    "tests/integration/live/test_spark_ends.py",
    "tests/contract/live/test_strange_rows.py",
    "tests/integration/test_dagster_repair.py",
    "tests/faults/test_lost_manifests.py",
    "tests/integration/test_dagster_told.py",
    "tests/simulation/test_exhaustive.py",
    "tests/faults/test_wrong_answers.py",
    "tests/integration/test_maintain.py",
    "tests/unit/test_rewrites.py",
    "tests/integration/test_shared_sensors.py",
    "tests/faults/test_operations.py",
    "tests/integration/test_settle.py",
    "tests/faults/test_foreign_changes.py",
    "tests/contract/test_checkpoint_stores.py",
    "tests/integration/test_dagster_hours.py",
    "tests/faults/test_begins.py",
    "tests/faults/test_cures.py",
    "tests/faults/test_calls.py",
    "tests/faults/test_processes.py",
    "tests/simulation/test_leases.py",
    "tests/integration/test_changed_table.py",
    "tests/faults/test_damaged_files.py",
    "tests/integration/test_fuzz.py",
    "tests/integration/test_health.py",
    "tests/integration/test_kills.py",
    "tests/faults/test_quotas.py",
    "tests/integration/test_sensors.py",
    "tests/contract/test_emulator_python_sdk.py",
    "tests/faults/test_leases.py",
    "tests/simulation/test_hours_again.py",
    "tests/faults/test_data.py",
    "tests/integration/test_replace.py",
    "tests/unit/test_where.py",
    "tests/integration/test_forget_from_now_on.py",
    "tests/integration/test_spark_source.py",
)
"""The files that take more than a minute of a worker on a slow machine, the longest first; the live ones
have a run of their own."""
T = TypeVar("T")


def longest_first(items: Iterable[T], path_of: Callable[[T], Path]) -> list[T]:
    """The items of the files in LONGEST first, in that order; all others as they came."""
    places = {ROOT / name: place for place, name in enumerate(LONGEST)}
    return sorted(items, key=lambda item: places.get(path_of(item), len(places)))
