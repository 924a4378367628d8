"""Many logstores from one file: what the patterns and the kept list mean, and what a bad one says."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from pipelines.cli import logstores
from pipelines.components import SlsLogstore, SlsProject
from pipelines.landing.hours import hour_text
from pipelines.landing.project_file import CLASH, ENDINGS, KEPT, attributes_of, members, read_kept, write_kept
from pipelines.landing.projects import Refreshed, keep
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S
from tests.worlds.projects import MARKER

WRITTEN: dict[str, Any] = {
    "service": {"endpoint": "http://127.0.0.1:9", "project": "demo"},
    "logstores": ["nginx-*", "app_log"],
    "exclude": "*-debug",
    "defaults": {"group": "lake", "columns": {"status": "int"}},
    "overrides": {"nginx-eu": {"table": "eu.nginx", "start": "2026-01-01-00:00"}},
}
KEPT_NOW = {
    "app_log": "2026-11-20-07:00",
    "nginx-cn": "2026-11-20-08:00",
    "nginx-debug": "2026-11-20-08:00",
    "nginx-eu": "2026-11-20-09:00",
    "other": "2026-11-20-09:00",
}


def of(kept: dict[str, str], **changed: Any) -> dict[str, dict[str, Any]]:
    return members(attributes_of({**WRITTEN, **changed}, "x"), Path("folder"), kept)


def test_each_kept_logstore_that_is_wanted_has_the_defaults_and_its_own() -> None:
    found = of(KEPT_NOW)
    assert {name: (a["service"]["logstore"], a["table"], a["start"]) for name, a in found.items()} == {
        "app_log": ("app_log", "bronze.app_log", "2026-11-20-07:00"),
        "nginx_cn": ("nginx-cn", "bronze.nginx_cn", "2026-11-20-08:00"),
        "nginx": ("nginx-eu", "eu.nginx", "2026-01-01-00:00"),
    }
    assert all(a["columns"] == {"status": "int"} and a["group"] == "lake" for a in found.values())
    assert all(a["service"]["project"] == "demo" for a in found.values())


def test_each_logstore_has_a_mirror_of_its_own() -> None:
    found = of(KEPT_NOW, defaults={"group": "g", "mirror": "file:/lake/{logstore}.json"})
    assert {name: a["mirror"] for name, a in found.items()} == {
        "app_log": "file:/lake/app_log.json",
        "nginx_cn": "file:/lake/nginx_cn.json",
        "nginx": "file:/lake/nginx_eu.json",
    }


def test_a_start_for_all_comes_before_that_of_the_list() -> None:
    found = of(
        {"app_log": "2026-11-20-07:00"}, defaults={"group": "g", "start": "2026-02-02-00:00"}, overrides={}
    )
    assert found["app_log"]["start"] == "2026-02-02-00:00"


def test_two_that_would_land_in_one_table_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"'app-log' and 'app_log' would both land in a table 'app_log'"):
        of({"app-log": "2026-11-20-07:00", "app_log": "2026-11-20-07:00"}, logstores="app*", overrides={})


@pytest.mark.parametrize("ending", ENDINGS)
def test_one_that_would_be_what_belongs_to_another_is_refused_by_name(ending: str) -> None:
    for kept in (["app-log", f"app-log-{ending}"], [f"app_log_{ending}", "app-log"]):
        with pytest.raises(ConfigError, match=rf"'app.log.*' and 'app.log.*' would be app_log.* {CLASH}"):
            of(dict.fromkeys(kept, "2026-11-20-07:00"), logstores="app*", overrides={})


def test_the_names_that_dagster_mixes_up_are_those_that_are_refused() -> None:
    def taken(name: str) -> set[str]:
        service = {**WRITTEN["service"], "logstore": "web"}
        settings = {"service": service, "group": "g", "table": f"b.{name}", "start": "2026-01-01-00:00"}
        component = SlsLogstore.from_attributes_dict(attributes=settings)
        repository = component.build_defs(dg.ComponentTree.for_test().load_context).get_repository_def()
        assets = {f"asset {key.to_user_string()}" for key in repository.asset_graph.get_all_asset_keys()}
        schedules = {f"schedule {each.name}" for each in repository.schedule_defs}
        sensors = {f"sensor {each.name}" for each in repository.sensor_defs}
        jobs = {f"job {each}" for each in repository.job_names if not each.startswith("__")}
        return assets | schedules | sensors | jobs

    own = taken("web")
    words = {part for name in own for part in re.split(r"[^a-z]+", name.partition("web")[2]) if part}
    assert words > {*ENDINGS, "microbatch", "schedule", "checkpoint"}
    assert {word for word in words if taken(f"web_{word}") & own} == {*ENDINGS}


def test_an_override_of_none_is_refused_with_the_verb_that_finds_new_ones() -> None:
    with pytest.raises(
        ConfigError, match=r"overrides\.nginx-eu: no such logstore is kept; there are app_log"
    ):
        of({"app_log": "2026-11-20-07:00"})


@pytest.mark.parametrize(
    ("changed", "cure"),
    [
        ({"logstores": []}, "logstores"),
        ({"logstores": "[shop"}, "'[shop' matches no logstore"),
        ({"exclude": ["Shop-*"]}, "'Shop-*' matches no logstore"),
        ({"defaults": {"group": "g", "table": "bronze.all"}}, "put {logstore} into `table`"),
        ({"defaults": {"service": {}}}, "`service` stands beside it"),
        ({"service": {"logstore": "x"}}, "leave `logstore` out"),
        ({"defaults": None}, "defaults: "),
        ({"schedule": "61 * * * *"}, "schedule: expected a minute of 0 to 59"),
        ({"service": {"project": 7}, "schedule": "daily"}, "schedule: expected the five fields of cron"),
        ({"pattern": "x"}, "pattern: no such setting; there are service, logstores, exclude"),
    ],
)
def test_attributes_that_cannot_be_name_the_setting(changed: dict[str, Any], cure: str) -> None:
    with pytest.raises(ConfigError) as raised:
        attributes_of({**WRITTEN, **changed}, "the file")
    assert str(raised.value).startswith("the file: ") and cure in str(raised.value)


def test_the_list_is_written_whole_and_read_as_it_was(tmp_path: Path) -> None:
    assert read_kept(tmp_path) == {}
    write_kept(tmp_path, KEPT_NOW)
    assert read_kept(tmp_path) == KEPT_NOW
    assert [path.name for path in tmp_path.iterdir()] == [KEPT]
    assert hour_text((1_760_003_600 + 59) // HOUR_S) == "2025-10-09-09:00"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"logstores": []}',
        '{"logstores": {"a b": {"start": "2026-01-01-00:00"}}}',
        '{"logstores": {"abc": {"start": "2026-01-01-00:30"}}}',
        '{"logstores": {"abc": {}}}',
        '{"logstores": {"abc": {"start": 5}}}',
        "[" * 100_000,
    ],
)
def test_a_list_that_we_did_not_write_is_never_taken_for_empty(text: str, tmp_path: Path) -> None:
    (tmp_path / KEPT).write_text(text)
    with pytest.raises(ConfigError, match="restore it, or delete it and refresh"):
        read_kept(tmp_path)


def test_a_torn_list_is_never_taken_for_a_shorter_one(tmp_path: Path) -> None:
    write_kept(tmp_path, KEPT_NOW)
    whole = (tmp_path / KEPT).read_bytes()
    for size in range(1, len(whole.rstrip())):
        (tmp_path / KEPT).write_bytes(whole[:size])
        with pytest.raises(ConfigError):
            read_kept(tmp_path)


# Both are Dagster's own doing while it reads a folder.
@pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated")
@pytest.mark.filterwarnings("ignore:.* is currently in beta")
def test_dagster_and_the_command_line_see_the_same_logstores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(component_cls=SlsProject, defs_path="many", defs_yaml_contents={
            "type": "pipelines.components.SlsProject", "attributes": WRITTEN,
        })  # fmt: skip
        write_kept(path, KEPT_NOW)
        with sandbox.load_component_and_build_defs(defs_path=path) as (component, defs):
            assert isinstance(component, SlsProject)
            there = {logstore.name: logstore for logstore, _ in component.logstores}
            keys = {key.to_user_string() for key in defs.resolve_all_asset_keys()}
            schedules = {schedule.name for schedule in defs.schedules or ()}
    assert {f"bronze/{name}" for name in there} <= keys and len(there) == 3
    assert {f"{name}_schedule" for name in there} <= schedules

    folder = tmp_path / "pipelines" / "defs" / "many"
    folder.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(MARKER)
    (folder / "defs.yaml").write_text(
        yaml.safe_dump({"type": "pipelines.components.SlsProject", "attributes": WRITTEN})
    )
    assert logstores.known(tmp_path) == []
    write_kept(folder, KEPT_NOW)
    monkeypatch.chdir(tmp_path)
    assert logstores.known(tmp_path) == sorted(there)
    chosen = {name: logstores.resolve(name).model_dump() for name in there}
    assert chosen == {name: logstore.model_dump() for name, logstore in there.items()}
    assert {one.name for one in logstores.resolve_all(None)} == set(there)
    with pytest.raises(ConfigError, match="no logstore 'nginx_debug': there is app_log, nginx, nginx_cn"):
        logstores.resolve("nginx_debug")
    with pytest.raises(ConfigError, match="there are 3 logstores: choose one"):
        logstores.resolve(None)
    (folder / KEPT).write_text(json.dumps({}))
    with pytest.raises(ConfigError, match="not what `new --refresh` writes"):
        logstores.resolve("nginx")


def test_of_refreshes_that_keep_new_logstores_at_once_none_takes_the_others_away(tmp_path: Path) -> None:
    def keep_one(number: int) -> None:
        new = {f"nginx-{number:02}": "2026-11-20-07:00"}
        keep(Refreshed(tmp_path / "defs.yaml", "demo", {}, new))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep_one, range(40)))
    assert len(read_kept(tmp_path)) == 40
