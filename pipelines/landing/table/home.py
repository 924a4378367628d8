"""Where this process works: which project it is for, and its state folder.

A project is a folder whose `pyproject.toml` has `[tool.dg.project]`. It is Dagster's own mark, so the same
rule finds a checkout, a folder that `sls-lake init` made, and a project of `create-dagster` that sls-lake was
installed into. Logstores lie in its module of definitions, dbt's models in `dbt`, the state in `var`.

A command looks for it from the working folder upwards. A code server's working folder is anybody's: Dagster
loads the definitions of many projects from wherever it was started. So definitions name theirs (`use`).

The catalog is called `lake` on both sides, Spark's and PyIceberg's: the name is a key column of the SQL
catalogs, so under another name they would not see each other's tables.
"""

import fcntl
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sls_io.values.cures import Call, Cure, Do
from sls_io.values.errors import ConfigError, printable

ROOT = Path(__file__).parents[3]
"""The folder that the packages lie in: a checkout, or that of all installed packages."""
CATALOG = "lake"
HOME_VARIABLE = "SLS_LAKE_HOME"
MARKER = "pyproject.toml"
_used: list[Path] = []


@dataclass(frozen=True, slots=True)
class Project:
    """`folder` is absolute; `module` is its package of definitions, `defs` the folder of logstores, and
    `source` the folder that the package is imported from."""

    folder: Path
    module: str
    source: Path
    defs: Path

    @property
    def dbt(self) -> Path:
        """The dbt project: models over the landed tables."""
        return self.folder / "dbt"

    @property
    def state(self) -> Path:
        """Jars, class archives, and what lands, where nothing else is said."""
        return self.folder / "var"


def use(folder: Path | None) -> None:
    """Work for the project in `folder` or above it, wherever this process was started. Its package can be
    imported from here on, also where it is not installed. None: for that of the working folder again."""
    _used[:] = [] if folder is None else [folder.resolve()]
    own = project()
    if _used and own is not None and str(own.source) not in sys.path:
        sys.path.insert(0, str(own.source))


def project() -> Project | None:
    """The project that is used, else the nearest one at or above the working folder; None where there is
    none. Raises ConfigError for a `pyproject.toml` that cannot be read."""
    return nearest(_used[0] if _used else Path.cwd())


def nearest(start: Path) -> Project | None:
    """The project in `start` or above it."""
    here = start.resolve()
    return next(filter(None, (of(folder) for folder in (here, *here.parents))), None)


def of(folder: Path) -> Project | None:
    """The project of exactly this folder."""
    try:
        changed_ns = (folder / MARKER).stat().st_mtime_ns
    except OSError:
        return None
    return _read(folder, changed_ns)


def own_and_checkout() -> list[Project]:
    """The project, if there is one, then the checkout that this package lies in, if it does. What set-up made
    is looked for in this order, since programs beside the command line are started from anywhere."""
    return [*dict.fromkeys(filter(None, (project(), of(ROOT))))]


def in_checkout() -> bool:
    """Whether this process works for the checkout that this package lies in, whose `make` is there. A project
    of one's own has none, whether sls-lake was installed into it or stands beside it."""
    return any(one.folder == ROOT for one in own_and_checkout()[:1])


def set_up(*, s3: bool = False) -> Cure:
    """What brings the jars, with `s3` those of a warehouse on S3, too."""
    if in_checkout():
        return Do(f"run `make setup{' S3=1' if s3 else ''}`")
    folder = "DIR" if project() is None else "."
    return Call(("init", folder, *(["--s3"] if s3 else [])))


@lru_cache(maxsize=64)
def _read(folder: Path, changed_ns: int) -> Project | None:
    path = folder / MARKER
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}; it says where the project's logstores are"
        ) from None
    try:
        told = said["tool"]["dg"]["project"]
        root = str(told.get("root_module", ""))
        module = str(told.get("defs_module") or told["root_module"] + ".defs")
    except (KeyError, TypeError, AttributeError):
        return None
    below = Path(*module.strip(".").split("."))
    # `create-dagster` has packages under `src`.
    source = folder / "src" if (folder / "src" / below).is_dir() else folder
    return Project(folder, root or module.rpartition(".")[0], source, source / below)


def project_files(files: Iterable[Path]) -> list[Path]:
    """Those that are about many logstores each."""
    return [path for path in files if is_about(path, "SlsProject")]


def single_files(files: Iterable[Path]) -> list[Path]:
    """Those that are about one logstore each."""
    return [path for path in files if is_about(path, "SlsLogstore")]


def defs_files(root: Path) -> list[Path]:
    """The files of settings of the project; none where there is no project."""
    found = nearest(root)
    return [] if found is None else sorted(found.defs.glob("*/defs.yaml"))


def is_about(path: Path, kind: str) -> bool:
    """Whether the file is of this kind, in whatever encoding: reading it says what is wrong with it."""
    try:
        raw = path.read_bytes()
    except OSError:
        return False
    return any(kind.encode(encoding) in raw for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def home() -> Path:
    """The state folder: `SLS_LAKE_HOME`, or `var` of the project, without one that of the working folder.
    Absolute; made by who writes.

    Raises ConfigError when it can be none: empty, a file, or below a file.
    """
    said = os.environ.get(HOME_VARIABLE)
    if said is None:
        own = project()
        said = "var" if own is None else str(own.state)
    if not said.strip():
        raise ConfigError(f"{HOME_VARIABLE} is set and empty: name a folder, or unset it for ./var")
    folder = Path(said).absolute()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"{HOME_VARIABLE} is {printable(said)}, but {there} is no folder: name another")
    return folder


def check_plain(place: str, variable: str) -> None:
    """Raises ConfigError where what follows a `#` or a `?` would be no part of a path any more: files would
    lie in another place, and a file there be overwritten."""
    if strange := sorted({*"#?"} & {*place}):
        raise ConfigError(
            f"{printable(place)} has a {' and a '.join(strange)}, behind which an address says something "
            f"else: name another place in {variable}"
        )


def made(folder: Path) -> Path:
    """`folder`, made where it is not there. Raises ConfigError when it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the folder {folder} cannot be made: {error.strerror}; "
            f"set {HOME_VARIABLE} to one that can be written"
        ) from error
    return folder


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """No other process is in here for the same folder: for who reads a file, and writes it anew by what it
    says. Raises OSError.

    The folder itself is locked, not the file: a file is replaced by each write, and a lock on the old one
    would hold nobody up who opens the new one.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
