"""Every small world of hours that are landed again, and deliberate bugs that the search must find."""

from collections import Counter

import pytest

from pipelines.landing.contents import slices
from pipelines.landing.operations import replace, undo
from tests.simulation.hours_again import SPANS, judge, judge_named, worlds
from tests.simulation.mutants import Bug, must_find

BUGS: tuple[Bug, ...] = (
    ("hours on their way are landed", slices.check_passed, "if passed or", "if True or"),
    ("removed rows come back", slices.check_not_forgotten, "if forgotten:", "if False:"),
    ("a file of two hours leaves", slices.whole_files, "len(found) > 1", "len(found) > 2"),
    ("adopted rows leave", slices.check_explained, "if beside and not adopted_too:", "if False:"),
    ("unreadable rows leave", undo.leaving, "lost and not (holed and kept_whole(held, hours))", "False"),
    ("the service is believed to have all", undo.kept_whole, "begin >= first and", "False and"),
    ("rows stay behind", undo.leaving, "slices.check_nowhere_else(held, taken, hours)", "None"),
    ("rows lie elsewhere already", replace.accepted, "slices.check_nowhere_else(held, fresh, hours)", "None"),
    ("what retention took is not looked at", replace.accepted, "_check_covered(left.taken, coming)", "None"),
    ("rows are not asked for", undo._taken, "[*extents, *held", "[*held"),
    ("the service is not asked for", undo._taken, "*held.edges.between(shard, hours)", ""),
    ("ends of cells are no rows", slices._among, "for at in (cell.first, cell.last)", "for at in ()"),
    ("a cell is not cut", slices._among, "if cursors.overlaps(cell.first, cell.last + 1):", "if False:"),
    ("adopted rows come again", replace.accepted, "if shard in adopted else shown", "if False else shown"),
)


def test_no_hour_is_landed_again_that_loses_or_doubles_a_row_and_none_is_refused_that_could_be() -> None:
    said = Counter(judge(world, hours) for world in worlds() for hours in SPANS)
    assert min(said[each] for each in ("accepted", "together", "elsewhere", "refused")) > 100, said


def test_hours_that_are_named_as_a_cure_can_be_landed_again_and_no_other_could() -> None:
    plain = (world for world in worlds() if (world.begin, world.case, world.lost) == (0, "", None))
    said = Counter(map(judge_named, plain))
    assert all(said[spans] for spans in (0, 1, 2)), said


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[0])
def test_the_search_finds(bug: Bug) -> None:
    must_find(bug, lambda: [judge(world, hours) for world in worlds() for hours in SPANS])
