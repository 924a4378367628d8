"""Spark as a resource that starts nothing until a step asks for the engine.

One per run: the executor is in-process, so the session is built once and shared. Loading the
definitions, a tick of the schedule, and a run that only publishes checkpoints start no JVM.
"""

import os

import dagster as dg
from pydantic import PrivateAttr

from pipelines.landing.spark.remote import REMOTE_VARIABLE
from pipelines.landing.spark.session import Engine, engine_here

RESOURCE_KEY = "spark"


class SparkEngine(dg.ConfigurableResource["SparkEngine"]):
    """Where the landing's tasks run.

    `remote` is the address of a Spark Connect server, "sc://HOST:PORT"; empty means a local
    session on `master`. Empty fields fall back to SLS_SPARK_REMOTE and SLS_SPARK_MASTER, then to
    two local cores. `conf` goes to the session as it is.
    """

    remote: str = ""
    master: str = ""
    conf: dict[str, str] = {}
    _engine: Engine | None = PrivateAttr(default=None)

    def address(self) -> str:
        """The Spark Connect server to use, or "" for a local session."""
        return self.remote or os.environ.get(REMOTE_VARIABLE, "")

    def engine(self) -> Engine:
        """The engine of this run; its session is built when first used."""
        if self._engine is None:
            self._engine = engine_here(remote=self.remote, master=self.master, conf=self.conf)
        return self._engine

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End a session that was started; the run's process may go on, its JVM should not."""
        if self._engine is not None:
            self._engine.stop()
            self._engine = None


SPARK = SparkEngine()
"""One object for all components: Dagster merges a resource only with itself."""
