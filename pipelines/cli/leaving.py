"""What would leave a table, for people: shared by the verbs that take hours back."""

from pipelines.cli.output import Output, megabytes
from pipelines.landing.hours import hour_text
from pipelines.landing.undo import Undo


def show_leaving(output: Output, view: Undo) -> None:
    """What would leave, for people."""
    output.say(f"{view.table}: {view.rows:,} rows in {view.files} files, {megabytes(view.file_bytes)}, leave")
    output.table(
        ["receive hour", ">rows"], [(hour_text(hour), rows) for hour, rows in sorted(view.hours.items())]
    )
    output.table(
        ["shard", ">rows leave", ">rows stay", "withdrawn"],
        [
            (str(s.shard), s.rows, s.rows_after, ", ".join(f"\\[{b}, {e})" for b, e in s.withdrawn))
            for s in view.shards
        ],
    )
