"""The ledger copied to the group that it feeds: the service's checkpoints are made again from the table."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.landing.commit.planned import execute
from pipelines.landing.operations.rollback import plan_rollback
from sls_io.coordination.server_group import ServerGroup
from sls_io.values.clock import ManualClock
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World
from tests.worlds.two_hours import snapshots, started

__all__ = ["started"]

REPAIR = ("checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only")


def landed_only(world: World) -> None:
    """A landing whose run dies before its checkpoint."""
    with world.run() as run:
        run.land()


def outcomes(document: dict[str, Any]) -> set[str | None]:
    """What became of the shards."""
    return {entry["outcome"] for entry in document["shards"]}


def differences(document: dict[str, Any]) -> set[str]:
    """How the checkpoints were beside the table."""
    return {entry["difference"] for entry in document["shards"]}


@pytest.mark.fault("4a.6.kill")
def test_checkpoints_that_a_killed_run_left_behind_are_published(started: World, command: Command) -> None:
    landed_only(started)
    before = started.checkpoints()
    started.emulator.admin.advance(60)

    dry = command(*REPAIR)
    assert dry["code"] == 0 and differences(dry) == {"behind"} and outcomes(dry) == {None}
    assert started.checkpoints() == before

    done = command(*REPAIR, "--execute")

    assert done["code"] == 0 and outcomes(done) == {"moved"}
    assert started.checkpoints() == {s: e.frontier for s, e in started.ledger.shards.items()}
    assert differences(command(*REPAIR)) == {"equal"}


def test_a_checkpoint_ahead_of_the_table_stays(started: World, command: Command) -> None:
    planned = plan_rollback(started.lake, started.logstore.table, snapshots(started)[0])
    execute(started.lake, planned)
    before = started.checkpoints()
    started.emulator.admin.advance(60)

    done = command(*REPAIR, "--execute")

    assert done["code"] == 0 and outcomes(done) == {"ahead"}
    assert started.checkpoints() == before


def test_shards_of_another_holder_are_left_to_it(started: World, command: Command) -> None:
    landed_only(started)
    started.emulator.admin.advance(60)
    before = started.checkpoints()
    with started.client as client:
        other = ServerGroup(client, started.with_holder("other").group, clock=ManualClock())
        other.claim()

        refused = command(*REPAIR, "--execute")

    assert refused["code"] == EXIT_FAILED and "other" in refused["error"]
    assert started.checkpoints() == before


def test_no_checkpoint_moves_while_the_newest_landing_does_not_add_up(
    started: World, command: Command
) -> None:
    landed_only(started)
    for path in started.published():
        Path(path).unlink()
    before = started.checkpoints()

    refused = command(*REPAIR, "--execute")

    assert refused["code"] == EXIT_FAILED and "does not add up" in refused["error"]
    assert started.checkpoints() == before


def test_nothing_follows_from_a_table_where_nothing_has_landed(world: World, command: Command) -> None:
    refused = command(*REPAIR, "--execute")
    assert refused["code"] == EXIT_USAGE and "nothing has landed" in refused["error"]
