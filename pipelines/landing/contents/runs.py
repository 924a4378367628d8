"""Which files may hold a row twice, told from how their rows lie, without holding these rows.

A landing writes rows in the order of their identities (cursor, index). So a file of it is one *run* a shard:
each identity is above the one before. Within a run nothing is twice, and neither in runs of a shard that do
not overlap. Where they do, the rows of their files must be held against one another.

Worked example: of a shard one file has the run (5, 0) to (8, 2), another one (9, 0) to (12, 1): nothing can
be there twice, in a billion rows as in ten. A third one, which somebody appended in whatever hour, has
(11, 3) to (20, 0): the second and the third are `suspects`. A file whose rows stand in no order is one by
itself.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

_RUNS_MAX = 64
"""Of a file with more runs of a shard its rows are taken as in no order."""
_Longs = npt.NDArray[np.int64]
Identity = tuple[int, int]
"""Cursor and index of a row."""
Of = TypeVar("Of", bound=Hashable)
File = TypeVar("File", bound=Hashable)


class Run(NamedTuple):
    """Rows of one shard, from the lowest to the highest identity; `rising` where each is above the one before
    it."""

    first: Identity
    last: Identity
    rising: bool = True


@dataclass(frozen=True)
class Suspects(Generic[Of, File]):
    """Files that may hold rows twice, and of which shards; no other file holds rows between theirs."""

    keys: frozenset[Of]
    files: frozenset[File]


def runs_of(cursors: _Longs, indexes: _Longs) -> list[Run]:
    """The runs of rows of a shard, at least one, in the order in which they lie."""
    steps, inside = np.diff(cursors), np.diff(indexes)
    breaks = (np.flatnonzero((steps < 0) | ((steps == 0) & (inside <= 0))) + 1).tolist()
    if len(breaks) >= _RUNS_MAX:
        order = np.lexsort((indexes, cursors))
        low, high = int(order[0]), int(order[-1])
        return [Run((int(cursors[low]), int(indexes[low])), (int(cursors[high]), int(indexes[high])), False)]
    ends = [0, *breaks, len(cursors)]
    return [
        Run((int(cursors[a]), int(indexes[a])), (int(cursors[b - 1]), int(indexes[b - 1])))
        for a, b in pairwise(ends)
    ]


def joined(runs: list[Run], more: list[Run]) -> list[Run]:
    """The runs of a file, with those of rows that lie behind them."""
    if runs and more and runs[-1].rising and more[0].rising and runs[-1].last < more[0].first:
        more = [Run(runs[-1].first, more[0].last), *more[1:]]
        runs = runs[:-1]
    return _few([*runs, *more])


def _few(runs: list[Run]) -> list[Run]:
    if len(runs) <= _RUNS_MAX and all(run.rising for run in runs):
        return runs
    return [Run(min(run.first for run in runs), max(run.last for run in runs), rising=False)]


def suspects(runs: Mapping[Of, Iterable[tuple[Run, File]]]) -> list[Suspects[Of, File]]:
    """Which files may hold rows of a shard twice; those that share a shard's rows, or a file, together."""
    found = dict[File, Suspects[Of, File]]()
    for key, those in runs.items():
        for files in _overlapping(those):
            before = [found[file] for file in files if file in found]
            keys = frozenset({key}).union(*(each.keys for each in before))
            group = Suspects(keys, files.union(*(each.files for each in before)))
            found.update(dict.fromkeys(group.files, group))
    return list({id(group): group for group in found.values()}.values())


def _overlapping(runs: Iterable[tuple[Run, File]]) -> list[frozenset[File]]:
    groups: list[list[tuple[Run, File]]] = []
    end: Identity | None = None
    for run, file in sorted(runs, key=lambda each: each[0]):
        if end is None or run.first > end:
            groups.append([])
            end = run.last
        groups[-1].append((run, file))
        end = max(end, run.last)
    return [
        frozenset(file for _, file in group) for group in groups if len(group) > 1 or not group[0][0].rising
    ]
