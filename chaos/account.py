"""What a run of chaos counted, and how it is told."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.proof import Found

LANDED, ABSENT, LATE = "landed", "absent", "late"
"""What really became of a commit whose answer was an error."""


@dataclass
class Account:
    """Counters of one run; `problems` is empty and `found` clean when all is well."""

    seed: int
    commit: str
    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    cut_off: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    throttled: Counter[str] = field(default_factory=Counter)
    unknown: Counter[tuple[str, str]] = field(default_factory=Counter)
    splits: int = 0
    merges: int = 0
    jumps: int = 0
    bursts: int = 0
    restarts: int = 0
    lane: str = "in-process"
    settings: str = ""
    cut_landed: int = 0
    cut_past: int = 0
    hours_compacted: int = 0
    swept: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    drain_runs: int = 0
    drain_landings: int = 0
    seconds: float = 0.0
    drain_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    found: Found | None = None

    @property
    def ok(self) -> bool:
        """Nothing lost, nothing twice, nothing invented, nothing out of order, no bug, all drained."""
        return not self.problems and self.found is not None and not any(self.found.wrong.values())

    @property
    def conflicts(self) -> int:
        """Commits that the catalog refused because another one was first."""
        return self.told["commit refused"]

    def doc(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "seed": self.seed,
            "commit": self.commit,
            "ok": self.ok,
            "kills": self.kills.total(),
            "stops": self.stops.total(),
            "cut off": self.cut_off.total(),
            "conflicts": self.conflicts,
            "unknown": {f"{truth}: {then}": n for (truth, then), n in sorted(self.unknown.items())},
            "restarts": self.restarts,
            "cut": {"landed": self.cut_landed, "not landed": self.cut_past},
            "lane": self.lane,
            "settings": self.settings,
            "runs": dict(self.runs),
            "problems": self.problems,
            "seconds": self.seconds,
            "told": dict(self.told),
            "failed": dict(self.failed),
            "throttled": dict(self.throttled),
            "found": asdict(self.found) if self.found else None,
        }

    def json(self) -> str:
        """One line."""
        return json.dumps(self.doc())

    def lines(self) -> Iterator[str]:
        """The account, for people."""
        told = self.told
        yield f"{self.kills.total()} kills, last heard of at: {_sorted(self.kills)}"
        yield f"{self.stops.total()} stops (SIGSTOP, later SIGCONT): {_sorted(self.stops)}"
        if self.cut_off:
            yield f"{self.cut_off.total()} times the service was out of reach for: {_sorted(self.cut_off)}"
        yield (
            f"{told['landed']} landings reported, {told['landed with rows']} with rows, "
            f"{told['planned again']} after planning again"
        )
        yield (
            f"{told['commit']} commits sent: {told['commit accepted']} accepted, {self.conflicts} refused "
            f"(conflicts), {self.unknown_sent} answered with an error that says nothing; "
            f"{told['fill commit']} were of backfills"
        )
        for (truth, then), times in sorted(self.unknown.items()):
            yield f"  unknown, in truth {truth}: {times} {then}"
        yield (
            f"{told['delivered']} late or doubled requests were accepted on arrival, "
            f"{told['turned-away']} turned away"
        )
        yield f"runs ended with: {_sorted(self.failed) or 'nothing'}"
        yield f"faults of the service that acted, besides {self.bursts} bursts: {_sorted(self.faults)}"
        yield f"refused by the quotas of the service: {_sorted(self.throttled) or 'nothing'}"
        yield (
            f"{self.splits} splits, {self.merges} merges, {self.jumps} jumps of the service's clock, "
            f"{told['expired']} expiries of snapshots, {told['audit']} audits"
        )
        yield (
            f"{self.restarts} kills and restarts of the service; "
            f"{told['not-put']} puts left without an answer"
        )
        yield (
            f"{told['cut']} cuts by retention: {self.cut_landed} LogGroups that had landed, {self.cut_past} "
            f"that had not; {told['dropped']} closed shards removed; {told['cut-failed']} met no service"
        )
        yield (
            f"{told['maintain']} maintenances begun, {told['maintained']} to their end; their commits sent: "
            f"{told['compact.built']} compactions, {told['manifests.built']} regroupings, "
            f"{told['expire.built']} expiries, {told['refresh.built']} refreshes; "
            f"{self.hours_compacted} hours compacted, {self.swept} files swept"
        )
        yield (
            f"{told['undo']} undos sent, {told['undone']} known to be accepted; "
            f"{told['nothing-to-keep']} found nothing to do"
        )
        if self.runs:
            yield f"runs of Dagster: {_sorted(self.runs)}; {self.drain_runs} of them to drain, then"
        yield f"drained in {self.drain_landings} landings, {self.drain_seconds:.0f} s, with all faults off"
        if self.found:
            yield (
                f"{self.found.rows:,} rows in {self.found.files} files of {self.found.shards} shards; "
                f"{self.found.stored:,} stored by the service; {self.found.rows / self.seconds:,.0f} rows/s "
                f"over {self.seconds:.0f} s"
            )
            yield (
                f"{self.found.gapped:,} rows in named gaps, where retention was first; "
                f"{self.found.withdrawn:,} rows withdrawn by undo"
            )
            yield ", ".join(f"{word}: {count}" for word, count in self.found.wrong.items())
        yield from (f"PROBLEM: {problem}" for problem in self.problems)

    @property
    def unknown_sent(self) -> int:
        """Commits whose sender was left without knowing."""
        return sum(self.told[f"commit {truth}"] for truth in (LANDED, ABSENT, LATE))


def _sorted(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {name}" for name, n in sorted(counter.items(), key=lambda x: (-x[1], x[0])))
