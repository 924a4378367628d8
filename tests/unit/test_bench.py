"""What the benches share: who is counted, how a ratio is reckoned, the history of figures."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench import history
from bench.bench_ratio import OURS, Size, compared
from bench.processes import Spent, measured

BURN_S = 0.4
_ORPHAN = f"""
import os, time
ready, tell = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:  # nobody waits for it, so nobody's account has what it spends
        while time.process_time() < {BURN_S / 2}: pass
        os.write(tell, b".")
        while time.process_time() < {BURN_S}: pass
    else:
        os.read(ready, 1)
    os._exit(0)
os.wait()
print("said")
"""


def test_a_process_whose_parent_is_gone_is_counted() -> None:
    spent = measured([sys.executable, "-c", _ORPHAN])

    assert spent.said == "said\n"
    assert spent.cpu_s["Python"] > BURN_S / 2
    assert spent.all_cpu_s == sum(spent.cpu_s.values())
    assert spent.peak_bytes > 1_000_000


def test_a_command_that_fails_ends_the_bench() -> None:
    with pytest.raises(SystemExit, match="ended with 3: its last words"):
        measured([sys.executable, "-c", "print('its last words'); raise SystemExit(3)"])


def test_marginal_is_the_slope_between_the_smallest_and_the_largest_size(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def size(raw_mb: float, ours_s: float, usual_s: float) -> Size:
        spent = {
            who: Spent({"command": s}, 1.0, 2_000_000, "") for who, s in ((OURS, ours_s), ("usual", usual_s))
        }
        return Size(raw_mb, 1000, spent)

    figures = compared([size(50, 8, 6), size(200, 9, 14), size(400, 11.5, 41)])

    assert figures["usual_whole_ratio"] == pytest.approx(41 / 11.5)
    assert figures["usual_marginal_ratio"] == pytest.approx(10.0)
    assert figures["ours_marginal_cpu_ms_per_mb"] == pytest.approx(10.0)
    assert figures["usual_marginal_cpu_ms_per_mb"] == pytest.approx(100.0)
    said = capsys.readouterr().out
    assert "whole, 400 MB: consumer, usual / ours 3.57" in said
    assert "marginal, 50 to 400 MB: consumer, usual / ours 10.00" in said


def test_one_size_has_no_slope(capsys: pytest.CaptureFixture[str]) -> None:
    spent = Spent({"command": 2.0}, 1.0, 2_000_000, "")

    figures = compared([Size(50, 1000, {OURS: spent, "usual": spent})])

    assert figures["usual_whole_ratio"] == 1.0
    assert not any("marginal" in name for name in figures)
    assert "marginal" not in capsys.readouterr().out


def test_what_is_recorded_is_shown_a_table_a_bench_and_a_line_a_run(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    history.record("one", {"a_s": 1.23456, "b_mb": 7.0}, path=path)
    history.record("two", {"c_ms": 5.0}, path=path)
    history.record("one", {"a_s": 2.0}, path=path)

    runs = [json.loads(line) for line in path.read_text().splitlines()]
    assert [run["figures"] for run in runs] == [{"a_s": 1.235, "b_mb": 7.0}, {"c_ms": 5.0}, {"a_s": 2.0}]
    assert {"bench", "date", "commit", "machine", "load", "figures"} == set(runs[0])
    assert runs[0]["machine"]["cores"] > 0 and runs[0]["machine"]["memory_gb"] > 0
    shown = history.tables(path)
    assert [table.title for table in shown] == ["one", "two"]
    assert [table.row_count for table in shown] == [2, 1]
    printed = io.StringIO()
    Console(width=200, file=printed).print(shown[0])
    assert "1.235" in printed.getvalue()


def test_the_history_of_the_repository_can_be_read() -> None:
    assert all(table.row_count for table in history.tables())
