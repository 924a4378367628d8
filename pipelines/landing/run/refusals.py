"""Tries that the catalog did not take: how long a run goes on with them, and what it says at its end.

A refusal on a table that somebody else changed meanwhile is a lost race: the next try is built on the change
and goes out at once. One on a table that nobody changed is the catalog's own trouble: nobody won.
"""

import random

from pipelines.landing.commit import publish
from pipelines.landing.commit.publish import Refusal
from sls_io.values.clock import Clock
from sls_io.values.errors import LandingUnknown, SlsError, TransportError

_TRIES_AT_ONCE = 3
_BACK_OFF_MAX_S = 0.5
_UNMOVED_MAX = 20
"""Tries in a row on one unchanged table: some eight seconds, in which a catalog may come back."""
_UNMOVED_KNOWN_MAX = 3
"""The same where the catalog said why it can take nothing, and it does not pass: a full disk, no right."""
_NEXT = "the next run goes on from what the table has"


class Refusals:
    """The refusals of one run at the catalog `place`, an address without secrets, for `table`. `unanswered`:
    tries that the catalog did not answer."""

    def __init__(self, place: str, table: str, clock: Clock) -> None:
        self._place, self._table, self._clock = place, table, clock
        self._unmoved = 0
        self._last: Refusal | None = None
        self.unanswered = 0

    def hear(self, refusal: Refusal | None) -> None:
        """The answer to a try: None where it was accepted."""
        self._last = refusal
        self.unanswered += refusal is not None and refusal.kind == publish.DEADLINE
        if refusal is None:
            self._unmoved = 0

    def back_off(self, tries: int) -> None:
        """A lost race is tried again at once; who keeps being refused waits, longer each time and not in step
        with others. Story: a catalog answers 429 within a millisecond, so without the wait all tries of a run
        are used up before it could recover, and each of them was one more request.

        Worked example: after four tries it waits 20 to 40 ms, after five 40 to 80, from eight on 250 to 500.
        """
        if tries > _TRIES_AT_ONCE:
            longest: float = min(_BACK_OFF_MAX_S, 0.02 * 2.0 ** (tries - _TRIES_AT_ONCE))
            self._clock.sleep(longest * random.uniform(0.5, 1.0))

    def check(self, *, moved: bool) -> None:
        """After a try that is not in the table; `moved`: somebody else changed the table since it was built.

        Raises SlsError once enough of them met a table that nobody changed. Story: the disk of the catalog is
        full. It refuses within milliseconds, each try leaves its files behind, and by their number tries
        would go on for minutes and say at the end that others were faster.
        """
        self._unmoved = 0 if moved or self._last is None else self._unmoved + 1
        why = self._last.why if self._last is not None else None
        if self._unmoved >= (_UNMOVED_KNOWN_MAX if why and not why.passes else _UNMOVED_MAX):
            raise self._ended(
                f"although nobody else changed the table: {self._unmoved} tries were refused ({self._last})",
                f"Look at the catalog; {_NEXT}",
            )

    def too_late(self, publish_s: float) -> SlsError:
        """Nothing landed by the run's deadline, which leaves `publish_s` to publish. Story: another process
        locks the catalog. Each try waits for it, is refused, and by their number tries would go on for hours.
        """
        why = self._last or "no try was sent"
        return self._ended(
            f"in the run's time, `budget.seconds_max` and {publish_s:g} s to publish: {why}",
            f"Look who holds the catalog; {_NEXT}",
        )

    def _ended(self, how: str, cure: str) -> SlsError:
        """A try without an answer may be carried out still, whatever was said of the tries after it. `cure`
        is for a refusal without a reason that is known."""
        if self._last is not None and self._last.why is not None:
            cure = self._last.why.cure
            cure = f"{cure[0].upper()}{cure[1:]}"
        said = "did not confirm" if self.unanswered else "did not take"
        late = "A try that it did not answer may land yet. " if self.unanswered else ""
        text = (
            f"the Iceberg catalog ({self._place}) {said} the landing of {self._table} {how}. {late}No "
            f"checkpoint moved. {cure}"
        )
        return LandingUnknown(text) if self.unanswered else TransportError(text)
