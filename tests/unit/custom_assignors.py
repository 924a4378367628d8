"""Assignors of somebody's own, good and bad: named by import path in tests."""

from collections.abc import Mapping, Sequence

Answer = dict[str, list[int]]


def all_to_the_first(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Answer:
    """Everything to one, the others stand by."""
    return {members[0]: list(weights)}


def forgets_one(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Answer:
    """Leaves the last shard out."""
    return {members[0]: list(weights)[:-1]}


def gives_twice(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Answer:
    """Gives every shard to everybody."""
    return {member: list(weights) for member in members}


def gives_away(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Answer:
    """Gives all to somebody else."""
    return {"stranger": list(weights)}


def forgets_while_it_works(members: Sequence[str], weights: dict[int, int], owners: dict[int, str]) -> Answer:
    """Takes shards out of what it was given, one of them for good."""
    owners.clear()
    weights.popitem()
    return {members[0]: [weights.popitem()[0] for _ in range(len(weights))]}


def works_off(members: Sequence[str], weights: dict[int, int], owners: dict[int, str]) -> Answer:
    """Takes all shards out of what it was given, and gives them to the first."""
    return {members[0]: [weights.popitem()[0] for _ in range(len(weights))]}


def fails(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Answer:
    """Does not work."""
    raise KeyError("a shard's payload")


NUMBER = 7
