"""A program: the vendor's Python consumer group worker, writing access logs with PyIceberg.

    python -m bench.python_consumer WAY PROJECT LOGSTORE CATALOG_URI WAREHOUSE TABLE HOUR_S ROWS

The peer of `bench_ratio`. Nothing of ours is imported, so that what it costs is its own.
`http_proxy` leads the made-up endpoint to the emulator. There are two ways, since nobody can say how well a
stranger's code is written:

    usual    as the SDK's own examples do it: each log a dict of texts (`loggroups_to_flattern_list`), typed
             value by value, and PyArrow makes a table of the dicts
    careful  the quickest way that we found: texts gathered in lists, a column at a time made Arrow and cast
             by Arrow

Both append `ROWS_A_COMMIT` rows of a shard at a time, then save the shard's checkpoint, to a table with the
columns and the partitioning of ours. The consumer is not told when a log was received, so the bench says the
hour. They end when they have seen so many rows: left alone they run for ever.
"""

import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from aliyun.log import PullLogResponse
from aliyun.log.consumer import ConsumerProcessorBase, ConsumerWorker, CursorPosition, LogHubConfig
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import HourTransform, IdentityTransform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)

CATALOG = "peer"
ROWS_A_COMMIT = 200_000
"""About 70 MB raw of a shard: few commits, and files of the size that a landing writes."""
FETCH_S = 0.1
"""Between two looks for pages. By default it is two seconds, and only one page of a shard comes in each."""
TYPES = {
    "client": StringType(), "method": StringType(), "path": StringType(), "status": IntegerType(),
    "bytes": LongType(), "latency_ms": DoubleType(), "referer": StringType(), "agent": StringType(),
    "trace": StringType(), "zone": StringType(),
}  # fmt: skip
SCHEMA = Schema(
    NestedField(1, "__origin__", StringType(), required=True),
    NestedField(2, "__shard__", IntegerType(), required=True),
    NestedField(3, "__receive_hour__", TimestamptzType(), required=True),
    NestedField(4, "__time__", TimestamptzType()),
    NestedField(5, "__topic__", StringType()),
    NestedField(6, "__source__", StringType()),
    NestedField(7, "__tags__", MapType(8, StringType(), 9, StringType(), value_required=False)),
    *(NestedField(10 + at, key, kind) for at, (key, kind) in enumerate(TYPES.items())),
)
PARTITIONS = PartitionSpec(
    PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="__origin__"),
    PartitionField(source_id=3, field_id=1001, transform=HourTransform(), name="__receive_hour___hour"),
)
_TAGS = pa.map_(pa.string(), pa.string())
_MOMENT = pa.timestamp("us", tz="UTC")
_CASTS = {"status": pa.int32(), "bytes": pa.int64(), "latency_ms": pa.float64()}
_CONVERSIONS: dict[str, Callable[[str], float]] = {"status": int, "bytes": int, "latency_ms": float}
ARROW = pa.schema(
    [
        pa.field("__origin__", pa.string(), nullable=False),
        pa.field("__shard__", pa.int32(), nullable=False),
        pa.field("__receive_hour__", _MOMENT, nullable=False),
        *(pa.field(name, kind) for name, kind in (("__time__", _MOMENT), ("__topic__", pa.string()))),
        *(pa.field(name, kind) for name, kind in (("__source__", pa.string()), ("__tags__", _TAGS))),
        *(pa.field(key, _CASTS.get(key, pa.string())) for key in TYPES),
    ]
)


class Target:
    """The table, which the shards' processors write in turns; `done` is set when all rows are seen."""

    def __init__(self, table: Table, hour: datetime, rows: int) -> None:
        self.table, self.hour, self.origin = table, hour, table.name()[-1]
        self.lock, self.done = threading.Lock(), threading.Event()
        self._missing = rows

    def seen(self, rows: int) -> None:
        """So many more rows were read."""
        with self.lock:
            self._missing -= rows
            if self._missing <= 0:
                self.done.set()


class Lander(ConsumerProcessorBase):
    """One shard's: pages gathered, then the table, then the checkpoint."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.rows = 0
        self.begin()

    def begin(self) -> None:
        """Nothing is held."""

    def take(self, log_groups: Any, hour: datetime) -> int:
        """Hold the rows of a page, received in `hour`; how many they are."""
        raise NotImplementedError

    def table(self) -> pa.Table:
        """What is held, in `ARROW`."""
        raise NotImplementedError

    def process(self, log_groups: Any, check_point_tracker: Any) -> None:
        """A page of the shard."""
        seen = self.take(log_groups, self.target.hour)
        self.rows += seen
        if self.rows >= ROWS_A_COMMIT:
            self._write(check_point_tracker)
        self.target.seen(seen)

    def shutdown(self, check_point_tracker: Any) -> None:
        """The shard is let go of: what is held is written first."""
        if self.rows:
            self._write(check_point_tracker)

    def _write(self, tracker: Any) -> None:
        table = self.table()
        with self.target.lock:  # one commit at a time, so none is refused
            self.target.table.append(table)
        tracker.save_check_point(True)
        self.rows = 0
        self.begin()


class Usual(Lander):
    """As the SDK's examples read a page: each log a dict of texts."""

    def begin(self) -> None:
        """No dict is held."""
        self._dicts: list[dict[str, Any]] = []

    def take(self, log_groups: Any, hour: datetime) -> int:
        """The page's logs as dicts of typed values."""
        logs = PullLogResponse.loggroups_to_flattern_list(log_groups, time_as_str=True, decode_bytes=True)
        for log in logs:
            row = {
                "__origin__": self.target.origin,
                "__shard__": self.shard_id,
                "__receive_hour__": hour,
                "__time__": datetime.fromtimestamp(int(log["__time__"]), UTC),
                "__topic__": log["__topic__"],
                "__source__": log["__source__"],
                "__tags__": [(k, v) for k, v in log.items() if k.startswith("__tag__:")] or None,
            }
            for key in TYPES:
                convert = _CONVERSIONS.get(key)
                row[key] = log.get(key) if convert is None else _converted(log.get(key), convert)
            self._dicts.append(row)
        return len(logs)

    def table(self) -> pa.Table:
        """The dicts as a table."""
        return pa.Table.from_pylist(self._dicts, schema=ARROW)


class Careful(Lander):
    """No object a log outlives it: texts in lists, a column each."""

    def begin(self) -> None:
        """The lists are empty."""
        self._groups: list[tuple[int, str, str, list[tuple[str, str]], datetime]] = []
        self._times_us: list[int] = []
        self._columns: dict[str, list[str | None]] = {key: [] for key in TYPES}

    def take(self, log_groups: Any, hour: datetime) -> int:
        """The page's values, each appended to the list of its key."""
        times, before = self._times_us, len(self._times_us)
        columns = list(self._columns.items())
        for group in log_groups.LogGroups:
            tags = [(tag.Key, tag.Value) for tag in group.LogTags]
            self._groups.append((len(group.Logs), group.Topic, group.Source, tags, hour))
            for log in group.Logs:
                times.append(log.Time * 1_000_000 + log.Time_ns // 1000)
                values = {content.Key: content.Value for content in log.Contents}
                for key, column in columns:
                    column.append(values.get(key))
        return len(times) - before

    def table(self) -> pa.Table:
        """The lists as columns."""
        counts, topics, sources, tags, hours = zip(*self._groups, strict=True)
        group_of_row = pa.array(np.repeat(np.arange(len(counts)), counts))
        of_groups = [
            pa.array(hours, _MOMENT), pa.array(topics, pa.string()), pa.array(sources, pa.string()),
            pa.array([pairs or None for pairs in tags], _TAGS),
        ]  # fmt: skip
        hour, topic, source, tag = (array.take(group_of_row) for array in of_groups)
        arrays = [
            pa.repeat(self.target.origin, self.rows),
            pa.repeat(pa.scalar(self.shard_id, pa.int32()), self.rows),
            hour, pa.array(self._times_us, pa.int64()).cast(_MOMENT), topic, source, tag,
            *(_typed(pa.array(texts, pa.string()), key) for key, texts in self._columns.items()),
        ]  # fmt: skip
        return pa.Table.from_arrays(arrays, schema=ARROW)


WAYS = {"usual": Usual, "careful": Careful}


def _typed(texts: pa.Array, key: str) -> pa.Array:
    """A column in its type; a text that does not fit becomes null."""
    kind = _CASTS.get(key)
    if kind is None:
        return texts
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([_converted(text, _CONVERSIONS[key]) for text in texts.to_pylist()], kind)


def _converted(text: str | None, convert: Callable[[str], float]) -> float | None:
    try:
        return None if text is None else convert(text)
    except ValueError:
        return None


def main() -> None:
    """Consume until all rows are in the table."""
    way, project, logstore, uri, warehouse, name, hour_s, rows = sys.argv[1:]
    catalog = load_catalog(CATALOG, type="sql", uri=uri, warehouse=warehouse)
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    table = catalog.create_table_if_not_exists(name, SCHEMA, partition_spec=PARTITIONS)
    target = Target(table, datetime.fromtimestamp(int(hour_s), UTC), int(rows))
    key, secret = (os.environ[f"ALIBABA_CLOUD_ACCESS_KEY_{part}"] for part in ("ID", "SECRET"))
    config = LogHubConfig(
        "http://sls.emu", key, secret, project, logstore, f"peer-{way}", "peer-1",
        cursor_position=CursorPosition.BEGIN_CURSOR, heartbeat_interval=5,
    )  # fmt: skip
    vars(config)["data_fetch_interval"] = FETCH_S  # its type says whole seconds; any number works
    worker = ConsumerWorker(WAYS[way], config, args=(target,))
    worker.start()
    target.done.wait()
    worker.shutdown()
    worker.join()


if __name__ == "__main__":
    main()
