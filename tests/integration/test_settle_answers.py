"""The answer to what a person asked for is lost: the table says what became of it, never twice."""

from collections.abc import Iterator

import pytest

from pipelines.landing.operations.adopt import execute_adopt, plan_adopt
from pipelines.landing.operations.rollback import PlannedRollback, execute_rollback, plan_rollback
from sls_io.errors import ConfigError, LandingUnknown
from tests.integration.lossy_catalog import LossyCatalog, lossy
from tests.integration.test_changed_table import append_by_hand
from tests.integration.world import HOUR0_S, World

pytestmark = pytest.mark.spark


@pytest.fixture
def catalog(world: World) -> Iterator[LossyCatalog]:
    """The world's catalog as one that loses answers; two landings of 10 rows, 30 logs to come."""
    world.lake, catalog = lossy(world.lake)
    for minute in (2, 4):
        world.put(10)
        world.at(HOUR0_S + 60 * minute)
        world.land()
    world.put(30)
    world.at(HOUR0_S + 360)
    yield catalog
    world.assert_proved()


def planned(world: World) -> PlannedRollback:
    """A rollback to the first landing of rows."""
    target = world.table.metadata.snapshots[1].snapshot_id
    return plan_rollback(world.lake, world.logstore.table, target)


def test_a_lost_answer_of_a_rollback_that_was_made_is_found_in_the_table(
    world: World, catalog: LossyCatalog
) -> None:
    plan = planned(world)
    catalog.script.append("lost")

    assert execute_rollback(world.lake, plan) == world.table.metadata.current_snapshot_id

    assert world.land().rows == 40
    world.assert_each_log_once()


def test_a_rollback_that_never_arrived_is_said_to_be_unknown_and_may_be_asked_again(
    world: World, catalog: LossyCatalog
) -> None:
    plan = planned(world)
    catalog.script.append("refused")

    with pytest.raises(LandingUnknown, match="Run it again"):
        execute_rollback(world.lake, plan)

    assert len(world.table_rows()) == 20
    execute_rollback(world.lake, planned(world))
    assert world.land().rows == 40
    world.assert_each_log_once()


def test_a_rollback_that_a_full_disk_refuses_says_so_and_blames_nobody(
    world: World, catalog: LossyCatalog
) -> None:
    plan = planned(world)
    catalog.script.append("full")

    with pytest.raises(LandingUnknown, match=r"file too large.*Make room") as refused:
        execute_rollback(world.lake, plan)

    assert "another program" not in str(refused.value)
    execute_rollback(world.lake, planned(world))
    assert world.land().rows == 40
    world.assert_each_log_once()


def test_a_rollback_that_arrives_after_a_landing_is_refused(world: World, catalog: LossyCatalog) -> None:
    """Story: the answer is late, the person goes away, a landing comes first: what it landed stays."""
    plan = planned(world)
    catalog.script.append("late")
    with pytest.raises(LandingUnknown):
        execute_rollback(world.lake, plan)
    assert world.land().rows == 30

    catalog.deliver()

    assert catalog.deliveries == ["CommitFailedException"]
    world.assert_each_log_once()


def test_of_a_rollback_that_was_asked_for_twice_the_late_one_is_refused(
    world: World, catalog: LossyCatalog
) -> None:
    catalog.script.append("late")
    with pytest.raises(LandingUnknown):
        execute_rollback(world.lake, planned(world))
    execute_rollback(world.lake, planned(world))

    catalog.deliver()

    assert catalog.deliveries == ["CommitFailedException"]
    assert world.land().rows == 40
    world.assert_each_log_once()


def test_an_adoption_that_arrives_late_leaves_nothing_to_settle(world: World, catalog: LossyCatalog) -> None:
    append_by_hand(world)
    catalog.script.append("late")
    with world.client as client:
        with pytest.raises(LandingUnknown):
            execute_adopt(world.lake, plan_adopt(world.lake, world.logstore, client))
        catalog.deliver()
        assert catalog.deliveries == [""]

        with pytest.raises(ConfigError, match="nothing to settle"):
            plan_adopt(world.lake, world.logstore, client)

    assert world.land().rows == 30
