"""The vendor's own client, unmodified, with the emulator as its HTTP proxy."""

import pytest
from aliyun.log import LogClient

from sls_io.emulator import Emulator
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET


@pytest.fixture
def vendor(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> LogClient:
    """A LogClient for the endpoint `sls.emu`, a name that only the proxy knows."""
    monkeypatch.setenv("http_proxy", emulator.endpoint)
    monkeypatch.setenv("no_proxy", "")
    return LogClient("http://sls.emu", FAKE_ID, FAKE_SECRET)
