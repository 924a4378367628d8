"""What people see beside the assets: rows, MB, files, lag, rows with errors, and the reasons.

Dagster draws a plot of each number, with its name above. So the numbers of an hour and of a landing are the
four that are worth one, named with their units; all else is text. MB is 10**6 bytes of logs as the service
counts them, before compression.

Three habits of the page decide how a value is written. A number gets a plot, so a snapshot id as a number is
a plot of noise. JavaScript rounds integers from 2**53 on, so snapshot ids and cursors, which are that large,
are text. And text may be markdown: `__error__` would be a bold "error", and a key in a gap's cause may hold
anything, so lines from outside are escaped (`bullets`).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import dagster as dg
from pyiceberg.types import NestedField

from pipelines.landing.commit.effect import Effect
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.error_rows import ErrorRows, HourErrors, share_text
from pipelines.landing.inspection.runway import Runway
from pipelines.landing.ledger.mirror import Mirrored
from pipelines.landing.ledger.values import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport, LandingReport
from pipelines.landing.table.contract import Contract
from pipelines.landing.watch.health import TimeLeft, Vitals
from sls_io.decoding.causes import MORE, Cause, named
from sls_io.planning.waits import Wait
from sls_io.values.errors import amount
from sls_io.values.window import HOUR_S

MB = 1_000_000
_ROWS_MAX = 20
"""Of a table: a logstore of hundreds of shards must not fill the event log; the command line shows all."""
_MARKS = re.compile(r"[\\`*_\[\]<>#|~]")
_SYSTEM_NAME = re.compile(r"__\w+?__")
DATA_VERSION_TAG = "dagster/data_version"
UNKNOWN = "unknown-"
"""So begins the data version of an hour of which nobody knows what a lost commit made of it."""

Metadata = dict[str, dg.MetadataValue]


def of(effect: Effect, *, tables: Collection[str] = (), word: str = "") -> Metadata:
    """What an operation does, or did: its numbers, with a `word` where others stand beside them; those of its
    fields with several values that are among `tables`; what no number says."""
    values: Metadata = {
        f"{name.replace('_', ' ')} {word}".rstrip(): dg.MetadataValue.int(number)
        for name, number in effect.numbers().items()
        if number is not None
    }
    rows = effect.tables()
    values |= {name: records(rows[name]) for name in tables if name in rows}
    if notes := [note.text for note in effect.said()][:_ROWS_MAX]:
        values["notes"] = bullets(notes)
    return values


def records(rows: Iterable[Mapping[str, Any]]) -> dg.MetadataValue:
    """The first of them, as a table."""
    shown = [{name: _cell(name, value) for name, value in row.items()} for row in islice(rows, _ROWS_MAX)]
    columns = dg.TableSchema(columns=[dg.TableColumn(name) for name in (shown or [{}])[0]])
    return dg.MetadataValue.table([dg.TableRecord(row) for row in shown], schema=columns)


def _cell(name: str, value: Any) -> str | int | float:
    """A receive hour in words; a snapshot as text, since the page rounds large integers. Worked example: the
    hour 490000 is 2025-11-24-16:00, 5 rows are 5, and 2**53 is the text 9007199254740992."""
    if isinstance(value, int | float) and abs(value) < 2**53:
        return hour_text(int(value)) if name == "hour" else value
    return "" if value is None else str(value)


PLOTS_OF_HOUR = """

| Plot | Of an hour |
|---|---|
| `rows` | what its newest landing brought |
| `dagster/partition_row_count` | rows that the table has of it |
| `rows with errors (%)` | of these, those that do not fit their columns exactly |
| `lag (s)` | how long the oldest log waited that the landing left |
"""
PLOTS_OF_LANDING = """

| Plot | Of a live run |
|---|---|
| `rows landed` | rows that it brought |
| `logs landed (MB)` | bytes of their logs, uncompressed |
| `speed (MB/s)` | the same by seconds of the whole run |
| `lag (s)` | how long the oldest log waited that it left |
"""
"""For the description of an asset: Dagster has no place for what a single plot shows."""


def tags(logstore: Logstore) -> dict[str, str]:
    """By which a page of many logstores is searched: all assets of a project, or of a logstore."""
    return {"sls/project": logstore.service.project, "sls/logstore": logstore.service.logstore}


def table(logstore: Logstore) -> Metadata:
    """Of the table itself: its name, its columns, its settings."""
    return {
        "dagster/table_name": dg.MetadataValue.text(logstore.table),
        **columns(logstore, ErrorRows({})),
        "start": dg.MetadataValue.text(f"{logstore.start} UTC"),
    }


def columns(logstore: Logstore, found: ErrorRows) -> Metadata:
    """The columns: type, how the key is declared, and how many rows of the worst hour lately did not fit."""
    contract = Contract.from_columns(logstore.columns)
    declared = {column.name: column for column in contract.shown}

    def said(field: NestedField) -> str | None:
        if field.name not in declared:
            return _spoken(field.doc)
        column = declared[field.name]
        misfit = Cause.MISFIT.format(named(column.name), column.declared.label or column.type)
        rows = (found.causes or {}).get(misfit, 0)
        if not rows or found.worst is None:
            return f"declared as `{column.text}`"
        share = found.hours[found.worst].share * rows / found.sample
        rows_of = f"of the rows of {hour_text(found.worst)}"
        least = "at least " if MORE in (found.causes or {}) else ""
        return f"declared as `{column.text}`; {least}{share_text(share)} {rows_of} do not fit"

    shown = [
        dg.TableColumn(
            name=field.name,
            type=str(field.field_type),
            description=said(field),
            constraints=dg.TableColumnConstraints(nullable=not field.required),
        )
        for field in contract.iceberg_schema().fields
    ]
    return {"dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(columns=shown))}


def hour(
    report: LandingReport, at: int, *, rows_in_table: int | None, errors: HourErrors | None = None
) -> Metadata:
    """Of one hour in one landing; `rows_in_table` and `errors` are what the table holds of it by now.
    What the landing did in all stands with the checkpoint, and with the hours that it brought rows of."""
    mine = report.hours.get(at)
    if mine is None:
        return {"rows": dg.MetadataValue.int(0), **_held(rows_in_table, errors)}
    values: Metadata = {
        "rows": dg.MetadataValue.int(mine.rows),
        "landed": _landed(mine.raw_bytes, mine.files, mine.file_bytes),
        **_beside(report),
    }
    return values | _held(rows_in_table, errors)


def late_hour(
    landed: Sequence[Landed],
    snapshot: int,
    *,
    rows_in_table: int | None,
    errors: HourErrors | None = None,
    emptied: bool = False,
) -> Metadata:
    """Of one hour that an earlier commit changed, `snapshot` the newest, and nobody was told of. `landed`:
    what its newest landing brought; where rows are there and none of them, nobody knows it by now. `emptied`:
    all its rows have left, and nothing of them counts as brought."""
    brought: Metadata = {
        "rows": dg.MetadataValue.int(sum(x.rows for x in landed)),
        "landed": dg.MetadataValue.text(f"{sum(x.raw_bytes for x in landed) / MB:,.2f} MB of logs"),
    }
    values: Metadata = {
        **(brought if landed or not rows_in_table else {}),
        "snapshot": dg.MetadataValue.text(str(snapshot)),
        "told": dg.MetadataValue.text(
            "late: its rows have left the table since, by an undo, a removal or a rollback"
            if emptied
            else "late: the landing's own run ended before, had more to tell, or was not Dagster's"
        ),
    }
    return values | _held(rows_in_table, errors)


def _landed(raw_bytes: int, files: int, file_bytes: int) -> dg.MetadataValue:
    of = f"{amount(files, 'file')} of {file_bytes / MB:,.2f} MB"
    return dg.MetadataValue.text(f"{raw_bytes / MB:,.2f} MB of logs in {of}")


def _held(rows_in_table: int | None, errors: HourErrors | None) -> Metadata:
    """What the table holds of an hour by now, where that is known."""
    values: Metadata = {}
    if rows_in_table is not None:
        values["dagster/partition_row_count"] = dg.MetadataValue.int(rows_in_table)
    if errors is not None:
        values["rows with errors (%)"] = short(100 * errors.share)
        values["rows with errors"] = dg.MetadataValue.text(f"{errors.errors:,} of {errors.rows:,}")
    return values


def runway(seen: Vitals) -> Metadata:
    """For a landing: hours that are left where least is; nothing when unknown or for ever."""
    found = seen.runway.runway if isinstance(seen.runway, TimeLeft) else None
    left_s = found.shortest_s if isinstance(found, Runway) else None
    return {} if left_s is None else {"runway": dg.MetadataValue.text(f"{left_s / HOUR_S:,.1f} h")}


def windows(landed: Sequence[Landed]) -> Metadata:
    """What one landing pulled of an hour: cursors by shard, as the ledger has them."""
    if not landed:
        return {}
    shown = (
        {"shard": x.window.shard, "begin": str(x.window.begin), "end": str(x.window.end), "rows": x.rows}
        for x in landed
    )
    values: Metadata = {"windows": records(shown)}
    if len(landed) > _ROWS_MAX:
        values["windows not shown"] = dg.MetadataValue.int(len(landed) - _ROWS_MAX)
    return values


def landing(report: LandingReport) -> Metadata:
    """Of a whole landing; seconds and pages, each a request, are what it cost."""
    values: Metadata = {
        "rows landed": dg.MetadataValue.int(report.rows),
        "logs landed (MB)": short(report.raw_bytes / MB),
        "speed (MB/s)": short(report.raw_mb_per_s),
        "landed": _landed(report.raw_bytes, report.files, report.file_bytes),
        "cost": dg.MetadataValue.text(f"{report.seconds:,.1f} s, {amount(report.pages, 'page')}"),
        "rows with errors": dg.MetadataValue.text(f"{report.error_rows:,} of {report.rows:,}"),
        **_beside(report),
    }
    return values


def _beside(report: LandingReport) -> Metadata:
    """Of a landing that has it: what waits, how far behind, which snapshot, what was lost."""
    values: Metadata = {}
    if report.barred_rows:
        values["rows kept out"] = dg.MetadataValue.int(report.barred_rows)
    if report.waits:
        values["waits"] = waits(report.waits)
    if report.lag_s is not None:
        values["lag (s)"] = short(report.lag_s)
    if report.snapshot_id is not None:
        # As text: the web page rounds integers of this size.
        values["snapshot"] = dg.MetadataValue.text(str(report.snapshot_id))
    if report.gaps:
        values["gaps"] = bullets(report.gaps)
    return values


def waits(reasons: Mapping[int, Wait]) -> dg.MetadataValue:
    """Why shards were not read, or not to the end: the plan's own words."""
    return records({"shard": shard, "why": why.text} for shard, why in sorted(reasons.items()))


def published_to(logstore: Logstore) -> str:
    """What the checkpoint's asset stands for."""
    if logstore.shards is None:
        return "Cursors published to the consumer group, after the data is in the table."
    named = ", ".join(map(str, logstore.shards))
    return f"Live runs of shards {named}, which the settings name: the table alone has their position."


def checkpoint(reports: Sequence[CheckpointReport]) -> Metadata:
    """What became of each shard's checkpoint; none where the settings name shards."""
    moved = sum(r.outcome is CheckpointOutcome.MOVED for r in reports)
    return {
        "moved": dg.MetadataValue.text(f"{moved:,} of {amount(len(reports), 'shard')}"),
        "checkpoints": records(
            {"shard": r.shard, "cursor": str(r.cursor), "outcome": str(r)} for r in reports
        ),
    }


def mirror(found: Mirrored | None) -> Metadata:
    """Where the mirror stands, of a logstore that has one."""
    if found is None:
        return {}
    lag = {"mirror lag (s)": short(found.lag_s)} if found.shards else {}
    return {"mirror": dg.MetadataValue.text(str(found)), **lag}


def bullets(lines: Iterable[str]) -> dg.MetadataValue:
    """A list; what the page would take for markdown in a line is shown as it is, except in backticks.

    Worked example: `a*b` and e_f in one line stay code and become e\\_f. With a backtick too few nothing of
    the line is code: it is escaped as a whole.
    """
    return dg.MetadataValue.md("\n".join(f"- {_as_it_is(line)}" for line in lines))


def _as_it_is(line: str) -> str:
    parts = line.split("`")
    if len(parts) % 2 == 0:
        return _MARKS.sub(r"\\\g<0>", line)
    return "`".join(part if at % 2 else _MARKS.sub(r"\\\g<0>", part) for at, part in enumerate(parts))


def _spoken(doc: str | None) -> str | None:
    """The description of a column: names like __error__ would be bold."""
    return doc and _SYSTEM_NAME.sub(r"`\g<0>`", doc)


def not_moved() -> Metadata:
    """Of a checkpoint that was selected by a run that must not move it."""
    return {
        "moved": dg.MetadataValue.text("no shard"),
        "why": dg.MetadataValue.text("only a live run, or the checkpoint launched alone, moves it"),
    }


def version_tags(version: int | str | None) -> dict[str, str]:
    """A snapshot as data version; or, where there was no commit, the version that was told before."""
    return {DATA_VERSION_TAG: str(version)} if version is not None else {}


def short(number: float) -> dg.MetadataValue:
    """For the eye: the page shows every digit it is given. Two decimals; what is below 1 with its first two
    digits, so that it is zero only where it is nothing. Worked example: 1234.567 is 1234.57, 0.012345 is
    0.012 and 0.00001234 is 0.000012: of 80,000 rows one with an error is not "0 %"."""
    return dg.MetadataValue.float(round(number, 2) if abs(number) >= 1 else float(f"{number:.2g}"))
