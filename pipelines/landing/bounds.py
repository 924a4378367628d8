"""What the sensors of a logstore watch for, and how often: settings, each with a default.

Every sensor is made and stopped until somebody turns it on, as the schedules are; `running: true` turns
one on with the code that is deployed. A bound of 0 is never passed.
"""

from typing import Annotated

from pydantic import Field, model_validator

from sls_io.settings import Settings

Every = Annotated[int, Field(ge=10, le=86_400)]
Bound = Annotated[float, Field(ge=0, le=1e12)]
SNAPSHOTS_KEPT = 200
MANIFESTS_KEPT = 100
"""What a maintenance leaves at most: a bound below it would be passed again at once."""


class Rising(Settings):
    """Above `warn` a warning, above `fail` an error."""

    warn: Bound
    fail: Bound

    @model_validator(mode="after")
    def _a_warning_comes_first(self) -> "Rising":
        if self.warn > self.fail > 0:
            raise ValueError("`warn` must not be above `fail`")
        return self


class Falling(Settings):
    """Below `warn` a warning, below `fail` an error."""

    warn: Bound
    fail: Bound

    @model_validator(mode="after")
    def _a_warning_comes_first(self) -> "Falling":
        if 0 < self.warn < self.fail:
            raise ValueError("`warn` must not be below `fail`")
        return self


class TopologySettings(Settings):
    """Splits, merges, read-only and deleted shards."""

    running: bool = False
    every_s: Every = 60


class BacklogSettings(Settings):
    """An extra run when the oldest log waits for longer than `lag_s`, or more than `mb` raw MB or `rows`
    wait, about."""

    running: bool = False
    every_s: Every = 60
    lag_s: Bound = 900.0
    mb: Bound = 4096.0
    rows: Bound = 0.0


class SealedSettings(Settings):
    """Hours that every shard has passed, at most `hours_max` of them a tick."""

    running: bool = False
    every_s: Every = 300
    hours_max: Annotated[int, Field(ge=1, le=240)] = 24


class TroubleSettings(Settings):
    """What somebody should hear of.

    lag_s      age of the oldest log that waits; nobody may be unable to look for longer than `fail`, either
    commit_s   age of the logstore's newest landing: a schedule that runs commits at least once an hour
    runway_s   time until retention deletes the oldest log that waits; never over a quarter of the retention
               as a warning, nor over an eighth as an error

    Rows with errors have their bounds in `errors` of the logstore; a red `reconciled` has none.
    """

    running: bool = False
    every_s: Every = 300
    lag_s: Rising = Rising(warn=1800, fail=7200)
    commit_s: Rising = Rising(warn=7200, fail=21_600)
    runway_s: Falling = Falling(warn=172_800, fail=86_400)


class UpkeepSettings(Settings):
    """The maintenance, when so many data files came since the newest compaction, or the table has so many
    snapshots or manifests."""

    running: bool = False
    every_s: Every = 900
    files: Annotated[int, Field(ge=0)] = 2000
    snapshots: Annotated[int, Field(ge=0)] = 400
    manifests: Annotated[int, Field(ge=0)] = 200

    @model_validator(mode="after")
    def _more_than_a_maintenance_leaves(self) -> "UpkeepSettings":
        for name, kept in (("snapshots", SNAPSHOTS_KEPT), ("manifests", MANIFESTS_KEPT)):
            if 0 < getattr(self, name) <= kept:
                raise ValueError(f"{name}: a maintenance leaves {kept}; write more than that, or 0 for never")
        return self


class Sensors(Settings):
    """Of one logstore."""

    topology: TopologySettings = TopologySettings()
    backlog: BacklogSettings = BacklogSettings()
    sealed: SealedSettings = SealedSettings()
    trouble: TroubleSettings = TroubleSettings()
    maintenance: UpkeepSettings = UpkeepSettings()
