"""Builds the programs and installs the SDKs, in pinned versions, and says what is missing for it.

What is built stays in var/conformance; the caches of Maven, Go, Cargo, npm and pip are those of the user.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "var" / "conformance"
RUST = OUT / "rust"
NODE_MODULES = OUT / "node" / "node_modules"
_ZSTD = "zstd==1.5.7.2"
_LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class Built:
    """A program's command, or why there is none: `missing` is skipped, `broken` is a failure."""

    command: tuple[str, ...] = ()
    paths: tuple[str, ...] = (str(HERE.parent), str(HERE.parent / "var" / "conformance" / "python"))
    missing: str = ""
    broken: str = ""


def build(language: str) -> Built:
    """Make the program of one language."""
    return _BUILDERS[language]()


def jvm_flags(relay_port: int) -> list[str]:
    """Small heap, the made-up names from a hosts file, and all other connections through the relay."""
    hosts = OUT / "hosts"
    names = ("sls.emu", "demo.sls.emu", "localhost", socket.gethostname())
    hosts.write_text("".join(f"127.0.0.1 {name}\n" for name in names), encoding="utf-8")
    return [
        "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8",
        f"-Djdk.net.hosts.file={hosts}", "-DsocksProxyHost=127.0.0.1", f"-DsocksProxyPort={relay_port}",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    ]  # fmt: skip


def _python() -> Built:
    """The SDK stands in the environment; only zstd is an extra that it does not ask for itself."""
    extra = OUT / "python"
    if importlib.util.find_spec("zstd") is None and not (extra / "zstd").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        problem = _run([*pip, "--no-deps", "--target", str(extra), _ZSTD])
        if problem:
            return Built(broken=problem)
    return Built((sys.executable, "-m", "conformance.python"))


def _go() -> Built:
    if shutil.which("go") is None:
        return Built(missing="no go on the PATH")
    program = OUT / "go" / "conformance"
    # One compiler at a time and no C: kind to a small machine.
    command = ["go", "build", "-p", "1", "-o", str(program), "."]
    problem = _run(command, HERE / "go", {"CGO_ENABLED": "0"})
    return Built(broken=problem) if problem else Built((str(program),))


def _java() -> Built:
    absent = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if absent:
        return Built(missing=f"no {', '.join(absent)} on the PATH")
    out = OUT / "java"
    stamp, sources = out / ".built", [HERE / "java" / "pom.xml", *(HERE / "java" / "src").rglob("*.java")]
    if not stamp.exists() or stamp.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        command = ["mvn", "-q", "-B", "-f", str(HERE / "java" / "pom.xml"), f"-Dconformance.out={out}"]
        problem = _run([*command, "process-classes"])
        if problem:
            return Built(broken=problem)
        stamp.touch()
    return Built(("java", "-cp", f"{out / 'classes'}:{out / 'lib'}/*", "conformance.Main"))


def _openapi() -> Built:
    """Into a folder of its own: it comes with forty packages, and other versions of some that we use."""
    return _installed(
        OUT / "openapi",
        [HERE / "openapi" / "requirements.txt"],
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"],
        ["--target", ".", "-r", "requirements.txt"],
        (sys.executable, "-m", "conformance.openapi"),
    )


def _node_program(name: str) -> Built:
    if absent := [tool for tool in ("node", "npm") if shutil.which(tool) is None]:
        return Built(missing=f"no {', '.join(absent)} on the PATH")
    return _installed(
        NODE_MODULES.parent,
        [HERE / "node" / file for file in ("package.json", "package-lock.json")],
        ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"],
        [],
        ("node", "-r", str(HERE / "node" / "names.js"), str(HERE / "node" / name)),
    )


def _rust() -> Built:
    """The lock file has no place that crates come from: Cargo's own resolution says it."""
    if shutil.which("cargo") is None:
        return Built(missing="no cargo on the PATH")
    project = RUST / "project"
    shutil.copytree(HERE / "rust", project, dirs_exist_ok=True)
    lock = project / "Cargo.lock"
    if problem := _run(["cargo", "generate-lockfile", "--quiet"], project):
        return Built(broken=problem)
    places = {line for line in lock.read_text().splitlines() if line.startswith("source = ")}
    if len(places) != 1:
        return Built(broken="the crates come from several places: the pinned versions name one")
    pinned = (project / "pinned.lock").read_text()
    lock.write_text(pinned.replace("\nchecksum = ", f"\n{places.pop()}\nchecksum = "))
    command = ["cargo", "build", "--locked", "--quiet", "-j", "1", "--target-dir", str(RUST)]
    problem = _run(command, project)
    return Built(broken=problem) if problem else Built((str(RUST / "debug" / "conformance"),))


def _installed(
    folder: Path, pins: list[Path], install: list[str], more: list[str], command: tuple[str, ...]
) -> Built:
    """Install what the files of pins say into the folder, unless it is there already."""
    stamp, wanted = folder / ".installed", "".join(pin.read_text() for pin in pins)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for pin in pins:
            shutil.copy(pin, folder)
        if problem := _run([*install, *more], folder):
            return Built(broken=problem)
        stamp.write_text(wanted)
    return Built(command)


def _run(command: list[str], folder: Path = HERE, environment: dict[str, str] | None = None) -> str:
    """Empty when it succeeded, else its last lines."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return ""
    last = done.stdout.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
    return "\n".join([f"{command[0]} ended with {done.returncode}:", *last])


_BUILDERS: Mapping[str, Callable[[], Built]] = {
    "python": _python,
    "go": _go,
    "java": _java,
    "openapi": _openapi,
    "typescript": lambda: _node_program("openapi.js"),
    "node": lambda: _node_program("log.js"),
    "rust": _rust,
}
LANGUAGES = tuple(_BUILDERS)
