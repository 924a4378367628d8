"""How much waits in a shard, about, and how long its read quota makes that take.

The service says no size of what was not read, and cursors are names, not amounts. What is known is how
many raw bytes of each receive hour landed before, and how far behind in receive time a shard is; so
this is an estimate for people, and nothing decides by it.
"""

from pipelines.landing.run.report import Backlog
from sls_io.values.window import HOUR_S
from sls_io.wire.pace import MB


def backlog_of(rate: float | None, lag_s: float | None, mb_per_s: float) -> Backlog | None:
    """What waits in a shard that is `lag_s` receive seconds behind; None where nothing does or is known."""
    if rate is None or not lag_s:
        return None
    return Backlog(int(rate * lag_s), rate * HOUR_S, mb_per_s, rate * lag_s / (mb_per_s * MB))
