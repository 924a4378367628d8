"""How work that takes a while is shown: a line on stderr says what it is and how far; Spark's own words go
to its log."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from pipelines.cli.output import Output, noise_into
from pipelines.cli.progress import Line
from pipelines.landing.contents.spread import Spread
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.home import home, made

_SPARK_LOG = "spark.log"


def quietly() -> AbstractContextManager[object]:
    """What a JVM and its Spark say in the block goes to spark.log in the state folder, or nowhere."""
    return noise_into(home() / _SPARK_LOG)


@contextmanager
def landing_line(output: Output, what: str, engine: Engine) -> Iterator[Line]:
    """The engine for the time of the block, and the line that says how far its landing is; what its JVM says
    goes to spark.log in the state folder."""
    with output.progress(what) as line, noise_into(made(home()) / _SPARK_LOG):
        try:
            with line.landing(engine), _spread(line, engine).kept():
                yield line
        finally:
            engine.stop()


@contextmanager
def working_line(output: Output, what: str, engine: Engine) -> Iterator[Line]:
    """As `landing_line`, for a verb that may need no Spark: so it makes no state folder, and the engine goes
    on to the verb's next work."""
    with (
        output.progress(what) as line,
        quietly(),
        line.landing(engine),
        _spread(line, engine).kept(),
    ):
        yield line


def _spread(line: Line, engine: Engine) -> Spread:
    """Work on files, which `line` says how far it is."""
    return Spread(
        engine, on_done=lambda done, total: line.counted(done, total, f"{done:,} of {total:,} parts")
    )
