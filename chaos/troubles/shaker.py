"""What is done to the service: outages of a second, splits and merges, its clock, and its own death."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.account import Account
from chaos.troubles import weather
from sls_io.emulator import Emulator, start
from sls_io.emulator.handle import Admin
from sls_io.values.errors import ServiceError

PROJECT, LOGSTORE = "chaos", "numbered"
_SHARDS_LIVE_MAX = 8
_BURST_S = 1.0


class Shaker:
    """Owns the emulator, whose data is in `folder`; `later` runs an act some seconds on."""

    def __init__(
        self,
        emulator: Emulator,
        folder: Path,
        account: Account,
        dice: random.Random,
        later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self.emulator, self._folder, self._account, self._dice, self._later = (
            emulator, folder, account, dice, later,
        )  # fmt: skip
        self._lives = 0

    @property
    def admin(self) -> Admin:
        """The service's admin path."""
        return self.emulator.admin

    def begin(self) -> None:
        """Let it rain."""
        weather.begin(self.admin, self._account.seed + self._lives)

    def end(self) -> None:
        """No more faults."""
        self._account.faults += weather.end(self.admin)

    def restart(self) -> None:
        """SIGKILL, and a new process on the same port and folder: what was acknowledged is there."""
        self._account.faults += weather.hits(self.admin)
        self.count_throttled()
        port = self.emulator.port
        self.emulator.kill()
        self.emulator = start(self._folder, port=port)
        self._lives += 1
        self._account.restarts += 1
        self.begin()

    def count_throttled(self) -> None:
        """Add what this life of the service refused by its quotas; once a life."""
        self._account.throttled += Counter(self.admin.state()["throttled"])

    def burst(self) -> None:
        """The next few requests of one call meet an outage."""
        life, fault = self._lives, weather.burst(self.admin, self._dice)
        self._account.bursts += 1

        def over() -> None:
            # Else those that nobody met would add up to a service that never answers.
            if life == self._lives:
                self.admin.remove(fault)

        self._later(_BURST_S, over)

    def jump(self, least_s: float, most_s: float) -> None:
        """The service's clock moves on: all claims are over, perhaps a receive hour ends."""
        self.admin.advance(self._dice.uniform(least_s, most_s))
        self._account.jumps += 1

    def reshape(self) -> None:
        """Split or merge a shard that is written to."""
        live = [s for s in self.listed()["shards"] if s["status"] == "readwrite"]
        shard = self._dice.choice(live)["shardID"]
        try:
            if len(live) < 2 or (len(live) < _SHARDS_LIVE_MAX and self._dice.random() < 0.5):
                self.admin.split(PROJECT, LOGSTORE, shard, count=self._dice.choice((2, 2, 3)))
                self._account.splits += 1
            else:
                self.admin.merge(PROJECT, LOGSTORE, shard)
                self._account.merges += 1
        except ServiceError:
            return  # the last in the key range has no right neighbour

    def listed(self) -> dict[str, Any]:
        """The logstore as the emulator describes it: shards and groups."""
        return next(dict(x) for x in self.admin.state()["logstores"] if x["logstore"] == LOGSTORE)
