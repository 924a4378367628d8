"""The Spark Connect server of `sls-lake dev`, so that runs find a Spark that is warm.

It is a deployment's own (`connect_server.py`), on loopback only. It keeps nothing that could be lost: a run
that meets its death says so, and the next one plans again from the table.
"""

import socket
from contextlib import ExitStack
from types import TracebackType
from typing import Self
from uuid import uuid4

from pipelines.cli.demo import sandbox
from pipelines.cli.output import Output, moment
from pipelines.landing.spark import connect_server
from pipelines.landing.spark.java import require_java
from pipelines.landing.spark.remote import answers, place_of
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError

_START_DEADLINE_S = 120.0
_DEATHS_MAX = 5
"""So often it is started again without having answered in between; then something else is wrong."""


def free_address() -> str:
    """An address on loopback where nobody listens now, with a session that all runs share. The port is let go
    again: another program may take it before the server does, and then the server says so and ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"sc://127.0.0.1:{probe.getsockname()[1]}/;session_id={uuid4()}"


class SparkServer:
    """The server at `box.spark_remote` as our own child: said and started again when it dies, killed with the
    block. Raises ConfigError when Java is missing."""

    def __init__(self, output: Output, box: sandbox.Sandbox) -> None:
        require_java()
        self._output, self._box, self._deaths = output, box, 0
        self._scratch, self._log = box.home / "spark-server", box.home / "spark-server.log"
        self._start()

    def _start(self) -> None:
        _, port = place_of(self._box.spark_remote)
        ours = connect_server.settings(Lake.default(), host="127.0.0.1", port=port, scratch=self._scratch)
        command = connect_server.command(self._scratch, ours)
        self._child = ExitStack()
        self._process = self._child.enter_context(
            sandbox.started(command, self._log, connect_server.python(), gently=False)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()

    @property
    def process_id(self) -> int:
        """Of the server that runs now."""
        return self._process.pid

    def wait(self) -> None:
        """Until it answers. Raises ConfigError when it does not come up."""
        deadline_s = SYSTEM_CLOCK.monotonic() + _START_DEADLINE_S
        while not answers(self._box.spark_remote):
            if self._process.poll() is not None or SYSTEM_CLOCK.monotonic() > deadline_s:
                raise ConfigError(
                    f"the Spark server did not start; {self._log} says why. `sls-lake dev` can do without "
                    "one: --no-spark-server"
                )
            SYSTEM_CLOCK.sleep(0.2)

    def see_to_it(self) -> None:
        """Start it again if it has ended. Raises ConfigError when it does not stay alive."""
        status = self._process.poll()
        if status is None:
            if self._deaths and answers(self._box.spark_remote):
                self._deaths = 0
            return
        self._deaths += 1
        how = f"the Spark server that dev started (process {self.process_id}) has ended, exit status {status}"
        self._child.close()
        if self._deaths > _DEATHS_MAX:
            raise ConfigError(f"{how}, {self._deaths} times in a row; see {self._log}, or --no-spark-server")
        self._start()
        again = f"started again (process {self.process_id}), what a run could not land the next one lands"
        self._output.say(f"{moment(SYSTEM_CLOCK.now())} {how}: {again}")
