"""A defs.yaml that cannot be meant: refused with file, line and cure, on the command line and in Dagster."""

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._utils.schedules import is_valid_cron_schedule, schedule_execution_time_iterator
from dagster.components.core.defs_module import ComponentFileModel
from dagster_shared.yaml_utils import parse_yaml_with_source_position
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipelines.cli import logstores
from pipelines.components import SlsLogstore
from pipelines.landing.defs_file import KEYS, check_folder
from pipelines.landing.environment import NO_ENDPOINT
from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.table.home import HOME_VARIABLE, home, made
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError
from tests.worlds.projects import make_project, settings_of

GOOD = settings_of("orders", table="bronze.orders", start="2026-11-20-00:00")
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
    "a tab": (GOOD.replace("  group", "\tgroup").encode(), "line 4, column 1: not valid YAML (a tab"),
    "nul": (GOOD.encode() + b"\0", "line 7: not UTF-8"),
    "nested deeply": ((GOOD + "  columns: " + "[" * 20_000 + "\n").encode(), "not valid YAML"),
    "nested": ((GOOD + "  columns: " + "[" * 80 + "]" * 80 + "\n").encode(), "too many values"),
    "long": ((GOOD + "# " + "x" * 300_000 + "\n").encode(), "longer than"),
    "a tag": (
        (GOOD + "  columns: !!python/object:os.system {}\n").encode(),
        "line 7, column 12: not valid YAML",
    ),
    "a number too long": ((GOOD + "  columns: {a: " + "1" * 5000 + "}\n").encode(), "not valid YAML"),
    "a binary that is none": ((GOOD + "  columns: !!binary ä\n").encode(), "not valid YAML"),
    "a float that is none": ((GOOD + "  columns: !!float x\n").encode(), "not valid YAML"),
    "a key of a list": ((GOOD + "  columns: {[a]: b}\n").encode(), "line 7: a key that is no text"),
    "a key of truth": ((GOOD + "  columns: {on: int}\n").encode(), "line 7: the key 'on' is read as bool"),
    "a key of a number": ((GOOD + "  columns: {1: int}\n").encode(), "line 7: the key '1' is read as int"),
    "a key of nothing": ((GOOD + "  columns: {null: int}\n").encode(), "the key 'null' is read as null"),
    "a type of nothing": ((GOOD + "  columns: {a: null}\n").encode(), "columns.a: has no value"),
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
    "start without an hour": (
        GOOD.replace("2026-11-20-00:00", "2026-11-20").encode(),
        "start: has no hour; write 2026-11-20-00:00",
    ),
    "start on no day": (GOOD.replace("2026-11-20-00:00", "2026-13-20").encode(), "start: expected"),
    "a misspelt setting that must be there": (
        GOOD.replace("start:", "strat:").encode(),
        "strat: no such setting; did you mean start?",
    ),
    "no start": (GOOD.replace("  start: 2026-11-20-00:00\n", "").encode(), "start: is missing"),
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
    "a setting beside attributes": (
        (GOOD + "reset: latest\n").encode(),
        "line 7: reset: no such key beside `type:`, where Dagster knows attributes, template_vars_module, "
        "requirements, post_processing; a setting belongs under `attributes:`",
    ),
    "attributes misspelt": (
        GOOD.replace("attributes:", "atributes:").encode(),
        "line 2: atributes: no such key beside `type:`, where Dagster knows attributes, template_vars_module",
    ),
    "a key of Dagster's misspelt": (
        (GOOD + "post_proccessing: {}\n").encode(),
        "requirements, post_processing; did you mean post_processing?",
    ),
    "requirements misspelt": ((GOOD + "requirments: {}\n").encode(), "did you mean requirements?"),
    "a holder of an anchor": (
        ("x: &c {status: int}\n" + GOOD + "  columns: *c\n").encode(),
        "line 1: x: no such key beside `type:`",
    ),
    "a merge beside attributes": (
        GOOD.replace("service:", "service: &s").encode() + b"<<: *s\n",
        "line 3: endpoint: no such key beside `type:`",
    ),
    "a template without quotes": (
        GOOD.replace('"http://127.0.0.1:9"', "{{ env.SLS_ENDPOINT }}").encode(),
        'line 3: a template is put in quotes, "{{ env.SLS_ENDPOINT }}"',
    ),
    "a template and more without quotes": (
        (GOOD + "  hooks: {{ env.PLACE }}.hooks:f\n").encode(),
        'line 7, column 25: not valid YAML: a template is put in quotes, "{{ env.PLACE }}"',
    ),
    "a schedule without quotes": (
        (GOOD + "  schedule: */5 * * * *\n").encode(),
        "line 7, column 14: not valid YAML: a value that begins with * is a reference to YAML: put it in",
    ),
    "a schedule of stars without quotes": (
        (GOOD + "  schedule: * * * * *\n").encode(),
        "line 7, column 14: not valid YAML: a value that begins with * is a reference",
    ),
    "an alias of nothing": (
        (GOOD + "  columns: *shared\n").encode(),
        "line 7, column 12: not valid YAML: a value that begins with * is a reference",
    ),
    "a character that begins nothing": (
        (GOOD + "  hooks: @daily\n").encode(),
        "line 7, column 10: not valid YAML: a value cannot begin with @: put it in quotes",
    ),
    "a colon too many": (
        (GOOD + "  reset: a: b\n").encode(),
        "line 7, column 11: not valid YAML: a second colon",
    ),
    "a colon too few": (
        (GOOD + "  columns:\n    a int\n    b: int\n").encode(),
        "line 9, column 6: not valid YAML: the line before it has no colon after its key, or this one",
    ),
    "a quote that a later one closes": (
        GOOD.replace('9"', "9").encode() + b'  schedule: "*/5 * * * *"\n',
        "line 7, column 15: not valid YAML: a quote that opens in a line before ends here; close it",
    ),
    "a package of a type misspelt": (
        GOOD.replace("pipelines.components.", "pipelines.component.").encode(),
        "there is no type 'pipelines.component.SlsLogstore': did you mean pipelines.components.SlsLogstore?",
    ),
    "another package of such a type": (
        GOOD.replace("pipelines.components.", "shop.parts.").encode(),
        "there is no type 'shop.parts.SlsLogstore': a logstore's is pipelines.components.SlsLogstore",
    ),
    "a loopback of IPv6": (
        GOOD.replace("127.0.0.1:9", "[::1]:9").encode(),
        "endpoint: write the loopback as 127.0.0.1",
    ),
    "a line too far right": (
        GOOD.replace("  group:", "    group:").encode(),
        "line 4, column 5: not valid YAML: this line is indented by 4 spaces, and what it stands beside, "
        "from line 3 on, by 2; write both alike",
    ),
    "a quote that has no end": (
        (GOOD + '  schedule: "*/5 * * * *\n').encode(),
        "not valid YAML: the quote that opens in line 7, column 13 has no end; close it",
    ),
    "a project in the endpoint": (
        GOOD.replace("http://127.0.0.1:9", "https://demo.cn-hangzhou.log.aliyuncs.com").encode(),
        "line 3: service.endpoint: the project does not belong into it, requests put it there; write "
        "https://cn-hangzhou.log.aliyuncs.com",
    ),
    "a project in the endpoint, and a region": (
        GOOD.replace('"http://127.0.0.1:9"', "demo.log-global.aliyuncs.com, region: cn-hangzhou").encode(),
        "write https://log-global.aliyuncs.com",
    ),
    "a minute of 61": (
        (GOOD + '  schedule: "61 * * * *"\n').encode(),
        "schedule: expected a minute of 0 to 59 as the first of the five fields",
    ),
    "a weekday that is none": (
        (GOOD + '  proof: "0 4 * * friday"\n').encode(),
        "proof: expected a weekday of 0 to 7, or sun to sat as the last of the five fields",
    ),
    "a cron of seconds": ((GOOD + '  proof: "0 0 4 * * *"\n').encode(), '"*/5 * * * *"; there are 6'),
    "30 February": (
        GOOD.replace("2026-11-20-00:00", "2026-02-30-00:00").encode(),
        "line 6: start: expected a day and an hour that the calendar has",
    ),
    "no value": (GOOD.replace("bronze.orders", "").encode(), "line 5: table: has no value; write one"),
    "no columns": ((GOOD + "  columns:\n").encode(), "line 7: columns: has no value; write one"),
    "a group of a number": (
        GOOD.replace("lake", "7").encode(),
        "line 4: group: expected a name, in quotes where it looks like a number, or its settings",
    ),
    "a switch for settings": (
        (GOOD + "  coordinator: true\n").encode(),
        "line 7: coordinator: expected its settings, each in a line below it",
    ),
    "a sensor nobody has": (
        (GOOD + "  sensors: [trouble]\n").encode(),
        "line 7: sensors.0: Input should be 'demand', 'sealed' or 'health'",
    ),
    "settings for a list": (
        (GOOD + "  sensors: {demand: true}\n").encode(),
        "line 7: sensors: expected a list, such as [demand, health]",
    ),
    "true for a limit": (
        (GOOD + "  health: {lag_s: [yes, 2]}\n").encode(),
        "health.lag_s.0: expected a number, not true or false",
    ),
    "one limit of two": (
        (GOOD + "  health: {lag_s: [1]}\n").encode(),
        "health.lag_s: expected a pair of numbers, [warning, error]",
    ),
    "a unit": (
        (GOOD + "  budget: {bytes_max: 8GiB}\n").encode(),
        "budget.bytes_max: expected a whole number",
    ),
    "a type that is none": (
        (GOOD + "  columns:\n    a: int\n    b: integer\n").encode(),
        "line 9: columns.b: unknown type",
    ),
    "a column of ours": (
        (GOOD + "  columns:\n    a: int\n    __shard__: int\n").encode(),
        "line 9: columns: '__shard__' begins with",
    ),
    "two columns but for case": (
        (GOOD + "  columns:\n    a.b: int\n    c: int\n    A.b: int\n").encode(),
        "line 10: columns: 'a.b' and 'A.b' differ only in case",
    ),
    "two documents": ((GOOD + "---\n" + GOOD).encode(), "2 YAML documents"),
    "nothing": (b"", "is empty: write `type:` and `attributes:`"),
    "a list": (b"- a\n- SlsLogstore\n", "it has no `type:`"),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with a good logstore; it is the working folder."""
    monkeypatch.chdir(make_project(tmp_path, orders=GOOD))
    return tmp_path / "pipelines" / "defs" / "orders" / "defs.yaml"


def test_the_file_that_the_others_differ_from_is_good(project: Path) -> None:
    assert logstores.resolve(None).table == "bronze.orders"
    project.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert logstores.resolve(None).table == "bronze.orders"
    project.write_text(GOOD + "  columns: &c {a: int}\n")
    assert load_logstore(project).columns == {"a": "int"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused_by_the_command_line_with_file_and_cure(project: Path, case: str) -> None:
    content, said = FILES[case]
    project.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        load_logstore(project)
    assert said in str(refused.value) and "defs.yaml" in str(refused.value)
    assert "Field required" not in str(refused.value)
    if b"SlsLogstore" in content or "SlsLogstore".encode("utf-16-be") in content:
        with pytest.raises(ConfigError):
            logstores.resolve(None)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "case", sorted(set(FILES) - {"two documents", "nothing", "a list", "attributes misspelt"})
)
def test_a_bad_file_is_refused_before_dagster_reads_it_or_by_the_component(project: Path, case: str) -> None:
    project.write_bytes(FILES[case][0])
    with pytest.raises(ConfigError) as refused:
        check_folder(project.parent.parent)
        attributes = load_attributes(project)
        SlsLogstore.from_attributes_dict(attributes=attributes).build_defs(
            dg.ComponentTree.for_test().load_context
        )
    assert re.sub(r"^line \d+(, column \d+)?: ", "", FILES[case][1]) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# nothing yet\n", "defs.yaml is empty: write `type:` and `attributes:`, or remove it"),
        ("- a\n", "it has no `type:`; a logstore's is pipelines.components.SlsLogstore"),
        ("type: 5\n", "it has no `type:`"),
        (GOOD.replace("SlsLogstore", "SlsLogstor"), "did you mean pipelines.components.SlsLogstore?"),
    ],
)
def test_a_file_of_no_component_is_named_before_dagster_says_something_without_its_name(
    project: Path, content: str, said: str
) -> None:
    project.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        check_folder(project.parent.parent)
    assert str(project) in str(refused.value)


def test_a_component_of_somebody_else_is_left_to_dagster(project: Path) -> None:
    project.write_text("type: dagster_dbt.DbtProjectComponent\n---\ntype: mine.Other\n")
    assert [each["type"] for each in check_folder(project.parent.parent)] == [
        "dagster_dbt.DbtProjectComponent",
        "mine.Other",
    ]


def test_the_keys_of_a_file_are_those_that_dagster_knows() -> None:
    assert set(KEYS) == set(ComponentFileModel.model_fields)


def test_what_dagster_knows_beside_attributes_is_accepted(project: Path) -> None:
    project.write_text(GOOD + "requirements: {env: [HOME]}\npost_processing: {assets: []}\n")
    assert load_logstore(project).name == "orders"


def load_attributes(path: Path) -> dict[str, object]:
    """As Dagster reads them."""
    found: dict[str, object] = parse_yaml_with_source_position(path.read_text()).value["attributes"]
    return found


# --- the same file, read twice -----------------------------------------------------------------

TEMPLATES: dict[str, tuple[str, str]] = {
    "a variable": ('"{{ env.NAME }}"', ""),
    "without blanks": ('"{{env.NAME}}"', ""),
    "a digit in the name": ('"{{ env.NAME_2 }}"', ""),
    "inside a text": ('"a-{{ env.NAME_2 }}-b"', ""),
    "two of them": ('"{{ env.NAME }}{{ env.NAME_2 }}"', ""),
    "a variable that looks like a number": ('"{{ env.NUMBER }}"', ""),
    "a variable that looks like a list": ('"{{ env.LIST }}"', "logstore: 3 to 63"),
    "a variable of nothing": ('"{{ env.EMPTY }}"', "logstore: 3 to 63"),
    "a text that looks like a number": ('"1000"', ""),
    "a text that looks like another number": ('"1e999"', ""),
    "a text that looks like nothing": ('"none"', ""),
    "a call": ("\"{{ env('NAME') }}\"", "service.logstore: a template that is not understood"),
    "a call with a default": ("\"{{ env('NONE', 'abc') }}\"", "service.logstore: a template that is not"),
    "a filter": ('"{{ env.NAME | lower }}"', "service.logstore: a template that is not understood"),
    "an item": ("\"{{ env['NAME'] }}\"", "service.logstore: a template that is not understood"),
    "a default": ("\"{{ env.NONE or 'abc' }}\"", "service.logstore: a template that is not understood"),
    "a text": ("\"{{ 'abc' }}\"", "service.logstore: a template that is not understood"),
    "a name of other digits": ('"{{ env.NAME٢ }}"', "service.logstore: a template that is not understood"),
    "a name that begins with a digit": ('"{{ env.2NAME }}"', "service.logstore: a template that is not"),
    "a comment": ('"abc{# x #}"', "service.logstore: a template that is not understood"),
    "a condition": ('"{% if 1 %}abc{% endif %}"', "service.logstore: a template that is not understood"),
    "a dash": ('"{{- env.NAME -}}"', "service.logstore: a template that is not understood"),
    "one that has no end": ('"{{ env.NAME"', "service.logstore: a template that is not understood"),
    "a variable that is not set": ('"{{ env.NONE }}"', "NONE"),
    "one inside a text that is not set": ('"abc-{{ env.NONE }}"', "NONE"),
}


def by_both(path: Path) -> Logstore:
    """The logstore that the command line and Dagster read alike. Raises the ConfigError of both."""
    try:
        here: Logstore | ConfigError = load_logstore(path)
    except ConfigError as error:
        here = error
    try:
        there = SlsLogstore.from_attributes_dict(attributes=load_attributes(path)).logstore
    except ConfigError as error:
        assert isinstance(here, ConfigError), str(error)
        # Where each has the file differs; what it says of it must not.
        assert str(error).rpartition(": ")[2] == str(here).rpartition(": ")[2] or "NONE" in str(error)
        raise here from error
    assert here == there
    assert isinstance(here, Logstore)
    return here


@pytest.mark.parametrize("case", TEMPLATES)
def test_a_template_means_the_same_on_the_command_line_and_in_dagster(
    case: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NAME": "abc", "NAME_2": "x2y", "NUMBER": "1000", "LIST": "[1]", "EMPTY": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NONE", raising=False)
    written, refused = TEMPLATES[case]
    project.write_text(GOOD.replace("logstore: orders", f"logstore: {written}"))
    if refused:
        with pytest.raises(ConfigError) as caught:
            by_both(project)
        assert refused in str(caught.value) and "defs.yaml" in str(caught.value)
    else:
        assert "{" not in by_both(project).service.logstore


@pytest.mark.parametrize("text", ["true", "True", "yes", "1"])
def test_a_switch_and_a_number_may_stand_in_a_variable(
    text: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCH", text)
    monkeypatch.setenv("NUMBER", "30")
    group = "group: {name: lake, order: '{{ env.SWITCH }}', patience_s: '{{ env.NUMBER }}'}"
    project.write_text(GOOD.replace("group: lake", group))
    assert (by_both(project).group.order, by_both(project).group.patience_s) == (True, 30.0)


def test_an_endpoint_whose_variable_is_not_set_loads_in_dagster_only_as_a_whole(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of it that is not set was read as the text "None", which is some endpoint."""
    monkeypatch.delenv("NONE", raising=False)
    project.write_text(GOOD.replace("http://127.0.0.1:9", "https://{{ env.NONE }}.log.aliyuncs.com"))
    component = SlsLogstore.from_attributes_dict(attributes=load_attributes(project))
    assert component.unset == "NONE" and component.logstore.service.endpoint == NO_ENDPOINT


@pytest.mark.parametrize(
    "columns",
    ["{status: integer}", "{a: 'decimal(40,2)'}", "{a: 'timestamp(%Q)'}", "{a: 'timestamp(iso, X/Y)'}"],
)
def test_a_type_that_is_none_is_refused_as_soon_as_the_file_is_read(columns: str, project: Path) -> None:
    project.write_text(GOOD + f"  columns: {columns}\n")
    with pytest.raises(ConfigError, match=r"defs\.yaml"):
        by_both(project)


def cron_fields() -> st.SearchStrategy[str]:
    """Five fields of cron, mostly in range: numbers, names, ranges, steps and lists."""

    def field(low: int, high: int, names: list[str]) -> st.SearchStrategy[str]:
        value = st.integers(low, high).map(str) | st.sampled_from(names)
        range_ = st.tuples(value, value).map("-".join)
        part = st.just("*") | value | range_
        stepped = st.tuples(part, st.integers(1, 40).map(str)).map("/".join)
        return st.just("*") | st.lists(part | stepped, min_size=1, max_size=3).map(",".join)

    return st.tuples(
        field(0, 60, ["mon"]),
        field(0, 24, ["jan"]),
        field(0, 32, ["l", "fri", "29", "30", "31"]),
        field(0, 13, ["feb", "FEB", "apr", "fri"]),
        field(0, 8, ["sun", "Fri", "jan", "fri#2", "l5"]),
    ).map(" ".join)


@settings(max_examples=1000, deadline=None)
@given(cron_fields())
@example("0 0 30 2 *")
@example("0 0 30,31 2 *")
@example("0 0 31 4,6,9,11 *")
@example("0 0 30 2 mon")
@example("0 0 29 2 *")
@example("0 22-2 * * fri-mon")
@example("0 0 * * abc")
@example("0 0 * fri *")
def test_a_schedule_that_is_accepted_is_one_that_dagster_takes_and_that_ticks(cron: str) -> None:
    try:
        accepted = Logstore.model_validate({**yaml.safe_load(GOOD)["attributes"], "schedule": cron})
    except ValidationError as error:
        assert "schedule: " in str(error)
        return
    assert is_valid_cron_schedule(accepted.schedule)
    next(schedule_execution_time_iterator(1_790_000_000, accepted.schedule, "UTC", ascending=True))


@pytest.mark.parametrize(
    "cron",
    [
        *("*/5 * * * *", "40 2 * * *", "0 0 1,15 * mon-fri", "5-55/10 0-23/2 * JAN-MAR *"),
        *("0 22-2 * * sat-mon", "0 0 29 2 *", "0 0 31 * *", "0 0 * * 7"),
    ],
)
def test_schedules_that_people_write_are_accepted(cron: str, project: Path) -> None:
    project.write_text(GOOD + f'  schedule: "{cron}"\n')
    assert by_both(project).schedule == cron


def test_logstores_that_share_a_schedule_do_not_all_begin_in_one_minute() -> None:
    def cron(logstore: str, **settings: str) -> list[str]:
        written = yaml.safe_load(GOOD)["attributes"]
        found = Logstore.model_validate(
            {**written, **settings, "service": {**written["service"], "logstore": logstore}}
        )
        return [found.schedule, found.maintenance, found.proof]

    asked = {"schedule": "H/5 * * * *", "maintenance": "H 2 * * *", "proof": "H H H * *"}
    found = [cron(f"logs-{number}", **asked) for number in range(1000)]

    assert found[7] == cron("logs-7", **asked), "the same in each process"
    begun = Counter(schedule for schedule, _, _ in found)
    assert set(begun) == {f"{minute}-59/5 * * * *" for minute in range(5)}
    assert min(begun.values()) > 150
    assert len({maintenance for _, maintenance, _ in found}) == 60
    assert {int(proof.split(" ")[2]) for _, _, proof in found} == set(range(1, 29)), (
        "a day that each month has"
    )
    with pytest.raises(ValidationError, match="expected a minute of 0 to 59"):
        cron("logs", schedule="H/61 * * * *")


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


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        (HOME_VARIABLE, "/srv/c#/lake"),
        (HOME_VARIABLE, "/srv/lake?"),
        ("PYICEBERG_CATALOG__LAKE__WAREHOUSE", "s3://lake/w#h?x=1"),
    ],
)
def test_a_place_that_an_address_would_end_in_is_refused(
    variable: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of `s3://lake/w#h` would lie at the key `w`, over a file of somebody's."""
    monkeypatch.setenv(variable, said)
    with pytest.raises(
        ConfigError, match=f"an address says something else: name another place in {variable}"
    ):
        Lake.default()


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
