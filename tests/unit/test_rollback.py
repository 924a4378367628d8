"""The ledger of a table that is rolled back, as values."""

from dataclasses import replace

from pipelines.landing.ledger.fence import lowered
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.window import Cursor, IntervalSet


def shard(start: int, end: int, *, closed: bool = False) -> ShardLedger:
    """[start, end) landed with one row a cursor."""
    landed = IntervalSet.of([(start, end)])
    return ShardLedger(Cursor(start), landed, end=Cursor(end) if closed else None, rows=end - start, sum=7)


def test_what_was_known_then_is_taken_as_it_was() -> None:
    then = {"a": Ledger("a", {0: shard(5, 9)})}
    now = {"a": Ledger("a", {0: shard(5, 20, closed=True)})}
    assert lowered(then, now) == then


def test_a_shard_that_appeared_since_keeps_its_start_and_nothing_more() -> None:
    then = {"a": Ledger("a", {0: shard(5, 9)})}
    now = {"a": Ledger("a", {0: shard(5, 20), 1: shard(100, 120, closed=True)})}
    assert lowered(then, now)["a"].shards == {0: shard(5, 9), 1: ShardLedger(Cursor(100))}


def test_a_start_that_the_service_told_stays_one() -> None:
    told = replace(shard(100, 120), told=True)
    assert lowered({}, {"a": Ledger("a", {1: told})})["a"].shards == {1: ShardLedger(Cursor(100), told=True)}


def test_a_logstore_that_began_since_is_as_it_began() -> None:
    now = {"b": Ledger("b", {3: shard(1, 4)})}
    result = lowered({}, now)
    assert result == {"b": Ledger("b", {3: ShardLedger(Cursor(1))})}
    assert result["b"].started, "the reset policy is not asked a second time"


def test_going_back_to_where_one_is_changes_nothing() -> None:
    now = {"a": Ledger("a", {0: shard(5, 9)}), "b": Ledger("b", {1: shard(2, 3)})}
    assert lowered(now, now) == now


def test_an_unreadable_present_does_not_hide_the_past() -> None:
    then = {"a": Ledger("a", {0: shard(5, 9)})}
    assert lowered(then, {}) == then


def test_what_was_suspected_then_is_told_anew_if_it_is_true() -> None:
    """It may have been denied between then and now."""
    then = {"a": Ledger("a", {0: ShardLedger(Cursor(5), suspect_s=1000)})}
    assert lowered(then, then)["a"].shards == {0: ShardLedger(Cursor(5))}
