"""Somebody's own functions that a live run calls: shards are assigned, are about to be let go, or are lost.

`hooks: package.module:name` in a logstore's settings names an object with any of these three; a module will
do, too, as `package:module`. All get the logstore's name first.

    on_assigned(logstore, shards)             after the claim, before anything is read. What it raises ends
                                              the run: nothing has landed, nothing moved
    before_release(logstore, shards, landed)  the run's last look at its shards; `landed`: whether it has
                                              published a landing. What it raises is said, no more
    on_lost(logstore, shards, why)            the claim went away in the middle, from another thread; what was
                                              not published is planned again by whoever comes next

They see numbers, never logs. Kafka's rebalance listener has the same three moments. A `before_release` that
works on and on keeps the shards from others, since the claim is renewed beside it, until the run must hang
(`holding.work_max_s`). A run waits for each of them as
long as it takes, and says so after half a minute, again and again, since nothing else would say what it does.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from typing import Any

from sls_io.values.errors import CodeFailed, ConfigError
from sls_io.values.named import attempted, called, load

NAMES = ("on_assigned", "before_release", "on_lost")
SAID_S = (30.0, 30.0, 60.0, 120.0, 240.0)
"""A hook that works on is said after the first of these, again after the next ..."""
SAID_AGAIN_S = 600.0
"""... and then each ten minutes."""


class Hooks:
    """The hooks of one run; nothing happens where none is named. `warn` gets a sentence for the operator,
    also from another thread. `said_s`: seconds until a hook is said to be at work, and from then on.
    """

    def __init__(
        self, logstore: str, path: str, warn: Callable[[str], None], *, said_s: Iterable[float] = SAID_S
    ) -> None:
        self._logstore, self._path, self._warn, self._said_s = logstore, path, warn, tuple(said_s)
        self._hooks = _found(path) if path else {}
        self._shards: frozenset[int] | None = None

    def assigned(self, shards: frozenset[int]) -> None:
        """Shards were claimed. Raises ConfigError for what the hook raises.

        The only hook that ends a run: nothing was read yet, and what it prepares may be what the run needs.
        """
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

    def _said(self, trouble: CodeFailed | None) -> None:
        if trouble is not None:
            self._warn(f"{trouble}; the run goes on without it")

    def _call(self, name: str, *arguments: Any) -> CodeFailed | None:
        """What went wrong.

        On the caller's thread, which waits for it: the run's, and of `on_lost` that of the renewal.
        """
        if name not in self._hooks:
            return None
        with self._watched(name):
            try:
                called(
                    f"the hook {name} of",
                    self._path,
                    self._hooks[name],
                    self._logstore,
                    *arguments,
                    reads=lambda _: None,
                )
            except CodeFailed as failed:
                return failed
        return None

    @contextmanager
    def _watched(self, name: str) -> Iterator[None]:
        """Beside the hook, from another thread: the operator hears which one the run waits for.

        A hook has no deadline: it is somebody's own work, and a thread cannot be stopped. It is only told.
        """
        over = threading.Event()

        def watch() -> None:
            waited_s = 0.0
            for pause_s in chain(self._said_s, repeat(SAID_AGAIN_S)):
                if over.wait(pause_s):
                    return
                waited_s += pause_s
                self._warn(
                    f"the run of {self._logstore} waits for the hook {name} of {self._path}, for "
                    f"{waited_s:,.0f} s by now; it goes on, or ends, once that returns"
                )

        watcher = threading.Thread(target=watch, name=f"hook {name}", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


def _found(path: str) -> dict[str, Callable[..., object]]:
    """The hooks of the object that `path` names. Raises ConfigError where there are none."""
    there = load("hooks", path, "an object")
    every = attempted("hooks", path, lambda: {name: getattr(there, name, None) for name in NAMES})
    if found := {name: hook for name, hook in every.items() if callable(hook)}:
        return found
    raise ConfigError(f"hooks {path!r} has none of {', '.join(NAMES)}: name an object that has one")
