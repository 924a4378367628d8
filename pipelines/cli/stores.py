"""Checkpoint stores as words of the command line, and times, spans and shards as options."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.cursor_file import CursorFile, cursor_of
from pipelines.landing.coordinators import GROUP_NAME, KEPT_IN, kept_in
from pipelines.landing.ledger.start import known_in
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.lake import Lake
from sls_io.checkpoints import policy
from sls_io.checkpoints.store import CheckpointStore, Fate, Written
from sls_io.values.errors import ConfigError, SlsError, printable
from sls_io.values.moments import TooLate, unix_s
from sls_io.values.settings import is_group_name
from sls_io.wire.client import SlsClient

STORES = "group[:NAME], file:PATH, csv:PATH, sql:ADDRESS or sql:env:VARIABLE"
WHERE = f"ledger, {STORES}"
_KINDS = ("ledger", "table", "group", "file", "csv", "sql")
_SPAN = re.compile(r"([+-]?)([0-9]{1,9}) *(s|m|h|d)")
SPANS = re.compile(r"(?:-|shift:[+-]?)[0-9]{1,9} *(?:s|m|h|d)")
"""As places: a time before now, and a time from where a reader is."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FIRST_S, _LAST_S = 0, 7_258_118_400
DONE: frozenset[Fate] = frozenset({"sent", "ahead"})
"""After these the store has what was asked for, or more."""
FATES: dict[Fate, str] = {
    "sent": "written",
    "ahead": "stays: it is further already",
    "frozen": "stays: frozen until a reader begins from it",
    "thawed": "stays: only a frozen shard goes back",
    "held": "stays",
    "failed": "[red]failed[/]",
}
PLACES: dict[policy.Place, str] = {
    "inside": "",
    "expired": "retention took what was there",
    "beyond": "behind the shard's end",
}


def store_of(
    where: str, logstore: Logstore, client: SlsClient, *, reader: str | None = None, written: bool = False
) -> CheckpointStore:
    """The store that `where` names; see WHERE. `reader` is the group's name unless it is said; `written`:
    something is copied to it.

    Raises ConfigError for other words, and for a password on the command line.
    """
    kind, _, rest = where.partition(":")
    if kind == "csv" and rest:
        return CursorFile(Path(rest).expanduser(), new=written)
    if kind not in KEPT_IN or not (rest or kind == "group"):
        words = f"table, {STORES}" if written else WHERE
        raise ConfigError(f"no place of positions is called {printable(kind)!r}: {words}")
    known_as = ""
    if where == logstore.mirror:
        # Runs write it under the table's id. It is also there for when nobody reaches the catalog.
        with suppress(SlsError):
            known_as = known_in(Lake.default(), logstore, client)
    return kept_in(where, logstore, client, reader=reader, written=written, known_as=known_as)


def reader_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--reader NAME`, for stores that keep several."""
    return click.option(
        "--reader",
        metavar="NAME",
        help="Whose positions in a file or database; the group's name unless said.",
    )(function)


def check_reader(reader: str | None, *places: str) -> None:
    """Raises UsageError for a reader where no place keeps several."""
    if reader and not {place.partition(":")[0] for place in places} & {"file", "sql"}:
        raise click.UsageError("--reader is for a file and a database: a group has one reader, itself")


class GroupName(click.ParamType[str]):
    """The name of a consumer group."""

    name = "group"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        if is_group_name(str(value)):
            return str(value)
        self.fail(GROUP_NAME, param, ctx)


class Shards(click.ParamType[frozenset[int]]):
    """`0,3`: shard ids."""

    name = "shards"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[int]:
        """The ids."""
        if isinstance(value, frozenset):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() and len(part) < 10 for part in parts):
            self.fail(f"{value!r} is no list of shards; write it like 0,3", param, ctx)
        return frozenset(map(int, parts))


class Moment(click.ParamType[int]):
    """A time: ISO, a receive hour or unix seconds; UTC where it names no zone. All verbs take it so."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Unix seconds."""
        if isinstance(value, int):
            return value
        try:
            at = moment_of(str(value))
        except TooLate:
            at = _LAST_S
        except (ValueError, OverflowError, ConfigError):
            self.fail(f"{value!r} is no time; write it like 2026-11-20T07:30:00, UTC", param, ctx)
        if not _FIRST_S <= at < _LAST_S:
            self.fail(f"{value!r}: a time from 1970 to 2199", param, ctx)
        return at


class PlaceParam(click.ParamType[int | str]):
    """A time like `Moment`'s, or one of some words."""

    name = "time"

    def __init__(self, *, edges: tuple[str, ...] = ("begin", "newest")) -> None:
        self._edges = edges

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Unix seconds, or the word."""
        if isinstance(value, str) and value in self._edges:
            return value
        try:
            return Moment().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}; or {', '.join(self._edges)}", param, ctx)


class Source(PlaceParam):
    """A place that has positions, a time like `Moment`'s, one before now or from where a reader is."""

    def __init__(self) -> None:
        super().__init__(edges=("latest", "earliest"))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Unix seconds, or the words."""
        if isinstance(value, str) and (value.partition(":")[0] in _KINDS or SPANS.fullmatch(value)):
            return value
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}, -6h, shift:-30m, {WHERE}", param, ctx)


def moment_of(text: str) -> int:
    """Unix seconds. Raises ValueError, OverflowError or ConfigError for what is no time."""
    if text.isdecimal() and 4 < len(text) < 20:
        return int(text)
    return unix_s(text)


class SpanParam(click.ParamType[int]):
    """`90s`, `30m`, `6h`, `2d`; with a sign where `signed`."""

    name = "span"

    def __init__(self, *, signed: bool = False) -> None:
        self._signed = signed

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Seconds."""
        if isinstance(value, int):
            return value
        found = _SPAN.fullmatch(str(value).strip())
        if found is None or (found[1] and not self._signed):
            like = "-30m or +2h" if self._signed else "30m or 2h"
            self.fail(f"{value!r} is no span of time; write it like {like}", param, ctx)
        seconds = int(found[2]) * _SECONDS[found[3]]
        return -seconds if found[1] == "-" else seconds


class CursorParam(click.ParamType[int]):
    """A cursor as a number, or as the service prints it."""

    name = "cursor"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        try:
            return cursor_of(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


def fate_text(written: Written) -> str:
    """What became of a write, for people."""
    return f"{FATES[written.fate]}{': ' if written.why else ''}{escape(written.why)}"


def not_done(written: Iterable[Written]) -> bool:
    """Whether a shard is not where it was asked to be."""
    return any(one.fate not in DONE for one in written)
