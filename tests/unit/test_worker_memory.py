"""What a process that decodes keeps: memory that a page had is there for the next one."""

import os
import platform
import subprocess
import sys

import pytest

ROUNDS, BLOCKS, BLOCK_BYTES = 10, 4, 16 * 1024 * 1024
FAULTS_A_ROUND = BLOCKS * BLOCK_BYTES // 4096
_PROGRAM = f"""
import resource, sys
from pipelines.landing.task_storage import keep_memory
kept = sys.argv[1] == "kept" and keep_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    blocks = [b"x" * {BLOCK_BYTES} for _ in range({BLOCKS})]
    del blocks
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_a_freed_block_is_not_asked_of_the_system_again() -> None:
    kept, asked = _run("kept").split()

    assert kept == "True"
    assert int(asked) < 2 * FAULTS_A_ROUND
    # Left alone, the library gives the blocks back each time.
    assert int(_run("left").split()[1]) > ROUNDS // 2 * FAULTS_A_ROUND


def test_whoever_chose_by_the_librarys_own_variable_keeps_that() -> None:
    assert _run("kept", MALLOC_TRIM_THRESHOLD_="131072").split()[0] == "False"


def _run(how: str, **chosen: str) -> str:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, how],
        env={**plain, **chosen},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
