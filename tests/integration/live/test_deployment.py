"""A deployment as it is on Aliyun, on loopback: a role of the node and nothing else, keys that end every few
seconds, an endpoint of the inner network, OSS that refuses what OSS refuses, quotas, and the least policies.

The names are Aliyun's own. The service's and STS's are reached through the proxy that settings name, OSS
through the store's; nobody resolves them.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sls_io.emulator import Emulator
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.clock import SYSTEM_CLOCK
from tests import needs
from tests.backends.places import Servers
from tests.backends.strict import OSS_INSIDE
from tests.snippets import ROOT, blocks
from tests.worlds.command_line import separately
from tests.worlds.fake_aliyun import FakeAliyun, fake_aliyun
from tests.worlds.one_logstore import PROJECT
from tests.worlds.project_copy import project

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LASTS_S = 4.0
LOGSTORE = "access_logs"
ENDPOINT = "https://cn-hangzhou-intranet.log.aliyuncs.com"
SETTINGS = """type: pipelines.components.SlsLogstore
attributes:
  service: {service}
  group: lake
  table: bronze.access_logs
  start: 2026-01-01-00:00
  columns: {{status: int, latency_ms: double}}
  budget: {{settle_s: 0}}
"""


def least_policy() -> dict[str, Any]:
    """What docs/policies.md gives a deployment, and the two actions more that the doctor needs."""
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    policy: dict[str, Any] = json.loads(text.replace("PROJECT", PROJECT).replace("LOGSTORE", LOGSTORE))
    place = f"acs:log:*:*:project/{PROJECT}"
    policy["Statement"] += [
        {"Effect": "Allow", "Action": "log:GetProject", "Resource": place},
        {
            "Effect": "Allow",
            "Action": "log:DeleteConsumerGroup",
            "Resource": f"{place}/logstore/{LOGSTORE}/consumergroup/*",
        },
    ]
    return policy


class Deployment:
    """Its settings and environment, and the verbs as a person or a schedule starts them."""

    def __init__(self, aliyun: FakeAliyun, emulator: Emulator, servers: Servers, folder: Path) -> None:
        self.aliyun, self.emulator, self.folder = aliyun, emulator, folder
        self.bucket = servers.s3.new_bucket()
        self._s3, self._lock, self._policy = servers.s3, threading.Lock(), least_policy()
        aliyun.issued, aliyun.log_port = self._issued, emulator.port
        self.issued, self.lasts_s = 0, LASTS_S
        self.defs = self._settings(
            "defs.yaml", {"endpoint": ENDPOINT, "proxy": f"http://127.0.0.1:{aliyun.port}"}
        )
        self._by_owner = self._settings("owner.yaml", {"endpoint": emulator.endpoint}, "env")

    def _settings(self, name: str, service: dict[str, str], provider: str = "default") -> Path:
        place = {"project": PROJECT, "logstore": LOGSTORE, "credentials": {"provider": provider}}
        path = self.folder / name
        path.write_text(SETTINGS.format(service=json.dumps({**service, **place})))
        return path

    def _issued(self, key_id: str, secret: str, token: str) -> None:
        """The service and the store know each key that the node's role gets, for as long as it lasts."""
        with self._lock:
            self.issued += 1
            lasts_s = self.lasts_s
            self.emulator.admin.add_key(key_id, secret, token=token, lasts_s=lasts_s, policy=self._policy)
            self._s3.add_key(key_id, SYSTEM_CLOCK.now() + lasts_s)

    @property
    def variables(self) -> dict[str, str]:
        """No key is among them."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "ALIBABA_", "PYICEBERG_"))}
        lake = {
            "WAREHOUSE": f"oss://{self.bucket}/lake",
            "S3__ENDPOINT": f"http://{OSS_INSIDE}",
            "S3__PROXY_URI": self._s3.proxy,
            "CLIENT__CREDENTIALS_PROVIDER": "default",
        }
        return {
            **kept,
            **{f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in lake.items()},
            **self.aliyun.variables,
            "SSL_CERT_FILE": str(self.aliyun.authority),
            "HOME": str(self.folder),
            "SLS_LAKE_HOME": str(self.folder / "state"),
            "SLS_LAKE_JARS": str(needs.s3_jars(self.folder)),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def verb(self, *words: str, fails: bool = False) -> dict[str, Any]:
        """The document of a verb, which must do what it says, or may fail."""
        program = "from pipelines.cli.main import main; main()"
        named = [] if words[0] == "dbt" else ["-l", str(self.defs)]
        json_ = ["--json"] if words[0] != "dbt" else []
        done = subprocess.run(
            [sys.executable, "-c", program, *words, *named, *json_],
            env=self.variables, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or fails, f"{words}: {done.stdout[-3000:]} {done.stderr[-3000:]}"
        assert "canary" not in done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout) if json_ else {"text": done.stdout}
        return document

    @property
    def lasts_s(self) -> float:
        """How long keys last, seconds."""
        return self.aliyun.lives_s

    @lasts_s.setter
    def lasts_s(self, value: float) -> None:
        self.aliyun.lives_s = value

    def put(self, rows: int) -> None:
        """Logs, by somebody else's key. Their second is over: with nothing to settle a run takes them all."""
        separately("load", "--rows", str(rows), "-l", str(self._by_owner))
        self.emulator.admin.advance(1)


@pytest.fixture
def deployment(emulator: Emulator, servers: Servers, tmp_path: Path) -> Iterator[Deployment]:
    folder = tmp_path / "deployment"
    folder.mkdir()
    with fake_aliyun(folder) as aliyun:
        made = Deployment(aliyun, emulator, servers, folder)
        emulator.admin.add_key(FAKE_ID, FAKE_SECRET)
        separately("load", "--rows", "1", "--create", "-l", str(made._by_owner))
        yield made


def test_a_deployment_with_a_nodes_role_lands_maintains_verifies_and_feeds_dbt(
    deployment: Deployment,
) -> None:
    verb = deployment.verb
    said = {trial["name"]: trial for trial in verb("doctor", fails=True)["trials"]}
    # The emulator's own region is another one.
    assert [name for name, trial in said.items() if trial["grade"] != "fine"] == ["project"], said
    assert "from ECS role" in said["keys"]["came"] and "assumed-role/node-role" in said["identity"]["came"]
    deployment.put(2_000)
    assert verb("land")["rows"] == 2_001
    deployment.put(500)
    assert verb("land")["rows"] == 500
    verb("table", "maintain", "--execute")
    assert verb("verify", "--pull")["ok"]
    # Java starts a program for each key, which takes a while on a machine that has other things to do.
    deployment.lasts_s = 30.0
    models = ("stg_access_logs", "access_logs_by_minute")
    verb("dbt", "build", "--select", *models, "--exclude", "days_sum_like_minutes")
    assert deployment.issued > 20, "keys ended all the time"


def test_a_newcomer_gets_to_a_proven_table_with_the_commands_of_the_page(
    deployment: Deployment, tmp_path: Path
) -> None:
    """Word by word. Beside the names of its own there is the proxy, which stands for Aliyun's network."""
    deployment.put(300)
    deployment.emulator.admin.advance(30)
    page = (ROOT / "docs" / "real-service.md").read_text(encoding="utf-8")
    first, *commands = blocks(page, "sh")
    assert first.startswith("make setup S3=1\n"), "what the tests have made already"
    variables = deployment.variables
    script = "\n".join(commands)
    script = script.replace("oss://BUCKET", f"oss://{deployment.bucket}").replace("LOGSTORE", LOGSTORE)
    script = script.replace("https://oss-REGION-internal.aliyuncs.com", f"http://{OSS_INSIDE}")
    script = script.replace("REGION", "cn-hangzhou").replace("project: PROJECT", f"project: {PROJECT}")
    script = script.replace("    credentials:", f"    proxy: {variables['HTTP_PROXY']}\n    credentials:")
    kept = {n: v for n, v in variables.items() if "WAREHOUSE" not in n and not n.endswith("__ENDPOINT")}
    root = project(tmp_path / "project")
    # The emulator's own region is not the one of the endpoint's name, and the doctor says so.
    script = script.replace("sls-lake doctor -l orders", "sls-lake doctor -l orders || true")
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env={
            **kept,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{root}:{variables['PYTHONPATH']}",
        },
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    assert "301 rows into bronze.orders" in done.stdout and "verified: 301 rows" in done.stdout, done.stdout
    assert "AssumedRoleUser acs:ram::1234:assumed-role/node-role/s of account 1234" in done.stdout
    assert "canary" not in done.stdout
