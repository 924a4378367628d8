"""What `table adopt` found of a table, and would do: the numbers, and how they are said."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.table import commands
from sls_io.values.window import Cursor


@dataclass(frozen=True)
class ShardStart:
    """Where a shard would start, and the rows before that which would be adopted."""

    shard: int
    start: Cursor | None
    adopted: int


@dataclass(frozen=True)
class Difference:
    """One shard of which the newest readable ledger of its origin says something else than the table.

    snapshot  whose ledger that is
    known     rows that it knew, adopted ones with them
    there     rows there now
    missing   rows that it knew and that are gone, at least
    foreign   rows that it does not explain, at least
    """

    origin: str
    shard: int
    snapshot: int
    known: int
    there: int
    missing: int
    foreign: int


@dataclass(frozen=True)
class Adoption(Effect):
    """What `table adopt` found and would do.

    trouble   what is wrong with the table
    refused   landings are refused because of it; else they go on
    kept      origin -> snapshot whose ledger the rows prove
    starts    the shards of this logstore whose ledger begins anew; empty when its ledger is kept
    others    rows of origins that the table does not know, adopted as a number
    still_refused other logstores whose ledger is not proven: they have to be adopted too
    asks      a start must be named before this can be done
    differs   shards of which the newest readable ledger of their origin says something else
    missing   rows of this logstore that would be given up, at least
    back      a landing that `table rollback` can go to, with which these differences are gone
    damaged   the newest landing, when a ledger in it cannot be read
    forgotten rows were removed for good from this table
    former    logstores of the same name, deleted since, whose ledger is not proven: their rows are adopted
    lost      origin -> files that are gone or damaged; those of a ledger that begins anew leave the table
    remade    this logstore before it was deleted and made again: origin -> text
    """

    QUIET = frozenset({"still_refused", "back", "damaged", "former"})
    THEN = (commands.LAND,)

    table: str
    origin: str
    trouble: str
    kept: Mapping[str, int]
    starts: tuple[ShardStart, ...]
    others: int
    still_refused: tuple[str, ...]
    asks: bool
    differs: tuple[Difference, ...] = ()
    missing: int = 0
    back: int | None = None
    damaged: int | None = None
    forgotten: bool = False
    former: tuple[str, ...] = ()
    lost: Mapping[str, Sequence[str]] = field(default_factory=dict)
    refused: bool = True
    remade: Mapping[str, str] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        return (
            f"landings are refused: {self.trouble}" if self.refused else f"landings go on, but {self.trouble}"
        )

    def document(self) -> dict[str, Any]:
        return super().document() | {"kept": {origin: str(number) for origin, number in self.kept.items()}}

    def said(self) -> Iterable[Note]:
        if self.starts:
            yield Note(
                f"{self.origin}: no ledger that its rows prove; it begins anew. The rows before its starts "
                "are kept and counted as adopted; nothing older is landed"
            )
        for origin in self.former:
            yield Note(f"{origin}: deleted since, and no ledger that its rows prove; they count as adopted")
        for text in self.remade.values():
            yield Note(
                f"{text} was deleted: what it had behind its frontier cannot land any more, and nobody can "
                "say how much that was",
                "warn",
            )
        yield from self._said_of_differences()
        for origin, names in sorted(self.lost.items()):
            leave = origin in {self.origin, *self.former} and origin not in self.kept
            stay = "leave the table" if leave else "stay, and are named by each proof"
            yield Note(
                f"{origin}: {len(names)} files are gone or damaged, {', '.join(names[:5])}; they {stay}"
            )
        for origin in self.still_refused:
            yield Note(
                f"{origin}: not proven either; landings stay refused until it is adopted, too, by its own "
                "settings"
            )

    def _said_of_differences(self) -> Iterable[Note]:
        """What the newest readable ledgers say differently, and what cures that."""
        if self.damaged is not None:
            yield Note(f"the newest landing, snapshot {self.damaged}, has a ledger that cannot be read")
        if not self.differs:
            return
        yield Note("at least so many rows are missing or foreign; there may be more")
        if any(d.missing for d in self.differs if d.origin in self.kept):
            yield Note(
                "where an older ledger is kept, the next runs pull its missing rows again; what retention "
                "took becomes a gap"
            )
        if self.forgotten and any(d.foreign for d in self.differs):
            yield Note("rows were removed from this table by `table forget`: the foreign rows may be those")
