"""Another process acts between two looks of one verb: what is said and done is of one moment."""

from collections.abc import Callable

from pipelines.landing.watch.look import look
from pipelines.landing.watch.sealed import sealing
from sls_io.values.settings import Service
from sls_io.values.shard import Shard
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient
from tests.worlds.lost_metadata import land
from tests.worlds.one_logstore import PROJECT, World

_OLD_S = 3 * 24 * 3600


class Overtaken(SlsClient):
    """Lists the shards, and then others do what `meanwhile` says, once."""

    def __init__(self, service: Service, meanwhile: Callable[[], object]) -> None:
        super().__init__(service)
        self._acts = [meanwhile]

    def shards(self) -> list[Shard]:
        found = super().shards()
        while self._acts:
            self._acts.pop()()
        return found


def test_an_hour_is_not_complete_while_nobody_has_landed_the_children_of_a_shard_that_was_split_meanwhile(
    calm: World,
) -> None:
    """Its parent is closed in the ledger, and a list from before the split has no child."""
    land(calm, 20)
    hour = int(calm.emulator.admin.now()) // 3600

    def split_and_land() -> None:
        calm.put(10)
        calm.emulator.admin.split(PROJECT, calm.logstore.service.logstore, 0)
        calm.put(20)
        calm.emulator.admin.set_clock((hour + 1) * HOUR_S + 120.0)
        calm.land()  # reads 0 to its end; its children are the next one's
        assert calm.ledger.shards[0].closed and {*calm.ledger.shards} == {0, 1}

    with Overtaken(calm.logstore.service, split_and_land) as overtaken:
        seen = look(calm.logstore, calm.lake, overtaken)
    assert not sealing(seen, hour, hours_max=24, start=calm.logstore.start_hour).hours
    with calm.client as client:
        seen = look(calm.logstore, calm.lake, client)
    assert not sealing(seen, hour, hours_max=24, start=calm.logstore.start_hour).hours
    calm.emulator.admin.advance(60)
    calm.land()
    calm.assert_each_log_once()
