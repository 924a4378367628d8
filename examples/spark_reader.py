"""Logs of a logstore as a Spark DataFrame, asked in SQL, without landing them.

    python examples/spark_reader.py PROJECT LOGSTORE [START]

START is a receive time such as 2026-11-20T08:00 (UTC). Needs Java. SLS_ENDPOINT and the key pair come from
the environment; on a cluster each worker needs the pair in its own, and our packages.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from pyspark.sql import SparkSession

from pipelines.landing.spark.source import register


def main(project: str, logstore: str, start: str) -> None:
    """Logs by status."""
    # Workers with this Python, which has our packages: Spark's own choice is the python3 of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    register(spark)
    named = {"endpoint": os.environ["SLS_ENDPOINT"], "project": project, "logstore": logstore}
    logs = spark.read.format("sls").options(**named, start=start, columns="status int").load()
    logs.createOrReplaceTempView("logs")
    asked = "SELECT status, count(*) AS logs, max(__time__) AS newest FROM logs GROUP BY 1 ORDER BY 1"
    for row in spark.sql(asked).collect():
        print(f"status {row['status']}: {row['logs']} logs, newest {row['newest']:%Y-%m-%d}")
    spark.stop()


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    for name in ("project", "logstore"):
        asked.add_argument(name)
    asked.add_argument("start", nargs="?", default="1970-01-01")
    main(**vars(asked.parse_args()))
