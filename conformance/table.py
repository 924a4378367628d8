"""Scenario x language: ok, n/a, skipped with a reason, or FAILED with one."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from conformance.program import Failed

Cell = tuple[str, str]
_WIDTH = 10


class Table:
    """Filled cell by cell; every cell that is not `ok` has a reason below the table."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._languages = tuple(languages)
        self._cells: dict[str, dict[str, Cell]] = {}
        self._remarks: list[str] = []

    def note(self, row: str, language: str, word: str, reason: str = "") -> None:
        """Fill in one cell; a FAILED cell stays so."""
        cells = self._cells.setdefault(row, {})
        if cells.get(language, ("", ""))[0] != "FAILED":
            cells[language] = word, reason

    def remark(self, text: str) -> None:
        """A sentence below the table."""
        self._remarks.append(text)

    def skip(self, language: str, reason: str) -> None:
        """The language has no program: all its cells are skipped."""
        self.note("build", language, "skipped", reason)

    @contextmanager
    def cell(self, row: str, *languages: str) -> Iterator[None]:
        """`ok` for these languages when the block ends, FAILED with the sentence when it raises Failed."""
        word, reason = "ok", ""
        try:
            yield
        except Failed as failed:
            word, reason = "FAILED", str(failed)
        for language in languages:
            self.note(row, language, word, reason)

    def cells(self) -> Iterator[tuple[str, str, str, str]]:
        """(row, language, word, reason) of each cell."""
        for row, cells in self._cells.items():
            for language, (word, reason) in cells.items():
                yield row, language, word, reason

    @property
    def failed(self) -> bool:
        """Whether any cell is FAILED."""
        return any(word == "FAILED" for cells in self._cells.values() for word, _ in cells.values())

    @property
    def skipped(self) -> bool:
        """Whether any language was left out."""
        return any(word == "skipped" for cells in self._cells.values() for word, _ in cells.values())

    def lines(self) -> Iterator[str]:
        """The table, then why each cell is what it is."""
        skipped = {
            language: cell for language, cell in self._cells.get("build", {}).items() if cell[0] == "skipped"
        }
        width = max((len(row) for row in self._cells), default=0)
        yield "  ".join(["".ljust(width), *(language.ljust(_WIDTH) for language in self._languages)]).rstrip()
        reasons: dict[str, list[str]] = {}
        for row, cells in self._cells.items():
            words = []
            for language in self._languages:
                word, reason = cells.get(language, skipped.get(language, ("-", "")))
                words.append(word.ljust(_WIDTH))
                if reason and language in cells:
                    reasons.setdefault(f"{row}: {word}: {reason}", []).append(language)
            yield "  ".join([row.ljust(width), *words]).rstrip()
        for reason, languages in reasons.items():
            yield f"{', '.join(languages)}: {reason}"
        yield from self._remarks
