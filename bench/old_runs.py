"""Runs of long ago in Dagster's storage: a real run, told again with another id, other hours, other times.

Tags, partitions, start, end and what is asked over all runs go through the storages' own calls. The file of
each run, which only the page reads, is the one of the run that is told again, with another id in it. Of one
second for each run, as Dagster itself takes to make the file and store each event, a tenth is left.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy
from dagster._core.events import ASSET_CHECK_EVENTS, ASSET_EVENTS, DagsterEventType
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster_shared.serdes import deserialize_value, serialize_value

from pipelines.components.logstore.schedule import hour_key

_STAMPED = (DagsterEventType.RUN_START, DagsterEventType.RUN_SUCCESS, DagsterEventType.RUN_FAILURE)
_MIRRORED = {*ASSET_EVENTS, *ASSET_CHECK_EVENTS, *_STAMPED}
_INDEX = "index"
_HOURS_BACK = 12
SECONDS = 20.0
"""So long each run took."""


class KeptOpen(SqliteEventLogStorage):
    """The same index, by one connection; what is stored of a run itself goes nowhere."""

    def __init__(self, base_dir: str, template: str) -> None:
        super().__init__(base_dir)
        self._index, self._nowhere = (
            sqlalchemy.create_engine(self.conn_string_for_shard(shard)).connect()
            for shard in (_INDEX, template)
        )

    def _connect(self, shard: str) -> Any:
        return nullcontext(self._index if shard == _INDEX else self._nowhere)

    @contextmanager
    def stored(self) -> Iterator[None]:
        """One transaction."""
        with self._index.begin(), self._nowhere.begin() as nowhere:
            yield
            nowhere.rollback()


class OldRuns:
    """Copies of the runs `templates`, in the same instance, whose storage is SQLite. Their newest hour is
    `hour` (since 1970); a copy tells its hours in the same way."""

    def __init__(self, instance: dg.DagsterInstance, templates: Sequence[str], hour: int) -> None:
        storage = instance.event_log_storage
        assert isinstance(storage, SqliteEventLogStorage)
        self._instance, self._hour = instance, hour
        self._templates = {}
        for run in templates:
            entries = instance.all_logs(run)
            seconds = entries[-1].timestamp - entries[0].timestamp
            told = [
                ((e.timestamp - entries[0].timestamp) / seconds, serialize_value(e))
                for e in entries
                if e.dagster_event is not None and e.dagster_event.event_type in _MIRRORED
            ]
            file = Path(storage.path_for_shard(run)).read_bytes()
            self._templates[run] = (serialize_value(instance.get_run_by_id(run)), told, file)
        self._storage = KeptOpen(str(Path(storage.path_for_shard(_INDEX)).parent), templates[0])

    def add(self, template: str, begun_s: float) -> str:
        """A run that began then; its id. The hour it began in is the newest that it tells."""
        run, told, file = self._templates[template]
        run_id, hour = str(uuid.uuid4()), int(begun_s) // 3600
        new = {hour_key(self._hour - n): hour_key(hour - n) for n in range(_HOURS_BACK)}
        names = re.compile("|".join((*new, template)))
        new[template] = run_id

        def copied(text: str) -> Any:
            return deserialize_value(names.sub(lambda found: new[found[0]], text))

        runs = self._instance.run_storage
        runs.add_historical_run(copied(run), datetime.fromtimestamp(begun_s, UTC))
        Path(self._storage.path_for_shard(run_id)).write_bytes(
            file.replace(template.encode(), run_id.encode())
        )
        stamped = []
        with self._storage.stored():
            for part, text in told:
                entry: dg.EventLogEntry = copied(text)._replace(timestamp=begun_s + part * SECONDS)
                self._storage.store_event(entry)
                if entry.dagster_event is not None and entry.dagster_event.event_type in _STAMPED:
                    stamped.append((entry.dagster_event, datetime.fromtimestamp(entry.timestamp, UTC)))
        for event, moment in stamped:
            runs.handle_run_event(run_id, event, moment)
        return run_id
