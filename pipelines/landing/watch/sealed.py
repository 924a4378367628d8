"""Which receive hours are complete: every shard has passed their end, so nothing can come any more.

An hour that nobody wrote into is complete as well. A shard that was listed first a moment ago counts from
the time it was made: until it has landed, no hour in which it was there is complete. A list that lacks an
open shard completes nothing.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from pyiceberg.table import Table

from pipelines.landing.contents.cells import rows_by_hour
from pipelines.landing.table.contract import rows_of
from pipelines.landing.watch.look import Look
from sls_io.values.shard import are_whole
from sls_io.values.window import HOUR_S


@dataclass(frozen=True, slots=True)
class Sealing:
    """`hours`: the next ones that are complete, in order (since 1970). `more`: complete as well, and left for
    the next time. `shard` has passed least, up to `passed_s`; None where no shard is known. `short`: the list
    lacks an open shard, so nothing is complete."""

    hours: range
    more: int = 0
    shard: int | None = None
    passed_s: int | None = None
    short: bool = False


def sealing(
    look: Look,
    first: int | None,
    *,
    hours_max: int,
    start: int,
    told: Callable[[], Collection[int]] = frozenset,
) -> Sealing:
    """The complete hours from `first` on, at most `hours_max`. Without `first`, from the oldest hour that
    has rows, and not before `start`; from the running hour where there are no rows.

    A `first` before `start` is none: nothing begins there. One behind what is passed is of a table that was
    rolled back, or was never true. So it is the first hour that is not among those `told`: nothing is told
    twice after a rollback, and nothing is left out for ever by a cursor of 2099.
    """
    passed_s = look.passed_s
    if passed_s is None or look.table is None:
        return Sealing(range(0))
    if not are_whole(look.shards):
        return Sealing(range(0), short=True)
    stop = passed_s // HOUR_S
    if first is None or not start <= first <= stop:
        oldest = oldest_hour(look.table, look.ledger.origin)
        begin = max(start, stop if oldest is None else oldest)
        done = told() if first is not None and first > stop else ()
        first = next((hour for hour in range(begin, stop) if hour not in done), max(begin, stop))
    hours = range(first, max(first, min(stop, first + hours_max)))
    shard = min(look.passed_by, key=lambda s: look.passed_by[s])
    return Sealing(hours, max(0, stop - hours.stop), shard, passed_s)


def oldest_hour(table: Table, origin: str) -> int | None:
    """The oldest receive hour (since 1970) with rows of the origin, from the manifests alone; None where
    there is none, or the table's partitioning does not tell hours apart."""
    there = rows_by_hour(table, rows_of(origin))
    return None if None in there else min((hour for hour in there if hour is not None), default=None)
