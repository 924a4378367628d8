"""Shards held in a `with` block, by a consumer group and by any coordinator, over a real emulator."""

import threading
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from sls_io import CheckpointOutside, Claim, ClaimLost, ConfigError, Cursor, Group, Static
from sls_io.coordination.coordinator import Published
from sls_io.emulator import Emulator
from sls_io.values.errors import TransportError
from tests.contract.opened import HOUR0_S, LOGSTORE, PROJECT, Place, opened
from tests.worlds.held_rows import group, numbers

pytestmark = pytest.mark.sls_emulator(now=HOUR0_S + 60)
WAIT_S = 60.0


def slow(holder: str = "worker-1", **changes: object) -> Group:
    """No heartbeat beside the work while a test runs."""
    return group(holder, timeout_s=3600, heartbeat_s=1000, **changes)


def drain(place: Place, by: Group) -> dict[int, list[int]]:
    """What one block reads of each shard, checkpoints after the work."""
    read: dict[int, list[int]] = {}
    with place.logs.hold(by) as held:
        for shard in sorted(held.shards):
            read[shard] = []
            for rows in held.rows(shard):
                read[shard] += numbers(rows)
                if rows.next is not None:
                    held.checkpoint(shard, rows.next)
    return read


def test_the_next_block_goes_on_where_checkpoints_were_left(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1, 2)
        place.put(3, shard=1)
        assert drain(place, slow()) == {0: [1, 2], 1: [3]}
        place.put(4)
        assert drain(place, slow()) == {0: [4], 1: []}
        ends = {s.id: s.end for s in place.logs.shards()}
        assert {s: p.cursor for s, p in place.logs.client.checkpoints("readers").items()} == ends


def test_work_without_a_checkpoint_is_given_again(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1, 2)
        with pytest.raises(RuntimeError, match="the work failed"), place.logs.hold(slow()) as held:
            assert [n for rows in held.rows(0) for n in numbers(rows)] == [1, 2]
            raise RuntimeError("the work failed")
        assert drain(place, slow())[0] == [1, 2]


def test_a_first_read_begins_where_it_is_told(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        emulator.admin.advance(3600)
        place.put(2)
        with place.logs.hold(slow()) as held:
            assert [n for rows in held.rows(0) for n in numbers(rows)] == [1, 2]
            assert [n for rows in held.rows(0, first=HOUR0_S + 3600) for n in numbers(rows)] == [2]
            assert list(held.rows(0, first="end")) == []


def test_the_claim_is_renewed_beside_the_work_for_longer_than_its_time(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        with place.logs.hold(group()) as held:
            for _ in range(3):
                # Each step is less than the group's timeout, all together are more: heartbeats must come.
                emulator.admin.advance(20)
                beats = emulator.admin.fault("observe", call="heartbeat", times=None)
                emulator.admin.wait(beats, hits=2, timeout_s=WAIT_S)
                emulator.admin.remove(beats)
            held.check()
            assert held.checkpoint(0, place.logs.client.cursor_at(0, "end")) == "sent"


def test_a_claim_that_is_lost_is_told_at_once_and_stops_everything(emulator: Emulator) -> None:
    emulator.admin.limits(page_bytes_max=1)  # a group a page
    with opened(emulator) as place:
        place.put(1)
        place.put(2)
        told, lost = list[str](), threading.Event()

        def hear(why: str) -> None:
            told.append(why)
            lost.set()

        with (
            pytest.raises(ClaimLost, match="dropped 'worker-1'"),
            place.logs.hold(group(), lost=hear) as held,
        ):
            reading = held.rows(0)
            assert numbers(next(reading)) == [1]
            emulator.admin.forget_members(PROJECT, LOGSTORE)
            emulator.admin.advance(60)
            assert lost.wait(WAIT_S)
            assert not held.valid
            for refused in (
                held.check,
                lambda: held.checkpoint(0, Cursor(1)),
                lambda: next(reading),
                lambda: next(held.rows(0)),
            ):
                with pytest.raises(ClaimLost, match="dropped 'worker-1'"):
                    refused()
        assert len(told) == 1 and "dropped 'worker-1'" in told[0]
        assert place.logs.client.checkpoints("readers")[0].cursor is None


def test_a_lost_claim_does_not_hide_what_the_work_raised(emulator: Emulator) -> None:
    with opened(emulator) as place:
        lost = threading.Event()
        with (
            pytest.raises(RuntimeError, match="the work failed"),
            place.logs.hold(group(), lost=lambda why: lost.set()),
        ):
            emulator.admin.forget_members(PROJECT, LOGSTORE)
            emulator.admin.advance(60)
            assert lost.wait(WAIT_S)
            raise RuntimeError("the work failed")


def test_two_holders_share_the_shards_and_each_may_move_its_own_only(emulator: Emulator) -> None:
    with opened(emulator) as place:
        with place.logs.hold(slow("a")) as first:
            assert first.shards == {0, 1}
            with pytest.raises(ClaimLost), place.logs.hold(slow("b", patience_s=0)) as second:
                pytest.fail(f"{second.holder} has {second.shards} as well")
        # What b waits for went over when a left.
        with place.logs.hold(slow("b", patience_s=0)) as second:
            (hers,) = second.shards
            with pytest.raises(ClaimLost, match="is not held by 'b'"):
                second.checkpoint(1 - hers, Cursor(1))
            with pytest.raises(ClaimLost, match="is not held by 'b'"):
                next(second.rows(1 - hers))


def test_a_shard_drained_before_its_split_lets_its_children_go(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        assert drain(place, slow())[0] == [1]
        emulator.admin.split(PROJECT, LOGSTORE, 0)
        place.put(2)
        read = [drain(place, slow()) for _ in range(2)]
        assert [n for block in read for part in block.values() for n in part] == [2]


def test_shards_named_by_the_caller_are_held_without_a_group(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        with place.logs.hold(Static([0])) as held:
            assert held.shards == {0} and held.holder == "static"
            assert [numbers(rows) for rows in held.rows(0)] == [[1]]
            assert [numbers(rows) for rows in held.rows(0)] == [[1]]
            with pytest.raises(ConfigError, match="never moves a checkpoint"):
                held.checkpoint(0, place.logs.client.cursor_at(0, "end"))
        assert place.logs.client.groups() == []


def test_a_checkpoint_that_cannot_be_meant_is_refused_and_nothing_is_sent(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        place.put(2)
        client = place.logs.client
        begin, end = client.cursor_at(0, "begin"), client.cursor_at(0, "end")
        with place.logs.hold(slow()) as held:
            for wrong in (Cursor(begin - 1), Cursor(end + 1), Cursor(2**62)):
                with pytest.raises(CheckpointOutside, match=f"what the service has, {begin} to {end}"):
                    held.checkpoint(0, wrong)
            with pytest.raises(ConfigError, match="while that is None, more rows of the page follow"):
                held.checkpoint(0, None)  # type: ignore[arg-type]
            assert client.checkpoints("readers")[0].cursor is None
            of_a_frame: Any = np.int64(end)
            assert held.checkpoint(0, of_a_frame) == held.checkpoint(0, end) == "sent"
            assert len(place.logs.peek(cast(Any, np.int64(0)))) == 2
            with pytest.raises(ConfigError, match="only goes forward"):
                held.checkpoint(0, begin)
            place.put(3)
            assert held.checkpoint(0, client.cursor_at(0, "end")) == "sent", "the end moved since"
        assert client.checkpoints("readers")[0].cursor == client.cursor_at(0, "end")


@pytest.mark.parametrize("wrong", [None, 7, {"name": "readers"}])
def test_what_holds_nothing_is_named(emulator: Emulator, wrong: object) -> None:
    with opened(emulator) as place, pytest.raises(ConfigError, match=f"not a {type(wrong).__name__}"):
        place.logs.hold(wrong)  # type: ignore[arg-type]


class Notebook:
    """A coordinator of somebody's own: one shard, positions in memory, and what was called."""

    holder, renew_every_s = "notebook", 3600.0

    def __init__(self) -> None:
        self.kept: dict[int, Cursor | None] = {1: None}
        self.called: list[str] = []

    def claim(self) -> Claim:
        self.called.append("claim")
        return Claim(self.holder, frozenset(self.kept))

    def renew(self) -> Claim:
        return Claim(self.holder, frozenset(self.kept))

    def checkpoints(self) -> Mapping[int, Cursor | None]:
        self.called.append("checkpoints")
        return dict(self.kept)

    def checkpoint(self, shard: int, cursor: Cursor) -> Published:
        self.called.append("checkpoint")
        self.kept[shard] = cursor
        return "sent"

    def release(self) -> None:
        self.called.append("release")


def test_any_coordinator_holds_shards_and_keeps_positions(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1, shard=1)
        mine = Notebook()
        with place.logs.hold(mine) as held:
            for rows in held.rows(1):
                assert numbers(rows) == [1] and rows.next is not None
                held.checkpoint(1, rows.next)
            # The same again: only then does the service call a shard over that was drained before its split.
            assert list(held.rows(1)) == []
        assert mine.kept == {1: place.logs.client.cursor_at(1, "end")}
        assert mine.called == ["claim", "checkpoints", "checkpoint", "checkpoint", "release"]


def test_nothing_is_held_before_the_block_and_a_refused_claim_leaves_nothing_behind(
    emulator: Emulator,
) -> None:
    with opened(emulator) as place:
        held = place.logs.hold("readers")
        assert not held.valid
        with pytest.raises(ClaimLost, match="open the `with` block"):
            _ = held.shards
        emulator.kill()
        threads = threading.active_count()
        with pytest.raises(TransportError), place.logs.hold(group(patience_s=0)):
            pytest.fail("nobody was there to ask")
        assert threading.active_count() == threads
