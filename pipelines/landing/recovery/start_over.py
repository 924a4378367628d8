"""A table that nothing brings back, given up: a new, empty one in a folder of its own.

The old files stay as they are. Where the catalog still has a row of the table, that is changed in one step,
and only if it says what it said when somebody decided.

Why a folder of its own: no snapshot of the new table needs a file of the old one. In one folder nobody could
tell whose a file is, and a maintenance that finds files of two tables there deletes nothing (`maintain.py`).

Why no drop and create: in between a run would find no table.

Why a person decides, and not the first run that finds nothing: the old history ends here. What landed stays
in files that no catalog names, and what retention has taken since lands in no table any more.

What was decided of the old table ends with it: the new one knows of no row that was removed for good, of no
value that may not land, and of no pause. Story: hours are removed for good, the catalog's row is lost, and
the table is begun anew. The service still has these hours, and the next run lands them. So what the old
metadata says of decisions is said before anybody decides, and that nobody can tell where none can be read.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from pipelines.landing.commit.after_commit import commits
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Decision, Finished, Tools
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.start import moved
from pipelines.landing.ledger.state import TableState, facts
from pipelines.landing.logstore import Logstore
from pipelines.landing.recovery.candidates import (
    Candidate,
    CatalogEntry,
    all_there,
    catalog_changed,
    entry_of,
    loaded,
    newest_of,
    table_of,
)
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.former import new_location, number_of, place_of
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.names import PROTECTED_PROPERTY_PREFIX
from pipelines.landing.table.trouble import storage_trouble, unanswered
from sls_io.values.errors import (
    ConfigError,
    LedgerBroken,
    TransportError,
    amount,
)
from sls_io.values.window import IntervalSet
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class StartOver(Effect):
    """What is given up, a phrase each, and where the new table lies; "" before it is made.

    beside   the folder beside which it gets its own; "" where the catalog decides
    there    the catalog has the table's row, which names `named` (None: no file), and that cannot be read
    removed  rows that were removed for good from the old table; None where nobody can tell
    ends     what was decided of the old table and the new one does not know, a sentence each
    """

    QUIET = frozenset({"found", "ends"})
    THEN = (commands.LAND,)

    table: str
    found: tuple[str, ...]
    location: str = ""
    beside: str = ""
    there: bool = False
    named: str | None = None
    removed: int | None = 0
    ends: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        where = f"a new folder beside {self.beside}" if self.beside else ""
        lies = f"in {self.location or where}" if self.location or where else "where the catalog puts it"
        return f"given up: the old table {self.table}; a new, empty one lies {lies}"

    def said(self) -> Iterable[Note]:
        yield from map(Note, self.found)
        yield from (Note(sentence, "loss") for sentence in self.ends)


@dataclass(frozen=True, kw_only=True)
class PlannedStart(Decision[StartOver]):
    """A table begun anew as data: what `start_over` does, for these settings. `location` is the folder that
    it makes, a name that no other plan has; "" where the catalog decides."""

    logstore: Logstore
    location: str

    def carry_out(self, lake: Lake, tools: Tools) -> Finished:
        made = start_over(lake, self)
        return Finished(None, replace(self.view, location=made.location()))


def plan_start_over(lake: Lake, logstore: Logstore, client: SlsClient) -> PlannedStart:
    """What giving the old table up means. Changes nothing.

    Raises ConfigError when the catalog has the table, or nothing says that there was one.
    """
    name = logstore.table
    known = entry_of(lake, name)
    if known.table is not None:
        raise ConfigError(f"table {name} is in the catalog ({lake.place}): there is nothing to give up")
    if known.why is not None and known.why.whole:
        raise known.why
    former = lake.former(name)
    shards = moved(client, logstore)
    if former is None and not shards and not known.there:
        raise ConfigError(
            f"nothing says that there ever was a table {name}: the first run makes it by itself"
        )
    group = f"group {logstore.group.name} has checkpoints of shards {', '.join(map(str, shards))}"
    place = place_of(lake.catalog(), name) if former or known.there else None
    removed, ends = _decided(lake, name, known)
    view = StartOver(
        table=name,
        found=(
            *([str(known.why)] if known.why else []),
            *(former.found if former else ()),
            *([group] if shards else []),
        ),
        beside=place.location if place else "",
        there=known.there,
        named=known.old,
        removed=removed,
        ends=ends,
    )
    return PlannedStart(view=view, logstore=logstore, location=new_location(place.location) if place else "")


def _decided(lake: Lake, name: str, known: CatalogEntry) -> tuple[int | None, tuple[str, ...]]:
    """How many rows were removed for good from the old table, and what else ends with it.

    Of several files with one number one was never the table's, and nothing here tells which (`register.py`):
    what each says is said.
    """
    found, unreadable = all_there(lake, name, known)
    if not found:
        return None, (
            "no metadata of the old table can be read, so nobody can tell what was decided of it: rows that "
            "were removed for good land again, values that may not land do, and paused shards go on",
        )
    newest = newest_of(found)
    number, files = newest[0].version.number, [v.number for v in unreadable]
    later = max([number_of(known.old or ""), *files]) > number
    try:
        states = [(each, facts(table_of(lake, name, each), damaged_too=True)) for each in newest]
    except LedgerBroken as error:
        return None, (f"nobody can tell what was decided of the old table: {error}",)
    ends = dict.fromkeys(chain.from_iterable(_ends(each, state) for each, state in states))
    unknown = f"what was decided after {newest[-1].version.name} nobody can tell, and it ends, too"
    return max(map(_removed, (state for _, state in states))), (*ends, *([unknown] if later else []))


def _removed(state: TableState) -> int:
    return sum(gone.rows for gone in state.forgotten.shards.values())


def _ends(candidate: Candidate, state: TableState) -> Iterator[str]:
    """What this metadata says was decided: removals, values that may not land, pauses."""
    forgotten = state.forgotten
    origins = sorted({origin for origin, _ in forgotten.shards})
    if rows := _removed(state):
        single = IntervalSet.of(
            pair
            for (origin, _), gone in forgotten.shards.items()
            for pair in gone.hours.minus(IntervalSet.of([(0, forgotten.before(origin))]))
        )
        count = sum(end - begin for begin, end in single)
        hours = f", of {amount(count, 'receive hour')}" if count else ""
        yield (
            f"removed for good{hours}: {amount(rows, 'row')}; the new table does not know it, and "
            "what the service still has of them lands again"
        )
    for origin in origins:
        if hour := forgotten.before(origin):
            yield (
                f"no receive hour before {hour_text(hour)} lands any more{_of(state, origin)}: that ends; "
                f"`start: {hour_text(hour)}` in the defs.yaml, before the next landing, keeps them out"
            )
    yield from _kept_out(candidate, state)
    for origin, shards in sorted(state.paused.items()):
        if shards:
            named = ", ".join(map(str, sorted(shards)))
            yield f"paused{_of(state, origin)}: shards {named}: that ends, and they land"


def _kept_out(candidate: Candidate, state: TableState) -> Iterator[str]:
    """Values that may not land, and that may not as they are sent."""
    if bars := state.forgotten.bars.values:
        names = {field.field_id: field.name for field in candidate.metadata.schema().fields}
        counts = Counter(names.get(bar.field, f"id {bar.field}") for bar in bars)
        columns = ", ".join(f"{name}: {count:,}" for name, count in sorted(counts.items()))
        yield f"values that may not land, by column {columns}: that ends, and rows with them land"
    found = candidate.metadata.properties.items()
    keys = {key for name, text in found if name.startswith(PROTECTED_PROPERTY_PREFIX) for key in text.split()}
    if keys:
        named = ", ".join(sorted(keys))
        yield f"values that may not land as sent, by key {named}: that ends, and settings alone count"


def _of(state: TableState, origin: str) -> str:
    """Of which logstore, where the table has several."""
    return f" of {state.origins.get(origin, origin)}" if len(state.origins) > 1 else ""


def start_over(lake: Lake, decided: PlannedStart) -> Table:
    """Make the new table; the one in the catalog then.

    Raises as `Lake.create`; LandingConflict when the catalog has a table again, or the metadata of its row is
    there again; where it has a row, LandingUnknown when it did not answer, ConfigError when it cannot do it.

    Story: between the look and the go-ahead somebody registers the lost table. It is the one in the catalog
    then, with all of its rows, and not one that is new and empty.
    """
    planned = decided.view
    contract, name = Contract.from_columns(decided.logstore.columns), planned.table
    if not planned.there:
        if (new := lake.create_new(name, contract, location=decided.location or None)) is None:
            raise catalog_changed(name)
        return new
    known, catalog = entry_of(lake, name), lake.catalog()
    if not isinstance(catalog, SqlCatalog):
        raise ConfigError(
            f"{lake.place} does not let a table that it has begin anew; drop the table there, without its "
            "files (purge), first",
            cures=(commands.START_OVER,),
        )
    with commits(name) as made:
        # Story: the disk with the metadata is mounted again between the look and the go-ahead. The table can
        # be read again, and a new one in its row would take it from everybody.
        if known.table is not None or known.old != planned.named:
            raise catalog_changed(name)
        try:
            done = lake.answered(
                lambda: lake.create_instead(
                    name, contract, catalog, location=decided.location, named=planned.named
                )
            )
        except OSError as error:
            raise TransportError(f"{storage_trouble(decided.location, error)}; run it again") from error
        except Exception as error:  # every catalog has its own exceptions
            raise unanswered(lake.place, error) from error
        if not done:
            raise catalog_changed(name)
        made.what = f"a new, empty table {name} in {decided.location} is committed"
        return loaded(lake, name)
