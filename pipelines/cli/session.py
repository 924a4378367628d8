"""What the running call knows of itself: how it was typed, and which logstore it had to choose."""

import click

LOGSTORE, TYPED, SETTINGS = "logstore", "typed", "settings"
"""In click's object: the logstore of this call, where it had to be chosen; the words that were typed; the
settings that were read."""


def logstore() -> str:
    """The logstore that this call had to choose; "" where there is one alone."""
    return _told(LOGSTORE)


def typed() -> str:
    """The running call as it was typed, "" when nobody typed it."""
    return _told(TYPED)


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
