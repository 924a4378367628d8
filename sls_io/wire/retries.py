"""Which failures of a call are worth another try, and when.

By code where the service names one that is known here, else by status. Everything else is an answer, and
asking again would not change it.

A rule is about a request that was answered: the service said no, and may say yes later. One that was not
answered has no code and no rule here. Whether it may be sent again is the call's own matter
(`transport._Call.repeatable`): a put whose answer was lost may have been done, and is not sent twice.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How to try again: the first wait, doubled each time up to the longest; both in seconds."""

    wait_s: float
    wait_max_s: float
    throttled: bool = False

    def wait(self, failures: int) -> float:
        """Seconds before the next try after `failures` failures; spread so that tasks do not march.

        Half of each wait is left to chance. Story: a shard's quota refuses forty tasks in one second. Were
        they all to wait 500 ms, they would all be refused again in one second.

        Worked example: `LATER` waits at most 0.5, 1, 2, 4 and 5 s between six tries, and at least half of
        that: a call that stays throttled gives up after 6.2 to 12.5 s of waiting. `SOON` waits at most 0.1,
        0.2, 0.4, 0.8 and 1.6 s: 3.1 s in all.
        """
        longest: float = min(self.wait_s * 2.0 ** (failures - 1), self.wait_max_s)
        return longest * random.uniform(0.5, 1.0)


SOON = RetryRule(0.1, 2.0)
"""Something failed in the middle: the request may have been done. What may not be done twice is not sent
again (`transport._undecided`)."""
LATER = RetryRule(0.5, 5.0, throttled=True)
AT_ONCE = RetryRule(0.0, 0.0)

RULE_BY_CODE: Mapping[str, RetryRule] = {
    "InternalServerError": SOON,
    "RequestTimeout": SOON,
    "ServerBusy": LATER,
    "ReadQuotaExceed": LATER,
    "WriteQuotaExceed": LATER,
    "ShardReadQuotaExceed": LATER,
    "ShardWriteQuotaExceed": LATER,
    "MetaOperationQpsLimitExceeded": LATER,
}
"""Error codes worth another try of the same request; codes that are not here go by status."""

RULE_BY_STATUS: Mapping[int, RetryRule] = {429: LATER, 500: SOON, 502: SOON, 503: LATER, 504: SOON}
"""Statuses worth another try. Everything else is an answer, and asking again would not change it."""

_COUNT_LIMITS = frozenset({"ProjectQuotaExceed", "ConsumerGroupQuotaExceed", "LogStoreQuotaExceed"})


def rule_for(status: int, code: str) -> RetryRule | None:
    """The tables' answer for an error: a rule, or None for "never".

    `...QuotaExceed` with 403 is throttling (documented per shard and per project), except for the
    codes that say a *number of things* is used up: waiting does not help those.

    Worked example: 403 ShardReadQuotaExceed is `LATER`, by its code; 403 with a code of that family that
    nobody has listed here is `LATER`, by its ending; 403 ProjectQuotaExceed is never, since the project is
    full. 400 ServerBusy is `LATER`: the code is known, and counts for more than the status. 404
    LogStoreNotExist is never.
    """
    if code in RULE_BY_CODE:
        return RULE_BY_CODE[code]
    if status == 403 and code.endswith("QuotaExceed") and code not in _COUNT_LIMITS:
        return LATER
    return RULE_BY_STATUS.get(status)
