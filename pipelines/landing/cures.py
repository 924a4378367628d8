"""What makes a table's rows those of its ledger again, the way that keeps most first; each was looked at.

    replace    hours that the service still has are landed again: nothing else of the table changes
    rollback   the table goes back to a landing from before the trouble; what landed since is pulled again, or
               lost where retention has it
    adopt      missing rows are given up, and stay a number that `verify` goes on to name; rows that nothing
               explains are kept, and called adopted

Asked only for a table whose rows are not those of its ledger: it costs calls of the service, and a look at
older landings.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pyiceberg.table import Table

from pipelines.landing import adopt, replace
from pipelines.landing.ledger import ADOPT
from pipelines.landing.logstore import Logstore
from pipelines.landing.reading import spans
from pipelines.landing.sameness import way_back
from pipelines.landing.table import Lake
from sls_io.client import SlsClient
from sls_io.errors import LedgerBroken, SlsError
from sls_io.window import IntervalSet

_HOURS_TRIED_MAX = 48
REPLACE = "sls-lake backfill --mode replace --local --execute"


@dataclass(frozen=True)
class Trouble:
    """How the rows of a logstore are not those that its ledger says.

    hours    receive hours (since 1970) that are known to hold other rows than they should
    missing  rows are missing
    strange  rows are there that nothing explains
    """

    hours: Collection[int]
    missing: bool
    strange: bool


def of_other_rows(
    lake: Lake, logstore: Logstore, client: SlsClient, table: Table, trouble: Trouble, *, pulled: bool
) -> tuple[str, ...]:
    """Sentences that begin with a verb, or say what to do where no verb does it. `pulled`: all that the
    service has was compared, so no others of its hours are in trouble."""
    found = [
        f"{REPLACE} {span} lands again what the service still has{_instead(trouble)}, and leaves the rest of "
        "the table as it is"
        for span in _replaceable(lake, logstore, client, sorted(trouble.hours))
    ]
    if trouble.missing and not pulled and not found:
        found.append(
            "sls-lake verify --pull names the hours that lost rows, where the service still has them"
        )
    back = way_back(table)
    if back is not None:
        found.append(
            f"sls-lake table rollback {back} {_brought_back(trouble)}; what landed since is pulled "
            "again, or becomes a gap where retention has taken it"
        )
    found.append(_adopting(lake, logstore, client, trouble))
    return tuple(found)


def _instead(trouble: Trouble) -> str:
    return ", instead of the rows that nothing explains" if trouble.strange else ""


def _brought_back(trouble: Trouble) -> str:
    if not trouble.strange:
        return "brings back what was there by then"
    return "takes out what nothing explains" + (", and brings back what was there by then" * trouble.missing)


def _adopting(lake: Lake, logstore: Logstore, client: SlsClient, trouble: Trouble) -> str:
    """Giving up what is missing and keeping what is there; where that is refused, what to do instead."""
    refused: SlsError | None = None
    at: tuple[adopt.At | None, ...] = (None, "rows")
    for start in at:
        # Where the rows prove an older ledger, that one is kept, and no start is asked for.
        try:
            view = adopt.plan(lake, logstore, client, at=start).view
        except SlsError as error:
            refused = error
            continue
        if not view.asks:
            words = f"{ADOPT}{' --at rows' * bool(start)}{' --without-missing' * bool(view.missing)}"
            return f"{words} {_left(trouble)}"
    verb = refused.verb if isinstance(refused, LedgerBroken) else ""
    return verb or f"no verb does it as it is: {refused}"


def _left(trouble: Trouble) -> str:
    if not trouble.strange:
        return "gives up what nothing brings back"
    kept = "keeps the rows that nothing explains, and calls them adopted"
    return f"gives up what nothing brings back, and {kept}" if trouble.missing else kept


def _replaceable(lake: Lake, logstore: Logstore, client: SlsClient, hours: list[int]) -> Iterator[str]:
    """Spans of these hours, as options of the verb, that a replace accepts as a whole."""
    for begin, end in IntervalSet.of((hour, hour + 1) for hour in hours[:_HOURS_TRIED_MAX]):
        if _accepted(lake, logstore, client, range(begin, end)):
            yield from spans(range(begin, end))
        elif end - begin > 1:
            singly = [h for h in range(begin, end) if _accepted(lake, logstore, client, range(h, h + 1))]
            yield from (text for hour in singly for text in spans([hour]))


def _accepted(lake: Lake, logstore: Logstore, client: SlsClient, hours: range) -> bool:
    try:
        replace.plan(lake, logstore, client, hours)
    except SlsError:
        return False
    return True
