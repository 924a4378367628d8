"""All settings files of a project: which logstores they are about, and new ones that a pattern wants.

A refresh asks the service which logstores there are. It adds and never takes away: an outage raises, and a
logstore that is missing from the answer stays in the list (see `project_file.py`). One with which the code
location would not load any more is not kept: whoever may make a logstore must not be able to stop the others.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.landing.defs_file import filled, read_attributes
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import checked
from pipelines.landing.project_file import (
    ProjectAttributes,
    members,
    read_kept,
    read_project,
    write_kept,
)
from pipelines.landing.table.home import defs_files, project_files, single_files
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Service
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

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

    Raises ConfigError for a file or a list that cannot be read, and where two logstores would have one name
    in Dagster; what the service's calls raise.
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

    starts = dict(zip(fresh, side_by_side(made, fresh), strict=True))
    refused = {name: why for name, start in starts.items() if (why := _wrong(project, file, name, start))}
    new = {name: start for name, start in starts.items() if name not in refused}
    # Asked before it is kept: two names that would be one table stop here, not in every process.
    _refuse_taken(members(project, folder, {**kept, **new}), file, root)
    gone = tuple(sorted(name for name in kept.keys() - {*there} if project.wants(name)))
    return Refreshed(file, service.project, kept, new, refused, gone)


def keep(found: Refreshed) -> None:
    """Keep what is new. Raises ConfigError where the list cannot be written.

    What somebody else has kept meanwhile stays, and a start is the hour in which the logstore was made,
    whoever asks: two that refresh at once keep the same.
    """
    if found.new:
        folder = found.file.parent
        write_kept(folder, {**read_kept(folder), **found.new})


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


def _wrong(project: ProjectAttributes, file: Path, name: str, start: str) -> str:
    """Why the settings of this logstore would not load; "" where they do."""
    place = f"{file} ({name})"
    try:
        checked(filled(project.of(name, start), place)[0], place)
    except ConfigError as error:
        return str(error)
    return ""


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
