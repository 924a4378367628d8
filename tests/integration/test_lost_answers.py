"""The answer to a publish is lost: whatever became of the request, each log is there once.

What is on disk before is there afterwards: a landing that does not know deletes nothing.
"""

from collections.abc import Iterator

import pytest

from tests.worlds.lossy_catalog import LossyCatalog, lossy
from tests.worlds.one_logstore import World


@pytest.fixture
def catalog(world: World) -> Iterator[LossyCatalog]:
    """The world's catalog as one that loses answers; the first start has landed."""
    world.lake, catalog = lossy(world.lake)
    world.begun(10, 40)
    catalog.snapshots.clear()
    yield catalog
    world.assert_sound()


@pytest.mark.fault("4a.5a.late", "4a.5a.reply_lost")
def test_the_first_request_is_refused_when_it_arrives_after_the_second_try_landed(
    world: World, catalog: LossyCatalog
) -> None:
    catalog.script.append("late")
    pulls = world.watch_pulls()

    report = world.land()
    before = world.files()
    catalog.deliver()

    assert catalog.deliveries == ["CommitFailedException"]
    assert world.table.metadata.current_snapshot_id == report.snapshot_id == catalog.snapshots[1][0]
    assert world.files() >= before
    pulls.assert_none_twice()


@pytest.mark.fault("4a.5a.late", "4a.5b.late")
def test_a_first_request_that_lands_between_reload_and_second_try_counts_as_landed(
    world: World, catalog: LossyCatalog
) -> None:
    """The second try is refused, and the refusal is no reason to land the windows again."""
    catalog.script.append("late")
    built: list[str] = []

    def deliver_before_second_try(name: str) -> None:
        if name == "publish.built":
            built.append(name)
            if len(built) == 2:
                catalog.deliver()

    report = world.land(on_event=deliver_before_second_try)

    assert catalog.deliveries == [""]
    assert report.rows == 40
    assert world.table.metadata.current_snapshot_id == report.snapshot_id == catalog.snapshots[0][0]
    assert len(catalog.snapshots) == 2


@pytest.mark.fault("4a.5a.reply_lost", "4a.5a.catalog_down")
def test_a_try_without_any_answer_is_given_up_at_its_deadline_and_tried_again(
    world: World, catalog: LossyCatalog
) -> None:
    catalog.script.append("silent")

    report = world.land(publish_deadline_s=0.3)
    catalog.deliver()

    assert catalog.deliveries == ["CommitFailedException"]
    assert (report.rows, report.conflicts) == (40, 1)


@pytest.mark.fault("4a.5a.kill", "4b.commit_unknown.after")
def test_a_run_that_ends_with_its_request_on_its_way_leaves_it_to_the_next_run(
    world: World, catalog: LossyCatalog
) -> None:
    """The request of a dead run lands before, or after, the next run: once in both cases."""
    before = world.files()

    class Died(Exception):
        pass

    def die(name: str) -> None:
        if name == "reload":
            raise Died

    catalog.script.append("late")
    with pytest.raises(Died), world.run(on_event=die) as run:
        run.land()
    report = world.land()
    catalog.deliver()

    assert catalog.deliveries == ["CommitFailedException"]
    assert report.rows == 40
    assert world.files() >= before
    assert len(world.data_files()) > len(world.published()), "the dead run's files stay, unlisted"
