"""A pytest fixture for whoever tests a client of the service: an emulator for each test that asks.

Opt in, in the conftest.py at the top of the tests:

    pytest_plugins = ["sls_io.emulator.pytest_plugin"]

`sls_emulator` is then an empty emulator in a process of its own that ends with the test. What is not
the default is asked for by a mark on the test, the class or the module; the nearest one that names a
thing decides:

    @pytest.mark.sls_emulator(now=1_790_000_000, limits={"page_groups_max": 10}, data=True)

now       unix seconds its clock starts at (default: the machine's)
limits    names and values of `Limits`
data      True: a folder inside the test's `tmp_path`; a path: that one (default: all in memory)
key_pair  (id, secret) that signs (default: `emulator-key` and `emulator-secret`, whatever the
          environment holds, so that nobody's own keys are used by accident)

pytest is needed by whoever loads this module and by nothing else of the package.
"""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sls_io.emulator.handle import Emulator, prepared, start
from sls_io.emulator.limits import Limits
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET

MARK = "sls_emulator"
_NAMES = ("now", "limits", "data", "key_pair")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known, so that --strict-markers takes it."""
    config.addinivalue_line(
        "markers", f"{MARK}({', '.join(f'{name}=...' for name in _NAMES)}): how the test's emulator starts"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """The tests' emulators are forked from one process: half a second less for each."""
    with prepared():
        return (yield)


@pytest.fixture
def sls_emulator(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    """A running emulator as the nearest `sls_emulator` marks ask for it."""
    asked = _asked(request.node)
    with start(
        _folder(asked.get("data"), request),
        now=asked.get("now"),
        key_pair=asked.get("key_pair", (FAKE_ID, FAKE_SECRET)),
        limits=_limits(asked.get("limits")),
    ) as running:
        yield running


def _asked(node: Any) -> dict[str, Any]:
    """The keywords of all marks, the nearest deciding. UsageError for what is no keyword."""
    asked: dict[str, Any] = {}
    for mark in reversed(list(node.iter_markers(MARK))):
        unknown = sorted(set(mark.kwargs) - set(_NAMES))
        if mark.args or unknown:
            wrong = ", ".join(unknown) or "a value without a name"
            raise pytest.UsageError(f"mark {MARK}: {wrong}; it takes {', '.join(_NAMES)}")
        asked |= mark.kwargs
    return asked


def _folder(data: bool | str | Path | None, request: pytest.FixtureRequest) -> Path | None:
    if data is True:
        folder: Path = request.getfixturevalue("tmp_path")
        return folder / "sls-emulator"
    return Path(data) if data else None


def _limits(limits: Limits | Mapping[str, Any] | None) -> Limits | None:
    if limits is None or isinstance(limits, Limits):
        return limits
    try:
        return Limits.model_validate(limits)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise pytest.UsageError(f"mark {MARK}: limits: {wrong}") from None
