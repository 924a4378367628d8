"""`sls-lake doctor`: each broken set-up is named by the trial that is about it, and nothing stays behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, TableRequirement, TableUpdate

from pipelines.cli.main import EXIT_FAILED
from pipelines.landing.table.sql_catalog import SharingSqlCatalog
from sls_io.values.settings import Group
from sls_io.wire.client import GroupInfo
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import PROJECT, World

pytestmark = pytest.mark.spark

SERVICE = ["keys", "name", "identity", "signature", "clock", "project", "logstore", "shards", "quota", "page"]
LAKE = ["catalog", "table", "scratch", "files", "commit", "stale"]
ALL = [*SERVICE, "group", "heartbeat", *LAKE, "spark", "away", "dagster"]

CANARY = "canary-of-a-secret"

Break = Callable[[World, pytest.MonkeyPatch, Path], None]


class Careless(SharingSqlCatalog):
    """A catalog that takes every commit, whatever it requires."""

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        follows = self.load_table(table.name()).metadata.next_sequence_number()
        late = tuple(
            one.model_copy(update={"snapshot": one.snapshot.model_copy(update={"sequence_number": follows})})
            if isinstance(one, AddSnapshotUpdate)
            else one
            for one in updates
        )
        return super().commit_table(table, (), late)


def trials(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The trials of a document by name."""
    return {one["name"]: one for one in said["trials"]}


def of(said: dict[str, Any], grade: str) -> list[str]:
    """The names of trials that ended so."""
    return [name for name, one in trials(said).items() if one["grade"] == grade]


def files(folder: Path) -> set[Path]:
    """All files below it that are no database's own."""
    return {path for path in folder.rglob("*") if path.is_file() and ".sqlite" not in path.name}


def test_a_set_up_that_is_well_is_said_line_by_line_and_left_as_it_was(
    world: World, command: Command, tmp_path: Path
) -> None:
    world.put(20)
    world.land()
    before, table = files(tmp_path / "lake"), world.table.metadata_location
    with world.client as client:
        groups = client.groups()
    asked = world.emulator.admin.fault("observe", call="get_logstore", times=None)

    said = command("doctor")

    assert list(trials(said)) == ALL and said["ok"] and said["code"] == 0
    # The emulator's clock stands two months before this machine's.
    assert of(said, "note") == ["clock"] and not of(said, "wrong")
    assert files(tmp_path / "lake") == before and world.table.metadata_location == table
    assert [name for _, name in world.lake.catalog().list_tables("bronze")] == ["access_logs"]
    with world.client as client:
        assert client.groups() == groups
    assert [one["hits"] for one in world.emulator.admin.faults() if one["id"] == asked] == [1]
    text = command("doctor", json=False)["text"]
    assert text.count("fine") >= len(ALL) - 1 and f"{len(ALL)} trials" in text


def test_before_the_first_landing_not_even_a_namespace_stays(world: World, command: Command) -> None:
    said = command("doctor")
    assert said["ok"] and "not there yet" in trials(said)["table"]["came"]
    assert world.lake.catalog().list_namespaces() == []
    assert files(Path(world.lake.properties["warehouse"].removeprefix("file://"))) == set()


def test_a_catalog_that_was_not_there_is_told_so_where_its_path_is_mistyped(
    world: World, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SQLite makes a file under any name, and then all is well with it."""
    mistyped = tmp_path / "catalgo.sqlite"
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{mistyped}")
    assert f"was not there before: {mistyped} is new" in trials(command("doctor"))["catalog"]["came"]
    assert "was not there" not in trials(command("doctor"))["catalog"]["came"]


def _no_keys(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.delenv("ALIBABA_CLOUD_ACCESS_KEY_ID")


def _other_secret(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", CANARY)


def _no_name(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    _settings(folder, {"endpoint": "https://cn-nowhere.log.invalid", "region": "cn-nowhere"})


def _nobody_listens(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    world.emulator.stop()


def _no_logstore(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    _settings(folder, {"logstore": "orders"})


def _metric_store(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    with world.client as client:
        client.transport.create_logstore(PROJECT, "points", telemetry_type="Metrics")
    _settings(folder, {"logstore": "points"})


def _may_not_beat(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    world.emulator.admin.fault("error", call="heartbeat", status=401, code="Unauthorized", times=None)


def _other_group(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    with world.client as client:
        client.create_group(Group(name="lake", timeout_s=99, order=False))


def _many_groups(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    with world.client as client:
        for number in range(30):
            client.create_group(GroupInfo(f"g{number}", 20, order=False))


def _no_catalog(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"postgresql+psycopg2://u:{CANARY}@127.0.0.1:9/lake")


def _plain_password(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"postgresql+psycopg2://u:p@{CANARY}/w%rd@127.0.0.1:9/lake")


def _foreign_table(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    catalog = world.lake.catalog()
    catalog.create_namespace("bronze")
    catalog.create_table(world.logstore.table, pa.schema({"id": pa.int64()})).append(pa.table({"id": [1, 2]}))


def _no_storage(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", "file:///proc/warehouse")


def _careless(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.delenv("PYICEBERG_CATALOG__LAKE__TYPE")
    patch.setenv("PYICEBERG_CATALOG__LAKE__PY_CATALOG_IMPL", f"{__name__}.Careless")


def _no_spark(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("SLS_SPARK_REMOTE", "sc://127.0.0.1:9")


def _no_instance(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("DAGSTER_HOME", "not/from/the/root")


def _no_leases(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    _settings(folder, {}, "  coordinator: {database: 'postgresql://u@127.0.0.1:9/leases'}\n")


def _raised_quota(world: World, patch: pytest.MonkeyPatch, folder: Path) -> None:
    _settings(folder, {}, "  budget: {shard_mb_per_s: 20}\n")


def _settings(folder: Path, service: dict[str, str], more: str = "") -> None:
    """Replace parts of the settings that the verb reads."""
    path = folder / "defs.yaml"
    text = path.read_text()
    for name, value in service.items():
        head, _, rest = text.partition(f"{name}: ") if f"{name}: " in text else (text, "", "")
        if rest:
            old = rest[: min(rest.index(mark) for mark in (",", "}") if mark in rest)]
            text = f"{head}{name}: {json.dumps(value)}{rest[len(old) :]}"
        else:
            text = text.replace("{endpoint:", f"{{{name}: {json.dumps(value)}, endpoint:")
    path.write_text(text + more)


BROKEN: list[tuple[Break, str, str, str]] = [
    (_no_keys, "keys", "wrong", "ALIBABA_CLOUD_ACCESS_KEY_ID"),
    (_other_secret, "signature", "wrong", "SignatureNotMatch"),
    (_no_name, "name", "wrong", "no address"),
    (_nobody_listens, "signature", "wrong", "127.0.0.1"),
    (_no_logstore, "signature", "wrong", "orders"),
    (_metric_store, "logstore", "wrong", "metric store"),
    (_may_not_beat, "heartbeat", "wrong", "Unauthorized"),
    (_other_group, "group", "note", "timeout 99 s"),
    (_many_groups, "heartbeat", "note", "no further consumer group"),
    (_many_groups, "group", "note", "30 of 30 groups; lake is not among them"),
    (_raised_quota, "quota", "note", "the settings ask 20 MB/s"),
    (_no_leases, "leases", "wrong", "cannot be asked"),
    (_no_catalog, "catalog", "wrong", "cannot be reached"),
    (_plain_password, "catalog", "wrong", "more than one @"),
    (_foreign_table, "table", "wrong", "__origin__"),
    (_no_storage, "scratch", "wrong", "/proc/warehouse"),
    (_careless, "stale", "wrong", "not so any more"),
    (_no_spark, "spark", "wrong", "127.0.0.1:9"),
    (_no_instance, "dagster", "wrong", "DAGSTER_HOME"),
]


@pytest.mark.parametrize(("how", "name", "grade", "says"), BROKEN, ids=[b[0].__name__ for b in BROKEN])
def test_a_broken_set_up_is_named_by_the_trial_that_is_about_it(
    world: World,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: Break,
    name: str,
    grade: str,
    says: str,
) -> None:
    how(world, monkeypatch, tmp_path)

    said = command("doctor")

    found = trials(said)[name]
    assert found["grade"] == grade and says in found["came"], found
    assert of(said, "wrong") == ([name] if grade == "wrong" else [])
    assert said["code"] == (EXIT_FAILED if grade == "wrong" else 0)
    assert CANARY not in json.dumps(said)
