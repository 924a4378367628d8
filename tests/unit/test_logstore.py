"""What a `defs.yaml` may say, and what a wrong one is told."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines.landing.logstore import Logstore, load_logstore
from pipelines.landing.table.names import RESERVED
from sls_io.values.errors import ConfigError

PLAIN: dict[str, object] = {
    "service": {"endpoint": "http://127.0.0.1:9090", "project": "demo", "logstore": "access_logs"},
    "group": "lake",
    "table": "bronze.access_logs",
    "start": "2026-11-20-00:00",
}
YAML = """
type: pipelines.components.SlsLogstore
attributes:
  service: {endpoint: "{{ env.SLS_ENDPOINT }}", project: demo, logstore: access_logs}
  group: lake
  table: bronze.access_logs
  start: 2026-11-20-00:00
  columns: {status: int, latency_ms: double}
  schedule: "*/5 * * * *"
"""


def logstore(**changed: object) -> Logstore:
    """A valid logstore with some settings changed."""
    return Logstore.model_validate({**PLAIN, **changed})


def written(folder: Path, text: str) -> Path:
    """A defs.yaml of this text."""
    path = folder / "defs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_of_the_readme_is_a_whole_logstore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", "https://cn-hangzhou.log.aliyuncs.com")
    loaded = load_logstore(written(tmp_path, YAML))
    assert loaded.service.endpoint == "https://cn-hangzhou.log.aliyuncs.com"
    assert (loaded.group.name, loaded.group.holder) == ("lake", "sls-lake")
    assert (loaded.name, loaded.columns) == ("access_logs", {"status": "int", "latency_ms": "double"})
    assert loaded.start_s == datetime(2026, 11, 20, tzinfo=UTC).timestamp()
    assert loaded.start_hour * 3600 == loaded.start_s


def test_a_group_may_be_a_name_or_its_settings() -> None:
    assert logstore(group={"name": "lake", "timeout_s": 90}).group.timeout_s == 90
    assert logstore().group.name == "lake"


@pytest.mark.parametrize(
    "table", ["access_logs", "a.b.c", "Bronze.logs", "bronze.1st", "bronze.a-b", "b.l\n", ""]
)
def test_a_table_is_a_namespace_and_a_name(table: str) -> None:
    with pytest.raises(ValidationError, match=r"table: expected namespace\.name"):
        logstore(table=table)


@pytest.mark.parametrize("start", ["2026-11-20", "2026-11-20-00:30", "2026-13-01-00:00", "yesterday", ""])
def test_a_start_is_a_whole_hour(start: str) -> None:
    with pytest.raises(ValidationError, match="start: "):
        logstore(start=start)


@pytest.mark.parametrize(
    ("reset", "time_s"),
    [
        ("earliest", None),
        ("latest", None),
        ("group", None),
        ("none", None),
        ("6h", 1_000_000 - 6 * 3600),
        ("90 s", 1_000_000 - 90),
        ("2d", 1_000_000 - 2 * 86_400),
        ("1970-01-01T01:00:00+00:00", 3600),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T01:00:00Z", 3600),
        ("1970-01-02", 86_400),
    ],
)
def test_a_reset_policy_is_a_name_a_time_or_a_duration(reset: str, time_s: int | None) -> None:
    assert logstore(reset=reset).reset_time_s(1_000_000.9) == time_s


@pytest.mark.parametrize("reset", ["", "Earliest", "begin", "6", "h", "6w", "-6h", "12:00"])
def test_another_reset_policy_is_told_which_there_are(reset: str) -> None:
    with pytest.raises(ValidationError, match="one of earliest, latest, group, none"):
        logstore(reset=reset)


@pytest.mark.parametrize(
    "changed",
    [{"splits_per_hour": 0}, {"splits_per_hour": 61}, {"coordinator": "zookeeper"}, {"tabel": "x.y"}],
)
def test_what_is_unknown_or_out_of_bounds_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        logstore(**changed)


def test_shards_are_named_once_and_sorted() -> None:
    found = logstore(shards=[3, 0])
    assert found.shards == (0, 3) and [found.reads(s) for s in (0, 1, 3)] == [True, False, True]
    assert logstore().reads(7) and found.deployment != logstore().deployment
    assert logstore(shards=[0]).deployment != found.deployment, "neither may fence the other"
    assert len(logstore(shards=[*range(256)]).deployment) < 100, "the table has a property of it"
    assert Logstore.model_validate(found.model_dump(mode="json")) == found


@pytest.mark.parametrize(
    ("shards", "told"),
    [
        ([0, 3, 0], "shards: 0 is named more than once"),
        ([-1], "greater than or equal to 0"),
        ([], "shards: names none"),
        ([True], "expected a list of shards"),
        ("0", "expected a list of shards"),
        ([1.5], "valid integer"),
    ],
)
def test_other_shards_are_refused(shards: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        logstore(shards=shards)
    with pytest.raises(ValidationError, match="an assignor shares out"):
        logstore(shards=[0], coordinator={"database": "sqlite:////leases.db", "assignor": "range"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("attributes: [", "line 1, column 14: not valid YAML"),
        ("attributes:\n  a: b: c", "line 2, column 7: not valid YAML"),
        ("", "is empty: write `type:` and `attributes:`"),
        ("- a\n- b", "it has no `type:`"),
        ("type: x", "expected `type:` and `attributes:`"),
        ("type: x\nattributes: {}", "service: is missing"),
        ("type: x\nattributes: {group: {name: lake, holder: 'a b'}}", "group and holder names"),
        ("type: x\nattributes: {columns: {amount: decimal(9,2)}}", "put the type before it in quotes"),
    ],
)
def test_a_wrong_file_is_named_with_its_cure(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_logstore(path)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere.*No such file"):
        load_logstore(tmp_path / "nowhere" / "defs.yaml")


def test_a_missing_environment_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLS_ENDPOINT", raising=False)
    with pytest.raises(ConfigError, match="environment variable SLS_ENDPOINT, which is not set"):
        load_logstore(written(tmp_path, YAML))


def test_what_was_given_is_never_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", "https://key:canary-secret@host.example")
    with pytest.raises(ConfigError) as caught:
        load_logstore(written(tmp_path, YAML))
    assert "canary-secret" not in str(caught.value)
    assert "endpoint: expected https://HOST" in str(caught.value)


def test_a_value_of_the_environment_stays_a_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotes, colons and line ends in it must not become settings."""
    monkeypatch.setenv("SLS_ENDPOINT", 'https://host.example", project: "other')
    with pytest.raises(ConfigError, match="endpoint"):
        load_logstore(written(tmp_path, YAML))


def test_a_template_in_a_comment_needs_no_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLS_ENDPOINT", "https://cn-hangzhou.log.aliyuncs.com")
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    load_logstore(written(tmp_path, YAML + "  # {{ env.NOT_SET_ANYWHERE }}\n"))


@pytest.mark.parametrize("name", [*sorted(RESERVED), "_FILE", "_Spec_Id"])
def test_names_of_metadata_columns_are_refused_at_load_with_the_list(tmp_path: Path, name: str) -> None:
    """Spark reads no table with such a column."""
    text = YAML.replace("{{ env.SLS_ENDPOINT }}", "http://127.0.0.1:9090").replace(
        "status: int", f"{name}: int"
    )
    with pytest.raises(
        ConfigError, match=r"defs.yaml, line \d+: columns: .*leave it out.*_last_updated_sequence_number"
    ):
        load_logstore(written(tmp_path, text))


def test_keys_that_differ_only_in_case_are_refused_at_load() -> None:
    with pytest.raises(ValidationError, match="differ only in case"):
        logstore(columns={"A": "int", "a": "int"})
