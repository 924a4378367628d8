"""Somebody's own functions that a live run calls: shards are assigned, are about to be let go, or are lost.

`hooks: package.module:name` in a logstore's settings names an object with any of these three; a module's own
functions will do, too. All get the logstore's name first.

    on_assigned(logstore, shards)             after the claim, before anything is read. What it raises ends
                                              the run: nothing has landed, nothing moved
    before_release(logstore, shards, landed)  the run's last look at its shards; `landed`: whether it has
                                              published a landing. What it raises is said, no more
    on_lost(logstore, shards, why)            the claim went away in the middle, from another thread; what was
                                              not published is planned again by whoever comes next

They see numbers, never logs. Kafka's rebalance listener has the same three moments. A `before_release` that
works on and on keeps the shards from others: the claim is renewed beside it.
"""

from collections.abc import Callable
from typing import Any

from sls_io.errors import ConfigError
from sls_io.named import load

NAMES = ("on_assigned", "before_release", "on_lost")


class Hooks:
    """The hooks of one run; nothing happens where none is named. `warn` gets a sentence for the operator."""

    def __init__(self, logstore: str, path: str, warn: Callable[[str], None]) -> None:
        self._logstore, self._path, self._warn = logstore, path, warn
        self._there = load("hooks", path, "an object") if path else None
        if path and not any(callable(getattr(self._there, name, None)) for name in NAMES):
            raise ConfigError(f"hooks {path!r} has none of {', '.join(NAMES)}: name an object that has one")
        self._shards: frozenset[int] | None = None

    def assigned(self, shards: frozenset[int]) -> None:
        """Shards were claimed. Raises ConfigError for what the hook raises."""
        self._shards = shards
        if (trouble := self._call("on_assigned", shards)) is not None:
            raise ConfigError(f"{trouble}, so nothing was read and nothing landed: mend it, or leave it out")

    def before_release(self, *, landed: bool) -> None:
        """The shards are about to be let go; once for each claim."""
        if self._shards is not None:
            shards, self._shards = self._shards, None
            self._said(self._call("before_release", shards, landed))

    def lost(self, why: str) -> None:
        """The claim went away."""
        if self._shards is not None:
            shards, self._shards = self._shards, None
            self._said(self._call("on_lost", shards, why))

    def _said(self, trouble: str | None) -> None:
        if trouble is not None:
            self._warn(f"{trouble}; the run goes on without it")

    def _call(self, name: str, *arguments: Any) -> str | None:
        """What went wrong, without the text of the error: it may hold what nobody should see."""
        hook = getattr(self._there, name, None)
        if not callable(hook):
            return None
        try:
            hook(self._logstore, *arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # what would end the process, too: a green run that landed nothing
            return f"the hook {name} of {self._path} failed ({type(error).__name__})"
        return None
