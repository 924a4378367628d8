"""The Spark session: built when first asked for, local by default, or Spark Connect.

Landing needs no Iceberg jar (tasks write Parquet themselves, the commit needs no JVM); the jars are
there for SQL, dbt and compaction, so a session gets them when set-up has fetched them. Nothing here
is imported or started at load time: code servers and sensors import this module too.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines import ROOT
from pipelines.landing.spark.catalog import SECRET_NAMES, catalog_settings, is_secret, on_s3
from pipelines.landing.table.lake import Lake, home
from sls_io.clock import SYSTEM_CLOCK, Clock
from sls_io.errors import ConfigError, printable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS_VARIABLE = "SLS_LAKE_JARS"
_JAVA_MIN = 17
_TOLD_LATER = "set when the session has started"


class Engine:
    """A lazy Spark session. `remote` is `sc://host:port`; else `master` is a local or cluster master.

    `local[2,3]` gives each task three attempts; plain `local[2]` would fail the job at the first.
    """

    task_clock: Clock = SYSTEM_CLOCK
    """What writing tasks go by; another one only where they run in this very process."""

    def __init__(
        self,
        *,
        remote: str = "",
        master: str = "local[2,3]",
        conf: Mapping[str, str] | None = None,
        lake: Lake | None = None,
    ) -> None:
        self.remote, self.master = remote, master
        self._conf = dict(conf or {})
        self._lake = lake
        self._session: SparkSession | None = None

    @property
    def started(self) -> bool:
        """Whether a session exists; asking does not build one."""
        return self._session is not None

    @property
    def session(self) -> "SparkSession":
        """The session. Raises ConfigError when Java is missing or the server cannot be reached."""
        if self._session is None:
            self._session = self._connect() if self.remote else self._start()
        return self._session

    def require(self) -> None:
        """Raises ConfigError when a session certainly cannot be built here; builds none.

        A run asks before its first act: without Java it would fix where a history begins, claim
        shards, and only then find out that it can write nothing.
        """
        if self._session is None and not self.remote:
            require_java()

    def cancel(self, tag: str) -> None:
        """Stop the work that was started under `tag`; harmless when there is none."""
        if self._session is not None:
            self._session.interruptTag(tag)

    def stop(self) -> None:
        """Stop the session, if any."""
        session, self._session = self._session, None
        if session is not None:
            # A JVM that was killed has nothing left to stop, and pyspark's own state is cleared before.
            with contextlib.suppress(Exception):
                session.stop()

    def _connect(self) -> "SparkSession":
        from pyspark.sql import SparkSession

        try:
            return SparkSession.builder.remote(self.remote).getOrCreate()
        except Exception as error:  # grpc and pyspark raise many kinds; all mean "no server there"
            raise ConfigError(
                f"Spark Connect server {self.remote} cannot be reached ({type(error).__name__}: "
                f"{printable(str(error))}); start it, or leave `remote` empty for a local session"
            ) from error

    def _start(self) -> "SparkSession":
        require_java()
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(self.master).appName("sls-lake")
        conf = {**base_conf(), **catalog_conf(self._lake or Lake.default()), **self._conf}
        for name, value in conf.items():
            builder = builder.config(name, _TOLD_LATER if is_secret(name) else value)
        session: SparkSession = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        # What the builder has stands on Java's command line, for every user of the machine to read. Spark's
        # event log hides values of the names that the builder had, and of no others.
        for name in filter(is_secret, conf):
            session.conf.set(name, conf[name])
        return session


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
    """The jars set-up fetched: `SLS_LAKE_JARS`, the state folder, or `var/jars` of the project."""
    named = os.environ.get(JARS_VARIABLE)
    folders = [Path(named)] if named else [home() / "jars", ROOT / "var" / "jars"]
    for folder in folders:
        if folder.is_dir() and (found := sorted(folder.glob("*.jar"))):
            return found
    return []


def require_jars(lake: Lake | None = None) -> list[Path]:
    """The jars, all that Spark needs for `lake`; else ConfigError with the verb that fetches them."""
    found = installed_jars()
    if not found:
        raise ConfigError(f"Spark's Iceberg jars are not installed; run `make setup` or set {JARS_VARIABLE}")
    if lake is not None and on_s3(lake) and not any("aws" in path.name for path in found):
        raise ConfigError(
            "Spark's SQL needs Iceberg's jar for S3, which is not among its jars; run `make setup S3=1`"
        )
    return found


def require_java() -> None:
    """Raises ConfigError unless a Java of at least version 17 can be started."""
    home_variable = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home_variable}/bin") if home_variable else shutil.which("java")
    if java is None:
        raise ConfigError("Java was not found; install Java 17, or set JAVA_HOME to where it is")
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', shown)
    if version is None or int(version[1]) < _JAVA_MIN:
        raise ConfigError(
            f"Java {_JAVA_MIN} or newer is needed, {java} is {version[1] if version else 'unknown'}"
        )
