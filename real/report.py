"""The table that is sent back: no secret, no log, no number of an account."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sls_io.values.errors import printable

OK, FAILED, NOT_TRIED = "ok", "FAILED", "not tried"
_ACCOUNT = re.compile(r"(?<![0-9])[0-9]{12,}(?![0-9])")
_CHARS_MAX = 400


class Report:
    """Rows of act, word and sentence."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._rows: list[tuple[str, str, str]] = []

    def add(self, act: str, word: str, text: str = "") -> None:
        """One row."""
        self._rows.append((act, word, self.masked(text)))

    def masked(self, text: str) -> str:
        """`text` as it may be sent: keys, numbers of accounts and this machine's home left out."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _ACCOUNT.sub("<account>", printable(text.replace(str(Path.home()), "~"), _CHARS_MAX))

    @property
    def failed(self) -> bool:
        """Whether any row says so."""
        return any(word == FAILED for _, word, _ in self._rows)

    def lines(self) -> Iterator[str]:
        """The table."""
        act_width = max((len(act) for act, _, _ in self._rows), default=0)
        for act, word, text in self._rows:
            yield f"{act.ljust(act_width)}  {word.ljust(len(NOT_TRIED))}  {text}".rstrip()
