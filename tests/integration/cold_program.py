"""One cold start in a process of its own: a landing's Spark, one job, and what Java and a worker look like.

    python -m tests.integration.cold_program '{"archives": FOLDER, "conf": {...}, "master": "local[2,3]"}'

The last line of output is a JSON object: `command` of Java, whether it `mapped` an archive, Spark's `jars`,
and of each worker its rows, whether it knew the writing task at its start, the `archives` that Python read on
its path, and the threads of its parent.
"""

import json
import os
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipelines.landing.spark.session import Engine

WRITE = "pipelines.landing.run.spark_task"


def look(numbers: Iterable[int]) -> Iterator[str]:
    """What a worker is, before it imports anything."""
    yield json.dumps(
        {
            "numbers": list(numbers),
            "knew": WRITE in sys.modules,
            "archives": [x for x in sys.path if x.endswith((".zip", ".jar")) and os.path.exists(x)],
            "threads_there": len(os.listdir(f"/proc/{os.getppid()}/task")),
        }
    )


def main(arguments: dict[str, Any]) -> None:
    """Start, run, say."""
    archives = arguments.pop("archives", "")
    engine = Engine(**arguments, archives=Path(archives) if archives else None)
    context = engine.context
    gateway = context._gateway
    assert gateway is not None
    java = gateway.proc.pid
    lines = engine.run(2, _by_value(), tag="cold")
    told = {
        "command": Path(f"/proc/{java}/cmdline").read_text().split("\0"),
        "mapped": ".jsa" in Path(f"/proc/{java}/maps").read_text().replace("/classes.jsa", ""),
        "jars": context.getConf().get("spark.jars", ""),
        "workers": [json.loads(line) for line in lines],
    }
    engine.stop(wait=True)
    sys.stdout.write("\n" + json.dumps(told) + "\n")


def _by_value() -> Any:
    """The task as a closure: by its name a worker would import this module, and what this one imports."""
    return types.FunctionType(look.__code__, {"json": json, "os": os, "sys": sys, "WRITE": WRITE})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
