"""Which of the files in a folder are the ones that a ledger knows. Values in, values out.

The table's folder also holds files of dead runs, files of hours that were taken back, and files whose rows
were written anew since. Two rules choose among them: files that share a row exclude each other, and the
chosen files of a shard hold as many rows, with the same identity sum, as its ledger says. The newest files
are tried first; files that are known to have left the table are tried last. Where these do not add up, other
choices are tried for some seconds.

Why not the newest files alone: a dead run leaves files that are newer than all of the table's, and a copy of
the folder gives every file the time of the copying. Order only says where to begin; the sum of 64 bits
decides. So a wrong order costs tries, and never takes wrong rows.

Worked example: a shard has 30 rows in the ledger. A compaction wrote files a (10 rows) and b (20 rows)
together as c (30 rows), and a dead run left d (7 rows). Neither a nor b can be chosen beside c. The first
choice is the newest, c and d: 37 rows. It does not add up, so a choice without d is tried: c alone, 30 rows.

How it is searched. Files that exclude one another are a *group*, and the sets that may be taken of a group
are its alternatives: of a, b and c these are {c}, {a, b}, {a}, {b} and {}, of d {d} and {}. Shards that share
a file are solved together, all others apart: what is wrong with one shard stays with it. Within such a room
the first alternatives are summed once, and what they lack is looked for among *exchanges*: an alternative in
the place of a first one, with what that adds. Here one exchange, {} for {d}, adds the -7 rows that are
wanted. With n exchanges, sets of k of them are n**(k-1) tries, since the last one of a set is looked up by
what it must add: of a thousand leftovers any three can be found by a million tries.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.landing.ledger.values import Count, Key
from sls_io.values.claim import SUM_MODULUS

_Vector = tuple[int, ...]
_ALTERNATIVES_MAX = 64
_TRIES_MAX = 1_000_000


@dataclass(frozen=True)
class Leaf:
    """A data file: what rows of each shard it holds, when it was written (unix seconds). `left`: it was in
    the table once, and is known to have left it."""

    path: str
    counts: Mapping[Key, Count]
    modified_s: float
    left: bool = False

    @property
    def rows(self) -> int:
        """Of all shards."""
        return sum(rows for rows, _ in self.counts.values())


@dataclass(frozen=True)
class Choice:
    """The files that are taken, and the shards whose files do not add up to what was wanted."""

    taken: tuple[Leaf, ...] = ()
    short: frozenset[Key] = field(default_factory=frozenset)


def choose(
    leaves: Collection[Leaf],
    conflicts: Collection[tuple[str, str]],
    wanted: Mapping[Key, Count],
    *,
    free: Collection[Key] = (),
) -> Choice:
    """Files that hold exactly what is `wanted` of each shard; no two of them share a row (`conflicts`: pairs
    of paths that do). What is wanted of the shards in `free` is unknown.

    Where nothing adds up: the likeliest files, and their shards. Worked example: a shard wants 30 rows, and
    its files are a (10 rows) and d (7 rows). No set holds 30, so both are taken and the shard is short. With
    the shard in `free` both are taken, too, and nothing is short: nobody said how many there should be.
    """
    beside = defaultdict[str, set[str]](set)
    for one, other in conflicts:
        beside[one].add(other)
        beside[other].add(one)
    parts = [_alternatives(group, beside) for group in _groups(leaves, beside)]
    taken, short = list[Leaf](), set[Key]()
    for keys, ours in _together(parts, wanted):
        told = sorted(keys - set(free))
        found = _solved(ours, [wanted.get(key, (0, 0)) for key in told], told)
        taken += [leaf for chosen in found or [part[0] for part in ours] for leaf in chosen]
        short |= set() if found is not None else keys
    return Choice(tuple(sorted(taken, key=lambda leaf: leaf.path)), frozenset(short))


def _groups(leaves: Collection[Leaf], beside: Mapping[str, set[str]]) -> Iterator[list[Leaf]]:
    """Files that exclude one another, directly or through others."""
    known = {leaf.path: leaf for leaf in leaves}
    while known:
        group, waiting = list[Leaf](), [next(iter(known))]
        while waiting:
            leaf = known.pop(waiting.pop(), None)
            if leaf is not None:
                group.append(leaf)
                waiting += beside.get(leaf.path, ())
        yield group


def _alternatives(group: list[Leaf], beside: Mapping[str, set[str]]) -> list[tuple[Leaf, ...]]:
    """Sets of files of a group without a conflict, the likeliest first; at least one set.

    A search in depth, with the newest file first: it is taken before it is left out. A file that has left is
    the other way round, left out before it is taken, and comes behind all that have not: so the first sets
    have none of them. Worked example: c holds the rows of a and of b. The newest being c, the sets are {c},
    {a, b}, {a}, {b}, {}. When c is known to have left they are {a, b}, {a}, {b}, {}, {c}.
    """
    ordered = sorted(group, key=lambda leaf: (leaf.left, -leaf.modified_s, leaf.path))
    found: list[tuple[Leaf, ...]] = []
    waiting: list[tuple[int, tuple[Leaf, ...]]] = [(0, ())]
    while waiting and len(found) < _ALTERNATIVES_MAX:
        at, taken = waiting.pop()
        if at == len(ordered):
            found.append(taken)
            continue
        leaf = ordered[at]
        ways = [(at + 1, taken)]
        if not any(other.path in beside.get(leaf.path, ()) for other in taken):
            ways.append((at + 1, (*taken, leaf)))
        # The last one is looked at first.
        waiting += reversed(ways) if leaf.left else ways
    return found


def _together(
    parts: Sequence[list[tuple[Leaf, ...]]], wanted: Mapping[Key, Count]
) -> Iterator[tuple[set[Key], list[list[tuple[Leaf, ...]]]]]:
    """Shards that share no file with other shards, with the alternatives for their files."""
    rooms: list[tuple[set[Key], list[list[tuple[Leaf, ...]]]]] = [({key}, []) for key in wanted]
    for part in parts:
        keys = {key for chosen in part for leaf in chosen for key in leaf.counts}
        mine = [room for room in rooms if room[0] & keys]
        rooms = [room for room in rooms if not room[0] & keys]
        for room in mine:
            keys |= room[0]
        rooms.append((keys, [*(each for room in mine for each in room[1]), part]))
    yield from rooms


def _solved(
    parts: Sequence[list[tuple[Leaf, ...]]], wanted: Sequence[Count], keys: Sequence[Key]
) -> list[tuple[Leaf, ...]] | None:
    """One alternative of each part, so that they add up to what is wanted of `keys`; None: not found.

    Few exchanges are tried before many, none at first: what is wrong is mostly one leftover. The search
    stops before a size that would take more than `_TRIES_MAX`, so it ends within seconds, and a choice that
    it did not find is said to be short: a person sees a shard named, never a guess.
    """
    chosen = [part[0] for part in parts]
    base = [_vector(each, keys) for each in chosen]
    goal = tuple(number for count in wanted for number in count)
    short = _minus(goal, _sum(base, len(goal)))
    exchanges = _Exchanges(
        [
            (at, other, _minus(_vector(other, keys), base[at]))
            for at, part in enumerate(parts)
            for other in part[1:]
        ]
    )
    size = 0
    while size <= len(parts) and exchanges.tries(size) <= _TRIES_MAX:
        if (found := exchanges.that_add(short, size)) is not None:
            return [found.get(at, each) for at, each in enumerate(chosen)]
        size += 1
    return None


class _Exchanges:
    """Alternatives that may stand in the place of a first choice: (part, the other files, what they add)."""

    def __init__(self, changes: list[tuple[int, tuple[Leaf, ...], _Vector]]) -> None:
        self._changes = changes
        self._by_change = defaultdict[_Vector, list[tuple[int, tuple[Leaf, ...]]]](list)
        for at, other, change in changes:
            self._by_change[change].append((at, other))

    def tries(self, size: int) -> int:
        """How many sets of `size` exchanges are looked at; the last one of a set is looked up."""
        return int(len(self._changes) ** max(0, size - 1))

    def that_add(
        self, left: _Vector, size: int, begin: int = 0, used: frozenset[int] = frozenset()
    ) -> dict[int, tuple[Leaf, ...]] | None:
        """`size` exchanges from the `begin`th on, one a part and none of the `used` ones, that together add
        what is `left`; None: there are none."""
        if not size:
            return {} if not any(left) else None
        if size == 1:
            return next(({at: other} for at, other in self._by_change.get(left, ()) if at not in used), None)
        for i in range(begin, len(self._changes)):
            at, other, change = self._changes[i]
            if at not in used:
                rest = self.that_add(_minus(left, change), size - 1, i + 1, used | {at})
                if rest is not None:
                    return {at: other, **rest}
        return None


def _vector(leaves: Sequence[Leaf], keys: Sequence[Key]) -> _Vector:
    rows, sums = Counter[Key](), Counter[Key]()
    for leaf in leaves:
        for key, (count, total) in leaf.counts.items():
            rows[key] += count
            sums[key] += total
    return tuple(number for key in keys for number in (rows[key], sums[key] % SUM_MODULUS))


def _minus(one: _Vector, other: _Vector) -> _Vector:
    """Rows as they are, sums modulo 2**64: a vector has (rows, sum) of each shard, so odd places are sums.

    Worked example: (5, 3) less (2, 9) is (3, 2**64 - 6).
    """
    return tuple(
        (a - b) % SUM_MODULUS if at % 2 else a - b for at, (a, b) in enumerate(zip(one, other, strict=True))
    )


def _sum(vectors: Sequence[_Vector], length: int) -> _Vector:
    columns = list(zip(*vectors, strict=True)) if vectors else [()] * length
    return tuple(sum(each) % SUM_MODULUS if at % 2 else sum(each) for at, each in enumerate(columns))
