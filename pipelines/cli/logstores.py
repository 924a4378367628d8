"""Which logstore a verb means: a name in the project's folder of logstores, or the only one there is."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipelines.cli.session import LOGSTORE, SETTINGS, keep
from pipelines.landing.table.home import (
    MARKER,
    defs_files,
    is_about,
    nearest,
    project_files,
    single_files,
)
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, printable

if TYPE_CHECKING:
    from pipelines.landing.logstore import Logstore

INIT = Call(("init", "DIR"), does="makes a project")
LOGSTORE_OPTIONS = ("--logstore", "-l")


def logstore_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The `--logstore` option that all verbs share."""
    return click.option(
        *LOGSTORE_OPTIONS,
        "name",
        metavar="NAME",
        shell_complete=_names_like,
        help="A name that `check` lists, or a path to a defs.yaml; not needed when there is only one.",
    )(function)


def _names_like(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers after `--logstore`."""
    return [name for name in known(project_root()) if name[: len(incomplete)] == incomplete]


def project_root(start: Path | None = None) -> Path:
    """The folder of the nearest project at or above `start`, else `start` itself."""
    here = (start or Path.cwd()).resolve()
    found = nearest(here)
    return here if found is None else found.folder


def defs_of(root: Path) -> Path:
    """The project's folder of logstores. Raises ConfigError where there is no project, or no such folder."""
    found = nearest(root)
    if found is None:
        raise ConfigError(f"{root} is in no project: go to the folder of one", cures=(INIT,))
    if not found.defs.is_dir():
        raise ConfigError(
            f"there is no folder {found.defs}, where {found.folder / MARKER} says that logstores lie: make it"
        )
    return found.defs


def known(root: Path) -> list[str]:
    """Names of the logstores of the project: folders of its definitions that hold one, and what the list of
    a folder that holds many of them names."""
    return sorted(_files(root))


def _files(root: Path) -> dict[str, Path]:
    """Name -> the file that it is from. Of a project's file that cannot be read none: naming one of them says
    why. A folder of its own comes before a project's."""
    found: dict[str, Path] = {}
    files = defs_files(root)
    for path in project_files(files):
        with suppress(ConfigError):
            found.update(dict.fromkeys(_members_of(path), path))
    return found | {path.parent.name: path for path in single_files(files)}


def _members_of(path: Path) -> Iterable[str]:
    from pipelines.landing.project_file import members, read_project

    return members(read_project(path), path.parent)


def load_named(name: str | None, root: Path) -> "Logstore":
    """The settings that `name` means. Raises ConfigError."""
    # Settings check their columns, for which Arrow and PyIceberg are loaded: half a second.
    from pipelines.landing.logstore import load_logstore, load_member

    path = defs_path(name, root)
    if not is_about(path, "SlsProject"):
        return load_logstore(path)
    member = name if name and name in known(root) else None
    if member is None:
        raise ConfigError(f"{path} is about many logstores: name one, {' or '.join(known(root))}")
    return load_member(path, member)


def defs_path(name: str | None, root: Path) -> Path:
    """The defs.yaml that `name` means. Raises ConfigError that lists the names there are."""
    if name and (name.endswith((".yaml", ".yml")) or "/" in name):
        path = Path(name)
        if not path.is_file():
            raise ConfigError(
                f"no file {printable(name)}: give a name that `check` lists, or a path to a defs.yaml"
            )
        return path
    names = dict(sorted(_files(root).items()))
    if not names or (name is not None and name not in names):
        for path in project_files(defs_files(root)):
            _members_of(path)  # one that cannot be read says so
    if not names:
        cure = Call(("new", "NAME"), does="sets one up")
        if project_files(defs_files(root)):
            cure = Call(("new", "--refresh"), harmless=True, does="finds those that the patterns name")
        raise ConfigError(f"no logstore is set up in {defs_of(root)}", cures=(cure,))
    if name is None and len(names) > 1:
        raise ConfigError(
            f"there are {len(names)} logstores: choose one with --logstore {' or '.join(names)}"
        )
    chosen = name or next(iter(names))
    if chosen not in names:
        raise ConfigError(f"no logstore {printable(chosen)!r}: there is {', '.join(names)}")
    return names[chosen]


def check_named(arguments: Sequence[str], *, needed: bool) -> None:
    """Raises the ConfigError of `defs_path` for what the arguments of a verb say of its logstore.

    Asked before the verb's module and all that it does is imported, so that this answer comes at once.
    `needed`: the verb has a logstore although none is named. Who asks for help or a trace gets that.
    """
    if {"-h", "--help", "--debug"} & set(arguments):
        return
    named = [_named(first, second) for first, second in pairwise([*arguments, ""])]
    for name in filter(None, named):
        defs_path(name, project_root())
    if needed and not any(named):
        defs_path(None, project_root())


def _named(argument: str, following: str) -> str:
    option, equals, value = argument.partition("=")
    return (value if equals else following) if option in LOGSTORE_OPTIONS else ""


def resolve(name: str | None) -> "Logstore":
    """The logstore that `name` means, read from its defs.yaml."""
    root = project_root()
    names = known(root)
    chosen = name or (names[0] if len(names) == 1 else None)
    defs_path(chosen, root)
    option = name if name and names != [name] else ""
    keep(LOGSTORE, option)  # before it is read: what is said of a bad file names it
    found = load_named(chosen, root).chosen_as(option)
    keep(SETTINGS, found)
    return found


def resolve_to_land(name: str | None) -> "Logstore":
    """As `resolve`, for verbs that bring rows or decide whose table it is. Raises ConfigError where two
    logstores of the project have this one's name, as `check` does: one of them would land in the other's
    table."""
    from pipelines.landing.projects import named, one_name, written

    logstore = resolve(name)
    its = named(written(defs_files(project_root())))
    places = [place for each, place in its if each == logstore.name]
    if len(places) > 1 and (error := one_name(logstore.name, places[1], {logstore.name: places[0]})):
        raise error
    return logstore


def resolve_all(names: str | None) -> "list[Logstore]":
    """The logstores of a list of names with commas; without one all that the project has."""
    root = project_root()
    wanted = dict.fromkeys(filter(None, (name.strip() for name in (names or "").split(","))))
    found: list[str | None] = [*wanted] or [*known(root)] or [None]
    return [load_named(name, root) for name in found]
