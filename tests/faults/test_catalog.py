"""The catalog is down, hangs, is busy or answers what says nothing, while a run is at each of its steps."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitStateUnknownException, ServerError, ServiceUnavailableError

from sls_io.values.clock import SystemClock
from sls_io.values.errors import LandingUnknown, TransportError
from tests.worlds.catalog_outage import Outage
from tests.worlds.lossy_catalog import lossy_catalog
from tests.worlds.one_logstore import World
from tests.worlds.two_runs import At


@pytest.fixture
def outage(started: World) -> Iterator[Outage]:
    """One that is over at the end at the latest."""
    made = Outage(started)
    yield made
    made.end()


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("claim", id="claim", marks=pytest.mark.fault("4a.1.catalog_down")),
        pytest.param("survey", id="survey"),
        pytest.param("write", id="write", marks=pytest.mark.fault("4a.3.catalog_down", "4a.4.catalog_down")),
        pytest.param("release", id="release", marks=pytest.mark.fault("4a.7.catalog_down")),
    ],
)
def test_a_step_that_needs_no_catalog_does_not_notice_an_outage(
    started: World, outage: Outage, step: str
) -> None:
    seen: list[str] = []

    def on_event(name: str) -> None:
        if name == step:
            outage.begin()
            seen.append(name)
        if name == f"{step}.done":
            outage.end()
            seen.append(name)

    assert started.land(on_event=on_event).rows == 60
    assert seen == [step, f"{step}.done"]
    started.assert_whole()


@pytest.mark.fault("4a.6.catalog_down")
def test_a_checkpoint_that_cannot_be_compared_with_the_table_is_put_off(
    started: World, outage: Outage
) -> None:
    """A newer run of the same name may have landed: without the table nobody knows."""
    before = started.checkpoints()

    def on_event(name: str) -> None:
        if name == "checkpoint":
            outage.begin()
        if name == "checkpoint.done":
            outage.end()

    assert started.land(on_event=on_event).rows == 60
    assert started.checkpoints() == before
    started.assert_next_lands(0)


@pytest.mark.fault("4a.8.catalog_down")
def test_the_claim_is_renewed_while_the_catalog_is_away(started: World, outage: Outage) -> None:
    def on_event(name: str) -> None:
        if name == "write":
            outage.begin()
            beat = started.fault("observe", call="heartbeat")
            started.emulator.admin.wait(beat)
            outage.end()

    report = started.land(on_event=on_event)

    assert (report.rows, report.replans) == (60, 0)
    started.assert_whole()


@pytest.mark.fault("4a.2.catalog_down")
def test_without_a_catalog_nothing_is_planned(started: World, outage: Outage) -> None:
    checkpoints = started.checkpoints()

    with pytest.raises(TransportError, match=r"catalog .* cannot be (reached|used)"):
        started.land(on_event=At("read_ledger", outage.begin))

    outage.end()
    assert started.checkpoints() == checkpoints
    started.assert_next_lands(60)


@pytest.mark.fault("4a.5a.catalog_down")
def test_a_catalog_that_is_down_at_the_commit_leaves_it_to_the_next_run(
    started: World, outage: Outage
) -> None:
    checkpoints, files = started.checkpoints(), started.files()

    with pytest.raises(LandingUnknown, match="Nothing was deleted"):
        started.land(on_event=At("publish.built", outage.begin), reload_deadline_s=0.3)

    outage.end()
    assert started.checkpoints() == checkpoints
    assert started.files() >= files
    started.assert_next_lands(60)


@pytest.mark.fault("4a.5a.catalog_down")
def test_a_catalog_that_comes_back_within_the_reload_costs_a_try(started: World, outage: Outage) -> None:
    """Down while the commit is sent and when the table is first asked; then it is back."""

    class Back:
        def __init__(self) -> None:
            self.beats = 0

        def __call__(self, name: str) -> None:
            if name == "publish.built" and not self.beats:
                self.beats = 1
                outage.begin()
            if name == "reload":
                outage.end()

    report = started.land(on_event=Back())

    assert (report.rows, report.conflicts, report.replans) == (60, 1, 0)
    started.assert_whole()


@pytest.mark.parametrize(
    ("word", "rows_after"),
    [
        pytest.param(
            "lost", 0, id="landed", marks=pytest.mark.fault("4a.5b.catalog_down", "4b.commit_unknown.after")
        ),
        pytest.param("refused", 60, id="absent", marks=pytest.mark.fault("4b.commit_unknown.after")),
    ],
)
def test_an_answer_is_lost_and_the_catalog_goes_away(
    started: World, outage: Outage, word: str, rows_after: int
) -> None:
    lossy_catalog(started).script.append(word)
    checkpoints = started.checkpoints()

    with pytest.raises(LandingUnknown, match=r"Nothing was deleted.*run again"):
        started.land(on_event=At("reload", outage.begin), reload_deadline_s=0.3)

    outage.end()
    assert started.checkpoints() == checkpoints
    started.assert_next_lands(rows_after)


class Waiting(SystemClock):
    """The machine's clock; whoever waits on it for the first time finds the catalog back."""

    def __init__(self, outage: Outage) -> None:
        self._outage, self.waits = outage, 0

    def sleep(self, duration_s: float) -> None:
        self.waits += 1
        self._outage.end()


@pytest.mark.fault("4a.5b.request_lost", "4a.5b.reply_lost")
def test_the_question_what_became_of_a_commit_is_asked_until_it_is_answered(
    started: World, outage: Outage
) -> None:
    """The answer of the commit was lost, and then the first request for the table was, too."""
    catalog, clock = lossy_catalog(started), Waiting(outage)
    catalog.snapshots.clear()
    catalog.script.append("lost")

    report = started.land(clock=clock, on_event=At("reload", outage.begin))

    assert clock.waits == 1
    assert (report.rows, report.conflicts, report.replans) == (60, 0, 0)
    assert catalog.snapshots == [[report.snapshot_id]]
    started.assert_whole()


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Somebody else writes to the database, and takes a long time over it."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


@pytest.mark.fault("4a.5a.catalog_down", "4a.5a.late")
def test_a_catalog_that_hangs_is_given_up_at_the_deadline_and_the_late_request_lands_once(
    started: World,
) -> None:
    """The database is locked by another writer; the request waits in the driver past our deadline."""
    database = started.lake.sqlite_path
    assert database is not None
    lock = locked(database)

    def on_event(name: str) -> None:
        if name == "publish.built" and not seen:
            lock.__enter__()
        if name == "reload" and not seen:
            seen.append(name)
            lock.__exit__(None, None, None)

    seen: list[str] = []
    report = started.land(on_event=on_event, publish_deadline_s=0.3)

    assert seen and report.rows == 60
    started.assert_next_lands(0)


ANSWERS = {
    "none": None,
    "500": ServerError("the server failed"),
    "503": ServiceUnavailableError("come again"),
    "502": CommitStateUnknownException("bad gateway"),
    "429": Exception("too many requests"),
}


@pytest.mark.parametrize("status", sorted(ANSWERS))
@pytest.mark.fault("4a.5a.refused", "4a.5b.refused", "4b.commit_unknown.commit")
@pytest.mark.fault("4a.5a.request_lost", "4a.5b.reply_lost")
def test_an_error_of_the_catalog_says_nothing_and_the_table_is_asked(started: World, status: str) -> None:
    """Once the request was carried out all the same, once it was not: both land once, from the same files."""
    catalog, pulls = lossy_catalog(started), started.watch_pulls()
    catalog.error = ANSWERS[status]
    catalog.snapshots.clear()

    catalog.script.append("lost")
    landed = started.land()
    assert (landed.rows, landed.conflicts, landed.replans) == (60, 0, 0)
    assert catalog.snapshots == [[landed.snapshot_id]], "one try, and that one is in the table"
    started.put(10, pass_s=31)
    catalog.script.append("refused")
    again = started.land()

    assert (again.rows, again.conflicts, again.replans) == (10, 1, 0)
    refused, landed_then = catalog.snapshots[1:]
    assert refused != landed_then == [again.snapshot_id], "a new try has an id of its own"
    pulls.assert_none_twice()
    assert started.data_files() == set(started.published()), "no file was written twice"
    started.assert_whole()


class Slept(SystemClock):
    """The machine's clock, on which sleeping takes no time and is written down."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)


@pytest.mark.fault("4a.5a.refused")
def test_a_catalog_that_refuses_a_burst_of_tries_is_asked_ever_more_slowly(started: World) -> None:
    """It answers at once; without waits all tries would be over before it could recover."""
    catalog, clock = lossy_catalog(started), Slept()
    catalog.script.extend(["refused"] * 12)

    report = started.land(clock=clock)

    assert (report.rows, report.conflicts, report.replans) == (60, 12, 0)
    assert len(clock.slept) == 9, "the first tries follow at once: that is a lost race"
    assert sum(clock.slept) > 1.0
    started.assert_whole()


@pytest.mark.fault("4a.5a.disk_full")
def test_a_catalog_whose_disk_is_full_is_asked_three_times_and_named(started: World) -> None:
    catalog, before = lossy_catalog(started), started.table.metadata
    catalog.script.extend(["full"] * 1000)
    catalog.snapshots.clear()

    with pytest.raises(TransportError) as ended:
        started.land(clock=Slept())

    text = str(ended.value)
    assert len(catalog.snapshots) == 3
    assert started.lake.place in text and "OSError: file too large" in text and "Make room" in text
    assert started.table.metadata == before
    catalog.script.clear()
    started.assert_next_lands(60)


@pytest.mark.fault("4a.5a.refused")
def test_a_catalog_that_takes_nothing_of_an_unchanged_table_is_named_with_its_error(started: World) -> None:
    """Nobody else won, so planning again is no help."""
    catalog = lossy_catalog(started)
    catalog.error = ServiceUnavailableError("password=hunter2")
    catalog.script.extend(["refused"] * 1000)
    catalog.snapshots.clear()

    with pytest.raises(TransportError) as ended:
        started.land(clock=Slept())

    text = str(ended.value)
    assert len(catalog.snapshots) == 20
    assert started.lake.place in text and "ServiceUnavailableError" in text and "hunter2" not in text
    catalog.script.clear()
    started.assert_next_lands(60)


@pytest.mark.fault("4a.5b.late", "4a.5a.late")
def test_a_commit_that_arrives_twice_is_refused_the_second_time(started: World) -> None:
    """Something between sends it again, after the next landing."""
    catalog = lossy_catalog(started)
    catalog.script.append("doubled")

    report = started.land()

    assert (report.rows, report.conflicts) == (60, 0)
    assert started.land_more(10, pass_s=31).rows == 10
    catalog.deliver()
    assert catalog.deliveries == ["CommitFailedException"]
    started.assert_next_lands(0)
