"""A table that nothing brings back, given up: a new, empty one in a folder of its own.

The old files stay as they are. Where the catalog still has a row of the table, that is changed in one step,
and only if it says what it said when somebody decided.

Why a folder of its own: no snapshot of the new table needs a file of the old one. In one folder nobody could
tell whose a file is, and a maintenance that finds files of two tables there deletes nothing (`maintain.py`).

Why no drop and create: in between a run would find no table.

Why a person decides, and not the first run that finds nothing: the old history ends here. What landed stays
in files that no catalog names, and what retention has taken since lands in no table any more.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from pipelines.landing.commit.after_commit import commits
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Decision, Finished, Tools
from pipelines.landing.ledger.start import moved
from pipelines.landing.logstore import Logstore
from pipelines.landing.recovery.candidates import catalog_changed, entry_of, loaded
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.former import (
    new_location,
    place_of,
)
from pipelines.landing.table.lake import Lake, unreachable
from pipelines.landing.table.trouble import storage_trouble
from sls_io.values.errors import (
    ConfigError,
    LandingUnknown,
)
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class StartOver(Effect):
    """What is given up, a phrase each, and where the new table lies; "" where the catalog decides.

    there  the catalog has the table's row, which names `named` (None: no file), and that cannot be read
    """

    QUIET = frozenset({"found"})
    THEN = (commands.LAND,)

    table: str
    found: tuple[str, ...]
    location: str
    there: bool = False
    named: str | None = None

    @property
    def headline(self) -> str:
        where = f"lies in {self.location}" if self.location else "lies where the catalog puts it"
        return f"given up: the old table {self.table}; a new, empty one {where}"

    def said(self) -> Iterable[Note]:
        return map(Note, self.found)


@dataclass(frozen=True, kw_only=True)
class PlannedStart(Decision[StartOver]):
    """A table begun anew as data: what `start_over` does, for these settings."""

    logstore: Logstore

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
    view = StartOver(
        table=name,
        found=(
            *([str(known.why)] if known.why else []),
            *(former.found if former else ()),
            *([group] if shards else []),
        ),
        location=new_location(place.location) if place else "",
        there=known.there,
        named=known.old,
    )
    return PlannedStart(view=view, logstore=logstore)


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
        if (new := lake.create_new(name, contract, location=planned.location or None)) is None:
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
                    name, contract, catalog, location=planned.location, named=planned.named
                )
            )
        except OSError as error:
            raise ConfigError(f"{storage_trouble(planned.location, error)}; nothing was changed") from error
        except Exception as error:  # every catalog has its own exceptions
            raise LandingUnknown(f"{unreachable(lake, error)}; asking for the same again is safe") from error
        if not done:
            raise catalog_changed(name)
        made.what = f"a new, empty table {name} in {planned.location} is committed"
        return loaded(lake, name)
