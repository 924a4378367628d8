"""Rows that are there twice are found in the files that `overlaps` names, and nowhere else."""

import random
from collections import Counter

import numpy as np
import pytest

from pipelines.landing.contents.stretches import Identity, Stretch, joined, overlaps, stretches_of


def lying(*parts: list[Identity]) -> list[Stretch]:
    """The stretches of a file whose rows are read in these parts."""
    found = list[Stretch]()
    for part in parts:
        cursors, indexes = (np.array(column, dtype=np.int64) for column in zip(*part, strict=True))
        found = joined(found, stretches_of(cursors, indexes))
    return found


def test_rows_in_order_are_one_stretch_in_however_many_parts_they_are_read() -> None:
    assert lying([(5, 0), (5, 1)], [(5, 2)], [(8, 0), (9, 0)]) == [Stretch((5, 0), (9, 0))]
    assert lying([(5, 0), (5, 0)]) == [Stretch((5, 0), (5, 0))] * 2
    assert lying([(5, 1)], [(5, 0)]) == [Stretch((5, 1), (5, 1)), Stretch((5, 0), (5, 0))]


@pytest.mark.parametrize("parts", [1, 3, 1000])
def test_rows_in_no_order_are_kept_as_one_stretch_however_many_they_are(parts: int) -> None:
    rows = [(cursor, 0) for cursor in reversed(range(5000))]
    (stretch,) = lying(*(rows[at : at + 5000 // parts] for at in range(0, 5000, 5000 // parts)))
    assert stretch == Stretch((0, 0), (4999, 0), rising=False)
    (again,) = joined([stretch], [Stretch((6000, 0), (6001, 0))])
    assert again == Stretch((0, 0), (6001, 0), rising=False)


def test_stretches_that_touch_at_one_identity_are_held_against_one_another() -> None:
    there = {
        "s": [(Stretch((1, 0), (4, 0)), "a"), (Stretch((4, 0), (9, 0)), "b"), (Stretch((9, 1), (10, 0)), "c")]
    }
    (found,) = overlaps(there)
    assert (set(found.keys), set(found.files)) == ({"s"}, {"a", "b"})


def test_files_that_share_a_file_are_read_together_and_once() -> None:
    one, two = Stretch((1, 0), (4, 0)), Stretch((2, 0), (6, 0))
    there = {"s": [(one, "a"), (two, "b")], "t": [(one, "b"), (two, "c")], "u": [(one, "d"), (two, "e")]}
    found = sorted((sorted(each.keys), sorted(each.files)) for each in overlaps(there))
    assert found == [(["s", "t"], ["a", "b", "c"]), (["u"], ["d", "e"])]


@pytest.mark.parametrize("seed", range(300))
def test_what_is_twice_lies_in_files_that_are_named(seed: int) -> None:
    dice = random.Random(seed)
    files = dict[str, dict[int, list[Identity]]]()
    for name in "abcdef"[: dice.randrange(1, 7)]:
        files[name] = {}
        for shard in range(dice.randrange(1, 3)):
            first = dice.randrange(60)
            rows = [(first + dice.randrange(8), dice.randrange(3)) for _ in range(dice.randrange(1, 12))]
            files[name][shard] = sorted(set(rows)) if dice.random() < 0.8 else rows
    there = {
        shard: [
            (each, name) for name, those in files.items() if shard in those for each in lying(those[shard])
        ]
        for shard in range(2)
    }
    groups = overlaps(there)
    assert len({name for group in groups for name in group.files}) == sum(len(g.files) for g in groups)

    def doubled(names: set[str], shard: int) -> int:
        rows = Counter(row for name in names for row in files[name].get(shard, []))
        return rows.total() - len(rows)

    for shard in range(2):
        named = sum(doubled(set(g.files), shard) for g in groups if shard in g.keys)
        assert named == doubled(set(files), shard)
    if all(each.rising for those in there.values() for each, _ in those):
        ends = [(shard, each.first, each.last) for shard, those in there.items() for each, _ in those]
        apart = all(x[0] != y[0] or x is y or x[2] < y[1] or y[2] < x[1] for x in ends for y in ends)
        assert apart == (not groups)
