"""Java: whether one can be started here, the options that a landing's own gets, and its end.

A landing's Java moves bytes between processes for a second or two. It is over before the second compiler
and a collector with threads of its own have paid for themselves, so a landing does without them, and
so do dbt and a Connect server. Classes come from an archive where there is one (`archive.py`).

Whoever gives options of their own, in Spark's settings or in the environment, has them alone: two choices
of a collector are an error to Java, and no word of theirs is ever replaced.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sls_io.values.errors import ConfigError, printable

OPTIONS_SETTING = "spark.driver.extraJavaOptions"
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m", "-XX:+UseSerialGC")
"""What a landing's Java starts with, archive or not.

With one compiler Java reserves 48 MB for compiled code, with both 240. A Spark that lives on, as a Connect
server does, fills the 48 within half an hour of SQL; then Java compiles nothing any more and says so in a
warning only. Reserved is not used: what a short landing takes does not change.
"""
_JAVA_MIN = 17
_ENDING_S = 60.0
_SETTINGS = (OPTIONS_SETTING, "spark.driver.defaultJavaOptions")
_VARIABLES = (
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
    *("SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS"),
)
_FILES = ("java-opts", "spark-env.sh")
_DEFAULTS = "spark-defaults.conf"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can be started: its path, and what it says of its version, vendor and build."""

    path: str
    said: str


def require_java() -> Java:
    """The Java that Spark would start. Raises ConfigError unless there is one of at least version 17.

    JAVA_HOME counts where it is set, also where it is wrong: Spark would look there, too.
    """
    home_variable = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home_variable}/bin") if home_variable else shutil.which("java")
    if java is None and home_variable:
        raise ConfigError(
            f"JAVA_HOME is {printable(home_variable)}, and there is no program bin/java in it; unset it to "
            "take the Java on the PATH, or set it to the folder of one"
        )
    if java is None:
        raise ConfigError("no Java was found on the PATH; install Java 17, or set JAVA_HOME to where it is")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < _JAVA_MIN:
        raise ConfigError(
            f"Java {_JAVA_MIN} or newer is needed, {java} is {version[1] if version else 'unknown'}"
        )
    return Java(os.path.realpath(java), said)


def spark_home() -> Path:
    """The folder of the Spark that starts: `SPARK_HOME`, or the one that pyspark brings."""
    said = os.environ.get("SPARK_HOME")
    if said:
        return Path(said)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError("pyspark is not installed in this environment: install sls-lake anew")
    return Path(spec.origin).parent


def has_own_options(conf: Mapping[str, str]) -> bool:
    """Whether somebody gave this Java options: by Spark's settings, a variable, or a file of Spark's.

    A file of Spark's that might set them counts as one that does: ours are left out then, and theirs stay
    whole.
    """
    if any(name in conf for name in _SETTINGS) or any(os.environ.get(name) for name in _VARIABLES):
        return True
    if any((_settings_folder() / name).exists() for name in _FILES):
        return True
    return any(in_defaults(name) for name in _SETTINGS)


def in_defaults(name: str) -> bool:
    """Whether Spark's own file of defaults has this setting, or one that begins so."""
    try:
        return name in (_settings_folder() / _DEFAULTS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _settings_folder() -> Path:
    return Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")


def start_java(settings: Mapping[str, str]) -> None:
    """Start the Java of this process, if there is none, with `settings`, which everybody may see.

    pyspark starts Java with all settings on its command line, which every user of the machine can read. Those
    that are made when Java runs go to it over pyspark's own connection. So Java comes first, with the open
    ones, and then Spark begins in it with all of them: its event log hides values of the names that it began
    with, and of no others. Not so its start: jars at an address whose keys are secrets are not found then.

    Worked example: of `spark.ui.enabled` and `spark.hadoop.fs.s3a.secret.key` the first is on the command
    line; Spark and its storage have both.
    """
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))


def java_has_ended() -> bool:
    """Whether there was a Java of this process, and is none any more."""
    from pyspark import SparkContext

    java: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return java is not None and java.poll() is not None


def end_java() -> threading.Thread:
    """Let the Java of this process end, so that what starts next has one of its own kind.

    It ends by itself when the pipe to its input closes; nobody else waits for it.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    java: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if gateway is not None and java is not None:
        SparkContext._gateway = SparkContext._jvm = None
        with contextlib.suppress(Exception):
            gateway.shutdown()
        if java.stdin is not None:
            with contextlib.suppress(OSError):
                java.stdin.close()
    ending = threading.Thread(target=_ended, args=(java,), name="sls-lake-java", daemon=True)
    ending.start()
    return ending


def _ended(java: "subprocess.Popen[bytes] | None") -> None:
    if java is not None:
        try:
            java.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            java.kill()
            java.wait()
