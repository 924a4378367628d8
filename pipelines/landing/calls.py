"""Cures as people and programs are shown them: a command runs as it is printed.

- a command gets the program, the logstore where one is to be named, and `--execute` where it is harmless
- what is done by hand stands as it is
"""

import shlex
from collections.abc import Iterable

from sls_io.values.cures import Call, Cure, Do

PROGRAM = "sls-lake"
OF_NO_LOGSTORE = frozenset({"check", "dbt", "demo", "dev", "emulator", "logstores"})
"""First words of the commands that are about no logstore, or about several."""


def shown(cure: Cure, logstore: str = "") -> str:
    """As it is typed, for this logstore; "" where the project has one alone."""
    if isinstance(cure, Do):
        return cure.text
    wanted = bool(logstore) and cure.words[0] not in OF_NO_LOGSTORE and "-l" not in cure.words
    named = ("-l", logstore) if wanted else ()
    return shlex.join((PROGRAM, *cure.words, *named, *("--execute",) * cure.harmless))


def line(cure: Cure, logstore: str = "") -> str:
    """As `shown`, and what it does."""
    does = cure.does if isinstance(cure, Call) else ""
    return f"{shown(cure, logstore)}   {does}".rstrip()


def documents(cures: Iterable[Cure], logstore: str = "") -> list[dict[str, str]]:
    """For JSON: {"call", "does"} or {"do"}."""
    return [
        {"do": cure.text}
        if isinstance(cure, Do)
        else {"call": shown(cure, logstore)} | ({"does": cure.does} if cure.does else {})
        for cure in cures
    ]
