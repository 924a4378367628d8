"""Tables of the command line look as if each row had been drawn by itself, however many there are."""

import io
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from pipelines.cli.output import Output

HEADS = ["name", ">amount", "what"]
CELLS = st.one_of(
    st.text(st.characters(exclude_categories=["C"]), max_size=8),
    st.sampled_from(["", " ", "[red]late[/]", "two\nlines", "日志", "a\tb", ":warning:", "x" * 30]),
)


def drawn(rows: Sequence[Sequence[str]], *, width: int, wide: bool = False) -> str:
    file = io.StringIO()
    Output(file=file, width=width, wide=wide).table(HEADS, rows)
    return file.getvalue()


def row_by_row(rows: Sequence[Sequence[str]], *, width: int) -> str:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in HEADS:
        table.add_column(
            head.removeprefix(">"), justify="right" if head.startswith(">") else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*row)
    file = io.StringIO()
    Console(file=file, width=width, emoji=False).print(table, highlight=False)
    return file.getvalue()


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=12), width=st.sampled_from([20, 60, 200]))
def test_rows_look_as_if_each_were_drawn_by_itself(rows: list[tuple[str, str, str]], width: int) -> None:
    try:
        expected = row_by_row(rows, width=width)
    except Exception as error:  # Markup that rich refuses: `[/]` that closes nothing.
        with pytest.raises(type(error)):
            drawn(rows, width=width)
    else:
        assert drawn(rows, width=width) == expected


def test_rows_without_markup_are_lines_of_one() -> None:
    rows = [[f"shard {number}", str(number), "open"] for number in range(300)]
    rows[7][2] = "[red]gone[/]"

    lines = drawn(rows, width=80).splitlines()

    assert [line.split() for line in lines if line.lstrip().startswith("shard")] == [
        ["shard", str(n), str(n), "gone" if n == 7 else "open"] for n in range(300)
    ]


def test_a_roles_name_stays_what_it_is() -> None:
    file = io.StringIO()
    output, arn = Output(file=file, width=80), "acs:ram::1234:role/lake"
    output.say(arn)
    output.table(HEADS, [(arn, "1", ":warning:")])
    assert file.getvalue().count(arn) == 2 and ":warning:" in file.getvalue()
