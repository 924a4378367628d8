"""What would leave a table, for people: shared by the verbs that take hours back."""

from rich.markup import escape

from pipelines.cli.output import Output, megabytes
from pipelines.landing.hours import hour_text
from pipelines.landing.operations.undo import Undo
from sls_io.values.errors import printable


def show_leaving(output: Output, view: Undo, *, again: bool = False) -> None:
    """What would leave, for people; `again`: the same commit lands it once more."""
    output.say(f"{view.table}: {view.rows:,} rows in {view.files} files, {megabytes(view.file_bytes)}, leave")
    output.table(
        ["receive hour", ">rows"], [(hour_text(hour), rows) for hour, rows in sorted(view.hours.items())]
    )
    for name, values in sorted(view.others.items()):
        output.say(
            f"[yellow]{values:,} values of column {escape(printable(name))} leave[/]: the logstore does not "
            "declare it, so it is null in rows that are pulled again"
        )
    intervals = {s.shard: ", ".join(f"\\[{b}, {e})" for b, e in s.withdrawn) for s in view.shards}
    if again:
        output.table(
            ["shard", ">rows leave", "pulled again"],
            [(str(s.shard), s.rows, intervals[s.shard]) for s in view.shards],
        )
        return
    output.table(
        ["shard", ">rows leave", ">rows stay", "withdrawn"],
        [(str(s.shard), s.rows, s.rows_after, intervals[s.shard]) for s in view.shards],
    )
