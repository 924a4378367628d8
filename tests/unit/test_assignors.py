"""Assignors: one contract, one suite of properties over all of them, and what each promises beyond it."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sls_io.coordination.assignors import ASSIGNORS, assigned, named, sticky, weighted
from sls_io.values.errors import ConfigError

CUSTOM = "tests.unit.custom_assignors:"
NAMES = (*ASSIGNORS, f"{CUSTOM}all_to_the_first")
every = pytest.mark.parametrize("name", NAMES)

MEMBERS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)
WEIGHTS = st.dictionaries(st.integers(0, 40), st.just(0) | st.integers(0, 10_000), max_size=24)
OWNERS = st.dictionaries(st.integers(0, 40), st.sampled_from("abcdefgh"), max_size=24)
TEN = dict.fromkeys(range(10), 1)


def owners_of(assignment: Mapping[str, tuple[int, ...]]) -> dict[int, str]:
    return {shard: member for member, shards in assignment.items() for shard in shards}


# --- the contract


@every
@given(MEMBERS, WEIGHTS, OWNERS)
def test_each_shard_goes_to_exactly_one_member(
    name: str, members: list[str], weights: dict[int, int], owners: dict[int, str]
) -> None:
    found = assigned(named(name), members, weights, owners)
    assert sorted(shard for shards in found.values() for shard in shards) == sorted(weights)
    assert list(found) == sorted(members)
    assert all(list(shards) == sorted(shards) for shards in found.values())


@every
@given(MEMBERS, WEIGHTS, OWNERS, st.randoms())
def test_every_worker_comes_to_the_same_answer(
    name: str, members: list[str], weights: dict[int, int], owners: dict[int, str], mix: object
) -> None:
    found = assigned(named(name), members, weights, owners)
    shuffle = mix.shuffle  # type: ignore[attr-defined]
    pairs, had, others = list(weights.items()), list(owners.items()), list(members)
    for sequence in (pairs, had, others):
        shuffle(sequence)
    assert assigned(named(name), others, dict(pairs), dict(had)) == found


@every
@given(MEMBERS, WEIGHTS, OWNERS)
def test_asked_again_with_its_own_answer_nothing_moves(
    name: str, members: list[str], weights: dict[int, int], owners: dict[int, str]
) -> None:
    found = assigned(named(name), members, weights, owners)
    assert assigned(named(name), members, weights, owners_of(found)) == found


@every
def test_more_members_than_shards_means_that_some_stand_by(name: str) -> None:
    found = assigned(named(name), ["a", "b", "c", "d"], {3: 1}, {})
    assert sorted(found) == ["a", "b", "c", "d"]
    assert sorted(found.values()) == [(), (), (), (3,)]


def test_no_shards_means_that_all_stand_by() -> None:
    assert assigned(sticky, ["b", "a"], {}, {}) == {"a": (), "b": ()}


@given(st.sampled_from(["range", "round_robin", "sticky"]), MEMBERS, WEIGHTS, OWNERS)
def test_numbers_of_open_shards_differ_by_one_at_most_and_so_do_those_of_closed_ones(
    name: str, members: list[str], weights: dict[int, int], owners: dict[int, str]
) -> None:
    found = assigned(named(name), members, weights, owners).values()
    for is_open in (True, False):
        counts = [sum((weights[s] > 0) == is_open for s in shards) for shards in found]
        assert max(counts) - min(counts) <= 1


@given(st.sampled_from(["range", "round_robin", "sticky"]), MEMBERS, WEIGHTS)
def test_who_gets_one_open_shard_more_is_the_last_to_get_a_closed_one_more(
    name: str, members: list[str], weights: dict[int, int]
) -> None:
    counts = [len(shards) for shards in assigned(named(name), members, weights, {}).values()]
    assert max(counts) - min(counts) <= 1


# --- what each promises beyond it


def test_range_gives_10_partitions_to_3_consumers_as_neighbours() -> None:
    found = assigned(named("range"), ["c1", "c2", "c3"], TEN, {})
    assert found == {"c1": (0, 1, 2, 3), "c2": (4, 5, 6), "c3": (7, 8, 9)}


def test_round_robin_deals_10_partitions_to_3_consumers_in_turn() -> None:
    found = assigned(named("round_robin"), ["c1", "c2", "c3"], TEN, {})
    assert found == {"c1": (0, 3, 6, 9), "c2": (1, 4, 7), "c3": (2, 5, 8)}


def test_sticky_moves_3_of_10_partitions_when_a_third_consumer_comes() -> None:
    before = {**dict.fromkeys(range(5), "c1"), **dict.fromkeys(range(5, 10), "c2")}
    after = owners_of(assigned(sticky, ["c1", "c2", "c3"], TEN, before))
    moved = {s for s in TEN if after[s] != before[s]}
    assert len(moved) == 3
    assert {after[s] for s in moved} == {"c3"}


@given(MEMBERS, WEIGHTS, OWNERS, st.permutations("abcdefgh"))
def test_sticky_leaves_no_free_shard_when_each_has_taken_its_own_once_in_any_order(
    members: list[str], weights: dict[int, int], owners: dict[int, str], order: list[str]
) -> None:
    has = {shard: owner for shard, owner in owners.items() if shard in weights and owner in members}
    for member in (name for name in order if name in members):
        mine = assigned(sticky, members, weights, has)[member]
        has |= dict.fromkeys((shard for shard in mine if shard not in has), member)
    assert has.keys() == weights.keys()


def test_sticky_shares_open_shards_where_one_has_all_that_are_closed() -> None:
    """What two splits leave: the parents with one, the children with the other; as many for each."""
    weights = dict.fromkeys(range(4), 0) | dict.fromkeys(range(4, 8), 1)
    before = dict.fromkeys(range(4), "a") | dict.fromkeys(range(4, 8), "b")
    assert assigned(sticky, ["a", "b"], weights, before) == {"a": (0, 1, 6, 7), "b": (2, 3, 4, 5)}


def test_range_and_round_robin_deal_closed_shards_after_the_open_ones() -> None:
    weights = {0: 0, 1: 0, 2: 1, 3: 1, 4: 1, 5: 1}
    range_ = {"a": (2, 3), "b": (0, 4), "c": (1, 5)}
    assert assigned(named("range"), ["a", "b", "c"], weights, {}) == range_
    in_turn = {"a": (2, 5), "b": (0, 3), "c": (1, 4)}
    assert assigned(named("round_robin"), ["a", "b", "c"], weights, {}) == in_turn


def test_sticky_gives_the_shards_of_one_that_went_to_the_others_and_moves_none_of_theirs() -> None:
    before = {**dict.fromkeys(range(4), "c1"), **dict.fromkeys(range(4, 7), "c2"), 7: "c3", 8: "c3", 9: "c3"}
    after = owners_of(assigned(sticky, ["c1", "c3"], TEN, before))
    assert all(after[s] == before[s] for s in TEN if before[s] != "c2")


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
    st.dictionaries(st.integers(0, 5), st.sampled_from([0, 1]), max_size=6),
    st.dictionaries(st.integers(0, 5), st.sampled_from("abcd"), max_size=6),
)
def test_sticky_moves_no_more_than_any_balanced_answer_would(
    members: list[str], weights: dict[int, int], owners: dict[int, str]
) -> None:
    def moves(answer: dict[int, str]) -> int:
        return sum(1 for s in answer if owners.get(s) in members and answer[s] != owners[s])

    ours = owners_of(assigned(sticky, members, weights, owners))

    def even(answer: dict[int, str], weight: int) -> bool:
        counts = [sum(answer[s] == m and weights[s] == weight for s in answer) for m in members]
        return max(counts) - min(counts) <= 1

    answers = (dict(zip(weights, choice, strict=True)) for choice in product(members, repeat=len(weights)))
    assert moves(ours) == min(moves(answer) for answer in answers if even(answer, 0) and even(answer, 1))


@given(MEMBERS, WEIGHTS, OWNERS)
def test_weighted_leaves_no_shard_whose_move_to_the_emptiest_would_be_worth_it(
    members: list[str], weights: dict[int, int], owners: dict[int, str]
) -> None:
    found = assigned(weighted, members, weights, owners)
    load = {m: sum(max(1, weights[s]) for s in shards) for m, shards in found.items()}
    emptiest, worth = min(load.values()), sum(load.values()) / len(members) / 10
    for member, shards in found.items():
        apart = load[member] - emptiest
        assert all(apart - abs(apart - 2 * max(1, weights[s])) < worth for s in shards) or apart < worth


def test_weighted_moves_many_light_shards_together_where_none_would_be_worth_it_alone() -> None:
    weights = dict.fromkeys(range(1000), 1)
    found = assigned(weighted, ["a", "b"], weights, dict.fromkeys(weights, "a"))
    apart = abs(len(found["a"]) - len(found["b"]))
    assert apart < 500 / 10
    assert len(found["b"]) <= 500, "no more than what makes them even"


@given(MEMBERS, WEIGHTS, OWNERS, st.permutations("abcdefgh"))
def test_weighted_leaves_no_free_shard_when_each_has_taken_what_is_free_for_it_twice_in_any_order(
    members: list[str], weights: dict[int, int], owners: dict[int, str], order: list[str]
) -> None:
    has = {shard: owner for shard, owner in owners.items() if shard in weights and owner in members}
    for member in (name for name in order * 2 if name in members):
        mine = assigned(weighted, members, weights, has)[member]
        has |= dict.fromkeys((shard for shard in mine if shard not in has), member)
    assert has.keys() == weights.keys()


def test_weighted_gives_the_one_heavy_shard_a_member_of_its_own() -> None:
    found = assigned(weighted, ["a", "b"], {0: 900, 1: 300, 2: 300, 3: 300}, {})
    assert sorted(found.values()) == [(0,), (1, 2, 3)]


def test_weighted_does_not_move_whichever_of_three_equal_shards_was_measured_as_the_lightest() -> None:
    """One of two members has two of them, however they are shared."""
    before = {0: "a", 1: "a", 2: "b"}
    for weights in ([99, 100, 101], [101, 100, 99], [100, 97, 103]):
        found = assigned(weighted, ["a", "b"], dict(enumerate(weights)), before)
        assert owners_of(found) == before


def test_weighted_moves_nothing_for_a_small_difference() -> None:
    before = {0: "a", 1: "a", 2: "b", 3: "b"}
    found = assigned(weighted, ["a", "b"], {0: 100, 1: 104, 2: 100, 3: 98}, before)
    assert owners_of(found) == before


# --- an assignor of one's own


def test_an_assignor_of_ones_own_is_named_by_its_import_path() -> None:
    found = assigned(named(f"{CUSTOM}all_to_the_first"), ["a", "b"], TEN, {})
    assert [member for member, shards in found.items() if not shards] == ["b"]


def test_an_assignor_may_work_off_what_it_was_given_and_is_held_to_what_that_was() -> None:
    weights = dict(TEN)
    assert assigned(named(f"{CUSTOM}works_off"), ["a", "b"], weights, {})["a"] == tuple(range(10))
    assert weights == TEN


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cooperative", "not known: range, round_robin, sticky, weighted, or package.module:function"),
        (":", "not known"),
        ("no.such.module:f", r"failed \(ModuleNotFoundError\): name a function as module:function"),
        (f"{CUSTOM}no_such", r"failed \(AttributeError\): name a function as module:function"),
        (f"{CUSTOM}NUMBER", "is no function"),
    ],
)
def test_a_name_that_leads_nowhere_is_said_with_the_cure(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        named(name)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("forgets_one", "forgets_one: shard 9 is left out"),
        ("gives_twice", "gives_twice: shard 0 is left out, unknown, or given twice"),
        ("gives_away", "'stranger' is no member"),
        ("forgets_while_it_works", "forgets_while_it_works: shard 9 is left out"),
        ("fails", r"failed \(KeyError\)"),
    ],
)
def test_an_assignor_that_breaks_the_contract_is_named_with_the_cure(function: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        assigned(named(CUSTOM + function), ["a", "b"], TEN, {})
    assert "payload" not in str(caught.value)


def test_sharing_among_nobody_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least one member"):
        assigned(sticky, [], TEN, {})
