"""The launcher of runs that `dagster.yaml` names: Dagster's own, which also sees a run without a process.

A code server that lives says itself that a run of its has died. After a crash of the machine nobody does: the
run stays STARTED, and every tick waits for it until its `dagster/max_runtime` is over. Dagster's monitor asks
this one at each poll, so the claim is free soon after the daemon is back.

A code server that loads its code again hands over to a new process, and the old one stays for the runs that
it began. `dagster dev` and `dagster code-server start` ask the new one about them all, which has none of
those; where it has died they answer with an error. So where the server stands on this machine, reached over
loopback or a socket, the run's process itself is looked for. Elsewhere the answer has to do.

Webserver, daemon and runs load it with their instance: nothing of the landing is imported here.
"""

import dagster as dg
import psutil
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster._serdes import deserialize_value

_ANSWER_S = 10
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_NOBODY, _NOBODY_BEHIND = "UNAVAILABLE", "UNKNOWN"
"""What gRPC says where nobody listens, and where who listens has lost the process that it would ask. A late
answer is neither."""
_SPAWNED = "multiprocessing"
"""In the command line of each process that a code server made for a run. A pod or a container whose loopback
reaches a code server in another has numbers of its own, and other programs under them."""
_PID = "pid"
"""What Dagster calls the process in the event by which a run tells that it has begun."""


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """A run is alive while the code server that started it has its process, or the process is seen here.

        the server says                       here                       elsewhere
        it has the process                    alive                      alive
        it has no process                     alive if one is seen       dead
        UNAVAILABLE: nobody listens           alive if one is seen       dead
        UNKNOWN: a process behind it is gone  alive if one is seen       alive
        late, or any other error              alive                      alive

    Wrongly alive costs waiting until `dagster/max_runtime`. Wrongly dead lets a second live run begin beside
    one that lands: it costs work and no row, since the fence is in the commit.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        """So the monitor asks."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """FAILED when the code server of the run is gone, or has no process for it, and none is seen on this
        machine. Whatever else goes wrong says nothing about the run: a server that is slow is no server that
        has died."""
        server = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if server is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it has ended, or has no code server yet")
        here = _is_here(server)
        request = CanCancelExecutionRequest(run_id=run.run_id)
        try:
            answer = deserialize_value(
                server.can_cancel_execution(request, timeout=_ANSWER_S), CanCancelExecutionResult
            )
        except DagsterUserCodeUnreachableError as error:
            code = getattr(error.__cause__, "code", None)
            said = code().name if code else ""
            if said != _NOBODY and not (here and said == _NOBODY_BEHIND):
                return CheckRunHealthResult(WorkerStatus.RUNNING, "its code server did not answer in time")
            why = "the code server that started it is gone"
        else:
            if answer.can_cancel:
                return CheckRunHealthResult(WorkerStatus.RUNNING)
            why = "its code server has no process for it"
        if here and self._is_seen(run.run_id):
            return CheckRunHealthResult(WorkerStatus.RUNNING, f"{why}, and its process lives")
        return CheckRunHealthResult(WorkerStatus.FAILED, why)

    def _is_seen(self, run_id: str) -> bool:
        """Whether the process that told of its begin lives. One that was made later has its number only."""
        begun = self._instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
        for record in begun:
            event = record.event_log_entry.dagster_event
            said = event.engine_event_data.metadata.get(_PID) if event else None
            if said is None:
                continue
            try:
                process = psutil.Process(int(str(said.value)))
                of_run = any(_SPAWNED in word for word in process.cmdline())
                ended = process.status() == psutil.STATUS_ZOMBIE
                before = process.create_time() <= record.event_log_entry.timestamp
                return of_run and before and not ended
            except psutil.Error:
                return False
        return False


def _is_here(server: DagsterGrpcClient) -> bool:
    """Whether the server stands on this machine."""
    return bool(server.socket) or server.host in _HERE
