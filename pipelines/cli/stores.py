"""Checkpoint stores as words of the command line, and times, spans and shards as options."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.cursor_file import CursorFile, cursor_of
from pipelines.cli.typed import Typed
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


def _group_name(text: str) -> str:
    """The name of a consumer group, as it is. Raises ConfigError."""
    if not is_group_name(text):
        raise ConfigError(GROUP_NAME)
    return text


def _shards(text: str) -> frozenset[int]:
    """The ids of `0,3`. Raises ConfigError."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise ConfigError(f"{text!r} is no list of shards; write it like 0,3")
    return frozenset(map(int, parts))


def _time_or(words: tuple[str, ...], text: str) -> int | str:
    """One of these words, or a time as unix seconds: ISO, a receive hour or unix seconds; UTC where it names
    no zone. All verbs take it so. Raises ConfigError."""
    if text in words:
        return text
    either = f"; or {', '.join(words)}"
    try:
        at = int(text) if text.isdecimal() and 4 < len(text) < 20 else unix_s(text)
    except TooLate:
        at = _LAST_S
    except (ValueError, OverflowError, ConfigError):
        raise ConfigError(f"{text!r} is no time; write it like 2026-11-20T07:30:00, UTC{either}") from None
    if not _FIRST_S <= at < _LAST_S:
        raise ConfigError(f"{text!r}: a time from 1970 to 2199{either}")
    return at


def time_or(*words: str) -> Typed[int | str]:
    """What `_time_or` reads, as an option's value."""
    return Typed("time", partial(_time_or, words))


def _source(text: str) -> int | str:
    """A place that has positions, an edge, a time, one before now or from where a reader is. Raises
    ConfigError."""
    if text.partition(":")[0] in _KINDS or SPANS.fullmatch(text):
        return text
    try:
        return _time_or(("latest", "earliest"), text)
    except ConfigError as error:
        raise ConfigError(f"{error}, -6h, shift:-30m, {WHERE}") from None


GROUP = Typed("group", _group_name)
SHARDS = Typed("shards", _shards)
SOURCE = Typed("time", _source)
CURSOR = Typed("cursor", cursor_of)
"""A cursor as a number, or as the service prints it."""


def seconds_of(span: str) -> int:
    """`-6h`, `+30m` or `2d` of `SPANS` as seconds."""
    return int(span[:-1]) * _SECONDS[span[-1]]


def fate_text(written: Written) -> str:
    """What became of a write, for people."""
    return f"{FATES[written.fate]}{': ' if written.why else ''}{escape(written.why)}"
