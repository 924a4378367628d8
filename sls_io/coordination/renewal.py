"""Renews a claim beside the work, until the last checkpoint is out.

The thread has a client of its own: a heartbeat that waits behind a long pull is a lost claim. Losing the
claim protects nothing, since the fence of a landing is in its commit; it only tells who works to stop
wasting work.

Story: a function of the user's hangs, and the thread beside it beats on. The shards are nobody else's for
ever, and nothing lands. So a claim has an end by which its work is done (Kafka's `max.poll.interval.ms`).
"""

import math
import threading
from collections.abc import Callable

from sls_io.coordination.coordinator import Coordinator
from sls_io.values.claim import Claim
from sls_io.values.clock import Clock
from sls_io.values.errors import ClaimLost, SlsError


class Renewal:
    """Around the work that a claim covers, from `start` to `stop`, at most until `until_s` of the monotonic
    clock. `lost` hears the reason once, from the thread."""

    def __init__(
        self,
        coordinator: Coordinator,
        claim: Claim,
        *,
        clock: Clock,
        lost: Callable[[str], None],
        until_s: float = math.inf,
    ) -> None:
        self._until_s = until_s
        self._coordinator, self._claim, self._clock, self._lost = coordinator, claim, clock, lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="renewal", daemon=True)
        self._gone = False

    def start(self) -> None:
        """Begin renewing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing; returns when the last heartbeat is over."""
        self._stop.set()
        self._thread.join()

    @property
    def claim(self) -> Claim:
        """The claim as the last answered heartbeat left it."""
        return self._claim

    @property
    def valid(self) -> bool:
        """Whether the claim stands: not taken away, and not expired by our own clock."""
        return not self._gone and self._claim.valid(self._clock.monotonic())

    def _renew(self) -> None:
        while not self._stop.wait(self._pause_s()):
            if self._clock.monotonic() >= self._until_s:
                self._give_up(
                    "the run has been at work for longer than its budget explains, so something in it "
                    "hangs; its shards are free for others one group timeout from now"
                )
                return
            try:
                self._claim = self._coordinator.renew()
            except ClaimLost as error:
                self._give_up(str(error))
                return
            except SlsError as error:
                # The claim still stands until its own clock says otherwise; the next beat may pass.
                if not self._claim.valid(self._clock.monotonic()):
                    self._give_up(f"no heartbeat was answered in time: {error}")
                    return

    def _pause_s(self) -> float:
        """Until the next beat, or until the run must hang: who holds by declaration beats once an hour."""
        return min(self._coordinator.renew_every_s, max(0.0, self._until_s - self._clock.monotonic()))

    def _give_up(self, why: str) -> None:
        self._gone = True
        self._lost(why)
