"""Where a finding begins, and which sensors of a logstore run: settings, each with a default.

Every sensor is made and stopped until somebody turns it on, as the schedules are; one that the settings name
runs with the code that is deployed. `dev` turns on those of its logstores, by a variable that it sets for its
own Dagster and nothing else.
"""

import os
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, field_validator

from sls_io.values.settings import Settings


def _no_switch(value: object) -> object:
    """YAML reads `yes` and `on` as true, and true would count as 1."""
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


Bound = Annotated[float, Field(ge=0, le=1e12), BeforeValidator(_no_switch)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_no_switch)]
_PAIR = 2
Sensor = Literal["demand", "sealed", "health"]
ProjectSensor = Literal["logstores", "demand", "sealed", "health"]
ON_VARIABLE = "SLS_LAKE_DEV_ON"
"""The names of dev's logstores, with commas."""


def sensor_name(of: str, what: Sensor | Literal[""] = "") -> str:
    """Of a logstore, or of all of a project (`name_of_all`); without `what` the one that refreshes the list
    of these."""
    return f"{of}_{what}_sensor" if what else f"{of}_sensor"


def turned_on(logstore: str = "") -> bool:
    """Whether dev has schedule and sensors of this logstore on; without a name, those of all of a project."""
    names = os.environ.get(ON_VARIABLE, "")
    return logstore in names.split(",") if logstore else bool(names)


class Thresholds(NamedTuple):
    """Seconds: beyond the first a warning, beyond the second an error. One of 0 is never passed."""

    warn: Bound
    fail: Bound


class Shares(NamedTuple):
    """Parts of the rows of a receive hour, 0 to 1: above the first a warning, above the second an error. 1 is
    never passed."""

    warn: Share
    fail: Share


class Health(Settings):
    """When a finding is a warning and when an error, by its kind; the kinds without a pair have no measure.

    lag_s     age of the oldest log that waits; nobody may be unable to look for longer than the second,
              either. The demand sensor asks for a run at half of the first
    commit_s  age of the logstore's newest landing: a schedule that runs commits at least once an hour
    runway_s  time until retention deletes the oldest log that has not landed, so the second is the shorter.
              None: of a retention R a warning begins below min(R/2, max(R/4, 1 day)), an error below
              min(1 day, R/8)
    errors    rows with an error in the worst of the newest receive hours
    """

    lag_s: Thresholds = Thresholds(1800, 7200)
    commit_s: Thresholds = Thresholds(7200, 21_600)
    runway_s: Thresholds | None = None
    errors: Shares = Shares(0.01, 0.5)

    @field_validator("lag_s", "commit_s", "runway_s", "errors", mode="before")
    @classmethod
    def _is_a_pair(cls, value: object) -> object:
        if value is not None and not (isinstance(value, list | tuple) and len(value) == _PAIR):
            raise ValueError("expected a pair of numbers, [warning, error]")
        return value

    @field_validator("lag_s", "commit_s", "errors")
    @classmethod
    def _a_warning_comes_first(cls, value: Thresholds | Shares) -> Thresholds | Shares:
        if value.warn > value.fail > 0:
            raise ValueError("the first, the warning, must not be above the second, the error")
        return value

    @field_validator("runway_s")
    @classmethod
    def _a_warning_comes_earlier(cls, value: Thresholds | None) -> Thresholds | None:
        if value is not None and 0 < value.warn < value.fail:
            raise ValueError("the first, the warning, must not be below the second, the error")
        return value
