"""Which landings a table can be put back to, and what stands against the others.

Each rule is a function of what is known of landings (`PastLanding`). What is dear to know of one, its files
and the rows that it shows, is looked for when a rule asks, and once. So a rule can be tried on any history
without a table. `table rollback` and the search for what brings rows back ask the same rule.

Story: rows are deleted by hand, or only marked as deleted, and landings go on. The newest landing lacks these
rows as well, so what is looked for is one from before the deletion.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import islice

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.ledger import codec
from pipelines.landing.ledger.reading import Misread, absent, listed_files, live_rows
from pipelines.landing.ledger.summary import (
    adopted_of,
    forgotten_of,
    is_landing,
    known_rows,
    ledgers_of,
    missing_rows,
    summary_of,
    total_records,
)
from pipelines.landing.ledger.values import Adopted, Forgotten
from sls_io.values.claim import Ledger
from sls_io.values.errors import LedgerBroken

_TRIES_MAX = 5
"""So many landings are read file by file in search of a way back, at most."""


class No(StrEnum):
    """Why a table cannot be put back to a landing, what weighs most first; UNTOLD: nobody knows whether it
    has all of its rows."""

    UNLISTED = "not all of its manifests can be read"
    REMOVED = "rows were removed for good since"
    GONE = "files of it are gone"
    UNTOLD = "it does not say how many rows it has"
    STRANGE = "rows of unknown origin were in it"
    MISSING = "rows were missing by then"


@dataclass(frozen=True)
class _Files:
    """Each manifest is read once for all landings, and each file looked for once."""

    gone: set[str]
    there: set[str] = field(default_factory=set)
    manifests: dict[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class PastLanding:
    """A landing that metadata still has, as it says; what is asked of its files raises LedgerBroken, Misread
    or OSError where nobody can tell.

    removed  what had been removed for good by then
    listed   the files that it needs, by path; None: not all of its manifests can be read
    gone     those of them that are not there
    hides    row-level deletes hide rows of it: to count these, files are read
    shown    how many rows it shows; None: it does not say
    known    how many its ledgers and adopted rows explain
    missing  how many fewer it shows than that
    """

    table: Table
    snapshot: Snapshot
    _files: _Files
    _damaged_too: bool = False

    @property
    def id(self) -> int:
        """Its snapshot."""
        return self.snapshot.snapshot_id

    @cached_property
    def ledgers(self) -> Mapping[str, Ledger]:
        return ledgers_of(self.snapshot, damaged_too=self._damaged_too)

    @cached_property
    def adopted(self) -> Adopted:
        return adopted_of(self.snapshot, damaged_too=self._damaged_too)

    @cached_property
    def removed(self) -> Forgotten:
        return forgotten_of(self.snapshot, damaged_too=self._damaged_too)

    @cached_property
    def listed(self) -> frozenset[str] | None:
        return listed_files(self.table, self.snapshot, self._files.manifests)

    @cached_property
    def gone(self) -> frozenset[str]:
        """Those of its files that are not there, or some of them: of one that is known to be lost no other is
        looked for."""
        listed, files = self.listed or frozenset(), self._files
        if listed.isdisjoint(files.gone):
            files.gone.update(absent(self.table, listed - files.there))
            files.there.update(listed - files.gone)
        return listed & files.gone

    @property
    def hides(self) -> bool:
        return summary_of(self.snapshot).get("total-delete-files", "0") != "0"

    @cached_property
    def shown(self) -> int | None:
        # A total counts hidden rows, too.
        return live_rows(self.table, self.id) if self.hides else total_records(self.snapshot)

    @property
    def known(self) -> int:
        return known_rows(self.ledgers, self.adopted)

    @cached_property
    def missing(self) -> int:
        return missing_rows(self.table, self.snapshot, self.shown or 0, self.ledgers, self.adopted)


def against(past: PastLanding, removed: Forgotten) -> Iterator[No]:
    """What stands against going back to a landing, the cheap questions first: numbers cost nothing, unless
    rows are hidden; then no row is read while a file is gone. `removed` is all that was removed for good:
    what a later removal took would come back."""
    if past.listed is None:
        yield No.UNLISTED
    if past.removed != removed:
        yield No.REMOVED
    if past.hides and past.gone:
        yield No.GONE
        return
    if past.shown is None:
        yield No.UNTOLD
    elif past.shown > past.known:
        yield No.STRANGE
    elif past.missing > 0:
        yield No.MISSING
    if past.gone:
        yield No.GONE


def ways(pasts: Iterable[PastLanding], removed: Forgotten, *, holed: bool = False) -> Iterator[PastLanding]:
    """Those of these landings that `table rollback` accepts and that have as many rows as their ledgers say:
    going back to one brings lost rows back and takes foreign ones out. `holed`: also those with fewer rows,
    which a rollback accepts only with --without-missing."""
    tries = 0
    for past in pasts:
        if past.hides and tries >= _TRIES_MAX:
            continue
        try:
            tries += past.hides and past.listed is not None
            if all(holed and no is No.MISSING for no in against(past, removed)):
                yield past
        except (LedgerBroken, Misread, OSError):
            continue


def newest_way(
    pasts: Iterable[PastLanding], removed: Forgotten, same: Callable[[PastLanding], bool]
) -> PastLanding | None:
    """The first of these ways of which the rows are the `same` that its ledgers know, which is dear to ask.

    Story: a row is deleted by hand, a foreign one is appended, a landing follows. It has as many rows as its
    ledger says; back to it, nothing is better.
    """
    return next(filter(same, islice(ways(pasts, removed), _TRIES_MAX)), None)


def pasts(
    table: Table,
    *,
    first: int | None = None,
    lost: Iterable[str] = (),
    expired: Snapshot | None = None,
    damaged_too: bool = False,
) -> list[PastLanding]:
    """The landings of a table, newest first, `first` before the others; `lost` are paths of files that are
    known to be gone or damaged, and `expired` is a landing that only older metadata has: the newest one.
    `damaged_too`: of damaged texts they say nothing, instead of raising."""
    files = _Files(set(lost))
    found = [*([expired] if expired else []), *sorted(landings(table), key=lambda s: s.snapshot_id != first)]
    return [PastLanding(table, snapshot, files, damaged_too) for snapshot in found]


def landings(table: Table) -> list[Snapshot]:
    """All snapshots with a ledger that metadata still has, newest first, also those beside main."""
    found = filter(is_landing, table.metadata.snapshots)
    return sorted(found, key=lambda s: s.sequence_number or 0, reverse=True)


def newest_forgotten(table: Table) -> tuple[Forgotten, int | None]:
    """What was removed for good, and the oldest snapshot that says so: a rollback can go to that one.

    The list only grows, so the newest one of any snapshot that metadata still has tells all, whether
    main contains that snapshot or not.

    The oldest snapshot with that list is the removal itself, or the first after it that is kept: later ones
    carry the list on.
    """
    told = [s for s in reversed(landings(table)) if summary_of(s).get(codec.FORGOTTEN_KEY)]
    lists = [forgotten_of(s, damaged_too=True) for s in told]
    newest = next((x for x in reversed(lists) if x), None)
    if newest is None:
        return Forgotten(), None
    return newest, next(s.snapshot_id for s, x in zip(told, lists, strict=True) if x == newest)
