"""What readers pay: `make bench LANE=read`. Four usual questions to a day of access logs, in DuckDB and in
Spark, of the files that different writers leave.

    python -m bench.bench_read [--rows 10000000] [--hours 24] [--reader duckdb spark]

    one key, one hour     all columns of one trace, where the hour is known
    errors by minute      a count by minute of the day where the status is 500 or more
    one key, a day        all columns of one trace, where nobody knows the hour
    one client, a day     how many bytes went to one of 63,000 clients

    landed       ours, every five minutes: a file a shard
    compacted    ours, after the night's maintenance: the files of an hour written as one
    bloom        the same with a Bloom filter of `trace`
    by time      compacted, and the rows of an hour in the order of their times
    by client    the same in the order of clients
    by trace     the same in the order of traces
    flink        as a sink with a commit a minute and two writers: each has two shards as they came
    python       as a consumer with a commit an hour: a file a shard

All are partitioned by receive hour, and a reader opens the files of the hours that it asks for. Rows are
generated, not landed, and come almost in the order of their times. Arrow writes the last two with the codec,
its level and the row groups of Flink's sink and of PyIceberg; what else these two set is left as Arrow has
it. Each figure is one pass, so seconds (CPU) that differ by a tenth are the same; Spark's differ by more,
since its JVM goes on to compile what it runs. Bytes are what the process asked of the system, its caches
included, with no cache of DuckDB's.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench import history
from bench.logstores import bench_folder
from bench.phases import own_cpu_s
from pipelines.landing.table.data_files import ROW_GROUP_BYTES, parquet_writer

SHARDS, LANDED_MIN = 4, 5
KEY, BLOOM = "trace", {"write.parquet.bloom-filter-enabled.column.trace": "true"}
ORDERS = {"by time": "__time__", "by client": "client", "by trace": KEY}
_PIECE_ROWS = 8192
_DAY_S = 1_782_000_000 // 86_400 * 86_400
_ROWS = """
SELECT 'bench-00000000' AS __origin__, $shard::INT AS __shard__, 1000 + i // 200 AS __cursor__,
  (i % 200)::INT AS __index__, to_timestamp($hour_s) AS __receive_hour__,
  to_timestamp($hour_s + 3600 * (i - $first) / $rows + (hash(i) % 1000) / 1000) AS __time__,
  'access' AS __topic__, '10.0.' || $shard || '.1' AS __source__,
  NULL::MAP(VARCHAR, VARCHAR) AS __tags__, '192.168.' || i % 251 || '.' || i * 7 % 253 AS client,
  ['GET', 'POST', 'PUT'][1 + i % 3] AS method,
  '/api/v1/resource/' || i * 7919 % 100003 || '/items/' || i % 97 AS path,
  [200, 200, 200, 304, 404, 500][1 + (hash(i * 3) % 6)::INT] AS status, i * 104729 % 1000000 AS bytes,
  i * 31 % 10000 / 7 AS latency_ms,
  'https://shop.example/goods/' || i % 1009 || '/page/' || i % 53 || '?session=' || hash(i // 40) AS referer,
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537 Chrome/' || 90 + i % 40 || '.0 Safari/537.36' AS agent,
  printf('%016x%016x', (hash($shard::BIGINT * 1000000007 + i) >> 1)::BIGINT,
    (hash(i * 31 + $shard) >> 1)::BIGINT) AS trace,
  'cn-hangzhou-' || ['a', 'b', 'c', 'd', 'e', 'f'][1 + i % 6] AS zone,
  NULL::MAP(VARCHAR, VARCHAR) AS __rest__, NULL::VARCHAR AS __error__, NULL::BLOB AS __raw__
FROM range($first, $first + $rows) AS numbers(i)
"""


@dataclass
class Layout:
    """Files by hour of the day, and how many bytes they are."""

    files: dict[int, list[Path]] = field(default_factory=dict)

    def add(self, hour: int, path: Path) -> None:
        self.files.setdefault(hour, []).append(path)

    def of(self, hour: int | None) -> list[str]:
        """The files that a reader of an hour opens; of the day for None."""
        return [str(path) for at, paths in self.files.items() if hour in (None, at) for path in paths]

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for paths in self.files.values() for path in paths)


class Maker:
    """Writes the day, or so many hours of it, in each layout below `folder`."""

    def __init__(self, folder: Path, rows: int, hours: int) -> None:
        minutes = hours * 60 * SHARDS
        self._folder, self._minute_rows, self.hours = folder, rows // minutes, hours
        self.rows = self._minute_rows * minutes
        self.layouts: dict[str, Layout] = {}
        self.sought = ""

    def make(self) -> None:
        with duckdb.connect() as connection:
            connection.execute("SET threads = 2; SET TimeZone = 'UTC'")
            for hour in range(self.hours):
                self._hour(connection, hour)

    def _hour(self, connection: duckdb.DuckDBPyConnection, hour: int) -> None:
        rows = self._minute_rows
        hours = [self._hour_of(connection, hour, shard) for shard in range(SHARDS)]
        minutes = [[whole.slice(m * rows, rows) for whole in hours] for m in range(60)]
        if hour == self.hours // 2:
            self.sought = minutes[30][2].column(KEY)[minutes[30][2].num_rows // 2].as_py()
        for begin in range(0, 60, LANDED_MIN):
            for shard in range(SHARDS):
                self._ours("landed", hour, [m[shard] for m in minutes[begin : begin + LANDED_MIN]], {})
        of_shards = [minutes[m][s] for s in range(SHARDS) for m in range(60)]
        self._ours("compacted", hour, of_shards, {})
        self._ours("bloom", hour, of_shards, BLOOM)
        for name, column in ORDERS.items():
            in_order = pa.concat_tables(of_shards).sort_by(column)
            pieces = [in_order.slice(at, _PIECE_ROWS) for at in range(0, in_order.num_rows, _PIECE_ROWS)]
            self._ours(name, hour, pieces, {})
        for minute in minutes:
            for writer in range(2):
                self._theirs("flink", hour, minute[writer::2], compression_level=3, row_group_size=10**6)
        for shard in range(SHARDS):
            self._theirs("python", hour, [m[shard] for m in minutes], row_group_size=1 << 20)

    def _hour_of(self, connection: duckdb.DuckDBPyConnection, hour: int, shard: int) -> pa.Table:
        rows = self._minute_rows * 60
        known = {"shard": shard, "hour_s": _DAY_S + hour * 3600, "first": hour * rows, "rows": rows}
        return connection.sql(_ROWS, params=known).to_arrow_table()

    def _ours(self, name: str, hour: int, tables: Sequence[pa.Table], properties: Mapping[str, str]) -> None:
        first, *others = _groups(tables)
        with self._path(name, hour).open("wb") as stream, parquet_writer(stream, first, properties) as writer:
            for group in (first, *others):
                writer.write_table(group, row_group_size=group.num_rows)

    def _theirs(
        self,
        name: str,
        hour: int,
        tables: Sequence[pa.Table],
        *,
        row_group_size: int,
        compression_level: int = 1,
    ) -> None:
        table = pa.concat_tables(tables)
        options = {"compression": "zstd", "compression_level": compression_level}
        pq.write_table(table, self._path(name, hour), row_group_size=row_group_size, **options)

    def _path(self, name: str, hour: int) -> Path:
        layout = self.layouts.setdefault(name, Layout())
        path = self._folder / name / f"{hour:02}" / f"{len(layout.files.get(hour, ())):04}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        layout.add(hour, path)
        return path


def _groups(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """The rows as a landing and a compaction group them."""
    waiting, size = list[pa.Table](), 0
    for table in tables:
        waiting.append(table)
        size += table.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


@dataclass(frozen=True)
class Paid:
    """What an answer cost: CPU seconds, bytes read, files opened; and what it was."""

    cpu_s: float
    read_bytes: int
    files: int
    answer: int


QUESTIONS = {
    "one key, one hour": "SELECT {rows} FROM {logs} WHERE trace = '{sought}'",
    "errors by minute": (
        "SELECT {minutes} FROM (SELECT date_trunc('minute', __time__) AS m, count(*) AS n "
        "FROM {logs} WHERE status >= 500 GROUP BY 1) AS of_minutes"
    ),
    "one key, a day": "SELECT {rows} FROM {logs} WHERE trace = '{sought}'",
    "one client, a day": "SELECT sum(bytes) FROM {logs} WHERE client = '192.168.1.7'",
}
"""In the words of both readers; a hash of all that an answer says stands for it, each reader with its own."""
Ask = Callable[[str, list[str], str], Paid]
"""A question, the files and the trace that is sought -> what the answer cost."""


def asked(ask: Ask, layout: Layout, maker: Maker) -> dict[str, Paid]:
    """The four questions to a layout."""
    hours = {"one key, one hour": maker.hours // 2}
    return {name: ask(query, layout.of(hours.get(name)), maker.sought) for name, query in QUESTIONS.items()}


@contextmanager
def in_duckdb() -> Iterator[Ask]:
    """DuckDB, in this process."""
    counters = psutil.Process().io_counters

    def ask(query: str, files: list[str], sought: str) -> Paid:
        words = {"rows": "sum(hash(f))", "minutes": "sum(hash(m, n))", "logs": "read_parquet($files) AS f"}
        with duckdb.connect() as connection:
            connection.execute(
                "SET threads = 2; SET enable_external_file_cache = false; SET TimeZone = 'UTC'"
            )
            before, begun_s = counters().read_chars, own_cpu_s()
            query = query.format(**words, sought=sought)
            (answer,) = connection.execute(query, {"files": files}).fetchone() or (0,)
            return Paid(own_cpu_s() - begun_s, counters().read_chars - before, len(files), int(answer or 0))

    yield ask


@contextmanager
def in_spark() -> Iterator[Ask]:
    """Spark's own reader of Parquet, in a JVM of this process with two threads for tasks."""
    conf: dict[str, str | int | float | bool | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.legacy.allowHashOnMapType": "true",
    }
    spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    words = {"rows": "bit_xor(xxhash64(*))", "minutes": "bit_xor(xxhash64(m, n))", "logs": "logs"}

    def spent() -> tuple[float, int]:
        (java,) = (p for p in psutil.Process().children(recursive=True) if p.name() == "java")
        times = java.cpu_times()
        return times.user + times.system, java.io_counters().read_chars

    def ask(query: str, files: list[str], sought: str) -> Paid:
        spark.read.parquet(*files).createOrReplaceTempView("logs")
        begun_s, before = spent()
        (answer,) = spark.sql(query.format(**words, sought=sought)).first() or (0,)
        ended_s, after = spent()
        return Paid(ended_s - begun_s, after - before, len(files), int(answer or 0))

    try:
        yield ask
    finally:
        spark.stop()


READERS: dict[str, Callable[[], AbstractContextManager[Ask]]] = {"duckdb": in_duckdb, "spark": in_spark}


def shown(reader: str, ask: Ask, maker: Maker) -> dict[str, float]:
    """Print what each layout costs a reader; the figures by name. SystemExit where two answers differ."""
    figures: dict[str, float] = {}
    answers: dict[str, set[int]] = {}
    for name, layout in maker.layouts.items():
        print(f"{reader}, {name}: {len(layout.of(None)):,} files, {layout.size / 1e6:,.0f} MB", flush=True)
        asked(ask, layout, maker)  # what runs for the first time is nothing of a layout's
        for question, paid in asked(ask, layout, maker).items():
            answers.setdefault(question, set()).add(paid.answer)
            mb = paid.read_bytes / 1e6
            print(f"    {question:20}{paid.cpu_s:8.2f} CPU s{mb:10,.1f} MB read{paid.files:8,} files")
            key = f"{reader}, {name}, {question}"
            figures |= {f"{key}, cpu_s": paid.cpu_s, f"{key}, read_mb": mb, f"{key}, files": paid.files}
    if any(len(found) > 1 for found in answers.values()):
        raise SystemExit(f"{reader}: the layouts answer differently: {answers}")
    return figures


def main() -> None:
    """Run the bench and print its figures."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.bench_read", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--hours", type=int, default=24, help="of the day that are written")
    parser.add_argument("--reader", choices=READERS, nargs="+", default=list(READERS))
    history.add_flag(parser)
    options = parser.parse_args()
    figures: dict[str, float] = {}
    with bench_folder() as folder:
        maker = Maker(folder, options.rows, options.hours)
        maker.make()
        print(f"{maker.rows:,} rows of {maker.hours} hours, {SHARDS} shards")
        for reader in options.reader:
            with READERS[reader]() as ask:
                figures |= shown(reader, ask, maker)
    if options.record:
        history.record("bench_read", figures)


if __name__ == "__main__":
    main()
