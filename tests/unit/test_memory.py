"""What a process keeps of the memory that it has freed."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

_PAGES = """
import resource
from pipelines.landing.memory import keep_memory
kept = {kept}
for _ in range(3):
    bytearray(8_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytes(bytearray(8_000_000))
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(kept: str, **more: str) -> tuple[str, int]:
    """(what `keep_memory` said, how often the system had to hand over memory for twenty pages)."""
    environment: Mapping[str, str] = {k: v for k, v in os.environ.items() if "MALLOC" not in k}
    done = subprocess.run(
        [sys.executable, "-c", _PAGES.format(kept=kept)],
        env={**environment, **more},
        capture_output=True,
        text=True,
        check=True,
    )
    said, count = done.stdout.split()
    return said, int(count)


def test_pages_are_decoded_in_memory_that_the_process_has() -> None:
    said, kept = faults("keep_memory()")
    if said == "False":
        pytest.skip("another C library than glibc")
    given_back = {"MALLOC_MMAP_THRESHOLD_": "131072"}
    _, plain = faults("None", **given_back)
    assert kept < plain / 10, "each page of memory is asked for once"
    assert faults("keep_memory()", **given_back)[0] == "False", "whoever chose by the variable keeps that"
