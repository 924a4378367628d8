"""What the running call knows of itself: how it was typed, and which logstore it had to choose."""

import shlex

import click

SAID, UNWRITTEN = "said", "unwritten"
"""Set in click's object once a verb has printed its JSON document: an error after it prints no other; and
where standard output could not be written."""
DRY_RUN = "--dry-run"
"""The option of verbs that do at once what they are asked for."""
LOGSTORE, TYPED, SETTINGS = "logstore", "typed", "settings"
"""In click's object: the logstore of this call, where it had to be chosen; the words that were typed; the
settings that were read."""


def logstore() -> str:
    """The logstore that this call had to choose; "" where there is one alone."""
    return _told(LOGSTORE)


def typed() -> str:
    """The running call as it was typed, "" when nobody typed it."""
    return _told(TYPED)


def typed_to_do_it(by: str) -> str:
    """The running call as it was typed, no dry run and with the option `by`; "" when nobody typed it."""
    words = [word for word in shlex.split(typed()) if word != DRY_RUN]
    return shlex.join([*words, *filter(None, [by])]) if words else ""


def choose(name: str) -> None:
    """Remember that this call had to choose the logstore `name`."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.ensure_object(dict)[LOGSTORE] = name


def keep(settings: object) -> None:
    """Remember the settings of the logstore that this call is about."""
    if (context := click.get_current_context(silent=True)) is not None:
        context.ensure_object(dict)[SETTINGS] = settings


def _told(what: str) -> str:
    context = click.get_current_context(silent=True)
    return str(context.ensure_object(dict).get(what, "")) if context is not None else ""
