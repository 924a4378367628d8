"""A processor that runs on, over a real emulator: what it is given, what is saved, who has the shards."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import cast

import pytest

from sls_io import ConfigError, Group, open_logstore
from sls_io.coordination.coordinator import Published
from sls_io.coordination.static import Static
from sls_io.emulator import Emulator
from sls_io.reader.rows import Rows
from sls_io.values.claim import Claim
from sls_io.values.window import Cursor
from tests.contract.opened import HOUR0_S, LOGSTORE, PROJECT, Place, opened
from tests.worlds.held_rows import group, numbers

pytestmark = pytest.mark.sls_emulator(now=HOUR0_S + 60)
WAIT_S = 20.0
SAVE_EVERY_S = 0.2


class Ledger:
    """What all processors of a test were given, in order, and what else happened to them."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []
        self.events: list[tuple[str, int]] = []
        self.changed = threading.Condition()

    def note(self, event: str, shard: int) -> None:
        with self.changed:
            self.events.append((event, shard))
            self.changed.notify_all()

    def wait(self, ready: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(ready, WAIT_S), (self.given, self.events)

    def seen(self) -> Counter[int]:
        return Counter(number for _, number in self.given)


class Noting:
    """Notes what it is given; `on_rows` may name a cursor to go back to, or raise."""

    def __init__(
        self, shard: int, ledger: Ledger, on_rows: Callable[[Rows], int | None] = lambda rows: None
    ) -> None:
        self.shard, self.ledger, self.on_rows = shard, ledger, on_rows

    def initialize(self) -> None:
        self.ledger.note("initialize", self.shard)

    def process(self, rows: Rows) -> int | None:
        back = self.on_rows(rows)
        with self.ledger.changed:
            self.ledger.given += [(self.shard, number) for number in numbers(rows)]
            self.ledger.changed.notify_all()
        return back

    def shutdown(self) -> None:
        self.ledger.note("shutdown", self.shard)


class Running:
    """A consumer in a thread of its own; `errors` has what it ended with."""

    def __init__(
        self, emulator: Emulator, by: Group, make: Callable[[int], Noting], first: str | int = "begin"
    ) -> None:
        self.stop, self.warned = threading.Event(), list[str]()
        self.errors: list[Exception] = []
        self._emulator, self._by, self._make, self._first = emulator, by, make, first
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with open_logstore(self._emulator.endpoint, PROJECT, LOGSTORE) as logs:
                logs.consume(
                    self._make,
                    self._by,
                    stop=self.stop,
                    first=self._first,
                    save_every_s=SAVE_EVERY_S,
                    warn=self.warned.append,
                )
        except Exception as error:
            self.errors.append(error)

    def end(self) -> None:
        self.stop.set()
        self.over()

    def over(self) -> None:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


Start = Callable[..., Running]


@pytest.fixture
def start(emulator: Emulator) -> Iterator[Start]:
    """Starts consumers, which end with the test."""
    with ExitStack() as ends:

        def begin(*arguments: object, **options: object) -> Running:
            running = Running(emulator, *arguments, **options)  # type: ignore[arg-type]
            ends.callback(running.end)
            return running

        yield begin


def saved(place: Place) -> dict[int, int | None]:
    return {shard: entry.cursor for shard, entry in place.logs.client.checkpoints("readers").items()}


def ends(place: Place) -> dict[int, int | None]:
    return {status.id: status.end for status in place.logs.shards()}


def quick(holder: str = "worker-1") -> Group:
    return group(holder, timeout_s=3, heartbeat_s=0.2, patience_s=0)


def has_begun(ledger: Ledger) -> bool:
    return "initialize" in dict(ledger.events)


def has_ten(ledger: Ledger) -> bool:
    return len(ledger.given) == 10


def test_it_gets_what_comes_while_it_runs_once_and_the_next_goes_on_behind_it(
    emulator: Emulator, start: Start
) -> None:
    with opened(emulator) as place:
        place.put(1, 2)
        place.put(3, shard=1)
        ledger = Ledger()
        first = start(quick(), lambda shard: Noting(shard, ledger))
        ledger.wait(lambda: len(ledger.given) == 3)
        place.put(4)
        ledger.wait(lambda: len(ledger.given) == 4)
        first.end()
        assert ledger.given == [(0, 1), (0, 2), (1, 3), (0, 4)] and not first.errors
        assert Counter(ledger.events) == Counter(
            (event, shard) for event in ("initialize", "shutdown") for shard in (0, 1)
        )
        assert saved(place) == ends(place)
        place.put(5, shard=1)
        second = start(quick(), lambda shard: Noting(shard, ledger))
        ledger.wait(lambda: len(ledger.given) == 5)
        second.end()
        assert ledger.given[4:] == [(1, 5)]


def test_two_share_shards_and_who_ends_gives_its_own_to_the_other(emulator: Emulator, start: Start) -> None:
    with opened(emulator) as place:
        ledgers = {name: Ledger() for name in ("a", "b")}
        runs = {}
        for name, ledger in ledgers.items():
            runs[name] = start(quick(name), partial(Noting, ledger=ledger))
            ledger.wait(partial(has_begun, ledger))
        ledgers["a"].wait(
            lambda: ("shutdown", 1) in ledgers["a"].events or ("shutdown", 0) in ledgers["a"].events
        )
        place.put(*range(10))
        place.put(*range(10, 20), shard=1)
        for ledger in ledgers.values():
            ledger.wait(partial(has_ten, ledger))
        runs["a"].end()
        place.put(20)
        place.put(21, shard=1)
        ledgers["b"].wait(lambda: {20, 21} <= {*ledgers["b"].seen()})
    assert ledgers["a"].seen() + ledgers["b"].seen() == Counter(range(22)), "each log once, over both"


def test_a_cursor_of_the_processors_is_where_it_goes_on(emulator: Emulator, start: Start) -> None:
    with opened(emulator) as place:
        place.put(1)
        place.put(2)
        ledger, begin = Ledger(), place.logs.client.cursor_at(0, "begin")

        def back(rows: Rows) -> int | None:
            return begin if not ledger.given else None

        run = start(quick(), lambda shard: Noting(shard, ledger, back))
        ledger.wait(lambda: ledger.seen()[2] == 2)
        run.end()
        assert ledger.seen() == Counter({1: 2, 2: 2}) and not run.errors
        assert saved(place) == ends(place)


def test_what_a_processor_raises_ends_it_before_the_page_and_nothing_is_dropped(
    emulator: Emulator, start: Start
) -> None:
    with opened(emulator) as place:
        place.put(1)
        ledger = Ledger()

        def fail(rows: Rows) -> None:
            if numbers(rows) == [2]:
                raise RuntimeError("no room")

        run = start(quick(), lambda shard: Noting(shard, ledger, fail))
        ledger.wait(lambda: len(ledger.given) == 1)
        place.put(2)
        run.over()
        assert [(type(error), str(error)) for error in run.errors] == [(RuntimeError, "no room")]
        assert Counter(event for event, _ in ledger.events) == Counter(initialize=2, shutdown=2)
        again = start(quick(), lambda shard: Noting(shard, ledger))
        ledger.wait(lambda: len(ledger.given) == 2)
        again.end()
        assert ledger.given == [(0, 1), (0, 2)]


def test_children_come_after_their_parent(emulator: Emulator, start: Start) -> None:
    with opened(emulator) as place:
        place.put(1)
        ledger = Ledger()
        run = start(quick(), lambda shard: Noting(shard, ledger))
        ledger.wait(lambda: len(ledger.given) == 1)
        place.put(2)
        place.logs.client.transport.split_shard(PROJECT, LOGSTORE, 0, "4" + "0" * 31)
        place.put(3)
        ledger.wait(lambda: len(ledger.given) == 3)
        run.end()
    assert [number for _, number in ledger.given] == [1, 2, 3] and ledger.given[2][0] > 1


def test_from_the_end_means_from_when_it_began(emulator: Emulator, start: Start) -> None:
    with opened(emulator) as place:
        place.put(1)
        ledger = Ledger()
        run = start(quick(), lambda shard: Noting(shard, ledger), first="end")
        ledger.wait(lambda: len(ledger.events) == 2)
        run.end()
        place.put(2)
        again = start(quick(), lambda shard: Noting(shard, ledger), first="end")
        ledger.wait(lambda: len(ledger.given) == 1)
        again.end()
    assert ledger.given == [(0, 2)], "what came between the two"


def test_an_outage_is_told_and_costs_nothing(emulator: Emulator, start: Start) -> None:
    with opened(emulator) as place:
        place.put(1)
        ledger = Ledger()
        run = start(quick(), lambda shard: Noting(shard, ledger))
        ledger.wait(lambda: len(ledger.given) == 1)
        fault = emulator.admin.fault("drop_reply", call="heartbeat", times=None)
        emulator.admin.wait(fault, hits=2, timeout_s=WAIT_S)
        emulator.admin.remove(fault)
        place.put(2)
        ledger.wait(lambda: 2 in ledger.seen())
        run.end()
    assert not run.errors and ledger.seen()[2] == 1


def test_where_another_was_further_meanwhile_it_begins_there_anew(emulator: Emulator) -> None:
    """It sleeps between two blocks; another one takes its shards, saves what it has read, and goes."""
    with opened(emulator) as place:
        place.put(1, 2, 3, 4)
        mine, stop = Ledger(), threading.Event()
        inner, claims = Static(sorted(ends(place))), 0
        store = dict[int, Cursor | None]()

        class Sleeps:
            """Its third claim comes after the other one has been there."""

            renew_every_s, holder = inner.renew_every_s, "sleeper"

            def claim(self) -> Claim:
                nonlocal claims
                claims += 1
                if claims == 3:
                    place.put(5, 6, 7, 8)
                    store.update({shard: Cursor(end or 0) for shard, end in ends(place).items()})
                if claims == 4:
                    place.put(9, 10)
                if claims == 6:
                    stop.set()
                return inner.claim()

            def renew(self) -> Claim:
                return inner.renew()

            def checkpoints(self) -> Mapping[int, Cursor | None]:
                return store

            def checkpoint(self, shard: int, cursor: Cursor) -> Published:
                store[shard] = cursor
                return "sent"

            def release(self) -> None:
                inner.release()

        warned = list[str]()
        place.logs.consume(
            lambda shard: Noting(shard, mine),
            Sleeps(),
            stop=stop,
            save_every_s=SAVE_EVERY_S,
            warn=warned.append,
        )
        assert mine.seen() == Counter([1, 2, 3, 4, 9, 10]), "those between were the other one's"
        assert any("begins there anew" in each for each in warned)
        assert {"initialize", "shutdown"} <= {event for event, _ in mine.events}


@pytest.mark.parametrize(
    ("given", "why"), [("7", "gave a str"), (True, "gave a bool"), (1.5, "gave a float")]
)
def test_what_is_no_cursor_is_refused(emulator: Emulator, start: Start, given: object, why: str) -> None:
    with opened(emulator) as place:
        place.put(1)
        wrong = cast("Callable[[Rows], int | None]", lambda rows: given)
        run = start(quick(), lambda shard: Noting(shard, Ledger(), wrong))
        run.over()
        assert [type(error) for error in run.errors] == [ConfigError] and why in str(run.errors[0])


def test_what_is_no_processor_is_refused_and_no_group_is_made(emulator: Emulator) -> None:
    with opened(emulator) as place:

        def consume(make: object, first: str) -> None:
            place.logs.consume(make, "reports", stop=threading.Event(), first=first)  # type: ignore[arg-type]

        with pytest.raises(ConfigError, match="not a str"):
            consume("text", "begin")
        with pytest.raises(ConfigError, match="beginn"):
            consume(lambda shard: Noting(shard, Ledger()), "beginn")
        assert place.logs.client.groups() == []
        with pytest.raises(ConfigError, match="without initialize, process, shutdown"):
            consume(lambda shard: object(), "begin")


def test_seconds_that_are_none_are_refused(emulator: Emulator) -> None:
    with opened(emulator) as place, pytest.raises(ConfigError, match="above 0"):
        place.logs.consume(lambda shard: Noting(shard, Ledger()), "g", stop=threading.Event(), save_every_s=0)
