"""How every verb talks: text for people, one JSON document with `--json`, errors in one sentence.

In the document cursors, snapshot ids and identity sums are strings: they have 63 and 64 bits, and what
reads JSON numbers as doubles (JavaScript, jq before 1.7) silently rounds them.

Text for people goes through rich; with `--json` stdout carries the JSON document and nothing
else, so that it can be piped. Progress goes to stderr, in a terminal and without `--json` only.

A table has as many columns as the terminal is wide; `--wide` shows all, and so does what is no terminal: a
pipe's reader wants whole lines. A command of ours that a text names is printed as it can be run.
"""

import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from pipelines.cli import session
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.progress import Line, line
from pipelines.cli.session import BEGUN, DEBUG, DRY_RUN, SAID, UNWRITTEN
from pipelines.landing import json_log
from pipelines.landing.commit.effect import Note
from pipelines.landing.hours import hour_text, hours_text
from pipelines.landing.table import commands
from sls_io.values.cures import Call, Cure
from sls_io.values.deadline import Deadline

WIDTH_WITHOUT_TERMINAL = 100_000
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
        *("cursor", "checkpoint", "frontier", "frontier_then", "begin", "end", "start", "closings", "target"),
        *("first_cursor", "last_cursor", "withdrawn", "regained", "kept_out", "sum"),
    }
)
"""Names whose integers are cursors, snapshot ids or sums: strings in the document, also small ones."""
_HEADINGS = {
    "hour": "receive hour",
    "hours": "receive hours",
    "file_bytes": "size",
    "behind_bytes": "behind",
    "at_s": "landed (UTC)",
    "first_s": "first file (UTC)",
    "last_s": "last file (UTC)",
}
_STYLES = {"": "{}", "warn": "[yellow]{}[/]", "loss": "[red]{}[/]"}
_NOTHING: Sequence[object] = (None, "", (), [], range(0))
_ROWS_MAX = 60


class Output:
    """What a verb prints. `as_json` turns `say` and `table` off and `result` into JSON.

    `file` stands in for stdout, `width` for the terminal's columns.
    """

    def __init__(
        self,
        *,
        as_json: bool = False,
        wide: bool = False,
        file: IO[str] | None = None,
        width: int | None = None,
    ) -> None:
        self.as_json, self.wide = as_json, wide
        self._cures, self._does_it = list[dict[str, str]](), dict[str, object]()
        self._file = file
        self._console = _console(file or sys.stdout, width)

    def say(self, text: str = "") -> None:
        """One line for people; `[bold]...[/]` is rich's markup."""
        if not self.as_json:
            with written():
                self._console.print(text, highlight=False, soft_wrap=True)

    def say_cures(self, *cures: Cure) -> None:
        """What settles it, on lines of their own that run as they are copied; `cures` in the document."""
        self._cures += commands.documents(cures, session.logstore())
        for cure in cures:
            self.say(f"  {escape(commands.line(cure, session.logstore()))}")

    def say_notes(self, notes: Iterable[Note]) -> None:
        """A line each, as bad as it is."""
        for note in notes:
            self.say(_STYLES[note.level].format(escape(note.text)))

    def say_dry(self, does: Call | None = None, *, loses: Sequence[str] = (), by: str = "--execute") -> None:
        """Say that this was a dry run, and the call that does it, in the document `does_it` with what it
        `loses`: `does`, or the call as it was typed and `by`; "" for a verb that does it without."""
        call = commands.shown(does, session.logstore()) if does else session.typed_to_do_it(by)
        self._does_it = {"call": call, "loses": list(loses)} if call else {}
        again = "this does it:" if call else f"add {by} to do it" if by else f"leave {DRY_RUN} out to do it"
        self.say(f"dry run: nothing was changed; {again}")
        if call:
            self.say(f"  {escape(call)}")

    def records(self, rows: Sequence[Mapping[str, Any]], *, less: Sequence[str] = ()) -> None:
        """The rows under the names of their fields, written as `cell` does. A field that has nothing in any
        row is left out, and so is the logstore where all are of one, and rows beyond a screen or two."""
        names = dict.fromkeys(name for row in rows for name in row)
        wanted = [n for n in names if any(row.get(n) not in _NOTHING for row in rows)]
        if len({row.get("origin") for row in rows}) == 1 < len(wanted):
            wanted = [n for n in wanted if n != "origin"]
        numbers = {n for n in wanted if any(_is_number(row.get(n)) for row in rows)}
        self.table(
            [">" * (n in numbers) + heading(n) for n in wanted],
            [[cell(n, row.get(n)) for n in wanted] for row in rows[:_ROWS_MAX]],
            less=[name for name in map(heading, less) if name in map(heading, wanted)],
        )
        if len(rows) > _ROWS_MAX:
            self.say(f"and {len(rows) - _ROWS_MAX:,} more; --json has all")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        title: str = "",
        less: Sequence[str] = (),
    ) -> None:
        """Rows under headings; columns named with a leading `>` hold numbers and align right.

        Where all are too wide for the terminal, those of `less` are left out, the first one first.
        """
        if self.as_json:
            return
        cells = [[shown(cell) for cell in row] for row in rows]
        out: list[str] = []
        longest = _longest(cells)
        if self.wide:
            width = max(_width(self._drawn(columns, longest, title, out)), 1)
            whole = self._drawn(columns, _stacked(cells), title, out)
            with written():
                _Printer(file=self._console.file, width=width, emoji=False).print(whole, highlight=False)
            return
        left = list(less)
        while not (fits := _width(self._drawn(columns, longest, title, out)) <= self._console.width) and left:
            out.append(left.pop(0))
        drawn = self._drawn(columns, _stacked(cells) if fits else cells, title, out)
        with written():
            self._console.print(drawn, highlight=False)
        if out:
            self.say(f"[dim]without {', '.join(out)}: the terminal is too narrow; --wide shows all[/]")

    def _drawn(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], title: str, out: Sequence[str]
    ) -> Table:
        shown_ones = [n for n, column in enumerate(columns) if column.removeprefix(">") not in out]
        table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
        for n in shown_ones:
            table.add_column(
                columns[n].removeprefix(">"),
                justify="right" if columns[n].startswith(">") else "left",
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(row[n] for n in shown_ones))
        return table

    def result(self, data: object, *, fails: bool = False) -> None:
        """The JSON document of the verb; nothing without `--json`. Where something `fails`, the verb ends
        here with 1."""
        if self.as_json:
            session.keep(SAID, True)
            if isinstance(data, Mapping):
                said = {"does_it": self._does_it, "cures": self._cures}
                data = {**{name: value for name, value in said.items() if value}, **data}
            text = json.dumps(exact(data), indent=2, default=_plain, ensure_ascii=False)
            with written():
                print(text, file=self._file, flush=True)
        if fails:
            click.get_current_context().exit(EXIT_FAILED)

    def progress(self, what: str) -> AbstractContextManager[Line]:
        """One line on stderr that says what is done now; nothing with `--json` or without a terminal."""
        return line(what, quiet=self.as_json or json_log.asked())


@contextmanager
def written() -> Iterator[None]:
    """Around what writes to standard output: where that fails, whoever ends the verb can tell it from a file
    of the verb's own."""
    try:
        yield
    except OSError:
        session.keep(UNWRITTEN, True)
        raise


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Give a click command `--json`, `--wide` and `--debug`; the function gets `output` as first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
    @click.option("--wide", is_flag=True, help="Show every column, also where the terminal is too narrow.")
    @click.option("--debug", is_flag=True, help="Show the trace of an error.")
    @functools.wraps(function)
    def run(*, as_json: bool, wide: bool, debug: bool, **arguments: Any) -> None:
        session.keep(BEGUN, True)
        if debug:
            session.keep(DEBUG, True)
        with _waits_told():
            function(Output(as_json=as_json, wide=wide), **arguments)

    return run


@contextmanager
def _waits_told() -> Iterator[None]:
    """For the time of the block a long wait for a catalog or a database is said on stderr, once: on a
    descriptor of its own, since a verb may send what it prints to a log meanwhile."""
    try:
        own = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or no file
        yield
        return

    def tell(text: str) -> None:
        # Over the line of progress, which is drawn again below it.
        if json_log.say(logging.WARNING, text):
            return
        clear = "\r\x1b[2K" if os.isatty(own) else ""
        with suppress(OSError):
            os.write(own, f"{clear}sls-lake: {text}\n".encode())

    try:
        with Deadline(tell=tell).kept():
            yield
    finally:
        os.close(own)


@contextmanager
def noise_into(log: Path) -> Iterator[IO[str]]:
    """Send what this process and its children write to stdout and stderr into `log`.

    Yields the stdout there was. The JVM and dbt write to the file descriptors themselves, so these
    are what is turned; they come back with the end of the block, before any error is shown. Where `log`
    cannot be opened they are lost: hundreds of their lines would bury the sentence that says why.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with _appended(log) as file, os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1) as shown:
        kept = [os.dup(1), os.dup(2)]
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield shown
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, descriptor in enumerate(kept, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)


def _appended(log: Path) -> IO[bytes]:
    try:
        return log.open("ab")
    except OSError:
        return Path(os.devnull).open("ab")


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


def heading(name: str) -> str:
    """The name of a field as people read it above a column."""
    words = name.removesuffix("_s").removesuffix("_ms")
    return _HEADINGS.get(name) or words.replace("_", " ") + (" (UTC)" if words != name else "")


def cell(name: str, value: Any) -> str:
    """The value of a field as people read it; the name says what it is, and so how it is written."""
    if value is None or isinstance(value, str | bool):
        return escape(shown(value))
    if isinstance(value, tuple | list):
        return ", ".join(
            f"\\[{each[0]}, {each[1]})" if isinstance(each, tuple) else cell(name, each) for each in value
        )
    if name in ("hour", "hours"):
        return hour_text(value) if isinstance(value, int) else hours_text(value)
    if name.endswith(("_s", "_ms")):
        return moment(value / 1000 if name.endswith("_ms") else value)
    if name.endswith("bytes") or name == "size":
        return megabytes(value)
    return str(value) if name in LONG or name == "shard" else shown(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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


class _Printer(Console):
    """Leaves it to the caller what becomes of a verb whose reader has gone; rich's ends with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _console(file: IO[str], width: int | None = None) -> Console:
    # Without pictures: a role's name, acs:ram::1234:role/lake, has two of their names in it.
    console = _Printer(file=file, width=width, emoji=False)
    if width or console.is_terminal:
        return console
    return _Printer(file=file, width=WIDTH_WITHOUT_TERMINAL, emoji=False)


def _longest(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows that need the width that all of them need: of plain cells the longest of each column, in one row,
    and the rows with markup or several lines as they are. Measuring each cell takes as long as drawing it."""
    plain = [row for row in rows if _is_plain(row)]
    others = [list(row) for row in rows if not _is_plain(row)]
    return [*others, *([[max(column, key=cell_len) for column in zip(*plain, strict=True)]] if plain else [])]


def _stacked(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows with plain ones that follow one another as one, whose cells have a line of each.

    Where no line is broken it is the same picture, drawn in a third of the time.
    """
    found: list[list[str]] = []
    for plain, some in groupby(rows, _is_plain):
        found += [["\n".join(column) for column in zip(*some, strict=True)]] if plain else map(list, some)
    return found


def _is_plain(row: Sequence[str]) -> bool:
    """Without markup, and each cell as wide as its characters are: no second line and no tab."""
    return not any("[" in cell or not cell.isprintable() for cell in row)


def _width(table: Table) -> int:
    """Columns of the terminal that the table needs with no line broken."""
    endless = Console(width=WIDTH_WITHOUT_TERMINAL, emoji=False)
    return Measurement.get(endless, endless.options, table).maximum


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)
