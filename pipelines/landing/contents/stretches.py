"""Which files may hold a row twice, told from how their rows lie, without holding these rows.

A landing writes rows in the order of their identities (cursor, index). So a file of it is one *stretch* a
shard: each identity is above the one before. Within a stretch nothing is twice, and neither in stretches of a
shard that do not overlap. Where they do, the rows of their files must be held against one another.

Worked example: of a shard one file has the stretch (5, 0) to (8, 2), another one (9, 0) to (12, 1): nothing
can be there twice, in a billion rows as in ten. A third one, which somebody appended in whatever hour, has
(11, 3) to (20, 0): the second and the third overlap. A file whose rows stand in no order is one by
itself.

Why not the bounds that a manifest has of a file: those are other writers' word, and they say nothing of the
order inside. And why not a set of all identities: at 16 bytes a row a billion rows are 16 GB, in the one case
(nothing is twice) that is nearly always so. A false overlap costs a second reading and nothing else; so where
it is in doubt, files overlap.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

_STRETCHES_MAX = 64
"""Of a file with more stretches of a shard its rows are taken as in no order."""
_Longs = npt.NDArray[np.int64]
Identity = tuple[int, int]
"""Cursor and index of a row."""
Of = TypeVar("Of", bound=Hashable)
File = TypeVar("File", bound=Hashable)


class Stretch(NamedTuple):
    """Rows of one shard, from the lowest to the highest identity; `rising` where each is above the one before
    it."""

    first: Identity
    last: Identity
    rising: bool = True


@dataclass(frozen=True)
class Overlap(Generic[Of, File]):
    """Files that may hold rows twice, and of which shards; no other file holds rows between theirs."""

    keys: frozenset[Of]
    files: frozenset[File]


def stretches_of(cursors: _Longs, indexes: _Longs) -> list[Stretch]:
    """The stretches of rows of a shard, at least one, in the order in which they lie.

    A stretch ends where the next identity is not above the last one, which an equal one is not either: two
    equal rows side by side are two stretches that touch, so they overlap and are found. Worked example: the
    identities (5, 0), (5, 1), (8, 0), (6, 0), (7, 0) are the stretches (5, 0) to (8, 0) and (6, 0) to (7, 0).
    Their file overlaps with itself. Above `_STRETCHES_MAX` the answer is one stretch that does not rise: a
    file in no order would have nearly as many stretches as rows, and those would be held for every file.
    """

    def row(place: int) -> Identity:
        return int(cursors[place]), int(indexes[place])

    steps, inside = np.diff(cursors), np.diff(indexes)
    breaks = (np.flatnonzero((steps < 0) | ((steps == 0) & (inside <= 0))) + 1).tolist()
    if len(breaks) >= _STRETCHES_MAX:
        order = np.lexsort((indexes, cursors))
        return [Stretch(row(int(order[0])), row(int(order[-1])), rising=False)]
    return [Stretch(row(begin), row(end - 1)) for begin, end in pairwise([0, *breaks, len(cursors)])]


def joined(before: list[Stretch], more: list[Stretch]) -> list[Stretch]:
    """The stretches of a file, with those of rows that lie behind them: a file is read a batch at a time, and
    where a batch ends is no break in its rows.

    Worked example: (5, 0) to (8, 0) and then (8, 1) to (9, 0) are one stretch, (5, 0) to (9, 0). With (8, 0)
    to (9, 0) behind them they stay two, since (8, 0) is there twice.
    """
    if before and more and before[-1].rising and more[0].rising and before[-1].last < more[0].first:
        more = [Stretch(before[-1].first, more[0].last), *more[1:]]
        before = before[:-1]
    every = [*before, *more]
    if len(every) <= _STRETCHES_MAX and all(each.rising for each in every):
        return every
    return [Stretch(min(each.first for each in every), max(each.last for each in every), rising=False)]


def overlaps(stretches: Mapping[Of, Iterable[tuple[Stretch, File]]]) -> list[Overlap[Of, File]]:
    """Which files may hold rows of a shard twice; those that share a shard's rows, or a file, together.

    Worked example: of shard s the files g and h overlap, of shard t the files h and i. The answer is one
    group, the shards s and t with the files g, h and i: h would else be read once for each of its shards.
    """
    found = dict[File, Overlap[Of, File]]()
    for key, those in stretches.items():
        for files in _overlapping(those):
            before = [found[file] for file in files if file in found]
            keys = frozenset({key}).union(*(each.keys for each in before))
            group = Overlap(keys, files.union(*(each.files for each in before)))
            found.update(dict.fromkeys(group.files, group))
    return list({id(group): group for group in found.values()}.values())


def _overlapping(stretches: Iterable[tuple[Stretch, File]]) -> list[frozenset[File]]:
    groups: list[list[tuple[Stretch, File]]] = []
    end: Identity | None = None
    for stretch, file in sorted(stretches, key=lambda each: each[0]):
        if end is None or stretch.first > end:
            groups.append([])
            end = stretch.last
        groups[-1].append((stretch, file))
        end = max(end, stretch.last)
    return [
        frozenset(file for _, file in group) for group in groups if len(group) > 1 or not group[0][0].rising
    ]
