"""`sls-lake check`: every logstore's defs.yaml read as Dagster will read it. Asks no service."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.logstores import project_files, project_root, single_files
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, verb

if TYPE_CHECKING:
    from sls_io.errors import ConfigError


@click.command("check")
@verb
def check(output: Output) -> None:
    """Read every logstore's defs.yaml, and say what is wrong with it.

    An endpoint whose variable is not set is a note: definitions load without it, and say so when something
    runs. Everything else that would keep them from loading is an error.
    """
    from pipelines.landing.environment import filled
    from pipelines.landing.logstore import checked
    from sls_io.errors import ConfigError

    root = project_root()
    found, names = [], dict[str, Path | str]()
    for place, attributes in _written(root):
        wrong, unset, name = "", "", ""
        try:
            if isinstance(attributes, ConfigError):
                raise attributes
            values, unset = filled(attributes, place)
            name = checked(values, place).name
            if (other := names.setdefault(name, place)) != place:
                raise ConfigError(
                    f"{place}: its table makes it the logstore {name}, and so does {other}: Dagster tells "
                    "logstores apart by the last part of `table`; rename one"
                )
        except ConfigError as error:
            wrong = str(error)
        if wrong:
            output.say(f"[red]wrong[/]: {_escaped(wrong)}")
        elif unset:
            output.say(f"[yellow]not set[/]: {_escaped(str(place))} takes its endpoint from {unset}")
        found.append({"path": str(place), "logstore": name, "wrong": wrong, "unset": unset})
    bad = sum(bool(each["wrong"]) for each in found)
    output.say(f"{len(found)} logstores read, {bad} wrong")
    output.result({"logstores": found, "ok": not bad})
    if bad:
        click.get_current_context().exit(EXIT_FAILED)


def _written(root: Path) -> "Iterator[tuple[Path | str, Mapping[str, Any] | ConfigError]]":
    """(file, and which one of many it is about; the attributes as written, or what is wrong with them)."""
    from pipelines.landing.defs_file import read_attributes
    from pipelines.landing.project_file import members, read_project
    from sls_io.errors import ConfigError

    for path in single_files(root):
        try:
            yield path, read_attributes(path)
        except ConfigError as error:
            yield path, error
    for path in project_files(root):
        try:
            its = members(read_project(path), path.parent)
        except ConfigError as error:
            yield path, error
            continue
        for name, attributes in its.items():
            yield f"{path} ({name})", attributes


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
