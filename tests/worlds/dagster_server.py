"""A real Dagster: code server, web server and daemon as processes of their own, spoken to over GraphQL.

An asset's key is written as a path, `bronze/access_logs`.

Nothing here sleeps: whoever waits asks again when one of the processes said something, at least once a
second, until a deadline of the monotonic clock.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any, Self, TypeVar

from chaos.site import free_port
from pipelines.dagster_client import URL_VARIABLE
from sls_io.values.clock import SYSTEM_CLOCK
from tests.worlds.listener import Listener

LOCATION = "sls_lake"
REPOSITORY = "__repository__"
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
_SETTINGS = Path(__file__).parents[2] / "docs" / "deploy" / "dagster.yaml"
_POLLS = "poll_interval_seconds: 20"
_STOP_S = 30.0
_LAST_WORDS = 16_000
PATIENCE_S = 600.0
"""For what must come to pass, and does so in a few seconds on a free machine."""
T = TypeVar("T")


class DagsterServer:
    """Serves the definitions in `module`, a Python file, out of the home `home`."""

    def __init__(self, home: Path, module: Path, environment: Mapping[str, str]) -> None:
        home.mkdir(parents=True)
        settings = _SETTINGS.read_text()
        assert _POLLS in settings
        (home / "dagster.yaml").write_text(settings.replace(_POLLS, "poll_interval_seconds: 1"))
        workspace = home / "workspace.yaml"
        self.port, self._code_port = free_port(), free_port()
        workspace.write_text(
            f"load_from:\n  - grpc_server:\n      host: 127.0.0.1\n      port: {self._code_port}\n"
            f"      location_name: {LOCATION}\n"
        )
        self._module = module
        own = {"DAGSTER_HOME": str(home), URL_VARIABLE: self.url}
        self._environment = {**os.environ, **own, **environment}
        self._workspace = workspace
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """Of the page."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        # Storage is made by one process: several at once trip over each other's migrations.
        subprocess.run(
            [sys.executable, "-m", "dagster", "instance", "concurrency", "set", "dbt", "1"],
            env=self._environment,
            check=True,
            capture_output=True,
        )
        self._read, self._write = os.pipe()
        self._listener = Listener(self._read)
        try:
            self.start()
        except BaseException:
            self._stop()
            raise
        return self

    def start(self) -> None:
        """Code server, web server and daemon, until the definitions are loaded."""
        code = ("code-server", "start", "-f", str(self._module), "-h", "127.0.0.1")
        self._start("dagster", *code, "-p", str(self._code_port), "--location-name", LOCATION)
        self.wait("the code server", self._answers)
        self._start("dagster_webserver", "-h", "127.0.0.1", "-p", str(self.port), "-w", str(self._workspace))
        # A tick that finds no page fails, and the next one may be minutes away.
        self.wait("the code location to load", self._loaded)
        self._start(*self._daemon())

    def _daemon(self) -> tuple[str, ...]:
        return ("tests.integration.quick_daemon", "run", "-w", str(self._workspace))

    def restart_daemon(self) -> None:
        """End the daemon as a service manager does, and start another one."""
        daemon = self._processes.pop()
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(PATIENCE_S)
        self._start(*self._daemon())

    def crash(self) -> None:
        """What a power cut leaves: every process is gone, the runs and their Java, too."""
        for number in _descendants([process.pid for process in self._processes]):
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def reload(self) -> None:
        """Load the code again, as the button of the page does."""
        answer = self._reload()
        assert answer["__typename"] == "WorkspaceLocationEntry", answer
        self.wait("the code to load again", self._loaded)

    def _reload(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask(
            """mutation($l: String!) {
               reloadRepositoryLocation(repositoryLocationName: $l) { __typename } }""",
            l=LOCATION,
        )["reloadRepositoryLocation"]
        return answer

    def _start(self, *arguments: str) -> None:
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=Path(__file__).parents[2],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._write,
                stderr=self._write,
                start_new_session=True,
            )
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                # A code server waits for its runs, and a run that a failed test holds for nobody.
                for number in _descendants([process.pid]):
                    with suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
                process.wait()
        self._listener.close()
        os.close(self._read)
        os.close(self._write)

    def wait(self, what: str, ask: Callable[[], T | None]) -> T:
        """The first answer of `ask` that is not None or False."""
        answer = self._listener.wait(ask, PATIENCE_S)
        assert answer, f"waited {PATIENCE_S} s for {what}; last words:\n{self._last_words()}"
        return answer

    def _last_words(self) -> str:
        return self._listener.said[-_LAST_WORDS:]

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The `data` of a GraphQL answer."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
        assert not document.get("errors"), document["errors"]
        return dict(document["data"])

    def _answers(self) -> bool:
        """Whether the code server has loaded the definitions: it listens from then on."""
        assert self._processes[-1].poll() is None, self._last_words()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._code_port)) == 0

    def _loaded(self) -> bool:
        query = """{ workspaceOrError { ... on Workspace { locationEntries { loadStatus
            locationOrLoadError { __typename ... on PythonError { className message } } } } } }"""
        try:
            entries = self.ask(query)["workspaceOrError"]["locationEntries"]
        except (urllib.error.URLError, OSError):
            return False
        if not entries or entries[0]["loadStatus"] != "LOADED":
            return False
        error = entries[0]["locationOrLoadError"]
        if error.get("className") == "DagsterUserCodeUnreachableError":
            # A code server that listens answers later than the page waits, on a busy machine.
            self._reload()
            return False
        assert error["__typename"] != "PythonError", entries
        return True

    # --- runs ------------------------------------------------------------------------------------

    def launch(self, job: str, tags: Mapping[str, str], assets: Sequence[PurePath] = ()) -> str:
        """Launch a job, or some of its assets; the run's id."""
        selector: dict[str, Any] = {
            "repositoryName": REPOSITORY,
            "repositoryLocationName": LOCATION,
            "jobName": job,
        }
        if assets:
            selector["assetSelection"] = [{"path": path.parts} for path in assets]
        answer = self.ask(
            """mutation($p: ExecutionParams!) { launchRun(executionParams: $p) { __typename
               ... on LaunchRunSuccess { run { runId } } ... on Error { message } } }""",
            p={
                "selector": selector,
                "runConfigData": {},
                "executionMetadata": {"tags": [{"key": k, "value": v} for k, v in tags.items()]},
            },
        )["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def runs(self, tags: Mapping[str, str]) -> list[dict[str, Any]]:
        """Runs with these tags, newest first."""
        found = self.ask(
            """query($f: RunsFilter!) { runsOrError(filter: $f) { ... on Runs { results {
               runId status tags { key value } } } } }""",
            f={"tags": [{"key": k, "value": v} for k, v in tags.items()]},
        )
        return list(found["runsOrError"]["results"])

    def _status(self, run_id: str) -> str:
        query = "query($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
        return str(self.ask(query, id=run_id)["runOrError"]["status"])

    def begun(self, run_id: str) -> None:
        """Wait until the queue has let the run go."""
        self.wait(f"run {run_id} to begin", lambda: self._status(run_id) != "QUEUED")

    def ended(self, run_id: str) -> str:
        """The status the run ended with."""

        def status() -> str | None:
            now = self._status(run_id)
            return now if now in ENDED else None

        return self.wait(f"run {run_id}", status)

    def monitored(self, run_id: str) -> None:
        """Wait until the daemon has looked twice from now on whether the run's process lives."""
        words = f"Checking run {run_id}"
        looks = self._listener.said.count(words) + 2
        self.wait(f"the monitor of {run_id}", lambda: self._listener.said.count(words) >= looks)

    def terminate(self, run_id: str) -> None:
        """Cancel a run, as the button of the page does."""
        answer = self.ask(
            """mutation($id: String!) { terminateRun(runId: $id) { __typename } }""", id=run_id
        )["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def process_of(self, run_id: str) -> int:
        """The process of a run that has started its step."""
        query = """query($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
            ... on EngineEvent { metadataEntries { label ... on TextMetadataEntry { text } } } } } } }"""
        events = self.ask(query, id=run_id)["logsForRun"]["events"]
        entries = [entry for event in events for entry in event.get("metadataEntries", ())]
        return int(next(entry["text"] for entry in entries if entry["label"] == "pid"))

    def failures(self, run_id: str) -> str:
        """The texts of the run's step failures."""
        query = """query($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
            __typename ... on ExecutionStepFailureEvent { message error { message }
            failureMetadata { description } } } } } }"""
        events = self.ask(query, id=run_id)["logsForRun"]["events"]
        return json.dumps([e for e in events if e["__typename"] == "ExecutionStepFailureEvent"])

    # --- schedules -------------------------------------------------------------------------------

    def tick(self, schedule: str) -> dict[str, Any]:
        """What a tick now would do, as the page's test of a schedule shows it."""
        answer = self.ask(
            """mutation($s: ScheduleSelector!, $t: Float) {
               scheduleDryRun(selectorData: $s, timestamp: $t) { __typename
               ... on DryRunInstigationTick { evaluationResult { skipReason error { message }
               runRequests { tags { key value } } } } ... on Error { message } } }""",
            s=self._schedule(schedule),
            t=SYSTEM_CLOCK.now(),
        )["scheduleDryRun"]
        result = dict(answer["evaluationResult"])
        assert result["error"] is None, result["error"]
        return result

    def turn_on(self, schedule: str) -> str:
        """Start the schedule; what `turn_off` wants."""
        answer = self.ask(
            """mutation($s: ScheduleSelector!) { startSchedule(scheduleSelector: $s) { __typename
               ... on ScheduleStateResult { scheduleState { id status } } } }""",
            s=self._schedule(schedule),
        )["startSchedule"]
        assert answer["scheduleState"]["status"] == "RUNNING", answer
        return str(answer["scheduleState"]["id"])

    def turn_off(self, state: str) -> None:
        """Stop a schedule that `turn_on` started."""
        answer = self.ask(
            """mutation($id: String!) { stopRunningSchedule(id: $id) { __typename
               ... on ScheduleStateResult { scheduleState { status } } ... on Error { message } } }""",
            id=state,
        )["stopRunningSchedule"]
        assert answer.get("scheduleState", {}).get("status") == "STOPPED", answer

    def turn_on_sensor(self, sensor: str) -> None:
        """Start the sensor."""
        answer = self.ask(
            """mutation($s: SensorSelector!) { startSensor(sensorSelector: $s) { __typename
               ... on Sensor { sensorState { status } } ... on Error { message } } }""",
            s={
                "repositoryName": REPOSITORY,
                "repositoryLocationName": LOCATION,
                "sensorName": sensor,
            },
        )["startSensor"]
        assert answer.get("sensorState", {}).get("status") == "RUNNING", answer

    @staticmethod
    def _schedule(name: str) -> dict[str, str]:
        return {"repositoryName": REPOSITORY, "repositoryLocationName": LOCATION, "scheduleName": name}

    # --- assets ----------------------------------------------------------------------------------

    def backfill(
        self,
        asset: PurePath,
        first: str,
        last: str,
        *,
        tags: Mapping[str, str] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Backfill the partitions first..last, as the page's dialogue does; the status it ended with."""
        answer = self.ask(
            """mutation($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) { __typename
               ... on LaunchBackfillSuccess { backfillId } ... on Error { message } } }""",
            p={
                "partitionsByAssets": [
                    {
                        "assetKey": {"path": asset.parts},
                        "partitions": {"ranges": [{"start": first, "end": last}]},
                    }
                ],
                "tags": [{"key": k, "value": v} for k, v in (tags or {}).items()],
                "runConfigData": config or {},
            },
        )["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer

        def status() -> str | None:
            query = """query($id: String!) { partitionBackfillOrError(backfillId: $id) {
                ... on PartitionBackfill { status } } }"""
            now = str(self.ask(query, id=answer["backfillId"])["partitionBackfillOrError"]["status"])
            return now if now.startswith(("COMPLETED", "FAILED", "CANCELED")) else None

        return self.wait(f"backfill {answer['backfillId']}", status)

    def materializations(self, asset: PurePath) -> list[dict[str, Any]]:
        """Materializations, newest first: partition, runId, and metadata label -> value."""
        query = """query($k: AssetKeyInput!) { assetOrError(assetKey: $k) { ... on Asset {
            assetMaterializations { partition runId metadataEntries { label
            ... on IntMetadataEntry { intValue } ... on FloatMetadataEntry { floatValue }
            ... on TextMetadataEntry { text } } tags { key value } } } } }"""
        events = self.ask(query, k={"path": asset.parts})["assetOrError"].get("assetMaterializations", [])
        return [{**e, "metadata": dict(map(_entry, e["metadataEntries"]))} for e in events]

    def check_passed(self, asset: PurePath, name: str) -> bool | None:
        """Whether the newest evaluation of a check passed; None when there is none."""
        query = """query($k: AssetKeyInput!, $n: String!) { assetCheckExecutions(assetKey: $k, checkName: $n,
            limit: 1) { status evaluation { success } } }"""
        found = self.ask(query, k={"path": asset.parts}, n=name)["assetCheckExecutions"]
        return bool(found[0]["evaluation"]["success"]) if found and found[0]["evaluation"] else None


def _entry(entry: Mapping[str, Any]) -> tuple[str, Any]:
    return entry["label"], next((entry[k] for k in ("intValue", "floatValue", "text") if k in entry), None)


def _descendants(processes: list[int]) -> list[int]:
    """These processes and all that they have started, and those in turn."""
    parents: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in brackets, may hold anything.
            parents.setdefault(int(place.read_text().rpartition(")")[2].split()[1]), []).append(
                int(place.parent.name)
            )
    found = list(processes)
    for number in found:
        found.extend(parents.get(number, []))
    return found
