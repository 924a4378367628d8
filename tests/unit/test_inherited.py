"""A shell that works with a lake runs the tests as any other does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli.demo.sandbox import Sandbox
from tests.inherited import forget, is_foreign

ROOT = Path(__file__).resolve().parents[2]
LAKES = "tests/unit/test_cli_json.py"
"""Verbs that ask for the lake of their environment."""


def lived_in(home: Path) -> dict[str, str]:
    """What a shell has after `. var/dev/env`, with everything that dev can start."""
    remote = "sc://127.0.0.1:9/;session_id=5a0e4b51-57a1-4a1a-8dd5-8a0b4c7a8e11"
    (home / "env").write_text(Sandbox(home, 9, remote, "http://127.0.0.1:9").exports())
    line = f'. "{home}/env"; env -0'
    bare = {"PATH": os.environ["PATH"], "HOME": str(home)}
    said = subprocess.run(["sh", "-c", line], env=bare, capture_output=True, text=True, check=True).stdout
    return dict(entry.split("=", 1) for entry in said.split("\0") if entry)


def test_the_tests_pass_in_a_shell_that_has_the_environment_of_dev(tmp_path: Path) -> None:
    own = ["-o", f"cache_dir={tmp_path}/cache"]
    command = [sys.executable, "-m", "pytest", LAKES, "-k", "state_folder", *own]
    done = subprocess.run(
        command, cwd=ROOT, env=lived_in(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "100%" in done.stdout
    assert not (tmp_path / "lake").exists(), "a test went to somebody's lake"


def test_no_variable_that_dev_sets_reaches_a_test(tmp_path: Path) -> None:
    environment = lived_in(tmp_path)
    ours = set(environment) - {"PATH", "HOME", "PWD", "OLDPWD", "SHLVL", "_"}
    assert {"SLS_LAKE_HOME", "SLS_SPARK_REMOTE", "DAGSTER_WEBSERVER_URL"} < ours
    assert {name for name in ours if not is_foreign(name)} == set()
    forget(environment)
    assert ours & set(environment) == {"DAGSTER_DISABLE_TELEMETRY"} and "PATH" in environment


def test_what_the_suite_is_told_by_its_own_names_stays() -> None:
    told = {"HYPOTHESIS_PROFILE", "SCHEDULES", "SCREENSHOTS", "CI", "JAVA_HOME", "HTTPS_PROXY"}
    environment = dict.fromkeys(told, "x") | {"SLS_OF_A_LATER_RELEASE": "x", "HTTP_PROXY": "x"}
    forget(environment)
    assert set(environment) == told | {"LAKE_FORGOTTEN", "DAGSTER_DISABLE_TELEMETRY"}


@pytest.mark.parametrize("program", ["fuzz", "chaos", "bench", "bench.bench_describe"])
def test_fuzz_chaos_and_benches_forget_before_anything_else_and_their_children_keep_what_they_are_given(
    tmp_path: Path, program: str
) -> None:
    """What a library has read while it was imported cannot be forgotten any more: PyIceberg does so."""
    shown = f"""
import runpy, subprocess, sys, os
foreign = lambda: [name for name in os.environ if name.startswith(("SLS_", "PYICEBERG_", "DAGSTER_WEB"))]
sys.argv[1:] = ["--help"]
try:
    runpy.run_module({program!r}, run_name="__main__", alter_sys=True)
except SystemExit:
    pass
from pyiceberg.catalog import _ENV_CONFIG
os.environ["SLS_LAKE_HOME"] = "of the parent"
child = [sys.executable, "-c", "import {program}, os; print(os.environ['SLS_LAKE_HOME'])"]
kept = subprocess.run(child, capture_output=True, text=True, check=True).stdout.strip()
print([_ENV_CONFIG.config, foreign(), kept])
"""
    environment = lived_in(tmp_path) | {"PYICEBERG_CATALOG__LAKE__URI": "sqlite:////somebodys.sqlite"}
    done = subprocess.run(
        [sys.executable, "-c", shown], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[{}, ['SLS_LAKE_HOME'], 'of the parent']"


def test_the_environment_of_dev_says_where_dagsters_page_is(tmp_path: Path) -> None:
    (tmp_path / "env").write_text(Sandbox(tmp_path, 9, "", "http://127.0.0.1:3456").exports())
    line = '. ./env; echo "$DAGSTER_WEBSERVER_URL"'
    shown = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout == "http://127.0.0.1:3456\n"
