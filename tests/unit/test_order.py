"""The order of test files: which come first, and that the list names files that are there."""

from tests.order import LONGEST, ROOT, longest_first


def test_every_file_of_the_list_is_there() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_the_longest_files_come_first_and_the_others_keep_their_order() -> None:
    others = [ROOT / "tests" / name for name in ("b.py", "a.py")]
    longest = [ROOT / name for name in LONGEST]
    mixed = [others[0], *reversed(longest), others[1], longest[0]]
    assert longest_first(mixed, lambda path: path) == [longest[0], *longest, *others]
