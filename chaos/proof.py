"""The verifier: DuckDB over the Parquet files that the table's metadata lists, and the emulator's dump.

No code of fetch, decode, planning, ledger or landing takes part. The dump is parsed with the vendor's
protobuf classes; of the table only the list of live files is taken, with the sequence number of the
commit that brought each. The words are those of the consistency literature:

    lost                 stored by the service, not in the table
    duplicate            in the table more than once, by place (shard, cursor, index) or by name (k, q)
    invented             in the table, never stored
    altered              at its place, with other content
    out of order         landed by an earlier commit than a log before it in its shard or stream
    child before parent  a shard's rows landed before, or with, those of a shard it came from

Order is judged on live landings; a backfill brings hours in any order by design.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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

_LANDED = """
CREATE TABLE landed AS
SELECT f.sequence, f.live, r.__shard__ AS shard, r.__cursor__ AS cursor, r.__index__ AS place,
       r.k, r.q, r.__rest__['v'] AS v, r.__error__ AS error
FROM read_parquet(?, filename = true) AS r JOIN files AS f ON f.path = r.filename
"""

_QUESTIONS: Mapping[str, str] = {
    "lost": "SELECT count(*) FROM truth ANTI JOIN landed USING (shard, cursor, place)",
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
              FROM landed WHERE live)""",
    "child before parent": """
        WITH spans AS (SELECT shard, min(sequence) AS first, max(sequence) AS last
                       FROM landed WHERE live GROUP BY shard)
        SELECT count(*)
        FROM shards AS parent JOIN shards AS child
             ON parent.shard < child.shard
            AND parent.begin_key < child.end_key AND child.begin_key < parent.end_key
        JOIN spans AS p ON p.shard = parent.shard
        JOIN spans AS c ON c.shard = child.shard
        WHERE c.first <= p.last""",
}


@dataclass(frozen=True)
class Found:
    """What DuckDB counted. `wrong` has one number for each word of the module's head."""

    rows: int
    stored: int
    files: int
    shards: int
    wrong: Mapping[str, int]


def truth_of(dump: Iterable[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """The emulator's dump as record batches: shard, cursor, place in the group, k, q, v."""
    columns: list[list[Any]] = [[] for _ in _TRUTH]
    for entry in dump:
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


def files_of(table: Table, fills: Iterable[int]) -> pa.Table:
    """The table's live files: path, sequence number of their commit, and whether a live run brought them.

    `fills` are the snapshot ids that backfills sent.
    """
    backfilled = set(fills)
    snapshot = table.current_snapshot()
    rows = [
        {
            "path": entry.data_file.file_path.removeprefix("file://"),
            "sequence": entry.sequence_number,
            "live": entry.snapshot_id not in backfilled,
        }
        for manifest in (snapshot.manifests(table.io) if snapshot else [])
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]
    schema = pa.schema([("path", pa.string()), ("sequence", pa.int64()), ("live", pa.bool_())])
    return pa.Table.from_pylist(rows, schema=schema)


def shards_of(listed: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The shards as the emulator lists them: id and key range, as hexadecimal text of equal length."""
    rows = [
        {"shard": int(s["shardID"]), "begin_key": s["inclusiveBeginKey"], "end_key": s["exclusiveEndKey"]}
        for s in listed
    ]
    schema = pa.schema([("shard", pa.int32()), ("begin_key", pa.string()), ("end_key", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)


def prove(files: pa.Table, shards: pa.Table, truth: Iterable[pa.RecordBatch]) -> Found:
    """Count with DuckDB. Reads every listed file; a listed file that is gone raises its error."""
    with duckdb.connect() as db:
        db.register("files", files)
        db.register("shards", shards)
        truth_table = pa.Table.from_batches(list(truth), schema=_TRUTH)
        db.register("truth", truth_table)
        db.execute(_LANDED, [files["path"].to_pylist()])
        wrong = {word: _number(db, question) for word, question in _QUESTIONS.items()}
        rows, seen = (
            _number(db, "SELECT count(*) FROM landed"),
            _number(db, "SELECT count(DISTINCT shard) FROM landed"),
        )
    return Found(rows, truth_table.num_rows, files.num_rows, seen, wrong)


def _number(db: duckdb.DuckDBPyConnection, question: str) -> int:
    answer = db.execute(question).fetchone()
    return int(answer[0] or 0) if answer else 0
