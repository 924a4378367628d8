"""The class archive of a landing's Java: classes parsed and verified once, then mapped from a file.

Half of the time of a cold start is Java reading the same classes from the same jars. `record.py` writes
them down, at set-up; a run looks whether there is an archive that fits, and else starts without one.

An archive belongs to one Java and one set of jars: its name is a digest of the Java's path, version, vendor
and build, of its options, and of name, size and time of each of Spark's jars. So another Java or another
Spark finds none. Java proves it again by itself: with `-XX:+VerifySharedSpaces` by checksums, and always by
its own build and by the class path. What does not fit it leaves alone and reads the jars, and
`-Xlog:disable` keeps what it would say of that from everybody's eyes. Its size stands in the name, too:
Java maps the file before it looks, and one that was cut off would end it with a signal.

It lies under `var` of the project, whatever the state folder: it belongs to the installed packages, not to
the data, so every demo, test and deployment of a project has the same one. Without a project it lies in
the state folder.
"""

import hashlib
from pathlib import Path

from pipelines.landing.spark.java import OPTIONS, Java, spark_home
from pipelines.landing.table.home import home, own_and_checkout

SUFFIX = ".jsa"
_QUIET = "-Xlog:disable"
_FOLDER = Path("cache") / "java"


def place() -> Path:
    """The folder of archives; made by who writes."""
    states = [one.state for one in own_and_checkout() if one.state.is_dir()]
    return [*states, home()][0] / _FOLDER


def key_of(java: Java, jars: Path) -> str:
    """What the name of an archive begins with, for this Java and the jars in that folder."""
    digest = hashlib.sha256("\0".join([java.path, java.said, *OPTIONS]).encode())
    for jar in sorted(jars.glob("*.jar")):
        there = jar.stat()
        digest.update(f"\0{jar}\0{there.st_size}\0{there.st_mtime_ns}".encode())
    return digest.hexdigest()[:32]


def found(java: Java, folder: Path) -> Path | None:
    """The archive in `folder` that fits this Java and Spark's jars, if there is a whole one."""
    for path in sorted(folder.glob(f"{key_of(java, spark_home() / 'jars')}-*{SUFFIX}")):
        if path.is_file() and path.name == named(path.name.partition("-")[0], path).name:
            return path
    return None


def named(key: str, path: Path) -> Path:
    """What the archive `path` is called once it is whole."""
    return path.with_name(f"{key}-{path.stat().st_size}{SUFFIX}")


def options(java: Java, folder: Path) -> str:
    """Java's options of a landing, with the archive of `folder` that fits, if there is one."""
    path = found(java, folder)
    # Java's options are split at spaces.
    if path is None or " " in str(path):
        return " ".join(OPTIONS)
    return " ".join([*OPTIONS, f"-XX:SharedArchiveFile={path}", "-XX:+VerifySharedSpaces", _QUIET])


def options_to_record(path: Path) -> str:
    """Options of a Java that writes the archive `path` when it ends."""
    return " ".join([*OPTIONS, f"-XX:ArchiveClassesAtExit={path}", _QUIET])
