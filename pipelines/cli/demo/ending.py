"""What the demo prints at its end: the table from several sides, then the proof.

Every function prints for people and returns the same as plain values for `--json`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pandas as pd
from pyiceberg.table import Table
from rich.markup import escape

from pipelines.cli import describe as describing
from pipelines.cli import landings as listing
from pipelines.cli import verify as verifying
from pipelines.cli.demo import audit as auditing
from pipelines.cli.demo.audit import Audit
from pipelines.cli.demo.file_audit import FileAudit, compare_file
from pipelines.cli.emulator_admin import Stored
from pipelines.cli.files.log_files import LogFile
from pipelines.cli.output import Output
from pipelines.landing.inspection import describe
from pipelines.landing.inspection.landings import landings_of
from pipelines.landing.inspection.verify import verify
from pipelines.landing.logstore import Logstore
from pipelines.landing.spark.session import engine_here
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.vitals import vitals
from sls_io.values.errors import printable
from sls_io.wire.client import SlsClient

GROUPS_MAX = 12
"""A column of more values is nothing to group a page by."""
_SHOWN_ROWS, _SHOWN_COLUMNS = 5, 8
_NUMBERS, _WORDS = ("int", "long", "float", "double"), ("string", "boolean", "int", "date")


def landings(output: Output, logstore: Logstore, lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """`sls-lake landings show`: the landings, and the rows and files of each receive hour."""
    found = landings_of(logstore, lake, orphans=False)
    output.say()
    output.say(
        "[bold]Landings, and files by receive hour[/]  (sls-lake landings show; a landing is one snapshot, a "
        "version of the table; a window is what it read of one shard and hour)"
    )
    listing.show_all(output, found, [*found.found], floor_hours=0)
    return {
        "hours": [asdict(files) for files in found.files],
        "landings": [each.document() for each in found.found],
    }


def shards(output: Output, logstore: Logstore, lake: Lake, client: SlsClient) -> list[dict[str, Any]]:
    """`sls-lake describe`."""
    views = describe.describe(logstore, lake, client)
    output.say("[bold]Shards[/]  (sls-lake describe)")
    describing.show(output, logstore, views, vitals(logstore, lambda: lake, lambda: client, whole=True))
    return [asdict(view) for view in views]


def first_rows(output: Output, logstore: Logstore, table: Table) -> None:
    """Some rows of the table, of its declared columns."""
    columns = [*logstore.columns][:_SHOWN_COLUMNS]
    if not columns:
        return
    rows = table.scan(selected_fields=tuple(columns), limit=_SHOWN_ROWS).to_arrow().to_pylist()
    output.say(f"[bold]First rows[/]  (columns declared: {len(logstore.columns)})")
    output.table(columns, [tuple(printable(str(row[name]), 40) for name in columns) for row in rows])


def query(output: Output, logstore: Logstore, table: Table) -> dict[str, Any]:
    """One question asked of Spark and of pandas: rows by a column of few values, and the average of a number
    where there is one; both answers side by side. Nothing where no column has few values. Only the counts
    must be the same: an average of doubles depends on the order in which they are summed."""
    words = [name for name, kind in logstore.columns.items() if kind in _WORDS]
    numbers = [name for name, kind in logstore.columns.items() if kind in _NUMBERS]
    frame = table.scan(selected_fields=tuple(dict.fromkeys([*words, *numbers]))).to_pandas()
    by = next((name for name in words if 1 < frame[name].nunique() <= GROUPS_MAX), None)
    if by is None:
        return {"same": True, "rows": {}}
    # What is measured has a fraction more often than what is counted.
    measured = sorted(numbers, key=lambda name: logstore.columns[name] in ("int", "long"))
    of = next((name for name in measured if name != by), "")
    average = f"avg(`{of}`)" if of else "null"
    sql = f"SELECT `{by}`, count(*), {average} FROM {logstore.table} GROUP BY `{by}`"
    by_spark, by_pandas = _asked_of_spark(sql), _asked_of_pandas(frame, by, of)
    output.say("[bold]One query, from Spark and from pandas[/]")
    output.say(f"[dim]{escape(sql)}[/]")
    rows = []
    for value, (count, mean) in sorted(by_spark.items(), key=lambda each: -each[1][0]):
        other_count, other_mean = by_pandas.get(value, (None, None))
        rows.append((value, count, other_count, _mean(mean), _mean(other_mean)))
    output.table([by, ">rows, Spark", ">rows, pandas", f">{of}, Spark", f">{of}, pandas"], rows)
    counts, others = ({value: n for value, (n, _) in each.items()} for each in (by_spark, by_pandas))
    if counts != others:
        output.say("[red]Spark and pandas do not agree[/]")
    return {"same": counts == others, "rows": counts}


def _asked_of_spark(sql: str) -> dict[str, tuple[int, float | None]]:
    engine = engine_here()
    try:
        return {_group(row[0]): (row[1], row[2]) for row in engine.session.sql(sql).collect()}
    finally:
        engine.stop()


def _asked_of_pandas(frame: pd.DataFrame, by: str, of: str) -> dict[str, tuple[int, float | None]]:
    groups = frame.groupby(by, dropna=False)
    return {_group(value): (len(part), part[of].mean() if of else None) for value, part in groups}


def _group(value: Any) -> str:
    """How a value is shown, by whichever of the two it came: a column of whole numbers with a gap is one of
    floats in pandas."""
    if value is None or value != value:
        return "none"
    return str(int(value)) if isinstance(value, float) else printable(str(value), 60)


def verified(output: Output, logstore: Logstore, lake: Lake, client: SlsClient) -> bool:
    """`sls-lake verify`."""
    proof = verify(logstore, lake, client)
    output.say("[bold]The ledger against the service and the table[/]  (sls-lake verify)")
    verifying.show(output, proof)
    return proof.ok


def audit(
    output: Output, logstore: Logstore, table: Table, kept: Iterable[Stored], *, parts: tuple[int, ...]
) -> Audit:
    """The emulator's stored log against the table's files, row by row; says it in one sentence."""
    gone: list[str] = []
    columns = [*auditing.SYSTEM_COLUMNS, *logstore.columns]
    rows = auditing.table_rows(table, columns, gone.append)
    found = auditing.compare(kept, rows, logstore.columns)
    found.files_gone = gone
    output.say()
    output.say("[bold]The service's own store against the table's files, row by row[/]")
    for name in gone:
        output.say(f"[red]gone[/]: the table lists {name}, and there is no such file")
    if found.untyped:
        output.say(
            f"{found.untyped:,} rows hold a value that does not fit its column: kept, with their own bytes"
        )
    for example in found.examples:
        output.say(f"[red]wrong[/]: {example}")
    loaded = " + ".join(f"{part:,}" for part in parts)
    colour, verdict = ("green", "each once, with the same content") if found.ok else ("red", _faults(found))
    counted = loaded if sum(parts) == found.stored else f"{found.stored:,}"
    output.say(f"[{colour}]{counted} rows in the service, {found.landed:,} in the table, {verdict}[/]")
    return found


def file_audit(output: Output, file: LogFile, kept: Iterable[Stored], unlike: Sequence[str]) -> FileAudit:
    """The file, read anew, against the emulator's stored log, record by record; says it in one sentence.
    `unlike` are the sentences about what a log does not carry as the file has it."""
    found = compare_file(file.path, file.format_name, file.delimiter, kept)
    output.say()
    output.say(f"[bold]{file.path.name}, read anew, against the service's own store, record by record[/]")
    for sentence in unlike:
        output.say(sentence)
    for example in found.examples:
        output.say(f"[red]wrong[/]: {example}")
    verdict = f"{found.records:,} records in the file, {found.same + found.extra:,} in the service"
    if found.ok:
        output.say(f"[green]{verdict}, each once, with the same content[/]")
    else:
        output.say(f"[red]{verdict}, {found.missing:,} missing, {found.extra:,} unknown to the file[/]")
    return found


def delete_one_file(table: Table) -> str:
    """Delete the first data file the table lists; its name."""
    task = next(iter(table.scan().plan_files()))
    path = Path(unquote(urlsplit(task.file.file_path).path))
    path.unlink()
    return path.name


def _faults(found: Audit) -> str:
    counts: Mapping[str, int] = {
        "missing": found.missing,
        "more than once": found.doubled,
        "unknown to the service": found.unknown,
        "different": found.different,
    }
    return ", ".join(f"{n:,} {what}" for what, n in counts.items() if n) or "but not all was compared"


def _mean(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.3f}"
