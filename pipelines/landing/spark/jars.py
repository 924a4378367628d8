"""The jars of the Spark side: which, from where, and how set-up gets them.

They come by Maven coordinates through the resolver that Spark brings along, once, into one folder;
sessions then name files (`session.py`) and need no network. A jar is taken only when its sha256 is the
one written here, so a second run downloads nothing and a damaged file is fetched again. Nothing but the
named files is resolved: what they need stands in the list, too.

Why not `spark.jars.packages` at each start: it asks the network in a run, and a first session with it took
12.8 s, where one that names files takes 6.2. It trusts the repository, or whoever stands in its place: a
mirror that serves another file under the same coordinates would be run. And it brings what a module says it
needs, in versions that nobody chose. A fetched file with another checksum is an error, and no second try.

    python -m pipelines.landing.spark.jars FOLDER        what `make setup` runs
    python -m pipelines.landing.spark.jars FOLDER s3     and what Spark needs for a warehouse on S3 (64 MB)
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from pipelines.landing.umask import keep_others_out
from sls_io.values.errors import ConfigError

_RESOLVE_TIMEOUT_S = 600
_ENVIRONMENT_HINT = "DEFAULT_ARTIFACT_REPOSITORY"
"""Spark's own variable for a mirror of the central repository."""
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={cache}/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false"{root}/>
  </resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="sls-lake" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact by its Maven coordinates, and the sha256 of the file."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def coordinates(self) -> str:
        """`group:artifact:version`, and the classifier if there is one."""
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)

    @property
    def name(self) -> str:
        """The file's name."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"


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

S3_JARS = (
    Jar(
        "org.apache.iceberg",
        "iceberg-aws-bundle",
        "1.11.0",
        "38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f",
    ),
)
"""What Spark's SQL and dbt need for tables on S3. A landing does not: its files are written by pyarrow."""


def fetch(folder: Path, jars: Sequence[Jar] = JARS) -> list[Path]:
    """Bring every jar that is missing or damaged to `folder`; returns the fetched ones.

    Raises ConfigError, with the cure, when Java or the network is missing or a file is not the
    one that was pinned.

    A file gets its name by a rename, once its checksum fits: a kill in between leaves a folder that is
    fetched again.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [jar for jar in jars if not _is_good(folder / jar.name, jar)]
    if not wanted:
        return []
    ivy = folder / "ivy"
    _resolve(wanted, ivy)
    for jar in wanted:
        found = ivy / "jars" / jar.name
        if not _is_good(found, jar):
            raise ConfigError(
                f"{jar.coordinates} is not the file that was pinned: remove {ivy} and fetch it "
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
    """Let the resolver among Spark's own jars bring the files to `ivy/jars`: no Spark is started.

    By the resolver that Spark brings, since that is what it would use itself; what it fetched is compared
    with the pinned checksum before it gets a place (`fetch`).
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed in this environment: install sls-lake anew")
    (resolver,) = (Path(spec.origin).parent / "jars").glob("ivy-*.jar")
    ivy.mkdir(exist_ok=True)
    mirror = os.environ.get(_ENVIRONMENT_HINT, "")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    settings = _SETTINGS.format(cache=quoteattr(str(ivy / "cache")), root=root)
    (ivy / "settings.xml").write_text(settings, encoding="utf-8")
    (ivy / "ivy.xml").write_text(_module(jars), encoding="utf-8")
    java_home = os.environ.get("JAVA_HOME")
    command = [
        *(f"{java_home}/bin/java" if java_home else "java", "-jar", str(resolver)),
        *("-settings", str(ivy / "settings.xml"), "-ivy", str(ivy / "ivy.xml"), "-types", "jar"),
        *("-retrieve", f"{ivy}/jars/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    log = ivy.with_name("resolve.log")
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_RESOLVE_TIMEOUT_S,
                check=False,
            ).returncode
        except (OSError, subprocess.TimeoutExpired):
            code = -1
    if code:
        raise ConfigError(f"the jars could not be fetched, see {log}: {_why(log)}; then do it again")
    log.unlink()


def _why(log: Path) -> str:
    """What kept the resolver, by its own words: it has one exit status for all, and its log is pages long.

    The order matters. A host that is not found ends in "module not found", too, so that is asked last; what
    nobody recognises is most likely a Java that could not even begin.
    """
    said = log.read_text(encoding="utf-8", errors="replace").lower()
    if "no space left" in said or "quota exceeded" in said:
        return f"the disk is full, make room in {log.parent}"
    if re.search(r"java\.net\.|host .* not found\. url=|timed out|pkix|sslhandshake", said):
        return (
            "the Maven repository cannot be reached, check the network and its proxy (JAVA_TOOL_OPTIONS), or "
            f"name a mirror in {_ENVIRONMENT_HINT}"
        )
    if "module not found" in said:
        return f"the Maven repository does not have them, name another one in {_ENVIRONMENT_HINT}"
    return "check Java 17 or 21, by `java -version`"


def _module(jars: Iterable[Jar]) -> str:
    """The jars as the resolver's own file: each module with the files of it that are wanted."""
    wanted: dict[tuple[str, str, str], list[Jar]] = {}
    for jar in jars:
        wanted.setdefault((jar.group, jar.artifact, jar.version), []).append(jar)
    dependencies = []
    for (group, artifact, version), files in wanted.items():
        head = f"org={quoteattr(group)} name={quoteattr(artifact)} rev={quoteattr(version)}"
        dependencies.append(f'    <dependency {head} transitive="false" conf="default->default">')
        for jar in files:
            classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
            dependencies.append(
                f'      <artifact name={quoteattr(artifact)} type="jar" ext="jar"{classifier}/>'
            )
        dependencies.append("    </dependency>")
    return _MODULE.format(dependencies="\n".join(dependencies))


def main(folder: str, jars: Sequence[Jar] = JARS) -> int:
    """Fetch what is missing and say so; 1 with one sentence when it cannot be had."""
    try:
        fetched = fetch(Path(folder), jars)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for path in fetched:
        sys.stdout.write(f"fetched {path.name} ({path.stat().st_size / 1e6:.1f} MB)\n")
    return 0


if __name__ == "__main__":
    keep_others_out()
    _names = sys.argv[1:] or ["var/jars"]
    sys.exit(main(_names[0], (*JARS, *S3_JARS) if "s3" in _names[1:] else JARS))
