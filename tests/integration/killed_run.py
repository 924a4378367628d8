"""A landing in a process of its own, which may kill itself at a named event: a tiny program.

    python -m tests.integration.killed_run '{"logstore": ..., "lake": ..., "home": ..., "die_at": "publish"}'

The event is one of `Run`'s: `write.done`, `publish.done`, `checkpoint.done` and the like; `nth` says
at which of them. `remote` is a Spark Connect server, `master` and `conf` those of another
Spark. Without `die_at` it lands, checks and publishes
the checkpoints. At `jvm_dies_at` only Spark's JVM is killed, with `jvm_dies_with_tasks` once its tasks
run: a service that holds its answers keeps them running. Exit status 2 and one sentence on stderr for an
error of ours.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.run.holder_name import of_run
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.home import HOME_VARIABLE
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import SlsError

_ROOT = Path(__file__).parents[2]
_PROGRAM_S = 600.0


def main(arguments: dict[str, Any]) -> int:
    """One run as `arguments` say; returns the exit status."""
    os.environ[HOME_VARIABLE] = arguments["home"]
    left = int(arguments.get("nth", 1))

    def kill_java() -> None:
        gateway = engine.context._gateway
        assert gateway is not None
        gateway.proc.kill()
        gateway.proc.wait()

    def at_the_first_task() -> None:
        status = engine.context.statusTracker()
        while not status.getActiveJobsIds():
            pass
        kill_java()

    def on_event(name: str) -> None:
        nonlocal left
        if name == arguments.get("jvm_dies_at"):
            kill_java()
        if name == "write" and arguments.get("jvm_dies_with_tasks"):
            threading.Thread(target=at_the_first_task, daemon=True).start()
        if name == arguments.get("die_at"):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    lake = Lake(arguments["lake"])
    where = {name: arguments[name] for name in ("remote", "master", "conf") if name in arguments}
    engine = Engine(lake=lake, **where)
    try:
        logstore = Logstore.model_validate(arguments["logstore"])
        with (
            of_run(logstore) as name,
            Run(logstore, engine, lake=lake, name=name, on_event=on_event) as run,
        ):
            run.land()
            run.reconcile()
            run.checkpoint()
    except SlsError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    finally:
        engine.stop()
    return 0


def arguments_of(logstore: Logstore, lake: Lake, home: Path, **more: Any) -> str:
    """The argument of this program, for whoever starts it."""
    return json.dumps(
        {
            "logstore": logstore.model_dump(mode="json"),
            "lake": dict(lake.properties),
            "home": str(home),
            **more,
        }
    )


def python(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """A program of Python's, in the project's folder and with these variables more; it has ended when this
    returns."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=_ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=_PROGRAM_S,
        check=False,
    )


def land_elsewhere(
    logstore: Logstore, lake: Lake, home: Path, variables: Mapping[str, str] | None = None, **more: Any
) -> "subprocess.CompletedProcess[str]":
    """A landing in another process, ended when this returns; `more` are its arguments."""
    return python(
        "-m", "tests.integration.killed_run", arguments_of(logstore, lake, home, **more), **(variables or {})
    )


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
