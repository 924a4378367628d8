"""Which failures of a call are worth another try, and when.

By code where the service names one that is known here, else by status. Everything else is an answer, and
asking again would not change it.
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
        """Seconds before the next try after `failures` failures; spread so that tasks do not march."""
        longest: float = min(self.wait_s * 2.0 ** (failures - 1), self.wait_max_s)
        return longest * random.uniform(0.5, 1.0)


SOON = RetryRule(0.1, 2.0)
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
    """
    if code in RULE_BY_CODE:
        return RULE_BY_CODE[code]
    if status == 403 and code.endswith("QuotaExceed") and code not in _COUNT_LIMITS:
        return LATER
    return RULE_BY_STATUS.get(status)
