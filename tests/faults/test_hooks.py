"""Functions of the user's that a live run calls."""

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.landing.run.hooks import Hooks
from sls_io.values.errors import ClaimLost, ConfigError
from sls_io.values.named import load
from tests.worlds.one_logstore import World

HERE = "tests.faults.test_hooks"
CALLS: list[tuple[object, ...]] = []
TOLD = threading.Event()


def on_assigned(logstore: str, shards: frozenset[int]) -> None:
    """Called through the module."""
    CALLS.append(("assigned", logstore, shards))


def before_release(logstore: str, shards: frozenset[int], landed: bool) -> None:
    """Called through the module."""
    CALLS.append(("release", logstore, shards, landed))


def on_lost(logstore: str, shards: frozenset[int], why: str) -> None:
    """Called through the module."""
    CALLS.append(("lost", logstore, shards, why))


def _fail(*arguments: object) -> None:
    raise ValueError("canary")


def _wait(*arguments: object) -> None:
    assert TOLD.wait(60), "nobody was told what the run waits for"


def _leave(*arguments: object) -> None:
    raise SystemExit(0)


LEAVES = SimpleNamespace(on_assigned=_leave)
REFUSES = SimpleNamespace(on_assigned=_fail)
STUMBLES = SimpleNamespace(before_release=_fail)
SLOW = SimpleNamespace(on_assigned=_wait)
NOTHING = SimpleNamespace(on_assigned=7)


@pytest.fixture
def hooked(started: World) -> World:
    """60 logs wait; the hooks are this module's."""
    CALLS.clear()
    started.logstore = started.changed(hooks="tests.faults:test_hooks")
    return started


def test_a_live_run_calls_them_once_and_a_fill_never_does(hooked: World) -> None:
    name, both = hooked.logstore.name, frozenset({0, 1})
    assert hooked.land().rows == 60
    assert [("assigned", name, both), ("release", name, both, True)] == CALLS
    CALLS.clear()
    assert hooked.land().rows == 0
    assert [("assigned", name, both), ("release", name, both, False)] == CALLS
    CALLS.clear()
    hours = hooked.hours
    hooked.land(mode="fill", hours=(hours.start, hours.stop))
    assert CALLS == []


def test_a_run_that_fails_lets_its_shards_go_through_the_hook(hooked: World) -> None:
    def fail(name: str) -> None:
        if name == "write":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        hooked.land(on_event=fail)
    assert [call[0] for call in CALLS] == ["assigned", "release"] and CALLS[-1][-1] is False
    assert hooked.land().rows == 60


def test_a_lost_claim_is_told_and_nothing_is_released_twice(hooked: World) -> None:
    """The group forgets the holder between plan and publish, and another one has its shards."""
    taken: list[object] = []

    def steal(name: str) -> None:
        if name == "publish.built" and not taken:
            hooked.emulator.admin.advance(hooked.logstore.group.timeout_s + 1)
            other = hooked.with_holder("thief")
            with hooked.run(logstore=other) as run:
                taken.append(run.land().rows)

    with contextlib.suppress(ClaimLost):
        hooked.land(on_event=steal)
    kinds = [call[0] for call in CALLS if call[1] == hooked.logstore.name]
    assert kinds.count("assigned") == kinds.count("release") + kinds.count("lost") and taken


def test_a_hook_that_refuses_stops_the_run_before_anything_is_read(started: World) -> None:
    before = started.landings()
    with pytest.raises(ConfigError, match=r"on_assigned of .* failed \(ValueError\)") as told:
        started.land(logstore=started.changed(hooks=f"{HERE}:REFUSES"))
    assert "canary" not in str(told.value) and started.landings() == before
    with pytest.raises(ConfigError, match=r"on_assigned of .* failed \(SystemExit\)"):
        started.land(logstore=started.changed(hooks=f"{HERE}:LEAVES"))
    assert started.land().rows == 60


def test_a_hook_that_fails_at_release_is_said_and_the_run_is_whole(started: World) -> None:
    said: list[str] = []
    report = started.land(logstore=started.changed(hooks=f"{HERE}:STUMBLES"), warn=said.append)
    assert report.rows == 60
    (line,) = [text for text in said if "before_release" in text]
    assert "ValueError" in line and "canary" not in line


def test_a_hook_that_does_not_return_is_named_again_and_again_until_it_does() -> None:
    said: list[str] = []
    TOLD.clear()

    def heard(sentence: str) -> None:
        said.append(sentence)
        if len(said) == 2:
            TOLD.set()

    hooks = Hooks("shop", f"{HERE}:SLOW", heard, said_s=(0.0, 0.0))
    hooks.assigned(frozenset({3}))
    assert len(said) == 2, "it returned, so nothing is said any more"
    assert all("shop" in line and "on_assigned" in line and "SLOW" in line for line in said)


def test_a_loss_is_told_once_with_its_reason_and_what_was_lost_is_not_released() -> None:
    CALLS.clear()
    hooks = Hooks("shop", "tests.faults:test_hooks", lambda sentence: None)
    hooks.assigned(frozenset({3}))
    hooks.lost("no heartbeat was answered")
    hooks.lost("no heartbeat was answered")
    hooks.before_release(landed=False)
    assert CALLS[1:] == [("lost", "shop", frozenset({3}), "no heartbeat was answered")]


def test_a_quick_hook_is_not_spoken_of() -> None:
    said: list[str] = []
    CALLS.clear()
    Hooks("shop", "tests.faults:test_hooks", said.append).assigned(frozenset({3}))
    assert CALLS and said == []


def test_a_module_of_a_package_is_found_before_anybody_has_imported_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hooks_of_mine").mkdir()
    (tmp_path / "hooks_of_mine" / "__init__.py").touch()
    (tmp_path / "hooks_of_mine" / "audit.py").write_text("def on_lost(*arguments): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert callable(load("hooks", "hooks_of_mine:audit", "an object").on_lost)


@pytest.mark.parametrize("path", ["", "nowhere", "tests.nowhere:x", f"{HERE}:nowhere", "sys:exit.x", ":x"])
def test_a_name_that_leads_nowhere_is_refused_with_the_setting(path: str) -> None:
    with pytest.raises(ConfigError, match=r"hooks .* failed \(.*\): name an object as module:object"):
        load("hooks", path, "an object")


def test_an_object_without_any_hook_is_refused(started: World) -> None:
    with pytest.raises(ConfigError, match="has none of on_assigned, before_release, on_lost"):
        started.run(logstore=started.changed(hooks=f"{HERE}:NOTHING"))
