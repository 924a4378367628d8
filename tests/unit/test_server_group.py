"""What a server group says in its heartbeats, word by word, to a scripted service."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sls_io.coordination.server_group import ServerGroup
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost
from sls_io.values.settings import Group
from sls_io.wire.client import SlsClient
from tests.unit.scripted_service import Reply, Script, error, talking


def says(value: object) -> Reply:
    return Reply(body=json.dumps(value).encode())


LISTED = says([{"name": "g", "timeout": 30, "order": True}])


@contextmanager
def group(*replies: Reply) -> Iterator[tuple[ServerGroup, Script, ManualClock]]:
    clock = ManualClock()
    with talking(*replies, clock=clock, tries_max=1) as (transport, server):
        client = SlsClient(transport.service, clock=clock, transport=transport)
        yield ServerGroup(client, Group(name="g", timeout_s=30), clock), server, clock


def beats(server: Script) -> list[list[int]]:
    """The bodies of the heartbeats seen."""
    return [json.loads(seen.body) for seen in server.seen if "type=heartbeat" in seen.path]


def test_what_is_granted_is_listed_from_the_next_heartbeat_on() -> None:
    with group(LISTED, says([0, 1])) as (held, server, _):
        assert held.claim().shards == {0, 1}
        held.renew()
        held.release()
    assert beats(server) == [[], [0, 1], [0, 1], []]


def test_a_shard_asked_back_is_held_and_listed_until_the_next_claim() -> None:
    answers = [LISTED, says([0, 1]), says([0, 1]), says([0]), says([0]), LISTED, says([0])]
    with group(*answers) as (held, server, _):
        held.claim()
        held.renew()
        assert held.renew().shards == {0, 1}
        assert held.claim().shards == {0}
    assert beats(server) == [[], [0, 1], [0, 1], [0, 1], [0], [0]]


def test_a_shard_granted_during_the_work_waits_for_the_next_claim() -> None:
    answers = [LISTED, says([0]), says([0]), says([0, 2]), LISTED, says([0, 2])]
    with group(*answers) as (held, server, _):
        held.claim()
        assert held.renew().shards == {0}
        assert held.claim().shards == {0, 2}
    assert beats(server) == [[], [0], [0], [0, 2], [0, 2]]


def test_after_its_own_time_is_over_a_holder_joins_with_nothing() -> None:
    with group(LISTED, says([0]), says([0]), LISTED, says([0])) as (held, server, clock):
        held.claim()
        clock.advance(30)
        assert held.claim().shards == {0}
    assert beats(server) == [[], [0], [], [0]]


def test_a_claim_that_was_lost_is_not_renewed_any_more() -> None:
    dropped = error(400, "NotExistConsumerWithBody")
    with group(LISTED, says([0]), says([0]), dropped) as (held, server, _):
        held.claim()
        for _ in range(3):
            with pytest.raises(ClaimLost):
                held.renew()
    assert beats(server) == [[], [0], [0]]


def test_a_lost_claim_sends_no_last_heartbeat_since_that_would_join_again() -> None:
    with group(LISTED, says([0])) as (held, server, clock):
        held.claim()
        clock.advance(31)
        held.release()
    assert beats(server) == [[], [0]]


def test_a_service_that_refuses_even_an_empty_join_ends_the_claim() -> None:
    with group(LISTED, error(400, "NotExistConsumerWithBody")) as (held, server, _):
        with pytest.raises(ClaimLost):
            held.claim()
        assert beats(server) == [[]]


def test_grants_that_keep_changing_are_waited_for_until_patience_ends() -> None:
    growing = [says(list(range(n))) for n in range(1, 9)]
    with group(LISTED, *growing) as (held, _, clock):
        begun = clock.monotonic()
        claim = held.claim()
        assert 0 < clock.monotonic() - begun <= 20.0
    assert len(claim.shards) >= 4
