"""What runs leave for a monitor: a file a logstore in Prometheus' text format, `metrics/NAME.prom` in the
state folder, where node exporter's textfile collector and `sls-lake metrics` read it.

A run is a process that ends, so nobody can ask it; its numbers are added to those of the runs before it. A
file that is gone or damaged begins anew, which Prometheus takes for a restart. Nothing is decided by it, and
no run fails because of it.

Only what stays true is kept: counts, and moments. A lag that nobody updates would look fine for ever.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client import Metric, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from pipelines.landing.run.report import LandingReport
from pipelines.landing.table.home import home, made
from sls_io.values.clock import Clock
from sls_io.values.errors import ConfigError

DONE, UNDONE = "ok", "undone"
"""Outcomes of a run beside the class of the error that ended it. Undone: what landed stands, and the run is
red."""
COUNTED: Mapping[str, str] = {
    "sls_lake_runs": "Runs that ended, by how they ended: ok, undone, or the class of an error.",
    "sls_lake_run_rows": "Rows that runs landed.",
    "sls_lake_run_error_rows": "Rows of these with an error: kept, with their bytes and the cause.",
    "sls_lake_run_raw_bytes": "Uncompressed bytes of the service that runs landed.",
    "sls_lake_run_conflicts": "Commits that were not simply accepted.",
    "sls_lake_run_unknown_answers": "Commits that the catalog did not answer: the table was asked.",
    "sls_lake_run_duration_seconds": "Seconds that runs took, from claim to release.",
    "sls_lake_run_cpu_seconds": "CPU seconds of runs, Spark of the same process tree included.",
}
"""Counters; in the format each has `_total` behind its name."""
KEPT: Mapping[str, str] = {
    "sls_lake_run_end_timestamp_seconds": "When the newest run ended, unix seconds.",
    "sls_lake_run_success_timestamp_seconds": "When the newest run ended well, unix seconds.",
    "sls_lake_proof_timestamp_seconds": "When the table was proven last, well or not, unix seconds.",
    "sls_lake_finding": "1 for the level that a kind of finding has now, 0 for the other levels.",
}
"""Gauges."""
Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]
"""(name of a family, labels in order) -> value."""


def labels(**named: str) -> Labels:
    """The labels of one sample."""
    return tuple(sorted(named.items()))


def metrics_folder() -> Path:
    """Where the files are; it may not be there."""
    return home() / "metrics"


class RunCounts:
    """What one run of `logstore` counts; made when it begins. `mode` is live or fill."""

    def __init__(self, logstore: str, mode: str, clock: Clock) -> None:
        self._labels, self._name, self._clock = {"logstore": logstore, "mode": mode}, logstore, clock
        self._begun_s, self._cpu_s = clock.monotonic(), cpu_s()

    def tell(
        self, report: LandingReport | None, outcome: str, *, conflicts: int = 0, unanswered: int = 0
    ) -> None:
        """The run has ended like this; `report` is None where it landed nothing. Raises OSError and
        ConfigError where the file cannot be written."""
        known, now_s = labels(**self._labels), self._clock.now()
        added = {
            "sls_lake_run_rows": report.rows if report else 0,
            "sls_lake_run_error_rows": report.error_rows if report else 0,
            "sls_lake_run_raw_bytes": report.raw_bytes if report else 0,
            "sls_lake_run_conflicts": conflicts,
            "sls_lake_run_unknown_answers": unanswered,
            "sls_lake_run_duration_seconds": self._clock.monotonic() - self._begun_s,
            "sls_lake_run_cpu_seconds": max(0.0, cpu_s() - self._cpu_s),
        }
        ended = ["sls_lake_run_end_timestamp_seconds"]
        ended += ["sls_lake_run_success_timestamp_seconds"] if outcome == DONE else []

        def change(samples: Samples) -> None:
            counted = {(name, known): float(value) for name, value in added.items()}
            counted["sls_lake_runs", labels(**self._labels, outcome=outcome)] = 1.0
            for key, value in counted.items():
                samples[key] = samples.get(key, 0.0) + value
            samples.update({(name, known): now_s for name in ended})

        keep(self._name, change)


def keep(logstore: str, change: Callable[[Samples], None]) -> None:
    """Change what the logstore's file says; one process at a time. Raises OSError and ConfigError."""
    folder = made(metrics_folder())
    with _alone(folder):
        path = folder / f"{logstore}.prom"
        samples = read(path)
        change(samples)
        write_to_textfile(str(path), Families(families(samples)))


def read(path: Path) -> Samples:
    """What a file says of the metrics that are known here; nothing where there is none, or a damaged one."""
    found: Samples = {}
    try:
        for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
            if family.name in COUNTED or family.name in KEPT:
                found |= {
                    (family.name, labels(**sample.labels)): float(sample.value) for sample in family.samples
                }
    except (OSError, ValueError, KeyError, IndexError):
        return {}
    return found


def read_all(logstores: Iterable[str]) -> Samples:
    """What the files of these logstores say. Raises ConfigError where the state folder can be none."""
    found: Samples = {}
    for name in logstores:
        found |= read(metrics_folder() / f"{name}.prom")
    return found


def families(samples: Samples) -> Iterator[Metric]:
    """The same as Prometheus' families, in the order of their names here."""
    for kind, known in (("counter", COUNTED), ("gauge", KEPT)):
        for name, about in known.items():
            family = Metric(name, about, kind)
            for (its, labelled), value in sorted(samples.items()):
                if its == name:
                    family.add_sample(name + "_total" * (kind == "counter"), dict(labelled), value)
            if family.samples:
                yield family


@dataclass(frozen=True)
class Families(Collector):
    """Families as what Prometheus' library asks for them."""

    found: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.found


def cpu_s() -> float:
    """CPU seconds of this process, of its children that live, and of those that they have waited for."""
    here, total_s = psutil.Process(), 0.0
    for process in (here, *here.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A fill may end beside a live run, and both would read the same counts."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


UNWRITABLE = (OSError, ConfigError)
"""What `keep` and `tell` raise."""
