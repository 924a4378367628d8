"""Which files hold what a ledger knows: dead runs, rows written anew, rows removed for good, as values."""

from pipelines.landing.contents.choice import Leaf, choose
from pipelines.landing.ledger.values import Count, Key

SHARD: Key = ("o", 0)
OTHER: Key = ("o", 1)


def leaf(path: str, rows: int, *, at: float = 0.0, key: Key = SHARD, left: bool = False) -> Leaf:
    """A file whose identity sum follows from its name."""
    return Leaf(path, {key: (rows, total(path))}, at, left)


def total(path: str) -> int:
    """A number that no sum of other names makes by chance."""
    return int.from_bytes(path.encode().ljust(8, b"-")[:8], "big") * 2654435761 % 2**64


def sums(*leaves: Leaf) -> Count:
    """What these hold of the first shard."""
    counts = [each.counts.get(SHARD, (0, 0)) for each in leaves]
    return sum(rows for rows, _ in counts), sum(each for _, each in counts) % 2**64


def paths(*leaves: Leaf) -> list[str]:
    """Their names."""
    return sorted(each.path for each in leaves)


def test_files_that_share_no_row_are_all_taken() -> None:
    a, b = leaf("a", 5), leaf("b", 7)
    found = choose([a, b], [], {SHARD: sums(a, b)})
    assert (paths(*found.taken), found.short) == (["a", "b"], frozenset())


def test_of_files_that_share_a_row_the_newest_is_taken() -> None:
    old, new = Leaf("old", {SHARD: (5, 9)}, 1.0), Leaf("new", {SHARD: (5, 9)}, 2.0)
    found = choose([old, new], [("old", "new")], {SHARD: (5, 9)})
    assert paths(*found.taken) == ["new"]


def test_a_newer_file_that_does_not_add_up_gives_way_to_older_ones() -> None:
    first, second, dead = leaf("first", 50, at=1), leaf("second", 70, at=2), leaf("dead", 60, at=3)
    pairs = [("dead", "first"), ("dead", "second")]
    found = choose([first, second, dead], pairs, {SHARD: sums(first, second)})
    assert (paths(*found.taken), found.short) == (["first", "second"], frozenset())


def test_a_file_of_rows_that_were_removed_is_left_where_only_without_it_all_adds_up() -> None:
    kept = [leaf(f"kept{n}", 5) for n in range(30)]
    removed = [leaf("gone0", 5), leaf("gone1", 6)]
    found = choose([*kept, *removed], [], {SHARD: sums(*kept)})
    assert (paths(*found.taken), found.short) == (paths(*kept), frozenset())


def test_a_file_that_is_known_to_have_left_is_taken_only_where_it_is_wanted() -> None:
    kept, left = leaf("kept", 5), leaf("left", 5, at=9, left=True)
    assert paths(*choose([kept, left], [], {SHARD: sums(kept)}).taken) == ["kept"]
    assert paths(*choose([kept, left], [], {SHARD: sums(kept, left)}).taken) == ["kept", "left"]


def test_a_shard_that_does_not_add_up_keeps_no_other_from_it() -> None:
    mine, theirs = leaf("mine", 5), leaf("theirs", 7, key=OTHER)
    found = choose([mine, theirs], [], {SHARD: sums(mine), OTHER: (8, 1)})
    assert (paths(*found.taken), found.short) == (["mine", "theirs"], frozenset({OTHER}))


def test_a_shard_without_any_file_is_short_unless_nothing_is_wanted_of_it() -> None:
    assert choose([], [], {SHARD: (3, 4), OTHER: (0, 0)}).short == frozenset({SHARD})


def test_a_file_written_of_very_many_is_told_from_them() -> None:
    sources = [leaf(f"s{n}", 1, at=1) for n in range(3000)]
    joined = Leaf("joined", {SHARD: sums(*sources)}, 2.0)
    found = choose([*sources, joined], [("joined", s.path) for s in sources], {SHARD: sums(*sources)})
    assert paths(*found.taken) == ["joined"]
    older = choose([*sources], [], {SHARD: sums(*sources)})
    assert (len(older.taken), older.short) == (3000, frozenset())


def test_of_a_shard_of_which_nobody_knows_what_is_wanted_all_is_taken() -> None:
    mine = leaf("mine", 5)
    found = choose([mine], [], {SHARD: (9, 9)}, free=[SHARD])
    assert (paths(*found.taken), found.short) == (["mine"], frozenset())
