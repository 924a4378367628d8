"""`make real`, whole: on an emulator with quotas and a store as strict as OSS; nothing of it stays."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from sls_io.emulator import Emulator
from sls_io.emulator.signing import FAKE_SECRET
from tests.backends.places import Servers
from tests.backends.s3 import KEY_SECRET
from tests.sources import ROOT
from tests.worlds.ending_keys import EMULATOR

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ACTS = ["doctor", "landing", "split", "merge", "maintenance", "write quota", "read quota"]
ENDED = ["keys that end: renewed", "keys that end: refused"]
CLIENT = ["create project and logstore", "put and pull: v4, zstd", "split and merge", "read what all wrote"]


class House:
    """Where a run happens: an emulator, a bucket behind the strict store, and a folder."""

    def __init__(self, emulator: Emulator, servers: Servers, home: Path) -> None:
        self.emulator, self._s3, self.home = emulator, servers.s3, home
        self.bucket = servers.s3.new_bucket()

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a run; its store's keys are Amazon's variables."""
        store = {
            f"PYICEBERG_CATALOG__LAKE__{name.replace('.', '__').replace('-', '_').upper()}": value
            for name, value in self._s3.oss_properties.items()
            if "key" not in name
        }
        return {**os.environ, **store, EMULATOR: str(self.emulator.port)}

    def command(self, *more: str) -> list[str]:
        """A run, as `make real` calls it."""
        given = ["--endpoint", self.emulator.endpoint, "--credentials", "env", "--home", str(self.home)]
        return [sys.executable, "-m", "real", *given, "--warehouse", f"oss://{self.bucket}/lake", *more]

    def run(self, *more: str, said: str = "") -> tuple[int, str]:
        """(exit status, all it said) of a run to its end, with `said` typed."""
        done = subprocess.run(
            self.command(*more), cwd=ROOT, env=self.variables, input=said, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert FAKE_SECRET not in done.stdout and KEY_SECRET not in done.stdout
        return done.returncode, done.stdout

    @property
    def files(self) -> set[str]:
        """In the bucket."""
        return self._s3.files(self.bucket)

    @property
    def projects(self) -> list[str]:
        """On the service."""
        return [project["name"] for project in self.emulator.admin.state()["projects"]]

    def assert_empty(self) -> None:
        """Nothing of a run is left."""
        assert self.projects == [] and self.files == set()
        assert not self.home.exists() or list(self.home.iterdir()) == []


@pytest.fixture
def house(emulator: Emulator, servers: Servers, tmp_path: Path) -> House:
    return House(emulator, servers, tmp_path / "real")


@contextmanager
def started(command: list[str], variables: Mapping[str, str]) -> "Iterator[subprocess.Popen[str]]":
    """A run beside the block; killed where it does not end with it."""
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def table(said: str) -> dict[str, str]:
    """The word of each row."""
    return dict(re.findall(r"^(\S.*?) {2,}(ok|FAILED|not tried|fine|note|wrong)\b", said, re.MULTILINE))


def test_a_run_proves_each_act_and_leaves_nothing(house: House) -> None:
    code, said = house.run("--yes", "--ending", "import:tests.worlds.ending_keys:find")
    rows = table(said)
    assert code == 0, said
    assert [rows.get(row) for row in (*ACTS, *ENDED)] == ["ok"] * 9, said
    assert [rows.get(f"client: {row}") for row in CLIENT] == ["ok"] * 4, said
    assert "3,000 rows, each once" in said and "ShardWriteQuotaExceed (HTTP 403)" in said
    assert "ShardReadQuotaExceed (HTTP 403)" in said and "FAILED" not in said
    house.assert_empty()


def test_ctrl_c_in_the_middle_of_an_act_takes_all_of_it_away(house: House) -> None:
    with started(house.command("--yes"), house.variables) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("trying: doctor"):
                break
        while not house.files:
            assert process.poll() is None
        assert len(house.projects) == 1
        process.send_signal(signal.SIGINT)
        said = process.stdout.read()
        assert process.wait() == 130, said
    assert said.count("removed: ") == 3 and "interrupted" in said
    house.assert_empty()


def test_what_cannot_be_removed_is_named_with_the_command_that_removes_it(house: House) -> None:
    admin = house.emulator.admin
    admin.fault("error", call="create_logstore", status=400, code="LogStoreInfoInvalid", times=1)
    admin.fault("error", call="delete_project", status=403, code="ProjectForbidden", times=1)
    code, said = house.run("--yes")
    assert code == 1 and "LogStoreInfoInvalid" in said
    (project,) = house.projects
    assert re.search(rf"^STAYS: project {project}: ProjectForbidden", said, re.MULTILINE), said
    assert f"make real REMOVE={project} ENDPOINT={house.emulator.endpoint} CREDENTIALS=env" in said
    assert house.run("--remove", project)[0] == 0
    house.assert_empty()


def test_nothing_is_made_before_a_yes_and_nothing_of_another_name_removed(house: House) -> None:
    code, said = house.run(said="no\n")
    assert code == 1 and "It makes, at" in said and "Ctrl-C" in said and "nothing was made" in said
    house.assert_empty()
    code, said = house.run("--remove", "production")
    assert code == 1 and "no project of `make real`" in said and "Traceback" not in said
