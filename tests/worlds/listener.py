"""What processes write to a pipe, taken by a thread of its own.

A pipe holds 64 KiB. Where a test reads it only now and then, a server that has something to say meanwhile
stands still in the middle of a run, and what waits for that run waits for ever.
"""

import os
import selectors
import threading
from collections.abc import Callable
from typing import TypeVar

from sls_io.values.clock import SYSTEM_CLOCK

T = TypeVar("T")
_ASKED_AGAIN_S = 1.0
_MEANWHILE_BYTES = 65_536


class Listener:
    """Reads the pipe until its end, or until `close`; the pipe itself stays the caller's."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._heard, self._ended, self._closed = pipe, bytearray(), False, False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def said(self) -> str:
        """All that was heard."""
        return self._heard.decode("utf-8", "replace")

    def close(self) -> None:
        """Listen no more: there may be writers left."""
        self._closed = True
        self._thread.join()

    def until_end(self) -> str:
        """All that is said until nobody has the pipe open for writing any more."""
        self._thread.join()
        return self.said

    def wait(self, ask: Callable[[], T | None], patience_s: float) -> T | None:
        """The first answer of `ask` that is not None or False: asked again when something was said, at least
        once a second. None at the end of the patience, or of the pipe."""
        deadline_s = SYSTEM_CLOCK.monotonic() + patience_s
        while True:
            last, known = self._ended or SYSTEM_CLOCK.monotonic() > deadline_s, len(self._heard)
            answer = ask()
            if answer or last:
                return answer or None
            with self._news:
                if not self._ended and len(self._heard) == known:
                    self._news.wait(_ASKED_AGAIN_S)

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while not (self._closed or self._ended):
                if selector.select(_ASKED_AGAIN_S):
                    self._take(os.read(self._pipe, _MEANWHILE_BYTES))

    def _take(self, heard: bytes) -> None:
        with self._news:
            self._heard += heard
            self._ended = not heard
            self._news.notify_all()
