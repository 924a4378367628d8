"""Every small world of hours that are landed again, and deliberate bugs that the search must find."""

from collections import Counter
from collections.abc import Iterator

import pytest

from pipelines.landing.contents import slices
from pipelines.landing.operations import replace, undo
from tests.simulation.hours_again import SPANS, Hours, judge, judge_later, judge_named, worlds
from tests.simulation.mutants import Bug, must_find

BUGS: tuple[Bug, ...] = (
    ("hours on their way are taken back", slices.not_passed, "if passed or", "if True or"),
    ("what nobody has got to is landed", replace.passed, "[(0, entry.frontier)]", "[(0, CURSOR_UNKNOWN)]"),
    ("removed rows come back", slices.check_not_forgotten, "if forgotten:", "if False:"),
    ("a file of two hours leaves", slices.whole_files, "len(found) > 1", "len(found) > 2"),
    ("adopted rows leave", slices.check_explained, "if beside and not adopted_too:", "if False:"),
    ("unreadable rows leave", undo.leaving, "lost and not (holed and kept_whole(held, hours))", "False"),
    ("the service is believed to have all", undo.has_whole, "begin < first or", "True or"),
    ("rows stay behind", undo.leaving, "slices.check_nowhere_else(held, taken, hours)", "None"),
    ("rows lie elsewhere already", replace.accepted, "slices.check_nowhere_else(held, fresh, hours)", "None"),
    ("what retention took is not looked at", replace.accepted, "_check_covered(left.taken, coming)", "None"),
    ("rows are not asked for", undo._taken, "[*extents, *held", "[*held"),
    ("the service is not asked for", undo._taken, "*held.edges.between(shard, hours)", ""),
    ("ends of cells are no rows", slices._among, "for at in (cell.first, cell.last)", "for at in ()"),
    ("a cell is not cut", slices._among, "if cursors.overlaps(cell.first, cell.last + 1):", "if False:"),
    ("adopted rows come again", replace.passed, "if shard in strange else reached", "if False else reached"),
)


def test_no_hour_is_landed_again_that_loses_or_doubles_a_row_and_none_is_refused_that_could_be() -> None:
    said = Counter(judge(world, hours) for world in worlds() for hours in SPANS)
    assert min(said[each] for each in ("accepted", "together", "elsewhere", "refused")) > 100, said


def test_hours_that_are_named_as_a_cure_can_be_landed_again_and_no_other_could() -> None:
    plain = (world for world in worlds() if (world.begin, world.case, world.lost) == (0, "", None))
    said = Counter(map(judge_named, plain))
    assert all(said[spans] for spans in (0, 1, 2)), said


LATER: tuple[Bug, ...] = (
    ("what landed since leaves", undo._as_looked_at, "if since else files", "if False else files"),
    ("both in one file leave", slices.files_without, "if old and new:", "if False:"),
    ("what landed since is withdrawn", undo._as_looked_at, "each.minus(since.get(shard, none))", "each"),
    ("what was looked at stays", slices.files_without, "if not new:", "if not old:"),
)


def running() -> Iterator[tuple[Hours, range]]:
    """Worlds with an hour that runs, as far as one more cursor of it may land."""
    for world in worlds():
        if world.frontier == 3 and not world.case:
            yield from ((world, hours) for hours in SPANS[1:])


def test_what_lands_while_an_hour_is_pulled_stays_and_what_was_looked_at_leaves() -> None:
    said = Counter(judge_later(world, hours) for world, hours in running())
    assert all(said[each] for each in ("left", "refused")), said


@pytest.mark.parametrize("bug", LATER, ids=lambda bug: bug[0])
def test_the_search_finds_while_an_hour_grows(bug: Bug) -> None:
    must_find(bug, lambda: [judge_later(world, hours) for world, hours in running()])


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[0])
def test_the_search_finds(bug: Bug) -> None:
    must_find(bug, lambda: [judge(world, hours) for world in worlds() for hours in SPANS])
