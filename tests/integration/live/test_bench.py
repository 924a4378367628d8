"""A landing beside the vendor's consumer: both tables hold the same, and every figure is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]


def test_a_landing_and_the_vendors_consumer_write_the_same_rows_and_every_figure_is_printed() -> None:
    needs.java()
    done = subprocess.run(
        [sys.executable, "-m", "bench.bench_ratio", "--mb", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout
    for who in ("sls-lake land", "consumer, usual", "consumer, careful"):
        assert re.search(rf"{who} +\d+\.\d+ CPU s +\d+\.\d s wall +\d+ MB memory", said), said
    for kind in ("command", "Java", "Python"):
        assert re.search(rf"sls-lake land .*{kind} \d", said), said
    assert re.search(r"each has 3,000 rows, content sum [0-9a-f]{16}", said), said
    for way in ("usual", "careful"):
        assert re.search(rf"whole, 1 MB: consumer, {way} / ours \d+\.\d\d", said), said
    assert re.search(r"CPU ms a raw MB:  pull [\d.]+  decode [\d.]+  cast [\d.]+  write [\d.]+", said), said
    assert re.search(r"once a landing, CPU ms: .*publish \d+", said), said
