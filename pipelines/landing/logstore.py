"""What one logstore's `defs.yaml` says: a frozen model shared by Dagster and the command line.

One model, so that a setting means the same in a run of Dagster, in a verb and in a test: what is checked here
is refused by all three, with the same words. Neither the service, nor the catalog, nor a clock is asked. So a
file can be checked on a machine that reaches none of them; what depends on them is asked by whoever runs.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from pipelines.landing.bounds import Health, Sensor
from pipelines.landing.defs_file import filled, line_of, read_attributes
from pipelines.landing.project_file import members, read_project
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.names import WrongColumn, check_names, protection
from sls_io.values.cron import cron_of
from sls_io.values.errors import ConfigError, printable
from sls_io.values.moments import END_S, TooLate, unix_s
from sls_io.values.settings import (
    Budget,
    Coordination,
    Group,
    Service,
    Settings,
    is_group_name,
    without_secret,
)
from sls_io.values.window import HOUR_S

_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,127}\.[a-z_][a-z0-9_]{0,127}")
_START_FORMAT = "%Y-%m-%d-%H:%M"
_START = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}:[0-9]{2}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_YEARS = "from 1970 to 2199"
_RESET_DAYS_MAX = 3650
_Shard = Annotated[int, Field(ge=0, lt=2**31)]
_NAMED_CHARS_MAX = 64
_ONE_WORD = {"group": "a name"}
_NO_VALUE = "has no value; write one, or take the line out"
_DURATION = re.compile(r"([0-9]{1,12}) *(s|m|h|d)")
_DURATION_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Logstore(Settings):
    """One logstore and the table it lands in.

    shards     those that a live run reads; without it the ones that its group, or its leases, give it
    table      `namespace.name` in the catalog
    shared     whether the table may hold other logstores, too; each of them says so
    start      first receive hour of the history, `YYYY-MM-DD-HH:MM` UTC; nothing before it is landed
    reset      where the very first run begins: earliest, latest, group, none, an ISO time, a duration
    expired    what becomes of logs that retention took before they landed: `gap` names them in the ledger and
               goes on; `fail` leaves the shard where it is, with a red run, until somebody decides
    columns    log key -> declared type (see contract.py)
    hooks      `package.module:name` of functions that a live run calls (see run/hooks.py)
    transform  `package.module:function` on the rows of a landing (see transform.py)
    coordinator  how shards are held (see coordinators.py)
    maintenance, proof  when their schedules tick, as cron, once somebody turns them on
    forget_after_days  rows received longer ago than this leave at each maintenance, for good; 0: none do
    health     when a finding is a warning, and when an error (see bounds.py)
    sensors    which of them run with the code that is deployed; the others until somebody turns them on
    mirror     where live runs keep the table's positions a second time (see mirror.py): `file:PATH`,
               `sql:ADDRESS`, `sql:env:VARIABLE` or `group:NAME`
    """

    service: Service
    group: Group
    shards: Annotated[tuple[_Shard, ...], Field(json_schema_extra={"minItems": 1})] | None = None
    table: str
    shared: bool = False
    start: str
    reset: str = "earliest"
    expired: Literal["gap", "fail"] = "gap"
    columns: dict[str, str] = Field(default_factory=dict)
    schedule: str = "*/5 * * * *"
    maintenance: str = "40 2 * * *"
    proof: str = "10 4 * * *"
    forget_after_days: Annotated[int, Field(ge=0, le=_RESET_DAYS_MAX)] = 0
    budget: Budget = Budget()
    health: Health = Health()
    hooks: str = ""
    transform: str = ""
    coordinator: Coordination = Coordination()
    splits_per_hour: Annotated[int, Field(ge=1, le=60)] = 1
    sensors: frozenset[Sensor] = frozenset()
    mirror: str = ""
    _option: str | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _one_word_will_do(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("group"), str):
            data = {**data, "group": {"name": data["group"]}}
        return data

    @model_validator(mode="after")
    def _the_service_is_asked_by_the_deployment(self) -> Self:
        """Past pydantic's own way, which is closed in what is frozen: nobody else has this one yet."""
        self.__dict__["service"] = self.service.asked_by(f"{self.group.name}/{self.group.holder}")
        return self

    @field_validator("shards", mode="before")
    @classmethod
    def _shards_are_a_list(cls, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list | tuple) or any(isinstance(shard, bool) for shard in value):
            raise ValueError("shards: expected a list of shards, such as [0, 3]")
        if not value:
            raise ValueError("shards: names none; name some, or take the line out to read those of the group")
        return value

    @field_validator("shards")
    @classmethod
    def _shards_differ(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is None:
            return None
        if twice := sorted({shard for shard in value if value.count(shard) > 1}):
            raise ValueError(f"shards: {', '.join(map(str, twice))} is named more than once")
        return tuple(sorted(value))

    @model_validator(mode="after")
    def _shards_are_shared_once(self) -> Self:
        if self.shards and self.coordinator.assignor != Coordination().assignor:
            raise ValueError("shards: an assignor shares out shards that nobody named; leave one of them out")
        return self

    @field_validator("table")
    @classmethod
    def _table_is_two_names(cls, value: str) -> str:
        if not _TABLE.fullmatch(value):
            raise ValueError(
                "table: expected namespace.name in lower-case letters, digits and '_', a letter first"
            )
        return value

    @field_validator("start")
    @classmethod
    def _start_is_an_hour(cls, value: str) -> str:
        """A whole hour: of a history from 07:20 the first hour would lack a part, and be called complete as
        any other. Worked example: `2026-11-20` is refused with `write 2026-11-20-00:00`, and
        `2026-11-20-00:30` since it is no whole hour."""
        try:
            hour = f"{value}-00:00" if _DAY.fullmatch(value) else value
            at = datetime.strptime(hour if _START.fullmatch(hour) else "", _START_FORMAT)
        except ValueError:
            if _START.fullmatch(hour):
                raise ValueError("start: expected a day and an hour that the calendar has") from None
            raise ValueError("start: expected YYYY-MM-DD-HH:MM (UTC), such as 2026-11-20-00:00") from None
        if hour != value:
            raise ValueError(f"start: has no hour; write {hour} to begin with that day (UTC)")
        if at.minute:
            raise ValueError("start: must be a whole hour, such as 2026-11-20-00:00")
        if not 0 <= at.replace(tzinfo=UTC).timestamp() < END_S:
            raise ValueError(f"start: an hour {_YEARS}")
        return value

    @field_validator("schedule", "maintenance", "proof")
    @classmethod
    def _is_cron(cls, value: str, info: ValidationInfo) -> str:
        service = info.data.get("service")
        return cron_of(value, str(info.field_name), service.full_name if service else "")

    @field_validator("columns")
    @classmethod
    def _columns_have_names(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            check_names(value)
        except WrongColumn as error:
            raise PydanticCustomError(
                "wrong_column", "{said}", {"said": str(error), "key": error.key}
            ) from None
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
            if unix_s(value) < 0:
                raise OverflowError
        except (OverflowError, TooLate):
            raise ValueError(f"reset: a time {_YEARS}") from None
        except ConfigError:
            raise ValueError(
                "reset: one of earliest, latest, group, none, a time such as 2026-11-20T08:00:00 (UTC where "
                "it names no zone), or a duration such as 6h"
            ) from None
        return value

    @field_validator("mirror")
    @classmethod
    def _mirror_is_a_place(cls, value: str, info: ValidationInfo) -> str:
        """A password in an address is refused here, before it is shown by anything; a file is named from the
        root on, since the command line and Dagster's processes begin in folders of their own."""
        kind, _, rest = value.partition(":")
        if kind == "sql" and rest:
            without_secret("mirror", rest)
        elif kind == "file" and rest:
            # Each process has a folder of its own.
            if not Path(rest).expanduser().is_absolute():
                raise ValueError("mirror: name the file from the root on, file:/PATH")
        elif kind == "group" and rest:
            if not is_group_name(rest):
                raise ValueError("mirror: group names: letters, digits, '_', '-', '.', at most 128")
            own = info.data.get("group")
            if own is not None and rest == own.name:
                raise ValueError("mirror: that is the group of the table itself, which each run publishes to")
        elif value:
            raise ValueError("mirror: one of file:/PATH, sql:ADDRESS, sql:env:VARIABLE, group:NAME")
        return value

    @property
    def name(self) -> str:
        """The last part of the table's name: Dagster and metrics call the logstore this. The command line
        takes the name of its folder, which is the same unless somebody renamed one of them."""
        return self.table.split(".")[1]

    @property
    def option(self) -> str:
        """What `-l` takes for it in a command that is shown, "" where none is needed; its name where nobody
        chose it on a command line."""
        return self.name if self._option is None else self._option

    def chosen_as(self, option: str) -> "Logstore":
        """The same, as a command line chose it."""
        found = self.model_copy()
        found._option = option
        return found

    @property
    def protected(self) -> frozenset[str]:
        """The keys that are personal data: their values do not land as they are sent."""
        return frozenset(map(bytes.decode, Contract.from_columns(self.columns).pii))

    def protection(self, properties: Mapping[str, str]) -> dict[str, str]:
        """What a commit of rows of it has to set of a table with these properties. Raises as `names.py`."""
        return protection(properties, self.service.full_name, self.protected)

    def reads(self, shard: int) -> bool:
        """Whether a live run may read it, as far as the settings say."""
        return self.shards is None or shard in self.shards

    @property
    def deployment(self) -> str:
        """What tells its live runs from those of others that land in the table: group and holder, and the
        shards that it names, since two that name different ones go on side by side.

        Worked example: group `lake` and holder `sls-lake` are `lake/sls-lake`; with `shards: [3, 0]` it is
        `lake/sls-lake/0,3`. A list of over 64 characters is 16 digits of its hash, since each epoch in the
        table's properties has the name in it.
        """
        name = f"{self.group.name}/{self.group.holder}"
        if self.shards is None:
            return name
        named = ",".join(map(str, self.shards))
        short = len(named) <= _NAMED_CHARS_MAX
        return f"{name}/{named if short else hashlib.sha256(named.encode()).hexdigest()[:16]}"

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
        """The unix time a time or duration policy means; None for the named policies.

        Worked example: at 1,800,000,000 a reset of `6h` is 1,799,978,400; `2026-11-21T08:00:00` is
        1,795,248,000 whenever it is asked; `earliest` is None.
        """
        duration = _DURATION.fullmatch(self.reset)
        if duration:
            return int(now_s) - int(duration[1]) * _DURATION_S[duration[2]]
        if self.reset in ("earliest", "latest", "group", "none"):
            return None
        return unix_s(self.reset)

    @property
    def leaves_older(self) -> bool:
        """Whether `reset` begins the history by what changes with time, so that older logs, though there and
        after `start`, are left out: at the end, at an age, or at the group's checkpoints."""
        return self.reset_ages or self.reset in ("latest", "group")

    @property
    def asked_s(self) -> int:
        """The oldest receive time that is asked for, unix seconds: `start`, or a later time in `reset`."""
        named_s = 0 if self.reset_ages else self.reset_time_s(0) or 0
        return max(self.start_s, named_s)

    def ahead(self, now_s: float) -> str:
        """What to say where the history begins after `now_s` (unix seconds); "" where it does not."""
        if self.asked_s <= now_s:
            return ""
        name, value = ("start", self.start) if self.start_s > now_s else ("reset", self.reset)
        return f"`{name}` is {value}, which is to come: nothing lands before"


def load_logstore(path: Path) -> Logstore:
    """Read a `defs.yaml`. Raises ConfigError that names the file, the setting and the cure."""
    return settled(read_attributes(path), path)


def load_member(path: Path, name: str) -> Logstore:
    """One of the logstores of a project's `defs.yaml`, by the name of its table. Raises ConfigError."""
    return settled(members(read_project(path), path.parent)[name], f"{path} ({name})")


def settled(written: Mapping[str, Any], place: object) -> Logstore:
    """The logstore that attributes mean, as they are written in `place`. Raises ConfigError, also for a
    variable that is not set."""
    attributes, unset = filled(written, place)
    if unset:
        names = ", ".join(sorted(set(unset.values())))
        raise ConfigError(
            f"{place} needs the environment variable {names}, which is not set: export it, or, where `dev` "
            "runs in another terminal, take that one's: `. var/dev/env`"
        )
    return checked(attributes, place)


def checked(attributes: Any, place: object) -> Logstore:
    """The logstore that filled attributes mean. Raises ConfigError that names `place`, where that is a file
    the line of the first wrong setting, and the settings.

    Only the first wrong setting has its line, in the order of the file; the others are named beside it. A
    setting that is missing has no line of its own, and often is there under a name that is misspelt, which
    has one.
    """
    given = attributes if isinstance(attributes, Mapping) else {}
    for empty in (str(name) for name, value in given.items() if value is None):
        # Story: each line of the list below `shards:` is a comment. It is no list, and means no default.
        raise ConfigError(f"{_at(place, _line(place, (empty,)))}: {printable(empty)}: {_NO_VALUE}")
    try:
        logstore = Logstore.model_validate(attributes)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False)
        # What is missing has no line; often it is there under another name, and that one has.
        there = [p for p in problems if p["type"] != "missing"] or problems
        first = min(_line(place, _setting(p)) for p in there)
        raise ConfigError(f"{_at(place, first)}: {describe(error)}") from error
    try:
        Contract.from_columns(logstore.columns)
    except WrongColumn as error:
        raise ConfigError(f"{_at(place, _line(place, ('columns', error.key)))}: {error}") from error
    return logstore


def _setting(problem: ErrorDetails) -> tuple[int | str, ...]:
    """Where what is wrong is written; a check of several settings names one of them itself."""
    if problem["type"] == "wrong_column":
        return (*problem["loc"], problem["ctx"]["key"])
    if problem["type"] == "endpoint_with_project":
        return (*problem["loc"], "endpoint")
    return problem["loc"]


def _line(place: object, setting: tuple[int | str, ...]) -> int:
    """The line of a setting in the file `place`; 0 where there is no file, or no such line."""
    return (line_of(place, setting) if isinstance(place, Path) else None) or 0


def _at(place: object, line: int) -> str:
    return f"{place}, line {line}" if line else str(place)


_EXPECTED = {
    "int_parsing": "expected a whole number without a unit",
    "float_parsing": "expected a number without a unit",
    "string_type": "expected a text; put it in quotes",
    "frozen_set_type": "expected a list, such as [demand, health]",
}
"""What is said of a value of another type, by pydantic's name of the problem."""


def describe(error: ValidationError) -> str:
    """The problems of a validation, one sentence each, without the values that were given.

    Worked example: with `tabel` written for `table` it is `tabel: no such setting; did you mean table?`, and
    that `table` is missing is not said beside it. The values that were given are never repeated: one of them
    may be a key.
    """
    lines = []
    problems = error.errors(include_url=False)
    misspelt = {_closest(p["loc"]) for p in problems if p["type"] == "extra_forbidden"}
    for problem in problems:
        if problem["type"] == "missing" and problem["loc"] in misspelt:
            # It is there under a name that is said anyway.
            continue
        where = printable(".".join(str(x) for x in problem["loc"]))
        message = _said(problem, where)
        lines.append(
            message if not where or message.startswith(where.split(".")[-1]) else f"{where}: {message}"
        )
    return "; ".join(lines)


def _said(problem: ErrorDetails, where: str) -> str:
    """One problem, of the setting that is called `where`."""
    kind = problem["type"]
    if kind == "extra_forbidden":
        return f"no such setting{_meant(problem['loc'])}"
    if kind == "missing":
        return "is missing, and has no default: write it"
    if where.endswith(")") and "(" not in where:
        return "a comma ends a value between braces; put the type before it in quotes"
    if problem["input"] is None:
        return _NO_VALUE
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        what = _ONE_WORD.get(where)
        one = f"{what}, in quotes where it looks like a number, or " if what else ""
        return f"expected {one}its settings, each in a line below it"
    return _EXPECTED.get(kind) or problem["msg"].removeprefix("Value error, ")


def _meant(place: tuple[int | str, ...]) -> str:
    """The setting that was probably meant with the last part of `place`."""
    if close := _closest(place):
        return f"; did you mean {close[-1]}?"
    names = _names_beside(place)
    return f"; there are {', '.join(names)}" if names else ""


def _closest(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The place of the setting that was probably meant by `place`; empty for none."""
    close = get_close_matches(str(place[-1]), _names_beside(place), 1)
    return (*place[:-1], close[0]) if close else ()


def _names_beside(place: tuple[int | str, ...]) -> list[str]:
    model: Any = Logstore
    for part in place[:-1]:
        field = getattr(model, "model_fields", {}).get(str(part))
        model = field.annotation if field else None
    return list(getattr(model, "model_fields", {}))
