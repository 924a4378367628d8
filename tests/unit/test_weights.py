"""What shards weigh, from what landed to who gets them: played on values, each world from its seed.

A round is a run of a few minutes. What a shard gets in it is its rate, 30 % more or less. What came of each
hour says what it weighs, rows keep that, and `weighted` shares by the rows, as `SqlLease` has it do.
"""

import random
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from pipelines.landing.ledger.left import HOURS, weight_of
from sls_io.coordination.assignors import assigned, weighted
from sls_io.coordination.lease import Lease, View, weight_to_keep, weights
from sls_io.values.window import HOUR_S

H = 500
NOISE = 0.3
SEEDS = range(60)


@dataclass
class Sharing:
    """Members that share shards of these rates, bytes a second, a round every `minutes`."""

    members: list[str]
    rates: dict[int, float]
    draw: random.Random
    minutes: int = 5
    at_s: int = H * HOUR_S
    hours: dict[int, dict[int, int]] = field(default_factory=dict)
    rows: dict[int, int | None] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, seed: int, minutes: int = 5) -> "Sharing":
        """Two to six members, up to 24 shards: many alike, some up to a hundred times as heavy as others."""
        draw = random.Random(seed)
        members = [f"w{n}" for n in range(draw.randint(2, 6))]
        rates = {
            s: 1e6 * draw.choice([1, 1, 1, draw.uniform(0.1, 3), draw.uniform(0.5, 10)])
            for s in range(draw.randint(2, 24))
        }
        return cls(members, rates, draw, minutes)

    def round(self) -> int:
        """How many shards change their member in it."""
        span_s, hour = self.minutes * 60, self.at_s // HOUR_S
        self.at_s += span_s
        for shard, rate in self.rates.items():
            came = self.hours.setdefault(shard, {})
            came[hour] = came.get(hour, 0) + round(rate * span_s * self.draw.uniform(1 - NOISE, 1 + NOISE))
        if self.at_s // HOUR_S > hour:  # between two edges of an hour nothing else is measured
            self._weigh()
        view = View({s: Lease(s, weight=self.rows.get(s)) for s in self.rates})
        found = assigned(weighted, self.members, weights(view, dict.fromkeys(self.rates)), self.owners)
        now = {shard: member for member, shards in found.items() for shard in shards}
        moved = sum(now[s] != self.owners.get(s, now[s]) for s in now)
        self.owners = now
        return moved

    def _weigh(self) -> None:
        for shard, came in self.hours.items():
            measured = weight_of(came, min(came), self.at_s)
            if measured is not None:
                self.rows[shard] = weight_to_keep(self.rows.get(shard), measured)

    def rounds(self, count: int) -> list[int]:
        """The moves of so many rounds."""
        return [self.round() for _ in range(count)]

    def days(self, count: int) -> int:
        """The moves of so many days."""
        return sum(self.rounds(count * 24 * 60 // self.minutes))

    def load(self, member: str) -> float:
        """Bytes a second of its shards, as they are."""
        return sum(self.rates[s] for s, owner in self.owners.items() if owner == member)


def test_once_settled_no_shard_moves_over_200_rounds_of_noise() -> None:
    moved = {}
    for seed in SEEDS:
        sharing = Sharing.of(seed)
        sharing.days(2)
        moved[seed] = sum(sharing.rounds(200))
    assert not any(moved.values()), {seed: count for seed, count in moved.items() if count}


def test_a_shard_that_becomes_ten_times_as_heavy_is_answered_by_few_moves_which_end() -> None:
    """All but a few in the first day, when all that it weighed before has been forgotten."""
    late, seeds = 0, SEEDS[:20]
    for seed in seeds:
        sharing = Sharing.of(seed)
        sharing.days(2)
        heavy = sharing.draw.choice(sorted(sharing.rates))
        sharing.rates[heavy] *= 10
        answered, after = sharing.days(1), sharing.days(2)
        assert answered <= 2 * len(sharing.rates), f"seed {seed}: {answered} moves"
        assert sum(sharing.rounds(200)) == 0, f"seed {seed} goes on moving"
        late += after
    assert late <= len(seeds) / 10


def test_the_member_of_a_shard_that_became_as_heavy_as_all_others_keeps_no_other() -> None:
    sharing = Sharing(["a", "b", "c"], dict.fromkeys(range(12), 1e6), random.Random(7))
    sharing.days(2)
    assert {sharing.load(member) for member in "abc"} == {4e6}
    sharing.rates[0] = 10e6
    sharing.days(1)
    owner = sharing.owners[0]
    assert [s for s, member in sharing.owners.items() if member == owner] == [0]
    assert sorted(sharing.load(member) for member in "abc") == [5e6, 6e6, 10e6]


def test_members_that_take_one_after_the_other_come_to_the_share_that_each_of_them_wants() -> None:
    """As it is at work: each takes what is its own by the rows of its own moment."""
    for seed in SEEDS[:20]:
        sharing = Sharing.of(seed, minutes=60)
        sharing.days(1)
        sharing.rates[0] *= 10
        for _ in range(HOURS):
            before = dict(sharing.owners)
            sharing.round()
            view = View({s: Lease(s, weight=sharing.rows.get(s)) for s in sharing.rates})
            weighs, has = weights(view, dict.fromkeys(sharing.rates)), before
            for member in sharing.draw.sample(sharing.members, len(sharing.members)) * 3:
                has |= dict.fromkeys(assigned(weighted, sharing.members, weighs, has)[member], member)
            assert all(
                set(assigned(weighted, sharing.members, weighs, has)[m])
                == {s for s, owner in has.items() if owner == m}
                for m in sharing.members
            ), f"seed {seed}: somebody still wants something"
            sharing.owners = has


# --- what one shard weighs


@pytest.mark.parametrize(
    ("hours", "reached_s", "weight"),
    [
        ({H: 9_000_000, H + 1: 36_000_000, H + 2: 72_000_000}, (H + 3) * HOUR_S + 1200, 15_416),
        ({H: 9_000_000, H + 1: 36_000_000}, (H + 2) * HOUR_S - 1, None),  # the first one may be cut
        ({H: 9_000_000}, (H + 2) * HOUR_S, 0),  # an hour in which nothing came is an hour
        ({H: 9_000_000, H + 1: 36_000_000}, (H + HOURS + 2) * HOUR_S, 0),  # only the last day counts
        ({}, (H + 2) * HOUR_S, None),
    ],
)
def test_a_shard_weighs_what_came_in_whole_receive_hours_the_newest_most(
    hours: dict[int, int], reached_s: int, weight: int | None
) -> None:
    assert weight_of(hours, min(hours, default=None), reached_s) == weight


def test_a_weight_is_kept_until_it_is_wrong_by_more_than_a_quarter() -> None:
    assert [weight_to_keep(1000, measured) for measured in (1250, 750, 1251, 749)] == [1000, 1000, 1251, 749]
    assert weight_to_keep(None, 5) == 5 and weight_to_keep(0, 5) == 5 and weight_to_keep(5, 0) == 0


def test_a_rise_to_ten_times_the_weight_changes_a_row_eleven_times_at_most() -> None:
    kept = [1000]
    for measured in range(1000, 10_001):
        kept.append(weight_to_keep(kept[-1], measured))
    assert 0 < sum(a != b for a, b in pairwise(kept)) <= 11


def test_whom_nobody_has_measured_weighs_the_mean_of_those_that_weigh_anything() -> None:
    view = View({0: Lease(0, weight=900), 1: Lease(1, weight=100), 2: Lease(2, weight=0), 3: Lease(3)})
    assert weights(view, dict.fromkeys(range(5))) == {0: 900, 1: 100, 2: 0, 3: 500, 4: 500}
    assert weights(view, {0: 1, 1: 1, 4: 1}) == {0: 1, 1: 1, 4: 1}, "what is given comes first"
    assert weights(View(), dict.fromkeys(range(2))) == {0: 1, 1: 1}
