"""What must be in a table after a sequence of verbs: sets in Python, worked out from the documentation alone.

A log is in one of these places, for each logstore (ARCHITECTURE.md, docs/decisions/0013 to 0018, 0034, 0035):

    landed     a landing brought it, so says the ledger: its row is in the table, unless it was forgotten
    skipped    live runs were told to go on behind it: a fill that names its hour, or a replace, brings it
    withdrawn  an undo took it back: only a fill that names its hour, or a replace, brings it again
    forgotten  removed for good: no verb ever brings it back
    adopted    a row that was there when a ledger began anew: counted, never called landed
    open       none of these: the next landing brings it if the service still has it, else it is in a gap

What others do to the table by hand changes its rows and nothing else. As long as rows and ledger do not
agree the table is *unwell*, verify is red, and the verbs that rely on the ledger refuse.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[int, int, int]
"""Shard, cursor, place in the group: the identity of a log in its logstore."""
Row = tuple[str, Place, bool]
"""Of which logstore (or stranger), which place, and whether it carries an error."""

CONTRACTS: tuple[Mapping[str, str], ...] = (
    {"n": "long", "status": "int"},
    {"n": "long", "status": "long"},
    {"n": "long", "status": "long", "path": "string"},
)
"""What a contract may become, one after the other: wider, then with a column more."""
_BITS = (31, 63, 63)


@dataclass(frozen=True)
class Log:
    """A log as it was put: its receive hour (since 1970) and its pairs."""

    hour: int
    pairs: Mapping[str, str]

    @property
    def n(self) -> int:
        """Its number, unlike any other's of the round."""
        return int(self.pairs["n"])

    def misfit(self, contract: int) -> bool:
        """Whether its status does not fit what the contract declares."""
        text = self.pairs["status"]
        return not text.isdigit() or int(text) >= 2 ** _BITS[contract]


@dataclass
class Told:
    """What a ledger says of one logstore, log by log."""

    landed: set[Place] = field(default_factory=set)
    withdrawn: set[Place] = field(default_factory=set)
    adopted: Counter[Place] = field(default_factory=Counter)
    skipped: set[Place] = field(default_factory=set)

    def again(self) -> "Told":
        """A copy."""
        return copy.deepcopy(self)


@dataclass
class Store:
    """What the service had and has of one logstore, and what was decided for good.

    strays  places that no log has, where somebody appended a copy -> the place it was copied from
    hours   receive hours of which something was forgotten; all before `before` are
    sealed  receive hours before this one are landed to their end, in every shard there is
    """

    logs: dict[Place, Log] = field(default_factory=dict)
    strays: dict[Place, Place] = field(default_factory=dict)
    alive: set[Place] = field(default_factory=set)
    forgotten: set[Place] = field(default_factory=set)
    hours: set[int] = field(default_factory=set)
    before: int = 0
    sealed: int = 0

    def log(self, place: Place) -> Log:
        """What the row of this place says, a stray's too."""
        return self.logs[self.strays.get(place, place)]


@dataclass
class Saved:
    """The table at one snapshot; `told` is None where no ledger goes with it."""

    rows: Counter[Row]
    told: dict[str, Told] | None
    others: int
    forgotten: int


@dataclass
class Model:
    """One table of a few logstores. `told` has an entry for each that began; None: it has no ledger.

    others     rows of nobody that were adopted as a number
    decided    how many removals for good there were
    contained  how many of them `main` knows of
    dangling   row-level deletes that hide nothing: a run takes each for a row that is not shown, so the table
               may show as many more than it knows before a run refuses it; verify counts row by row
    paused     shards that no live run lands
    lineage    how `main` stands to the newest landing: well, untagged, behind, undecided
    """

    stores: dict[str, Store]
    rows: Counter[Row] = field(default_factory=Counter)
    told: dict[str, Told | None] = field(default_factory=dict)
    others: int = 0
    decided: int = 0
    contained: int = 0
    dangling: int = 0
    lineage: str = "well"
    contract: int = 0
    paused: dict[str, set[int]] = field(default_factory=dict)
    saved: dict[int, Saved] = field(default_factory=dict)

    # --- what is asked of it -----------------------------------------------------------------------

    def expected(self, name: str) -> Counter[Place]:
        """The rows that the ledger and what was adopted say."""
        told = self.told.get(name)
        if told is None:
            return Counter()
        return Counter(told.landed - self.stores[name].forgotten) + told.adopted

    def there(self, name: str) -> Counter[Place]:
        """The rows of a logstore that the table shows."""
        found: Counter[Place] = Counter()
        for (owner, place, _), times in self.rows.items():
            if owner == name:
                found[place] += times
        return found

    @property
    def known(self) -> int:
        """How many rows ledgers and adoption explain."""
        return self.others + sum(self.expected(name).total() for name in self.told)

    @property
    def trusted(self) -> bool:
        """Whether a ledger can be relied on at all: it is of `main`, of every logstore, and the table shows
        no row more than it knows, as far as that is seen without looking into files."""
        begun = all(told is not None for told in self.told.values())
        more = self.rows.total() - self.dangling > self.known
        return self.lineage == "well" and self.contained == self.decided and begun and not more

    def short(self, name: str) -> bool:
        """Whether rows are missing that should be there."""
        return bool(self.expected(name) - self.there(name))

    def strange(self, name: str) -> bool:
        """Whether rows are there that nothing explains."""
        return bool(self.there(name) - self.expected(name))

    def well(self, name: str) -> bool:
        """Whether the rows of a logstore are exactly what the ledger says."""
        return self.trusted and not self.short(name) and not self.strange(name)

    @property
    def proven(self) -> bool:
        """Whether that is so of every logstore of the table: then verify is green, whoever asks."""
        return all(self.well(name) for name in self.told)

    @property
    def lost(self) -> bool:
        """Whether the table shows fewer rows than are known: maintenance leaves it alone."""
        return self.rows.total() < self.known

    def open(self, name: str) -> set[Place]:
        """Logs that the service has and that nobody has settled."""
        store, told = self.stores[name], self.told.get(name) or Told()
        settled = told.landed | told.withdrawn | told.skipped | set(told.adopted) | store.forgotten
        return {p for p in store.alive - settled if store.logs[p].hour >= store.before}

    def refillable(self, name: str, hours: Iterable[int]) -> set[Place]:
        """Logs that a fill of these hours may bring."""
        store, told = self.stores[name], self.told.get(name) or Told()
        asked = set(hours)
        again = ((told.withdrawn | told.skipped) & store.alive) - store.forgotten
        candidates = self.open(name) | {p for p in again if store.logs[p].hour >= store.before}
        return {p for p in candidates if store.logs[p].hour in asked}

    def _passed(self, name: str, place: Place) -> bool:
        """Whether a later log of its shard is settled."""
        told = self.told.get(name) or Told()
        settled = told.landed | told.withdrawn | told.skipped
        return any(p[0] == place[0] and p > place for p in settled)

    def of_hours(self, name: str, hours: Iterable[int]) -> set[Place]:
        """Landed logs of these hours that were not forgotten."""
        store, told = self.stores[name], self.told.get(name) or Told()
        asked = set(hours)
        return {p for p in told.landed - store.forgotten if store.logs[p].hour in asked}

    # --- what changes it ---------------------------------------------------------------------------

    def row(self, name: str, place: Place) -> Row:
        """The row of a log, as the contract of today makes it."""
        return (name, place, self.stores[name].logs[place].misfit(self.contract))

    def land(self, name: str, places: Iterable[Place]) -> None:
        """Logs came."""
        told = self.told.get(name) or Told()
        self.told[name] = told
        told.landed |= set(places)
        told.withdrawn -= set(places)
        told.skipped -= set(places)
        self.rows.update(self.row(name, place) for place in places)

    def drop(self, name: str, places: Iterable[Place]) -> None:
        """All rows of these places leave; what the ledger says stays."""
        gone = set(places)
        self.rows = Counter({r: c for r, c in self.rows.items() if r[0] != name or r[1] not in gone})

    def undo(self, name: str, hours: Iterable[int]) -> None:
        """Whole hours are taken back."""
        told, taken = self.told[name], self.of_hours(name, hours)
        assert told is not None
        told.landed -= taken
        told.withdrawn |= taken
        self.drop(name, taken)

    def replace(self, name: str, hours: Iterable[int]) -> None:
        """Whole hours are landed anew, with all that they lack; of an hour that runs what frontiers have
        passed."""
        asked = set(hours)
        waiting = {p for p in self.open(name) if not self._passed(name, p)}
        fresh = self.of_hours(name, asked) | self.refillable(name, asked) - waiting
        self.drop(name, [p for p in self.there(name) if self.stores[name].log(p).hour in asked])
        self.land(name, fresh)

    def forget(self, name: str, places: set[Place], *, before: int = 0) -> None:
        """Rows leave for good; with `before`, all hours before that one are settled for ever."""
        store, told = self.stores[name], self.told[name]
        assert told is not None
        store.forgotten |= places
        store.hours |= {store.log(p).hour for p in places}
        store.before = max(store.before, before)
        told.adopted = Counter({p: c for p, c in told.adopted.items() if p not in places})
        self.drop(name, places)
        self.decided += 1
        self.contained = self.decided

    def mend(self, name: str, hours: Iterable[int]) -> None:
        """Rows with errors are read again with the contract of today."""
        asked, store = set(hours), self.stores[name]
        for row in [r for r in self.rows if r[0] == name and r[2]]:
            if store.log(row[1]).hour in asked and not store.log(row[1]).misfit(self.contract):
                self.rows[name, row[1], False] += self.rows.pop(row)

    def go_to(self, saved: Saved) -> None:
        """The rows and the ledgers of a landing; logstores that began since keep their start."""
        then = copy.deepcopy(saved)
        assert then.told is not None
        self.rows, self.others = then.rows, then.others
        self.told = {name: then.told.get(name, Told()) for name in self.told}
        self.contained, self.lineage, self.dangling = then.forgotten, "well", 0
        for store in self.stores.values():
            store.sealed = 0

    def save(self, snapshot: int, *, landing: bool) -> None:
        """Remember the table as it is now."""
        told = {name: t for name, t in self.told.items() if t is not None} if landing else None
        self.saved[snapshot] = copy.deepcopy(Saved(self.rows, told, self.others, self.contained))
