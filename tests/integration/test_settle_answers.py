"""The answer to what a person asked for is lost: the table says what became of it, never twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.landing.commit.planned import Tools, execute
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.register import plan_register, register
from pipelines.landing.recovery.start_over import plan_start_over, start_over
from sls_io.values.errors import CommitStands, LandingUnknown, amount
from tests.worlds.lossy_catalog import LossyCatalog, lossy
from tests.worlds.one_logstore import HOUR0, HOUR0_S, World


@pytest.fixture
def catalog(world: World) -> Iterator[LossyCatalog]:
    """The world's catalog as one that loses answers; two landings of 10 rows, 30 logs to come."""
    world.lake, catalog = lossy(world.lake)
    world.landed_at(2, 4, more=30)
    yield catalog
    world.assert_proved()


def test_a_registration_stands_where_the_catalog_is_silent_after_it(
    world: World, catalog: LossyCatalog
) -> None:
    newest = world.table.metadata_location
    catalog.drop_table(world.logstore.table)
    plan = world.asked(plan_register)
    catalog.loads_left = 1  # by PyIceberg, at the end of its own call

    with pytest.raises(CommitStands, match=f"registration of {newest.rpartition('/')[2]} for .* stands"):
        register(world.lake, plan)

    catalog.loads_left = None
    assert world.land().rows == 30
    world.assert_each_log_once()


def test_a_table_that_began_anew_stands_where_the_catalog_is_silent_after_it(
    world: World, catalog: LossyCatalog
) -> None:
    file = Path(world.table.metadata_location.removeprefix("file://"))
    away = file.rename(file.with_suffix(".away"))
    plan = world.asked(plan_start_over)
    catalog.loads_left = 2  # metadata that cannot be read is asked for once more

    with pytest.raises(CommitStands, match=r"a new, empty table bronze\.access_logs in .* stands"):
        start_over(world.lake, plan)

    catalog.loads_left = None
    assert away.exists()
    assert world.land().rows == 50, "the service has all that the old table had"


def test_an_expiry_that_the_catalog_refuses_is_unknown_after_one_try_and_blames_nobody(
    world: World, catalog: LossyCatalog
) -> None:
    before = len(world.table.metadata.snapshots)
    catalog.script.extend(["refused"] * 3)

    with pytest.raises(LandingUnknown, match="not confirmed") as refused:
        Maintainer(world.logstore, world.lake, snapshots_max=2).execute(["expire"])

    assert "others" not in str(refused.value) and len(catalog.script) == 2
    assert len(world.table.metadata.snapshots) == before
    catalog.script.clear()
    expired = Maintainer(world.logstore, world.lake, snapshots_max=2).execute(["expire"]).expired
    assert len(expired) == before - 2 and len(world.table.metadata.snapshots) == 2
    assert world.land().rows == 30


def test_a_lost_answer_of_an_expiry_that_was_made_is_found_in_the_table(
    world: World, catalog: LossyCatalog
) -> None:
    before = len(world.table.metadata.snapshots)
    catalog.script.append("lost")

    done = Maintainer(world.logstore, world.lake, snapshots_max=2).execute(["expire"])

    assert len(done.expired) == before - 2 and len(world.table.metadata.snapshots) == 2
    assert world.land().rows == 30


def test_an_expiry_stands_where_the_catalog_is_silent_after_it(world: World, catalog: LossyCatalog) -> None:
    before = len(world.table.metadata.snapshots)
    catalog.script.append("last")

    expired = amount(before - 2, "snapshot")
    with pytest.raises(CommitStands, match=f"an expiry of {expired} of .* committed and stands"):
        Maintainer(world.logstore, world.lake, snapshots_max=2).execute(["expire"])

    catalog.down = False
    assert len(world.table.metadata.snapshots) == 2
    assert world.land().rows == 30


def test_what_was_made_and_expired_before_anybody_looked_is_unknown_and_never_nothing(
    world: World, catalog: LossyCatalog
) -> None:
    """Of three snapshots an expiry has left two: main says neither that the undo was made, nor that not."""

    def others() -> None:
        for _ in range(2):
            world.at(world.emulator.admin.now() + 60)
            world.land()
            world.put(5)
        Maintainer(world.logstore, world.lake, snapshots_max=2).execute(["expire"])

    world.at(HOUR0_S + 3600 + 60)
    world.land()
    world.put(5)
    planned = world.asked(plan_undo, range(HOUR0, HOUR0 + 1))
    catalog.script.append("overtaken")
    catalog.meanwhile = others

    with pytest.raises(LandingUnknown, match="nobody can tell whether it was made") as said:
        execute(world.lake, planned, Tools(engine=world.engine))

    assert "nothing was changed" not in str(said.value)
    undone = [window for one in world.ledger.shards.values() for window in one.withdrawn.pairs]
    assert undone, "it was made"
