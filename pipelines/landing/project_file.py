"""Many logstores of a project from one `defs.yaml`: patterns, one block of defaults, a list that is kept.

    service     as of a logstore, without `logstore`
    logstores   patterns of names, such as `nginx-*`; one, or a list
    exclude     patterns of those that are left out
    defaults    what every one of them has; `table` and `mirror` may hold {logstore}, the name as a table can
                be called
    overrides   name of a logstore -> what differs for it
    sensors     those of all together that run with the code that is deployed: `logstores` refreshes the list

Which logstores there are stands in `logstores.json` beside the file. A refresh (`projects.py`), by the
command line or by the sensor, asks the service and adds the new ones, each with the hour in which it was
made, where its history begins. Nothing is ever taken out of the list by an answer: a service that is away, or
that says that a logstore is gone, must not take its assets, its schedule and the name of its table with it.
Who reads the definitions asks nobody, so they load without a network and are the same for all processes.

Dagster's own way to keep such a list (`StateBackedComponent`, 1.13) removes what it kept before it asks
again, so one outage would take all logstores away; and the command line could not read it.
"""

import json
import re
from collections.abc import Container, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from pipelines.landing.bounds import ProjectSensor
from pipelines.landing.defs_file import read_attributes, write_whole
from sls_io.values.cron import cron_of
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, printable
from sls_io.values.settings import Settings

KEPT = "logstores.json"
TABLE = "bronze.{logstore}"
_SPREAD = {"schedule": "H/5 * * * *", "maintenance": "H 2 * * *", "proof": "H 4 * * *"}
"""When the schedules of many tick, unless they say otherwise: each in a minute of its own name."""
_NAMED = frozenset({"table", "mirror"})
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
CLASH = "of which Dagster would mix up what belongs to them"
_PATTERN = re.compile(r"(?:[a-z0-9_*?-]|\[!?[a-z0-9_-]+\])+")
_START = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}:00")
_REFRESH = Call(("new", "--refresh"), harmless=True, does="finds new ones")
_KEPT_BYTES_MAX = 4 * 1024**2
ENDINGS = ("sealed", "proof", "maintenance")
"""A logstore `web` has an asset `web_sealed`, and the schedules `web_proof_schedule` and
`web_maintenance_schedule`. So would a logstore `web_sealed`, `web_proof` or `web_maintenance`."""


class ProjectAttributes(Settings):
    """The attributes of an `SlsProject` as they are written; what is in `defaults` is checked for each
    logstore."""

    service: dict[str, Any]
    logstores: list[str] = Field(min_length=1)
    exclude: list[str] = Field(default_factory=list)
    defaults: dict[str, Any]
    overrides: dict[str, dict[str, Any]] = Field(default_factory=dict)
    sensors: frozenset[ProjectSensor] = frozenset()
    schedule: str = ""

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, value: str, info: ValidationInfo) -> str:
        project = str(info.data.get("service", {}).get("project", ""))
        return cron_of(value, "schedule", project) if value else ""

    @field_validator("logstores", "exclude", mode="before")
    @classmethod
    def _one_will_do(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("logstores", "exclude")
    @classmethod
    def _match_names(cls, value: list[str]) -> list[str]:
        if strange := next((each for each in value if not _PATTERN.fullmatch(each)), None):
            raise ValueError(
                f"{printable(strange)!r} matches no logstore: a pattern has lower-case letters, digits, `-` "
                "and `_`, `*` for any of them, `?` for one, and `[...]` for one of these"
            )
        return value

    @field_validator("service")
    @classmethod
    def _names_no_logstore(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "logstore" in value:
            raise ValueError("service: leave `logstore` out, the patterns in `logstores` name them")
        return value

    @field_validator("defaults")
    @classmethod
    def _tables_differ(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "service" in value:
            raise ValueError("defaults: `service` stands beside it, for all of them")
        if "{logstore}" not in str(value.get("table", TABLE)):
            raise ValueError("defaults: each logstore needs a table of its own: put {logstore} into `table`")
        return value

    def wants(self, name: str) -> bool:
        """Whether the patterns are about this logstore."""
        return _any(self.logstores, name) and not _any(self.exclude, name)

    def of(self, name: str, start: str) -> dict[str, Any]:
        """The attributes of one logstore, templates not filled in.

        Worked example: of `nginx-eu`, with `mirror: file:/m/{logstore}` for all and its own `schedule`: table
        `bronze.nginx_eu`, mirror `file:/m/nginx_eu`, that schedule, `H 2 * * *` for the maintenance. Each
        gives way to the next: the start of the list and our defaults, `defaults`, `overrides`.
        """
        found = {"start": start, "table": TABLE, **_SPREAD, **self.defaults, **self.overrides.get(name, {})}
        for key in _NAMED & found.keys():
            found[key] = str(found[key]).replace("{logstore}", name.replace("-", "_"))
        return {"service": {**self.service, "logstore": name}, **found}


def attributes_of(written: Any, place: object) -> ProjectAttributes:
    """The checked attributes. Raises ConfigError that names `place`, the setting and the cure."""
    try:
        return ProjectAttributes.model_validate(written)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        said = [_said(".".join(map(str, p["loc"])), p["type"], p["msg"]) for p in problems]
        raise ConfigError(f"{place}: {'; '.join(said)}") from None


def read_project(path: Path) -> ProjectAttributes:
    """From a `defs.yaml`. Raises ConfigError."""
    return attributes_of(read_attributes(path), path)


def members(
    project: ProjectAttributes, folder: Path, kept: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Name of each kept logstore, as its table is called -> its attributes, templates not filled in.

    `kept` stands for the list that is in the folder. Raises ConfigError for two with one name, for an
    override of none, and for a list that cannot be read.

    Names are compared as tables are called: `web-logs` and `web_logs` are two logstores and would be one
    table, so they are refused. An override of a logstore that is not kept is, too: it is a slip of the pen,
    or a refresh that is still to come.
    """
    kept = read_kept(folder) if kept is None else kept
    wanted = {name: start for name, start in kept.items() if project.wants(name)}
    if unknown := sorted(project.overrides.keys() - wanted.keys()):
        raise ConfigError(
            f"{folder / 'defs.yaml'}: overrides.{printable(unknown[0])}: no such logstore is kept; there are "
            f"{', '.join(wanted) or 'none'}",
            cures=(_REFRESH,),
        )
    found: dict[str, dict[str, Any]] = {}
    logstores: dict[str, str] = {}
    for logstore, start in wanted.items():
        attributes = project.of(logstore, start)
        name = name_of(attributes)
        if (other := one_in_dagster(name, found)) is not None:
            both = f"both land in a table {name!r}" if other == name else f"be {other} and {name}, {CLASH}"
            raise ConfigError(
                f"{folder / 'defs.yaml'}: the logstores {logstores[other]!r} and {logstore!r} would {both}: "
                "give one of them another `table` under `overrides`, or `exclude` it"
            )
        found[name], logstores[name] = attributes, logstore
    return found


def name_of(attributes: Mapping[str, Any]) -> str:
    """What a logstore is called: the last part of its table."""
    return str(attributes["table"]).rpartition(".")[2]


def one_in_dagster(name: str, others: Container[str]) -> str | None:
    """That of the `others` of which Dagster cannot tell a logstore of this name, or what belongs to it; None
    where it can.

    Worked example: beside `web` no `web` may be, and no `web_proof`; beside `web_proof` no `web`.
    """
    mixed = (f"{name}_{ending}" for ending in ENDINGS)
    within = (name.removesuffix(f"_{ending}") for ending in ENDINGS)
    return next((each for each in (name, *within, *mixed) if each in others), None)


def read_kept(folder: Path) -> dict[str, str]:
    """Logstore -> start, by name; empty where nothing was kept yet. Raises ConfigError for what we did not
    write: a list that is taken for empty would take all logstores away."""
    path = folder / KEPT
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    try:
        if len(raw) > _KEPT_BYTES_MAX:
            raise ValueError
        document = json.loads(raw)
        kept = {name: entry["start"] for name, entry in document["logstores"].items()}
        if not all(_NAME.fullmatch(name) and _START.fullmatch(start) for name, start in kept.items()):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            f"{path} is not what `new --refresh` writes: restore it, or delete it and refresh",
            cures=(_REFRESH,),
        ) from None
    return dict(sorted(kept.items()))


def write_kept(folder: Path, kept: Mapping[str, str]) -> None:
    """Keep the list: the old one or the new one is there, whatever happens. Raises ConfigError."""
    path = folder / KEPT
    text = json.dumps({"logstores": {name: {"start": kept[name]} for name in sorted(kept)}}, indent=2) + "\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; nothing was changed") from error


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _said(where: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        there = ", ".join(ProjectAttributes.model_fields)
        return f"{printable(where)}: no such setting; there are {there}"
    if kind == "missing":
        return f"{where}: is missing"
    return (
        message.removeprefix("Value error, ") if kind == "value_error" else f"{printable(where)}: {message}"
    )
