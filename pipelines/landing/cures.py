"""What brings rows back that a table misses, the way that keeps most first; each was looked at before.

    replace    hours that the service still has are landed again: nothing else of the table changes
    rollback   the table goes back to a landing from before the loss; what landed since is pulled again, or
               lost where retention has it
    adopt      the missing rows are given up, and stay a number that `verify` goes on to name

Asked only for a table that misses rows: it costs calls of the service, and a look at older landings.
"""

from collections.abc import Collection, Iterator

from pyiceberg.table import Table

from pipelines.landing import adopt, replace, rollback
from pipelines.landing.ledger import ADOPT
from pipelines.landing.logstore import Logstore
from pipelines.landing.reading import spans
from pipelines.landing.state import TableState
from pipelines.landing.table import Lake
from sls_io.client import SlsClient
from sls_io.errors import SlsError
from sls_io.window import IntervalSet

_HOURS_TRIED_MAX = 48
REPLACE = "sls-lake backfill --mode replace --local --execute"
GIVE_UP = f"{ADOPT} --at rows --without-missing"


def of_missing_rows(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    table: Table,
    state: TableState,
    short: Collection[int],
    *,
    pulled: bool,
) -> tuple[str, ...]:
    """Sentences that begin with a verb. `short` are receive hours (since 1970) that are known to hold too
    little; `pulled`: all that the service has was compared, so no others of its hours are."""
    found = [
        f"{REPLACE} {span} lands again what the service still has, and leaves the rest of the table as it is"
        for span in _replaceable(lake, logstore, client, sorted(short))
    ]
    if not pulled and not found:
        found.append(
            "sls-lake verify --pull names the hours that lost rows, where the service still has them"
        )
    back = rollback.way_back(table, state)
    if back is not None:
        found.append(
            f"sls-lake table rollback {back} brings back what was there by then; what landed since is pulled "
            "again, or becomes a gap where retention has taken it"
        )
    found.append(f"{_giving_up(lake, logstore, client)} gives up what nothing brings back")
    return tuple(found)


def _giving_up(lake: Lake, logstore: Logstore, client: SlsClient) -> str:
    """Where the rows prove an older ledger, that one is kept, and no start is asked for."""
    try:
        return ADOPT if adopt.plan(lake, logstore, client).view.kept else GIVE_UP
    except SlsError:
        return GIVE_UP


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
