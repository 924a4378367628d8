"""Trials of Spark: tasks on each of its executors reach the service and the storage with their own keys.

A driver that is well says nothing of its executors: they have their own Python, packages, environment, keys
and network. So the same two questions are asked there, by a task that is carried as a landing's are.

A task gives its line whatever it meets: a task that raises fails its job, and the other executors would not
be heard. What is wrong is in the line, with the name of its machine, and is said once where several tasks
there met the same. Keys do not travel: a task gets settings and resolves them where it is, as a landing's
task does, so a machine without a role is found here and not at three in the morning.
"""

import json
import os
import platform
import socket
from collections.abc import Iterable, Iterator, Mapping

from pyiceberg.table import Table

from pipelines.landing.doctor.trial import Came, Grade, Question
from pipelines.landing.spark.probe import workers_problem
from pipelines.landing.spark.session import Engine, Task
from pipelines.landing.table.trouble import storage_trouble
from pipelines.landing.task_storage import public_properties, task_io
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, SlsError, amount
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient

_TAG = "sls-lake-doctor"
_NEEDED = "pipelines.landing.run.spark_task"
_TASKS, _TASKS_ELSEWHERE = 4, 16
"""So many at the least, and where there may be executors of which nobody knows yet."""
_ROUNDS_MAX = 5
_WITHIN_S = 120.0
"""Spark waits for an executor as long as it takes, and so would a person who asks why nothing lands."""


def of_engine(
    engine: Engine, service: Service | None, table: Table | None, *, within_s: float = _WITHIN_S
) -> Question:
    """Starts the engine. The shards of `service` are listed there, and a file is written in the folder of
    `table`; neither where it is None. Tasks that have not ended `within_s` seconds are given up."""
    does = ["list the shards"] * (service is not None) + ["put and delete a file"] * (table is not None)
    sent = f"tasks at {engine.place}: {', '.join(does) or 'say where they are'}"
    return Question("spark", sent, lambda: _tasks(engine, service, table, within_s))


def _tasks(engine: Engine, service: Service | None, table: Table | None, within_s: float) -> Came | str:
    place = (public_properties(table.io.properties), table.location()) if table is not None else None
    try:
        answers = _of_each_executor(engine, _look(service, place), within_s)
    except SlsError:
        raise
    except TimeoutError:
        late = f"after {within_s:g} s not every task had ended: no executor is free, or one hangs"
        free = (
            "see at Spark's own page that a worker is alive and has a free core; end an executor that hangs"
        )
        return Came(late, Grade.WRONG, (Do(free),))
    except Exception as error:
        problem = workers_problem(engine, str(error), _NEEDED)
        raise ConfigError(problem or f"Spark ran no task ({type(error).__name__})") from error
    places = sorted({f"{one['host']} (Python {one['python']})" for one in answers})
    if wrong := sorted({f"{one['host']}: {one['error']}" for one in answers if one["error"]}):
        change = Do("set there what the driver has: keys, proxies and names are each machine's own")
        return Came("; ".join(wrong), Grade.WRONG, (change,))
    asked, known = len(_executors(answers)), engine.executors
    if asked < known:
        busy = f"{asked} of {known} executors answered, on {', '.join(places)}; the others were busy"
        return Came(busy, Grade.NOTE, (Do("ask again when no run works there"),))
    workers = len({(one["host"], one["process"]) for one in answers})
    return f"{amount(workers, 'worker')} of {amount(asked, 'executor')} on {', '.join(places)} did it"


def _of_each_executor(engine: Engine, task: Task, within_s: float) -> list[dict[str, str]]:
    """What tasks answer, until one of each executor has: those that come while others are asked, too.

    Spark gives each of its executors a task before it gives one a second, as far as they have room. So as
    many tasks as executors are enough, once all of these have come; and a first task takes seconds, which
    is longer than the others take to come.

    Worked example: Spark knows one executor at first, and 16 tasks go there, since there may be others.
    Meanwhile nine more have come. One of ten has answered, so 20 tasks are asked for, and then all ten have.
    After `_ROUNDS_MAX` rounds whoever has not answered is busy, and the trial says how many of them.
    """
    answers: list[dict[str, str]] = []
    fewest = _TASKS_ELSEWHERE if engine.elsewhere else _TASKS
    for _ in range(_ROUNDS_MAX):
        count = max(fewest, 2 * engine.executors)
        answers += [json.loads(line) for line in engine.run(count, task, tag=_TAG, within_s=within_s)]
        if len(_executors(answers)) >= engine.executors:
            break
    return answers


def _executors(answers: Iterable[Mapping[str, str]]) -> set[tuple[str, str]]:
    """Each executor forks its workers from a daemon of its own."""
    return {(one["host"], one["daemon"]) for one in answers}


def _look(service: Service | None, place: tuple[dict[str, str], str] | None) -> Task:
    """A task whose line says where it ran, and what was wrong there; "" for nothing."""

    def look(numbers: Iterable[int]) -> Iterator[str]:
        for number in numbers:
            ran = {
                "host": socket.gethostname(),
                "process": str(os.getpid()),
                "daemon": str(os.getppid()),
                "python": platform.python_version(),
            }
            yield json.dumps({**ran, "error": _wrong(service, place, number)})

    return look


def _wrong(service: Service | None, place: tuple[dict[str, str], str] | None, number: int) -> str:
    try:
        if service is not None:
            with SlsClient(service) as client:
                client.shards()
    except SlsError as error:
        return str(error)
    if place is None:
        return ""
    properties, location = place
    path = f"{location}/data/sls_lake_doctor_{number}"
    try:
        io = task_io(properties, location)
        with io.new_output(path).create() as out:
            out.write(b"written by a task")
        io.delete(path)
    except Exception as error:  # a store's own error may hold an address with a key
        return str(storage_trouble(location, error))
    return ""
