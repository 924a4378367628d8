"""`sls-lake load`: put lines of a file, or generated access-log rows, into a logstore.

LogGroups are built with the vendor SDK's own protobuf classes and sent with PutLogs, a thousand
rows a group unless told otherwise. Nothing here shares code with fetching and decoding, so what
was loaded can stand as the other side of a proof.

The service takes a log time only within 7 days before and 15 minutes after its own clock. A line outside of
that (an archived log file), of a time that cannot be read, or of none, is sent with the service's time as log
time, and the load says so; its own time stays in its key, `time_local` for access logs.

A file is read to its end before anything of it is sent; a dry run packs all of it and sends nothing. A load
that still ends in its middle says what is stored and how to go on from there: later nothing tells a log that
was sent twice from one that was sent once.
"""

import logging
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click

from pipelines.cli import session
from pipelines.cli.deciding import decide, dry_run_option
from pipelines.cli.emulator_admin import admin_of
from pipelines.cli.errors import err, facts, kind_of, sentence
from pipelines.cli.files.accesslog import generated
from pipelines.cli.files.lines import TIME_KEYS, Log
from pipelines.cli.files.loading import Loading, oddities
from pipelines.cli.files.log_files import AUTO, FORMATS, LogFile, check_file, parse_file, recognise
from pipelines.cli.files.packing import (
    GROUP_ROWS,
    GROUP_ROWS_MAX,
    Counts,
    Packer,
)
from pipelines.cli.files.sending import Nowhere, Sink, put, put_over_hours
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, megabytes, verb
from pipelines.cli.progress import Line
from pipelines.landing.commit.decision import Decision, Finished
from pipelines.landing.commit.effect import Note
from sls_io.emulator import Admin
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.cures import Call
from sls_io.values.errors import ServiceError, SlsError, Throttled, TransportError, amount
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient


def _named(service: Service, shards: int) -> tuple[str, str]:
    return f"project {service.project}", f"logstore {service.logstore} with {amount(shards, 'shard')}"


def missing(client: SlsClient, *, shards: int, create_first: bool) -> list[str]:
    """What `create` would create, in words. Without `create_first` what is missing is the service's error."""
    project, logstore = _named(client.service, shards)
    lacks = {"projectnotexist": [project, logstore], "logstorenotexist": [logstore]}
    try:
        client.shards()
    except ServiceError as error:
        if error.code.lower() not in lacks:
            raise
        if not create_first:
            again = shlex.split(session.typed_to_do_it("--create"))[1:] or ["load", "--create"]
            error.cures = (Call(tuple(again), does=f"creates {' and '.join(lacks[error.code.lower()])}"),)
            raise
        return lacks[error.code.lower()]
    return []


def create(client: SlsClient, *, shards: int) -> list[str]:
    """Create the project and the logstore where they are missing; what was created, in words."""
    service, created = client.service, []
    transport, names = client.transport, _named(client.service, shards)
    steps: list[tuple[str, str, Callable[[], object]]] = [
        (
            names[0],
            "ProjectAlreadyExist",
            lambda: transport.create_project(service.project, "created by sls-lake load"),
        ),
        (
            names[1],
            "LogStoreAlreadyExist",
            lambda: transport.create_logstore(
                service.project, service.logstore, ttl=30, shard_count=shards, auto_split=False
            ),
        ),
    ]
    for name, present, step in steps:
        try:
            step()
            created.append(name)
        except ServiceError as error:
            if error.code.lower() != present.lower():
                raise
    return created


def format_option(of: str) -> Callable[[Any], Any]:
    """The option for the format of the file that the option `of` names."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice([AUTO, *FORMATS]),
        default=AUTO,
        show_default=True,
        help=f"What the lines of {of} are: Apache/nginx combined, JSON, CSV with a header, syslog, any text.",
    )


def time_key_option(of: str) -> Callable[[Any], Any]:
    """The option for the key under which the logs of the file that `of` names have their time."""
    return click.option(
        "--time-key",
        default="",
        metavar="KEY",
        help=f"Of JSON or CSV in {of}: the key with a log's time.  [default: {', '.join(TIME_KEYS)}]",
    )


@click.command("load")
@logstore_option
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="File of log lines, plain, gzip or zstd.",
)
@format_option("--file")
@time_key_option("--file")
@click.option(
    "--first-line",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Begin --file at this line: to go on after a load that ended in its middle.",
)
@click.option("--rows", type=click.IntRange(min=1), help="Generate this many access-log rows instead.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Generated content follows from seed and row number.",
)
@click.option(
    "--first-row",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of the first generated row.",
)
@click.option(
    "--spread-hours",
    type=click.IntRange(min=0, max=24 * 7),
    default=0,
    show_default=True,
    help="Spread generated rows over this many receive hours (emulator only: sets its clock).",
)
@click.option(
    "--group-size",
    type=click.IntRange(min=1, max=GROUP_ROWS_MAX),
    default=GROUP_ROWS,
    show_default=True,
    help="Rows in one LogGroup.",
)
@click.option("--create", "create_first", is_flag=True, help="Create project and logstore if missing.")
@click.option(
    "--shards",
    type=click.IntRange(min=1, max=64),
    default=4,
    show_default=True,
    help="Shards of a logstore made by --create.",
)
@dry_run_option
@verb
def load(
    output: Output,
    *,
    name: str | None,
    path: Path | None,
    format_name: str,
    time_key: str,
    first_line: int,
    rows: int | None,
    seed: int,
    first_row: int,
    spread_hours: int,
    group_size: int,
    create_first: bool,
    shards: int,
    dry_run: bool,
) -> None:
    """Put lines of a file, or generated rows, into a logstore."""
    _require_one_source(path, rows, spread_hours, time_key)
    service = resolve(name).service
    file = recognised(path, format_name, time_key) if path is not None else None
    lines = FileLines.checked(output, file, first_line) if file is not None else None
    numbers = range(first_row, first_row + (rows or 0))
    with SlsClient(service) as client:
        source = lines or NumberedRows.over(spread_hours, service, seed, numbers)
        creates = missing(client, shards=shards, create_first=create_first)
        packer = Packer(_source(path), group_rows=group_size)
        if dry_run:
            with output.progress(f"load {service.logstore}, dry run") as progress:
                source.put(
                    Nowhere(), packer, source.now_s or client.now_s(), _telling(progress, packer, source)
                )
        else:
            packer.counts.rows = source.total or 0
        loading = Loading.of(service, packer.counts, creates, lines.file if lines else None)

        def carry_out() -> Finished:
            source.begin()
            created = create(client, shards=shards) if create_first else []
            packer = Packer(_source(path), group_rows=group_size)
            _send(output, client, source, packer)
            done = Loading.of(service, packer.counts, created, lines.file if lines else None)
            _tell(output, done)
            return Finished(None, done)

        decide(output, Decision(view=loading), carry_out, now=not dry_run, by="")


def _require_one_source(path: Path | None, rows: int | None, spread_hours: int, time_key: str) -> None:
    """Raises UsageError for options that do not go together."""
    if (path is None) == (rows is None):
        raise click.UsageError("say what to load: --file PATH or --rows N")
    if spread_hours and path is not None:
        raise click.UsageError("--spread-hours goes with --rows: lines of a file are received now")
    if time_key and path is None:
        raise click.UsageError("--time-key goes with --file: generated rows have their own time")


def _tell(output: Output, done: Loading) -> None:
    speed = done.raw_bytes / 1e6 / done.seconds if done.seconds else 0.0
    output.say(
        f"{amount(done.rows, 'row')} in {amount(done.groups, 'group')}, {megabytes(done.raw_bytes)} raw, "
        f"into {done.project}/{done.logstore}: {done.seconds:.1f} s, {speed:.1f} MB/s"
    )
    output.say_notes(map(Note, oddities(done, done.time_keys)))


def _send(output: Output, client: SlsClient, source: "FileLines | NumberedRows", packer: Packer) -> None:
    """Send them all; says what is stored where it ends in its middle."""
    with output.progress(f"load {client.service.logstore}") as progress:
        started = SYSTEM_CLOCK.monotonic()
        try:
            source.put(client, packer, source.now_s or client.now_s(), _telling(progress, packer, source))
        except (Exception, KeyboardInterrupt) as error:
            progress.end()
            _say_ending(output, source, packer.counts, error)
            raise
        packer.counts.seconds = SYSTEM_CLOCK.monotonic() - started


@dataclass(frozen=True, slots=True)
class FileLines:
    """The lines of a file from one on.

    total   what is told about their rows, None where nobody knows
    now_s   when the last row is received (unix seconds), 0 for now
    """

    file: LogFile
    first_line: int
    total: int | None
    now_s: float = 0.0

    @classmethod
    def checked(cls, output: Output, file: LogFile, first_line: int) -> Self:
        """The file is read once to its end."""
        with output.progress(f"load {file.path.name}") as progress:
            progress.phase("reading the file once before anything is sent")
            return cls(file, first_line, check_file(file, first_line=first_line))

    def begin(self) -> None:
        """Nothing has to be done before they are sent."""

    def put(self, client: Sink, packer: Packer, at_s: float, on_rows: Callable[[int], None]) -> None:
        """Send them, received now."""
        logs = parse_file(self.file, packer.counts, first_line=self.first_line)
        put(client, packer, logs, at_s=at_s, on_rows=on_rows)

    def left(self, counts: Counts) -> tuple[str, str]:
        """What is stored, in words, and the options that go on after it."""
        line = max(self.first_line - 1, counts.stored_line)
        return f"{counts.stored:,} rows are stored, up to line {line:,}", f"--first-line {line + 1}"


@dataclass(frozen=True, slots=True)
class NumberedRows:
    """Generated rows of these numbers, received now, or over `hours` whose last one is that of `now_s`.

    A row's content follows from seed and number, so a load that ended goes on with other numbers: of the rows
    100 to 1099 with 400 stored the rest is `--first-row 500 --rows 600`.
    """

    seed: int
    numbers: range
    admin: Admin | None = None
    hours: int = 0
    now_s: float = 0.0

    @classmethod
    def over(cls, hours: int, service: Service, seed: int, numbers: range) -> Self:
        """With `hours` their last one is the emulator's now."""
        if not hours:
            return cls(seed, numbers)
        admin = admin_of(service)
        return cls(seed, numbers, admin, hours, admin.now())

    def begin(self) -> None:
        """Set the emulator's clock to the first hour: before anything is created, for a shard younger than
        its first log is no honest history."""
        if self.admin is not None:
            self.admin.set_clock(self.now_s - (self.hours - 1) * HOUR_S)

    @property
    def total(self) -> int:
        """How many they are."""
        return len(self.numbers)

    def of(self, piece: range, at_s: float) -> Iterable[Log]:
        """The logs of some of the numbers."""
        return (generated(self.seed, number, at_s) for number in piece)

    def put(self, client: Sink, packer: Packer, at_s: float, on_rows: Callable[[int], None]) -> None:
        """Send them. A dry run sets no clock: nothing of it is received."""
        if self.admin is None or isinstance(client, Nowhere):
            put(client, packer, self.of(self.numbers, at_s), at_s=at_s, on_rows=on_rows)
        else:
            put_over_hours(
                client,
                self.admin,
                packer,
                self.of,
                self.numbers,
                hours=self.hours,
                now_s=at_s,
                on_rows=on_rows,
            )

    def left(self, counts: Counts) -> tuple[str, str]:
        """As of lines."""
        stored, total = counts.stored, len(self.numbers)
        again = f"--first-row {self.numbers.start + stored} --rows {total - stored}"
        return f"{stored:,} of {total:,} rows are stored", again


def _telling(progress: Line, packer: Packer, source: FileLines | NumberedRows) -> Callable[[int], None]:
    """What tells the line how far the load is."""
    started, counts = SYSTEM_CLOCK.monotonic(), packer.counts

    def moved(_: int) -> None:
        rate = counts.bytes / 1e6 / max(SYSTEM_CLOCK.monotonic() - started, 0.001)
        progress.counted(counts.stored, source.total, f"{amount(counts.stored, 'row')}, {rate:.1f} MB/s")

    return moved


def recognised(path: Path, format_name: str, time_key: str = "") -> LogFile:
    """The file with its format; says it on stderr where nothing but plain text fits."""
    file = recognise(path, format_name, time_key)
    if file.doubt:
        err(logging.WARNING, f"sls-lake: {file.doubt}")
    return file


class LoadEnded(SlsError):
    """A load ended in its middle: rows are stored, whatever else the error means."""


def _say_ending(
    output: Output, source: FileLines | NumberedRows, counts: Counts, error: BaseException
) -> None:
    """Say how to go on where rows are stored, or nobody knows it since their answer never came; with `--json`
    the document holds the error, too. Raises LoadEnded then, but for Ctrl-C.

    A refusal, a quota's included, says that the last group was not stored, and a file that breaks ends the
    load before its group is sent. Where the answer was lost, or somebody pressed Ctrl-C, nobody knows: those
    rows were packed and not confirmed, `counts.rows` less `counts.stored`. To go on behind what is confirmed
    may send them twice, to go on behind them may lose them, so the first is offered with the doubt.
    """
    answered = isinstance(error, SlsError) and (
        isinstance(error, Throttled) or not isinstance(error, TransportError)
    )
    unknown = 0 if answered else counts.rows - counts.stored
    if not (counts.stored or unknown):
        return
    stored, again = source.left(counts)
    doubt = f"; of the {unknown:,} after them it is not known, they may come twice then" if unknown else ""
    text = f"{stored}; go on with {again}{doubt}"
    if not isinstance(error, Exception):
        err(logging.WARNING, f"sls-lake: {text}")
        return
    output.result(
        {
            "rows": counts.stored,
            "unknown_rows": unknown,
            "go_on": again,
            "error": {
                "kind": kind_of(error),
                "message": sentence(error),
                "exit_code": EXIT_FAILED,
                **facts(error),
            },
        }
    )
    raise LoadEnded(f"{sentence(error)}. {text}") from error


def _source(path: Path | None) -> str:
    """The file's name; the wire takes UTF-8 only, and a name need not be it."""
    return os.fsencode(path.name).decode("utf-8", "replace") if path is not None else "10.0.0.1"
