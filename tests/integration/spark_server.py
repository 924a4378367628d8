"""Spark Connect servers as processes of a test's own, on loopback."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipelines.cli.demo.spark_server import free_address
from pipelines.landing.spark.remote import place_of, require_answer

ROOT = Path(__file__).parents[2]
_START_S = 600.0


@contextmanager
def serving(
    command: Sequence[str], address: str, folder: Path, variables: Mapping[str, str]
) -> Iterator[None]:
    """`command` is a server at `address`, and has answered; `folder` gets its log."""
    with (folder / "spark-server.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        require_answer(address, wait_s=_START_S)
        yield
    finally:
        # Not SIGTERM: its own shutdown has taken more than a minute, and nothing of it is needed.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


@contextmanager
def deployed(folder: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """The address of a deployment's server, with the environment of its runs; they share one session."""
    address = free_address()
    command = [sys.executable, "-m", "pipelines.landing.spark.connect_server"]
    with serving([*command, "--port", str(place_of(address)[1])], address, folder, variables):
        yield address
