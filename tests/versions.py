"""The ranges of `pyproject.toml`, tried at both ends: by hand, and before a release.

    var/venv/bin/python -m tests.versions             both
    var/venv/bin/python -m tests.versions oldest      the lowest version of each package that is named there
    var/venv/bin/python -m tests.versions newest

Each end is resolved and installed with the wheel into an environment of its own outside of the checkout (1.3
GB, removed again). Then it lands a small file: `sls-lake init`, and `sls-lake demo --logs`, which lands by
Dagster and Spark, builds dbt's view, and proves the table against the file. The demo lies on a disk, so a
client of an object store is made beside. Ends with 1 where one fails.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.landing.spark.session import require_jars
from tests.inherited import is_foreign
from tests.snippets import ROOT
from tests.worlds.wheel import wheel

ENDS = {"oldest": "lowest-direct", "newest": "highest"}
SHOWN = "dagster pyspark dbt-core dbt-spark pyiceberg pyarrow pandas numpy protobuf sqlalchemy click".split()
PROVEN = "3 records in the file, 3 in the service, each once"
_CLIENT = """from pipelines.landing.table.object_store import file_io
told = {"s3.endpoint": "http://127.0.0.1:9", "s3.region": "us-east-1", "s3.anonymous": "true"}
file_io(told, "s3://lake/file").fs_by_scheme("s3", "lake")
"""
_LINES = (
    "time,order_no,amount",
    "2026-11-20T10:00:00Z,A-1,19.90",
    "2026-11-20T10:00:05Z,A-2,5.00",
    "2026-11-20T10:00:09Z,A-3,112.35",
)


def said(command: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> str:
    """What a program says. Raises CalledProcessError with it where the program fails."""
    kept = {name: value for name, value in os.environ.items() if not is_foreign(name)}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, [str(word) for word in command], done.stdout)
    return done.stdout


def index() -> dict[str, str]:
    """Where uv finds packages: what pip was told."""
    names = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "find-links": "UV_FIND_LINKS",
        "cert": "SSL_CERT_FILE",
    }
    listed = said([sys.executable, "-m", "pip", "config", "list"], ROOT, {})
    told = re.findall(r"^(?:global|:env:)\.([\w-]+)='(.+)'$", listed, flags=re.MULTILINE)
    return {names[name]: value for name, value in told if name in names}


def tried(end: str, folder: Path, made: Path) -> dict[str, str]:
    """Package -> version of that end, which has landed and proven a file."""
    uv: list[str | Path] = [Path(sys.executable).parent / "uv", "pip"]
    programs, listed, project = folder / "env" / "bin", folder / "listed.txt", folder / "lakehouse"
    compiling = ["--python", sys.executable, "--extra", "dbt", "--resolution", ENDS[end], "--no-annotate"]
    said([*uv, "compile", "--quiet", *compiling, ROOT / "pyproject.toml", "-o", listed], folder, index())
    venv.create(folder / "env", with_pip=False)
    into: list[str | Path] = ["install", "--quiet", "--python", programs / "python"]
    said([*uv, *into, "-r", listed], folder, index())
    said([*uv, *into, "--no-deps", made], folder, index())
    (project / "var" / "jars").mkdir(parents=True)
    for jar in require_jars():
        shutil.copy(jar, project / "var" / "jars")
    (folder / "orders.csv").write_text("\n".join(_LINES) + "\n", encoding="utf-8")
    around = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "DO_NOT_TRACK": "1"}
    said([programs / "python", "-c", _CLIENT], project, around)
    said([programs / "sls-lake", "init", "."], project, around)
    proof = said([programs / "sls-lake", "demo", "--logs", folder / "orders.csv"], project, around)
    if PROVEN not in proof:
        raise subprocess.CalledProcessError(1, ["sls-lake", "demo"], proof)
    return dict(re.findall(r"^([\w-]+)==(\S+)", listed.read_text(encoding="utf-8"), flags=re.MULTILINE))


def main(ends: Sequence[str]) -> int:
    """One end after the other; 0 where all of them land."""
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        made = wheel(Path(name))
        for end in ends:
            folder = Path(name) / end
            folder.mkdir()
            try:
                found = tried(end, folder, made)
                versions = "  ".join(f"{package} {found[package]}" for package in SHOWN)
                sys.stdout.write(f"{end}: landed and proven with {versions}\n")
            except subprocess.CalledProcessError as error:
                failed = 1
                sys.stdout.write(
                    f"{end}: {' '.join(error.cmd)} ended with {error.returncode}\n{error.output}\n"
                )
            shutil.rmtree(folder)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*ENDS]))
