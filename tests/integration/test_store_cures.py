"""A checkpoint store that is lost or broken names the call that fills a new one, as it can be run."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE
from pipelines.cli.stores import store_of
from sls_io.checkpoints.local_file import LocalFile
from sls_io.checkpoints.sql_table import SqlTable
from sls_io.values.errors import StoreBroken
from sls_io.values.settings import Group
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World
from tests.worlds.other_group import OTHER, by_shard, copy_to, cursors_of, filled, force

__all__ = ["filled"]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def aside(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.rename(each.with_name(f"old-{each.name}"))


@pytest.mark.parametrize("lose", [cut, Path.unlink], ids=["cut off", "gone"])
@pytest.mark.parametrize("place", ["file:{}", "sql:env:POSITIONS", "sql:sqlite:///{}"])
def test_the_call_that_a_lost_store_names_fills_a_new_one_as_it_is_printed(
    filled: World,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    lose: Callable[[Path], None],
) -> None:
    path = tmp_path / "positions of us"
    monkeypatch.setenv("POSITIONS", f"sqlite:///{path}")
    where, at = place.format(path), {shard: cursors_of(filled, shard)[4] for shard in (0, 1)}
    force(filled, at)
    begun = (*copy_to(where, f"group:{OTHER}", "--reader", OTHER, "--forward-only"), "--execute")
    by_shard(command(*begun))
    lose(path)

    refused = command("checkpoints", "show", where, "--reader", OTHER)
    assert refused["code"] == EXIT_FAILED
    cures = re.findall(r"\((sls-lake [^)]*)\)", refused["error"])
    assert len(cures) == 1, refused["error"]
    aside(path)
    call = shlex.split(cures[0])[1:]
    assert command(*call)["code"] == 0, "and its dry run names the call that does it"
    by_shard(command(*call, "--execute"))
    shown = by_shard(command("checkpoints", "show", where, "--reader", OTHER))
    assert {shard: entry["checkpoint"] for shard, entry in shown.items()} == at


def broken(store: LocalFile | SqlTable) -> str:
    with pytest.raises(StoreBroken) as refused:
        store.read()
    return str(refused.value)


def test_where_nobody_knows_the_whole_call_a_lost_store_names_none(filled: World, tmp_path: Path) -> None:
    """A program of its own has a reader; a reader's name may be no group's; leases keep other checkpoints."""
    (path := tmp_path / "positions").write_text("{}")
    own = LocalFile(path, of="x", reader="report")
    with filled.client as client:
        odd = store_of(f"file:{path}", filled.logstore, client, reader="a b")
        leases = filled.changed(
            coordinator={"database": f"sqlite:///{tmp_path}/leases.db"},
            group=Group(name="lake").model_dump(),
        )
        leased = store_of(f"file:{path}", leases, client)
        whole = store_of(f"sql:sqlite:///{path}", filled.logstore, client, reader=OTHER)
    for store in (own, odd, leased):
        assert isinstance(store, LocalFile)
        said = broken(store)
        assert "fill a new one from another store" in said and "sls-lake checkpoints" not in said
    assert isinstance(whole, SqlTable)
    assert f"sls-lake checkpoints set --from group:{OTHER} --to sql:sqlite:///{path}" in broken(whole)


@pytest.mark.parametrize("target", ["group:copy", "file:new.json", "table"])
def test_a_source_that_keeps_nothing_is_no_success(
    filled: World, command: Command, tmp_path: Path, target: str
) -> None:
    """Nobody can tell "nothing yet" from a wrong name; a copy on a schedule would stay green for ever."""
    filled.land()
    (tmp_path / "empty.csv").write_text("shard,cursor\n")
    (tmp_path / "one.csv").write_text(f"shard,cursor\n0,{cursors_of(filled, 0)[1]}\n")
    with filled.client as client:
        client.create_group(Group(name="copy", timeout_s=30, heartbeat_s=5))
    into = target.replace("file:", f"file:{tmp_path}/")
    for source in (
        f"file:{tmp_path}/typo.json",
        f"sql:sqlite:///{tmp_path}/typo.sqlite",
        f"csv:{tmp_path}/empty.csv",
    ):
        said = command(*copy_to(into, source), "--execute")
        assert said["code"] == EXIT_USAGE and "keeps no position" in said["error"], said
    said = command(*copy_to(into, f"csv:{tmp_path}/one.csv", "--shards", "1"), "--execute")
    assert said["code"] == EXIT_USAGE and "keeps no position of shard 1" in said["error"], said
    assert not (tmp_path / "new.json").exists()


def test_a_target_that_keeps_nothing_is_not_shifted(filled: World, command: Command, tmp_path: Path) -> None:
    said = command(*copy_to(f"file:{tmp_path / 'new.json'}", "shift:-1h"), "--execute")
    assert said["code"] == EXIT_USAGE and "no position to shift from" in said["error"]
