"""A landing beside the vendor's consumer: both tables hold the same, and every figure is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.phases import OF_ROWS
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
    phases = "  ".join(rf"{name} [\d.]+" for name in OF_ROWS)
    assert re.search(rf"CPU ms a raw MB:  {phases}\n", said), said
    assert re.search(r"once a landing, CPU ms: .*publish \d+", said), said


@pytest.mark.parametrize(
    ("bench", "size", "told"),
    [
        ("bench_profile", ("--mb", "1"), (*OF_ROWS, "publish")),
        ("bench_read", ("--rows", "1000", "--hours", "2", "--reader", "duckdb"), ("duckdb, bloom",)),
    ],
)
def test_benches_that_start_no_spark_run_to_their_end(
    bench: str, size: tuple[str, ...], told: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{bench}", *size], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in told:
        assert re.search(rf"^{name}\b", done.stdout, re.MULTILINE), done.stdout
