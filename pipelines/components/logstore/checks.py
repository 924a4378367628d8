"""The checks of the landed table.

    reconciled  blocking; the newest landing agrees with what the service said and with the files.
                A failing one ends the step, so that the checkpoint, which comes after it, stays
                where it is. Dagster runs the code after a yielded check although the check failed;
                whoever yields it returns.
    proven      every row of the table against the ledger, as `sls-lake verify`; of a part of the
                files, another one each day, every column. It reads the identity of each row, so a
                run that lands does not take it: it says again what the last proof said. The page
                would call the check not evaluated otherwise, since its newest result was older than
                the newest hour. Logs that are owed are a warning.
    runway      retention against the frontiers. Looked at by every run that lands, also by one
                that fails: landings that stand still are what makes it short.
    clean       rows with errors in the newest receive hours, by the manifests. Looked at by every run
                that lands: what producers changed is seen at once.

What nobody can look at, runway or rows with errors, stays as it was told and is red when nobody could for as
long as a log may wait, like the checks of trouble.
Each can be launched alone.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import dagster as dg

from pipelines.components.logstore.metadata import bullets
from pipelines.components.logstore.schedule import ERRORS, MODE_TAG
from pipelines.components.logstore.verdicts import after_last, last_said, verdict
from pipelines.landing.hours import hour_text, hours_of
from pipelines.landing.inspection.error_rows import HOURS, ErrorRows, error_rows
from pipelines.landing.inspection.proof import OWED, Proof, ShardProof
from pipelines.landing.inspection.runway import CURE, Runway, runway, spoken
from pipelines.landing.inspection.verify import verify
from pipelines.landing.inspection.whole import of_day
from pipelines.landing.ledger.state import check_newest, reconcile
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import Verdict
from pipelines.landing.table.lake import Lake, NoMetadata
from pipelines.landing.watch.troubles import Finding, Kind, Level
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import LedgerBroken, SlsError
from sls_io.window import HOUR_S

NAMES = RECONCILED, PROVEN, RUNWAY, CLEAN = "reconciled", "proven", "runway", "clean"
ALL = "all"
_LINES_MAX = 50
"""Of a text in metadata: a table with thousands of wrong shards must not fill the run's storage."""
_LINES_SAID = 3
_PROVEN_AT = "proven at"


def specs(bronze: dg.AssetKey) -> list[dg.AssetCheckSpec]:
    """The checks of the landed table."""
    return [
        dg.AssetCheckSpec(
            RECONCILED,
            asset=bronze,
            blocking=True,
            description=(
                "The files of the newest landing exist, their rows are what the service counted page by "
                "page, and the ledger was not rolled back. While this fails no checkpoint moves."
            ),
        ),
        dg.AssetCheckSpec(
            PROVEN,
            asset=bronze,
            description=(
                "Every row is there once and nothing is missing: rows and identity sums of each shard "
                "against the ledger, apart from named gaps, withdrawn hours and rows removed by decision. "
                "Reads the whole table's identities, and every column of a seventh of its files, each day "
                "another one. Warns while skipped logs are owed. A run that lands repeats the last verdict."
            ),
        ),
        dg.AssetCheckSpec(
            RUNWAY,
            asset=bronze,
            description=(
                "Time until the service's retention deletes the oldest log that has not landed. Warns "
                "below a quarter of the retention, fails when logs were lost."
            ),
        ),
        dg.AssetCheckSpec(
            CLEAN,
            asset=bronze,
            description=(
                f"Rows with an error in each of the newest {HOURS} receive hours: values that do not fit "
                "their columns, bytes that cannot be read. All of them are kept. The worst hour decides, by "
                "`errors` of the logstore's settings."
            ),
        ),
    ]


def log(context: dg.AssetExecutionContext, bronze: dg.AssetKey, result: dg.AssetCheckResult) -> None:
    """Store the result of a check that the run did not select. It fails no step."""
    evaluation = dg.AssetCheckEvaluation(
        asset_key=bronze,
        check_name=result.check_name or "",
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=dict(result.metadata),
    )
    context.log_event(evaluation)


# --- reconciled --------------------------------------------------------------------------------------


def reconciled_result(bronze: dg.AssetKey, verdict: Verdict) -> dg.AssetCheckResult:
    """The verdict as Dagster stores it."""
    return dg.AssetCheckResult(
        asset_key=bronze,
        check_name=RECONCILED,
        passed=verdict.ok,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(verdict.problems) or None,
        metadata={"found": _bullets(verdict.problems)} if verdict.problems else {},
    )


def reconciled_now(logstore: Logstore) -> Verdict:
    """The newest landing, looked at by a run that made none. A table that the catalog has lost is no
    table without landings."""
    try:
        table = Lake.default().load(logstore.table)
        if table is not None:
            check_newest(table)
    except (LedgerBroken, NoMetadata) as error:
        return Verdict((str(error),))
    return Verdict(tuple(reconcile(table)) if table is not None else ())


# --- proven ------------------------------------------------------------------------------------------


def prove(logstore: Logstore, bronze: dg.AssetKey, *, pull: str = "") -> dg.AssetCheckResult:
    """The proof, taken now; `pull` is what the service is asked for again, `all` or receive hours.

    Raises what `verify` does when there is nobody to ask, ConfigError when `pull` is neither.
    """
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
    return proven_result(bronze, proof, seconds=SYSTEM_CLOCK.monotonic() - started_s)


def proven_result(bronze: dg.AssetKey, proof: Proof, *, seconds: float) -> dg.AssetCheckResult:
    """The proof as Dagster stores it: numbers that it plots, the verdict in words, a line a shard."""
    problems = [*proof.problems, *_of_shards(proof.shards, "problems")]
    owed = list(_of_shards(proof.shards, "owed"))
    owes = proof.verdict == OWED
    wrong = problems or [f"{OWED}: {text}" for text in owed]
    return dg.AssetCheckResult(
        asset_key=bronze,
        check_name=PROVEN,
        passed=proof.ok,
        severity=dg.AssetCheckSeverity.WARN if owes else dg.AssetCheckSeverity.ERROR,
        description="; ".join(wrong[:_LINES_SAID]) or f"{proof.rows:,} rows, each once, as the ledger says",
        metadata={
            "verdict": _bullets(
                [proof.verdict, *problems, *proof.cures, *owed, *proof.notes, *_decided(proof.shards)]
            ),
            "rows": dg.MetadataValue.int(proof.rows),
            "shards": dg.MetadataValue.int(len(proof.shards)),
            "problems": dg.MetadataValue.int(len(problems)),
            "gaps": dg.MetadataValue.int(sum(len(s.gaps) for s in proof.shards)),
            "withdrawn": dg.MetadataValue.int(sum(len(s.withdrawn) for s in proof.shards)),
            "rows forgotten": dg.MetadataValue.int(sum(s.rows_forgotten for s in proof.shards)),
            "rows adopted": dg.MetadataValue.int(sum(s.rows_adopted for s in proof.shards)),
            "owed": dg.MetadataValue.int(len(owed)),
            "files read whole": dg.MetadataValue.int(proof.whole.files),
            "other files": dg.MetadataValue.int(proof.whole.others),
            "by shard": _shards(proof.shards),
            "seconds": dg.MetadataValue.float(round(seconds, 1)),
            **_window_by_window(proof),
            **_pulled_again(proof),
            _PROVEN_AT: dg.MetadataValue.timestamp(SYSTEM_CLOCK.now()),
        },
    )


def proven_before(instance: dg.DagsterInstance, bronze: dg.AssetKey) -> dg.AssetCheckResult:
    """The last proof once more, for a run that takes none; a warning where nobody has taken one."""
    last = last_said(instance, dg.AssetCheckKey(bronze, PROVEN))
    if last is None or last.metadata.get(_NEVER):
        return dg.AssetCheckResult(
            asset_key=bronze,
            check_name=PROVEN,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"Nobody has proven this table: execute this check, or run {bronze.path[-1]}_proof",
            metadata={_NEVER: dg.MetadataValue.bool(True)},
        )
    said = (last.description or "").removeprefix(_BEFORE)
    return dg.AssetCheckResult(
        asset_key=bronze,
        check_name=PROVEN,
        passed=last.passed,
        severity=last.severity,
        description=f"{_BEFORE}{said}",
        metadata=dict(last.metadata),
    )


_NEVER = "never proven"
_BEFORE = "Not proven by this run; the last proof said: "


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
    names = ("shard", "rows in ledger", "rows in table", "frontier", "verdict")
    columns = dg.TableSchema(columns=[dg.TableColumn(name) for name in names])
    rows = (
        (s.shard, s.rows_ledger, s.rows_table, str(s.frontier), "wrong" if s.problems else "ok")
        for s in shards
    )
    records = [dg.TableRecord(dict(zip(names, row, strict=True))) for row in rows]
    return dg.MetadataValue.table(records, schema=columns)


def _decided(shards: Iterable[ShardProof]) -> Iterator[str]:
    """What is not there, or not proven, and is no problem: each with its cause."""
    for shard in shards:
        yield from (f"shard {shard.shard}: gap {text}" for text in shard.gaps)
        yield from (f"shard {shard.shard}: withdrawn {text}" for text in shard.withdrawn)
        yield from (f"shard {shard.shard}: {text}" for text in shard.notes)


def _of_shards(shards: Iterable[ShardProof], part: str) -> Iterator[str]:
    return (f"shard {s.shard}: {text}" for s in shards for text in getattr(s, part))


# --- runway ------------------------------------------------------------------------------------------


class RunwayLook:
    """The runway of one run: looked at once, when it is first wanted."""

    def __init__(
        self,
        logstore: Logstore,
        bronze: dg.AssetKey,
        instance: dg.DagsterInstance,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._logstore, self._bronze, self._instance, self._clock = logstore, bronze, instance, clock

    @cached_property
    def found(self) -> Runway | str:
        """The runway, or why nobody knows it: a landing does not fail because of that."""
        try:
            with SlsClient(self._logstore.service) as client:
                return runway(self._logstore, Lake.default(), client)
        except SlsError as error:
            return str(error)

    def metadata(self) -> dict[str, dg.MetadataValue]:
        """For a landing: hours that are left where least is; nothing when unknown or for ever."""
        shortest_s = None if isinstance(self.found, str) else self.found.shortest_s
        return {} if shortest_s is None else {"runway h": _hours(shortest_s)}

    def result(self, gaps: tuple[str, ...] = ()) -> dg.AssetCheckResult:
        """The check; `gaps` are those that a landing of this run has just named."""
        named = [f"{gap}: lost to retention, this run named the gap" for gap in gaps]
        if isinstance(self.found, Runway):
            return runway_result(self._bronze, self.found, named)
        said = "; ".join([*named[:_LINES_SAID], f"nobody knows the runway: {self.found}"])
        level = Level.FAIL if named else Level.WARN
        found = Finding(Kind.RUNWAY, level, said, unseen=not named)
        return _blind(self._logstore, self._bronze, RUNWAY, found, self._instance, self._clock)


def runway_result(bronze: dg.AssetKey, found: Runway, gaps: list[str]) -> dg.AssetCheckResult:
    """The runway as Dagster stores it. A gap that was named now is a loss although nothing is short."""
    lines = [*gaps, *spoken(found)]
    lost = bool(gaps) or found.level == "lost"
    passed = found.level == "ok" and not gaps
    helps = bool(gaps) or found.level in ("short", "lost")
    metadata: dict[str, dg.MetadataValue] = {
        "runway": _bullets(lines),
        "shards": dg.MetadataValue.int(len(found.shards)),
        "shards short": dg.MetadataValue.int(len(found.short)),
    }
    for name, seconds in (
        ("runway h", found.shortest_s),
        ("alarm below h", found.alarm_s),
        ("retention h", found.retention_s),
    ):
        if seconds is not None:
            metadata[name] = _hours(seconds)
    return dg.AssetCheckResult(
        asset_key=bronze,
        check_name=RUNWAY,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if lost else dg.AssetCheckSeverity.WARN,
        description=lines[0] if passed else f"{'; '.join(lines[:_LINES_SAID])}{f': {CURE}' * helps}",
        metadata=metadata,
    )


# --- clean -------------------------------------------------------------------------------------------


def clean_result(
    logstore: Logstore, bronze: dg.AssetKey, instance: dg.DagsterInstance, clock: Clock = SYSTEM_CLOCK
) -> dg.AssetCheckResult:
    """Rows with errors as Dagster stores them."""
    try:
        found = error_rows(logstore, Lake.default())
    except (SlsError, OSError) as error:
        said = f"nobody knows how many rows have errors: {error}"
        unseen = Finding(Kind.ERRORS, Level.WARN, said, unseen=True)
        return _blind(logstore, bronze, CLEAN, unseen, instance, clock)
    worst = found.worst
    if worst is None:
        return _clean(bronze, True, f"no rows in the newest {HOURS} receive hours")
    hour, limits = found.hours[worst], logstore.errors
    said = f"{hour.share:.1%} of {hour.rows:,} rows of {hour_text(worst)} have an error"
    metadata = {
        "error %": dg.MetadataValue.float(round(100 * hour.share, 2)),
        "error rows": dg.MetadataValue.int(hour.errors),
        "hour": dg.MetadataValue.text(hour_text(worst)),
        f"error rows in {HOURS} h": dg.MetadataValue.int(sum(h.errors for h in found.hours.values())),
        **_causes(logstore, found, worst),
    }
    if hour.share <= limits.warn:
        return _clean(bronze, True, said, metadata)
    top = ", ".join(found.causes or ())
    failed = hour.share > limits.fail
    return _clean(bronze, False, f"{said}, most often: {top}", metadata, failed=failed)


def _causes(logstore: Logstore, found: ErrorRows, hour: int) -> dict[str, dg.MetadataValue]:
    """Why rows have errors, and how to see and mend them. A cause names a key, never a value."""
    if not found.causes:
        return {}
    columns = dg.TableSchema(columns=[dg.TableColumn("rows", "int"), dg.TableColumn("why", "string")])
    records = [dg.TableRecord({"rows": rows, "why": why}) for why, rows in found.causes.items()]
    at, owners = hour_text(hour), ", ".join(f"'{name}'" for name in found.origins)
    see = (
        f"SELECT __error__, count(*) FROM {logstore.table} WHERE __error__ IS NOT NULL AND "
        f"__receive_hour__ = TIMESTAMP '{at[:10]} {at[11:]}:00+00:00' AND __origin__ IN ({owners}) "
        "GROUP BY __error__ ORDER BY 2 DESC"
    )
    config = f"ops: {{bronze__{logstore.name}: {{config: {{execute: true}}}}}}"
    here = f"Materialize [{at}...{at}] with the tag {MODE_TAG}: {ERRORS} and the config {config}"
    mend = f"sls-lake backfill -l {logstore.name} --mode errors --from {at} --to {at} --local --execute"
    return {
        f"causes of {found.sample:,} rows": dg.MetadataValue.table(records, schema=columns),
        "see": dg.MetadataValue.text(see),
        "mend once columns fit": dg.MetadataValue.text(mend),
        "mend on this page": dg.MetadataValue.text(here),
    }


def _clean(
    bronze: dg.AssetKey,
    passed: bool,
    said: str,
    metadata: dict[str, dg.MetadataValue] | None = None,
    *,
    failed: bool = False,
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=bronze,
        check_name=CLEAN,
        passed=passed,
        severity=dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN,
        description=said,
        metadata=metadata or {},
    )


def _blind(
    logstore: Logstore,
    bronze: dg.AssetKey,
    name: str,
    found: Finding,
    instance: dg.DagsterInstance,
    clock: Clock,
) -> dg.AssetCheckResult:
    """What nobody could look at, as the checks of trouble say it: as bad as it was told, and red in time."""
    key = dg.AssetCheckKey(bronze, name)
    settled = after_last(instance, key, found, logstore.sensors.trouble, clock.now())
    return dg.AssetCheckResult(**verdict(key, settled))


def _hours(seconds: float) -> dg.MetadataValue:
    return dg.MetadataValue.float(round(seconds / HOUR_S, 1))


def _bullets(lines: Iterable[str]) -> dg.MetadataValue:
    said = list(lines)
    more = [f"and {len(said) - _LINES_MAX:,} more; `sls-lake verify` lists all"] if said[_LINES_MAX:] else []
    return bullets([*said[:_LINES_MAX], *more])
