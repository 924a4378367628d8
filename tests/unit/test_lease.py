"""What rows of leases mean, when one has expired and what is taken: values only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sls_io.coordination.assignors import ASSIGNORS, named, sticky
from sls_io.coordination.lease import (
    FREE,
    ConsumerState,
    HeldLeases,
    Lease,
    Take,
    Terms,
    View,
    Watch,
    forgettable,
    members,
    missing,
    pause_s,
    takes,
)
from sls_io.values.window import Cursor

T = 30.0
TERMS = Terms(T, 5.0, sticky)
NAMES = st.sampled_from("abcd")


def held(shard: int, owner: str, lease_id: int = 7, consumer: str | None = None) -> Lease:
    return Lease(shard, lease_id, owner, owner if consumer is None else consumer)


def view_of(*leases: Lease, instances: str = "") -> View:
    return View({lease.shard: lease for lease in leases}, dict.fromkeys(instances, 1))


def watched(view: View, for_s: float) -> Watch:
    """A watch that has seen `view` unchanged for so long, looking often enough."""
    watch, at_s = Watch(), 0.0
    while at_s < for_s:
        watch = watch.after(view, at_s, T)
        at_s += T / 10
    return watch.after(view, for_s, T)


def wanted(view: View, watch: Watch, me: str, at_s: float, *, from_living: bool = True) -> dict[int, bool]:
    weights = dict.fromkeys(view.leases, 1)
    found = takes(view, watch, me, weights=weights, at_s=at_s, terms=TERMS, from_living=from_living)
    return {take.shard: take.at_once for take in found}


# --- what a row means


@pytest.mark.parametrize(
    ("lease", "states"),
    [
        (Lease(1), {}),
        (Lease(1, FREE, "a", ""), {"a": ConsumerState.STOP_COMPLETED}),
        (held(1, "a"), {"a": ConsumerState.PROCESSING}),
        (held(1, "b", consumer="a"), {"b": ConsumerState.INITIALIZING, "a": ConsumerState.STOPPING}),
        (held(1, "b", consumer=""), {"b": ConsumerState.INITIALIZING}),
    ],
)
def test_a_row_says_how_far_its_owner_and_its_consumer_are(
    lease: Lease, states: dict[str, ConsumerState]
) -> None:
    assert lease.states() == states


# --- when it has expired


def test_what_is_seen_for_the_first_time_is_alive() -> None:
    view = view_of(held(1, "a"), instances="a")
    watch = Watch().after(view, 1000.0, T)
    assert not TERMS.silent(watch, 1, 1000.0)
    assert not TERMS.silent(watch, "a", 1000.0)


def test_a_lease_expires_a_timeout_of_our_clock_after_its_id_was_seen_to_change() -> None:
    view = view_of(held(1, "a"))
    watch = watched(view, T - 1)
    assert not TERMS.silent(watch, 1, T - 1)
    assert TERMS.silent(watched(view, T), 1, T)
    renewed = watch.after(view_of(held(1, "a", lease_id=8)), T, T)
    assert not TERMS.silent(renewed, 1, T)


def test_time_without_a_look_counts_as_one_renewal() -> None:
    view = view_of(held(1, "a"), held(2, "b"), instances="ab")
    watch = watched(view, T / 2).after(view, 100 * T, T)
    left_s = T - T / 2 - T / 5
    for key in (1, 2, "a", "b"):
        assert not TERMS.silent(watch, key, 100 * T + left_s - 1)
        assert TERMS.silent(watch, key, 100 * T + left_s)


def test_each_look_of_a_slow_database_brings_a_dead_owner_nearer() -> None:
    """Story: more than half a timeout lay between any two looks, and each began the watching anew."""
    view, watch = view_of(held(1, "a")), Watch()
    looks = [i * 0.6 * T for i in range(7)]
    for at_s in looks:
        watch = watch.after(view, at_s, T)
    assert TERMS.silent(watch, 1, looks[-1])


@given(
    st.integers(1, 40), st.integers(0, 400), st.integers(0, 9), st.integers(0, 9), st.sampled_from((2, 5, 9))
)
def test_an_owner_that_lives_is_never_silent_however_long_the_tables_were_away(
    begin: int, length: int, owner_at: int, observer_at: int, look_every: int
) -> None:
    """Ticks are a fiftieth of a timeout: the owner renews every tenth, the observer looks more often."""
    watch, lease_id, view = Watch(), 1, view_of(held(1, "a"))
    for tick in range(begin + length + 120):
        at_s = tick * T / 50
        if begin <= tick < begin + length:
            continue
        if tick % 10 == owner_at:
            lease_id += 1
        if (tick + observer_at) % look_every == 0:
            view = view_of(held(1, "a", lease_id))
            watch = watch.after(view, at_s, T)
            assert not TERMS.silent(watch, 1, at_s)
    assert lease_id > 2, "it renewed"


def test_what_the_run_before_saw_needs_no_second_timeout() -> None:
    now_ms = 1_000_000
    old, fresh = now_ms - 300_000, now_ms - 30_000
    view = View(
        {
            1: Lease(1, 7, "dead", "dead", None, old),
            2: Lease(2, 7, "slow", "slow", None, old),
            3: Lease(3, 7, "live", "live", None, fresh),
            4: Lease(4, 7, "me", "me", None, old),
        },
        {"me": now_ms - 200_000, "dead": old, "slow": fresh, "live": fresh},
    )
    watch = Watch().after(view, 0.0, T).carry(view, "me", now_s=now_ms / 1000, timeout_s=T)
    assert watch.carried == {1, "dead"}
    assert missing(view, watch, 0.0, TERMS) == {1, "dead"}
    assert not TERMS.silent(watch, 1, 0.0), "it has time to show itself"
    watch = watch.after(view, TERMS.grace_s, T)
    assert TERMS.silent(watch, 1, TERMS.grace_s) and TERMS.silent(watch, "dead", TERMS.grace_s)
    assert missing(view, watch, TERMS.grace_s, TERMS) == frozenset()
    renewed = View({**view.leases, 1: held(1, "dead", lease_id=8)}, {**view.instances, "dead": now_ms})
    assert watch.after(renewed, TERMS.grace_s, T).carried == frozenset()


def test_without_a_run_before_nothing_is_carried() -> None:
    view = View({1: Lease(1, 7, "a", "a", None, 5)}, {"a": 5})
    watch = Watch().after(view, 0.0, T)
    assert watch.carry(view, "me", now_s=10.0**6, timeout_s=T).carried == frozenset()


def test_a_run_a_moment_ago_carries_nobody_who_is_silent_for_less_than_a_timeout() -> None:
    view = View({1: Lease(1, 7, "a", "a", None, 980_000)}, {"a": 980_000, "me": 999_000})
    watch = Watch().after(view, 0.0, T).carry(view, "me", now_s=1000.0, timeout_s=T)
    assert watch.carried == frozenset()


def test_where_stamps_are_ahead_who_was_silent_since_the_run_before_is_watched_for_a_whole_timeout() -> None:
    """Their distances say nothing: all of them were made since the clock of one of them was a day ahead."""
    now_s = 1_000_000.0
    day_ms = int(now_s + 86_400) * 1000
    view = View(
        {1: Lease(1, 7, "dead", "dead", None, day_ms), 2: Lease(2, 7, "live", "live", None, day_ms + 3)},
        {"dead": day_ms, "me": day_ms + 2, "live": day_ms + 3},
    )
    watch = Watch().after(view, 0.0, T).carry(view, "me", now_s=now_s, timeout_s=T)
    assert watch.carried == missing(view, watch, T - 1, TERMS) == {1, "dead"}
    for at_s in (TERMS.grace_s, T / 2, T - 1):
        watch = watch.after(view, at_s, T)
        assert not TERMS.silent(watch, 1, at_s) and not TERMS.silent(watch, "dead", at_s)
    assert TERMS.silent(watch, 1, T) and TERMS.silent(watch, "dead", T)
    renewed = View({**view.leases, 1: held(1, "dead", lease_id=8)}, {**view.instances, "dead": day_ms + 9})
    assert not TERMS.silent(watch.after(renewed, T, T), 1, T)


# --- what is taken


def test_alone_everything_that_is_free_is_taken_at_once() -> None:
    view = view_of(Lease(1), Lease(2, FREE, "a"), instances="")
    assert wanted(view, Watch().after(view, 0.0, T), "me", 0.0) == {1: True, 2: True}


def test_what_a_living_one_let_go_stays_with_its_name() -> None:
    view = view_of(Lease(1, FREE, "me"), Lease(2, FREE, "a"), Lease(3, FREE, "a"), instances="a")
    assert wanted(view, Watch().after(view, 0.0, T), "me", 0.0) == {1: True}


def test_what_is_let_go_and_more_than_its_share_is_begun_at_once() -> None:
    view = view_of(*(Lease(s, FREE, "a") for s in range(4)), instances="a")
    assert wanted(view, Watch().after(view, 0.0, T), "me", 0.0) == {2: True, 3: True}


def test_of_a_living_owner_half_is_taken_in_one_round_and_begun_later() -> None:
    view = view_of(*(held(s, "a") for s in range(8)), instances="a")
    watch = Watch().after(view, 0.0, T)
    assert wanted(view, watch, "me", 0.0) == dict.fromkeys((4, 5, 6, 7), False)
    assert wanted(view, watch, "me", 0.0, from_living=False) == {}


def test_expired_ones_come_first_and_spare_the_living() -> None:
    view = view_of(*(held(s, "dead") for s in range(3)), *(held(s, "a") for s in range(3, 6)))
    watch = watched(view_of(*(held(s, "dead") for s in range(3))), T).after(view, T, T)
    assert wanted(view, watch, "me", T) == {0: True, 1: True, 2: True}


def test_where_numbers_differ_by_one_nothing_is_taken() -> None:
    view = view_of(held(1, "a"), held(2, "a"), held(3, "me"), instances="a")
    assert wanted(view, Watch().after(view, 0.0, T), "me", 0.0) == {}


def test_an_instance_that_holds_nothing_gets_its_share_left() -> None:
    view = view_of(*(Lease(s) for s in range(4)), instances="a")
    assert len(wanted(view, Watch().after(view, 0.0, T), "me", 0.0)) == 2


def test_an_instance_that_is_gone_is_forgotten_and_its_share_is_taken() -> None:
    view = view_of(*(Lease(s) for s in range(4)), instances="a")
    watch = watched(view, T)
    assert forgettable(view, watch, "me", T, TERMS) == {"a": 1}
    assert len(wanted(view, watch, "me", T)) == 4
    assert members(view, watch, "me", T, TERMS) == ("me",)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(st.dictionaries(st.integers(0, 20), st.tuples(NAMES, st.booleans()), min_size=1), st.sets(NAMES))
def test_once_each_has_taken_its_own_nobody_takes_any_more(
    name: str, owned: dict[int, tuple[str, bool]], instances: set[str]
) -> None:
    terms = Terms(T, 5.0, named(name))
    rows = {s: held(s, owner, lease_id=FREE if free else 7) for s, (owner, free) in owned.items()}
    view = View(rows, dict.fromkeys(instances | {owner for owner, _ in owned.values()}, 1))
    weights = dict.fromkeys(rows, 1)

    def round_of(view: View) -> dict[int, Lease]:
        rows = dict(view.leases)
        for me in sorted(view.instances):
            watch = Watch().after(view, 0.0, T)
            for take in takes(view, watch, me, weights=weights, at_s=0.0, terms=terms, from_living=True):
                assert rows[take.shard] == view.leases[take.shard], "two want the same"
                rows[take.shard] = held(take.shard, me, lease_id=8)
        return rows

    after = round_of(View(rows, view.instances))
    assert round_of(View(after, view.instances)) == after


@given(st.lists(st.sampled_from("abcm"), min_size=1, max_size=20))
def test_each_that_is_taken_from_a_living_owner_brings_the_two_nearer(owners: list[str]) -> None:
    view = view_of(*(held(s, owner) for s, owner in enumerate(owners)), instances="abcm")
    counts = {name: owners.count(name) for name in "abcm"}
    for shard in wanted(view, Watch().after(view, 0.0, T), "m", 0.0):
        victim = view.leases[shard].owner
        assert counts[victim] - counts["m"] >= 2
        counts[victim] -= 1
        counts["m"] += 1


# --- what one process has


def test_a_claim_counts_from_before_its_renewal_was_sent() -> None:
    mine = HeldLeases().sends(7, 100.0).seen(view_of(held(1, "me")), "me", at_s=108.0, timeout_s=T)
    assert mine.until_s == {1: 130.0}
    assert mine.working(129.9) == {1} and mine.working(130.0) == frozenset()


def test_an_id_of_our_name_that_we_did_not_write_is_another_process() -> None:
    mine = (
        HeldLeases()
        .sends(7, 0.0)
        .seen(view_of(held(1, "me", 7), held(2, "me", 9)), "me", at_s=1.0, timeout_s=T)
    )
    assert mine.owned == {1: 7}
    assert mine.working(1.0) == {1}


def test_a_renewal_that_was_not_carried_out_wins_no_time() -> None:
    mine = HeldLeases().sends(7, 0.0).seen(view_of(held(1, "me", 7)), "me", at_s=0.0, timeout_s=T)
    mine = mine.sends(8, 20.0).seen(view_of(held(1, "me", 7)), "me", at_s=20.0, timeout_s=T)
    assert mine.until_s == {1: T}


def test_a_change_whose_answer_was_lost_is_known_when_it_arrives_late() -> None:
    mine = HeldLeases().sends(7, 0.0).seen(view_of(held(1, "me", 7)), "me", at_s=0.0, timeout_s=T)
    mine = mine.sends(8, 5.0).seen(
        view_of(held(1, "me", 7)), "me", at_s=5.0, timeout_s=T, lost=frozenset({8})
    )
    assert mine.seen(view_of(held(1, "me", 8)), "me", at_s=9.0, timeout_s=T).until_s == {1: 5.0 + T}


def test_a_shard_that_another_took_stays_for_what_is_left_and_no_longer() -> None:
    mine = HeldLeases().sends(7, 0.0).seen(view_of(held(1, "me", 7)), "me", at_s=0.0, timeout_s=T)
    stolen = view_of(held(1, "thief", 9, consumer="me"))
    mine = mine.seen(stolen, "me", at_s=10.0, timeout_s=T)
    assert not mine.owned and mine.working(10.0) == mine.working(29.9) == {1}
    assert mine.working(30.0) == frozenset()
    begun = view_of(held(1, "thief", 9))
    assert mine.seen(begun, "me", at_s=12.0, timeout_s=T).working(12.0) == frozenset()


def test_what_was_taken_is_begun_a_timeout_later_or_when_it_is_let_go() -> None:
    stolen = View({1: Lease(1, 7, "me", "loser", None, 50_000)})
    mine = HeldLeases().sends(7, 0.0).seen(stolen, "me", at_s=0.0, timeout_s=T)
    assert mine.working(0.0) == frozenset()
    assert mine.ready(stolen, stamp_ms=51_000, at_s=T - 0.1, terms=TERMS) == frozenset()
    assert mine.ready(stolen, stamp_ms=51_000, at_s=T, terms=TERMS) == {1}
    assert mine.ready(stolen, stamp_ms=89_999, at_s=0.0, terms=TERMS) == frozenset()
    assert mine.ready(stolen, stamp_ms=90_000, at_s=0.0, terms=TERMS) == {1}, "an earlier run took it"
    assert mine.ready(view_of(held(1, "me", consumer="")), stamp_ms=0, at_s=0.0, terms=TERMS) == {1}


# --- moments


@given(st.integers(1, 12), st.floats(0, 1e6), st.floats(0.5, 60))
def test_workers_that_start_together_ask_at_moments_of_their_own(
    count: int, now: float, every: float
) -> None:
    names = tuple(f"w{place:02}" for place in range(count))
    moments = [(now + pause_s(now, name, names, every)) % every for name in names]
    apart = sorted(moments)
    gaps = [b - a for a, b in zip(apart, [*apart[1:], apart[0] + every], strict=True)]
    assert min(gaps) >= every / count - 1e-3
    assert all(every / 4 <= pause_s(now, name, names, every) <= every * 1.25 + 1e-6 for name in names)


def test_stamps_rise_although_clocks_differ() -> None:
    view = View({1: Lease(1, 7, "a", "a", Cursor(1), 9_000)}, {"b": 12_000})
    assert view.next_stamp_ms(1.0) == 12_001
    assert view.next_stamp_ms(20.0) == 20_000
    assert Take(1, 7, True).at_once
