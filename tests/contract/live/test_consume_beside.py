"""Our consumer and the vendor's library in one group, with kills: each log arrives, in its shard's order."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sls_io import Group, open_logstore
from sls_io.emulator import Emulator
from sls_io.reader.rows import Rows
from tests.contract import vendor_consumer
from tests.contract.opened import HOUR0_S, LOGSTORE, PROJECT, Place, opened
from tests.contract.teller import Teller
from tests.worlds.held_rows import numbers
from tests.worlds.one_logstore import group as log_group

pytestmark = pytest.mark.sls_emulator(now=HOUR0_S + 60)
GROUP = Group(
    name="both", holder="ours", timeout_s=vendor_consumer.TIMEOUT_S, heartbeat_s=1, patience_s=1, order=True
)


class Ours:
    """The processor of a shard; `seen` is everybody's."""

    def __init__(self, shard: int, seen: list[tuple[int, int]], changed: threading.Condition) -> None:
        self.shard, self.seen, self.changed = shard, seen, changed

    def initialize(self) -> None:
        """There is nothing to make ready."""

    def process(self, rows: Rows) -> None:
        with self.changed:
            self.seen += [(self.shard, number) for number in numbers(rows)]
            self.changed.notify_all()

    def shutdown(self) -> None:
        """There is nothing to close."""


@pytest.fixture
def place(emulator: Emulator) -> Iterator[Place]:
    with opened(emulator) as there:
        there.logs.client.create_group(GROUP)
        yield there


def test_each_log_arrives_over_a_kill_of_theirs_an_end_of_ours_and_a_split(place: Place) -> None:
    seen: list[tuple[int, int]] = []
    changed, total = threading.Condition(), 0
    tellers: list[Teller] = []

    def theirs(name: str) -> Teller:
        given = (PROJECT, LOGSTORE, GROUP.name, name, "1", "begin")
        environment = {**os.environ, "http_proxy": place.emulator.endpoint, "no_proxy": ""}
        teller = Teller([sys.executable, "-m", vendor_consumer.__name__, *given], environment, changed)
        tellers.append(teller)
        ends.callback(teller.kill)
        return teller

    def ours() -> threading.Event:
        stop = threading.Event()

        def run() -> None:
            with open_logstore(place.emulator.endpoint, PROJECT, LOGSTORE) as logs:
                logs.consume(lambda shard: Ours(shard, seen, changed), GROUP, stop=stop, save_every_s=0.5)

        thread = threading.Thread(target=run)
        thread.start()
        ends.callback(thread.join)
        ends.callback(stop.set)
        return stop

    def more() -> None:
        nonlocal total
        for shard in (0, 1):
            logs = [{"key": f"k{shard}", "n": str(number)} for number in range(total, total + 10)]
            place.logs.client.put_raw(log_group(logs), key=f"{'8' if shard else '0'}" + "0" * 31)
            total += 10

    def arrived() -> None:
        anybody = tellers[0]
        anybody.wait(
            lambda: {n for _, n in seen}.union(*(teller.numbers() for teller in tellers)) == {*range(total)}
        )

    with ExitStack() as ends:
        first = theirs("theirs-1")
        more()
        arrived()
        stop = ours()
        more()
        arrived()
        first.kill()  # its shards are ours once its timeout is over
        more()
        place.logs.client.transport.split_shard(PROJECT, LOGSTORE, 0, "4" + "0" * 31)
        more()
        arrived()
        theirs("theirs-2")
        stop.set()
        more()
        arrived()
    assert len(seen) == len({*seen}), "ours gave one twice"
    for shard in {shard for shard, _ in seen}:
        its = [number for at, number in seen if at == shard]
        assert its == sorted(its)
