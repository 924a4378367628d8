"""What all tests share: a key pair that is no secret, and an emulator of their own."""

import os
import shlex
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from pipelines.landing.table.home import use
from sls_io.emulator import Emulator
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from tests.backends import s3
from tests.inherited import forget
from tests.order import longest_first

pytest_plugins = ["sls_io.emulator.pytest_plugin"]

# How long one example takes says how busy the machine is, and nothing of the code. In the suite one commit
# has one answer, so each test draws the same examples again; `search` draws others each time.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("search"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "suite")

# Before any client is built, in this process and in the ones it starts: nobody's lake, the pair of the
# emulator, never the developer's own, and no proxy in between.
forget(os.environ)
os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"] = FAKE_ID
os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = FAKE_SECRET
# The same for storage: tasks of a landing find its key pair in their environment, and nothing else.
os.environ["AWS_ACCESS_KEY_ID"] = s3.KEY_ID
os.environ["AWS_SECRET_ACCESS_KEY"] = s3.KEY_SECRET
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: two workers share files, and none waits for the other at the end."""
    items[:] = longest_first(items, lambda item: item.path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A failure says which command shows it again."""
    for report in (*terminalreporter.stats.get("failed", ()), *terminalreporter.stats.get("error", ())):
        terminalreporter.write_line(f"again: {sys.executable} -m pytest {shlex.quote(report.nodeid)}")


@pytest.fixture(autouse=True)
def nobodys_project() -> Iterator[None]:
    """Definitions that a test loads say which project the process works for; the next test's is its own."""
    yield
    use(None)


@pytest.fixture
def emulator(sls_emulator: Emulator) -> Emulator:
    """An empty emulator as a process of its own; the mark `sls_emulator` says how it starts."""
    return sls_emulator
