"""`sls-lake check`: every logstore that is set up, its settings read as Dagster will. Asks no service."""

import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from pipelines.cli.logstores import defs_of, project_root
from pipelines.cli.output import Output, verb
from pipelines.landing.projects import examples, names_of_all, written
from pipelines.landing.table.home import defs_files, project_files, single_files
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, amount
from sls_io.values.named import load

if TYPE_CHECKING:
    from pipelines.landing.logstore import Logstore


@click.command("check")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@verb
def check(output: Output, *, path: Path | None) -> None:
    """Read every logstore's defs.yaml, or those of PATH: its name here, its place in the service, its table
    and its start, and what is wrong with it.

    An endpoint, or an address of leases, whose variable is not set is a note: definitions load without it,
    and say so when something runs. Everything that would keep them from loading is an error, and so is a
    hook, a transform or a function of keys that is not there: definitions load without it, and every run is
    refused.
    """
    defs = path or defs_of(project_root())
    files = ([path] if path.is_file() else sorted(path.rglob("defs.yaml"))) if path else defs_files(defs)
    if path and not files:
        # Nothing was read, so nothing is right: a path that is misspelt in a job of CI would pass for ever.
        raise ConfigError(f"{path}: no defs.yaml lies there or below it")
    names = names_of_all(files)
    found = sorted((_read(*each, names) for each in written(files)), key=lambda read: read.name)
    found += [read for each in examples(files) if (read := _read("(any)", *each, {})).wrong]
    output.table(
        ["name", "project", "logstore", "table", "start (UTC)", ""],
        [
            (*map(escape, (x.name, x.project, x.logstore, x.table, x.start)), "[red]wrong[/]" * bool(x.wrong))
            for x in found
        ],
        less=("start (UTC)", "project"),
    )
    for read in found:
        _say(output, read)
    strange = list(_strangers(defs, {*single_files(files), *project_files(files)}))
    for wrong in strange:
        output.say(f"[red]wrong[/]: {escape(wrong)}")
    bad = sum(bool(read.wrong) for read in found) + len(strange)
    output.say(f"{amount(len(found), 'logstore')} read, {bad} wrong")
    document = {"logstores": [*map(asdict, found)], "others_wrong": strange, "ok": not bad}
    output.result(document, fails=bool(bad))


@dataclass(frozen=True)
class _Read:
    """What is said of one logstore: its `name` here; what its settings name, where they can be read; what is
    `wrong`, variables that are not set, a start `to_come`."""

    name: str
    path: str
    project: str = ""
    logstore: str = ""
    table: str = ""
    start: str = ""
    wrong: str = ""
    unset: str = ""
    unset_database: str = ""
    to_come: str = ""


def _read(name: str, place: Path | str, attributes: Any, names: dict[str, Path | str]) -> _Read:
    """One logstore's file; `names` gets its name in Dagster, which no other may have."""
    from pipelines.landing.environment import filled
    from pipelines.landing.logstore import checked
    from pipelines.landing.projects import one_name

    read = _Read(name, str(place))
    try:
        if isinstance(attributes, ConfigError):
            raise attributes
        values, unset = filled(attributes, place)
        read = replace(read, unset=unset)
        logstore = checked(values, place)
        service = logstore.service
        read = replace(read, project=service.project, logstore=service.logstore, table=logstore.table)
        read = replace(read, start=logstore.start)
        if (error := one_name(logstore.name, place, names)) is not None:
            raise error
        names[logstore.name] = place
        try:
            _require_what_is_named(logstore)
        except ConfigError as error:
            raise ConfigError(f"{place}: runs of {logstore.name} will be refused: {error}") from None
    except ConfigError as error:
        return replace(read, wrong=str(error))
    variable = logstore.coordinator.variable
    return replace(
        read,
        to_come=logstore.ahead(SYSTEM_CLOCK.now()),
        unset_database=variable if variable and not os.environ.get(variable) else "",
    )


def _say(output: Output, read: _Read) -> None:
    if read.wrong:
        output.say(f"[red]wrong[/]: {escape(read.wrong)}")
        return
    if read.to_come:
        output.say(f"[yellow]to come[/]: {escape(f'{read.path}: {read.to_come}')} (by this machine's clock)")
    for what, variable in (("endpoint", read.unset), ("address of leases", read.unset_database)):
        if variable:
            output.say(f"[yellow]not set[/]: {escape(read.path)} takes its {what} from {variable}")


def _require_what_is_named(logstore: "Logstore") -> None:
    """Whether what the settings name of other people's code is there, and a kind of database that we know.
    Raises ConfigError."""
    from pipelines.landing.run.hooks import Hooks
    from pipelines.landing.transform import Transform
    from sls_io.coordination.assignors import named
    from sls_io.coordination.database import parsed

    Transform(logstore.transform)
    Hooks(logstore.name, logstore.hooks, lambda _: None)
    named(logstore.coordinator.assignor)
    credentials = logstore.service.credentials
    if credentials.provider == "import":
        load("credentials.name", credentials.name)
    if logstore.coordinator.leases and not logstore.coordinator.variable:
        parsed(logstore.coordinator.database)


def _strangers(defs: Path, ours: Collection[Path]) -> Iterator[str]:
    """What is wrong with the files that are about no logstore. A type that nobody can load is most often ours
    with a slip of the pen; Dagster would load none of the definitions."""
    from pipelines.landing.defs_file import FILES, component, read_document

    below = [defs] if defs.is_file() else sorted(path for name in FILES for path in defs.rglob(name))
    for path in below:
        if path in ours:
            continue
        try:
            _require_type(path, component(path, read_document(path))["type"])
        except ConfigError as error:
            yield str(error)


def _require_type(path: Path, kind: str) -> None:
    """That the type a file names can be loaded. Raises ConfigError."""
    from pipelines.landing.defs_file import no_such_type

    module, _, name = kind.rpartition(".")
    try:
        load("type", f"{module}:{name}", "a class")
    except ConfigError:
        raise no_such_type(path, kind) from None
