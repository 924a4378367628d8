"""What Spark's workers are forked from: memory that a page had is there for the next one."""

import platform
import subprocess
import sys

import pytest

ROUNDS, BLOCKS, BLOCK_BYTES = 10, 4, 16 * 1024 * 1024
FAULTS_A_ROUND = BLOCKS * BLOCK_BYTES // 4096
_PROGRAM = f"""
import resource, sys
from pipelines.landing.run.workers import keep_memory
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


def _run(how: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True
    ).stdout
