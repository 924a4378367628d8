"""An error as a person and as a program is told of it: a sentence with its cures, a class, and facts."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from pipelines.cli import session as sessions
from pipelines.cli.loading import loaded
from pipelines.landing import json_log
from pipelines.landing.table.commands import PROGRAM, documents, line
from sls_io.values.errors import DISK, LedgerBroken, ServiceError, SlsError, Throttled, printable


def say(error: Exception, session: Mapping[str, Any]) -> str:
    """What is wrong on stderr, and below it the cures that work now; the logstore that they name."""
    if isinstance(error, LedgerBroken) and sessions.SETTINGS in session:
        # Whoever met it had Iceberg loaded; other verbs do not wait for that.
        loaded("pipelines.landing.inspection.cures").give_cures(error, session[sessions.SETTINGS])
    name = str(session.get(sessions.LOGSTORE, ""))
    cures = error.cures if isinstance(error, SlsError) else ()
    err(logging.ERROR, "\n  ".join([f"{PROGRAM}: {sentence(error)}", *(line(cure, name) for cure in cures)]))
    return name


def err(level: int, text: str) -> None:
    """A sentence on stderr, as a log where that is asked for."""
    if not json_log.say(level, text):
        print(text, file=sys.stderr)


def unwritten(error: OSError) -> str:
    """What stderr says when standard output takes no more."""
    return (
        f"standard output cannot be written: {error.strerror or type(error).__name__}. Make room where it "
        "goes, or send it elsewhere. The verb ended there: ask again what it did before you repeat it"
    )


def kind_of(error: Exception) -> str:
    """The class of the tree that `error` is of; `unforeseen` for one of no tree."""
    names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == SlsError.__module__]
    return names[0] if names else "unforeseen"


def facts(error: Exception, logstore: str = "") -> dict[str, Any]:
    """What a program may decide by: what settles it, the service's code."""
    found: dict[str, Any] = {}
    if isinstance(error, SlsError) and error.cures:
        found["cures"] = documents(error.cures, logstore)
    if isinstance(error, ServiceError | Throttled):
        found["code"] = error.code
    return found


def sentence(error: Exception) -> str:
    """What stderr says of `error`: our own errors speak for themselves, others are cut to one line."""
    if isinstance(error, SlsError):
        return str(error)
    if isinstance(error, OSError) and error.errno in DISK and error.filename:
        place = printable(os.fsdecode(error.filename))
        return f"{place} cannot be written ({error.strerror}): make room, or give the right, and run it again"
    text = printable(next(iter(str(error).strip().splitlines()), ""))
    name = type(error).__name__
    return f"{name}: {text} (an error we did not foresee: run it again with --debug and keep the trace)"
