"""The ledger of shards whose start the service told: its text, and a start that was wrong."""

from dataclasses import replace

from pipelines.landing.ledger.codec import decode, encode
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.values import Delta, Landed
from sls_io.planning.values import LedgerChange
from sls_io.values.claim import GAP_EXPIRED, Gap, Ledger, ShardLedger
from sls_io.values.window import Cursor, IntervalSet, Window

ORIGIN = "access_logs-0a1b2c3d"


def landed(shard: int, begin: int, end: int) -> Landed:
    """A written window of hour 0 with one row."""
    return Landed(Window(shard, Cursor(begin), Cursor(end), 0), 1, 1)


def entry(start: int, *pairs: tuple[int, int], end: int | None = None) -> ShardLedger:
    """A ledger entry with these intervals landed."""
    closed = Cursor(end) if end is not None else None
    return ShardLedger(Cursor(start), IntervalSet.of(pairs), end=closed, rows=len(pairs))


def ledger(**shards: ShardLedger) -> Ledger:
    """`ledger(s0=..., s1=...)`."""
    return Ledger(ORIGIN, {int(name[1:]): value for name, value in shards.items()})


def test_a_start_that_the_service_told_is_marked_by_a_sign_that_older_releases_read_over() -> None:
    text = "1;2;0:+rs:-s0::::0:0:0;1:rs:-s0::::0:0:0"
    chosen = ShardLedger(Cursor(1000), IntervalSet.of([(1000, 1008)]))
    expected = ledger(s0=replace(chosen, told=True), s1=chosen)
    assert decode(ORIGIN, text) == expected
    assert encode(expected) == text
    assert int("+rs", 36) == 1000, "what a release without the sign makes of the field"


def test_a_start_is_told_unless_a_policy_chose_it() -> None:
    delta = Delta(
        ORIGIN, True, change=LedgerChange(starts={0: Cursor(9), 1: Cursor(4)}, chosen=frozenset({1}))
    )
    merged = merge(ledger(), delta).ledger
    assert {s: e.told for s, e in merged.shards.items()} == {0: True, 1: False}


def test_a_shard_begins_anew_only_while_nothing_has_landed_from_the_start_that_was_seen() -> None:
    wrong = replace(entry(9), reached_s=77, told=True, gaps=(Gap(Cursor(0), Cursor(9), GAP_EXPIRED),))
    delta = Delta(ORIGIN, True, (landed(0, 4, 6),), change=LedgerChange(anew={0: (Cursor(9), Cursor(4))}))
    merged = merge(ledger(s0=wrong), delta)
    assert merged.ledger.shards[0] == ShardLedger(
        Cursor(4),
        IntervalSet.of([(4, 6)]),
        (Gap(Cursor(0), Cursor(4), GAP_EXPIRED),),
        rows=1,
        sum=1,
        told=True,
    )
    for meanwhile in (entry(9, (9, 12)), entry(8), entry(9, end=9)):
        raced = merge(ledger(s0=meanwhile), delta)
        assert (raced.ledger, len(raced.lost)) == (ledger(s0=meanwhile), 1)
