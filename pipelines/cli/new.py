"""`sls-lake new`: the defs.yaml of a logstore, its columns taken from its newest logs or from a file of such.

Each type is tried over a sample, by the cast that landings use; beside it stands how many do not fit.
Of a logstore that is set up already nothing is written: its columns are shown beside the sample's.
`--refresh` sets up what the patterns of a project's settings name.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.files.lines import TIME_KEYS
from pipelines.cli.files.loading import timeless_text
from pipelines.cli.files.log_files import AUTO, parse_file
from pipelines.cli.files.packing import Counts
from pipelines.cli.load import format_option, recognised
from pipelines.cli.logstores import defs_of, project_root
from pipelines.cli.output import Output, verb
from pipelines.cli.project import refresh_all
from pipelines.landing.defs_file import write_whole
from pipelines.landing.first_file import NO_COLUMNS, FirstLook, Named, ask, require_answer, text
from pipelines.landing.logstore import checked
from pipelines.landing.projects import named, names_of_all, one_name, written
from pipelines.landing.suggestion import SAMPLE_LOGS, Contents, Suggested, lines, suggested
from pipelines.landing.table.home import defs_files
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, amount, printable

LOGSTORE = "logstore"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}", re.ASCII)
_ANY_HOUR = "2026-01-01-00:00"
_BESIDE_REFRESH = frozenset({"refresh", "execute", "as_json", "wide", "debug"})


@click.command("new")
@click.argument("name", required=False)
@click.option(
    "--from",
    "source",
    default=LOGSTORE,
    show_default=True,
    metavar="logstore|FILE",
    help="Where the logs are whose keys become columns: the newest of the logstore, or those of a file.",
)
@format_option("FILE")
@click.option("--endpoint", default="", help="Of the service.  [default: {{ env.SLS_ENDPOINT }}]")
@click.option("--in", "place", default="", metavar="PROJECT/LOGSTORE", help="There.  [default: demo/NAME]")
@click.option(
    "--provider",
    default="",
    metavar="PROVIDER[:NAME]",
    help="Of keys: `default` is the vendor's chain, such as an ECS role.  [default: env]",
)
@click.option("--group", default="", help="Consumer group.  [default: lake]")
@click.option("--table", default="", help="namespace.name in the catalog.  [default: bronze.NAME]")
@click.option(
    "--start", default="", help="First receive hour, YYYY-MM-DD-HH:00 UTC.  [default: the oldest log's]"
)
@click.option("--refresh", is_flag=True, help="Instead of NAME: ask for new ones that patterns name.")
@execute_option
@verb
def new(
    output: Output,
    *,
    name: str | None,
    source: str,
    format_name: str,
    endpoint: str,
    place: str,
    provider: str,
    group: str,
    table: str,
    start: str,
    refresh: bool,
    execute: bool,
) -> None:
    """Write the defs.yaml of the logstore NAME, with columns for the keys of its logs.

    --refresh asks the service for new logstores that the patterns of a project's settings name, and
    --execute keeps them. Nothing is taken out of the list: a logstore that the service does not list any more
    keeps its table, and is named. Reload Dagster's code location afterwards.
    """
    _require_one_way(refresh=refresh, execute=execute)
    if name is None:
        refresh_all(output, execute=execute)
        return
    root = project_root()
    defs, files = defs_of(root), defs_files(root)
    others = {entry[0]: entry for entry in written(files)}
    if name in others:
        _show_beside(output, name, others[name][2], source, format_name)
        return
    asked = _named(name, place, endpoint=endpoint, group=group, table=table, provider=provider)
    path = defs / name / "defs.yaml"
    # What is wrong with a name is said before anybody is asked.
    fresh = checked(asked.settings(start or _ANY_HOUR), path).name
    if (error := one_name(fresh, path, names_of_all(files) | dict(named(others.values())))) is not None:
        raise error
    answer = ask(asked, sample=source == LOGSTORE)
    logs, timeless = _sampled(output, source, format_name, answer)
    keys = suggested(logs)
    begins, why = (start, "As it was asked for.") if start else (answer.start, answer.why)
    write(path, asked, begins, why, keys, len(logs))
    output.say(f"wrote {path}: table {asked.table}, history from {begins}. {why}")
    _show(output, keys, len(logs))
    _say_next(output, name, source, format_name, _say_timeless(output, timeless, logs, keys))
    output.result(
        {
            "path": str(path),
            "table": asked.table,
            "start": begins,
            "logs": len(logs),
            "shards": answer.shards,
            "retention_s": answer.retention_s,
            "columns": [asdict(key) for key in keys],
        }
    )


def _require_one_way(*, refresh: bool, execute: bool) -> None:
    """That the call is about one logstore, or a refresh and nothing else. Raises UsageError."""
    if not refresh and execute:
        raise click.UsageError("--execute keeps what --refresh finds: say --refresh, too")
    context = click.get_current_context()
    typed = [
        parameter.get_error_hint(context)
        for parameter in context.command.params
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        and parameter.name not in _BESIDE_REFRESH
    ]
    if refresh and typed:
        raise click.UsageError(
            f"--refresh takes its settings from the project's file: leave out {', '.join(typed)}"
        )
    if not refresh and context.params["name"] is None:
        raise click.UsageError("name a logstore, or say --refresh for those that patterns name")


def _named(name: str, place: str, **said: str) -> Named:
    """The logstore at `place`, PROJECT/LOGSTORE, as its settings name it. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{printable(name)!r} is no name of a folder: letters, digits, - and _, at most 63")
    project, _, logstore = place.partition("/")
    if place and not logstore:
        raise ConfigError(f"--in {printable(place)}: write PROJECT/LOGSTORE, as the service calls them")
    return Named.of(name, project=project, logstore=logstore, **said)


def write(path: Path, asked: Named, start: str, why: str, keys: Sequence[Suggested], logs: int) -> None:
    """Write a defs.yaml that loads. Raises ConfigError for what would not, and then nothing is written."""
    if path.exists():
        raise ConfigError(f"{path} is there already, and is no logstore's: choose another name")
    columns = {key.key: key.type for key in keys if key.type}
    checked({**asked.settings(start), "columns": columns}, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = lines(keys, logs) if keys else NO_COLUMNS
    write_whole(path, text(asked, start, why, shown))


def _sampled(output: Output, source: str, format_name: str, answer: FirstLook) -> tuple[list[Contents], int]:
    """The logs that the columns come from, and how many of a file have no time where it is looked for; says
    where they are from."""
    if source == LOGSTORE:
        require_answer(answer)
        days = "for ever" if answer.retention_s is None else f"{answer.retention_s / 86_400:g} days"
        output.say(
            f"looked at the newest {amount(len(answer.logs), 'log')}; shards: {answer.shards}; "
            f"the service keeps logs {days}"
        )
        return answer.logs, 0
    path = Path(source)
    # Not `Path.is_file`: of a name that is too long for any file that raises.
    if not os.path.isfile(path):
        what = "is a folder or a pipe" if os.path.exists(path) else "is not there"
        raise ConfigError(
            f"{printable(source)} {what}: name a file of such logs, or say --from {LOGSTORE} for the newest "
            "of the logstore"
        )
    file = recognised(path, format_name)
    logs = [*islice(parse_file(file, Counts()), SAMPLE_LOGS)]
    output.say(f"read {path.name} as {file.format_name}: its first {amount(len(logs), 'log')}")
    if odd := sum(not log.whole for log in logs):
        output.say(
            f"[yellow]{odd:,} of them are no {file.format_name}[/]: each is kept whole under the key `line`; "
            "--format names another format"
        )
    return [log.contents for log in logs], sum(log.timeless for log in logs)


def _say_timeless(output: Output, timeless: int, logs: Sequence[Contents], keys: Sequence[Suggested]) -> str:
    """Say where logs of the file have no time of their own. Where none has one, the first key that was typed
    as a time; "" for no such key."""
    if not timeless:
        return ""
    output.say(f"[yellow]{timeless:,} of {len(logs):,} logs {escape(timeless_text(TIME_KEYS))} to `load`[/]")
    times = (key.key for key in keys if key.type.startswith("timestamp") and timeless == len(logs))
    return next(times, "")


def _show(output: Output, keys: Sequence[Suggested], logs: int) -> None:
    output.table(
        ["key", "type", f">of {logs:,} logs", ">do not fit", ""],
        [
            (escape(printable(key.key, 60)), key.type, key.values, key.misfits or "", escape(key.why))
            for key in keys
        ],
    )


def _show_beside(output: Output, name: str, attributes: Any, source: str, format_name: str) -> None:
    """What the sample says, beside what is declared; nothing is written."""
    if isinstance(attributes, ConfigError):
        raise attributes
    declared = attributes.get("columns") or {}
    answer = ask(Named.of_settings(name, attributes), sample=source == LOGSTORE)
    logs, _ = _sampled(output, source, format_name, answer)
    keys = suggested(logs)
    rows = [
        (escape(printable(key.key, 60)), declared.get(key.key, ""), key.type, key.values, key.misfits or "")
        for key in keys
    ]
    output.table(["key", "declared", "type by the sample", f">of {len(logs):,} logs", ">do not fit"], rows)
    unseen = [key for key in declared if key not in {each.key for each in keys}]
    if unseen:
        output.say(f"declared, and in none of these logs: {', '.join(map(escape, unseen))}")
    output.say(f"{name} is set up already: nothing was written; change its columns by hand")
    output.result(
        {"path": None, "logs": len(logs), "columns": [asdict(key) for key in keys], "unseen": unseen}
    )


def _say_next(output: Output, name: str, source: str, format_name: str, time_key: str) -> None:
    timed = ("--time-key", time_key) if time_key else ()
    formed = ("--format", format_name) if format_name != AUTO else ()
    words = ("load", "-l", name, "--file", source, *formed, *timed, "--create")
    load = Call(words, does="sends the file's logs, all of them")
    output.say_cures(
        *([load] if source != LOGSTORE else []),
        Call(("doctor", "-l", name), does="tries all that a landing needs"),
        Call(("land", "-l", name), does="lands what is there"),
        Call(("stage", "-l", name), does="writes its dbt model"),
    )
