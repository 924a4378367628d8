"""Spark, started when it is first needed: local by default, or Spark Connect.

There are two kinds of a local Spark. A landing needs no SQL and no Iceberg jar: its tasks write Parquet
themselves and the commit needs no JVM. So it runs as plain Spark jobs on a bare context, which is there in
a fraction of the time. Who asks for SQL gets a session with jars and catalog; a bare context of the same
engine ends then, since Java takes its jars only at its start. Over Connect both are the server's session.

Nothing here is imported or started at load time: code servers and sensors import this module too.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.landing.spark import archive
from pipelines.landing.spark.catalog import (
    SECRET_NAMES,
    catalog_settings,
    is_secret,
    on_s3,
    tell_running_java,
)
from pipelines.landing.spark.java import (
    OPTIONS_SETTING,
    Java,
    end_java,
    has_own_options,
    java_has_ended,
    require_java,
    start_java,
)
from pipelines.landing.spark.remote import (
    DEFAULT_MASTER,
    MASTER_VARIABLE,
    REMOTE_VARIABLE,
    WAIT_S,
    answers,
    names_session,
    on_this_machine,
    require_answer,
    require_master,
    shown,
    unanswered,
    without_session,
)
from pipelines.landing.table.home import home, own_and_checkout, set_up
from pipelines.landing.table.lake import Lake
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError, printable

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Task = Callable[[Iterable[int]], Iterator[str]]
"""Numbers of work in, lines out; Spark's workers run it, so it must be picklable."""
Result = TypeVar("Result")

JARS_VARIABLE = "SLS_LAKE_JARS"
DAEMON_SETTING = "spark.python.daemon.module"
DAEMON = "pipelines.landing.run.worker_daemon"
"""What Spark forks Python workers from on a local master; named, not imported: it stands above."""
PYTHON_VARIABLE = "PYSPARK_PYTHON"
_PYTHON_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python", DAEMON_SETTING)
_APP = "sls-lake"
_TRIES, _BACK_OFF_MAX_MS = 8, 2000


class Engine:
    """A lazy Spark. `remote` is `sc://host:port`; else `master` is a local or cluster master.

    `local[2,3]` gives each task three attempts; plain `local[2]` would fail the job at the first. `conf`
    goes to Spark as it is, over what is set here. A process has one Spark: one that is there is used as it
    is, and left to who started it; one that was ended meanwhile is started anew. `archives` is the folder of
    Java's class archives, if it is another than `archive.place` says. A server at `remote` has
    `wait_s` to answer.
    """

    task_clock: Clock = SYSTEM_CLOCK
    """What writing tasks go by; another one only where they run in this very process."""
    tally: str = ""
    """The folder in which writing tasks tell how far they are; only where Spark runs on this machine."""

    here_bytes_max: int = 256 * 1024 * 1024
    """Files of so many bytes together are worked on in this process: that takes as long as Spark takes to
    start and to give its workers what they need, or little more."""

    def __init__(
        self,
        *,
        remote: str = "",
        master: str = DEFAULT_MASTER,
        conf: Mapping[str, str] | None = None,
        lake: Lake | None = None,
        archives: Path | None = None,
        wait_s: float = WAIT_S,
    ) -> None:
        self.remote, self.master = remote, master
        self._conf = dict(conf or {})
        self._lake, self._archives, self._wait_s = lake, archives, wait_s
        self._starting = threading.RLock()
        self._begun = self._owns_java = self._owns_context = False
        self._java: Future[None] | None = None
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None

    @property
    def started(self) -> bool:
        """Whether there is a Spark; asking does not start one."""
        return self._context is not None or self._session is not None

    @property
    def elsewhere(self) -> bool:
        """Whether tasks run in processes that have an environment of their own: those of a server or a
        cluster, which have neither our variables nor our files."""
        return bool(self.remote) or not on_this_machine(self.master)

    @property
    def place(self) -> str:
        """Where Spark is, for people: an address may carry a token."""
        return shown(self.remote) if self.remote else self.master

    @property
    def executors(self) -> int:
        """How many executors have come so far; 1 where tasks run in the driver's own machine. 0 where nobody
        knows: a server does not say, and Spark that was not started has none."""
        if self._context is None:
            return 0
        # The driver is one of those that Spark's own list has.
        return max(1, len(self._context._jsc.sc().statusTracker().getExecutorInfos()) - 1)

    @property
    def begun(self) -> bool:
        """Whether Spark is there, or on its way."""
        return self._begun or self.started

    @property
    def session(self) -> "SparkSession":
        """A session for SQL, with the catalog. Raises ConfigError when Java is missing, ConnectFailed when
        the server does not answer."""
        with self._starting:
            if self._session is None or (self._context is not None and _has_ended(self._context)):
                self._session = self._connect() if self.remote else self._start_session()
            return self._session

    @property
    def context(self) -> "SparkContext":
        """What runs the tasks of a landing, locally. Raises ConfigError when Java is missing."""
        with self._starting:
            if self._context is None or _has_ended(self._context):
                if self._context is not None:
                    # pyspark goes on with one whose Java half has ended, until it is told.
                    _forget(self._context)
                # A session of the one that ended has ended with it.
                self._session, self._context = None, self._start_bare()
            return self._context

    def run(self, count: int, task: Task, *, tag: str, within_s: float | None = None) -> list[str]:
        """Run `task` for each number below `count`, each as a Spark task of its own; its lines, in order.

        `tag` cancels it (`cancel`). Raises as `context` does, what Spark raises when a task fails, and
        TimeoutError when not all have ended `within_s` seconds. What interrupts the caller cancels it, too.
        """
        self.ready()
        # In a thread of its own. A thread has one connection to Java, which answers in order: who is
        # interrupted while Java works, and then asks it anything, waits until the tasks are done.
        found: Future[list[str]] = Future()
        _fulfil(found, partial(self._run, count, task, tag), "sls-lake-tasks")
        try:
            return found.result(within_s)
        finally:
            if not found.done():
                self.cancel(tag)

    def _run(self, count: int, task: Task, tag: str) -> list[str]:
        """As many slices as tasks: each number is a task of its own."""
        if self.remote:
            session = self.session
            try:
                return _over_connect(session, count, task, tag)
            except Exception as error:
                if answers(self.remote):
                    raise
                raise unanswered(self.remote) from error
        context = self.context
        try:
            context.addJobTag(tag)
            return context.parallelize(range(count), count).mapPartitions(task).collect()
        finally:
            # Where the JVM died there are no tags left, and the error says what happened.
            with contextlib.suppress(Exception):
                context.removeJobTag(tag)

    def begin(self) -> None:
        """Start what `run` needs beside the caller's own work, unless it has started.

        What goes wrong is raised to who needs it: `ready` tries again.
        """
        if not self.begun:
            self._begun = True
            threading.Thread(target=self._begin, name="sls-lake-spark", daemon=True).start()

    def _begin(self) -> None:
        with contextlib.suppress(Exception):
            self.ready()

    def ready(self) -> None:
        """Wait until there is what `run` needs. Raises as `session` and `context` do.

        Asked by whoever needs it, it starts what is not there, and raises what is wrong with that: what a
        start beside other work met is tried again here.
        """
        _ = self.session if self.remote else self.context

    def require(self) -> None:
        """Raises ConfigError when Spark certainly cannot be started here, and ConnectFailed when no server
        answers at `remote`, or no standalone master; starts none.

        A run asks before its first act: without Java it would fix where a history begins, claim
        shards, and only then find out that it can write nothing.
        """
        if self.remote:
            require_answer(self.remote, wait_s=self._wait_s)
        elif not self.started:
            self._required()

    def _required(self) -> Java:
        """The Java that starts Spark here. Raises as `require`."""
        java = require_java()
        require_master(self.master, wait_s=self._wait_s)
        return java

    def cancel(self, tag: str) -> None:
        """Stop the work that was started under `tag`; harmless when there is none, and where Spark has ended:
        what it did ended with it, and whoever waits for it is told."""
        with contextlib.suppress(Exception):
            if self._context is not None:
                self._context.cancelJobsWithTag(tag)
            elif self._session is not None:
                self._session.interruptTag(tag)

    def stop(self, *, wait: bool = False) -> None:
        """Stop Spark, if this engine started it, and end its Java if it is ours; with `wait`, see it end.

        Spark is stopped where this engine started it, and its Java ended where no one had one before: a
        notebook's own session goes on.
        """
        with self._starting:
            self._begun = False
            session, self._session = self._session, None
            context, self._context = self._context, None
            java, self._java = self._java, None
            if java is not None:
                # Who was interrupted while it started: it ends only once it has.
                with contextlib.suppress(Exception):
                    java.result()
            ours = (session, context) if self.remote or self._owns_context else ()
            for each in ours:
                if each is not None:
                    _forget(each)
            if java is not None and self._owns_java:
                self._owns_java = False
                ending = end_java()
                if wait:
                    ending.join()

    def _connect(self) -> "SparkSession":
        require_answer(self.remote, wait_s=self._wait_s)
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session: SparkSession = SparkSession.builder.remote(self.remote).getOrCreate()
        if names_session(self.remote):
            # Others work in it, and an id that was let go is refused for good.
            session.release_session_on_close = False  # type: ignore[attr-defined]
            if not _is_open(session):
                session.stop()
                session = SparkSession.builder.remote(without_session(self.remote)).getOrCreate()
        # Its own policy asks a server that died for ten minutes; the next run is the retry.
        policy = DefaultPolicy(max_retries=_TRIES, backoff_multiplier=2.0, max_backoff=_BACK_OFF_MAX_MS)
        session.client.set_retry_policies([policy])  # type: ignore[operator]
        return session

    def _start_bare(self) -> "SparkContext":
        """A context without SQL. It knows no catalog of the lake.

        Whoever gave Java options of his own keeps them whole; else it starts from the archive of classes. The
        daemon that forks workers is ours where the Python is ours, too.
        """
        java = self._required()
        from pyspark import SparkConf, SparkContext

        python = os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
        settings = {**self._named(), **base_conf(), **self._conf}
        if self.master.startswith("local[") or self.master == "local":
            if not has_own_options(self._conf):
                settings[OPTIONS_SETTING] = archive.options(java, self._archives or archive.place())
            if python == sys.executable and not any(name in self._conf for name in _PYTHON_SETTINGS):
                settings[DAEMON_SETTING] = DAEMON
        context = self._start_in_java(
            settings, lambda: SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
        )
        context.setLogLevel("ERROR")
        return context

    def _no_start(self, error: Exception) -> ConfigError:
        here = on_this_machine(self.master)
        cure = f"that {home()} can be written" if here else "that its master answers and gives this one cores"
        return ConfigError(
            f"Spark does not start at {printable(self.master)} ({type(error).__name__}): check "
            f"{MASTER_VARIABLE}, and {cure}"
        )

    def _named(self) -> dict[str, str]:
        """Where Spark is, and what it is called there."""
        return {"spark.master": self.master, "spark.app.name": _APP}

    def _start_in_java(self, settings: Mapping[str, str], start: Callable[[], Result]) -> Result:
        """What is not there before is ours to end, and a Java that was ours stays so. One that was killed is
        not there, also where it was killed before Spark had begun in it. Raises ConfigError."""
        from pyspark import SparkContext

        if java_has_ended():
            end_java()
        self._owns_java = self._owns_java or SparkContext._gateway is None
        self._owns_context = SparkContext._active_spark_context is None
        try:
            self._start_java(settings)
            return start()
        except Exception as error:  # Java's, of Spark's many kinds
            raise self._no_start(error) from error

    def _start_session(self) -> "SparkSession":
        """A context without SQL cannot be given a catalog any more, so one that runs is ended first."""
        self._required()
        from pyspark.sql import SparkSession

        if self._context is not None:
            self.stop()
        os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
        lake = catalog_conf(self._lake or Lake.default())
        conf = {**self._named(), **base_conf(), **lake, **self._conf}
        session = self._start_in_java(conf, SparkSession.builder.config(map={**conf}).getOrCreate)
        self._context = session.sparkContext
        self._context.setLogLevel("ERROR")
        tell_running_java(self._context, conf)
        return session

    def _start_java(self, settings: Mapping[str, str]) -> None:
        """With those of `settings` that everybody may see. Story: Ctrl-C while pyspark waits for Java takes
        away the folder where that is about to write its port. Java fails and stays, and nobody has a handle
        of it. So a thread of its own waits, and `stop` for that."""
        seen = {name: value for name, value in settings.items() if not is_secret(name)}
        self._java = found = Future[None]()
        _fulfil(found, partial(start_java, seen), "sls-lake-java-start")
        found.result()


def _fulfil(found: "Future[Result]", call: Callable[[], Result], name: str) -> None:
    """Begin the call in a thread of its own: who waits for it can be interrupted, and it goes on."""

    def work() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()


def engine_here(*, remote: str = "", master: str = "", conf: Mapping[str, str] | None = None) -> Engine:
    """The engine of this process's environment (`remote.py`), which what is given here goes over."""
    return Engine(
        remote=remote or os.environ.get(REMOTE_VARIABLE, ""),
        master=master or os.environ.get(MASTER_VARIABLE, "") or DEFAULT_MASTER,
        conf=conf,
    )


def _is_open(session: "SparkSession") -> bool:
    """Whether the server still has the session that the address names. Idle for an hour, it closes one, and
    refuses its id from then on; a run then works in a session of its own, as without the id."""
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    try:
        return bool(session.version)
    except SparkConnectGrpcException:
        return False


def _over_connect(session: "SparkSession", count: int, task: Task, tag: str) -> list[str]:
    """As `Engine.run`: Connect has no jobs, only frames, so the numbers come as a frame of one column."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            lines = list(task(batch.column(0).to_pylist()))
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["line"])

    try:
        session.addTag(tag)
        frame = session.range(0, count, 1, count).mapInArrow(run, "line string")
        return [row["line"] for row in frame.collect()]
    finally:
        with contextlib.suppress(Exception):
            session.removeTag(tag)


def _has_ended(context: "SparkContext") -> bool:
    """Whether somebody stopped it, and pyspark took its Java half away; or its Java half stopped by itself.

    Story: a master is gone for a minute. Java says "All masters are unresponsive", stops what it has, and
    lives on. Or Java is killed, by the kernel for the machine's memory. Whoever lands again in this process
    would be told so for ever: pyspark holds the connection to that one Java.
    """
    if context._jsc is None or java_has_ended():
        return True
    with contextlib.suppress(Exception):
        return bool(context._jsc.sc().isStopped())
    return False


def _forget(spark: "SparkContext | SparkSession") -> None:
    """Stop it, and have pyspark forget it where Java does not answer.

    pyspark's own stop ends where the connection is refused, with half of its state left. Java's half is gone
    from that by then, so a second call does the rest without a word to Java.
    """
    for _ in range(2):
        with contextlib.suppress(Exception):
            spark.stop()


def serve_workers() -> None:
    """Fork Python workers for Spark until it goes away; the body of `DAEMON`."""
    from pyspark import daemon

    daemon.manager()  # type: ignore[no-untyped-call]


def base_conf() -> dict[str, str]:
    """What every local session of ours has."""
    scratch = home() / "spark"
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.redaction.regex": SECRET_NAMES,
    }


def catalog_conf(lake: Lake) -> dict[str, str]:
    """Spark's settings for the same catalog PyIceberg uses, when the jars are there."""
    jars = installed_jars()
    if not jars:
        return {}
    return {"spark.jars": ",".join(str(p) for p in jars), **catalog_settings(lake)}


def installed_jars() -> list[Path]:
    """The jars set-up fetched: `SLS_LAKE_JARS`, the state folder, or `var/jars` of the project.

    The first folder with any jar counts: jars of two places could be two versions of one class.
    """
    named = os.environ.get(JARS_VARIABLE)
    states = [home(), *(one.state for one in own_and_checkout())]
    folders = [Path(named)] if named else [state / "jars" for state in states]
    for folder in folders:
        if folder.is_dir() and (found := sorted(folder.glob("*.jar"))):
            return found
    return []


def require_jars(lake: Lake | None = None) -> list[Path]:
    """The jars, all that Spark needs for `lake`; else ConfigError with the verb that fetches them."""
    found = installed_jars()
    if not found:
        raise ConfigError(
            f"Spark's Iceberg jars are not installed, and {JARS_VARIABLE} names no folder of them",
            cures=(set_up(),),
        )
    if lake is not None and on_s3(lake) and not any("aws" in path.name for path in found):
        raise ConfigError(
            "Spark's SQL needs Iceberg's jar for S3, which is not among its jars", cures=(set_up(s3=True),)
        )
    return found
