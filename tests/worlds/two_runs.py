"""Two runs of one logstore: one that acts in the middle of the other, and one for each shard."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import LandingReport
from tests.worlds.one_logstore import World


class At:
    """An `on_event` that does something the first time an event comes."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self._name, self._action, self.done = name, action, False

    def __call__(self, name: str) -> None:
        if name == self._name and not self.done:
            self.done = True
            self._action()


def share(world: World, *holders: str) -> list[Logstore]:
    """Settle the group's two shards on two holders; their settings."""
    with world.client as client:
        for _ in range(3):
            for holder in holders:
                client.heartbeat("lake", holder, [])
    return [world.with_holder(holder) for holder in holders]


def at_once(world: World, logstores: Collection[Logstore]) -> list[LandingReport]:
    """Runs with these settings side by side, which all publish at the same moment; one that ends before it
    gets there lets the others go."""
    together = Barrier(len(logstores))

    def land(logstore: Logstore) -> LandingReport:
        publish = At("publish", together.wait)
        try:
            return world.land(logstore=logstore, on_event=publish)
        finally:
            if not publish.done:
                together.abort()

    with ThreadPoolExecutor(len(logstores)) as pool:
        return list(pool.map(land, logstores))
