"""A user's whole run in a process of its own, with nothing but environment variables: land, then ask Spark.

    python -m tests.integration.spark_program land DEFS     lands with a local Spark, and looks around
    python -m tests.integration.spark_program dbt DEFS      starts Spark as dbt does, and asks it

The last line of output is a JSON object: `rows` as Spark's SQL counts them through the catalog, and the
command lines and settings that other users could see of this process and its Java. Spark's event log of
the landing is in `events` of the state folder.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.landing.logstore import load_logstore
from pipelines.landing.run.driver import Run
from pipelines.landing.spark.dbt_environment import dbt_environment
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.home import home


def main(how: str, defs: str) -> None:
    """Do it, and say what is seen."""
    logstore = load_logstore(Path(defs))
    landed = None
    if how == "land":
        events = home() / "events"
        events.mkdir(parents=True)
        engine = Engine(
            conf={
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": events.as_uri(),
                "spark.eventLog.compress": "false",
            }
        )
        with Run(logstore, engine) as run:
            landed = run.land().rows
            run.reconcile()
            run.checkpoint()
        session = engine.session
    else:
        session = as_dbt()
    rows = session.sql(f"SELECT count(*) AS n FROM {logstore.table}").collect()[0]["n"]
    sys.stdout.write("\n" + json.dumps({"landed": landed, "rows": rows, "seen": seen(session)}) + "\n")
    session.stop()


def as_dbt() -> SparkSession:
    """A session as dbt makes it from its profile."""
    os.environ.update(dbt_environment())
    builder = SparkSession.builder
    for name, value in json.loads(os.environ["SLS_DBT_SPARK_CONF"]).items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    return session


def seen(session: Any) -> str:
    """The command lines of this process and of Java, and what Spark says of its settings."""
    java = session._jvm.java.lang.ProcessHandle.current().pid()
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in ("self", java)]
    told = [str(row) for row in session.sql("SET").collect()]
    return "\n".join([*lines, *told])


if __name__ == "__main__":
    main(*sys.argv[1:])
