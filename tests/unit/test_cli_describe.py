"""`sls-lake describe`: what people read of the runway and of the files per hour."""

import io
from typing import Any

import pytest

from pipelines.cli.describe import HOURS_SHOWN, show, show_files
from pipelines.cli.output import Output
from pipelines.landing.inspection.describe import ShardView
from pipelines.landing.inspection.runway import CURE, Runway, ShardRunway
from pipelines.landing.inspection.table_files import HourFiles
from pipelines.landing.logstore import Logstore
from pipelines.landing.watch.health import TimeLeft, Vitals
from sls_io.values.window import Cursor

DAY = 24 * 3600.0
LOGSTORE = Logstore.model_validate(
    {
        "service": {"endpoint": "http://127.0.0.1:9", "project": "demo", "logstore": "access_logs"},
        "group": "lake",
        "table": "bronze.access_logs",
        "start": "2026-11-20-00:00",
    }
)


def view(shard: int) -> ShardView:
    return ShardView(shard, "readwrite", "", None, Cursor(5), Cursor(9), 10, 1_790_000_000, 60.0, False)


def facts(left: Runway) -> Vitals:
    return Vitals(runway=TimeLeft(left))


def said(left: Runway) -> str:
    shown = io.StringIO()
    show(Output(as_json=False, file=shown), LOGSTORE, [view(s.shard) for s in left.shards], facts(left))
    return shown.getvalue()


def test_a_short_runway_is_said_with_its_shard_and_the_cure() -> None:
    text = said(Runway("bronze.x", 30 * DAY, (ShardRunway(0, 1, 20 * DAY), ShardRunway(1, 1, 2 * DAY))))
    assert "runway warns: shard 1: its oldest log not landed is deleted in 2.0 d" in text
    assert "20.0 d" in text
    assert CURE in " ".join(text.split())


def test_a_long_runway_is_one_line_and_no_alarm() -> None:
    text = said(Runway("bronze.x", 30 * DAY, (ShardRunway(0, 1, 20 * DAY),)))
    assert "runway: the oldest log that is not landed has 20.0 d of 30.0 d left" in text
    assert CURE not in " ".join(text.split())


def test_lost_logs_are_called_lost() -> None:
    text = said(Runway("bronze.x", 30 * DAY, (ShardRunway(0, lost=True),)))
    assert "runway fails: shard 0: retention took logs that had not landed" in text


def test_the_newest_hours_are_shown_first_and_the_others_are_counted() -> None:
    shown = io.StringIO()
    hours = tuple(HourFiles("x-1", 490_000 + n, 2, 1_000, 5_000_000) for n in range(HOURS_SHOWN + 6))
    show_files(Output(as_json=False, file=shown), hours)
    lines = [line.split() for line in shown.getvalue().splitlines()]
    keys = [line[0] for line in lines if line and line[0].startswith("20")]
    assert len(keys) == HOURS_SHOWN
    assert keys == sorted(keys, reverse=True)
    assert "and 6 older hours: 12 files, 6,000 rows, 30.0 MB" in shown.getvalue()


def test_a_table_without_files_says_nothing_about_them() -> None:
    shown = io.StringIO()
    show_files(Output(as_json=False, file=shown), ())
    assert shown.getvalue() == ""


CURSOR = Cursor(1_690_000_000_000_000_123)
BUSY = ShardView(
    7, "readwrite", "sls-lake", CURSOR, CURSOR, Cursor(CURSOR + 9), 10**6, 1_790_000_000, 3800.0, False
)


def table_of(**options: Any) -> list[str]:
    shown = io.StringIO()
    left = Runway("bronze.x", 30 * DAY, (ShardRunway(7, 1, 20 * DAY),))
    show(Output(file=shown, **options), LOGSTORE, [BUSY], facts(left))
    return shown.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_narrow_terminal_has_fewer_columns_and_no_broken_cursor(width: int) -> None:
    lines = table_of(width=width)
    (row,) = [line for line in lines if line.strip().startswith("7 ")]
    assert len(row.rstrip()) <= width
    assert "1,000,000" in row and "20.0 d" in row and "open" in row
    (told,) = [line for line in lines if "--wide shows all" in line]
    assert "frontier" in told
    heads = next(line for line in lines if "runway" in line)
    assert set(heads.split()) >= {"shard", "state", "rows", "lag"}


@pytest.mark.parametrize("options", [{}, {"width": 80, "wide": True}, {"width": 200}])
def test_what_is_wide_enough_or_no_terminal_has_every_column_in_whole_lines(options: dict[str, Any]) -> None:
    lines = table_of(**options)
    (row,) = [line for line in lines if line.strip().startswith("7 ")]
    assert str(CURSOR) in row and str(CURSOR + 9) in row and "2026-09-21 14:13:20" in row
    assert not any("--wide" in line for line in lines)


def test_a_table_is_measured_by_its_longest_cells_wherever_they_stand() -> None:
    """Columns are left out by the width of all rows, also of those with markup and with several lines."""
    rows = [("1", "x" * 30, ""), ("1" * 20, "", ""), ("2", "[red]short[/]", "first\n" + "y" * 25)]
    needed = 20 + 30 + 25 + 2 * 3 + 2  # three columns between, one at each edge

    def lines(width: int) -> str:
        shown = io.StringIO()
        Output(file=shown, width=width).table(["a", "b", "c"], rows, less=("b",))
        return shown.getvalue()

    assert "x" * 30 in lines(needed) and "--wide" not in lines(needed)
    assert "x" not in lines(needed - 1) and "without b" in lines(needed - 1)
