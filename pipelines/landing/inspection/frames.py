"""The ledger as pandas frames, for notebooks. Nothing is changed.

    from pipelines.landing.inspection.frames import open_ledger

    ledger = open_ledger("pipelines/defs/access_logs/defs.yaml")
    ledger.lag()

Times are UTC timestamps, cursors integers (`Int64`, so that one nobody knows is `<NA>`), sizes raw bytes.
The catalog is that of every verb, the keys are where the file says. SQL over the same: `duckdb` and others
take a frame by its name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.landing.commit.effect import record
from pipelines.landing.inspection.describe import describe
from pipelines.landing.inspection.landings import Interval, landings_of
from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.table.lake import Lake
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

_NUMBER, _KNOWN, _TEXT, _TRUTH = "Int64", "int64", "object", "bool"
_TIME = "datetime64[us, UTC]"
_WITHDRAWN = "withdrawn"

WINDOWS: Mapping[str, str] = {
    "landed_at": _TIME,
    "snapshot_id": _KNOWN,
    "run": _TEXT,
    "deed": _TEXT,
    "origin": _TEXT,
    "shard": _KNOWN,
    "receive_hour": _TIME,
    "begin": _KNOWN,
    "end": _KNOWN,
    "rows": _KNOWN,
    "raw_bytes": _KNOWN,
    "flags": _TEXT,
    "in_table": _TRUTH,
    "withdrawn": _TRUTH,
}
LAG: Mapping[str, str] = {
    "shard": _KNOWN,
    "status": _TEXT,
    "holder": _TEXT,
    "checkpoint": _NUMBER,
    "frontier": _NUMBER,
    "end": _NUMBER,
    "rows": _KNOWN,
    "reached_at": _TIME,
    "lag_s": "float64",
    "raw_bytes": _NUMBER,
    "closed": _TRUTH,
    "suspect_since": _TIME,
}
INTERVALS: Mapping[str, str] = {
    "origin": _TEXT,
    "shard": _KNOWN,
    "begin": _KNOWN,
    "end": _NUMBER,
    "cause": _TEXT,
}
"""Columns and their types, of `windows`, of `lag`, and of `gaps` and `withdrawn`."""


@dataclass(frozen=True)
class LedgerFrames:
    """What the table of one logstore says of itself; each call reads it again."""

    logstore: Logstore
    lake: Lake

    def windows(self) -> pd.DataFrame:
        """What landed: a row a window, oldest landing first, as far as the table still has the snapshots.

        landed_at, snapshot_id, run, deed  the landing: when, which snapshot, by which attempt; what a person
                    or the maintenance did, where no landing made the snapshot, else ""
        shard, receive_hour, begin, end    the window, [begin, end)
        rows, raw_bytes, flags             what came in it; flags as `sls-lake landings show RUN` shows them
        in_table    not so after a rollback
        withdrawn   taken back since, wholly or in part, and not landed again

        Raises as `landings_of` does.
        """
        return _frame(
            (
                record(landed)
                | {
                    "landed_at": _time(entry.at_s),
                    "snapshot_id": entry.snapshot_id,
                    "run": entry.attempt,
                    "deed": "" if entry.deed is None else str(entry.deed.operation),
                    "origin": entry.origin,
                    "receive_hour": _time(landed.window.hour * HOUR_S),
                    "in_table": entry.in_table,
                    "withdrawn": landed.window in entry.withdrawn,
                }
                for entry in landings_of(self.logstore, self.lake, orphans=False).found
                if entry.at_s is not None
                for landed in entry.windows
            ),
            WINDOWS,
        )

    def lag(self) -> pd.DataFrame:
        """How far each shard is, by id; asks the service, too.

        status      readwrite, readonly, or gone
        holder, checkpoint  of the consumer group
        frontier    up to here the table has it, without a hole
        end         where the shard ends now
        rows        in the table
        reached_at  receive time up to which the table has it; NaT before anything landed
        lag_s       age of the oldest log that waits, 0 when nothing does, NaN where nobody knows
        raw_bytes   about how much waits, by what landed lately; <NA> where nothing waits or is known
        closed      read-only, drained, and said so by a landing
        suspect_since  since when the service says that it is gone; NaT: it does not

        Raises as `describe` does.
        """
        with SlsClient(self.logstore.service) as client:
            views = describe(self.logstore, self.lake, client)
        return _frame(
            (
                vars(view)
                | {
                    "reached_at": _time(view.reached_s) if view.reached_s else pd.NaT,
                    "raw_bytes": None if view.backlog is None else view.backlog.raw_bytes,
                    "suspect_since": _time(view.suspect_s) if view.suspect_s else pd.NaT,
                }
                for view in views
            ),
            LAG,
        )

    def gaps(self) -> pd.DataFrame:
        """The intervals [begin, end) that are not in the table and that no live run waits for, with their
        cause; `end` is <NA> where nobody knows it. Raises as `landings_of` does."""
        return _frame((asdict(i) for i in self._missing() if i.cause != _WITHDRAWN), INTERVALS)

    def withdrawn(self) -> pd.DataFrame:
        """The intervals that a person took back. As `gaps`."""
        return _frame((asdict(i) for i in self._missing() if i.cause == _WITHDRAWN), INTERVALS)

    def _missing(self) -> tuple[Interval, ...]:
        return landings_of(self.logstore, self.lake, orphans=False).missing


def open_ledger(logstore: Logstore | Path | str, lake: Lake | None = None) -> LedgerFrames:
    """The ledger of a logstore, which may be named by its `defs.yaml`; `lake` is that of every verb.

    Raises ConfigError for a file that is no logstore's.
    """
    named = logstore if isinstance(logstore, Logstore) else load_logstore(Path(logstore))
    return LedgerFrames(named, lake or Lake.default())


def _frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """With these columns and types also when there is no row; what else a row has is left out."""
    found = list(rows)
    frame = pd.DataFrame(index=range(len(found)))
    for name, kind in columns.items():
        values = [row[name] for row in found]
        made = pd.to_datetime(pd.Series(values, dtype=_TEXT), utc=True) if kind == _TIME else values
        frame[name] = pd.Series(made).astype(kind)  # type: ignore[call-overload]
    return frame


def _time(time_s: float) -> pd.Timestamp:
    return pd.Timestamp(round(time_s * 1000), unit="ms", tz="UTC")
