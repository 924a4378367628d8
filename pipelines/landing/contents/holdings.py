"""What a table holds of a logstore and what the service says of it, as far as anybody has looked: values.

A rule (what leaves with an hour, whether an hour can be landed again) is a function of `Holdings`. Where it
must know more it raises `Asks`; `Asking` has the table and the service, answers that, and puts the rule
again. So the plan of an operation and the search for cures call the same rule, each thing is read and asked
once for all rules, and a rule can be tried on any world without a table. It ends: an answer is never asked
for again, unless with more edges at which rows are cut, and of these there are only so many.

Why not give a rule the table and the client: a rule that reads would read once for each rule and hour, could
not be tried without Spark's files and a service, and would decide on answers of different moments. And why
not read all that any rule may need before: of a year of hours a rule about one needs three files. The price
is that a rule is begun anew with each answer, so it must be quick and change nothing.

Worked example: `hour 7 can be landed again` first asks for the cursors of 07:00 and 08:00, then for the rows
of two files of that hour, then answers. Hour 8 asks for 09:00 and for its own files only.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeVar

import numpy as np
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.cells import (
    Cells,
    Edges,
    Shown,
    cells_of,
    edges,
    partition_hour,
    partition_origin,
    shown,
)
from pipelines.landing.ledger.place import Place
from pipelines.landing.ledger.reading import Unreadable, bounds, tasks_of
from pipelines.landing.ledger.values import Adopted, Forgotten
from pipelines.landing.table.contract import rows_of
from sls_io.values.claim import Ledger
from sls_io.values.errors import CursorExpired, InvariantBroken, ShardGone
from sls_io.values.side_by_side import answers
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient

_HOUR_US = HOUR_S * 1_000_000
Answer = TypeVar("Answer")
Mark = int | Literal["begin"]
"""A receive hour (since 1970), of which the first cursor is meant; or where a shard begins."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A data file of main, as its manifest describes it.

    origin, hour  whose rows it holds and their receive hour (since 1970); None: the partition does not say
    hours         receive hours in which its rows lie; None: anywhere
    shards        of which shards its rows are, and `cursors` where; None: of any, anywhere
    """

    shown: Shown
    origin: str | None
    hour: int | None
    hours: range | None = None
    shards: range | None = None
    cursors: range | None = None

    def may_hold(self, cursors: Mapping[int, IntervalSet]) -> bool:
        """Whether rows of these cursors of each shard may be in it, by what its manifest says. A file without
        bounds may hold anything.

        Worked example: shards 2 to 4 and cursors 100 to 250 may hold [200, 300) of shard 3 and [0, 101) of
        shard 2, and nothing of shard 5. It may hold [0, 101) of shard 3, too, although only shard 2 has rows
        so early: bounds are of the whole file, not of a shard.
        """
        return any(
            (self.shards is None or shard in self.shards)
            and (self.cursors is None or intervals.overlaps(self.cursors.start, self.cursors.stop))
            for shard, intervals in cursors.items()
        )

    def may_be_of(self, hours: range) -> bool:
        """Whether rows of these receive hours may be in it."""
        return self.hours is None or (self.hours.start < hours.stop and hours.start < self.hours.stop)


@dataclass(frozen=True)
class ServiceEdges:
    """What the service says of a logstore: up to when (unix seconds) it is settled by its clock, the shards
    that it lists, and, as far as was asked, the cursor of each mark of each shard that it has, and the
    receive hours of single cursors; None of one that it has no more.

    All cursors of a mark are asked for at once, of all shards, and kept for all rules: two rules that look at
    08:00 see the same. `settled_s` is the service's clock at the first question, less `settle_s` of the
    settings: what is decided does not move while somebody reads a plan.
    """

    settled_s: float
    listed: frozenset[int]
    marks: Mapping[Mark, Mapping[int, Cursor]] = field(default_factory=dict)
    hours: Mapping[tuple[int, int], int | None] = field(default_factory=dict)

    def at(self, mark: Mark, shard: int) -> Cursor | None:
        """The cursor of a mark; None for a shard that is gone. Raises Asks."""
        if mark not in self.marks:
            raise Asks(marks=(mark,))
        return self.marks[mark].get(shard)

    def between(self, shard: int, hours: range) -> IntervalSet:
        """The cursors of these receive hours; none once retention took all of them. Raises Asks."""
        begin, end = (self.at(hour, shard) for hour in (hours.start, hours.stop))
        return IntervalSet() if begin is None or end is None else IntervalSet.of([(begin, end)])

    def hour_of(self, shard: int, cursor: int) -> int | None:
        """The receive hour of a cursor. Raises Asks."""
        if (shard, cursor) not in self.hours:
            raise Asks(cursor=(shard, cursor))
        return self.hours[shard, cursor]


@dataclass(eq=False)
class Asks(Exception):
    """What a rule must know first: the rows of `files`, cut at the edges `cut`, too; `marks`; the hour of the
    `cursor` of a shard."""

    files: Collection[Listed] = ()
    cut: Edges | None = None
    marks: Collection[Mark] = ()
    cursor: tuple[int, int] | None = None


@dataclass(frozen=True)
class Holdings:
    """What main of the table `name` holds of one logstore.

    files    those that may hold rows of it
    counted  the cells of files, cut at the edges of the ledger, and at those that were asked for
    lost     files that cannot be read, with why
    service  None: it is not asked
    """

    name: str
    ledger: Ledger
    adopted: Adopted
    forgotten: Forgotten
    files: tuple[Listed, ...]
    counted: Mapping[Shown, Cells] = field(default_factory=dict)
    lost: Mapping[Shown, Unreadable] = field(default_factory=dict)
    service: ServiceEdges | None = None

    @property
    def origin(self) -> str:
        """The logstore's id."""
        return self.ledger.origin

    @property
    def edges(self) -> ServiceEdges:
        """What the service says."""
        if self.service is None:
            raise InvariantBroken("a rule asks the service, and nobody named one")
        return self.service

    def known(
        self, files: Collection[Listed], cut: Edges | None = None
    ) -> tuple[dict[Listed, Cells], list[Unreadable]]:
        """The rows of these files, and why others of them cannot be read. Raises Asks; `cut` goes with it."""
        unknown = [f for f in files if f.shown not in self.counted and f.shown not in self.lost]
        if unknown:
            raise Asks(files=unknown, cut=cut)
        there = {file: self.counted[file.shown] for file in files if file.shown in self.counted}
        return there, [self.lost[file.shown] for file in files if file not in there]


class Asking:
    """Who answers what rules ask. `tasks` are the files of main, by what they show; `counted` what was read
    of them already, cut at the edges of the ledger."""

    def __init__(
        self, place: Place, client: SlsClient | None, counted: Mapping[Shown, Cells] | None = None
    ) -> None:
        self._table, self._client, self._cut = place.table, client, edges([place.ledger])
        found = tasks_of(place.table, place.table.scan(row_filter=rows_of(place.origin.id)))
        self.tasks = {shown(task): task for task in found}
        self.holdings = Holdings(
            place.name,
            place.ledger,
            place.state.adopted,
            place.state.forgotten,
            tuple(listed(place.table, task) for task in found),
            dict(counted or {}),
            service=_first(client, place.logstore.budget.settle_s) if client is not None else None,
        )

    def decide(self, rule: Callable[[Holdings], Answer]) -> Answer:
        """What the rule says once it knows enough. Raises what it raises, and TransportError when the service
        or the storage does not answer. A file that cannot be read is no error here: it is `lost`, and the
        rule says what follows from that."""
        while True:
            try:
                return rule(self.holdings)
            except Asks as asks:
                self._answer(asks)

    def know(self, counted: Mapping[Shown, Cells]) -> None:
        """Take over what somebody else counted, cut at the edges of the ledger."""
        self.holdings = replace(self.holdings, counted={**counted, **self.holdings.counted})

    def of(self, files: Iterable[Listed]) -> list[FileScanTask]:
        """The files themselves."""
        return [self.tasks[file.shown] for file in files]

    def _answer(self, asks: Asks) -> None:
        # Edges only become more. Were a file counted at those of the newest question alone, two rules that
        # ask for it in turn would take its cells from each other, and neither would ever end.
        both = (self._cut, asks.cut or {})
        self._cut = {
            key: np.unique(np.concatenate([each[key] for each in both if key in each]))
            for key in {key for each in both for key in each}
        }
        counted, lost = dict(self.holdings.counted), dict(self.holdings.lost)
        cells = cells_of(self._table, self.of(asks.files), self._cut)
        for file, found in zip(asks.files, cells, strict=True):
            if isinstance(found, Unreadable):
                lost[file.shown] = found
            else:
                counted[file.shown] = found
        service = self.holdings.service
        if service is not None and self._client is not None:
            service = _asked(self._client, service, self.holdings.ledger, asks)
        self.holdings = replace(self.holdings, counted=counted, lost=lost, service=service)


def _first(client: SlsClient, settle_s: int) -> ServiceEdges:
    return ServiceEdges(client.now_s() - settle_s, frozenset(shard.id for shard in client.shards()))


def _asked(client: SlsClient, known: ServiceEdges, ledger: Ledger, asks: Asks) -> ServiceEdges:
    marks, hours = dict(known.marks), dict(known.hours)
    shards = sorted({*known.listed, *ledger.shards})
    for mark in asks.marks:
        at: int | Literal["begin"] = mark if mark == "begin" else mark * HOUR_S
        found = answers(partial(_unless_gone, client.cursor_at, at=at), shards)
        marks[mark] = {shard: cursor for shard, cursor in found if cursor is not None}
    if asks.cursor is not None:
        shard, cursor = asks.cursor
        time_s = _unless_gone(client.cursor_time_s, shard, cursor=Cursor(cursor))
        hours[asks.cursor] = None if time_s is None else time_s // HOUR_S
    return replace(known, marks=marks, hours=hours)


def _unless_gone(call: Callable[..., Answer], shard: int, **asked: object) -> Answer | None:
    try:
        return call(shard, **asked)
    except (ShardGone, CursorExpired):
        return None


def listed(table: Table, task: FileScanTask) -> Listed:
    """A file as its manifest describes it."""
    file, hour = task.file, partition_hour(table, task.file)
    shards, cursors, received = (
        bounds(table, file, name) for name in ("__shard__", "__cursor__", "__receive_hour__")
    )
    hours = range(received[0] // _HOUR_US, received[1] // _HOUR_US + 1) if received else None
    return Listed(
        shown(task),
        partition_origin(table, file),
        hour,
        hours if hour is None else range(hour, hour + 1),
        _span(shards),
        _span(cursors),
    )


def _span(pair: tuple[int, int] | None) -> range | None:
    return None if pair is None else range(pair[0], pair[1] + 1)
