"""Heartbeat algebra: held and granted shards, and time counted from the sending."""

from hypothesis import given
from hypothesis import strategies as st

from sls_io.coordination.heartbeat import Membership, renew_every_s

SHARDS = st.frozensets(st.integers(0, 12))


@given(SHARDS, SHARDS)
def test_an_answer_alone_neither_hands_over_nor_begins(held: frozenset[int], granted: frozenset[int]) -> None:
    after = Membership(held=held).accepted(granted, sent_s=0, timeout_s=10)
    assert after.held == held
    assert after.asked <= held and after.offered <= granted and not after.asked & after.offered
    assert after.handed_over().held == granted


def test_a_membership_ends_a_timeout_after_its_heartbeat_was_sent() -> None:
    member = Membership().accepted({1}, sent_s=100.0, timeout_s=6)
    assert member.alive(105.9)
    assert not member.alive(106.0)


def test_nothing_was_sent_means_not_alive() -> None:
    assert not Membership().alive(0.0)
    assert not Membership().alive(-1e9)


def test_an_answer_that_was_overtaken_does_not_shorten_the_time() -> None:
    member = Membership().accepted({1}, sent_s=100.0, timeout_s=6).accepted({1}, sent_s=98.0, timeout_s=6)
    assert member.until_s == 106.0


def test_a_shard_asked_back_and_granted_again_stays() -> None:
    member = Membership(held=frozenset({1, 2}))
    member = member.accepted({1}, sent_s=0, timeout_s=10)
    assert member.asked == {2}
    member = member.accepted({1, 2}, sent_s=1, timeout_s=10)
    assert member.asked == frozenset() and member.handed_over().held == {1, 2}


def test_two_heartbeats_may_be_lost_whatever_the_groups_timeout() -> None:
    assert renew_every_s(5.0, 60) == 5.0
    assert renew_every_s(5.0, 6) == 2.0
