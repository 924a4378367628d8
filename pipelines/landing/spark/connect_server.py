"""A Spark Connect server that runs share: its settings, and one in the foreground for a deployment.

    python -m pipelines.landing.spark.connect_server [--host HOST] [--port PORT] [NAME=VALUE ...]

It has the lake's catalog and jars where these are installed, so that dbt finds its tables there, and forks
its Python workers from one that is ready. `SLS_SPARK_MASTER` names its master, and each NAME=VALUE is a
setting of Spark that goes over ours; on a cluster `spark.driver.host` is one of them, the name that executors
find it by. Whoever reaches the port can run code: it belongs on loopback, or on a network of the deployment
alone.
It keeps nothing that could be lost, so it may be killed and started again at any time.
"""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.landing.spark.dbt_environment import write_properties
from pipelines.landing.spark.java import OPTIONS, OPTIONS_SETTING, require_java, spark_home
from pipelines.landing.spark.remote import DEFAULT_MASTER, MASTER_VARIABLE
from pipelines.landing.spark.session import DAEMON, DAEMON_SETTING, PYTHON_VARIABLE, base_conf, catalog_conf
from pipelines.landing.table.home import ROOT, home, made
from pipelines.landing.table.lake import Lake
from pipelines.landing.umask import keep_others_out
from sls_io.values.errors import ConfigError

PORT = 15002
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_SETTINGS_FILE = "settings.properties"


def settings(
    lake: Lake, *, host: str, port: int, scratch: Path, master: str = DEFAULT_MASTER
) -> dict[str, str]:
    """Spark's settings of a server at `host`:`port` with its blocks in `scratch`; secrets are among them."""
    return {
        **base_conf(),
        **catalog_conf(lake),
        "spark.master": master,
        "spark.app.name": "sls-lake",
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        # The session that runs share ends with the server, and not after an hour without a run.
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        "spark.driver.memory": "1g",
        "spark.log.level": "WARN",
        "spark.local.dir": str(scratch),
        OPTIONS_SETTING: " ".join(OPTIONS),
        DAEMON_SETTING: DAEMON,
    }


def command(scratch: Path, conf: dict[str, str]) -> list[str]:
    """What starts a server with these settings, which are written to a file of its owner in `scratch`.

    What a killed server left there goes: blocks and sessions of its own, and nothing else. Raises ConfigError
    when the folder cannot be made.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    path = made(scratch) / _SETTINGS_FILE
    write_properties(path, conf)
    submit = str(spark_home() / "bin" / "spark-submit")
    return [submit, "--properties-file", str(path), "--class", _CLASS, "spark-internal"]


def python() -> dict[str, str]:
    """The environment by which the server's workers have the Python of this process, and our packages."""
    return {PYTHON_VARIABLE: sys.executable, "PYTHONPATH": str(ROOT)}


def parse(arguments: Sequence[str] | None = None) -> tuple[str, int, dict[str, str]]:
    """(host, port, settings of Spark over ours) of a command line; ends the program at what is none."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.landing.spark.connect_server")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"port to listen on ({PORT})")
    parser.add_argument("conf", nargs="*", metavar="NAME=VALUE", help="a setting of Spark, over ours")
    said = parser.parse_args(arguments)
    given = dict(each.partition("=")[::2] for each in said.conf)
    if wrong := [name for name, value in given.items() if not (name.startswith("spark.") and value)]:
        parser.error(f"{wrong[0]} is no setting of Spark: write spark.NAME=VALUE")
    return said.host, said.port, given


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the server; 1 with one sentence when it cannot be started."""
    host, port, given = parse(arguments)
    try:
        require_java()
        scratch = home() / "spark-server"
        master = os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
        ours = settings(Lake.default(), host=host, port=port, scratch=scratch, master=master)
        program = command(scratch, {**ours, **given})
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    os.execve(program[0], program, {**os.environ, **python()})


if __name__ == "__main__":
    keep_others_out()
    sys.exit(main())
