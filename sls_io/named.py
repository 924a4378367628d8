"""Somebody's own code, named in a setting as `package.module:name`."""

import importlib
from typing import Any

from sls_io.errors import ConfigError, printable


def load(setting: str, path: str, kind: str = "a function") -> Any:
    """What `path` names, also a module of a package; `kind` is what to write there, in words.

    Raises ConfigError that names the setting and the cure. The module may raise anything, also what would end
    the process (`sys.exit`). Its error is never chained: its text may hold what it was reading.
    """
    module, _, name = path.partition(":")
    try:
        if not name:
            raise ImportError(path)
        found = importlib.import_module(module)
        if not hasattr(found, name) and hasattr(found, "__path__"):
            # A package knows a module of its own only once somebody has imported that.
            importlib.import_module(f"{module}.{name}")
        return getattr(found, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(
            f"{setting} {printable(path)!r} failed ({type(error).__name__}): name {kind} as "
            f"module:{kind.rsplit(maxsplit=1)[-1]}"
        ) from None
