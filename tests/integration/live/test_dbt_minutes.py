"""Silver by minute, gold by day and the rows with errors: one story of landings and dbt runs, told once.

dbt runs in this process, over the Spark that is there; each test looks at one chapter.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner
from pyiceberg.expressions import EqualTo
from pyspark.sql.functions import lit

from pipelines.landing.commit.planned import execute
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.emulator import start
from tests.integration.dbt_here import PLACE, dbt_here
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World, group, new_world

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLE = "bronze.access_logs"
SILVER, GOLD = "silver.access_logs_by_minute", "gold.access_logs_by_day"
COUNTED = "every_row_is_in_a_minute"
MINUTES = ("run", "--select", "access_logs_by_minute")
DOWNSTREAM = ("build", "--exclude", "stg_access_logs")
FIRST, SECOND = HOUR0_S + 60, HOUR0_S + 120
LATE_HOUR = HOUR0 + 3
THEN = LATE_HOUR * 3600 + 60
"""17:01 UTC, which is 01:01 of the next day in Shanghai."""


def at(time_s: int) -> datetime:
    return datetime.fromtimestamp(time_s, UTC)


@dataclass(frozen=True)
class Chapter:
    """What stands in silver and gold after a dbt run.

    landed     snapshot of the landed table then
    latency    day -> mean and maximum of its milliseconds, as gold has them
    files      silver's data files; writes: how each of its snapshots came to be
    """

    landed: int
    silver: Mapping[datetime, Mapping[str, Any]]
    gold: Mapping[date, int]
    latency: Mapping[date, tuple[float | None, float | None]]
    files: frozenset[str]
    writes: tuple[str, ...]
    statuses: Mapping[str, str]

    @property
    def logs(self) -> dict[int, int]:
        """Unix seconds of a minute -> its logs."""
        return {int(minute.timestamp()): row["logs"] for minute, row in self.silver.items()}

    @property
    def counted(self) -> set[int]:
        """The minutes that this run counted."""
        return {int(m.timestamp()) for m, row in self.silver.items() if row["snapshot_id"] == self.landed}


@dataclass
class Story:
    """A world, dbt over its table, and the chapters so far."""

    world: World
    runner: dbtRunner
    chapters: dict[str, Chapter] = field(default_factory=dict)
    causes: list[tuple[Any, ...]] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def put(self, time_s: int, *logs: Mapping[str, str | bytes]) -> None:
        with self.world.client as client:
            client.put_raw(group(logs, time_s=time_s))

    def land(self, seconds: int) -> None:
        """All that was put, so many seconds later."""
        self.world.emulator.admin.advance(seconds)
        self.world.land()

    def dbt(self, chapter: str, *arguments: str) -> None:
        done = self.runner.invoke(["--quiet", *arguments, *PLACE])
        assert done.exception is None, done.exception
        results: Any = done.result
        landed, silver, gold = (self.world.lake.load(name) for name in (TABLE, SILVER, GOLD))
        assert landed is not None and silver is not None and gold is not None
        head = landed.current_snapshot()
        assert head is not None
        days = gold.scan().to_arrow().to_pylist()
        self.chapters[chapter] = Chapter(
            head.snapshot_id,
            {row["minute"]: row for row in silver.scan().to_arrow().to_pylist()},
            {row["day"]: row["logs"] for row in days},
            {row["day"]: (row["latency_ms_mean"], row["latency_ms_max"]) for row in days},
            frozenset(task.file.file_path for task in silver.scan().plan_files()),
            tuple(str(s.summary.operation.value) for s in silver.snapshots() if s.summary),
            {result.node.name: str(result.status) for result in results.results},
        )


@pytest.fixture(scope="module")
def story(engine: Engine, shared_lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("minutes")
    heard: list[str] = []
    with (
        dbt_here(shared_lake, folder, lambda event: heard.append(getattr(event.info, "msg", ""))) as runner,
        start(folder / "emulator", now=HOUR0_S + 300.0) as emulator,
    ):
        session = engine.session  # the bare Spark of a landing knows no views
        columns = {"status": "int", "latency_ms": "double"}
        world = new_world(emulator, shared_lake, engine, columns=columns)
        story = Story(world, runner, heard=heard)

        bad = {f"k{number}": b"\xff" for number in range(12)}
        story.put(FIRST, {"status": "200", "latency_ms": "10"}, {"status": "503", "latency_ms": "30", **bad})
        story.put(SECOND, {"status": "404", "latency_ms": "nan"}, {"status": "many", "latency_ms": "-"})
        story.land(3600)
        story.dbt("first", "build")
        story.causes = [tuple(row) for row in session.table("silver.access_logs_error_causes").collect()]
        story.dbt("nothing landed", *MINUTES)

        emulator.admin.set_clock(THEN)
        story.put(FIRST, {"status": "200", "latency_ms": "50"})
        story.put(THEN, {"status": "200", "latency_ms": "inf"})
        story.land(60)
        story.dbt("three hours late", *DOWNSTREAM, "--vars", "{timezone: Asia/Shanghai}")
        story.put(THEN + 60, {"status": "200"})
        story.land(3600)
        story.dbt("later in that hour", *MINUTES)

        with world.client as client:
            before_it = set(world.published())
            undone = plan_undo(shared_lake, world.logstore, client, range(LATE_HOUR, LATE_HOUR + 1))
            execute(shared_lake, undone)
        # Nobody may need the files that left: they may have left because they were lost.
        for lost in before_it - set(world.published()):
            Path(lost).unlink()
        story.dbt("taken back", *DOWNSTREAM)

        before = world.table.metadata.current_snapshot_id
        assert before is not None
        story.put(SECOND, *[{"status": "200", "latency_ms": "1e308"}] * 2)
        story.land(60)
        # The emulator refuses a log without a time; in a table there may be such rows.
        one = session.table(TABLE).where("status = 503").withColumn("__time__", lit(None).cast("timestamp"))
        one.writeTo(TABLE).append()
        world.table.maintenance.expire_snapshots().by_id(before).commit()
        story.dbt("expired", *DOWNSTREAM)

        # By hand: an undo would not begin beside the row that was appended.
        world.table.delete(EqualTo(term="__receive_hour__", value=at(HOUR0_S).isoformat()))
        kept = f"table => '{SILVER}'"
        session.sql(f"CALL lake.system.rewrite_data_files({kept}, options => map('rewrite-all', 'true'))")
        session.sql(f"CALL lake.system.expire_snapshots({kept}, older_than => now(), retain_last => 1)")
        story.dbt("position lost", *DOWNSTREAM)

        session.sql(f"DELETE FROM {SILVER}")
        heard.clear()
        runner.invoke(["test", "--select", COUNTED, *PLACE])
        yield story
    for table in (TABLE, SILVER, GOLD):
        shared_lake.catalog().purge_table(table)
    # What expired snapshots alone had is left by a purge, and would look like a table that was lost.
    warehouse = Path(shared_lake.properties["warehouse"].removeprefix("file://"))
    shutil.rmtree(warehouse / "bronze" / "access_logs")


def test_a_minute_has_the_figures_of_its_rows(story: Story) -> None:
    row = story.chapters["first"].silver[at(FIRST)]
    assert (row["logs"], row["status_2xx"], row["status_4xx"], row["status_5xx"]) == (2, 1, 0, 1)
    assert (row["logs_with_latency"], row["latency_ms_sum"], row["latency_ms_max"]) == (2, 40.0, 30.0)
    other = story.chapters["first"].silver[at(SECOND)]
    assert (other["logs"], other["logs_with_error"], other["status_4xx"]) == (2, 1, 1)
    assert (other["logs_with_latency"], other["latency_ms_sum"]) == (0, None)


def test_a_run_after_which_nothing_landed_counts_nothing_and_rebuilds_nothing(story: Story) -> None:
    first, second = story.chapters["first"], story.chapters["nothing landed"]
    assert second.silver == first.silver
    assert second.files == first.files
    assert second.writes[: len(first.writes)] == first.writes, "its history goes on: it was merged"


def test_a_row_three_hours_late_changes_its_minute_and_no_other(story: Story) -> None:
    late = story.chapters["three hours late"]
    assert late.logs == {FIRST: 3, SECOND: 2, THEN: 1}
    assert late.counted == {FIRST, THEN}
    row = late.silver[at(FIRST)]
    assert (row["latency_ms_sum"], row["last_receive_hour"]) == (90.0, at(LATE_HOUR * 3600))


def test_its_minute_is_not_counted_again_when_more_lands_into_the_same_receive_hour(story: Story) -> None:
    more = story.chapters["later in that hour"]
    assert more.logs == {FIRST: 3, SECOND: 2, THEN: 1, THEN + 60: 1}
    assert more.counted == {THEN + 60}


def test_days_are_cut_in_the_time_zone_of_the_variable(story: Story) -> None:
    assert story.chapters["three hours late"].gold == {date(2026, 9, 21): 5, date(2026, 9, 22): 1}
    assert story.chapters["taken back"].gold == {date(2026, 9, 21): 4}


def test_an_hour_that_is_taken_back_leaves_its_minutes_also_where_its_files_are_lost(story: Story) -> None:
    back = story.chapters["taken back"]
    assert back.logs == story.chapters["first"].logs
    assert back.silver[at(FIRST)]["latency_ms_max"] == 30.0


def test_where_the_last_snapshot_is_expired_all_minutes_are_counted(story: Story) -> None:
    expired, before = story.chapters["expired"], story.chapters["taken back"]
    assert expired.logs == {HOUR0_S: 1, FIRST: 2, SECOND: 4}
    assert expired.counted == set(expired.logs)
    assert expired.silver[at(FIRST)] == {**before.silver[at(FIRST)], "snapshot_id": expired.landed}


def test_where_the_model_no_longer_says_what_it_read_minutes_without_rows_leave_all_the_same(
    story: Story,
) -> None:
    lost = story.chapters["position lost"]
    assert lost.logs == {SECOND: 2}
    assert lost.counted == {SECOND}


def test_a_minute_that_is_missing_is_said_with_what_counts_it_again(story: Story) -> None:
    (said,) = (text for text in story.heard if text.startswith(f"{COUNTED}: "))
    assert said.startswith(f"{COUNTED}: the minutes count 0 rows, the landed table had 2 at snapshot ")
    assert said.endswith(
        "; count all anew: sls-lake dbt build --full-refresh --select access_logs_by_minute+"
    )


def test_what_is_no_finite_number_is_in_no_figure(story: Story) -> None:
    late = story.chapters["three hours late"]
    assert late.latency == {date(2026, 9, 21): (30.0, 50.0), date(2026, 9, 22): (None, None)}
    row = late.silver[at(THEN)]
    assert (row["logs"], row["logs_with_latency"], row["latency_ms_p95"]) == (1, 0, None)


def test_a_mean_whose_sum_no_double_holds_is_null_and_not_infinite(story: Story) -> None:
    assert story.chapters["expired"].latency == {date(2026, 9, 21): (None, 1e308)}


def test_a_row_without_a_time_of_its_own_counts_where_its_receive_hour_begins(story: Story) -> None:
    row = story.chapters["expired"].silver[at(HOUR0_S)]
    assert (row["logs"], row["logs_without_time"], row["status_5xx"]) == (1, 1, 1)


def test_rows_with_an_error_are_counted_by_cause(story: Story) -> None:
    hour = at(HOUR0_S).replace(tzinfo=None)
    named = [f"k{number} is not UTF-8" for number in range(8)]
    causes = [*named, "latency_ms is not double", "more than 8 causes", "status is not int"]
    assert story.causes == [(cause, 1, hour, hour) for cause in causes]


def test_each_test_of_each_model_ran_and_passed(story: Story) -> None:
    said = {name: status for chapter in story.chapters.values() for name, status in chapter.statuses.items()}
    assert {COUNTED, "days_sum_like_minutes", "rows_are_as_the_ledger_says"} <= set(said)
    assert set(said.values()) == {"pass", "success"}
