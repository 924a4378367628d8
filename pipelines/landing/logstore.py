"""What one logstore's `defs.yaml` says: a frozen model shared by Dagster and the command line."""

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from pipelines.landing.defs_file import read_document
from pipelines.landing.names import check_names
from sls_io.errors import ConfigError, printable
from sls_io.settings import Budget, Group, Service, Settings
from sls_io.window import HOUR_S

_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,127}\.[a-z_][a-z0-9_]{0,127}")
_START_FORMAT = "%Y-%m-%d-%H:%M"
_START = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}:[0-9]{2}")
_FIRST_S, _LAST_S = 0, 7_258_118_400
_YEARS = "from 1970 to 2199"
_RESET_DAYS_MAX = 3650
_CRON = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_CRON_PART = re.compile(r"(?:\*|([0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?)(?:/([1-9][0-9]?))?")
_TEMPLATE = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_DURATION = re.compile(r"([0-9]{1,12}) *(s|m|h|d)")
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
            at = datetime.strptime(value if _START.fullmatch(value) else "", _START_FORMAT)
        except ValueError:
            raise ValueError("start: expected YYYY-MM-DD-HH:MM (UTC), such as 2026-11-20-00:00") from None
        if at.minute:
            raise ValueError("start: must be a whole hour, such as 2026-11-20-00:00")
        if not _FIRST_S <= at.replace(tzinfo=UTC).timestamp() < _LAST_S:
            raise ValueError(f"start: an hour {_YEARS}")
        return value

    @field_validator("schedule", "maintenance", "proof")
    @classmethod
    def _is_cron(cls, value: str, info: ValidationInfo) -> str:
        fields = value.split(" ")
        if len(fields) != len(_CRON) or not all(
            _in_range(field, *bounds) for field, bounds in zip(fields, _CRON, strict=True)
        ):
            raise ValueError(f'{info.field_name}: expected the five fields of cron, such as "*/5 * * * *"')
        return value

    @field_validator("columns")
    @classmethod
    def _columns_have_names(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            check_names(value)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("reset")
    @classmethod
    def _reset_is_known(cls, value: str) -> str:
        if value in ("earliest", "latest", "group", "none"):
            return value
        if duration := _DURATION.fullmatch(value):
            if int(duration[1]) * _DURATION_S[duration[2]] > _RESET_DAYS_MAX * 86_400:
                raise ValueError(f"reset: a duration of at most {_RESET_DAYS_MAX} d, which is for ever")
            return value
        try:
            at = datetime.fromisoformat(value)
            if not _FIRST_S <= (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() < _LAST_S:
                raise OverflowError
        except OverflowError:
            raise ValueError(f"reset: a time {_YEARS}") from None
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

    @property
    def reset_ages(self) -> bool:
        """Whether the policy is a duration, which means another time each time it is asked."""
        return _DURATION.fullmatch(self.reset) is not None

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
    document = read_document(path)
    if not isinstance(document, dict) or not isinstance(document.get("attributes"), dict):
        raise ConfigError(f"{path}: expected `type:` and `attributes:`; see the example in the README")
    attributes = _filled(document["attributes"], _environment(path))
    try:
        return Logstore.model_validate(attributes)
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from error


def _in_range(field: str, low: int, high: int) -> bool:
    """Whether one field of cron has numbers from `low` to `high`; names of days and months pass."""
    parts = [_CRON_PART.fullmatch(part) for part in field.split(",")]
    return all(part is not None for part in parts) and all(
        not text.isdigit() or low <= int(text) <= high
        for part in parts
        if part is not None
        for text in part.group(1, 2)
        if text
    )


def describe(error: ValidationError) -> str:
    """The problems of a validation, one sentence each, without the values that were given."""
    lines = []
    for problem in error.errors(include_input=False, include_url=False):
        where = printable(".".join(str(x) for x in problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"no such setting{_meant(problem['loc'])}"
        elif problem["type"] == "string_type":
            message = "expected a text; put it in quotes"
        lines.append(
            message if not where or message.startswith(where.split(".")[-1]) else f"{where}: {message}"
        )
    return "; ".join(lines)


def _meant(place: tuple[int | str, ...]) -> str:
    """The setting that was probably meant with the last part of `place`."""
    model: Any = Logstore
    for part in place[:-1]:
        field = getattr(model, "model_fields", {}).get(str(part))
        model = field.annotation if field else None
    names = list(getattr(model, "model_fields", {}))
    close = get_close_matches(str(place[-1]), names, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(names)}" if names else ""


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
