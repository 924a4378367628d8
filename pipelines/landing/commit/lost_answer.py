"""A commit that the catalog did not confirm: the table is loaded again, and says what became of it.

A run asks by the ids of its tries, and goes on with its protocol (`run/protocol.py`). A commit that a person
asked for is told in one of these words:

    it has the commit                                     done: only the answer was lost
    it has not, and is what the request required          LandingUnknown: the request may still arrive
    it has not, and is something else                     LandingConflict: it is refused whenever it arrives
    its history does not reach where the request began    LandingUnknown: nobody can tell any more

The third line holds because refs never point back: a `main` that moved on is not the required one again,
unless somebody rolls it back by hand. So "nothing was changed" is said only where it stays true. Worked
example: main is at 7, an undo is sent as 8, and the answer is lost. Main at 8, or at 9 with 8 below: done.
Main at 7: unknown, and asked for again the plan finds what is done by then. Main at 9 on top of 7: a landing
was first, and 8 can only be refused.
"""

from collections.abc import Callable

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from pipelines.landing.commit.publish import Refusal, Request
from pipelines.landing.ledger.state import TableState, ancestry, landed_snapshot
from pipelines.landing.table import commands
from pipelines.landing.table.former import uuid_of
from pipelines.landing.table.lake import Lake, NoMetadata
from sls_io.values.clock import Clock
from sls_io.values.errors import LandingConflict, LandingUnknown, LedgerBroken, SlsError

_PAUSE_MAX_S = 5.0


def look(
    lake: Lake, table: Table, request: Request, refusal: Refusal, there: Callable[[Table], bool | None]
) -> None:
    """Returns where the table has what was asked for. `there` says whether it has, or None where the table
    does not say.

    Raises LandingConflict when the table is not what the request requires any more (nothing was changed
    then), and LandingUnknown when nobody else changed it and the request is not there, so that it may still
    arrive, or when others changed so much that nobody can tell.
    """
    name = ".".join(table.name())
    try:
        reloaded = lake.load(name)
    except SlsError as error:
        raise LandingUnknown(
            f"the answer to the commit was lost and {name} cannot be read: {error}. Asking for "
            "the same again is safe",
            cures=(commands.LANDINGS.plus(does="shows whether it is there, when the table can be read"),),
        ) from error
    found = None if reloaded is None else there(reloaded)
    if found:
        return
    if reloaded is not None and _is_as(reloaded, request):
        cure = refusal.why.cure if refusal.why else "run it again"
        raise LandingUnknown(
            f"the commit to {name} was not confirmed by the catalog ({lake.place}: {refusal}) and is not "
            f"there{'' if refusal.why else ' yet; another program may hold it'}. "
            f"{cure[0].upper()}{cure[1:]}: nothing is done twice, should the first one still arrive"
        )
    if found is None:
        raise LandingUnknown(
            f"the commit to {name} was not confirmed by the catalog ({lake.place}: {refusal}), and the "
            "snapshot that it began from has left the history of main, so nobody can tell whether it was "
            "made. Look again without --execute: what is done by now is not done again"
        )
    raise LandingConflict(
        f"somebody else committed to {name} between the look and the commit, so nothing was changed; "
        "look again without --execute"
    )


def landed(now: Table, state: TableState, snapshot_id: int) -> bool | None:
    """Whether a snapshot on top of `state` is part of main; None where nobody can tell any more.

    Story: the answer to an undo is lost, two landings come on top of it, and an expiry keeps two snapshots.
    Main does not name the undo's snapshot, and it would not name it either if the undo had never arrived.
    """
    if landed_snapshot(now, [snapshot_id]) is not None:
        return True
    since = {id for s in ancestry(now) for id in (s.snapshot_id, s.parent_snapshot_id)}
    return False if state.head is None or state.head in since else None


def loaded_again(lake: Lake, name: str, table_uuid: str, *, clock: Clock, seconds_max: float) -> Table:
    """The table that a run wrote to, asked for until it can be read. It is known by its uuid: one that was
    made anew under the name would say "not there" of every try.

    Raises LandingUnknown where it cannot be read within `seconds_max`; LedgerBroken where it is not there.
    """
    deadline_s = clock.monotonic() + seconds_max
    pause_s = 0.1
    while True:
        try:
            table = lake.load(name, deadline_s=seconds_max)
        except SlsError as error:
            # Metadata that cannot be read says nothing of the commit, and may be there again in a moment.
            if isinstance(error, LedgerBroken) and not isinstance(error, NoMetadata):
                raise
            if clock.monotonic() + pause_s > deadline_s:
                raise LandingUnknown(
                    f"the answer to a commit was lost and {name} cannot be read: {error}. "
                    "Nothing was deleted; run again, the next run reads the table and knows"
                ) from error
            clock.sleep(pause_s)
            pause_s = min(_PAUSE_MAX_S, pause_s * 2)
            continue
        if table is None or uuid_of(table) != table_uuid:
            raise LedgerBroken(
                f"table {name} was dropped or replaced while a landing was on its way; "
                "whether the old one has it only its files say",
                cures=(commands.VERIFY,),
            )
        return table


def _is_as(table: Table, request: Request) -> bool:
    """Whether all that a request was fenced by is still so.

    A table that is as it was and lacks the commit: nobody was first, so the request may still be on its way.
    """
    try:
        for requirement in request.requirements:
            requirement.validate(table.metadata)
    except CommitFailedException:
        return False
    return True
