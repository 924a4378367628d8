"""Each command with exactly the actions that `docs/policies.md` says, and with each of them left out."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.wire.client import GroupInfo
from tests.sources import ROOT
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World

pytestmark = pytest.mark.spark

PAGE = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
ROWS = [
    (command, re.findall(r"log:[A-Za-z]+", actions))
    for command, actions in re.findall(r"^\| `sls-lake ([^`]+)` \| ((?:`log:\w+` ?)+)\|$", PAGE, re.MULTILINE)
]
LOGSTORE = f"acs:log:*:*:project/{PROJECT}/logstore/access_logs"


def allow(world: World, actions: Iterable[str], *more: dict[str, str]) -> None:
    """From now on the pair may do this on the logstore and its groups, and nothing else."""
    statements = [{"Effect": "Allow", "Action": a, "Resource": [LOGSTORE, f"{LOGSTORE}/*"]} for a in actions]
    policy = {"Version": "1", "Statement": [*statements, *more]}
    world.emulator.admin.add_key(FAKE_ID, FAKE_SECRET, policy=policy)


def prepared(world: World) -> World:
    """Some logs to land, the group `there`, and neither `lake` nor `new`; the pair may do everything."""
    world.emulator.admin.add_key(FAKE_ID, FAKE_SECRET)
    with world.client as client:
        for name in {info.name for info in client.groups()} & {"lake", "new", "there"}:
            client.delete_group(name)
        client.create_group(GroupInfo("there", 20, order=False))
    world.put(10, pass_s=60)
    return world


def open_shards(world: World) -> list[int]:
    """Open shards by key: one that is split, and one that is merged with its neighbour."""
    with world.client as client:
        found = [shard for shard in client.shards() if not shard.readonly]
    return [shard.id for shard in sorted(found, key=lambda shard: shard.begin_key)]


def words(world: World, text: str) -> list[str]:
    """The command as it can be typed by now: its shard is the first one that is open."""
    typed = text.split()
    if typed[0] == "peek":
        typed[1] = str(open_shards(world)[0])
    if typed[:2] in (["shards", "split"], ["shards", "merge"]):
        typed[2] = str(open_shards(world)[0])
    return typed


def test_the_page_names_the_commands_that_ask_the_service() -> None:
    assert len(ROWS) == 14 and all(actions for _, actions in ROWS)


def test_each_command_works_with_its_actions_and_names_the_one_that_is_missing(
    world: World, command: Command
) -> None:
    world.at(HOUR0_S + 1800)
    prepared(world)
    assert command("land")["code"] == 0
    for text, actions in ROWS:
        for missing in [*actions, ""]:
            prepared(world)
            if text == "describe":
                assert command("land")["code"] == 0, "it shows the checkpoints of a group that is there"
            typed = words(world, text)
            allow(world, set(actions) - {missing})
            said = command(*typed)
            if missing:
                assert missing in json.dumps(said), f"{text} without {missing}: {said['error']}"
            else:
                assert said["code"] == 0 and "RAM" not in json.dumps(said), (text, said["error"])


def test_a_landing_is_whole_with_the_policy_of_the_page(world: World, command: Command) -> None:
    (document,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    policy = json.loads(document.replace("PROJECT", PROJECT).replace("LOGSTORE", "access_logs"))
    prepared(world)
    world.emulator.admin.add_key(FAKE_ID, FAKE_SECRET, policy=policy)
    world.land()
    assert command("verify")["code"] == 0 and world.checkpoints("lake")


def test_the_doctor_needs_two_more(world: World, command: Command, tmp_path: Path) -> None:
    prepared(world)
    (land,) = [actions for text, actions in ROWS if text == "land"]
    project = {"Effect": "Allow", "Action": "log:GetProject", "Resource": f"acs:log:*:*:project/{PROJECT}"}
    allow(world, land)
    wrong = {one["name"]: one["came"] for one in command("doctor")["trials"] if one["grade"] == "wrong"}
    assert set(wrong) == {"project", "heartbeat"}
    assert "log:GetProject" in wrong["project"] and "log:DeleteConsumerGroup" in wrong["heartbeat"]
    allow(world, [*land, "log:DeleteConsumerGroup"], project)
    assert command("doctor")["ok"]
