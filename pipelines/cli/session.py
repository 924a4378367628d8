"""What the running call knows of itself: how it was typed, and which logstore it had to choose."""

import shlex

import click

BEGUN, SAID, UNWRITTEN, DEBUG = "begun", "said", "unwritten", "debug"
"""Set in click's object once its verb does something; once it has printed its JSON document, after which an
error prints no other; where standard output could not be written; where somebody asked for a trace."""
DRY_RUN = "--dry-run"
"""The option of verbs that do at once what they are asked for."""
LOGSTORE, TYPED, SETTINGS = "logstore", "typed", "settings"
"""In click's object: the logstore of this call, where it had to be chosen; the words that were typed; the
settings that were read."""


def logstore() -> str:
    """The logstore that this call had to choose; "" where there is one alone."""
    return _told(LOGSTORE)


def typed_to_do_it(by: str) -> str:
    """The running call as it was typed, no dry run and with the option `by`; "" when nobody typed it."""
    words = [word for word in shlex.split(_told(TYPED)) if word != DRY_RUN]
    return shlex.join([*words, *filter(None, [by])]) if words else ""


def keep(what: str, value: object) -> None:
    """Remember it of this call; where there is none, nobody asks."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.ensure_object(dict)[what] = value


def _told(what: str) -> str:
    context = click.get_current_context(silent=True)
    return str(context.ensure_object(dict).get(what, "")) if context is not None else ""
