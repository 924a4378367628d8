"""What an operation does to a table, as one value that people, programs and Dagster are shown.

Each effect is a dataclass made beside its plan. Its fields are the document of a program; people get the
`headline`, the numbers, each field that has rows as a table, and then `said`. So an operation says of
itself only what no field does, and no renderer knows any operation:

    people     `cli/deciding.py`, where the name of a field says how it is written
    programs   `document`
    Dagster    `components/logstore/metadata.py`

Worked example: `Undo(table="lake.logs", hours={494_600: 20}, rows=20, files=2, ...)` is shown as its
sentence, as `rows 20, files 2`, and as a table of the receive hour with its 20 rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from sls_io.values.cures import Cure

_HEADS = {
    "hours": ("hour", "rows"),
    "shards": ("shard", "rows"),
    "starts": ("shard", "start"),
    "left": ("still", "rows"),
    "kept": ("origin", "snapshot"),
}
"""What keys and values of a mapping are, by the name of its field; any other one is told in sentences."""

Row = dict[str, Any]


class Note(NamedTuple):
    """A sentence to be read before somebody says yes; a `loss` is of rows that may not come back, or
    of what somebody decided."""

    text: str
    level: Literal["", "warn", "loss"] = ""


@dataclass(frozen=True)
class Effect:
    """What would be done, or was. `QUIET` are fields that sentences tell: they are no number and no table."""

    WHAT: ClassVar[str] = "{table}"
    QUIET: ClassVar[frozenset[str]] = frozenset()
    THEN: ClassVar[tuple[Cure, ...]] = ()

    @property
    def headline(self) -> str:
        """What is done, and to which table: `WHAT` with the fields that it names."""
        return self.WHAT.format_map(vars(self))

    def said(self) -> Iterable[Note]:
        """What no number says."""
        return ()

    def then(self) -> Iterable[Cure]:
        """What to go on with once it is done."""
        return self.THEN

    def document(self) -> Row:
        """For a program."""
        return asdict(self)

    def numbers(self) -> dict[str, int | None]:
        """Counts of rows and of what they lie in; None where nobody can say."""
        return {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.type in (int, int | None) and f.name not in self.QUIET and not f.name.endswith(("_s", "_ms"))
        }

    def lists(self) -> dict[str, list[Any]]:
        """Fields with several values of which each is one word, or one hour."""
        several = ((name, value) for name, value in self._values() if isinstance(value, tuple))
        return {name: list(value) for name, value in several if not _rows(value)}

    def tables(self) -> dict[str, list[Row]]:
        """Fields with several values of which each has names of its own."""
        found = {}
        for name, value in self._values():
            if isinstance(value, Mapping) and name in _HEADS:
                found[name] = [dict(zip(_HEADS[name], pair, strict=True)) for pair in value.items()]
            elif isinstance(value, tuple) and _rows(value):
                found[name] = [record(each) for each in value]
        return {name: rows for name, rows in found.items() if rows}

    def _values(self) -> Iterable[tuple[str, Any]]:
        return ((f.name, getattr(self, f.name)) for f in fields(self) if f.name not in self.QUIET)


def record(value: Any) -> Row:
    """The fields of a value by name, those of a value inside it in its place; without those of no `repr`."""
    found: Row = {}
    for each in fields(value):
        inside = getattr(value, each.name)
        if each.repr:
            found |= record(inside) if is_dataclass(inside) else {each.name: inside}
    return found


def _rows(value: Any) -> bool:
    return all(is_dataclass(each) for each in value)
