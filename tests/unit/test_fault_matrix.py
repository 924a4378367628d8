"""The fault matrix is whole, and its page is what the marks on the tests say."""

from pathlib import Path

from tests.fault_matrix import PAGE, cells, complaints, drawn, marks


def test_every_cell_has_a_test_or_a_reason_and_no_mark_names_another() -> None:
    assert complaints() == []


def test_the_page_is_drawn_from_the_marks() -> None:
    """After a change: `python -m tests.fault_matrix --write`."""
    assert PAGE.read_text(encoding="utf-8") == drawn()


def test_the_matrix_has_its_cells() -> None:
    processes = [cell for cell in cells() if cell.startswith("4a.")]
    assert len(processes) == 10 * 9
    assert len(cells()) - len(processes) == 40


def test_marks_are_read_from_tests_and_from_single_cases_of_tests() -> None:
    found = marks(Path(__file__).parents[1] / "faults")
    assert "tests/faults/test_processes.py::test_killed_at[survey]" in found["4a.2.kill"]
