"""What a person decides about a table: planned on a table that was looked at, then committed by one loop.

    Decision  what would be done, as data: what people are shown (`effect.py`), and what stands against it, in
              `decision.py`
    Planned   the same with the table that was looked at, and the commit
    execute   does it; where somebody else commits meanwhile, it goes by what the plan says of that

A plan changes nothing. It is committed on the very table that was looked at, or planned again on the next:

    no `again`   the person agreed to something about all rows, or all logstores: refused, look again
    `again`      the plan on the table as it is by then, of the same files and the same words; it raises
                 LandingConflict where what was agreed does not hold any more

Worked example: a removal reads 40 files for three minutes and writes 40 new ones (`work`). A landing commits
meanwhile, so the first try is refused. `again` looks: the 40 files are still there, with the same row-level
deletes, so the same new files are sent on the new head, with the new ledger less what leaves. After a
compaction of one of the 40 it raises, and nothing was changed.

The age of new files is asked after each look and never before it: paused in between, a sweep takes the files,
and the table looks as if nothing had happened.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple

from pipelines.landing.commit import authored
from pipelines.landing.commit.decision import Decision, Finished, NothingToDo, Tools, View
from pipelines.landing.commit.freshness import Freshness
from pipelines.landing.ledger.place import Looked
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError, LandingConflict

__all__ = ["Decision", "Done", "Finished", "NothingToDo", "Planned", "Tools", "View", "execute"]

TRIES_MAX = 20
_TOOLS = Tools()


@dataclass(frozen=True)
class Planned(Decision[View]):
    """What would be committed.

    place     the table that was looked at
    commit    what one try sends there; None before `work`, or where nothing is to be done
    work      writes files that nobody sees yet; the plan with the commit that brings them
    again     the same on the table as it is by then; None: never
    """

    view: View
    place: Looked
    commit: authored.Commit | None
    work: "Callable[[Tools], Planned[View]] | None" = field(default=None, repr=False, kw_only=True)
    again: "Callable[[], Planned[View]] | None" = field(default=None, repr=False, kw_only=True)

    @property
    def needed(self) -> bool:
        """Whether there is something to do."""
        return self.commit is not None or self.work is not None

    def carry_out(self, lake: Lake, tools: Tools) -> Finished:
        """As `execute`."""
        done = execute(lake, self, tools)
        return Finished(done.snapshot, done.planned.view)


class Done(NamedTuple, Generic[View]):
    """The new snapshot, how many tries came too late before it, and the plan that was committed."""

    snapshot: int
    conflicts: int
    planned: Planned[View]


def execute(
    lake: Lake, planned: Planned[View], tools: Tools = _TOOLS, fresh: Freshness | None = None
) -> Done[View]:
    """Do it. `tools.on_event` hears `publish` before each try. `fresh` tells the age of the files where some
    were written before.

    Raises ConfigError where it is refused as it was asked for, NothingToDo; LandingConflict when the table is
    not what was agreed any more, or others committed before each try; else as its `work` and
    `authored.commit`.
    """
    fresh = fresh or Freshness(tools.clock)
    if planned.refusal:
        raise ConfigError(planned.refusal, cures=planned.cures)
    if planned.work is not None:
        planned = planned.work(tools)
    for conflicts in range(TRIES_MAX):
        if planned.commit is None:
            raise NothingToDo(planned.nothing)
        if not fresh.publishable:
            break
        tools.on_event("publish")
        place, now_ms = planned.place, int(tools.clock.now() * 1000)
        try:
            made = authored.commit(lake, place.table, place.state, planned.commit, now_ms=now_ms)
            return Done(made, conflicts, planned)
        except LandingConflict:
            if planned.again is None:
                raise
            planned = planned.again()
    raise LandingConflict(
        f"others committed to {planned.place.name} before each try, or it took longer than new files may "
        "wait; nothing was changed, run it again"
    )
