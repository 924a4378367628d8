"""`sls-lake new --refresh`: new logstores of a project are found, kept, landed; an outage takes none away."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.logstores import load_named
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE, run
from pipelines.landing.project_file import KEPT, read_kept
from sls_io.wire.client import SlsClient
from tests.worlds.one_logstore import PROJECT, World, group, use_catalog
from tests.worlds.projects import make_project

Ask = Callable[..., dict[str, Any]]

FILE = """type: pipelines.components.SlsProject
attributes:
  service: {{endpoint: "{endpoint}", project: {project}, tries_max: 1}}
  logstores: [shop-*]
  exclude: shop-debug
  defaults:
    group: {{name: lake, timeout_s: 30, heartbeat_s: 1, patience_s: 5}}
    table: bronze.{{logstore}}
    columns: {{n: long, status: int}}
"""


@pytest.fixture
def folder(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project's file over the world's service, which has three logstores for it."""
    shop = FILE.format(endpoint=world.emulator.endpoint, project=PROJECT)
    root = make_project(tmp_path / "own", shop=shop)
    make(world, "shop-orders", "shop-users", "shop-debug")
    use_catalog(world.lake, monkeypatch)
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path))
    monkeypatch.chdir(root)
    return root / "pipelines" / "defs" / "shop"


def make(world: World, *names: str) -> None:
    with world.client as client:
        for name in names:
            client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=1)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """A verb with `--json`: its document, with `code` and `error`."""

    def asked(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        code = run([*words, "--json"])
        said = capsys.readouterr()
        return {**json.loads(said.out or "{}"), "code": code, "said": said.err}

    return asked


def test_new_logstores_are_kept_after_a_dry_run_and_land_as_any_other(
    world: World, folder: Path, ask: Ask
) -> None:
    dry = ask("new", "--refresh")
    assert set(dry["projects"][0]["new"]) == {"shop-orders", "shop-users"}
    assert not (folder / KEPT).exists()
    assert ask("new", "--refresh", "--execute")["code"] == 0
    there = {row["name"]: row for row in ask("check")["logstores"]}
    assert {n: r["logstore"] for n, r in there.items()} == {
        "shop_orders": "shop-orders",
        "shop_users": "shop-users",
    }
    with world.client as client:
        orders = client.service.model_copy(update={"logstore": "shop-orders"})
    with SlsClient(orders) as client:
        client.put_raw(group([{"n": str(n), "status": "200"} for n in range(7)]))
    world.emulator.admin.advance(3600)
    member = World(world.emulator, world.lake, load_named("shop_orders", Path.cwd()), world.engine)
    assert member.land().rows == 7
    assert ask("describe", "-l", "shop_orders")["code"] == 0
    make(world, "shop-carts")
    again = ask("new", "--refresh", "--execute")
    assert list(again["projects"][0]["new"]) == ["shop-carts"]
    assert again["projects"][0]["kept"] == ["shop-orders", "shop-users"]

    own = FILE.replace("SlsProject", "SlsLogstore").partition("  logstores:")[0]
    own = own.replace("project: {project}", "project: {project}, logstore: shop-orders")
    (folder.parent / "other").mkdir()
    (folder.parent / "other" / "defs.yaml").write_text(
        own.format(endpoint=world.emulator.endpoint, project=PROJECT)
        + "  group: other\n  table: bronze.other\n  start: 2026-01-01-00:00\n"
    )
    fed = ask("checkpoints", "set", "--to", "group:lake", "--from", "latest", "-l", "other")
    assert (
        fed["code"] != 0 and "sls-lake checkpoints set --to table -l shop_orders --from latest" in fed["said"]
    )
    assert (
        "sls-lake checkpoints set --from ledger --to group --forward-only -l shop_orders --execute"
        in fed["said"]
    )


def test_a_name_that_another_file_has_is_named_and_not_kept(folder: Path, ask: Ask) -> None:
    (folder.parent / "mine").mkdir()
    (folder.parent / "mine" / "defs.yaml").write_text(
        "type: pipelines.components.SlsLogstore\nattributes: {table: other.shop_users}\n"
    )
    refreshed = ask("new", "--refresh", "--execute")
    assert refreshed["code"] == 0
    (why,) = refreshed["projects"][0]["refused"].values()
    assert "(shop-users): its table makes it the logstore shop_users, beside what is called" in why
    assert read_kept(folder).keys() == {"shop-orders"}


def test_what_the_service_does_not_list_any_more_stays_and_is_named(
    world: World, folder: Path, ask: Ask
) -> None:
    ask("new", "--refresh", "--execute")
    before = (folder / KEPT).read_bytes()
    with world.client as client:
        client.transport.delete_logstore(PROJECT, "shop-users")
    again = ask("new", "--refresh", "--execute")
    assert again["projects"][0]["not_listed"] == ["shop-users"]
    assert (folder / KEPT).read_bytes() == before


def test_an_outage_takes_no_logstore_away(world: World, folder: Path, ask: Ask) -> None:
    ask("new", "--refresh", "--execute")
    before = (folder / KEPT).read_bytes()
    fault = world.emulator.admin.fault("error", call="list_logstores", times=None, status=503)
    refused = ask("new", "--refresh", "--execute")
    world.emulator.admin.remove(fault)
    assert refused["code"] == EXIT_FAILED
    assert (folder / KEPT).read_bytes() == before
    assert len(ask("check")["logstores"]) == 2, "who reads them asks nobody"


def test_without_a_project_file_the_verb_says_what_there_is_instead(
    world: World, folder: Path, ask: Ask
) -> None:
    (folder / "defs.yaml").unlink()
    refused = ask("new", "--refresh")
    assert refused["code"] == EXIT_USAGE and "SlsProject" in refused["said"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shop", "--refresh"), "leave out '[NAME]'"),
        (("--refresh", "--table", "bronze.shop", "--from", "x.csv"), "leave out '--from', '--table'"),
        (("shop", "--execute"), "say --refresh, too"),
        ((), "name a logstore, or say --refresh"),
    ],
)
def test_one_logstore_is_named_or_all_are_asked_for(
    folder: Path, ask: Ask, words: tuple[str, ...], says: str
) -> None:
    refused = ask("new", *words)
    assert refused["code"] == EXIT_USAGE and says in refused["error"]["message"]
    assert not (folder / KEPT).exists()


def test_settings_are_checked_before_there_is_a_logstore_of_them(folder: Path, ask: Ask) -> None:
    """No logstore is kept yet, so none could be wrong; a refresh would ask the service by them."""
    assert ask("check")["code"] == 0
    file = folder / "defs.yaml"
    file.write_text(file.read_text().replace("group:", "gruop:"))
    said = ask("check")
    assert said["code"] == EXIT_FAILED
    (wrong,) = said["logstores"]
    assert "(of any logstore): gruop: no such setting" in wrong["wrong"]
