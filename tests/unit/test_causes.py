"""The text of `__error__`: bounded, and told apart by constants that no producer can write."""

import numpy as np
import pyarrow as pa
import pytest

from sls_io import causes
from sls_io.causes import CAUSES_MAX, Trouble


def test_a_row_with_very_many_causes_names_the_first_and_counts_the_others() -> None:
    trouble = Trouble()
    names = pa.array([f"k{n}" for n in range(2006)])
    codes = np.arange(2006)[::-1]
    trouble.note_names(np.zeros(2006, dtype=np.int64), codes, names, "repeated key {}", of_groups=False)
    parts = causes.split(trouble.text(int(trouble.of_rows(1)[0])))
    assert parts[0] == "repeated key k2005", "in the order in which they come"
    assert len(parts) == CAUSES_MAX + 1 and parts[-1] == "and 1,998 more"


def test_causes_of_the_group_are_counted_apart_and_say_whose_they_are() -> None:
    trouble = Trouble()
    trouble.note_names(
        np.repeat(3, 20), np.arange(20), pa.array(list("abcdefghijklmnopqrst")), "tag {} x", of_groups=True
    )
    parts = causes.split(trouble.group_text(int(trouble.of_groups(4)[3])))
    assert all(part.startswith(causes.GROUP_CAUSES) for part in parts)
    assert parts[-1] == "of its group: and 12 more"


@pytest.mark.parametrize("word", [*causes.UNREADABLE, *causes.GROUP_CAUSES, causes.WITHHELD])
def test_a_key_that_looks_like_a_cause_is_not_taken_for_one(word: str) -> None:
    shown = causes.named(word + "x")
    assert not shown.startswith((*causes.UNREADABLE, *causes.GROUP_CAUSES, causes.WITHHELD))


def test_a_key_cannot_end_a_cause_and_begin_another() -> None:
    assert causes.split(f"{causes.named('a; tag b')} is not UTF-8") == ["a, tag b is not UTF-8"]


def test_only_a_group_or_a_page_has_other_bytes_than_a_log() -> None:
    assert causes.holds_log("n is not long") and causes.holds_log(causes.UNREADABLE_LOG)
    assert causes.holds_log(causes.TOO_MANY_KEYS)
    for whole in (causes.UNREADABLE_GROUP, causes.UNREADABLE_PAGE, causes.TOO_MANY_TAGS):
        assert not causes.holds_log(f"{whole}; {causes.WITHHELD}")


def test_each_row_has_its_own_causes_in_the_order_in_which_they_were_found() -> None:
    rng = np.random.default_rng(3)
    trouble, names = Trouble(), pa.array([f"k{n}" for n in range(30)])
    found: dict[int, list[str]] = {row: [] for row in range(200)}
    for step in range(40):
        if step % 2:
            rows = np.flatnonzero(rng.random(200) < 0.3)
            trouble.note(rows, f"cause {step}")
            for row in rows.tolist():
                found[row].append(f"cause {step}")
            continue
        places, codes = np.sort(rng.integers(0, 200, 150)), rng.integers(0, 30, 150)
        trouble.note_names(places, codes, names, f"{step} {{}}", of_groups=False)
        for row in set(places.tolist()):
            named = dict.fromkeys(codes[places == row].tolist())
            found[row] += [f"{step} k{code}" for code in named]
    trouble.only(7, "nothing else")
    found[7] = ["nothing else"]
    for row, number in enumerate(trouble.of_rows(200).tolist()):
        shown, more = found[row][:CAUSES_MAX], len(found[row]) - CAUSES_MAX
        assert trouble.text(number) == "; ".join(shown + ([f"and {more:,} more"] if more > 0 else []))
