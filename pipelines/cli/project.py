"""`sls-lake logstores`: what the project's settings are about, and new logstores of the service."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.cli.deciding import execute_option
from pipelines.cli.logstores import defs_files, named, project_files, project_root, written
from pipelines.cli.output import Output, verb
from pipelines.landing.defs_file import filled
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import settled
from pipelines.landing.project_file import (
    KEPT,
    ProjectAttributes,
    members,
    read_kept,
    read_project,
    write_kept,
)
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Service
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient


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
            f"no file under {root / 'pipelines' / 'defs'} is of the type pipelines.components.SlsProject: "
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
    project, folder = read_project(path), path.parent
    kept = read_kept(folder)
    service = _service(project, path)
    with SlsClient(service) as client:
        there = client.logstores()
    new = {}
    for name in there:
        if project.wants(name) and name not in kept:
            with SlsClient(service.model_copy(update={"logstore": name})) as client:
                new[name] = hour_text(client.origin().created_s // HOUR_S)
    gone = sorted(name for name in kept.keys() - {*there} if project.wants(name))
    after = {**kept, **new}
    # Asked before it is kept: two names that would be one table stop here, not in every process.
    _refuse_taken(members(project, folder, after), path, root)
    if execute and new:
        write_kept(folder, after)
    output.say(
        f"{escape(folder.name)}: {len(kept)} logstores of {escape(service.project)} are kept, {len(new)} new"
    )
    output.table(["new", "start (UTC)"], [(escape(name), start) for name, start in new.items()])
    if gone:
        output.say(
            f"[yellow]not listed by the service any more[/]: {escape(', '.join(gone))}; they stay. To let go "
            f"of one, take it out of {escape(str(folder / KEPT))}: its table stays as it is"
        )
    return {"file": str(path), "kept": sorted(kept), "new": new, "not_listed": gone}


def _refuse_taken(names: Collection[str], path: Path, root: Path) -> None:
    """Raises ConfigError where another file has a logstore of one of these names already."""
    for name, place in named(written(defs_files(root))):
        if name in names and not str(place).startswith(str(path)):
            raise ConfigError(
                f"{path}: one of its logstores would land in a table {name!r}, and so does {place}: Dagster "
                "tells logstores apart by the last part of `table`. Give it another `table` under "
                "`overrides`, or `exclude` it. Nothing was kept"
            )


def _service(project: ProjectAttributes, path: Path) -> Service:
    values, unset = filled({"service": {**project.service, "logstore": "any"}}, path)
    if unset:
        raise ConfigError(f"{path} needs the environment variable {next(iter(unset.values()))}: export it")
    return Service.model_validate(values["service"])
