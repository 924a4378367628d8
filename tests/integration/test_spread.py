"""Verbs that outgrow a process: proof, second pull, compaction, removal and reading again as tasks of Spark.

What comes of it must be what this process makes of it, errors and their cures too.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import Planned, execute
from pipelines.landing.contents.cells import Counted, Edges, count, edges
from pipelines.landing.contents.spread import Spread, over, portions_of, unless_wrong
from pipelines.landing.inspection.second_pull import pull_again
from pipelines.landing.inspection.verify import verify
from pipelines.landing.inspection.whole import every_file
from pipelines.landing.ledger.place import look_at
from pipelines.landing.ledger.reading import Misread, Unreadable, tasks_of
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.maintenance.compact import compactions, plan_compaction
from pipelines.landing.maintenance.maintain import Maintainer, Maintenance
from pipelines.landing.operations.forget import plan_forget_before, plan_forget_where
from pipelines.landing.operations.mend import plan_mend
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.spark.session import Engine
from sls_io.values.errors import ConfigError, ConnectFailed, InvariantBroken, TransportError
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World

pytestmark = pytest.mark.spark
HOUR0_AT = datetime.fromtimestamp(HOUR0_S, UTC).isoformat()


@pytest.fixture
def spread(world: World) -> Iterator[Spread]:
    """Everything is a task of Spark, however little it is."""
    before, world.engine.here_bytes_max = world.engine.here_bytes_max, -1
    yield Spread(world.engine)
    world.engine.here_bytes_max = before


@pytest.fixture
def landed(world: World) -> World:
    """Two hours of two small landings each; the second is not sealed. One column is declared."""
    world.logstore = world.changed(columns={"n": "long"})
    for minute in (2, 30, 62, 90):
        world.at(HOUR0_S + 60 * (minute - 1))
        world.land_more(20, until_s=HOUR0_S + 60 * minute)
    return world


def proof(world: World, spread: Spread, **asked: Any) -> Any:
    with world.client as client, spread.kept():
        return verify(world.logstore, world.lake, client, **asked)


def parts_of(spread: Spread, table: Table, parts: Sequence[Any], work: Callable[..., Any], size: Any) -> Any:
    with spread.kept():
        return list(over(table, parts, work, bytes_of=size))


def counted(spread: Spread, table: Table, tasks: list[FileScanTask], cut: Edges) -> Counted:
    with spread.kept():
        return count(table, tasks, cut)


def compacted(world: World, spread: Spread, **options: Any) -> Maintenance:
    with spread.kept():
        return Maintainer(world.logstore, world.lake, **options).execute(["compact"])


def path_of(world: World) -> Path:
    return Path(world.published()[0].removeprefix("file://"))


def process_of(table: Table, part: int) -> tuple[int, str, int]:
    """Where a part is worked on, and what the table is there."""
    return os.getpid(), ".".join(table.name()), len(table.metadata.snapshots)


def test_parts_come_in_order_from_workers_that_have_the_table_without_its_snapshots(
    landed: World, spread: Spread
) -> None:
    heard: list[tuple[int, int]] = []
    with_ear = Spread(landed.engine, on_done=lambda done, total: heard.append((done, total)))
    found = parts_of(with_ear, landed.table, [3, 1, 2], lambda table, part: (part, os.getpid()), int)
    assert [part for part, _ in found] == [3, 1, 2] and os.getpid() not in {process for _, process in found}
    assert heard == [(1, 3), (2, 3), (3, 3)]
    ((process, name, snapshots),) = parts_of(spread, landed.table, [0], process_of, int)
    assert process != os.getpid() and name == landed.logstore.table and snapshots == 0
    (here,) = parts_of(Spread(), landed.table, [0], process_of, int)
    assert here == (os.getpid(), name, len(landed.table.metadata.snapshots))


def test_a_proof_says_the_same_from_wherever_it_comes(landed: World, spread: Spread) -> None:
    asked = {"pull": True, "rows": every_file}
    told = proof(landed, spread, **asked)
    assert told.ok and told == proof(landed, Spread(), **asked)
    assert sum(shard.rows_table for shard in told.shards) == 80 and told.whole.rows == 80
    assert sum(shard.windows_pulled for shard in told.shards) > 0
    cut = edges([landed.ledger])
    landed.table.append(landed.table.scan(limit=3).to_arrow())
    table = landed.table
    tasks = tasks_of(table, table.scan())
    there, here = (counted(each, table, tasks, cut) for each in (spread, Spread()))
    assert sum(there.twins.values()) == 3 and (there.files, there.twins) == (here.files, here.twins)


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-40])])
def test_a_file_that_a_worker_cannot_read_has_the_same_words_and_cures(
    landed: World, spread: Spread, harm: Callable[[Path], object]
) -> None:
    harm(path_of(landed))
    table = landed.table
    tasks = tasks_of(table, table.scan())
    cut = edges([landed.ledger])
    there, here = (counted(each, table, tasks, cut).lost for each in (spread, Spread()))
    assert [(str(one), one.path, one.cures) for one in there] == [(str(x), x.path, x.cures) for x in here]
    assert len(there) == 1
    said = proof(landed, spread, rows=every_file)
    assert said.cures and said == proof(landed, Spread(), rows=every_file)


def test_an_hour_is_written_together_by_workers_and_one_that_cannot_be_read_is_put_off(
    landed: World, spread: Spread
) -> None:
    rows, ledger = landed.identities(), landed.ledger
    done = compacted(landed, spread, target_bytes=20_000)
    ((hour, files, after),) = [(h.hour, h.files, h.files_after) for h in done.compacted]
    assert hour == HOUR0 and after is not None and after < files
    assert landed.identities() == rows and landed.ledger == ledger
    assert proof(landed, spread, rows=every_file).ok

    landed.at(HOUR0_S + 60 * 150)
    landed.put(2)
    landed.land()
    (second, *_) = [t for t in landed.table.scan().plan_files() if f"/{HOUR0 + 1}/" in t.file.file_path]
    Path(second.file.file_path.removeprefix("file://")).write_bytes(b"")
    head = landed.table.current_snapshot()
    later = compacted(landed, spread)
    assert later.compacted == () and later.unsettled and landed.table.current_snapshot() == head
    here = compacted(landed, Spread())
    assert later.put_off == here.put_off


def test_rows_leave_and_are_read_again_by_workers(landed: World, spread: Spread) -> None:
    with landed.client as client, spread.kept():
        planned = plan_forget_where(landed.lake, landed.logstore, client, "n = 7")
        assert planned.view.rows > 0
        execute(landed.lake, planned)
        assert proof(landed, spread).ok
        assert not landed.table.scan(row_filter="n = 7").to_arrow().num_rows
        hours = range(HOUR0, HOUR0 + 1)
        landed.logstore = landed.changed(columns={"n": "long", "path": "string"})
        again = plan_mend(landed.lake, landed.logstore, client, hours, kept_in="rest")
        assert again.view.rows > 0
        execute(landed.lake, again)
    read = landed.table.scan(row_filter=f"__receive_hour__ = '{HOUR0_AT}'").to_arrow()
    assert read.num_rows and set(read["path"].to_pylist()) <= {f"/p/{n}" for n in range(7)}
    assert proof(landed, spread, rows=every_file).ok


def test_what_is_read_before_a_decision_is_read_by_workers(landed: World, spread: Spread) -> None:
    """Whether the table's rows are those of its ledger, and those of a landing that one may go back to."""
    hours, landing = range(HOUR0, HOUR0 + 1), landed.table.current_snapshot()
    assert landing is not None and compacted(landed, Spread()).compacted
    nowhere = Engine(remote="sc://127.0.0.1:1", wait_s=0.1)
    nowhere.here_bytes_max = -1
    with landed.client as client:
        asked = (landed.lake, landed.logstore, client)
        plans: list[Callable[[], Planned[Any]]] = [
            partial(plan_undo, *asked, hours),
            partial(plan_rollback, landed.lake, landed.logstore.table, landing.snapshot_id),
            partial(plan_forget_where, *asked, "n = 7"),
            partial(plan_forget_before, *asked, HOUR0 + 1),
        ]
        for plan in plans:
            with Spread().kept():
                told = plan().view
            with spread.kept():
                assert plan().view == told
            with Spread(nowhere).kept(), pytest.raises(ConnectFailed):
                plan()


def test_what_a_worker_raises_is_what_it_was_and_names_the_machine_where_that_is_another(
    landed: World, spread: Spread
) -> None:
    def wrong(table: Table, part: int) -> int:
        raise (ConfigError("set it"), Misread("file x"), TransportError("gone"))[part]

    found = parts_of(spread, landed.table, [0, 1, 2], wrong, lambda part: 1)
    assert [type(each) for each in found] == [ConfigError, Misread, TransportError]
    assert [str(each) for each in found] == ["set it", str(Misread("file x")), "gone"]
    with pytest.raises(ConfigError, match="set it"):
        list(unless_wrong(found))


def test_a_worker_that_dies_is_an_error_with_a_place_to_look(landed: World, spread: Spread) -> None:
    def die(table: Table, part: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return part

    with pytest.raises(TransportError, match=r"a task of Spark at .* failed .*, its log says why"):
        parts_of(spread, landed.table, [1], die, int)
    assert parts_of(spread, landed.table, [1], lambda table, part: part, int) == [1]


def test_much_is_sent_in_several_jobs_and_files_in_portions(landed: World, spread: Spread) -> None:
    parts = [b"x" * (9 << 20)] * 3
    assert parts_of(spread, landed.table, parts, lambda table, part: len(part), len) == [9 << 20] * 3
    tasks = tasks_of(landed.table, landed.table.scan())
    portions = portions_of(tasks * 400)
    assert [task for portion in portions for task in portion] == tasks * 400 and len(portions) > 1
    looked = look_at(landed.lake, landed.logstore.table)
    assert looked.table.metadata == landed.table.metadata, "what travels is another one"
    assert isinstance(Unreadable(landed.table, tasks[0].file, "x").file, type(tasks[0].file))


def test_hours_behind_a_job_that_failed_stay_as_they_are(landed: World) -> None:
    """Parts of both hours are one job. Where it fails, the second hour finds no files of its own."""
    landed.at(HOUR0_S + 60 * 150)
    landed.put(2)
    landed.land()
    look = partial(look_at, landed.lake, landed.logstore.table)
    hours = plan_compaction(look())
    assert len(hours) == 2
    rows, head = landed.identities(), landed.table.current_snapshot()
    nowhere = Engine(remote="sc://127.0.0.1:1", wait_s=0.1)
    nowhere.here_bytes_max = -1

    with Spread(nowhere).kept():
        first, second = compactions(look, hours)
        with pytest.raises(ConnectFailed):
            execute(landed.lake, first.planned)
        with pytest.raises(TransportError, match="since tasks failed before"):
            execute(landed.lake, second.planned)
    assert landed.table.current_snapshot() == head and landed.identities() == rows


def test_an_hour_is_pulled_again_in_this_process_though_the_whole_would_be_tasks(landed: World) -> None:
    """Eighty rows, forty of them of the hour."""
    nowhere = Engine(remote="sc://127.0.0.1:1", wait_s=0.1)
    nowhere.here_bytes_max = 60 * 100
    hour = range(HOUR0, HOUR0 + 1)

    with landed.client as client, Spread(nowhere).kept():
        again = partial(pull_again, client, landed.table, landed.ledger)
        assert sum(rows for rows, _ in again(hours=hour).windows.values()) == 40
        with pytest.raises(ConnectFailed):
            again()


def test_a_commit_that_should_keep_all_rows_is_refused_where_it_would_not(landed: World) -> None:
    look = partial(look_at, landed.lake, landed.logstore.table)
    place, head = look(), landed.table.current_snapshot()
    (hour,) = plan_compaction(place)
    unchanged = authored.unchanged(place.head, place.state, Deed(Operation.COMPACT))
    dropped = frozenset(task.file.file_path for task in hour.tasks)
    with pytest.raises(InvariantBroken, match="should stay, and there would be -40 of them"):
        execute(landed.lake, Planned(None, place, replace(unchanged, dropped=dropped)))
    assert landed.table.current_snapshot() == head


def test_a_file_that_is_listed_twice_has_its_rows_twice(landed: World, spread: Spread) -> None:
    table = landed.table
    tasks = tasks_of(table, table.scan())
    again = [*tasks, tasks[0]]
    for each in (spread, Spread()):
        found = counted(each, table, again, edges([landed.ledger]))
        assert sum(found.twins.values()) == tasks[0].file.record_count
