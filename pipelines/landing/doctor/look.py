"""All trials of a logstore, in the order in which a landing meets what they are about."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import cache

from pipelines.landing.doctor.engine import of_engine
from pipelines.landing.doctor.service import of_service
from pipelines.landing.doctor.trial import Grade, Question, Trial, made
from pipelines.landing.doctor.warehouse import Scratch
from pipelines.landing.logstore import Logstore
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.wire.client import SlsClient

DEADLINE_S = 15.0
"""What a call of the service may take here, tries included: a person waits."""


def look(logstore: Logstore, lake: Lake, engine: Engine, clock: Clock = SYSTEM_CLOCK) -> Iterator[Trial]:
    """The trials, as they end. What they made is taken away, also where nobody waits for the rest.

    The service is asked before the catalog, and Spark's workers last: each group costs more than the one
    before, and a person who sees a wrong key may end it there. Workers list shards only where the driver
    could. The table of the trials is dropped behind the workers' file, which lies in its folder.
    """
    listed = False
    with ExitStack() as stack:
        # Built where the first trial that needs it runs: it resolves the keys, which is a trial itself.
        client = cache(
            lambda: stack.enter_context(SlsClient(logstore.service, deadline_s=DEADLINE_S, clock=clock))
        )
        for trial in made(of_service(logstore, client, clock)):
            listed |= trial.name == "shards" and trial.grade is Grade.FINE
            yield trial
    scratch = Scratch(logstore, lake, clock)
    try:
        yield from made(scratch.questions())
        # What the driver cannot do either is said above, and no executor's trouble.
        service = logstore.service if listed else None
        yield from made([of_engine(engine, service, scratch.table)])
    except BaseException:
        with suppress(Exception):  # what interrupts goes on
            scratch.dropped()
        raise
    yield from made([Question("away", "the new table, dropped with its files", scratch.dropped)])
