"""The checks of the landed table: verdicts of the runs that land or prove it.

    reconciled  blocking; the newest landing agrees with what the service said and with the files.
                A failing one ends the step, so that the checkpoint, which comes after it, stays
                where it is. Dagster runs the code after a yielded check although the check failed;
                whoever yields it returns.
    proven      every row of the table against the ledger, as `sls-lake verify`; of a part of the
                files, another one each day, every column. It reads the identity of each row, so a
                run that lands takes the first one alone, of a small table: later runs say again
                what the last proof said. The page would call the check not evaluated otherwise,
                since its newest result was older than the newest hour. Logs that are owed are a
                warning.

Each can be launched alone. What else is looked at stands with the logstore: `health.py`.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import dagster as dg

from pipelines.components.logstore.health import bounded, last_told, verdict
from pipelines.components.logstore.metadata import records
from pipelines.components.logstore.spark import SparkEngine
from pipelines.landing.contents.spread import Spread
from pipelines.landing.hours import hours_of
from pipelines.landing.inspection.proof import Proof, ShardProof
from pipelines.landing.inspection.verify import verify
from pipelines.landing.inspection.whole import of_day
from pipelines.landing.ledger.summary import summary_of
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.former import uuid_of
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import Finding, Kind, Level, Unknown, Vitals, findings
from pipelines.landing.watch.metrics import tell_proof
from pipelines.landing.watch.vitals import known
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import SlsError
from sls_io.wire.client import SlsClient

ALL = "all"
_PROVEN_AT = "proven at"


def reconciled(logstore: Logstore, problems: tuple[str, ...] | Unknown) -> Finding:
    """The finding of a newest landing with these problems."""
    return findings(Vitals(reconciled=problems), logstore)[0]


# --- proven ------------------------------------------------------------------------------------------


def prove(logstore: Logstore, spark: SparkEngine, *, pull: str = "") -> dg.AssetCheckResult:
    """The proof, taken now; `pull` is what the service is asked for again, `all` or receive hours. Much of it
    is done by the tasks of `spark`.

    Raises what `verify` does when there is nobody to ask, ConfigError when `pull` is neither.
    """
    with Spread(spark.engine()).kept():
        return dg.AssetCheckResult(**_proof(logstore, pull))


def _proof(logstore: Logstore, pull: str = "") -> dict[str, Any]:
    hours = None if pull in ("", ALL) else hours_of(pull)
    started_s = SYSTEM_CLOCK.monotonic()
    with SlsClient(logstore.service) as client:
        proof = verify(
            logstore,
            Lake.default(),
            client,
            pull=bool(pull),
            hours=hours,
            sums_of_others=False,
            rows=of_day(SYSTEM_CLOCK.now()),
        )
    tell_proof(logstore, proof)
    return proven_result(logstore, proof, seconds=SYSTEM_CLOCK.monotonic() - started_s)


def proven_result(logstore: Logstore, proof: Proof, *, seconds: float) -> dict[str, Any]:
    """The proof as Dagster stores it, as `verdict`: numbers that it plots, words, a line a shard."""
    (found,) = findings(Vitals(proven=proof), logstore)
    shown = verdict(logstore, found)
    lines = [
        proof.verdict,
        *found.lines,
        *(commands.line(cure, logstore.option) for cure in proof.cures),
        *proof.notes,
        *_decided(proof.shards),
    ]
    shown["metadata"].pop("found", None)
    shown["metadata"] |= {
        "verdict": bounded(lines),
        "shards": dg.MetadataValue.int(len(proof.shards)),
        "gaps": dg.MetadataValue.int(sum(len(s.gaps) for s in proof.shards)),
        "withdrawn": dg.MetadataValue.int(sum(len(s.withdrawn) for s in proof.shards)),
        "rows forgotten": dg.MetadataValue.int(sum(s.rows_forgotten for s in proof.shards)),
        "rows adopted": dg.MetadataValue.int(sum(s.rows_adopted for s in proof.shards)),
        "files read whole": dg.MetadataValue.int(proof.whole.files),
        "other files": dg.MetadataValue.int(proof.whole.others),
        "by shard": _shards(proof.shards),
        "seconds": dg.MetadataValue.float(round(seconds, 1)),
        **_window_by_window(proof),
        **_pulled_again(proof),
        _OF_TABLE: dg.MetadataValue.text(proof.uuid),
        _PROVEN_AT: dg.MetadataValue.timestamp(SYSTEM_CLOCK.now()),
    }
    return shown


def proven_by_landing(
    instance: dg.DagsterInstance, logstore: Logstore, lake: Lake, *, landed: bool
) -> dict[str, Any]:
    """What a run that lands says of the proof, as `verdict`: the last one once more. Of a table that nobody
    has proven it takes the first, where it has `landed` and that costs little. Where none was taken nothing
    is wrong: the check passes and says so, or the page of each new table would be yellow.

    A proof of another table is none: one that was begun anew, or that the settings name by now, has the same
    asset. Nor is one that does not say of which it was.

    What is said again keeps its level and the time at which it was proven: a red proof stays red through any
    number of landings, until somebody proves the table anew. Only its text begins with "Not proven by this
    run", and only once, however often it is repeated.
    """
    told = last_told(instance, logstore, [Kind.PROVEN]).get(Kind.PROVEN)
    if told is None or told.said.metadata.get(_NEVER) or not _of_this_table(told.said, logstore, lake):
        with suppress(SlsError):  # what landed stands, and whoever asks for the proof hears why it fails
            if landed and 0 < _rows(lake, logstore) <= _FIRST_ROWS_MAX:
                return _proof(logstore)
        why = f"Not proven yet: execute this check, or run {logstore.name}_proof"
        never = verdict(logstore, Finding(Kind.PROVEN, Level.OK, why))
        return never | {"metadata": {_NEVER: dg.MetadataValue.bool(True)}}
    last = told.said
    return {
        "asset_key": last.asset_key,
        "check_name": last.check_name,
        "passed": last.passed,
        "severity": last.severity,
        "description": f"{_BEFORE}{(last.description or '').removeprefix(_BEFORE)}",
        "metadata": dict(last.metadata),
    }


def _of_this_table(last: dg.AssetCheckEvaluation, logstore: Logstore, lake: Lake) -> bool:
    """Whether the last proof is of the table that is there now.

    Where nobody can look it stands: a catalog that is away for one run must not turn a red proof green.
    """
    now = known(lambda: uuid_of(lake.load(logstore.table)))
    of = last.metadata.get(_OF_TABLE)
    return isinstance(now, Unknown) or (isinstance(of, dg.TextMetadataValue) and of.value == now)


_NEVER = "never proven"
_OF_TABLE = "table UUID"
_BEFORE = "Not proven by this run; the last proof said: "
_FIRST_ROWS_MAX = 1_000_000
"""Rows of a table whose first proof a landing takes with it: some seconds at most."""


def _rows(lake: Lake, logstore: Logstore) -> int:
    """Rows that the table has by its newest snapshot; 0 where there is none, or it does not say."""
    table = lake.load(logstore.table)
    return int(summary_of(table.current_snapshot()).get("total-records", 0)) if table is not None else 0


def _window_by_window(proof: Proof) -> dict[str, dg.MetadataValue]:
    """How far back single windows were proven, not only the sums of their shards."""
    if proof.since_ms is None:
        return {}
    return {"single windows since": dg.MetadataValue.timestamp(proof.since_ms / 1000)}


def _pulled_again(proof: Proof) -> dict[str, dg.MetadataValue]:
    """How many rows the service told a second time, when it was asked."""
    pulled = [s.rows_pulled for s in proof.shards if s.rows_pulled is not None]
    return {"rows pulled again": dg.MetadataValue.int(sum(pulled))} if pulled else {}


def _shards(shards: Iterable[ShardProof]) -> dg.MetadataValue:
    return records(
        {
            "shard": s.shard,
            "rows in ledger": s.rows_ledger,
            "rows in table": s.rows_table,
            "frontier": str(s.frontier),
            "verdict": "wrong" if s.problems else "ok",
        }
        for s in shards
    )


def _decided(shards: Iterable[ShardProof]) -> Iterator[str]:
    """What is not there, or not proven, and is no problem: each with its cause."""
    for shard in shards:
        yield from (f"shard {shard.shard}: gap {text}" for text in shard.gaps)
        yield from (f"shard {shard.shard}: withdrawn {text}" for text in shard.withdrawn)
        yield from (f"shard {shard.shard}: {text}" for text in shard.notes)
