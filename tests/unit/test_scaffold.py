"""A logstore written by `dg scaffold`, and all of a project read by `sls-lake check`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE, run
from pipelines.components import SlsLogstore
from pipelines.components.logstore.scaffold import LogstoreFlags, LogstoreScaffolder
from pipelines.landing.logstore import load_logstore
from sls_io.emulator import Emulator
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from tests.worlds.projects import make_project

TYPE = "pipelines.components.SlsLogstore"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project; its defs folder is what is returned."""
    monkeypatch.chdir(make_project(tmp_path))
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "var"))
    return tmp_path / "pipelines" / "defs"


def scaffold(folder: Path, **flags: str) -> Path:
    folder.mkdir(exist_ok=True)
    request = dg.ScaffoldRequest(
        type_name=TYPE,
        target_path=folder,
        scaffold_format="yaml",
        project_root=None,
        params=LogstoreFlags(**flags),
    )
    LogstoreScaffolder().scaffold(request)
    return folder / "defs.yaml"


def test_a_scaffolded_file_loads_as_it_stands(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLS_ENDPOINT", raising=False)
    path = scaffold(project / "orders")
    capsys.readouterr()
    assert run(["check", "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["logstores"]
    assert (shown["name"], shown["project"], shown["logstore"]) == ("orders", "demo", "orders")
    assert run(["check"]) == 0
    row = ["orders", "demo", "orders", "bronze.orders", shown["start"]]
    assert row in [line.split() for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    logstore = load_logstore(path)
    assert (logstore.name, logstore.service.logstore, logstore.table) == ("orders", "orders", "bronze.orders")
    assert "SLS_ENDPOINT is not set" in path.read_text()
    assert SlsLogstore.get_model_cls() is not None and "# First receive hour" in path.read_text()


def test_the_history_begins_with_the_hour_of_the_oldest_log(
    project: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", emulator.endpoint)
    emulator.admin.set_clock(1_790_000_000 // 3600 * 3600 + 60.0)
    service = Service(endpoint=emulator.endpoint, project="demo", logstore="orders")
    with SlsClient(service) as client:
        client.transport.create_project("demo", "")
        client.transport.create_logstore("demo", "orders", ttl=30, shard_count=2)
        client.put_raw(b"\n\x10\x08\x80\xa0\xc5\xd5\x06\x12\x08\n\x01n\x12\x03100")
    emulator.admin.advance(5 * 3600)
    path = scaffold(project / "orders")
    assert load_logstore(path).start_s == 1_790_000_000 // 3600 * 3600
    assert load_logstore(scaffold(project / "later", start="2026-11-20-00:00")).start == "2026-11-20-00:00"


def test_a_service_that_does_not_answer_is_said_in_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    assert "could not be asked" in scaffold(project / "orders").read_text()


@pytest.mark.parametrize("flags", [{"table": "orders"}, {"start": "yesterday"}, {"project": "A B"}], ids=str)
def test_what_would_not_load_is_refused_and_nothing_is_written(project: Path, flags: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"defs\.yaml: (table|start|project)"):
        scaffold(project / "orders", **{"start": "2026-11-20-00:00", **flags})
    assert not (project / "orders" / "defs.yaml").exists()


def test_every_file_is_checked_and_what_is_wrong_is_said_with_its_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a_first", "orders", "z_last"):
        scaffold(project / name, start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    for name in ("a_first", "orders"):
        path = project / name / "defs.yaml"
        path.write_text(path.read_text().replace("columns: {}", "colums: {}"))
    capsys.readouterr()
    assert run(["check", "--json"]) == EXIT_FAILED
    found = json.loads(capsys.readouterr().out)["logstores"]
    wrong = [each["wrong"] for each in found]
    line = (project / "orders" / "defs.yaml").read_text().splitlines().index("  colums: {}") + 1
    assert f"orders/defs.yaml, line {line}: colums: no such setting; did you mean columns?" in wrong[1]
    assert "a_first/defs.yaml, line" in wrong[0] and wrong[2] == ""


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('transform: "nowhere:f"', "transform 'nowhere:f' failed"),
        ('transform: "json"', "transform 'json' failed"),
        ('hooks: "nowhere:f"', "hooks 'nowhere:f' failed"),
        ('hooks: "json:loads"', "has none of on_assigned"),
        (
            "service: {credentials: {provider: import, name: 'nowhere:keys'}}",
            "credentials.name 'nowhere:keys' failed",
        ),
        ("coordinator: {database: 'oracle://db/leases'}", "a database of the kind 'oracle' is not known"),
    ],
)
def test_what_is_named_of_other_peoples_code_is_looked_for(
    project: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    path = scaffold(project / "orders", start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    written = yaml.safe_load(path.read_text())
    for name, value in yaml.safe_load(setting).items():
        old = written["attributes"].get(name)
        written["attributes"][name] = {**old, **value} if isinstance(old, dict) else value
    path.write_text(yaml.safe_dump(written))
    capsys.readouterr()
    assert run(["check", "--json"]) == EXIT_FAILED
    (found,) = json.loads(capsys.readouterr().out)["logstores"]
    assert f"{path}: runs of orders will be refused: " in found["wrong"] and said in found["wrong"]


def test_an_address_of_leases_that_is_not_set_is_a_note(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scaffold(project / "orders", start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    path.write_text(path.read_text() + "  coordinator: {database: 'env:LEASES'}\n")
    for value, said in (("", "LEASES"), (f"sqlite:///{project}/leases.sqlite", "")):
        monkeypatch.setenv("LEASES", value)
        capsys.readouterr()
        assert run(["check", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["logstores"][0]["unset_database"] == said
    monkeypatch.delenv("LEASES")
    assert run(["check"]) == 0
    assert "takes its address of leases from LEASES" in " ".join(capsys.readouterr().out.split())


def test_a_setting_beside_attributes_is_wrong_in_a_file_of_any_type(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Dagster would load nothing, and `land` would have begun with the oldest log."""
    path = scaffold(project / "orders", start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    path.write_text(path.read_text() + "reset: latest\n")
    theirs = project / "theirs" / "defs.yaml"
    theirs.parent.mkdir()
    theirs.write_text("type: dagster.DefinitionsComponent\nattribute: {}\n")
    capsys.readouterr()
    assert run(["check", "--json"]) == EXIT_FAILED
    said = json.loads(capsys.readouterr().out)
    assert "reset: no such key beside `type:`" in said["logstores"][0]["wrong"]
    assert f"{theirs}, line 2: attribute: " in said["others_wrong"][0]
    assert run(["land", "--dry-run"]) != 0
    assert "a setting belongs under `attributes:`" in " ".join("".join(capsys.readouterr()).split())


def test_a_type_with_a_slip_is_no_file_less(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scaffold(project / "orders", start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    whole = path.read_text()
    path.write_text(whole.replace("components.SlsLogstore", "components.SlsLogstor"))
    (project / "theirs").mkdir()
    (project / "theirs" / "defs.yaml").write_text("type: dagster.DefinitionsComponent\nattributes: {}\n")
    capsys.readouterr()
    assert run(["check", "--json"]) == EXIT_FAILED
    (strange,) = json.loads(capsys.readouterr().out)["others_wrong"]
    assert "orders/defs.yaml" in strange and "did you mean pipelines.components.SlsLogstore?" in strange
    path.write_text(whole.replace("components.SlsLogstore", "components.component.SlsLogstore"))
    assert run(["check"]) == EXIT_FAILED
    path.write_text(whole)
    assert run(["check"]) == 0


def test_one_file_or_folder_is_read_alone_and_from_anywhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("orders", "clicks"):
        scaffold(project / name, start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    bad = project / "clicks" / "defs.yaml"
    bad.write_text(bad.read_text().replace("table:", "tabel:"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert (
        run(["check", str(project / "orders")]) == run(["check", str(project / "orders" / "defs.yaml")]) == 0
    )
    capsys.readouterr()
    assert run(["check", "--json", str(bad)]) == EXIT_FAILED
    (one,) = json.loads(capsys.readouterr().out)["logstores"]
    assert "tabel" in one["wrong"]
    assert run(["check", str(project)]) == EXIT_FAILED


def test_a_path_without_any_definition_is_no_check_that_passed(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty := project / "oders").mkdir()
    assert run(["check", str(empty)]) == EXIT_USAGE
    assert f"{empty}: no defs.yaml" in capsys.readouterr().err


def test_a_folder_that_is_no_project_is_not_found_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["check"]) != 0
    assert "sls-lake init DIR" in "".join(capsys.readouterr())


def test_two_logstores_of_one_name_are_found_before_dagster_meets_them(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, table in (("one", "bronze.shop"), ("two", "silver.shop")):
        scaffold(project / name, start="2026-11-20-00:00", endpoint="http://127.0.0.1:9", table=table)
    assert run(["check"]) == EXIT_FAILED
    assert "give one of them another" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "verb", ["land", "land --dry-run", "backfill --from 2026-11-20-00:00", "table adopt", "table register"]
)
def test_what_check_says_of_two_logstores_of_one_name_the_verbs_that_land_say_before_they_ask_anybody(
    project: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    for name in ("one", "two"):
        scaffold(project / name, start="2026-11-20-00:00", endpoint="http://127.0.0.1:9", table="bronze.shop")
    (project / "third").mkdir()
    (project / "third" / "defs.yaml").write_text("type: pipelines.components.SlsLogstore\nattributes: [\n")
    capsys.readouterr()
    assert run([*verb.split(), "-l", "one"]) != 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert "two/defs.yaml: its table makes it the logstore shop, beside what is called the same" in said
    assert not (project.parent.parent / "var").exists()


def test_a_start_that_is_to_come_is_said_and_no_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scaffold(project / "clicks", start="2026-01-01-00:00", endpoint="http://127.0.0.1:9")
    scaffold(project / "orders", start="2199-01-01-00:00", endpoint="http://127.0.0.1:9")
    said = "`start` is 2199-01-01-00:00, which is to come: nothing lands before"
    capsys.readouterr()
    assert run(["check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["logstores"]
    assert [each["to_come"] for each in found] == ["", said]
    assert run(["check"]) == 0
    assert f"orders/defs.yaml: {said}" in "".join(capsys.readouterr())


def test_another_variable_that_is_not_set_is_an_error_and_named(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LAKE_GROUP", raising=False)
    path = scaffold(project / "orders", start="2026-11-20-00:00", endpoint="http://127.0.0.1:9")
    path.write_text(path.read_text().replace("group: lake", 'group: "{{ env.LAKE_GROUP }}"'))
    assert run(["check"]) == EXIT_FAILED
    assert "LAKE_GROUP" in "".join(capsys.readouterr())


def test_dagsters_own_command_takes_the_flags(tmp_path: Path) -> None:
    """In a copy of the project: the command writes below it."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (tmp_path / "pipelines" / "defs").mkdir(parents=True)
    for name in ("pipelines/__init__.py", "pipelines/defs/__init__.py"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name in ("components", "landing", "definitions.py"):
        (tmp_path / "pipelines" / name).symlink_to(ROOT / "pipelines" / name)
    (tmp_path / "sls_io").symlink_to(ROOT / "sls_io")
    dg_command = str(Path(sys.executable).with_name("dg"))
    flags = ["--project", "shopping", "--start", "2026-11-20-00:00"]
    done = subprocess.run(
        [dg_command, "scaffold", "defs", TYPE, "orders", *flags],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "DAGSTER_HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = (tmp_path / "pipelines" / "defs" / "orders" / "defs.yaml").read_text()
    assert "project: shopping" in written and "start: 2026-11-20-00:00" in written
