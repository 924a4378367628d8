"""All settings files of a project: which logstores they are about, and new ones that a pattern wants.

A refresh asks the service which logstores there are. It adds and never takes away: an outage raises, and a
logstore that is missing from the answer stays in the list (see `project_file.py`). One with which the code
location would not load any more is not kept: whoever may make a logstore must not be able to stop the others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.landing.defs_file import filled, read_attributes
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import checked, describe
from pipelines.landing.project_file import (
    CLASH,
    ProjectAttributes,
    members,
    name_of,
    one_in_dagster,
    read_kept,
    read_project,
    write_kept,
)
from pipelines.landing.table.home import alone_in, defs_files, project_files, single_files
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Service
from sls_io.values.side_by_side import answers
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

_ANY_START = "2026-01-01-00:00"
Entry = tuple[str, Path | str, Mapping[str, Any] | ConfigError]


@dataclass(frozen=True)
class Refreshed:
    """What the service said of a project's file; logstore -> start.

    file     the settings
    project  as the service calls it
    kept     what was kept before, `new` what is to be kept beside it
    refused  new ones whose settings would not load -> why
    gone     kept ones that the service does not list
    """

    file: Path
    project: str
    kept: Mapping[str, str]
    new: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()


def name_of_all(file: Path) -> str:
    """How what is about all logstores of a project's `file` begins; Dagster takes letters, digits and `_`."""
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', file.parent.name)}_logstores"


def refreshed(file: Path, root: Path, *, deadline_s: float | None = None) -> Refreshed:
    """Ask the service for new logstores of a project's `file`. Changes nothing; `deadline_s` bounds a call.

    Raises ConfigError for a file or a list that cannot be read, and where two that are kept would have one
    name in Dagster; what the service's calls raise.
    """
    project, folder = read_project(file), file.parent
    kept, service = read_kept(folder), _service(project, file)
    with SlsClient(service, deadline_s=deadline_s) as client:
        there = client.logstores()
    fresh = [name for name in there if project.wants(name) and name not in kept]

    def made(name: str) -> str:
        of_one = service.model_copy(update={"logstore": name})
        with SlsClient(of_one, deadline_s=deadline_s) as client:
            return hour_text(client.origin().created_s // HOUR_S)

    starts = dict(answers(made, fresh))
    files = defs_files(root)
    mine = {name_of(project.of(name, start)): name for name, start in kept.items() if project.wants(name)}
    taken = names_of_all(files) | dict(named(written(files))) | {its: f"{file} ({mine[its]})" for its in mine}
    new, refused = dict[str, str](), dict[str, str]()
    for name, start in starts.items():
        if why := _wrong(project, file, name, start, taken):
            refused[name] = why
        else:
            new[name] = start
            taken[name_of(project.of(name, start))] = f"{file} ({name})"
    # Of those that were kept before, and of overrides: what keeps all from loading stops here, too.
    members(project, folder, {**kept, **new})
    gone = tuple(sorted(name for name in kept.keys() - {*there} if project.wants(name)))
    return Refreshed(file, service.project, kept, new, refused, gone)


def keep(found: Refreshed) -> None:
    """Keep what is new. Raises ConfigError where the list cannot be written.

    What somebody else has kept meanwhile stays, and a start is the hour in which the logstore was made,
    whoever asks: two that refresh at once keep the same.

    Story: A and B read the list. A was told of one new logstore, B of two. B writes, then A: the second one
    is out of the list again, and the code that is loaded then has no schedule for it.
    """
    if not found.new:
        return
    folder = found.file.parent
    try:
        with alone_in(folder):
            write_kept(folder, {**read_kept(folder), **found.new})
    except OSError as error:
        raise ConfigError(f"{folder} cannot be locked: {error.strerror}; nothing was kept") from error


def written(files: Sequence[Path]) -> Iterator[Entry]:
    """Each logstore that is set up: its name here; the file, and which one of many in it; its attributes as
    written, or what is wrong with the file. Each file is read once."""
    for path in single_files(files):
        try:
            yield path.parent.name, path, read_attributes(path)
        except ConfigError as error:
            yield path.parent.name, path, error
    for path in project_files(files):
        try:
            its = members(read_project(path), path.parent)
        except ConfigError as error:
            yield path.parent.name, path, error
            continue
        for name, attributes in its.items():
            yield name, f"{path} ({name})", attributes


def examples(files: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of each project that has no logstore yet what one would be, so that its settings can be checked before
    the service is asked by them."""
    for path in project_files(files):
        with suppress(ConfigError):  # `written` gives it
            project = read_project(path)
            if not members(project, path.parent):
                yield f"{path} (of any logstore)", project.of("any-logstore", _ANY_START)


def named(entries: Iterable[Entry]) -> Iterator[tuple[str, Path | str]]:
    """Of what `written` gives: the name that each logstore has in Dagster, the last part of its table, and
    its place. A file that cannot be read is said by `check`, and by the verbs that mean it."""
    for _, place, attributes in entries:
        if isinstance(attributes, ConfigError):
            continue
        try:
            table = filled({"table": attributes.get("table")}, place)[0]["table"]
        except ConfigError:
            continue
        yield str(table).rpartition(".")[2], place


def names_of_all(files: Sequence[Path]) -> dict[str, Path | str]:
    """What the names of definitions begin with that are about all logstores of a project's file, and its
    place: no logstore may be called so."""
    return {name_of_all(file): file for file in project_files(files)}


def one_name(name: str, place: Path | str, taken: Mapping[str, Path | str]) -> ConfigError | None:
    """What is said of a logstore of this name whose settings are at `place`, where one of the names that are
    `taken`, with their places, gets in its way in Dagster."""
    if (other := one_in_dagster(name, taken)) is None:
        return None
    beside = "what is called the same" if other == name else f"{other}, {CLASH},"
    return ConfigError(
        f"{place}: its table makes it the logstore {name}, beside {beside} of {taken[other]}: Dagster tells "
        "logstores apart by the last part of `table`; give one of them another, or `exclude` it"
    )


def _wrong(
    project: ProjectAttributes, file: Path, name: str, start: str, taken: Mapping[str, Path | str]
) -> str:
    """Why the definitions of this logstore would not load beside those whose names are `taken`; "" where they
    do."""
    place, attributes = f"{file} ({name})", project.of(name, start)
    try:
        checked(filled(attributes, place)[0], place)
    except ConfigError as error:
        return str(error)
    return str(one_name(name_of(attributes), place, taken) or "")


def _service(project: ProjectAttributes, path: Path) -> Service:
    values, unset = filled({"service": {**project.service, "logstore": "any"}}, path)
    if unset:
        raise ConfigError(f"{path} needs the environment variable {next(iter(unset.values()))}: export it")
    try:
        return Service.model_validate(values["service"])
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from error
