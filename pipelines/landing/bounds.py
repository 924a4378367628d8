"""Where a finding begins, and what the sensors of a logstore watch for: settings, each with a default.

Every sensor is made and stopped until somebody turns it on, as the schedules are; `running: true` turns
one on with the code that is deployed. A bound of 0 is never passed.
"""

from typing import Annotated

from pydantic import Field, model_validator

from sls_io.values.settings import Settings

Bound = Annotated[float, Field(ge=0, le=1e12)]
Share = Annotated[float, Field(ge=0, le=1)]


class Rising(Settings):
    """Above `warn_s` a warning, above `fail_s` an error."""

    warn_s: Bound
    fail_s: Bound

    @model_validator(mode="after")
    def _a_warning_comes_first(self) -> "Rising":
        if self.warn_s > self.fail_s > 0:
            raise ValueError("`warn_s` must not be above `fail_s`")
        return self


class Falling(Settings):
    """Below `warn_s` a warning, below `fail_s` an error; None: what the retention makes of it."""

    warn_s: Bound | None = None
    fail_s: Bound | None = None

    @model_validator(mode="after")
    def _a_warning_comes_first(self) -> "Falling":
        if self.fail_s is not None and 0 < (self.warn_s or 0) < self.fail_s:
            raise ValueError("`warn_s` must not be below `fail_s`")
        return self


class Shares(Settings):
    """Parts of the rows of a receive hour, 0 to 1: above `warn` a warning, above `fail` an error. 1 is never
    passed."""

    warn: Share = 0.01
    fail: Share = 0.5

    @model_validator(mode="after")
    def _a_warning_comes_first(self) -> "Shares":
        if self.warn > self.fail:
            raise ValueError("`warn` must not be above `fail`")
        return self


class Health(Settings):
    """When a finding is a warning and when an error, by its kind; the kinds without a pair have no measure.

    lag      age of the oldest log that waits; nobody may be unable to look for longer than `fail_s`, either
    commit   age of the logstore's newest landing: a schedule that runs commits at least once an hour
    runway   time until retention deletes the oldest log that has not landed. Of a retention R a warning
             begins below min(R/2, max(R/4, 1 day)), an error below min(1 day, R/8)
    errors   rows with an error in the worst of the newest receive hours
    """

    lag: Rising = Rising(warn_s=1800, fail_s=7200)
    commit: Rising = Rising(warn_s=7200, fail_s=21_600)
    runway: Falling = Falling()
    errors: Shares = Shares()


class Switch(Settings):
    """A sensor that has nothing to set but whether it runs."""

    running: bool = False


class Demand(Settings):
    """A run when a shard closes, and an extra one when the oldest log waits for longer than `lag_s`, or more
    than `mb` raw MB wait, about."""

    running: bool = False
    lag_s: Bound = 900.0
    mb: Bound = 4096.0


class Sensors(Settings):
    """Of one logstore."""

    demand: Demand = Demand()
    sealed: Switch = Switch()
    health: Switch = Switch()
