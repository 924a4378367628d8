"""The checkpoint file: what a kill, a full disk and a person's hand leave of it."""

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sls_io.checkpoints.local_file import PATIENCE_S, LocalFile, encoded
from sls_io.checkpoints.store import Kept
from sls_io.values.clock import ManualClock
from sls_io.values.errors import StoreBroken, StoreError
from sls_io.values.window import Cursor
from tests.unit.store_killed import NEW, OF, OLD, READER

ROOT = Path(__file__).resolve().parents[2]


def opened(path: Path) -> LocalFile:
    """The store of `path` as a process opens it."""
    return LocalFile(path, of=OF, reader=READER, clock=ManualClock())


def cursors(path: Path) -> dict[int, int | None]:
    """What is kept in `path`."""
    return {shard: kept.cursor for shard, kept in opened(path).read().items()}


def written(path: Path) -> Path:
    """`path` with OLD in it."""
    opened(path).write({shard: Cursor(cursor) for shard, cursor in OLD.items()})
    return path


def victim(path: Path, *how: object) -> subprocess.CompletedProcess[str]:
    """A process that writes NEW there; see store_killed.py."""
    return subprocess.run(
        [sys.executable, "-m", "tests.unit.store_killed", str(path), *map(str, how)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_kill_before_any_step_leaves_the_old_document_or_the_new_one(tmp_path: Path) -> None:
    steps = int(victim(written(tmp_path / "counted" / "p.json"), "count").stdout)
    assert steps > 12
    seen: list[Mapping[int, int | None]] = []
    for step in range(1, steps + 1):
        path = written(tmp_path / str(step) / "p.json")
        died = victim(path, "step", step)
        assert died.returncode == -signal.SIGKILL, died.stderr
        seen.append(cursors(path))
        assert opened(path).write({0: Cursor(12)})[0].fate == "sent"
        assert cursors(path)[0] == 12
    old = [kept == OLD for kept in seen]
    assert old == sorted(old, reverse=True) and all(kept in (OLD, NEW) for kept in seen)
    assert old.count(True) > 5 and old.count(False) > 1


def test_a_kill_in_the_first_write_leaves_nothing_or_the_document(tmp_path: Path) -> None:
    steps = int(victim(tmp_path / "counted" / "p.json", "count").stdout)
    seen = []
    for step in range(1, steps + 1):
        path = tmp_path / str(step) / "p.json"
        assert victim(path, "step", step).returncode == -signal.SIGKILL
        seen.append(cursors(path))
        opened(path).write({5: Cursor(1)})
        assert cursors(path)[5] == 1
    assert set(map(len, seen)) == {0, len(NEW)} and seen[0] == {} and seen[-1] == NEW


def test_a_kill_in_the_middle_of_a_write_leaves_the_old_document(tmp_path: Path) -> None:
    whole = len(written(tmp_path / "p.json").read_bytes())
    for size in (0, 1, whole // 2, whole - 1):
        path = written(tmp_path / str(size) / "p.json")
        assert victim(path, "bytes", size).returncode == -signal.SIGXFSZ
        assert path.with_name("p.json.new").stat().st_size == size
        assert cursors(path) == OLD


def test_a_full_disk_is_said_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    for size in (0, 100):
        refused = victim(path, "full", size)
        assert refused.returncode == 1
        assert refused.stdout.startswith(f"StoreError: file {path} cannot be written")
        assert "still there" in refused.stdout and "space that is left" in refused.stdout
        assert cursors(path) == OLD
        assert not path.with_name("p.json.new").exists()


def test_a_folder_that_may_not_be_written_is_said_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    path.chmod(0o644)
    if os.geteuid() == 0:
        refused = victim(path, "nobody")
        assert refused.returncode == 1 and "folder's rights" in refused.stdout, refused.stderr
    else:
        tmp_path.chmod(0o500)
        path.with_name("p.json.lock").chmod(0o400)
        with pytest.raises(StoreError, match="folder's rights"):
            opened(path).write({0: Cursor(99)})
        tmp_path.chmod(0o700)
    assert cursors(path) == OLD


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        opened(tmp_path / "file" / "p.json").write({0: Cursor(1)})
    with pytest.raises(StoreError, match="cannot be read"):
        opened(tmp_path / "file" / "p.json").read()
    with pytest.raises(StoreError, match="is no file"):
        opened(tmp_path).read()


def test_a_document_cut_off_anywhere_stops(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(StoreBroken, match="Restore it"):
            opened(path).read()
        with pytest.raises(StoreBroken):
            opened(path).write({0: Cursor(99)})
        assert path.read_bytes() == whole[:size], "what a person has to look at stays"


def test_a_document_with_any_byte_changed_stops(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StoreBroken):
            opened(path).read()
    path.write_bytes(whole + b"\n")
    with pytest.raises(StoreBroken):
        opened(path).read()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["shards"]["0"].update(cursor="11"), "was edited"),
        (lambda d: d["shards"]["0"].update(cursor=-1), "does not hold shards and cursors"),
        (lambda d: d["shards"]["0"].update(cursor=str(2**63)), "does not hold shards and cursors"),
        (lambda d: d["shards"].update({"3": {"cursor": "1"}}), "does not hold shards and cursors"),
        (lambda d: d["shards"].update({"x": d["shards"]["0"]}), "does not hold shards and cursors"),
        (lambda d: d.update(shards=[]), "does not hold shards and cursors"),
        (lambda d: d.update(format="sls-lake-checkpoints 2"), "a format of another release"),
        (lambda d: d.update(format=7), "no document of ours"),
        (lambda d: d.pop("reader"), "no document of ours"),
        (lambda d: d.pop("sha256"), "was edited"),
        (lambda d: d.update(more=1), "was edited"),
    ],
)
def test_a_document_that_a_person_changed_stops_and_says_what_it_is(
    tmp_path: Path, change: object, says: str
) -> None:
    path = written(tmp_path / "p.json")
    document = json.loads(path.read_text())
    assert callable(change)
    change(document)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    with pytest.raises(StoreBroken, match=says) as caught:
        opened(path).read()
    assert str(path) in str(caught.value) and "aside" in str(caught.value)


def test_a_document_of_another_reader_or_logstore_is_not_taken(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    for of, reader in ((OF, "prod"), ("access_logs-00000000", READER)):
        with pytest.raises(StoreBroken, match="a file of its own"):
            LocalFile(path, of=of, reader=reader).read()


def test_a_document_that_is_gone_is_not_none(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    kept = path.read_bytes()
    path.unlink()
    with pytest.raises(StoreBroken, match=r"is gone, and there was one.*or remove .*p\.json\.lock"):
        opened(path).read()
    with pytest.raises(StoreBroken):
        opened(path).write({0: Cursor(1)})
    path.write_bytes(kept)
    assert cursors(path) == OLD
    path.unlink()
    path.with_name("p.json.lock").unlink()
    assert cursors(path) == {}


def test_files_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = written(tmp_path / "deep" / "er" / "p.json")
        path.chmod(0o666)
        opened(path).write({0: Cursor(99)})
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, path.with_name("p.json.lock"), path.parent)]
    assert modes == [0o600, 0o600, 0o700]
    assert sorted(p.name for p in path.parent.iterdir()) == ["p.json", "p.json.lock"]


def test_a_link_where_the_new_document_goes_is_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    (tmp_path / "other").write_text("theirs")
    path.with_name("p.json.new").symlink_to(tmp_path / "other")
    with pytest.raises(StoreError):
        opened(path).write({0: Cursor(99)})
    assert (tmp_path / "other").read_text() == "theirs" and cursors(path) == OLD


def test_a_link_to_the_document_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    real = written(tmp_path / "real.json")
    link = tmp_path / "link.json"
    link.symlink_to(real)
    opened(link).write({0: Cursor(99)})
    assert link.is_symlink() and cursors(link) == cursors(real) != OLD


def test_a_link_whose_target_is_gone_is_not_none_and_makes_nothing(tmp_path: Path) -> None:
    written(tmp_path / "p.json").unlink()
    (tmp_path / "p.json").symlink_to(tmp_path / "disk" / "p.json")
    for _ in range(2):
        with pytest.raises(StoreBroken, match=r"is a link to it.*mounted"):
            opened(tmp_path / "p.json").read()
        with pytest.raises(StoreBroken, match="is a link to it"):
            opened(tmp_path / "p.json").write({0: Cursor(1)})
    assert not (tmp_path / "disk").exists()


def test_who_reads_a_document_makes_its_lock_file_remember_it_again(tmp_path: Path) -> None:
    for harm in (Path.unlink, lambda lock: lock.write_bytes(b"")):
        path = written(tmp_path / "p.json")
        harm(path.with_name("p.json.lock"))
        assert cursors(path) == OLD
        path.unlink()
        with pytest.raises(StoreBroken, match="there was one"):
            opened(path).read()
        path.with_name("p.json.lock").unlink()


def test_a_pipe_in_the_place_of_the_document_stops_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.json")
    with pytest.raises(StoreBroken, match="is no file"):
        opened(tmp_path / "p.json").read()


def test_a_lock_that_nobody_gives_back_ends_the_wait_with_its_name(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    clock = ManualClock()
    with path.with_name("p.json.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match=r"p\.json\.lock open"):
            LocalFile(path, of=OF, reader=READER, clock=clock).write({0: Cursor(99)})
        assert clock.monotonic() >= PATIENCE_S
        assert cursors(path) == OLD, "reading waits for nobody"


def test_what_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "p.json")
    before = path.stat().st_ino
    store = opened(path)
    assert store.write({0: Cursor(5)})[0].fate == "ahead"
    store.thaw({0: Cursor(1), 1: Cursor(1)})
    assert store.forget([9]) == frozenset()
    assert path.stat().st_ino == before


def test_the_same_contents_are_the_same_bytes() -> None:
    text = encoded(OF, READER, {2: Kept(Cursor(2**62)), 0: Kept(None, frozen=True)})
    assert text == encoded(OF, READER, {0: Kept(None, frozen=True), 2: Kept(Cursor(2**62))})
    document = json.loads(text)
    assert document["shards"]["2"]["cursor"] == str(2**62)
    assert document["shards"]["0"] == {"cursor": None, "frozen": True, "saved_s": 0.0}


def test_a_copy_of_the_folder_goes_on_elsewhere(tmp_path: Path) -> None:
    path = written(tmp_path / "a" / "p.json")
    shutil.copytree(path.parent, tmp_path / "b")
    assert cursors(tmp_path / "b" / "p.json") == OLD
