"""The page that defines the identity sum is run as it stands."""

import re
from pathlib import Path

import pytest

from pipelines.landing.ledger.state import read_state
from tests.worlds.one_logstore import HOUR0_S, World

PAGE = Path(__file__).resolve().parents[2] / "docs" / "internals" / "identity-sum.md"


@pytest.mark.spark
def test_spark_sql_computes_the_sums_of_the_ledger(world: World) -> None:
    """Another engine, another language, the same files: rows and sums are the ledger's."""
    (query,) = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    report = world.land_more(500, until_s=HOUR0_S + 120)
    table = world.lake.load(world.logstore.table)
    assert table is not None
    files = [task.file.file_path for task in table.scan().plan_files()]
    session = world.engine.session
    session.read.parquet(*files).createOrReplaceTempView("landed")
    summed = {r["shard"]: (r["landed_rows"], int(r["identity_sum"])) for r in session.sql(query).collect()}
    ledger = read_state(table).ledger(report.origin)
    assert summed == {s: (e.rows, e.sum) for s, e in ledger.shards.items() if e.rows}
