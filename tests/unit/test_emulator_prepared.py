"""Emulators that are forked from one process are processes of their own in all that a test can see."""

import os
import signal
from pathlib import Path

import pytest

from sls_io.emulator import Emulator, prepared, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient


def field(emulator: Emulator, name: str) -> str:
    """A line of what the system says of the process."""
    (found,) = [
        x for x in Path(f"/proc/{emulator.pid}/status").read_text().splitlines() if x.startswith(name)
    ]
    return found.split()[1]


def test_they_have_one_parent_and_end_one_by_one_with_their_own_status() -> None:
    with prepared(), start() as one, start() as two:
        assert field(one, "PPid:") == field(two, "PPid:") != str(os.getpid())
        assert one.exit_status is None
        one.kill()
        assert one.exit_status == -signal.SIGKILL
        two.admin.freeze()
        two.stop()
        assert two.exit_status == 0


def test_each_has_its_own_keys_and_the_folder_that_the_caller_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with prepared(), start(Path("data"), key_pair=("mine", "secret")) as one, start() as two:
        assert (tmp_path / "data" / "lock").exists()
        for emulator, pair in ((one, ("mine", "secret")), (two, (FAKE_ID, FAKE_SECRET))):
            monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", pair[0])
            monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", pair[1])
            with SlsClient(Service(endpoint=emulator.endpoint, project="demo", logstore="logs")) as client:
                client.transport.create_project("demo", "")


def test_one_that_cannot_start_says_so_and_the_next_one_starts(capfd: pytest.CaptureFixture[str]) -> None:
    with prepared():
        with pytest.raises(ConfigError, match="exit status 2"):
            start(port=99999)
        assert "cannot listen on port 99999" in capfd.readouterr().err
        with start() as emulator:
            assert emulator.admin.state()["projects"] == []
