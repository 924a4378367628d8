"""The launcher of runs that `dagster.yaml` names: Dagster's own, which also sees a run without a process.

A code server that lives says itself that a run of its has died. After a crash of the machine nobody does: the
run stays STARTED, and every tick waits for it until its `dagster/max_runtime` is over. Dagster's monitor asks
this one at each poll, so the claim is free soon after the daemon is back.

Webserver, daemon and runs load it with their instance: nothing of the landing is imported here.
"""

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster._serdes import deserialize_value

_ANSWER_S = 10


class WatchedRunLauncher(dg.DefaultRunLauncher):
    """A run is alive while the code server that started it has its process."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        """So the monitor asks."""
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """FAILED when the code server of the run is gone, or has no process for it. Whatever else goes wrong
        says nothing about the run: a server that is slow is no server that has died."""
        server = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]
        if server is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it has ended, or has no code server yet")
        request = CanCancelExecutionRequest(run_id=run.run_id)
        try:
            answer = deserialize_value(
                server.can_cancel_execution(request, timeout=_ANSWER_S), CanCancelExecutionResult
            )
        except DagsterUserCodeUnreachableError as error:
            code = getattr(error.__cause__, "code", None)
            if code is not None and code().name == "UNAVAILABLE":
                return CheckRunHealthResult(WorkerStatus.FAILED, "the code server that started it is gone")
            return CheckRunHealthResult(WorkerStatus.RUNNING, "its code server did not answer in time")
        if answer.can_cancel:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, "its code server has no process for it")
