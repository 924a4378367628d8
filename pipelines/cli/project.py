"""`sls-lake new --refresh`: new logstores of the service that the patterns of a project's settings name."""

from pathlib import Path
from typing import Any

from rich.markup import escape

from pipelines.cli.logstores import defs_of, project_root
from pipelines.cli.output import Output
from pipelines.landing.project_file import KEPT
from pipelines.landing.projects import keep, refreshed
from pipelines.landing.table.home import defs_files, project_files
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError


def refresh_all(output: Output, *, execute: bool) -> None:
    """Ask the service for new ones, and with `execute` keep them. Raises ConfigError where no settings are of
    a project; what the service's calls raise."""
    root = project_root()
    paths = project_files(defs_files(root))
    if not paths:
        raise ConfigError(
            f"no file under {defs_of(root)} is of the type pipelines.components.SlsProject: "
            "each logstore has a file of its own",
            cures=(Call(("check",), does="shows them"),),
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
