"""Commands of ours that a text names, completed so that they run as they are printed.

The name of the logstore is put in where the project has more than one, and `--execute` where the verb is a
dry run without it and takes no row away. A verb that gives something up keeps its dry run: what it would cost
is read first, and its last line is the call that does it. So does a call of which the text says that it
`shows` something.
"""

import re
import shlex

import click

LOGSTORE, TYPED, SETTINGS = "logstore", "typed", "settings"
"""In click's object: the logstore of this call, where it had to be chosen; the words that were typed; the
settings that were read."""
PROGRAM = "sls-lake"
HARMLESS = frozenset(
    {
        "table register",
        "table relabel",
        "table maintain",
        "table repair-manifests",
        "checkpoints set --from ledger --to group --forward-only",
        "shards resume",
    }
)
_CALL = re.compile(
    r"(?<![\w/.-])sls-lake ("
    r"(?:table|checkpoints|groups|shards|landings|logstores|cursor) [a-z]+(?:-[a-z]+)*|[a-z]+)(?![\w/-])"
)
_WORD = re.compile(r" (?:(--[a-z][a-z-]*|-l)(?:[ =](?!-)([^\s`;,()]*[^\s`;,().:]))?|(\d+)(?=[\s`;,.)]|$))")
_SHOWS = re.compile(r"`? shows\b")


def completed(text: str, chosen: str | None = None, *, verbs: click.Command | None = None) -> str:
    """The text with its calls completed for the logstore `chosen`, else the one of the running verb. `verbs`
    are the program's, where none runs any more."""
    context = click.get_current_context(silent=True)
    known = verbs or (context.find_root().command if context is not None else None)
    if known is None or f"{PROGRAM} " not in text:
        return text
    name = chosen if chosen is not None else _told(LOGSTORE)
    return _CALL.sub(lambda match: _full(match, name, known), text)


def typed(without: str = "") -> str:
    """The running call as it was typed, "" when nobody typed it; `without` an option and its value."""
    words = shlex.split(_told(TYPED))
    if without:
        kept = [word for word in words if not word.startswith(f"{without}=")]
        at = kept.index(without) if without in kept else len(kept)
        words = kept[:at] + kept[at + 2 :]
    return shlex.join(words)


def of(arguments: list[str]) -> str:
    """The call with these arguments as a shell takes it."""
    return shlex.join([PROGRAM, *arguments])


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


def _full(match: re.Match[str], name: str, verbs: click.Command) -> str:
    command = _command(verbs, match[1].split())
    if command is None:
        return match[0]
    options = {option for parameter in command.params for option in parameter.opts}
    said = set()
    place = match.end()
    while word := _WORD.match(match.string, place):
        said.add(word[1] or word[3])
        place = word.end()
    more = ""
    if name and "--logstore" in options and not said & {"-l", "--logstore"}:
        more = f" -l {shlex.quote(name)}"
    call = f"{match.string[match.start(1) : place]} "
    if (
        any(call.startswith(f"{words} ") for words in HARMLESS)
        and "--execute" not in said
        and not _SHOWS.match(match.string, place)
    ):
        more += " --execute"
    return match[0] + more


def _command(verbs: click.Command, words: list[str]) -> click.Command | None:
    command: click.Command | None = verbs
    for word in words:
        if not isinstance(command, click.Group):
            return None
        command = command.get_command(click.Context(command), word)
    return None if isinstance(command, click.Group) else command
