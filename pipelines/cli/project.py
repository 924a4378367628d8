"""`sls-lake logstores`: what the project's settings are about, and new logstores of the service."""

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.logstores import defs_of, project_root
from pipelines.cli.output import Output, verb
from pipelines.landing.logstore import settled
from pipelines.landing.project_file import KEPT
from pipelines.landing.projects import keep, refreshed, written
from pipelines.landing.table.home import defs_files, project_files
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError


@click.command("logstores")
@click.option("--refresh", "new", is_flag=True, help="Ask the service for new ones.")
@execute_option
@verb
def logstores(output: Output, *, new: bool, execute: bool) -> None:
    """Show every logstore that is set up: its name here, in the service, its table, its start.

    --refresh asks the service for new logstores that the patterns of a project's settings name, and
    --execute keeps them. Nothing is taken out of the list: a logstore that the service does not list any more
    keeps its table, and is named. Reload Dagster's code location afterwards.
    """
    if new:
        _refresh(output, execute=execute)
    elif execute:
        raise click.UsageError("--execute keeps what --refresh finds: say --refresh, too")
    else:
        _show(output)


def _show(output: Output) -> None:
    rows = []
    for name, place, attributes in sorted(written(defs_files(project_root())), key=lambda each: each[0]):
        if isinstance(attributes, ConfigError):
            raise attributes
        found = settled(attributes, place)
        service = found.service
        rows.append(
            {
                "name": name,
                "project": service.project,
                "logstore": service.logstore,
                "table": found.table,
                "start": found.start,
            }
        )
    output.table(
        ["name", "project", "logstore", "table", "start (UTC)"],
        [tuple(escape(row[key]) for key in row) for row in rows],
        less=("start (UTC)", "project"),
    )
    output.result({"logstores": rows})


def _refresh(output: Output, *, execute: bool) -> None:
    root = project_root()
    paths = project_files(defs_files(root))
    if not paths:
        raise ConfigError(
            f"no file under {defs_of(root)} is of the type pipelines.components.SlsProject: "
            "each logstore has a file of its own",
            cures=(Call(("logstores",), does="shows them"),),
        )
    found = [_refreshed(output, path, root, execute=execute) for path in paths]
    if execute:
        output.say("done; reload the code location in Dagster where something is new")
    elif any(project["new"] for project in found):
        output.say_dry()
    output.result({"executed": execute, "projects": found})


def _refreshed(output: Output, path: Path, root: Path, *, execute: bool) -> dict[str, Any]:
    found = refreshed(path, root)
    if execute:
        keep(found)
    output.say(
        f"{escape(path.parent.name)}: {len(found.kept)} logstores of {escape(found.project)} are kept, "
        f"{len(found.new)} new"
    )
    output.table(["new", "start (UTC)"], [(escape(name), start) for name, start in found.new.items()])
    for why in found.refused.values():
        output.say(f"[yellow]not kept, it would not load[/]: {escape(why)}. Put it right, or `exclude` it")
    if found.gone:
        output.say(
            f"[yellow]not listed by the service any more[/]: {escape(', '.join(found.gone))}; they stay. To "
            f"let go of one, take it out of {escape(str(path.parent / KEPT))}: its table stays as it is"
        )
    return {
        "file": str(path),
        "kept": sorted(found.kept),
        "new": dict(found.new),
        "refused": dict(found.refused),
        "not_listed": list(found.gone),
    }
