"""Two runs of one logstore: one that acts in the middle of the other, and one for each shard."""

from collections.abc import Callable

from pipelines.landing.logstore import Logstore
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
