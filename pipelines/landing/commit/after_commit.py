"""After a commit the only words are "done" and "unknown, look".

An error of ours says what its own call did: "nothing was started", "run it again". Raised after a commit it
would say so of the commit, too. Story: a replace commits, the catalog is restarted and does not count the
rows; told as the catalog's error it reads as a replace that was refused, and whoever reads the table waits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipelines.landing.table import commands
from sls_io.values.errors import CommitStands, InvariantBroken, LandingUnknown, LedgerBroken, SlsError


@dataclass
class Made:
    """What the catalog took last of one table, as a sentence without its end; "" before anything."""

    table: str
    what: str = ""

    def snapshot(self, snapshot_id: int | None) -> None:
        """This one is committed; None where there was nothing to commit."""
        if snapshot_id is not None:
            self.what = f"snapshot {snapshot_id} of {self.table} is committed"


@contextmanager
def commits(table: str) -> Iterator[Made]:
    """Around a commit and all that follows it; whoever commits tells it what was made, right after it was.

    Raises CommitStands for an error that came after one. Errors that speak of the table itself, or of a bug,
    stay what they are.

    Worked example: "the catalog did not answer" after `made.snapshot(77)` becomes "snapshot 77 of bronze.logs
    is committed and stands. What came after it failed: the catalog did not answer". Before any commit it
    stays the TransportError that it is, and whoever reads it may run the same again.
    """
    made = Made(table)
    try:
        yield made
    except (CommitStands, LandingUnknown, LedgerBroken, InvariantBroken):
        raise
    except (SlsError, OSError) as error:
        if not made.what:
            raise
        raise CommitStands(
            f"{made.what} and stands. What came after it failed: {error}",
            cures=(commands.LANDINGS.plus(does="before you ask for the same again"),),
        ) from error
