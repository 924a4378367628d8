"""Where a ledger that begins anew begins: behind the rows that are there and what was removed for good.

A table keeps its rows and loses its ledger (the tag is gone, the newest summary is damaged). A start that is
too low lands rows a second time, or brings back what somebody removed for good; one that is too high leaves
logs out, and nobody is told. So each shard has a floor, a start is refused below it and at or before the last
row, and what lies between the last row and the start is what a person has said, in cursors or as a time.

Worked example: a shard has rows up to cursor 640, and holds [100, 900) in the service. `rows` starts it where
a pull of one LogGroup from 640 says that the next one begins, `latest` at 900, `begin` at 100, which is
refused since the rows would land again. When retention has taken all before 700, `rows` starts it at 641: the
first run names [641, 700) as a gap, where a start at 700 would hide it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pipelines.landing.contents.cells import Tally
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.values import Forgotten, Key
from pipelines.landing.ledger.ways_back import PastLanding
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from sls_io.values.errors import ConfigError, amount
from sls_io.values.shard import Head
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient

At = int | Literal["begin", "latest", "rows"]
"""Where shards start: a time (unix seconds), the service's begin or end, or right after the last row."""


@dataclass(frozen=True)
class Floors:
    """Below which cursor no shard starts, since what was removed for good would land again. `newest`: the
    newest landing whose ledger of the origin can be read.

    Story: the last rows of a shard are forgotten, the tag goes, somebody adopts. Right behind the last row
    that is left begin the very logs that were removed. All of them are in hours that are remembered, and
    a ledger from after the removal called them landed, so what follows it in the hour may land.
    """

    client: SlsClient
    forgotten: Forgotten
    newest: PastLanding | None

    def of(self, origin: str, shard: int) -> Cursor:
        """The lowest start of one shard.

        Of a shard that lost rows in hour 7 the floor is the first cursor of 08:00, unless a ledger from after
        that removal knows better. Worked example: 08:00 is cursor 900. Without a ledger the floor is 900, and
        what else hour 7 had is not landed. With one that has landed [100, 700) it is 700: the removed rows
        lie before that, and the hour goes on there. The ledger must know the same removals: one from before
        may end at 500, removed rows lie at 600, and from 500 on they would land again. A shard that lost
        nothing has 0, or the first cursor of the hour before which all is forgotten.
        """
        before, gone = self.forgotten.before(origin), self.forgotten.of(origin, shard)
        lowest = self.client.cursor_at(shard, before * HOUR_S) if before else Cursor(0)
        if not gone.rows:
            return lowest
        after = self.client.cursor_at(shard, gone.hours.pairs[-1][1] * HOUR_S)
        if self.newest is not None and self.newest.removed == self.forgotten:
            entry = self.newest.ledgers[origin].shards.get(shard)
            landed = [min(end, after) for begin, end in entry.landed if begin < after] if entry else []
            after = min(after, Cursor(max([entry.start if entry else 0, *landed])))
        return max(lowest, after)


def starts_of(
    client: SlsClient,
    logstore: Logstore,
    origin: str,
    tallies: Mapping[Key, Tally],
    at: At | None,
    cursors: Mapping[int, Cursor],
    floors: Floors,
) -> dict[int, Cursor]:
    """Where each shard of `origin` starts, `cursors` for single ones and `at` for the others; never at or
    before what was removed for good. Raises ConfigError for a time to come and, naming the shard, for a
    start that would land rows again."""
    if isinstance(at, int) and at > client.now_s():
        raise ConfigError(
            f"{moment_text(at)} is to come: shards can start at what is there now (`latest`) at the latest"
        )
    listed = {s.id: s for s in client.shards()}
    unknown = sorted(set(cursors) - set(listed))
    if unknown:
        raise ConfigError(
            f"the service lists no shard {unknown[0]}",
            cures=(commands.DESCRIBE.plus(does="shows those it has"),),
        )
    unnamed = sorted(set(listed) - set(cursors))
    if at is None and unnamed:
        raise ConfigError(f"say where shard {unnamed[0]} starts, too: add --at for the shards not named")
    starts: dict[int, Cursor] = {}
    for shard, entry in sorted(listed.items()):
        head, there = client.head(entry), tallies.get((origin, shard), Tally())
        lowest = floors.of(origin, shard)
        start = cursors[shard] if shard in cursors else _start(client, logstore, head, there, at, lowest)
        if start < lowest:
            raise ConfigError(
                f"shard {shard} cannot start at {start}: rows were removed by `table forget`, and would land "
                f"again; the first cursor after them is {lowest}"
            )
        if start > head.end:
            raise ConfigError(f"shard {shard} ends at {head.end}: it cannot start at {start}, after that")
        if there.rows and start <= there.last:
            raise ConfigError(
                f"shard {shard} has {amount(there.rows, 'row')} in {logstore.table}, up to cursor "
                f"{there.last}: starting at {start} would land rows again; use --at rows, or a cursor "
                "after them"
            )
        starts[shard] = start
    return starts


def _start(
    client: SlsClient, logstore: Logstore, head: Head, there: Tally, at: At | None, lowest: Cursor
) -> Cursor:
    shard = head.shard.id
    if at == "rows" and there.rows:
        if there.last < head.begin:
            # Retention has passed the last row: starting right behind it makes the rest a named gap.
            return max(Cursor(there.last + 1), lowest)
        return max(client.pull(shard, Cursor(there.last), groups_max=1).next, lowest)
    if at == "latest":
        return head.end
    floor = client.cursor_at(shard, logstore.start_s)
    return max(floor, lowest, client.cursor_at(shard, at) if isinstance(at, int) else head.begin)
