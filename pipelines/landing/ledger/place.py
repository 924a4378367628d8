"""A table as somebody looked at it before a decision: loaded once, proven as far as the decision needs.

    Looked   the table alone: what keeps it small, and what puts its columns right, asks no service
    Place    the same with the logstore that the decision is about

How much is proven depends on what the decision settles:

    FACTS   nothing: it settles a ledger that cannot be trusted, so damaged texts are left out
    SOUND   the ledger can be trusted (`read_state`); rows may be missing, which is what it settles
    WHOLE   and the newest landing adds up: what leaves can be told from what is missing
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from pipelines.landing.ledger.newest_landing import check_adds_up
from pipelines.landing.ledger.start import check_origin, find_table, known
from pipelines.landing.ledger.state import TableState, facts, held_columns, read_state
from pipelines.landing.ledger.values import Adopted
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.contract import Contract, partition_of
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger
from sls_io.values.errors import ConfigError, printable
from sls_io.wire.client import Origin, SlsClient


class Trust(StrEnum):
    """What of a table must hold before a decision about it is planned."""

    FACTS = "facts"
    SOUND = "sound"
    WHOLE = "whole"


@dataclass(frozen=True)
class Looked:
    """A table and what it says; `head` is the snapshot of main."""

    table: Table
    state: TableState
    head: Snapshot

    @property
    def name(self) -> str:
        """The table's name."""
        return ".".join(self.table.name())


@dataclass(frozen=True)
class Place(Looked):
    """The same, with the logstore of the settings under the id that the table knows it by."""

    logstore: Logstore
    origin: Origin

    @property
    def ledger(self) -> Ledger:
        """The ledger of the logstore."""
        return self.state.ledger(self.origin.id)

    @property
    def adopted(self) -> Adopted:
        """Rows that were there before ledgers began."""
        return self.state.adopted

    def of(self, origin: str) -> "Place":
        """The same table with the rows of another origin in mind, one that it has a ledger of."""
        text, _, created = self.state.origins[origin].rpartition("@")
        region, project, logstore = text.split("/", 2)
        return replace(self, origin=Origin(region, project, logstore, int(created), known_as=origin))

    def of_known(self, origin: str) -> "Place":
        """As `of`, itself for "" and its own. Raises ConfigError for one of which the table has no ledger."""
        if origin in ("", self.origin.id):
            return self
        if origin not in self.state.origins or origin not in self.state.ledgers:
            there = ", ".join(sorted(set(self.state.origins) & set(self.state.ledgers)))
            raise ConfigError(
                f"{self.name} has no ledger of an origin {printable(origin)!r}; it knows {there}"
            )
        return self.of(origin)


def look_at(lake: Lake, name: str, *, trust: Trust = Trust.WHOLE, columns: bool = True) -> Looked:
    """The table `name` now; the service is not asked. `columns`: False for who puts columns back.

    Raises ConfigError when nothing has landed, LedgerBroken when it cannot be trusted as far as `trust` says.
    """
    return _looked(lake.load(name), name, trust, columns=columns)


def look(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    *,
    trust: Trust = Trust.WHOLE,
    started: bool = True,
    same: bool = True,
) -> Place:
    """The table of the logstore now. `started`: the logstore has landed there; `same`: it is the one that
    did, under the region that the table knows.

    Raises ConfigError when nothing has landed, LedgerBroken when it cannot be trusted as far as that.
    """
    asked, name = client.origin(), logstore.table
    looked = _looked(find_table(lake, logstore, client), name, trust)
    origin = check_origin(looked.state, asked, name) if same else known(looked.state, asked)
    place = Place(looked.table, looked.state, looked.head, logstore, origin)
    if started and not place.ledger.started:
        raise ConfigError(f"nothing of {origin.logstore} has landed in {name} yet")
    return place


def _looked(table: Table | None, name: str, trust: Trust, *, columns: bool = True) -> Looked:
    """Each degree asks what the one before it does, and more: facts; that the ledger can be trusted; that the
    newest landing adds up."""
    if table is None:
        raise _empty(name)
    sound = trust is not Trust.FACTS
    # Before its head: of a table whose branch main somebody dropped it says what brings it back.
    state = read_state(table, columns=columns) if sound else facts(table, damaged_too=True)
    head = table.current_snapshot()
    if head is None or (sound and state.tagged is None):
        raise _empty(name)
    if trust is Trust.WHOLE:
        check_adds_up(table)
    return Looked(table, state, head)


def _empty(name: str) -> ConfigError:
    return ConfigError(f"nothing has landed in {name} yet", cures=(commands.LAND,))


def landable(logstore: Logstore, table: Table) -> Schema | None:
    """The schema of what these settings land in the table; None: the one that it has. Raises ConfigError for
    columns, a partitioning or protected keys with which nothing lands."""
    logstore.protection(table.properties)
    metadata, contract = table.metadata, Contract.from_columns(logstore.columns)
    evolved = contract.evolved(metadata, held_columns(table))
    schema, name = evolved or metadata.schema(), logstore.table
    partition_of(metadata.spec(), schema, table=name, origin="", shard=0, hour=0)
    return evolved
