"""`spark.read.format("sls")`: a logstore's logs as a DataFrame, for a look, by Spark's Python data sources.

    from pipelines.landing.spark.source import register

    register(spark)
    logs = (
        spark.read.format("sls")
        .option("endpoint", "https://cn-hangzhou.log.aliyuncs.com")
        .option("project", "demo")
        .option("logstore", "access_logs")
        .option("start", "2026-11-20T08:00")
        .option("columns", "status int, latency_ms double")
        .load()
    )

    endpoint, project, logstore  which one; `region` where the endpoint does not say it
    start, end   receive times, half-open: ISO (UTC unless it has an offset) or unix seconds; all that is
                 there when they are left out
    shards       such as `0,3`; all listed ones when left out
    columns      keys with a column of their own and their types, as in a defs.yaml; the rest is in `__rest__`
    split        `shard` (one input partition each) or `hour` (one for each receive hour of each shard)

Workers need our packages, and the key pair in their own environment. A key is never an option: options are
kept with the query, and shown with its plan.

A landing does not read through this, for three reasons. What a task proved (the cursors it reached, counts,
sums) must get into the commit of its rows, and a DataFrame has rows only. Each action on a frame reads
again, and a second action ends elsewhere, since logs keep coming. And each row would go through the JVM on
its way to a file. So this moves no checkpoint, knows no ledger, and what it shows twice is there twice.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from pipelines.landing.spark.catalog import SECRET_NAMES
from pipelines.landing.table.contract import Contract
from sls_io.decoding.decode import Decoder
from sls_io.reader.logstore import Reader, open_logstore
from sls_io.reader.rows import Extent
from sls_io.values.errors import ConfigError, printable
from sls_io.values.moments import Moment, unix_s
from sls_io.values.settings import Service

FORMAT = "sls"
OPTIONS = ("endpoint", "project", "logstore", "region", "start", "end", "shards", "columns", "split")
_NEEDED = ("endpoint", "project", "logstore")
_SHARDS = re.compile(r"[0-9]{1,9}(?:\s*,\s*[0-9]{1,9})*")
_COMMA_OUTSIDE = re.compile(r",(?![^()]*\))")


@dataclass(frozen=True)
class Asked:
    """What the options mean, picklable, without a secret. Times are unix seconds."""

    service: Service
    columns: Mapping[str, str]
    start_s: int | None
    end_s: int | None
    shards: frozenset[int]
    split: Literal["shard", "hour"]

    @staticmethod
    def of(options: Mapping[str, str]) -> "Asked":
        """From the options of a read. Raises ConfigError that names the option, never its value.

        Options are text, and Spark keeps them with the query and shows them. So what looks like a secret is
        refused first, before its name is said to be unknown, and no error repeats a value.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in sorted(given.keys() - set(OPTIONS)):
            if re.search(SECRET_NAMES, name) or name in ("ak", "sk"):
                raise ConfigError(
                    f"option {printable(name)!r} looks like a secret, and options are kept with the query: "
                    "leave it out; workers find the key pair in ALIBABA_CLOUD_ACCESS_KEY_ID and "
                    "ALIBABA_CLOUD_ACCESS_KEY_SECRET of their environment"
                )
            raise ConfigError(f"there is no option {printable(name)!r}; there are {', '.join(OPTIONS)}")
        if missing := [name for name in _NEEDED if not given.get(name)]:
            raise ConfigError(f"option {missing[0]} is missing; needed are {', '.join(_NEEDED)}")
        shards, split = given.get("shards", "").strip(), given.get("split", "shard")
        if shards and not _SHARDS.fullmatch(shards):
            raise ConfigError("option shards: numbers with commas between them, such as 0,3")
        if split not in ("shard", "hour"):
            raise ConfigError("option split: shard or hour")
        try:
            service = Service.model_validate(
                {name: given[name] for name in (*_NEEDED, "region") if name in given}
            )
        except ValidationError as error:
            problems = error.errors(include_input=False, include_url=False)
            raise ConfigError("; ".join(p["msg"].removeprefix("Value error, ") for p in problems)) from None
        return Asked(
            service=service,
            columns=_columns(given.get("columns", "")),
            start_s=_moment_s("start", given),
            end_s=_moment_s("end", given),
            shards=frozenset(int(number) for number in shards.split(",") if number),
            split="hour" if split == "hour" else "shard",
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of a read: those of the table that a landing would make."""
        return Decoder("", self._contract.declared).schema

    def open(self) -> Reader:
        """The logstore, opened with the key pair of this process."""
        return open_logstore(self.service, columns=self._contract.declared)

    @property
    def _contract(self) -> Contract:
        return Contract.from_columns(self.columns)


@dataclass
class CursorPartition(InputPartition):
    """The cursors [begin, end) of one shard."""

    shard: int
    begin: int
    end: int


class SlsReader(DataSourceReader):
    """Reads what was asked for; one `Part` a task."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def partitions(self) -> list[InputPartition]:
        """The shards, or their hours, up to where they end now.

        Cut at where the shards end now: a read is of a moment, and a task that is run again reads the same
        cursors.
        """
        asked = self._asked
        with asked.open() as logs:
            listed = [shard.id for shard in logs.client.shards()]
            if unknown := sorted(asked.shards - set(listed)):
                raise ConfigError(f"option shards: there is no shard {unknown[0]}; there are {listed}")
            parts: list[InputPartition] = []
            for shard in sorted(asked.shards) or listed:
                extent = logs.extent(shard, since=asked.start_s, until=asked.end_s)
                parts += [CursorPartition(shard, x.begin, x.end) for x in _cut(extent, logs, asked.split)]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of a part; none for None, which Spark makes of no parts."""
        if isinstance(partition, CursorPartition):
            with self._asked.open() as logs:
                yield from logs.batches(partition.shard, begin=partition.begin, end=partition.end)


class SlsDataSource(DataSource):
    """The format `sls`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """The table's columns in Spark's types. Raises ConfigError for options that cannot be."""
        found: StructType = from_arrow_schema(Asked.of(self.options).schema)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises ConfigError for a schema that is not the one the options mean."""
        asked = Asked.of(self.options)
        if schema.names != asked.schema.names:
            raise ConfigError("leave .schema(...) out: the option columns says which keys get a column")
        return SlsReader(asked)


def register(spark: SparkSession) -> None:
    """Let `spark.read.format("sls")` be understood in this session."""
    spark.dataSource.register(SlsDataSource)


def _cut(extent: Extent, logs: Reader, split: Literal["shard", "hour"]) -> Iterator[Any]:
    """The extent, or its hours; nothing of an empty one."""
    if split == "hour":
        yield from extent.spans(logs.client)
    elif extent.begin < extent.end:
        yield extent


def _moment_s(option: str, given: Mapping[str, str]) -> int | None:
    text = given.get(option)
    if text is None:
        return None
    moment: Moment = int(text) if text.strip().isdecimal() else text
    try:
        return unix_s(moment)
    except ConfigError as error:
        raise ConfigError(f"option {option}: {error}") from None


def _columns(text: str) -> dict[str, str]:
    """`status int, amount decimal(10,2)` -> name: type.

    Commas within parentheses belong to a type.
    """
    columns: dict[str, str] = {}
    for part in _COMMA_OUTSIDE.split(text) if text.strip() else ():
        name, _, kind = part.strip().partition(" ")
        if not kind.strip():
            raise ConfigError("option columns: names with types, such as status int, amount decimal(10,2)")
        if name in columns:
            raise ConfigError(
                f"option columns: {printable(name)!r} is named twice, only one can hold: remove one"
            )
        columns[name] = kind.strip()
    return columns
