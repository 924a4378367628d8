"""The vendor's own client, unmodified, with the emulator as its HTTP proxy; and databases."""

from collections.abc import Iterator

import pytest
from aliyun.log import LogClient

from sls_io.emulator import Emulator
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from tests.backends.places import Servers
from tests.contract.lease_databases import Databases


@pytest.fixture
def vendor(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> LogClient:
    """A LogClient for the endpoint `sls.emu`, a name that only the proxy knows."""
    monkeypatch.setenv("http_proxy", emulator.endpoint)
    monkeypatch.setenv("no_proxy", "")
    return LogClient("http://sls.emu", FAKE_ID, FAKE_SECRET)


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Databases for leases; servers are started when a test asks for one."""
    servers = Servers()
    try:
        yield Databases(tmp_path_factory.mktemp("leases"), servers)
    finally:
        servers.end()
