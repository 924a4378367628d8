"""A Spark whose Java half ended by itself, as where its master was gone for a minute, or Java was killed."""

import os
import subprocess
import sys

import pytest

_PROGRAM = """
from pipelines.landing.spark.session import Engine

def task(numbers):
    yield from map(str, numbers)

engine = Engine(master="local[1]")
assert engine.run(2, task, tag="first") == ["0", "1"]
engine.context._jsc.sc().stop()
assert engine.run(3, task, tag="second") == ["0", "1", "2"], "one context"
session = engine.session
session.sparkContext._jsc.sc().stop()
assert engine.session.range(4).count() == 4
assert engine.run(1, task, tag="third") == ["0"]
java = session._sc._gateway.proc
java.kill()
java.wait()
engine.cancel("third")
assert engine.run(3, task, tag="fourth") == ["0", "1", "2"], "another Java"
java = engine.context._gateway.proc
java.kill()
java.wait()
assert engine.session.range(5).count() == 5
engine.stop(wait=True)
"""


def test_what_has_ended_in_java_is_started_anew() -> None:
    """A process that lands again and again, and a notebook, would else be told of the end for ever."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


_INTERRUPTED = """
import os, signal, threading
from contextlib import suppress
from pathlib import Path
from pipelines.landing.spark.session import Engine

def java():
    with suppress(OSError):  # a thread, or a process, that has ended meanwhile
        for task in Path("/proc/self/task").iterdir():
            for pid in (task / "children").read_text().split():
                program, *words = Path(f"/proc/{pid}/cmdline").read_bytes().split(bytes(1))
                if program.endswith(b"java") and b"pyspark-shell" in words:
                    return pid

def interrupt():
    while not (found := java()):
        pass
    print(found, flush=True)
    os.kill(os.getpid(), signal.SIGINT)

engine = Engine(master="local[1]")
threading.Thread(target=interrupt, daemon=True).start()
try:
    engine.ready()
except KeyboardInterrupt:
    engine.stop(wait=True)
"""


def test_a_java_that_was_just_starting_at_ctrl_c_ends_too() -> None:
    """Its output is a pipe of ours, so it is waited for as well."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (java,) = done.stdout.split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(java), 0)
