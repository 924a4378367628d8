"""A defs.yaml that cannot be meant: refused with file, line and cure, on the command line and in Dagster."""

import os
import shutil
from pathlib import Path

import dagster as dg
import pytest
from dagster_shared.yaml_utils import parse_yaml_with_source_position

from pipelines.cli import logstores
from pipelines.components import SlsLogstore
from pipelines.landing.defs_file import check_folder
from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.table import HOME_VARIABLE, home, made
from sls_io.errors import ConfigError

GOOD = """type: pipelines.components.SlsLogstore
attributes:
  service: {endpoint: "http://127.0.0.1:9", project: demo, logstore: orders}
  group: lake
  table: bronze.orders
  start: 2026-11-20-00:00
"""
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))

FILES: dict[str, tuple[bytes, str]] = {
    "latin-1": ((GOOD + "  # Köln\n").encode("latin-1"), "line 7: not UTF-8"),
    "utf-16": (GOOD.encode("utf-16"), "not UTF-8"),
    "utf-16 without a mark": (GOOD.encode("utf-16-be"), "line 1: not UTF-8"),
    "a reference to itself": ((GOOD + "  columns: &a [*a]\n").encode(), "line 7: a reference to itself"),
    "a mapping of itself": ((GOOD + "  columns: &a {b: *a}\n").encode(), "line 7: a reference to itself"),
    "an alias bomb": ((GOOD + BOMB).encode(), "too many values"),
    "a bomb of merges": ((GOOD + BOMB + "b: {<<: *a11}\n").encode(), "too many values"),
    "a key twice": (
        (GOOD + "  table: bronze.other\n").encode(),
        "line 7: the key 'table' is there already in line 5",
    ),
    "a key twice in a flow": (
        GOOD.replace("project: demo", "project: demo, project: other").encode(),
        "line 3: the key 'project' is there already in line 3",
    ),
    "attributes twice": ((GOOD + "attributes: {}\n").encode(), "'attributes' is there already in line 2"),
    "a tab": (GOOD.replace("  group", "\tgroup").encode(), "line 4: not valid YAML (a tab"),
    "nul": (GOOD.encode() + b"\0", "line 7: not UTF-8"),
    "nested deeply": ((GOOD + "  columns: " + "[" * 20_000 + "\n").encode(), "not valid YAML"),
    "nested": ((GOOD + "  columns: " + "[" * 80 + "]" * 80 + "\n").encode(), "too many values"),
    "long": ((GOOD + "# " + "x" * 300_000 + "\n").encode(), "longer than"),
    "a tag": ((GOOD + "  columns: !!python/object:os.system {}\n").encode(), "line 7: not valid YAML"),
    "a number too long": ((GOOD + "  columns: {a: " + "1" * 5000 + "}\n").encode(), "not valid YAML"),
    "a binary that is none": ((GOOD + "  columns: !!binary ä\n").encode(), "not valid YAML"),
    "a float that is none": ((GOOD + "  columns: !!float x\n").encode(), "not valid YAML"),
    "a key of a list": ((GOOD + "  columns: {[a]: b}\n").encode(), "line 7: a key that is no text"),
    "a key of truth": ((GOOD + "  columns: {on: int}\n").encode(), "line 7: the key 'on' is read as bool"),
    "a key of a number": ((GOOD + "  columns: {1: int}\n").encode(), "line 7: the key '1' is read as int"),
    "a key of nothing": ((GOOD + "  columns: {null: int}\n").encode(), "the key 'null' is read as null"),
    "a type of nothing": ((GOOD + "  columns: {a: null}\n").encode(), "columns.a: expected a text"),
    "a type of truth": ((GOOD + "  columns: {a: yes}\n").encode(), "columns.a: expected a text"),
    "an unknown setting": ((GOOD + "  tabel: x\n").encode(), "tabel: no such setting; did you mean table?"),
    "an unknown part": (
        GOOD.replace("project: demo", "project: demo, endpont: x").encode(),
        "service.endpont: no such setting; did you mean endpoint?",
    ),
    "not a number": ((GOOD + "  budget: {seconds_max: .nan}\n").encode(), "budget.seconds_max"),
    "infinity": ((GOOD + "  budget: {seconds_max: .inf}\n").encode(), "budget.seconds_max"),
    "true for a number": ((GOOD + "  splits_per_hour: true\n").encode(), "expected a number, not true"),
    "yes for a number": ((GOOD + "  budget: {tasks_min: yes}\n").encode(), "expected a number, not true"),
    "a huge number": ((GOOD + "  budget: {bytes_max: 1" + "0" * 40 + "}\n").encode(), "budget.bytes_max"),
    "a table with a dot more": (GOOD.replace("bronze.orders", "a.b.c").encode(), "table: expected"),
    "a table of other letters": (GOOD.replace("bronze.orders", "bronze.örders").encode(), "table: expected"),
    "a logstore of odd characters": (
        GOOD.replace("logstore: orders", 'logstore: "a\\nb"').encode(),
        "logstore:",
    ),
    "start in year 1": (GOOD.replace("2026-11-20-00:00", "0001-01-01-00:00").encode(), "from 1970 to 2199"),
    "start in year 9999": (
        GOOD.replace("2026-11-20-00:00", "9999-01-01-00:00").encode(),
        "from 1970 to 2199",
    ),
    "start in year 10000": (
        GOOD.replace("2026-11-20-00:00", "10000-01-01-00:00").encode(),
        "start: expected",
    ),
    "start before all": (GOOD.replace("2026-11-20-00:00", "-1").encode(), "start: expected"),
    "start of other digits": (GOOD.replace("2026", "２０２６").encode(), "start: expected"),
    "reset of year 1": ((GOOD + "  reset: 0001-01-01\n").encode(), "reset: a time from 1970 to 2199"),
    "reset of year 9999": ((GOOD + "  reset: 9999-12-31T23:59:59\n").encode(), "reset: a time from 1970"),
    "reset of a long time": ((GOOD + "  reset: 999999999999d\n").encode(), "reset: a duration of at most"),
    "reset of 1e18": ((GOOD + "  reset: 1000000000000000000s\n").encode(), "reset: one of"),
    "reset back": ((GOOD + "  reset: -6h\n").encode(), "reset: one of"),
    "reset of infinity": ((GOOD + "  reset: inf\n").encode(), "reset: one of"),
    "a schedule that is none": ((GOOD + '  schedule: "often"\n').encode(), "schedule: expected"),
    "a proof that is none": ((GOOD + '  proof: "99 99 * * *"\n').encode(), "proof: expected"),
    "two documents": ((GOOD + "---\n" + GOOD).encode(), "2 YAML documents"),
    "nothing": (b"", "expected `type:` and `attributes:`"),
    "a list": (b"- a\n- SlsLogstore\n", "expected `type:` and `attributes:`"),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with a good logstore; it is the working folder."""
    (tmp_path / "pyproject.toml").write_text("")
    path = tmp_path / "pipelines" / "defs" / "orders" / "defs.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    return path


def test_the_file_that_the_others_differ_from_is_good(project: Path) -> None:
    assert logstores.resolve(None).table == "bronze.orders"
    project.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert logstores.resolve(None).table == "bronze.orders"
    project.write_text(GOOD + "  columns: &c {a: int}\n")
    assert load_logstore(project).columns == {"a": "int"}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused_by_the_command_line_with_file_and_cure(project: Path, case: str) -> None:
    content, said = FILES[case]
    project.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        load_logstore(project)
    assert said in str(refused.value) and "defs.yaml" in str(refused.value)
    if b"SlsLogstore" in content or "SlsLogstore".encode("utf-16-be") in content:
        with pytest.raises(ConfigError):
            logstores.resolve(None)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("case", sorted(set(FILES) - {"two documents", "nothing", "a list"}))
def test_a_bad_file_is_refused_before_dagster_reads_it_or_by_the_component(project: Path, case: str) -> None:
    project.write_bytes(FILES[case][0])
    with pytest.raises(ConfigError) as refused:
        check_folder(project.parent.parent)
        attributes = load_attributes(project)
        SlsLogstore.from_attributes_dict(attributes=attributes).build_defs(
            dg.ComponentTree.for_test().load_context
        )
    assert FILES[case][1].partition("line ")[2] in str(refused.value)


def load_attributes(path: Path) -> dict[str, object]:
    """As Dagster reads them."""
    found: dict[str, object] = parse_yaml_with_source_position(path.read_text()).value["attributes"]
    return found


def test_dagster_does_not_start_another_table_when_a_key_is_there_twice(tmp_path: Path) -> None:
    """The component itself looks at its file again, whoever loads it."""
    context = dg.ComponentTree.for_test().load_context
    path = Path(context.path) / "defs.yaml"
    if path.exists():
        pytest.fail(f"{path} is in the way")
    path.write_text(GOOD + "  table: bronze.other\n")
    try:
        with pytest.raises(ConfigError, match="'table' is there already"):
            SlsLogstore.load(None, context)
    finally:
        path.unlink()


# --- the state folder ------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["", "  ", "/dev/null", "/dev/null/lake"])
def test_a_state_folder_that_can_be_none_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, said)
    with pytest.raises(ConfigError, match=HOME_VARIABLE):
        home()


def test_a_relative_state_folder_is_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(HOME_VARIABLE, "a/b")
    assert home() == tmp_path / "a" / "b" and not home().exists()
    assert made(home()).is_dir()
    shutil.rmtree(tmp_path / "a")
    monkeypatch.delenv(HOME_VARIABLE)
    assert home() == tmp_path / "var"


def test_a_state_folder_that_cannot_be_made_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, f"/proc/{os.getpid()}/lake")
    with pytest.raises(ConfigError, match="cannot be made"):
        made(home())


def test_settings_built_by_hand_are_checked_by_the_same_rules() -> None:
    with pytest.raises(ValueError, match="expected a number"):
        Logstore.model_validate({"splits_per_hour": True})
