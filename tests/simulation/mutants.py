"""Deliberate bugs that the checkers must find: they test the tests.

A `Slip` is a wrong edit of one production function: `old` stands in its source exactly once and is
replaced by `new`. While a mutant lives the function's code is exchanged, so that every module sees it.
A habit is a wrong driver. A mutant may need both, or several slips: the fence is meant to be double.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, cast

import pytest

from pipelines.landing.ledger import epochs, fence
from pipelines.landing.run import protocol
from sls_io.planning import gone, plan
from sls_io.values.claim import ShardLedger
from tests.simulation.worker import Habits


@dataclass(frozen=True)
class Slip:
    """A wrong edit of one function."""

    function: Callable[..., Any]
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A bug with a name: slips of production code, habits of a driver, or both.

    `never` is for a bug that breaks nothing and only wastes work: the situation that cannot come up
    any more while it lives.
    """

    name: str
    slips: tuple[Slip, ...] = ()
    habits: Habits = field(default_factory=Habits)
    never: str = ""


@contextmanager
def alive(mutant: Mutant) -> Iterator[None]:
    """Production code has the mutant's slips inside this block."""
    functions = [cast(FunctionType, slip.function) for slip in mutant.slips]
    kept = [(function, function.__code__) for function in functions]
    try:
        for slip in mutant.slips:
            cast(FunctionType, slip.function).__code__ = _code(slip)
        yield
    finally:
        for function, code in reversed(kept):
            function.__code__ = code


class Wrong(AssertionError):
    """A decision that must not be."""


Bug = tuple[str, Callable[..., Any], str, str]
"""What is wrong with a rule; in which function, and how."""


def must_find(bug: Bug, search: Callable[[], object]) -> None:
    """Fails unless a search raises `Wrong` while the bug is there."""
    name, function, old, new = bug
    with alive(Mutant(name, (Slip(function, old, new),))), pytest.raises(Wrong):
        search()


def _code(slip: Slip) -> Any:
    source = textwrap.dedent(inspect.getsource(slip.function))
    if source.count(slip.old) != 1:
        raise LookupError(
            f"{slip.function.__name__} has {slip.old!r} {source.count(slip.old)} times, not once"
        )
    made: dict[str, Any] = {}
    function = cast(FunctionType, slip.function)
    exec(compile(source.replace(slip.old, slip.new), "mutant", "exec"), function.__globals__, made)
    edited = made[function.__name__]
    return cast(FunctionType, edited.fget if isinstance(edited, property) else edited).__code__


_fits, _reloaded = fence._fits, protocol._reloaded
_plan, _plan_open = plan._plan_shard, plan._plan_open
_FRONTIER = cast(property, ShardLedger.frontier).fget or (lambda entry: entry)
_NO_OVERLAP_CHECK = Slip(
    _fits, "entry.landed.overlaps(window.begin, window.end)", "window.begin > window.end"
)
_NO_FRONTIER_CHECK = Slip(_fits, "window.begin == entry.frontier and", "")
_NO_PARENT_CHECK = Slip(_fits, " and base.closed(needed)", "")
_NO_PARENT_PLAN = Slip(_plan, "if unfinished := _unfinished(needed, ledger):", "if unfinished := str():")
_LOST_ARE_PUBLISHED = Slip(protocol._publish, "if merged.lost:", "if False:")
_HOLES_STAY = Slip(fence.delta_of, "planned.shard in stopped or landed is None", "landed is None")

SLIPS = {
    "merge does not look for overlaps": (_NO_OVERLAP_CHECK,),
    "a live window may begin anywhere after its frontier": (_NO_FRONTIER_CHECK, _HOLES_STAY),
    "what a stopped window leaves behind it is landed": (_HOLES_STAY,),
    "children do not wait for their parents": (_NO_PARENT_PLAN, _NO_PARENT_CHECK),
    "the planner alone forgets the parents": (_NO_PARENT_PLAN,),
    "lost windows are sent again with the others": (
        _LOST_ARE_PUBLISHED,
        Slip(_reloaded, "replace(delta, windows=merged.accepted)", "delta"),
    ),
    "unknown is taken as failed, and nothing fences the second plan": (
        Slip(_reloaded, "event.landed is not None", "False"),
        _NO_OVERLAP_CHECK,
        _LOST_ARE_PUBLISHED,
    ),
    "files are sent again although the schema moved": (Slip(_reloaded, "not event.files_fit", "False"),),
    "files are sent again although a sweep may have them": (
        Slip(_reloaded, "not event.files_fresh", "False"),
    ),
    "what retention took is skipped in silence": (
        Slip(_plan_open, "if frontier >= head.begin:", "if True:"),
    ),
    "a gap takes all up to the end of the shard": (
        Slip(_plan_open, "Gap(frontier, head.begin, GAP_EXPIRED)", "Gap(frontier, head.end, GAP_EXPIRED)"),
    ),
    "gaps are not trimmed": (Slip(fence._note_gaps, "_trim(gap, entry.accounted)", "(gap,)"),),
    "drained parents are never closed": (
        Slip(fence._close, "entry.frontier >= end", "entry.frontier > end"),
    ),
    "parents are closed before they are drained": (Slip(fence._close, "entry.frontier >= end and", ""),),
    "an idle shard's receive time stands still": (
        Slip(fence._with_marks, "m.cursor <= entry.frontier", "m.cursor < entry.frontier"),
    ),
    "a backfill lands what has landed": (
        Slip(plan.plan_fill, "survey.spans, ", "survey.spans, IntervalSet() and "),
        _NO_OVERLAP_CHECK,
    ),
    "windows cross hours": (Slip(plan._windows, "span.hour)", "span.hour + (span.begin % 2))"),),
    "a frontier is where any run of intervals ends": (
        Slip(
            _FRONTIER,
            "self.accounted.run_end(self.start)",
            "Cursor(max([self.start, *(end for _, end in self.accounted)]))",
        ),
    ),
    "one idle shard bounds all": (
        Slip(
            plan._within_budget,
            "while len(chosen) < budget.windows_max:",
            "while len(chosen) < budget.windows_max and all(map(draft.windows.get, draft.change.marks)):",
        ),
    ),
    "one kind of answer is enough to write off": (
        Slip(gone.believed, "if survey.gone is not Second.AGREES:", "if False:"),
    ),
    "two answers of one moment are enough to write off": (
        Slip(gone.believed, "if survey.explained or patience.over(shard, entry.suspect_s):", "if True:"),
    ),
    "a proof outlives its suspicion": (Slip(fence.merge, " if shard not in stale", ""),),
    "what was written off is never opened again": (
        Slip(gone.opened_again, "if survey.opened}", "if False}"),
    ),
    "an older run of a name is not fenced": (
        Slip(epochs.Epoch.fenced_by, "newest.number >= self.number", "False"),
    ),
    "rows are not counted": (Slip(fence._with_window, "counting(landed.rows, ", "counting(0, "),),
}

HABITS = {
    "any table state will do": Habits(rebase=True),
    "the checkpoint is sent before the landing": Habits(checkpoint_first=True),
    "the checkpoint is the shard's end": Habits(forced_checkpoint_of_end=True),
    "plans begin at the checkpoint": Habits(plan_from_checkpoint=True),
    "files of a refused try are deleted": Habits(delete_on_refusal=True),
    "a landing goes on top of a rollback": Habits(append_after_rollback=True),
    "the end of a shard is read before its status": Habits(end_before_status=True),
    "an older run of a name goes on moving checkpoints": Habits(checkpoints_unfenced=True),
    "nobody asks whether retention overtook a pull": Habits(no_proof=True),
}

MUTANTS = (
    *(Mutant(name, slips=slips) for name, slips in SLIPS.items()),
    *(Mutant(name, habits=habits) for name, habits in HABITS.items()),
    Mutant(
        "whoever is refused plans again",
        (Slip(_reloaded, "if not event.files_fit:", "if True:"),),
        never="the same files were sent again",
    ),
)
