"""The verifier: DuckDB over the Parquet files that the table's metadata lists, and the emulator's dump.

No code of fetch, decode, planning, ledger or landing takes part. The dump is parsed with the vendor's
protobuf classes; of the table only the list of live files is taken, with the sequence number of the
commit that brought each. The words are those of the consistency literature:

    lost                 stored by the service and not in the table; nor is it in a gap that the ledger
                         names and retention really made, nor did an undo that was sent withdraw it
    duplicate            in the table more than once, by place (shard, cursor, index) or by name (k, q)
    invented             in the table, never stored
    altered              at its place, with other content
    out of order         landed by an earlier commit than a log before it in its shard or stream
    child before parent  a shard's rows landed before, or with, those of a shard it came from
    contradicted         in the table, though the ledger says that it is a gap or withdrawn
    unkept               acknowledged to the producer, not stored by the service

Order is judged on live landings as they were committed, whatever compaction and undo did to their files
since; a backfill brings hours in any order by design.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa
from aliyun.log import log_logs_raw_pb2 as pb
from pyiceberg.table import Table

_TRUTH = pa.schema(
    [
        ("shard", pa.int32()),
        ("cursor", pa.int64()),
        ("place", pa.int32()),
        ("k", pa.int32()),
        ("q", pa.int64()),
        ("v", pa.string()),
    ]
)
_TRUTH_ROWS = 200_000

_FILES = pa.schema([("path", pa.string()), ("sequence", pa.int64()), ("live", pa.bool_())])
_INTERVALS = pa.schema(
    [("kind", pa.string()), ("shard", pa.int32()), ("begin", pa.int64()), ("until", pa.int64())]
)
_ACKED = pa.schema([("k", pa.int32()), ("q", pa.int64()), ("count", pa.int64())])

_LANDED = """
CREATE TABLE landed AS
SELECT __shard__ AS shard, __cursor__ AS cursor, __index__ AS place,
       k, q, __rest__['v'] AS v, __error__ AS error
FROM read_parquet(?)
"""
_HISTORY = """
CREATE TABLE history AS
SELECT f.sequence, r.__shard__ AS shard, r.__cursor__ AS cursor, r.__index__ AS place, r.k, r.q
FROM read_parquet(?, filename = true) AS r JOIN files AS f ON f.path = r.filename
"""
# What the ledger claims counts as far as the chaos did it: both are looked at.
_EXCUSED = """
CREATE TABLE excused AS
SELECT said.kind, said.shard,
       greatest(said.begin, done.begin) AS begin, least(said.until, done.until) AS until
FROM intervals AS said JOIN intervals AS done ON said.shard = done.shard
WHERE (said.kind, done.kind) IN (('gap', 'cut'), ('withdrawn', 'undone'))
  AND greatest(said.begin, done.begin) < least(said.until, done.until)
"""
_MISSING = """
CREATE TABLE missing AS
SELECT t.*, (SELECT min(e.kind) FROM excused AS e
             WHERE e.shard = t.shard AND e.begin <= t.cursor AND t.cursor < e.until) AS why
FROM truth AS t ANTI JOIN landed USING (shard, cursor, place)
"""

_QUESTIONS: Mapping[str, str] = {
    "lost": "SELECT count(*) FROM missing WHERE why IS NULL",
    "duplicate": """
        SELECT (SELECT count(*) FROM landed) - (SELECT count(*) FROM (
                   SELECT DISTINCT shard, cursor, place FROM landed))
             + (SELECT count(k) FROM landed) - (SELECT count(*) FROM (
                   SELECT DISTINCT k, q FROM landed WHERE k IS NOT NULL))""",
    "invented": "SELECT count(*) FROM landed ANTI JOIN truth USING (shard, cursor, place)",
    "altered": """
        SELECT count(*) FROM landed AS l JOIN truth AS t USING (shard, cursor, place)
        WHERE (l.k, l.q, l.v) IS DISTINCT FROM (t.k, t.q, t.v) OR l.error IS NOT NULL""",
    "out of order": """
        SELECT count(*) FILTER (WHERE sequence < before_in_shard)
             + count(*) FILTER (WHERE q < before_in_stream)
        FROM (SELECT sequence, q,
                     max(sequence) OVER (PARTITION BY shard ORDER BY cursor, place
                                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_in_shard,
                     max(q) OVER (PARTITION BY k ORDER BY sequence, shard, cursor, place
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_in_stream
              FROM history)""",
    "child before parent": """
        WITH spans AS (SELECT shard, min(sequence) AS first, max(sequence) AS last
                       FROM history GROUP BY shard)
        SELECT count(*)
        FROM shards AS parent JOIN shards AS child
             ON parent.shard < child.shard
            AND parent.begin_key < child.end_key AND child.begin_key < parent.end_key
        JOIN spans AS p ON p.shard = parent.shard
        JOIN spans AS c ON c.shard = child.shard
        WHERE c.first <= p.last""",
    "contradicted": """
        SELECT count(*) FROM landed AS l JOIN intervals AS i
            ON i.shard = l.shard AND i.begin <= l.cursor AND l.cursor < i.until
        WHERE i.kind IN ('gap', 'withdrawn')""",
    "unkept": """
        SELECT count(*)
        FROM (SELECT k, unnest(range(q, q + count)) AS q FROM acked) ANTI JOIN truth USING (k, q)""",
}
_EXCUSES = "SELECT count(*) FROM missing WHERE why = ?"
_UNTOLD = """
SELECT count(*) FROM landed ANTI JOIN (
    SELECT __shard__ AS shard, __cursor__ AS cursor, __index__ AS place FROM read_parquet(?)
) USING (shard, cursor, place)
"""


@dataclass(frozen=True)
class Found:
    """What DuckDB counted. `wrong` has one number for each word of the module's head.

    `gapped` and `withdrawn` rows are not in the table, and the ledger says so, with reason. `untold` rows
    came with a file that nobody saw land: then the order of landings is not known, and not proven.
    """

    rows: int
    stored: int
    files: int
    shards: int
    wrong: Mapping[str, int]
    gapped: int = 0
    withdrawn: int = 0
    untold: int = 0


@dataclass(frozen=True)
class Beside:
    """What the proof is told besides the table and the truth; see the functions that make the tables.

    history    every file that any landing brought, gone from the table or not; None: those of the table
    intervals  (kind, shard, begin, until): `gap` and `withdrawn` as the ledger has them; `cut` and
               `undone` as retention and undo really did
    acked      (k, q, count): what the producer knows to be stored
    """

    history: pa.Table | None = None
    intervals: pa.Table = field(default_factory=_INTERVALS.empty_table)
    acked: pa.Table = field(default_factory=_ACKED.empty_table)


def truth_of(dump: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """The emulator's dump as record batches: shard, cursor, place in the group, k, q, v.

    A group may be there twice, from before retention removed it and from after it did not yet.
    """
    columns: list[list[Any]] = [[] for _ in _TRUTH]
    seen: set[tuple[int, int]] = set()
    for entry in dump:
        name = int(entry["shard"]), int(entry["cursor"])
        if name in seen:
            continue
        seen.add(name)
        message = pb.LogGroupRaw()
        message.ParseFromString(base64.b64decode(entry["raw"]))
        for place, log in enumerate(message.Logs):
            said = {c.Key: c.Value.decode() for c in log.Contents}
            row = (
                int(entry["shard"]),
                int(entry["cursor"]),
                place,
                int(said["k"]),
                int(said["q"]),
                said["v"],
            )
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
        if len(columns[0]) >= _TRUTH_ROWS:
            yield _batch(columns)
            columns = [[] for _ in _TRUTH]
    yield _batch(columns)


def _batch(columns: list[list[Any]]) -> pa.RecordBatch:
    arrays = [pa.array(cells, f.type) for cells, f in zip(columns, _TRUTH, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_TRUTH)


def files_of(table: Table) -> pa.Table:
    """The table's live files: path, sequence number of their commit, all as if a live run brought them."""
    snapshot = table.current_snapshot()
    return files_table(
        (entry.data_file.file_path.removeprefix("file://"), entry.sequence_number or 0, True)
        for manifest in (snapshot.manifests(table.io) if snapshot else [])
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    )


def files_table(files: Iterable[tuple[str, int, bool]]) -> pa.Table:
    """Of (path, sequence number of the commit that brought it, whether a live run did)."""
    names = _FILES.names
    return pa.Table.from_pylist([dict(zip(names, f, strict=True)) for f in files], schema=_FILES)


def intervals_table(intervals: Iterable[tuple[str, int, int, int]]) -> pa.Table:
    """Of (kind, shard, begin, until)."""
    names = _INTERVALS.names
    return pa.Table.from_pylist([dict(zip(names, i, strict=True)) for i in intervals], schema=_INTERVALS)


def acked_table(puts: Iterable[tuple[int, int, int]]) -> pa.Table:
    """Of (stream, number of the first log, how many)."""
    names = _ACKED.names
    return pa.Table.from_pylist([dict(zip(names, p, strict=True)) for p in puts], schema=_ACKED)


def shards_of(listed: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The shards as the emulator lists them: id and key range, as hexadecimal text of equal length."""
    rows = [
        {"shard": int(s["shardID"]), "begin_key": s["inclusiveBeginKey"], "end_key": s["exclusiveEndKey"]}
        for s in listed
    ]
    schema = pa.schema([("shard", pa.int32()), ("begin_key", pa.string()), ("end_key", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)


def prove(
    files: pa.Table, shards: pa.Table, truth: Iterable[pa.RecordBatch], beside: Beside | None = None
) -> Found:
    """Count with DuckDB. Reads every listed file; a listed file that is gone raises its error."""
    beside = beside or Beside()
    brought = files if beside.history is None else beside.history
    live = brought.filter(brought["live"])
    with duckdb.connect() as db:
        db.register("files", brought)
        db.register("shards", shards)
        db.register("intervals", beside.intervals)
        db.register("acked", beside.acked)
        truth_table = pa.Table.from_batches(list(truth), schema=_TRUTH)
        db.register("truth", truth_table)
        db.execute(_LANDED, [files["path"].to_pylist()])
        db.execute(_HISTORY, [live["path"].to_pylist()])
        db.execute(_EXCUSED)
        db.execute(_MISSING)
        return Found(
            rows=_number(db, "SELECT count(*) FROM landed"),
            stored=truth_table.num_rows,
            files=files.num_rows,
            shards=_number(db, "SELECT count(DISTINCT shard) FROM landed"),
            wrong={word: _number(db, question) for word, question in _QUESTIONS.items()},
            gapped=_number(db, _EXCUSES, "gap"),
            withdrawn=_number(db, _EXCUSES, "withdrawn"),
            untold=_number(db, _UNTOLD, brought["path"].to_pylist()),
        )


def _number(db: duckdb.DuckDBPyConnection, question: str, *values: object) -> int:
    answer = db.execute(question, values).fetchone()
    return int(answer[0] or 0) if answer else 0
