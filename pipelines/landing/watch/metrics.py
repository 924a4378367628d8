"""A logstore's standing as metrics for Prometheus, and the alert rules over them.

Nothing is worked out here: the numbers are those of `describe`'s survey and of the facts that findings are
judged by (`vitals.py`, `health.py`), the levels are the findings' own, and what runs counted is read from the
files that they leave (`run/textfile.py`). So an alert, a check of Dagster and a line of `sls-lake describe`
are one verdict.

What nobody knows has no number: its family lacks the logstore, and its finding has the level `unknown`.

Story of the missing number: a catalog is away, and an exporter goes on to expose the lag of an hour ago.
Nobody is woken, for it looks well. Here the number is gone, and `sls_lake_finding` has 1 at `unknown`; once
nobody could look for longer than a log may wait, it has 1 at `fail`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from pipelines.landing.inspection.describe import ShardView, describe
from pipelines.landing.inspection.error_rows import HOURS, ErrorRows
from pipelines.landing.inspection.proof import Proof
from pipelines.landing.inspection.runway import Runway
from pipelines.landing.ledger.mirror import Mirrored
from pipelines.landing.logstore import Logstore
from pipelines.landing.run import textfile
from pipelines.landing.run.textfile import Samples, labels
from pipelines.landing.table.former import uuid_of
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import (
    FINDINGS,
    Finding,
    Kind,
    Latest,
    Level,
    TimeLeft,
    Unknown,
    Vitals,
    Waits,
    findings,
    settled,
)
from pipelines.landing.watch.vitals import known, vitals
from pipelines.landing.watch.wear import Wear
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.side_by_side import side_by_side
from sls_io.wire.client import SlsClient
from sls_io.wire.heads import Heads

CALL_S = 10.0
"""Seconds for one call of a look, its retries included."""
LOOKED: Mapping[str, str] = {
    "sls_lake_lag_seconds": "Age of the oldest log that waits, in shards that are not paused.",
    "sls_lake_runway_seconds": "Time until retention deletes the oldest log that has not landed.",
    "sls_lake_retention_seconds": "How long the service keeps a log; without it, it keeps each for ever.",
    "sls_lake_commit_age_seconds": "Age of the newest landing; without it, nothing has landed.",
    "sls_lake_error_rows": f"Rows with an error in the newest {HOURS} receive hours.",
    "sls_lake_error_ratio_max": f"The part of rows with an error, in the worst of {HOURS} receive hours.",
    "sls_lake_table_files": "Data files since the newest compaction.",
    "sls_lake_table_snapshots": "Snapshots of the table.",
    "sls_lake_table_manifests": "Manifests of the newest snapshot.",
    "sls_lake_table_ledger_bytes": "What the ledgers of all snapshots take in the table's metadata.",
    "sls_lake_mirror_lag_seconds": "How far the mirror is behind the table, in receive time.",
    "sls_lake_shards": "Shards by state: open, read-only, closed, paused, suspect, left.",
    "sls_lake_shard_lag_seconds": "Age of the oldest log of a shard that waits.",
    "sls_lake_shard_waiting_bytes": "Raw bytes that wait in a shard, estimated from what landed lately.",
    "sls_lake_shard_rows": "Rows of a shard in the table, as its ledger counts them.",
    "sls_lake_leases": "Shards by who consumes them and how far it is, where a database has leases.",
    "sls_lake_look_timestamp_seconds": "When these numbers were looked up, unix seconds.",
    "sls_lake_look_duration_seconds": "Seconds that the look took.",
}
"""What a look at table and service says, all of it gauges."""
NAMES: tuple[str, ...] = (
    *LOOKED,
    *textfile.KEPT,
    *(f"{name}_total" for name in textfile.COUNTED),
)
"""Every name that may be exposed, as a query has it."""


@dataclass(frozen=True)
class MetricLook:
    """One look at a logstore: its facts, its shards, empty where nobody could look at them, and which table
    it has, "" where there is none."""

    logstore: Logstore
    facts: Vitals
    shards: Sequence[ShardView] = ()
    table_uuid: str | Unknown = ""


def survey(logstore: Logstore, *, clock: Clock = SYSTEM_CLOCK) -> MetricLook:
    """Look, as `sls-lake describe` does. Raises no SlsError and no OSError, as `vitals`.

    One client and one set of heads for all facts, made when the first of them asks: the shards are asked
    once, and `describe` and the runway speak of the same answers. Each call ends within 10 s, its retries
    included, since one logstore whose service hangs would leave the others without a look. One look at the
    catalog, too: a landing between facts and shards would make them numbers of two snapshots.
    """
    lake = cache(lambda: Lake.default().one_look())

    def table() -> str | Unknown:
        return known(lambda: uuid_of(lake().load(logstore.table)))

    with ExitStack() as opened:

        @cache
        def client() -> SlsClient:
            return opened.enter_context(SlsClient(logstore.service, clock=clock, deadline_s=CALL_S))

        heads = known(lambda: Heads(client()))
        if isinstance(heads, Unknown):
            return MetricLook(logstore, vitals(logstore, lake, client, clock=clock), table_uuid=table())
        facts = vitals(logstore, lake, client, clock=clock, heads=heads, whole=True)
        views = known(lambda: describe(logstore, lake(), client(), heads=heads))
        return MetricLook(logstore, facts, views if isinstance(views, list) else (), table())


class Exporter(Collector):
    """The newest look at some logstores, for whoever scrapes while the next one is taken.

    `look` builds the new numbers of a logstore aside and puts them there in one assignment. `collect` runs in
    the threads of the HTTP server, beside it: of each it sees all of the old look or all of the new one.

    Story: the service is away, and a look at each of 200 logstores waits for 5 s. One after the other, and
    shown when the last is done, they would be shown as well for a quarter of an hour.
    """

    def __init__(self, logstores: Sequence[Logstore], *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._logstores, self._clock = logstores, clock
        self._told: dict[tuple[str, Kind], Finding] = {}
        self._looked: dict[str, Samples] = {each.name: {} for each in logstores}
        self._tables: dict[str, str | None] = {each.name: None for each in logstores}

    def look(self) -> None:
        """Take a new look at each, side by side; each is shown as soon as it was taken."""
        deque(side_by_side(self._look, self._logstores), maxlen=0)

    def _look(self, logstore: Logstore) -> None:
        begun_s = self._clock.monotonic()
        seen = survey(logstore, clock=self._clock)
        looked, of = numbers(seen) | self._levels(seen), labels(logstore=logstore.name)
        looked["sls_lake_look_timestamp_seconds", of] = self._clock.now()
        looked["sls_lake_look_duration_seconds", of] = self._clock.monotonic() - begun_s
        if not isinstance(seen.table_uuid, Unknown):
            self._tables[logstore.name] = seen.table_uuid
        self._looked[logstore.name] = looked

    def collect(self) -> Iterator[Metric]:
        """The families of the newest look, and of what runs have counted by now.

        What runs counted is read from their files at each scrape, so a run that ended a second ago is told,
        though the look is minutes old. A proof of another table than the newest look found is not shown.
        """
        counted = textfile.read_all({**self._tables})
        looked = {key: value for each in self._looked.values() for key, value in each.items()}
        yield from textfile.families(looked, counters={}, gauges=LOOKED)
        levels = {key: value for key, value in looked.items() if key[0] == textfile.FINDING}
        yield from textfile.families(counted | levels)

    def _levels(self, seen: MetricLook) -> Samples:
        """A look that fails again and again becomes an error, as in Dagster's checks."""
        found: Samples = {}
        for each in findings(seen.facts, seen.logstore):
            key = seen.logstore.name, each.kind
            each = settled(each, self._told.get(key), seen.logstore.health, self._clock.now())
            self._told[key] = each
            found |= levels_of(seen.logstore, each)
        return found


def levels_of(logstore: Logstore, found: Finding) -> Samples:
    """A finding as one sample a level.

    Worked example: a lag that is a warning gives four samples of `sls_lake_finding`: `ok` 0, `warn` 1, `fail`
    0, `unknown` 0. So a query of one level has a number also where that level does not hold.
    """
    return {
        (textfile.FINDING, labels(logstore=logstore.name, kind=found.kind.value, level=level.value)): float(
            level is found.level
        )
        for level in Level
    }


def tell_proof(logstore: Logstore, proof: Proof, *, clock: Clock = SYSTEM_CLOCK) -> str:
    """Keep the verdict of a proof, which reads the whole table: no exporter takes one. Why it could not be
    kept; "" where it was, or where no run has left a file: who only looks makes no folder."""
    (found,) = findings(Vitals(proven=proof), logstore)
    at = textfile.PROVEN_AT, labels(logstore=logstore.name, **{textfile.TABLE_UUID: proof.uuid})

    def change(samples: Samples) -> None:
        textfile.drop_proof(samples)  # that of another table has other labels, and would stay beside
        samples.update({**levels_of(logstore, found), at: clock.now()})

    try:
        if not textfile.metrics_folder().is_dir():
            return ""
        textfile.keep(logstore.name, change)
    except textfile.UNWRITABLE as error:
        return f"the verdict is not kept for the metrics: {error}"
    return ""


# --- facts as numbers --------------------------------------------------------------------------------------


def numbers(seen: MetricLook) -> Samples:
    """What a look says, but for its levels."""
    name, facts = seen.logstore.name, seen.facts
    found = {
        (f"sls_lake_{metric}", labels(logstore=name)): float(value)
        for kind, told in _TOLD.items()
        for metric, value in told(getattr(facts, kind)).items()
        if value is not None
    }
    for shard in seen.shards:
        of = labels(logstore=name, shard=str(shard.shard))
        found["sls_lake_shard_rows", of] = float(shard.rows)
        if shard.lag_s is not None and not shard.left:
            found["sls_lake_shard_lag_seconds", of] = shard.lag_s
            if shard.behind_bytes is not None:
                found["sls_lake_shard_waiting_bytes", of] = float(shard.behind_bytes)
    for state, count in Counter(shard.state for shard in seen.shards).items():
        found["sls_lake_shards", labels(logstore=name, state=state)] = float(count)
    leases = Counter(lease for shard in seen.shards for lease in shard.consumers.items())
    for (consumer, state), count in leases.items():
        found["sls_lake_leases", labels(logstore=name, consumer=consumer, state=state)] = float(count)
    return found


def _lag(waits: Any) -> dict[str, float | None]:
    return {"lag_seconds": waits.age_s} if isinstance(waits, Waits) and not waits.to_come else {}


def _left(left: Any) -> dict[str, float | None]:
    found = left.runway if isinstance(left, TimeLeft) else None
    if not isinstance(found, Runway):
        return {}
    return {"runway_seconds": found.shortest_s, "retention_seconds": found.retention_s}


def _newest(newest: Any) -> dict[str, float | None]:
    return {"commit_age_seconds": newest.age_s} if isinstance(newest, Latest) else {}


def _errors(found: Any) -> dict[str, float | None]:
    if not isinstance(found, ErrorRows):
        return {}
    worst = found.hours[found.worst].share if found.worst is not None else 0.0
    return {"error_rows": sum(h.errors for h in found.hours.values()), "error_ratio_max": worst}


def _grown(found: Any) -> dict[str, float | None]:
    if not isinstance(found, Wear):
        return {}
    return {f"table_{name}": number for name, number in found.numbers.items()}


def _mirror(found: Any) -> dict[str, float | None]:
    return {"mirror_lag_seconds": found.lag_s} if isinstance(found, Mirrored) and found.shards else {}


_TOLD: Mapping[str, Callable[[Any], dict[str, float | None]]] = {
    "lag": _lag,
    "runway": _left,
    "commit": _newest,
    "errors": _errors,
    "wear": _grown,
    "mirror": _mirror,
}


# --- alert rules -------------------------------------------------------------------------------------------

_HOLDS = "10m"
"""How long a level must hold: two looks of the health sensor, and no single lost answer."""
_PROOF_MAX_S = 8 * 24 * 3600
"""A proof a day reads each file whole within eight days."""
_CURE = "sls-lake {verb} -l {{{{ $labels.logstore }}}}"
_SEVERITY = {Level.WARN: "warning", Level.FAIL: "critical", Level.UNKNOWN: "warning"}


def alert_rules() -> dict[str, Any]:
    """The rules of Prometheus: one for each kind of finding and each level that is not well, and three for
    what no finding can say: nobody looks any more, nobody tells, nobody has proven for long.

    The rules judge nothing: each asks whether a finding has a level for ten minutes. So a limit stands in one
    place, the logstore's settings, and an alert and a check never disagree about it. The three are the
    exception, since a program that hangs or is gone finds nothing.
    """
    looked = "sls_lake_look_timestamp_seconds"
    rules = [_of_finding(rule.kind, rule.about, level) for rule in FINDINGS for level in _SEVERITY]
    stale = _rule(
        "NobodyLooks",
        f"time() - max by (logstore) ({looked}) > 900",
        "5m",
        "critical",
        "Nobody has looked at {{ $labels.logstore }} for {{ $value | humanizeDuration }}",
        "The exporter runs and does not come to an end of its look: read its log.",
    )
    gone = _rule(
        "NobodyTells",
        # Each expression of the others is empty, and silent, once there is no series of the logstore.
        f"({looked} offset 1h unless on (logstore) {looked}) or absent({looked})",
        _HOLDS,
        "critical",
        "The exporter tells nothing of {{ or $labels.logstore `any logstore` }}",
        "It has ended, its machine is away, or Prometheus does not reach it: no other alert of sls-lake can "
        "fire until it is back. Of a logstore that was taken away this is said for an hour.",
    )
    unproven = _rule(
        "ProofOld",
        f"time() - max by (logstore) (sls_lake_proof_timestamp_seconds) > {_PROOF_MAX_S}",
        "1h",
        "warning",
        "{{ $labels.logstore }} was proven {{ $value | humanizeDuration }} ago",
        "Its finding `proven` is that of then, and nobody knows what became of older files since: turn its "
        f"schedule of proofs on, or run `{_CURE.format(verb='verify')}`",
    )
    return {"groups": [{"name": "sls-lake", "rules": [*rules, stale, gone, unproven]}]}


def _of_finding(kind: Kind, about: str, level: Level) -> dict[str, Any]:
    cure = _CURE.format(verb="verify" if kind in (Kind.PROVEN, Kind.RECONCILED) else "describe")
    said = {Level.WARN: "warns", Level.FAIL: "fails", Level.UNKNOWN: "is unknown"}[level]
    return _rule(
        f"{kind.value.title()}{level.value.title()}",
        f'{textfile.FINDING}{{kind="{kind.value}",level="{level.value}"}} == 1',
        _HOLDS,
        _SEVERITY[level],
        f"{kind.value} of {{{{ $labels.logstore }}}} {said}",
        f"{about} What is wrong, and what to do: `{cure}`",
    )


def _rule(name: str, expr: str, holds: str, severity: str, summary: str, description: str) -> dict[str, Any]:
    return {
        "alert": f"SlsLake{name}",
        "expr": expr,
        "for": holds,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    }
