"""The demo itself, at small size, as somebody runs it: a process, its output, its exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sls_io.emulator import start
from tests.snippets import READ, snippet

ROOT = Path(__file__).resolve().parents[3]
LINE = '10.0.0.{n} - - [17/May/2015:10:05:03 +0000] "GET /{n} HTTP/1.1" {status} {n} "-" "curl/8"\n'

pytestmark = [pytest.mark.dagster, pytest.mark.spark, pytest.mark.slow]


def demo(home: Path, *arguments: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `sls-lake demo` in a home of its own."""
    command = [sys.executable, "-c", "from pipelines.cli.main import main; main()", "demo"]
    done = subprocess.run(
        [*command, "--home", str(home), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_lines_of_a_file_end_in_a_proof_that_each_landed_once(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    lines = [LINE.format(n=n % 250, status=200 + n % 3) for n in range(599)]
    path.write_text("".join(lines) + "half a line\n")
    code, said, errors = demo(tmp_path / "var" / "demo", "--logs", str(path))
    assert code == 0, errors + said
    assert "500 + 100 rows in the service, 600 in the table, each once, with the same content" in said
    assert "1 lines did not have the format: kept whole under the key `line`" in said
    # The file itself, read anew by nothing of the loader.
    assert "600 records in the file, 600 in the service, each once, with the same content" in said
    assert "1,797 values are null, or `-` in the place of one, and are not sent" in said
    assert "verified: 600 rows" in said
    # Each batch says what it landed itself: together that is the file, each line once.
    assert (
        sum(int(n) for n in re.findall(r"^micro-batch +([\d,]+) new rows", said, flags=re.MULTILINE)) == 600
    )
    assert re.search(r"were there, none was missing, 0 landed", said)
    assert "then shards 4 and 5: what a split made is read once" in said, said
    assert "6 of 6 tests passed" in said
    assert "Traceback" not in errors
    # The table is the file's own.
    assert "read access.log as combined: 9 keys make the table bronze.access" in said, said
    assert (
        "SELECT `status`, count(*)" in said
        and "timestamp"
        in (
            tmp_path / "var" / "demo" / "demo_project" / "demo_project" / "defs" / "access" / "defs.yaml"
        ).read_text()
    )


def test_a_landed_file_that_is_gone_ends_red(tmp_path: Path) -> None:
    home = tmp_path / "var" / "demo"
    code, said, errors = demo(home, "--rows", "500", "--break-one-file", "--json")
    story: dict[str, Any] = json.loads(said)
    assert code == 1, errors + said
    audit = story["audit"]
    assert audit["stored"] == 600
    assert audit["missing"] == 600 - audit["landed"] > 0
    assert audit["same"] == audit["landed"]
    assert len(audit["files_gone"]) == 1
    assert not audit["ok"] and not story["verified"]
    assert sum(hour["rows"] for hour in story["hours"]) == 600

    # What verify names is typed where all of it lives.
    env = home / "env"
    (port,) = re.findall(r"SLS_ENDPOINT=http://127.0.0.1:(\d+)", env.read_text())
    with start(home / "emulator", port=int(port)):
        for words, code in (("verify", 1), ("table give-up --execute", 0), ("verify", 0)):
            done = subprocess.run(
                ["sh", "-c", f". {env}; sls-lake {words}"], capture_output=True, text=True, check=False
            )
            assert done.returncode == code, done.stdout + done.stderr
    # The README's way to read the table.
    read = [sys.executable, "-c", snippet(READ)]
    rows = subprocess.run(read, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "latency_ms" in rows and len(rows.splitlines()) == 6


def test_a_folder_that_is_not_the_demos_is_never_emptied(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("dear")
    code, said, errors = demo(tmp_path, "--rows", "10")
    assert code == 2
    assert said == ""
    assert "holds something else" in errors
    assert (tmp_path / "letters").read_text() == "dear"
