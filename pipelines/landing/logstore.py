"""What one logstore's `defs.yaml` says: a frozen model shared by Dagster and the command line."""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from sls_io.errors import ConfigError
from sls_io.settings import Budget, Group, Service, Settings
from sls_io.window import HOUR_S

_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,127}\.[a-z_][a-z0-9_]{0,127}")
_START_FORMAT = "%Y-%m-%d-%H:%M"
_TEMPLATE = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_DURATION = re.compile(r"(\d+)\s*(s|m|h|d)")
_DURATION_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Logstore(Settings):
    """One logstore and the table it lands in.

    table      `namespace.name` in the catalog
    start      first receive hour of the history, `YYYY-MM-DD-HH:MM` UTC; nothing before it is landed
    reset      where the very first run begins: earliest, latest, group, none, an ISO time, a duration
    columns    log key -> declared type (see contract.py)
    maintenance, proof  when their schedules tick, as cron, once somebody turns them on
    order      children wait until their parents are closed
    """

    service: Service
    group: Group
    table: str
    start: str
    reset: str = "earliest"
    columns: dict[str, str] = Field(default_factory=dict)
    schedule: str = "*/5 * * * *"
    maintenance: str = "40 2 * * *"
    proof: str = "10 4 * * *"
    budget: Budget = Budget()
    coordinator: Literal["server_group"] = "server_group"
    splits_per_hour: Annotated[int, Field(ge=1, le=60)] = 1

    @model_validator(mode="before")
    @classmethod
    def _group_may_be_a_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("group"), str):
            return {**data, "group": {"name": data["group"]}}
        return data

    @field_validator("table")
    @classmethod
    def _table_is_two_names(cls, value: str) -> str:
        if not _TABLE.fullmatch(value):
            raise ValueError("table: expected namespace.name in lower-case letters, digits and '_'")
        return value

    @field_validator("start")
    @classmethod
    def _start_is_an_hour(cls, value: str) -> str:
        try:
            at = datetime.strptime(value, _START_FORMAT)
        except ValueError:
            raise ValueError("start: expected YYYY-MM-DD-HH:MM (UTC), such as 2026-11-20-00:00") from None
        if at.minute:
            raise ValueError("start: must be a whole hour, such as 2026-11-20-00:00")
        return value

    @field_validator("reset")
    @classmethod
    def _reset_is_known(cls, value: str) -> str:
        if value in ("earliest", "latest", "group", "none") or _DURATION.fullmatch(value):
            return value
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                "reset: one of earliest, latest, group, none, an ISO time with zone, or a duration such as 6h"
            ) from None
        return value

    @property
    def name(self) -> str:
        """The last part of the table's name; Dagster and the command line call the logstore this."""
        return self.table.split(".")[1]

    @property
    def start_s(self) -> int:
        """`start` as unix seconds."""
        return int(datetime.strptime(self.start, _START_FORMAT).replace(tzinfo=UTC).timestamp())

    @property
    def start_hour(self) -> int:
        """`start` as hours since 1970."""
        return self.start_s // HOUR_S

    def reset_time_s(self, now_s: float) -> int | None:
        """The unix time a time or duration policy means; None for the named policies."""
        duration = _DURATION.fullmatch(self.reset)
        if duration:
            return int(now_s) - int(duration[1]) * _DURATION_S[duration[2]]
        if self.reset in ("earliest", "latest", "group", "none"):
            return None
        at = datetime.fromisoformat(self.reset)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())


def load_logstore(path: Path) -> Logstore:
    """Read a `defs.yaml`. Raises ConfigError that names the file, the setting and the cure."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {path}: {error.strerror}; name a logstore that has a defs.yaml"
        ) from error
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "somewhere"
        raise ConfigError(f"{path}, {where}: not valid YAML; fix it or compare with the README") from error
    if not isinstance(document, dict) or not isinstance(document.get("attributes"), dict):
        raise ConfigError(f"{path}: expected `type:` and `attributes:`; see the example in the README")
    attributes = _filled(document["attributes"], _environment(path))
    try:
        return Logstore.model_validate(attributes)
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from error


def describe(error: ValidationError) -> str:
    """The problems of a validation, one sentence each, without the values that were given."""
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        where = ".".join(str(x) for x in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        lines.append(
            message if not where or message.startswith(where.split(".")[-1]) else f"{where}: {message}"
        )
    return "; ".join(lines)


def _filled(value: Any, environment: Callable[[re.Match[str]], str]) -> Any:
    """`value` with the templates in its texts replaced, after parsing: what stands in a variable is
    never read as YAML, and a template in a comment needs none."""
    if isinstance(value, str):
        return _TEMPLATE.sub(environment, value)
    if isinstance(value, dict):
        return {key: _filled(inner, environment) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, environment) for inner in value]
    return value


def _environment(path: Path) -> Callable[[re.Match[str]], str]:
    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"{path} needs the environment variable {match[1]}, which is not set")
        return found

    return value
