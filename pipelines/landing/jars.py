"""The three jars of the Spark side: which, from where, and how set-up gets them.

They come by Maven coordinates through Spark's own resolver, once, into one folder; sessions then
name files (`engine.py`) and need no network. A jar is taken only when its sha256 is the one written
here, so a second run downloads nothing and a damaged file is fetched again.

    python -m pipelines.landing.jars FOLDER        what `make setup` runs
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sls_io.errors import ConfigError

_RESOLVE_TIMEOUT_S = 600
_ENVIRONMENT_HINT = "DEFAULT_ARTIFACT_REPOSITORY"
"""Spark's own variable for a mirror of the central repository."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact by its Maven coordinates, and the sha256 of the file."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def resolved_name(self) -> str:
        """The name Spark's resolver gives the file."""
        return f"{self.group}_{self.artifact}-{self.version}.jar"

    @property
    def name(self) -> str:
        """The name we give it."""
        return f"{self.artifact}-{self.version}.jar"


JARS = (
    Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.0_2.13",
        "1.11.0",
        "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
    ),
    Jar(
        "org.xerial",
        "sqlite-jdbc",
        "3.54.1.0",
        "f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639",
    ),
    Jar(
        "org.postgresql",
        "postgresql",
        "42.7.14",
        "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
    ),
)
"""Iceberg for Spark 4.0, and the two databases a JDBC catalog is kept in."""


def fetch(folder: Path) -> list[Path]:
    """Bring every jar that is missing or damaged to `folder`; returns the fetched ones.

    Raises ConfigError, with the cure, when Java or the network is missing or a file is not the
    one that was pinned.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [jar for jar in JARS if not _is_good(folder / jar.name, jar)]
    if not wanted:
        return []
    ivy = folder / "ivy"
    _resolve(wanted, ivy)
    for jar in wanted:
        found = ivy / "jars" / jar.resolved_name
        if not _is_good(found, jar):
            raise ConfigError(
                f"{jar.coordinates} is not the file that was pinned: remove {ivy} and run `make setup` "
                f"again, or check the repository that {_ENVIRONMENT_HINT} names"
            )
        os.replace(found, folder / jar.name)
    shutil.rmtree(ivy)
    return [folder / jar.name for jar in wanted]


def _is_good(path: Path, jar: Jar) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def _resolve(jars: Iterable[Jar], ivy: Path) -> None:
    """Let spark-submit resolve the packages for an empty program: no Spark session is started."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed: run `make setup`")
    spark = Path(spec.origin).parent
    command = [
        str(spark / "bin" / "spark-submit"),
        "--packages",
        ",".join(jar.coordinates for jar in jars),
        "--exclude-packages",
        "org.checkerframework:checker-qual",
        "--conf",
        f"spark.jars.ivy={ivy}",
        str(Path(__file__).with_name("__init__.py")),
    ]
    environment = {**os.environ, "SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable}
    log = ivy.with_name("resolve.log")
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_RESOLVE_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -1
    if code:
        raise ConfigError(
            f"the jars could not be resolved, see {log}: check Java 17 and the way to the central Maven "
            f"repository ({_ENVIRONMENT_HINT} names a mirror), then run `make setup` again"
        )
    log.unlink()


def main(folder: str) -> int:
    """Fetch what is missing and say so; 1 with one sentence when it cannot be had."""
    try:
        fetched = fetch(Path(folder))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for path in fetched:
        sys.stdout.write(f"fetched {path.name} ({path.stat().st_size / 1e6:.1f} MB)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "var/jars"))
