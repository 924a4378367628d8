"""The region of a logstore is said, not guessed, and a table that has a wrong one is put right."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from chaos.engine import InProcess
from pipelines.landing.operations.relabel import plan_relabel
from sls_io.emulator import start
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, LedgerBroken
from sls_io.values.settings import Service
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World, make_lake, new_world
from tests.worlds.other_region import with_service, world_label

RELABEL = ("table", "relabel")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Ten logs landed under the region that a loopback endpoint stands for, ten more to come."""
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        yield new_world(emulator, make_lake(tmp_path / "lake"), InProcess()).begun(10, 10)


def say_region(folder: Path, region: str) -> None:
    """Set the region in the settings file of the command line."""
    path = folder / "defs.yaml"
    path.write_text(path.read_text().replace("tries_max: 4", f"tries_max: 4, region: {region}"))


def test_another_endpoint_of_the_same_logstore_goes_on_where_the_last_one_ended(world: World) -> None:
    port = world.logstore.service.endpoint.rpartition(":")[2]
    moved = with_service(world, endpoint=f"http://localhost:{port}")
    assert moved.service.endpoint != world.logstore.service.endpoint

    report = world.land(logstore=moved)

    assert report.rows == 10
    world.assert_each_log_once()


def test_a_logstore_under_another_region_is_not_landed_a_second_time(world: World) -> None:
    with pytest.raises(LedgerBroken, match="all of it would be there twice") as raised:
        world.land(logstore=with_service(world, region="cn-hangzhou"))
    assert [cure.words for cure in raised.value.cures if isinstance(cure, Call)] == [RELABEL]
    assert len(world.table_rows()) == 10


def test_the_verb_that_the_refusal_names_puts_the_label_right(
    world: World, command: Command, tmp_path: Path
) -> None:
    before = world.identities()
    labelled = with_service(world, region="cn-hangzhou")
    say_region(tmp_path, "cn-hangzhou")

    dry = command(*RELABEL)
    assert dry["code"] == 0 and not dry["executed"]
    with pytest.raises(LedgerBroken):
        world.land(logstore=labelled)
    done = command(*RELABEL, "--execute")

    assert done["code"] == 0, done
    assert done["before"].startswith("loopback/") and done["after"].startswith("cn-hangzhou/")
    assert world.identities() == before
    world.land(logstore=labelled)
    world.assert_each_log_once()
    for verb in (("verify",), ("land", "--dry-run"), ("describe",), ("landings", "show")):
        assert command(*verb)["code"] == 0, verb
    assert len({r["__origin__"] for r in world.table_rows()}) == 1


def test_the_label_that_was_right_before_is_refused_afterwards(world: World) -> None:
    labelled = with_service(world, region="cn-hangzhou")
    world_label(world, labelled)

    with pytest.raises(LedgerBroken, match="under the region 'cn-hangzhou'"):
        world.land()


def test_a_label_that_is_right_is_left_alone(world: World) -> None:
    with world.client as client, pytest.raises(ConfigError, match="is right: nothing to change"):
        plan_relabel(world.lake, world.logstore, client)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://log-global.aliyuncs.com",
        "https://ep-bp1abc-cn-hangzhou-b.privatelink.example.com",
        "https://logs.example.com",
        "https://10.0.0.7",
        "https://cn-hangzhou.log.aliyuncs.com.example.com",
        "https://other.cn-hangzhou.log.aliyuncs.com",
        "https://oss-cn-hangzhou.aliyuncs.com",
    ],
)
def test_an_endpoint_that_does_not_say_its_region_is_refused_until_somebody_does(endpoint: str) -> None:
    with pytest.raises(ValidationError, match=r"set service\.region"):
        Service(endpoint=endpoint, project=PROJECT, logstore="access_logs")
    assert (
        Service(endpoint=endpoint, project=PROJECT, logstore="access_logs", region="cn-hangzhou").region_name
        == "cn-hangzhou"
    )
