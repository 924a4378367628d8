"""Every small history of three landings: which of them a table can be put back to, and deliberate bugs.

Each landing brought a row and a file more. It holds the rows that it knows, lacks one, has one of nobody, or
both; its texts or manifests are damaged, or it does not say how many rows it has. A file may be gone, a row
have been removed for good at any time, row-level deletes hide rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from pipelines.landing.ledger import ways_back
from pipelines.landing.ledger.values import Forgotten, Gone
from sls_io.values.errors import LedgerBroken
from sls_io.values.window import IntervalSet
from tests.simulation.mutants import Bug, Wrong, must_find

REMOVED = Forgotten({("o", 0): Gone(1, 1, IntervalSet.of([(1, 2)]))})
KINDS = ("whole", "holed", "strange", "swapped", "damaged", "unlisted", "untold")


@dataclass(frozen=True)
class Toy:
    """A landing, the number `at`; `asked` is what was dear to say."""

    at: int
    kind: str
    after_removal: bool = True
    gone_file: int | None = None
    hides: bool = False
    asked: list[str] = field(default_factory=list)

    @property
    def knows(self) -> frozenset[int]:
        return frozenset(range(1 if self.after_removal else 0, self.at + 2))

    @property
    def rows(self) -> frozenset[int]:
        lacks = {self.at + 1} if self.kind in ("holed", "swapped") else set[int]()
        return (self.knows - lacks) | ({99} if self.kind in ("strange", "swapped") else set())

    @property
    def removed(self) -> Forgotten:
        return REMOVED if self.after_removal else Forgotten()

    @property
    def listed(self) -> frozenset[str] | None:
        return None if self.kind == "unlisted" else frozenset(map(str, range(self.at + 1)))

    @property
    def gone(self) -> frozenset[str]:
        self.asked.append("files")
        return (self.listed or frozenset()) & {str(self.gone_file)}

    @property
    def shown(self) -> int | None:
        self.asked.extend(["rows"] * self.hides)
        return None if self.kind == "untold" else len(self.rows)

    @property
    def known(self) -> int:
        if self.kind == "damaged":
            raise LedgerBroken("a text that nobody can read", cures=())
        return len(self.knows)

    @property
    def missing(self) -> int:
        return self.known - (self.shown or 0)

    @property
    def good(self) -> bool:
        """Whether going back to it gives a table that its ledgers explain, and no removed row."""
        return self.kind == "whole" and self.after_removal and not self.gone


def landing(at: int, kind: str, **more: Any) -> Any:
    """One as the rules take it."""
    return Toy(at, kind, **more)


def histories() -> Iterator[list[Any]]:
    """All of them, the newest landing first; the removal is known from the one of its number on."""
    for kinds in product(KINDS, repeat=3):
        for gone, removal, hides in product((None, 0, 1, 2), range(4), (False, True)):
            more = {"gone_file": gone, "hides": hides}
            yield [landing(at, kinds[at], after_removal=at >= removal, **more) for at in (2, 1, 0)]


def _same(past: Any) -> bool:
    return bool(past.rows == past.knows)


def judge(history: list[Any]) -> str:
    """Raises Wrong where an answer about this history is; what it was."""
    back = ways_back.newest_way(history, REMOVED, _same)
    for past in history:
        cheap = past.kind == "unlisted" or not past.after_removal
        cheap = cheap or (not past.hides and past.kind in ("holed", "strange", "damaged", "untold"))
        if past.asked and cheap:
            raise Wrong(f"{past.asked} of landing {past.at}, for nothing")
        if "rows" in past.asked and past.gone:
            raise Wrong("rows are read of which a file is gone")
    if back is not next((past for past in history if past.good), None):
        raise Wrong(f"{back} is named")
    for holed, fine in ((False, {"whole", "swapped"}), (True, {"whole", "swapped", "holed"})):
        named = list(ways_back.ways(history, REMOVED, holed=holed))
        if named != [x for x in history if x.kind in fine and x.after_removal and not x.gone]:
            raise Wrong(f"landings {named} have as many rows as they should{' or fewer' * holed}")
    return "none" if back is None else "newest" if back is history[0] else "older"


def test_the_way_back_is_the_newest_landing_that_gives_a_true_table_and_is_found_where_there_is_one() -> None:
    said = [judge(history) for history in histories()]
    assert len(said) == 10_976 and all(said.count(each) > 100 for each in ("none", "newest", "older"))


def test_of_landings_with_hidden_rows_five_are_read_and_no_more() -> None:
    history = [landing(2, "holed", hides=True) for _ in range(9)]
    hidden, plain = landing(2, "whole", hides=True), landing(1, "whole")
    assert ways_back.newest_way([*history, hidden], REMOVED, _same) is None
    assert sum(bool(past.asked) for past in history) == 5 and not hidden.asked
    assert ways_back.newest_way([*history, plain], REMOVED, _same) is plain


BUGS: tuple[Bug, ...] = (
    ("removed rows come back", ways_back.against, "past.removed != removed", "False"),
    ("files are not there", ways_back.against, "MISSING\n    if past.gone:", "MISSING\n    if False:"),
    ("rows are read for nothing", ways_back.against, "past.hides and past.gone", "False"),
    ("rows of nobody stay", ways_back.against, "past.shown > past.known", "False"),
    ("rows are missing", ways_back.against, "past.missing > 0", "False"),
    ("nobody counted", ways_back.against, "yield No.UNTOLD", "pass"),
    ("any trouble is a hole", ways_back.ways, "holed and no is No.MISSING", "holed"),
    ("as many rows are the same", ways_back.newest_way, "filter(same, ", "filter(None, "),
    (
        "a damaged text stops the search",
        ways_back.ways,
        "OSError):\n            continue",
        "OSError):\n            break",
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug[0])
def test_the_search_finds(bug: Bug) -> None:
    must_find(bug, lambda: [judge(history) for history in histories()])
