"""Where this process has its lake: PyIceberg's own configuration, and the state folder.

The catalog is called `lake` on both sides, Spark's and PyIceberg's: the name is a key column of the SQL
catalogs, so under another name they would not see each other's tables.
"""

import os
from pathlib import Path

from pyiceberg.utils.config import Config

from pipelines.landing.project import project
from sls_io.values.errors import ConfigError, printable

CATALOG = "lake"
HOME_VARIABLE = "SLS_LAKE_HOME"


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


def configured() -> dict[str, str]:
    """What PyIceberg's own configuration says of the catalog; nothing when it does not name it."""
    return {str(k): str(v) for k, v in (Config().get_catalog_config(CATALOG) or {}).items()}
