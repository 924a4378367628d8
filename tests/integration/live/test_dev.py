"""`sls-lake dev` as somebody runs it: a project with two logstores, a terminal beside, Ctrl-C at the end."""

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from chaos.site import free_port
from pipelines.cli.demo.dev import takes_access_logs
from pipelines.cli.demo.sandbox import Sandbox
from pipelines.landing.logstore import Logstore
from sls_io.emulator import Admin, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.errors import ConfigError
from sls_io.values.settings import Group, Service
from sls_io.wire.client import SlsClient
from tests.snippets import TERMINAL, snippet
from tests.worlds.listener import Listener
from tests.worlds.project_copy import DEFS, project

ROOT = Path(__file__).resolve().parents[3]
SHOP = DEFS.replace("clicks", "shop") + "  columns: {order_id: long, placed: timestamp(iso)}\n"
DEV = [sys.executable, "-c", "from pipelines.cli.main import main; main()", "dev"]
SAID_S = 600.0
TRIES = 20
LOCATION = "lakehouse"
"""Any name but that of a checkout: `sls-lake init DIR` calls the code location as the folder."""


class Dev:
    """A running `sls-lake dev` of the project `root`."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.root, self.port = root, free_port()
        command = [*DEV, "--port", str(self.port), "--ui-port", str(free_port()), "--rate", "20", *arguments]
        self.process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self._listener = Listener(self.process.stdout.fileno())

    def until(self, words: str) -> str:
        """All that was said, once `words` are in it."""
        came = self._listener.wait(lambda: words in self._listener.said, SAID_S)
        assert came, f"ended, or silent, before {words!r}: {self._listener.said}"
        return self._listener.said

    def end(self) -> str:
        """Ctrl-C, and wait until all of it has ended; all that was said."""
        self.process.send_signal(signal.SIGINT)
        said = self._listener.until_end()
        self.process.wait()
        return said


def renamed(root: Path) -> Path:
    """The project, its code location under another name."""
    workspace = root / "workspace.yaml"
    workspace.write_text(workspace.read_text().replace("sls_lake", LOCATION))
    return root


@contextmanager
def running(root: Path, *arguments: str) -> Iterator[Dev]:
    dev = Dev(root, *arguments)
    try:
        yield dev
    finally:
        if dev.process.poll() is None:
            dev.end()
        if dev.process.stdout is not None:
            dev.process.stdout.close()


def in_the_shell(root: Path, line: str) -> "subprocess.CompletedProcess[str]":
    """The line in a shell that knows nothing of the project's environment."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(root)}
    return subprocess.run(["sh", "-c", line], cwd=root, env=bare, capture_output=True, text=True, check=False)


def sensors_on(said: str) -> set[str]:
    """The sensors that are on, as the page that dev said has them."""
    (url,) = re.findall(r"^Dagster +(\S+)/assets", said, flags=re.MULTILINE)
    request = urllib.request.Request(
        f"{url}/graphql",
        data=json.dumps(
            {
                "query": '{ sensorsOrError(repositorySelector: {repositoryName: "__repository__", '
                f'repositoryLocationName: "{LOCATION}"}}, sensorStatus: RUNNING) '
                "{ ... on Sensors { results { name } } } }"
            }
        ).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=SAID_S) as answer:
        found = json.load(answer)["data"]["sensorsOrError"]["results"]
    return {str(sensor["name"]) for sensor in found}


def holders(admin: Admin) -> set[str]:
    """Who has shards of `clicks`, in any group."""
    (found,) = (x for x in admin.state()["logstores"] if x["logstore"] == "clicks")
    return {shard["holder"] for group in found["groups"] for shard in group["shards"]} - {""}


def rows_landed(root: Path, env: Path, logstore: str) -> int:
    """Rows of a landing from the command line that has some: one before it finds nothing where the schedule
    has landed all a moment ago, and is refused where Spark takes long to come up, with the advice to run it
    again."""
    said = []
    for _ in range(TRIES):
        landed = in_the_shell(root, f". {env}; sls-lake land --json -l {logstore}")
        said.append(landed.stderr)
        if not landed.returncode and (rows := int(json.loads(landed.stdout)["rows"])):
            return rows
    raise AssertionError("\n".join(said))


@pytest.mark.dagster
@pytest.mark.slow
def test_dev_runs_every_logstore_and_lives_through_what_a_newcomer_does_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = renamed(project(tmp_path))
    (root / "pipelines" / "defs" / "shop").mkdir()
    (root / "pipelines" / "defs" / "shop" / "defs.yaml").write_text(SHOP)
    env = root / "var" / "dev" / "env"
    with running(root) as dev:
        said = dev.until("Ctrl-C ends all of it.")
        assert "access_logs: schedule on" in said and "clicks: schedule on" in said
        assert "shop: schedule on (0 0 1 1 *), sensors on, no rows are sent" in said
        of_each = ("demand", "sealed", "health")
        assert {f"{x}_{what}_sensor" for x in ("access_logs", "clicks") for what in of_each} <= sensors_on(
            said
        )
        # The printed line, as it stands.
        (line,) = [x.partition(": ")[2] for x in said.splitlines() if x.startswith("In another terminal")]
        assert line.endswith("sls-lake describe -l access_logs")
        shown = in_the_shell(root, line)
        assert shown.returncode == 0, shown.stderr
        assert "demo/access_logs, group lake" in shown.stdout
        # Dagster's page is at a port of its own, and the verbs that ask it know where.
        (url,) = re.findall(r"^Dagster +(\S+)/assets", said, flags=re.MULTILINE)
        assert in_the_shell(root, f'. {env}; printf %s "$DAGSTER_WEBSERVER_URL"').stdout == url
        # A second one is refused, and changes nothing.
        before = env.read_bytes()
        with running(root, "--fresh") as second:
            second.process.wait()
            assert second.process.returncode == 2
            assert f"(process {dev.process.pid})" in second.until("in use by another")
        assert env.read_bytes() == before
        # Its emulator dies.
        admin = Admin(dev.port)
        assert {x["logstore"] for x in admin.state()["logstores"]} == {"access_logs", "clicks", "shop"}
        (ours,) = re.findall(r"^emulator .*process (\d+)", said, flags=re.MULTILINE)
        os.kill(int(ours), signal.SIGKILL)
        assert "exit status -9" in dev.until("started again")
        assert in_the_shell(root, f". {env}; sls-lake describe -l clicks").returncode == 0
        # Its Spark dies; who lands meanwhile lands over the next one.
        (spark,) = re.findall(r"^Spark .*process (\d+)", said, flags=re.MULTILINE)
        os.kill(int(spark), signal.SIGKILL)
        assert rows_landed(root, env, "clicks")
        orders = in_the_shell(root, f". {env}; sls-lake land --json -l shop")
        assert json.loads(orders.stdout)["rows"] == 0, "access logs are no orders"
        again = re.search(
            r"Spark server .* has ended, exit status -9: started again \(process (\d+)\)",
            dev.until("what a run could not land"),
        )
        assert again is not None
        # The page's own lines, in the project as it comes: with one logstore.
        for name in ("clicks", "shop"):
            shutil.rmtree(root / "pipelines" / "defs" / name)
        shown = in_the_shell(root, snippet(TERMINAL))
        assert shown.returncode == 0, shown.stderr
        assert "demo/access_logs, group lake" in shown.stdout
        # A run that has just ended still has its shards in the group's eyes.
        monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", FAKE_ID)
        monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", FAKE_SECRET)
        service = Service(endpoint=f"http://127.0.0.1:{dev.port}", project="demo", logstore="clicks")
        with SlsClient(service) as client:
            client.create_group(Group(name="held"))
            assert client.heartbeat("held", "sls-lake", [])
        assert "sls-lake" in holders(admin)
        assert "Traceback" not in dev.end()
        assert not Path(f"/proc/{again[1]}").exists()
    with start(root / "var" / "dev" / "emulator") as emulator:
        assert holders(emulator.admin) == set()


@pytest.mark.parametrize(
    ("columns", "takes"),
    [
        ({}, True),
        ({"status": "int", "latency_ms": "double"}, True),
        ({"status": "int", "tenant": "string"}, True),
        ({"order_id": "long", "amount": "decimal(9,2)", "placed": "timestamp(iso)"}, False),
        ({"order_id": "long", "amount": "decimal(9,2)", "status": "string"}, False),
    ],
)
def test_access_logs_go_where_most_columns_are_theirs(columns: dict[str, str], takes: bool) -> None:
    attributes = {**yaml.safe_load(DEFS)["attributes"], "columns": columns}
    attributes["service"]["endpoint"] = "http://127.0.0.1:9"
    assert takes_access_logs(Logstore.model_validate(attributes)) is takes


def test_a_place_has_one_owner_and_a_second_writes_nothing(tmp_path: Path) -> None:
    box = Sandbox(tmp_path / "dev")
    with box.owned():
        (box.home).mkdir()
        with pytest.raises(ConfigError, match=rf"in use .*process {os.getpid()}"), box.owned():
            pytest.fail("two owners")
        assert list(box.home.iterdir()) == []
    with box.owned():
        box.prepare(fresh=False)


def test_the_environment_has_the_program_also_where_names_need_quotes(tmp_path: Path) -> None:
    box = Sandbox(tmp_path / "it's here", 18080)
    (tmp_path / "env").write_text(box.exports())
    shown = in_the_shell(tmp_path, '. ./env; command -v sls-lake; echo "$SLS_LAKE_HOME"')
    assert shown.stdout.splitlines() == [str(Path(sys.executable).parent / "sls-lake"), str(box.home)]


_STARTS = """
import os, signal, sys
from pathlib import Path
from pipelines.cli.demo import sandbox

with sandbox.started(["sleep", "600"], Path(sys.argv[1]), gently=sys.argv[2] == "gently") as child:
    print(child.pid, flush=True)
    sys.stdin.read(1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["gently", "at once"])
def test_what_dev_started_ends_with_it_also_when_it_is_killed(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", _STARTS, str(tmp_path / "log"), how]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.stdin.write("x")
        parent.stdin.close()
        assert parent.wait() == -signal.SIGKILL
    with selectors.DefaultSelector() as selector:
        # It becomes readable when the process ends.
        selector.register(child, selectors.EVENT_READ)
        assert selector.select(SAID_S)
    os.close(child)
