"""How every verb talks: text for people, one JSON document with `--json`, errors in one sentence.

In the document cursors, snapshot ids and identity sums are strings: they have 63 and 64 bits, and what
reads JSON numbers as doubles (JavaScript, jq before 1.7) silently rounds them.

Text for people goes through rich; with `--json` stdout carries the JSON document and nothing
else, so that it can be piped. Progress goes to stderr in both cases.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

WIDTH_WITHOUT_TERMINAL = 132
SAID = "said"
"""Set in click's object once a verb has printed its JSON document: an error after it prints no other."""
NUMBER_MAX = 2**53 - 1
"""The largest integer that every reader of JSON has exactly."""
LONG = frozenset(
    {
        *(
            "snapshot_id",
            "snapshot",
            "landing",
            "landings",
            "committed",
            "back",
            "damaged",
            "refreshed",
            "expired",
        ),
        *("cursor", "checkpoint", "frontier", "frontier_then", "begin", "end", "start", "closings"),
        *("withdrawn", "regained", "kept_out", "sum"),
    }
)
"""Names whose integers are cursors, snapshot ids or sums: strings in the document, also small ones."""
DRY = "dry run: nothing was changed; add --execute to do it"


class Output:
    """What a verb prints. `as_json` turns `say` and `table` off and `result` into JSON.

    `file` stands in for stdout.
    """

    def __init__(self, *, as_json: bool = False, file: IO[str] | None = None) -> None:
        self.as_json = as_json
        self._file = file
        self._console = _console(file or sys.stdout)

    def say(self, text: str = "") -> None:
        """One line for people; `[bold]...[/]` is rich's markup."""
        if not self.as_json:
            self._console.print(text, highlight=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
        """Rows under headings; columns named with a leading `>` hold numbers and align right."""
        if self.as_json:
            return
        table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
        for column in columns:
            table.add_column(
                column.removeprefix(">"),
                justify="right" if column.startswith(">") else "left",
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(shown(cell) for cell in row))
        self._console.print(table, highlight=False)

    def result(self, data: object) -> None:
        """The JSON document of the verb; nothing without `--json`."""
        if self.as_json:
            if (context := click.get_current_context(silent=True)) is not None:
                context.ensure_object(dict)[SAID] = True
            text = json.dumps(exact(data), indent=2, default=_plain, ensure_ascii=False)
            print(text, file=self._file)

    def progress(self, unit: str) -> Progress:
        """A progress bar on stderr that vanishes when it is done; silent without a terminal."""
        console = _console(sys.stderr)
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            TaskProgressColumn(),
            TextColumn(f"{{task.completed:,.0f}} {unit}"),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Give a click command `--json` and `--debug`; the function gets `output` as first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
    @click.option("--debug", is_flag=True, help="Show the trace of an error.")
    @click.pass_context
    @functools.wraps(function)
    def run(context: click.Context, /, *, as_json: bool, debug: bool, **arguments: Any) -> None:
        if debug:
            context.ensure_object(dict)["debug"] = True
        function(Output(as_json=as_json), **arguments)

    return run


def exact(data: object, *, long: bool = False) -> object:
    """`data` with the integers of LONG as strings, by name and not by size: a reader wants one type. Any
    other integer that a double cannot hold becomes a string, too."""
    if isinstance(data, Mapping):
        by_number = long and all(isinstance(name, int) for name in data)
        return {name: exact(value, long=by_number or name in LONG) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [exact(value, long=long) for value in data]
    if isinstance(data, int) and not isinstance(data, bool) and (long or abs(data) > NUMBER_MAX):
        return str(data)
    return data


def shown(cell: object) -> str:
    """A cell as people read it: numbers grouped by thousands, nothing for None."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return str(cell)


def moment(time_s: float | None) -> str:
    """Unix seconds as `2026-11-20 07:00:05`, in UTC; empty for None and 0."""
    if not time_s:
        return ""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(duration_s: float | None) -> str:
    """Seconds as `4.2 s`, `3 min 20 s`, `5 h 02 min`; empty for None."""
    if duration_s is None:
        return ""
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def megabytes(size: float) -> str:
    """Bytes as `12.3 MB` (10^6)."""
    return f"{size / 1e6:,.1f} MB"


def _console(file: IO[str]) -> Console:
    console = Console(file=file)
    return console if console.is_terminal else Console(file=file, width=WIDTH_WITHOUT_TERMINAL)


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
