"""Which windows of a shard one task reads after another, and how many bytes they share. Pure."""

import math
from dataclasses import dataclass

from sls_io.settings import SHARD_MB_PER_S, Budget
from sls_io.window import Window


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window to write; its end is an upper bound.

    Windows of one `chain` are written one after the other by one task, and share its `bytes_max` of
    raw bytes: when those are used up, the rest of the chain is not pulled at all.
    """

    window: Window
    bytes_max: int
    chain: int = 0


def in_chains(windows: list[Window], budget: Budget) -> tuple[PlannedWindow, ...]:
    """Deal the windows of each shard to chains in turn, and the bytes to chains evenly.

    Story: a shard is 100 hours behind and the budget is worth four of them. Had each window a
    hundredth of the budget, all would stop early and all but the first be thrown away, run after run.
    In a chain the first hours are read whole and the others not at all; and because windows are dealt
    in turn, the chains of one shard advance together, so that at most the last window of each is lost.

    A shard has no more chains than its quota feeds: four readers of 10 MB a second get no more out of
    it than one, and are refused most of the time.
    """
    shards = {w.shard for w in windows}
    wide = max(1, min(budget.tasks_min // max(1, len(shards)), _readers_fed(budget)))
    seen: dict[int, int] = {}
    chains: dict[tuple[int, int], int] = {}
    dealt: list[tuple[Window, int]] = []
    for window in windows:
        turn = seen.get(window.shard, 0)
        seen[window.shard] = turn + 1
        dealt.append((window, chains.setdefault((window.shard, turn % wide), len(chains))))
    share = max(1, budget.bytes_max // max(1, len(chains)))
    return tuple(PlannedWindow(window, share, chain) for window, chain in dealt)


def _readers_fed(budget: Budget) -> int:
    """How many readers of one shard at a time its quota feeds, each with the documented quota's worth."""
    return max(1, math.ceil(budget.shard_mb_per_s / SHARD_MB_PER_S))
