"""Pulls again what has landed and retention still holds, to compare it with the table.

The ledger and its sums were made from one pull; here a second one, at another time, tells the same
numbers independently. Nothing is held, moved or written.

Windows here are not those of the landings: one for each shard and receive hour, clipped to what the ledger
calls landed and to where the service begins. So landings that have left the table's history are compared,
too, and a compaction, which knows of no window, makes no difference.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from pyiceberg.table import Table

from pipelines.landing.contents.spread import over, unless_wrong
from pipelines.landing.ledger.values import Count
from sls_io.decoding.decode import Decoder
from sls_io.decoding.readings import readings
from sls_io.planning.survey import survey_hours, survey_live
from sls_io.values.claim import SUM_MODULUS, Ledger
from sls_io.values.errors import CursorExpired, ShardGone
from sls_io.values.settings import SHARD_MB_PER_S, Service
from sls_io.values.window import Cursor, Window
from sls_io.wire.client import SlsClient
from sls_io.wire.fetch import Fetch
from sls_io.wire.pace import Pace

_HOURS_MAX = 24 * 3660
_BYTES_MAX = 2**63
_ROW_BYTES = 100
"""About what a row of short logs is to pull."""


@dataclass
class SecondPull:
    """What the service has of landed windows, one a shard and receive hour, clipped to what it keeps.

    windows  rows and identity sum of each
    unread   windows of which a page could not be read, and why: nothing is known of them
    expired  windows that retention took meanwhile
    cut      windows that begin where the service does: of their hour there may have been more
    """

    windows: dict[Window, Count] = field(default_factory=dict)
    unread: dict[Window, str] = field(default_factory=dict)
    expired: set[Window] = field(default_factory=set)
    cut: set[Window] = field(default_factory=set)

    @property
    def missed(self) -> set[Window]:
        """Windows that could not be pulled to their end."""
        return {*self.unread, *self.expired}


def pull_again(client: SlsClient, table: Table, ledger: Ledger, *, hours: range | None = None) -> SecondPull:
    """Pull every landed window of these receive hours (since 1970), or of all that retention holds.

    Windows of one shard are pulled one after the other, so that its quota is kept; one page in memory. Raises
    TransportError or ServiceError when the service stays away.
    """
    of_shards, found = defaultdict[int, list[Window]](list), SecondPull()
    for window, cut in _kept(client, ledger, hours):
        found.cut |= {window} if cut else set()
        of_shards[window.shard].append(window)
    work = partial(_pulled, client.service, ledger.origin)
    for part in unless_wrong(
        over(table, list(of_shards.values()), work, bytes_of=partial(_bytes_of, ledger))
    ):
        found.windows |= part.windows
        found.unread |= part.unread
        found.expired |= part.expired
    return found


def _bytes_of(ledger: Ledger, windows: list[Window]) -> int:
    """About how much windows of one shard are to pull: of its landed rows as large a part as of its cursors.

    Worked example: 9,000 rows landed with the cursors [0, 900), and [800, 900) is one hour: 1,000 rows.
    """
    entry = ledger.shards[windows[0].shard]
    asked = sum(window.end - window.begin for window in windows)
    return entry.rows * _ROW_BYTES * asked // sum(end - begin for begin, end in entry.landed)


def _pulled(service: Service, origin: str, table: Table, windows: list[Window]) -> SecondPull:
    """Windows of one shard.

    A page that cannot be read stops one window, which is named (`unread`); a service that stays away ends the
    whole pull with its own error, since nothing can be said of any window then. Barred rows are in these
    counts: they are of the service, and who compares adds what is kept out.
    """
    found, pace = SecondPull(), Pace(SHARD_MB_PER_S)
    with SlsClient(service) as client:
        for window in windows:
            fetch = Fetch(client, window, bytes_max=_BYTES_MAX, deadline_s=float("inf"), pace=pace)
            rows = total = 0
            try:
                for _, reading in readings(fetch, Decoder(origin, ())):  # counted by the rule it landed by
                    for part in reading.parts(window.hour):
                        rows, total = rows + part.rows, (total + part.sum) % SUM_MODULUS
                whole = fetch.proved()
            except (CursorExpired, ShardGone):
                whole = False
            if fetch.stopped and fetch.error is not None:
                raise fetch.error
            if fetch.stopped:
                found.unread[window] = f"a page could not be read: {fetch.cause}"
            elif not whole:
                found.expired.add(window)
            else:
                found.windows[window] = rows, total
    return found


def _kept(client: SlsClient, ledger: Ledger, hours: range | None) -> Iterator[tuple[Window, bool]]:
    """The pieces of hours that the service keeps, each where the ledger has it landed: an hour with a hole
    gives two windows. The second value says that the window begins where the shard does, so that retention
    may have taken a part of its hour."""
    shards = [s for s in client.shards() if s.id in ledger.shards]
    until_s = int(client.now_s()) + 1
    if hours is None:
        # From nothing landed: the surveys begin where the service does.
        surveys = survey_live(client, shards, Ledger(ledger.origin), until_s=until_s, spans_max=_HOURS_MAX)
    else:
        surveys = survey_hours(client, shards, hours=hours, until_s=until_s)
    for shard, survey in sorted(surveys.items()):
        for span in survey.spans:
            begin = max(span.begin, survey.head.begin) if survey.head else span.begin
            for pair in ledger.shards[shard].landed.within(begin, span.end):
                window = Window(shard, Cursor(pair[0]), Cursor(pair[1]), span.hour)
                yield window, survey.head is not None and begin == survey.head.begin
