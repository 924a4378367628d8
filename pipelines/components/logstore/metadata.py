"""What people see beside the assets: rows, MB, MB/s, files, lag, error rows, and the reasons.

MB is 10**6 bytes of logs as the service counts them, before compression; file MB is what the
table's files take.
"""

from collections.abc import Mapping, Sequence

import dagster as dg

from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import CheckpointOutcome, CheckpointReport, HourReport, LandingReport
from pipelines.landing.table.contract import Contract
from sls_io.waits import Wait

MB = 1_000_000
DATA_VERSION_TAG = "dagster/data_version"

Metadata = dict[str, dg.MetadataValue]


def table(logstore: Logstore) -> Metadata:
    """Of the table itself: its name, its columns, its settings."""
    fields = Contract.from_columns(logstore.columns).iceberg_schema().fields
    columns = [
        dg.TableColumn(
            name=f.name,
            type=str(f.field_type),
            description=f.doc,
            constraints=dg.TableColumnConstraints(nullable=not f.required),
        )
        for f in fields
    ]
    return {
        "dagster/table_name": dg.MetadataValue.text(logstore.table),
        "dagster/column_schema": dg.MetadataValue.table_schema(dg.TableSchema(columns=columns)),
        "start": dg.MetadataValue.text(f"{logstore.start} UTC"),
    }


def hour(report: LandingReport, at: int, *, rows_in_table: int | None) -> Metadata:
    """Of one hour in one landing, and of the landing it came with."""
    mine = report.hours.get(at, HourReport(0, 0, 0, 0))
    known = {} if rows_in_table is None else {"dagster/partition_row_count": rows_in_table}
    return {
        **{name: dg.MetadataValue.int(rows) for name, rows in known.items()},
        "rows": dg.MetadataValue.int(mine.rows),
        "MB": _short(mine.raw_bytes / MB),
        "files": dg.MetadataValue.int(mine.files),
        "file MB": _short(mine.file_bytes / MB),
        **landing(report),
    }


def landing(report: LandingReport) -> Metadata:
    """Of a whole landing."""
    values: Metadata = {
        "landing rows": dg.MetadataValue.int(report.rows),
        "landing MB": _short(report.raw_bytes / MB),
        "landing MB/s": _short(report.raw_mb_per_s),
        "landing files": dg.MetadataValue.int(report.files),
        "landing file MB": _short(report.file_bytes / MB),
        "error rows": dg.MetadataValue.int(report.error_rows),
        "waits": waits(report.waits),
    }
    if report.lag_s is not None:
        values["lag s"] = _short(report.lag_s)
    if report.snapshot_id is not None:
        # As text: the web page rounds integers of this size.
        values["snapshot"] = dg.MetadataValue.text(str(report.snapshot_id))
    if report.gaps:
        values["gaps"] = dg.MetadataValue.md("\n".join(f"- {gap}" for gap in report.gaps))
    return values


def waits(reasons: Mapping[int, Wait]) -> dg.MetadataValue:
    """Why shards were not read, or not to the end: the plan's own words."""
    columns = dg.TableSchema(columns=[dg.TableColumn("shard", "int"), dg.TableColumn("why", "string")])
    records = [dg.TableRecord({"shard": shard, "why": why.text}) for shard, why in sorted(reasons.items())]
    return dg.MetadataValue.table(records, schema=columns)


def checkpoint(reports: Sequence[CheckpointReport]) -> Metadata:
    """What became of each shard's checkpoint."""
    columns = dg.TableSchema(
        columns=[dg.TableColumn("shard", "int"), dg.TableColumn("cursor", "int"), dg.TableColumn("outcome")]
    )
    records = [
        dg.TableRecord({"shard": r.shard, "cursor": str(r.cursor), "outcome": str(r)}) for r in reports
    ]
    return {
        "moved": dg.MetadataValue.int(sum(r.outcome is CheckpointOutcome.MOVED for r in reports)),
        "shards": dg.MetadataValue.int(len(reports)),
        "checkpoints": dg.MetadataValue.table(records, schema=columns),
    }


def not_moved() -> Metadata:
    """Of a checkpoint that was selected by a run that must not move it."""
    return {
        "moved": dg.MetadataValue.int(0),
        "why": dg.MetadataValue.text("only a live run, or the checkpoint launched alone, moves it"),
    }


def version_tags(report: LandingReport) -> dict[str, str]:
    """The snapshot as data version; a landing without a commit leaves the version as it was."""
    return {DATA_VERSION_TAG: str(report.snapshot_id)} if report.snapshot_id is not None else {}


def _short(number: float) -> dg.MetadataValue:
    """For the eye: the page shows every digit it is given."""
    return dg.MetadataValue.float(round(number, 2))
