"""What runs leave for a monitor: a file a logstore in Prometheus' text format, `metrics/NAME.prom` in the
state folder, where node exporter's textfile collector and `sls-lake metrics` read it.

A run is a process that ends, so nobody can ask it; its numbers are added to those of the runs before it. A
file that is gone or damaged begins anew, which Prometheus takes for a restart. Nothing is decided by it, and
no run fails because of it.

Only what stays true is kept: counts, and moments. A lag that nobody updates would look fine for ever.

Story of the counters: a run lands 5 rows and ends, the next one 7. A scraper that comes by once a minute
meets neither process. The file says 5, then 12, and Prometheus' `rate` makes of it what each brought. A
number that is set and not added (rows of the *newest* run) would lose every run between two scrapes.

A collector may read while a run writes. The library writes beside the file and renames, so the collector has
the old numbers or the new ones, and never half of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from prometheus_client import Metric, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from pipelines.landing.run.report import LandingReport
from pipelines.landing.table.home import alone_in, home, made
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
PROVEN_AT, FINDING, TABLE_UUID = "sls_lake_proof_timestamp_seconds", "sls_lake_finding", "table_uuid"
"""What a proof leaves, the one finding of a file; and the label that says of which table it is."""
KEPT: Mapping[str, str] = {
    "sls_lake_run_end_timestamp_seconds": "When the newest run ended, unix seconds.",
    "sls_lake_run_success_timestamp_seconds": "When the newest run ended well, unix seconds.",
    PROVEN_AT: "When the table was proven last, well or not, unix seconds.",
    FINDING: "1 for the level that a kind of finding has now, 0 for the other levels.",
}
"""Gauges."""
Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]
"""(name of a family, labels in order) -> value."""


def labels(**named: str) -> Labels:
    """The labels of one sample.

    Worked example: `labels(mode="live", logstore="a")` is `(("logstore", "a"), ("mode", "live"))`: in order
    of their names, so that one set of labels is one key however it was written.
    """
    return tuple(sorted(named.items()))


def metrics_folder() -> Path:
    """Where the files are; it may not be there."""
    return home() / "metrics"


class RunCounts:
    """What one run of `logstore` counts; made when it begins. `mode` is live or fill.

    The clock and the CPU seconds of the process are read here and once more at the end: what is told is the
    difference, since a process of Dagster's may have worked for minutes before the run began.
    """

    def __init__(self, logstore: str, mode: str, clock: Clock) -> None:
        self._labels, self._name, self._clock = {"logstore": logstore, "mode": mode}, logstore, clock
        self._begun_s, self._cpu_s = clock.monotonic(), cpu_s()

    def tell(
        self,
        report: LandingReport | None,
        outcome: str,
        *,
        conflicts: int = 0,
        unanswered: int = 0,
        table_uuid: str = "",
    ) -> None:
        """The run has ended like this; `report` is None where it landed nothing. Raises OSError and
        ConfigError where the file cannot be written.

        Where it knows its table, the proof of another one leaves the file: a collector that reads files asks
        no catalog.

        What is counted is added; the two moments are set, that of a good end only by `ok`. So the age of the
        newest good run goes on to grow while runs end badly, whatever they landed.
        """
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
            if table_uuid and proven_table(samples) != table_uuid:
                drop_proof(samples)

        keep(self._name, change)


def proven_table(samples: Samples) -> str:
    """Of which table the proof in a logstore's file is; "" where there is none, or it was of no table."""
    return next((dict(of).get(TABLE_UUID, "") for name, of in samples if name == PROVEN_AT), "")


def drop_proof(samples: Samples) -> None:
    """Take the proof out of what a logstore's file says."""
    for key in [key for key in samples if key[0] in (PROVEN_AT, FINDING)]:
        del samples[key]


def keep(logstore: str, change: Callable[[Samples], None]) -> None:
    """Change what the logstore's file says; one process at a time. Raises OSError and ConfigError.

    `change` gets what the file says and changes it in place. Alone: a fill may end beside a live run, and two
    that read 5 rows, and add 7 and 9, would leave 12 or 14, and not 21.
    """
    folder = made(metrics_folder())
    with alone_in(folder):
        path = folder / f"{logstore}.prom"
        samples = read(path)
        change(samples)
        write_to_textfile(str(path), Families(families(samples)))


def read(path: Path) -> Samples:
    """What a file says of the metrics that are known here; nothing where there is none, or a damaged one.

    Families of other names are passed over: an older release may have left them, and what is written next is
    without them. Any damage reads as nothing: to refuse the file would make a run fail for its statistics.
    """
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


def read_all(logstores: Mapping[str, str | None]) -> Samples:
    """What the files of these logstores say, without proofs of other tables. Raises ConfigError where the
    state folder can be none.

    `logstores`: each with the UUID of its table, "" where there is none. None: nobody knows it, and the last
    proof stands, or a catalog that is away would end the alert of a red one.
    """
    found: Samples = {}
    for name, table_uuid in logstores.items():
        samples = read(metrics_folder() / f"{name}.prom")
        if table_uuid is not None and proven_table(samples) != table_uuid:
            drop_proof(samples)
        found |= samples
    return found


def families(
    samples: Samples, *, counters: Mapping[str, str] = COUNTED, gauges: Mapping[str, str] = KEPT
) -> Iterator[Metric]:
    """The same as Prometheus' families, in the order of these names.

    A counter's samples have `_total` behind the family's name, as the format wants it, and the keys of
    `samples` have not: what `read` found and `families` writes is the same for any file of ours.
    """
    for kind, known in (("counter", counters), ("gauge", gauges)):
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
    """CPU seconds of this process, of its children that live, and of those that they have waited for.

    Of a child that has ended its parent knows the seconds once it waited for it, and nobody does before. So
    the sum may fall between two looks, by what a child used that nobody has waited for; who takes a
    difference takes no less than 0.
    """
    here, total_s = psutil.Process(), 0.0
    for process in (here, *here.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


UNWRITABLE = (OSError, ConfigError)
"""What `keep` and `tell` raise."""
