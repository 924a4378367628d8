"""A processor of one's own that runs on, over shards that come and go.

    class Totals:
        def __init__(self, shard): ...
        def initialize(self): ...
        def process(self, rows): ...      # None, or a cursor to go on from
        def shutdown(self): ...

    logs.consume(Totals, "reports", stop=stop)

It is a chain of blocks (`held.py`). In each one shards are claimed, read in turn, and let go with their
checkpoints saved; the next one begins at once. So what others ask for is theirs after a block, and what is
new comes with one. That `process` has returned means that its rows are worked off: that, and no more, is what
a checkpoint says.

Story: the vendor's library drops a batch when `process` raises, and goes on with the next. Here the position
stays before it, what was worked off until then is saved, and the error is the caller's.

All is done in the caller's thread, one shard after the other, so a processor needs no lock. Only `stop`, a
`threading.Event`, may be set from elsewhere.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import index
from typing import Literal, Protocol, SupportsIndex

from sls_io.reader.held import Held
from sls_io.reader.rows import Rows
from sls_io.values.clock import Clock
from sls_io.values.errors import ClaimLost, ConfigError, SlsError, TransportError
from sls_io.values.moments import Moment
from sls_io.values.named import type_name
from sls_io.values.window import Cursor

_IDLE_S = 1.0
_METHODS = ("initialize", "process", "shutdown")


class Processor(Protocol):
    """What works off the rows of one shard, from when the shard comes until it goes."""

    def initialize(self) -> None:
        """Before the first rows."""
        ...

    def process(self, rows: Rows) -> int | None:
        """Work off rows of a page; the cursor to go on from, where that is not behind them."""
        ...

    def shutdown(self) -> None:
        """The shard is gone, was lost, or all ends: nothing more comes."""
        ...


@dataclass
class _Working:
    """A shard's processor, the cursor behind what it has worked off, and the furthest checkpoint that is
    ours: what was saved when it began, or what we sent since, whatever the answer was; -1 for none."""

    processor: Processor
    position: Cursor
    sent: int


class Consumer:
    """What `Reader.consume` runs; see there."""

    def __init__(
        self,
        hold: Callable[[], Held],
        make: Callable[[int], Processor],
        *,
        readonly: Callable[[], Iterable[int]],
        first: Literal["begin", "end"] | Moment,
        save_every_s: float,
        stop: threading.Event,
        warn: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._hold, self._make, self._readonly = hold, make, readonly
        self._first, self._save_every_s, self._stop = first, save_every_s, stop
        self._warn, self._clock = warn, clock
        self._working: dict[int, _Working] = {}

    def run(self) -> None:
        """Until `stop` is set. Raises what a processor does, and what no asking again could mend."""
        try:
            while not self._stop.is_set():
                try:
                    self._block()
                except ClaimLost as lost:
                    # Who has the shards now goes on from what is saved, and so do we where we get them back.
                    self._warn(str(lost))
                    self._end(self._working)
                    self._pause()
                except TransportError as error:
                    self._warn(str(error))
                    self._pause()
        finally:
            self._end(self._working)

    def _block(self) -> None:
        """One claim from its shards to their checkpoints."""
        with self._hold() as held:
            self._end({s: one for s, one in self._working.items() if s not in held.shards})
            self._end(self._left_behind(held))
            for shard in sorted(held.shards - self._working.keys()):
                begin, processor = held.begin(shard, first=self._first), self._made(shard)
                processor.initialize()
                saved = held.checkpoints().get(shard)
                self._working[shard] = _Working(processor, begin, -1 if saved is None else saved)
            until_s = self._clock.monotonic() + self._save_every_s
            try:
                self._work(held, until_s)
            except BaseException:
                with suppress(SlsError):
                    self._save(held)
                raise
            self._save(held)

    def _left_behind(self, held: Held) -> dict[int, _Working]:
        """Shards in which somebody else has been further since the block before.

        Story: A sleeps between two blocks for longer than the timeout. B takes its shard, saves, and goes. A
        gets the shard again, and would go on from where it was itself, with B's logs once more.
        """
        saved = held.checkpoints()
        found = {s: one for s, one in self._working.items() if (saved.get(s) or 0) > one.sent}
        for shard in found:
            self._warn(f"shard {shard}: another reader has been further meanwhile; it begins there anew")
        return found

    def _made(self, shard: int) -> Processor:
        processor = self._make(shard)
        if lacks := [name for name in _METHODS if not callable(getattr(processor, name, None))]:
            raise ConfigError(
                f"make_processor gave a {type_name(processor)} without {', '.join(lacks)}: it has to have "
                f"{', '.join(_METHODS)}"
            )
        return processor

    def _work(self, held: Held, until_s: float) -> None:
        """Read the shards in turn, each to its end as it is then."""
        while self._goes_on(held, until_s):
            found = [self._turn(held, shard, until_s) for shard in sorted(held.shards)]
            if not any(found):
                self._pause(until_s)

    def _turn(self, held: Held, shard: int, until_s: float) -> bool:
        """Whether there was anything. It ends between pages: a checkpoint names no other place."""
        one, some = self._working[shard], False
        for rows in held.rows(shard, at=one.position):
            some = True
            back = one.processor.process(rows)
            if back is not None:
                one.position = _named(rows, back)
                break
            if rows.next is not None:
                one.position = rows.next
                if not self._goes_on(held, until_s):
                    break
        return some

    def _goes_on(self, held: Held, until_s: float) -> bool:
        return held.valid and not self._stop.is_set() and self._clock.monotonic() < until_s

    def _save(self, held: Held) -> None:
        """What was worked off, and where nothing was, of a read-only shard: only when a checkpoint comes does
        the service see that it is done, and let its children go. A position that was put back before what is
        saved is saved once it is beyond that."""
        known, readonly = held.checkpoints(), {*self._readonly()}
        for shard in sorted(held.shards & self._working.keys()):
            position, saved = self._working[shard].position, known.get(shard)
            if saved is None or position > saved or (position == saved and shard in readonly):
                self._working[shard].sent = max(self._working[shard].sent, position)
                held.checkpoint(shard, position)

    def _end(self, gone: Mapping[int, _Working]) -> None:
        """Each of them, also where one of them raises: then that is raised, behind the others."""
        failed: Exception | None = None
        for shard, one in sorted(gone.items()):
            self._working.pop(shard, None)
            try:
                one.processor.shutdown()
            except Exception as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def _pause(self, until_s: float | None = None) -> None:
        left_s = _IDLE_S if until_s is None else max(0.0, until_s - self._clock.monotonic())
        self._stop.wait(min(_IDLE_S, left_s))


def _named(rows: Rows, back: object) -> Cursor:
    """The cursor that a processor named, unless it cannot be meant."""
    if not isinstance(back, SupportsIndex) or isinstance(back, bool):
        raise ConfigError(
            f"process of shard {rows.shard} gave a {type(back).__name__}: give nothing, or the cursor to go "
            "on from"
        )
    return Cursor(index(back))
