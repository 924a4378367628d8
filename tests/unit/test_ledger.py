"""The ledger's text and the fence of a landing, as values."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.landing.ledger.codec import (
    decode,
    decode_adopted,
    decode_forgotten,
    decode_windows,
    encode,
    encode_adopted,
    encode_forgotten,
    encode_windows,
)
from pipelines.landing.ledger.fence import merge, withdrawn
from pipelines.landing.ledger.values import Adopted, Delta, Forgotten, Gone, Landed
from pipelines.landing.table.commands import ADOPT
from sls_io.planning.values import Edge, LedgerChange, Suspicion
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_EXPIRED, GAP_SHARD_GONE, Gap, Ledger, ShardLedger
from sls_io.values.errors import Breach, LedgerBroken
from sls_io.values.window import Cursor, IntervalSet, Window

ORIGIN = "access_logs-0a1b2c3d"
CURSORS = st.integers(0, 2**63 - 1)
SMALL = st.integers(0, 24)
quick = settings(max_examples=200, deadline=None, database=None)


def interval_sets(points: st.SearchStrategy[int]) -> st.SearchStrategy[IntervalSet]:
    """Sets of at most four intervals."""
    return st.lists(st.tuples(points, points), max_size=4).map(IntervalSet.of)


@st.composite
def entries(draw: st.DrawFn, points: st.SearchStrategy[int] = CURSORS) -> ShardLedger:
    """A shard's ledger with disjoint landed, gaps and withdrawn."""
    landed = draw(interval_sets(points))
    gaps = draw(interval_sets(points)).minus(landed)
    withdrawn = draw(interval_sets(points)).minus(landed).minus(gaps)
    causes = st.sampled_from((GAP_EXPIRED, GAP_SHARD_GONE))
    return ShardLedger(
        start=Cursor(draw(points)),
        landed=landed,
        gaps=tuple(Gap(Cursor(b), Cursor(e), draw(causes)) for b, e in gaps),
        withdrawn=withdrawn,
        end=draw(st.none() | points.map(Cursor)),
        reached_s=draw(st.integers(0, 2**34)),
        rows=draw(st.integers(0, 2**50)),
        sum=draw(st.integers(0, 2**64 - 1)),
        suspect_s=draw(st.sampled_from((0, 0, 1, 1_790_000_000))),
        told=draw(st.booleans()),
    )


def landed(shard: int, begin: int, end: int, *, rows: int = 1, total: int = 1) -> Landed:
    """A written window of hour 0."""
    return Landed(Window(shard, Cursor(begin), Cursor(end), 0), rows, total)


def entry(start: int, *pairs: tuple[int, int], end: int | None = None) -> ShardLedger:
    """A ledger entry with these intervals landed."""
    return ShardLedger(
        Cursor(start), IntervalSet.of(pairs), end=Cursor(end) if end is not None else None, rows=len(pairs)
    )


def ledger(**shards: ShardLedger) -> Ledger:
    """`ledger(s0=..., s1=...)`."""
    return Ledger(ORIGIN, {int(name[1:]): value for name, value in shards.items()})


def changing(**parts: Any) -> Delta:
    """A live landing without windows: what of the ledger it changes."""
    return Delta(ORIGIN, True, change=LedgerChange(**parts))


def live(*windows: Landed, lineage: dict[int, frozenset[int]] | None = None) -> Delta:
    """A live landing of these windows."""
    return Delta(ORIGIN, True, windows, change=LedgerChange(lineage=lineage or {}))


def fill(*windows: Landed) -> Delta:
    """A backfill of these windows."""
    return Delta(ORIGIN, False, windows)


# --- text ----------------------------------------------------------------------------------------


@quick
@given(st.dictionaries(st.integers(0, 5000), entries(), max_size=4))
def test_a_ledger_survives_its_text(shards: dict[int, ShardLedger]) -> None:
    kept = Ledger(ORIGIN, shards)
    assert decode(ORIGIN, encode(kept)) == kept


def test_the_text_of_version_1_is_read_for_ever() -> None:
    text = (
        "1;3;0:rs:-s0,s1-s5:s0-s1X:1-2:s5:qn60d4:2s:1e;"
        "1:0::::0:0:0:0;"
        "2:7:-8:8-1y2p0ij32e8e7G::1y2p0ij32e8e7:1:1:2"
    )
    expected = ledger(
        s0=ShardLedger(
            start=Cursor(1000),
            landed=IntervalSet.of([(1000, 1008), (1009, 1013)]),
            gaps=(Gap(Cursor(1008), Cursor(1009), GAP_EXPIRED),),
            withdrawn=IntervalSet.of([(1, 2)]),
            end=Cursor(1013),
            reached_s=int("qn60d4", 36),
            rows=100,
            sum=50,
        ),
        s1=ShardLedger(start=Cursor(0), end=Cursor(0)),
        s2=ShardLedger(
            start=Cursor(7),
            landed=IntervalSet.of([(7, 8)]),
            gaps=(Gap(Cursor(8), CURSOR_UNKNOWN, GAP_SHARD_GONE),),
            end=CURSOR_UNKNOWN,
            reached_s=1,
            rows=1,
            sum=2,
        ),
    )
    assert decode(ORIGIN, text) == expected
    assert encode(expected) == text


def test_the_text_of_version_2_has_since_when_a_shard_is_suspected() -> None:
    text = "2;2;0:rs:-s0::::0:0:0:tlpz5s;1:0::::0:0:0:0:"
    expected = ledger(
        s0=ShardLedger(Cursor(1000), IntervalSet.of([(1000, 1008)]), suspect_s=int("tlpz5s", 36)),
        s1=ShardLedger(start=Cursor(0), end=Cursor(0)),
    )
    assert decode(ORIGIN, text) == expected
    assert encode(expected) == text


def test_256_shards_take_about_13_kilobytes() -> None:
    shard = ShardLedger(
        start=Cursor(1_700_000_000_000_000),
        landed=IntervalSet.of([(1_700_000_000_000_000, 1_800_000_000_000_000)]),
        reached_s=1_800_000_000,
        rows=10**9,
        sum=2**63,
    )
    assert len(encode(Ledger(ORIGIN, dict.fromkeys(range(256), shard)))) < 16_000


@pytest.mark.parametrize(
    "text",
    [
        "1;0:1::::0:0:0:0",
        "1;2;0:1:::::0:0:0",
        "1;1;0",
        "1;1;0:1:2",
        "1;1;0:1::::::",
        "1;1;0:1:-!:::::0:0",
        "1;1;0:1:5::::0:0:0",
        "1;1;0:1::-5::0:0:0:0",
        "1;1;0:1::-5Z::0:0:0:0",
        "1;1;x y:1::::0:0:0:0",
        "",
        "one",
    ],
)
def test_a_damaged_ledger_stops_with_the_verb(text: str) -> None:
    with pytest.raises(LedgerBroken, match="damaged") as caught:
        decode(ORIGIN, text)
    assert (caught.value.cures, caught.value.kind) == ((ADOPT,), Breach.DAMAGED)


@pytest.mark.parametrize("text", ["3;0:1::::0:0:0:0", "0"])
def test_a_ledger_of_another_version_is_never_read_as_empty(text: str) -> None:
    with pytest.raises(LedgerBroken, match="version"):
        decode(ORIGIN, text)


@quick
@given(
    st.lists(
        st.builds(
            lambda s, b, n, h, rows, size, flags: Landed(
                Window(s, Cursor(b), Cursor(b + n), h), rows, 0, size, flags
            ),
            st.integers(0, 999),
            st.integers(0, 2**62),
            st.integers(1, 2**40),
            st.integers(0, 10**6),
            st.integers(0, 10**9),
            st.integers(0, 10**12),
            st.sampled_from(("", "labels=forward")),
        ),
        max_size=5,
    )
)
def test_the_windows_of_a_landing_survive_their_text(windows: list[Landed]) -> None:
    assert decode_windows(encode_windows(ORIGIN, windows)) == (ORIGIN, tuple(windows))


@pytest.mark.parametrize("text", ["1;o;0:1:2", "1;o;0:2:1:3:4:5:", "1;o;!", "1;o;0:1:2:3:4:5::"])
def test_damaged_windows_stop_with_the_verb(text: str) -> None:
    with pytest.raises(LedgerBroken, match="damaged") as caught:
        decode_windows(text)
    assert (caught.value.cures, caught.value.kind) == ((ADOPT,), Breach.DAMAGED)


@pytest.mark.parametrize("text", ["", "anything", "9;o;0:1:2:3:4:5:"])
def test_a_summary_without_our_windows_is_no_landing_of_ours(text: str) -> None:
    assert decode_windows(text) == ("", ())


@quick
@given(
    st.dictionaries(
        st.tuples(st.sampled_from((ORIGIN, "b-1", "c.d-2")), st.integers(0, 999)),
        st.tuples(st.integers(1, 2**50), st.integers(0, 2**64 - 1)),
        max_size=4,
    ),
    st.integers(0, 2**40),
    st.dictionaries(
        st.tuples(st.sampled_from((ORIGIN, "b-1")), st.integers(0, 999)), st.integers(1, 2**40), max_size=3
    ),
)
def test_adopted_rows_survive_their_text(
    shards: dict[tuple[str, int], tuple[int, int]], others: int, missing: dict[tuple[str, int], int]
) -> None:
    adopted = Adopted(shards, others, missing)
    assert decode_adopted(encode_adopted(adopted)) == adopted
    assert adopted.rows == others + sum(rows for rows, _ in shards.values())


def test_the_adopted_text_of_version_1_is_read_for_ever() -> None:
    text = f"1;b;{ORIGIN}:0:2s:1e;{ORIGIN}:1:1:0"
    expected = Adopted({(ORIGIN, 0): (100, 50), (ORIGIN, 1): (1, 0)}, others=11)
    assert decode_adopted(text) == expected
    assert encode_adopted(expected) == text
    assert expected.of(ORIGIN, 0) == (100, 50) and expected.of(ORIGIN, 7) == (0, 0)


def test_the_adopted_text_of_version_2_says_how_many_rows_were_missing() -> None:
    text = f"2;0;{ORIGIN}:0:2s:1e:5;{ORIGIN}:1:0:0:1;{ORIGIN}:2:1:1:0"
    shards = {(ORIGIN, 0): (100, 50), (ORIGIN, 2): (1, 1)}
    expected = Adopted(shards, missing={(ORIGIN, 0): 5, (ORIGIN, 1): 1})
    assert decode_adopted(text) == expected
    assert encode_adopted(expected) == text
    assert expected.rows == 101, "what is missing is not there"


def test_no_adopted_rows_take_no_text() -> None:
    assert encode_adopted(Adopted()) == ""
    assert decode_adopted("") == Adopted()


@pytest.mark.parametrize("text", ["1;", "1;x y", "1;1;a:1:2", "1;1;a:1:2:!", "2;1;a:1:2:3", "2;1;a:1:2:3:!"])
def test_damaged_adopted_rows_stop_with_the_verb(text: str) -> None:
    with pytest.raises(LedgerBroken, match="damaged") as caught:
        decode_adopted(text)
    assert (caught.value.cures, caught.value.kind) == ((ADOPT,), Breach.DAMAGED)


def test_adopted_rows_of_another_version_are_never_read_as_none() -> None:
    with pytest.raises(LedgerBroken, match="version"):
        decode_adopted("3;5")


@quick
@given(
    st.dictionaries(
        st.tuples(st.sampled_from([ORIGIN, "b-1"]), st.integers(0, 999)),
        st.builds(Gone, st.integers(1, 10**9), st.integers(0, 2**64 - 1), interval_sets(SMALL)),
        max_size=4,
    )
)
def test_forgotten_rows_survive_their_text(shards: dict[tuple[str, int], Gone]) -> None:
    assert decode_forgotten(encode_forgotten(Forgotten(shards))) == Forgotten(shards)


def test_the_forgotten_text_of_version_1_is_read_for_ever() -> None:
    text = f"1;{ORIGIN}:0:a:1z:amw0-amw2,amw5-amw6;{ORIGIN}:2:1:0:"
    hours = IntervalSet.of([(int("amw0", 36), int("amw2", 36)), (int("amw5", 36), int("amw6", 36))])
    expected = Forgotten({(ORIGIN, 0): Gone(10, 71, hours), (ORIGIN, 2): Gone(1, 0, IntervalSet())})
    assert decode_forgotten(text) == expected
    assert encode_forgotten(expected) == text
    assert (encode_forgotten(Forgotten()), decode_forgotten("")) == ("", Forgotten())


def test_hours_before_one_are_told_apart_from_those_beside_it_and_older_releases_read_the_same() -> None:
    decided = Forgotten().plus(ORIGIN, 1, Gone(3, 4, IntervalSet.of([(8, 9), (11, 12)])))
    decided = decided.all_before(ORIGIN, (0, 1), 8)
    text = encode_forgotten(decided)
    assert text == f"1;{ORIGIN}:0:0:0:-8;{ORIGIN}:1:3:4:-8,8-9,b-c"
    assert decode_forgotten(text) == decided
    assert (decided.before(ORIGIN), decided.before("b-1")) == (8, 0)
    assert decided.hours(ORIGIN).pairs == ((0, 9), (11, 12))
    assert decided.of(ORIGIN, 1).rows == 3
    assert decided.all_before(ORIGIN, (0,), 5).before(ORIGIN) == 8


@pytest.mark.parametrize("text", ["1;a:0:1", "1;a:0:1:2:3", "1;a:0:-:2:", "1;a:0:1:2:1-!"])
def test_damaged_forgotten_rows_stop_with_the_verb(text: str) -> None:
    with pytest.raises(LedgerBroken, match="damaged"):
        decode_forgotten(text)


def test_forgotten_rows_of_another_version_are_never_read_as_none() -> None:
    with pytest.raises(LedgerBroken, match="version"):
        decode_forgotten("3;a:0:1:2:")


def test_forgotten_rows_add_up_over_decisions() -> None:
    once = Forgotten().plus(ORIGIN, 0, Gone(2, 2**64 - 1, IntervalSet.of([(5, 6)])))
    twice = once.plus(ORIGIN, 0, Gone(3, 2, IntervalSet.of([(6, 9)]))).plus(
        "b-1", 1, Gone(1, 1, IntervalSet())
    )
    assert twice.of(ORIGIN, 0) == Gone(5, 1, IntervalSet.of([(5, 9)]))
    assert (twice.hours(ORIGIN).pairs, twice.hours("b-1").pairs) == (((5, 9),), ())


# --- the fence -----------------------------------------------------------------------------------


def test_a_window_at_the_frontier_lands_and_counts() -> None:
    merged = merge(
        ledger(s0=ShardLedger(Cursor(5), rows=2, sum=2**64 - 1)), live(landed(0, 5, 9, rows=3, total=4))
    )
    done = merged.ledger.shards[0]
    assert (done.frontier, done.rows, done.sum) == (9, 5, 3)
    assert not merged.lost


@pytest.mark.parametrize(("begin", "end"), [(4, 6), (6, 7), (0, 5), (3, 4), (9, 10)])
def test_a_live_window_that_is_not_at_the_frontier_is_lost(begin: int, end: int) -> None:
    merged = merge(ledger(s0=entry(0, (0, 5))), live(landed(0, begin, end)))
    assert [x.window.begin for x in merged.lost] == [begin]
    assert merged.ledger == ledger(s0=entry(0, (0, 5)))


def test_a_lost_window_takes_the_later_ones_of_its_shard_and_no_others() -> None:
    base = ledger(s0=entry(0, (0, 5)), s1=entry(0))
    merged = merge(base, live(landed(0, 0, 6), landed(0, 6, 9), landed(1, 0, 3), landed(1, 3, 4)))
    assert [(x.window.shard, x.window.begin) for x in merged.accepted] == [(1, 0), (1, 3)]
    assert [(x.window.shard, x.window.begin) for x in merged.lost] == [(0, 0), (0, 6)]


def test_windows_of_one_landing_follow_each_other_whatever_their_order() -> None:
    merged = merge(ledger(s0=entry(0)), live(landed(0, 6, 9), landed(0, 0, 3), landed(0, 3, 6)))
    assert merged.ledger.shards[0].frontier == 9


@pytest.mark.parametrize(
    ("parent", "accepted"),
    [(entry(0, (0, 5), end=5), True), (entry(0, (0, 5)), False), (None, False)],
    ids=["closed", "open", "unknown"],
)
@pytest.mark.fault("4b.reshape.commit")
def test_a_child_lands_only_on_a_table_that_has_closed_its_parent(
    parent: ShardLedger | None, accepted: bool
) -> None:
    shards = {1: entry(0)} | ({0: parent} if parent else {})
    delta = live(landed(1, 0, 3), lineage={1: frozenset({0})})
    assert bool(merge(Ledger(ORIGIN, shards), delta).accepted) is accepted


def test_closing_a_parent_does_not_let_its_child_into_the_same_landing() -> None:
    delta = Delta(
        ORIGIN,
        True,
        (landed(0, 0, 5), landed(1, 0, 3)),
        change=LedgerChange(closings={0: Cursor(5)}, lineage={1: frozenset({0})}),
    )
    merged = merge(ledger(s0=entry(0), s1=entry(0)), delta)
    assert merged.ledger.shards[0].closed
    assert [x.window.shard for x in merged.lost] == [1]


@pytest.mark.fault("4b.backfill.after")
def test_a_backfill_lands_beyond_the_frontier_and_live_jumps_over_it() -> None:
    filled = merge(ledger(s0=entry(0)), fill(landed(0, 5, 9))).ledger
    assert filled.shards[0].frontier == 0
    assert merge(filled, live(landed(0, 0, 5))).ledger.shards[0].frontier == 9


@pytest.mark.parametrize("delta", [fill(landed(0, 4, 8)), live(landed(0, 0, 6))], ids=["fill", "live"])
@pytest.mark.fault("4b.backfill.commit")
def test_no_window_overlaps_what_has_landed(delta: Delta) -> None:
    assert merge(ledger(s0=entry(0, (5, 7))), delta).lost


def test_no_live_window_overlaps_a_gap() -> None:
    gap = ShardLedger(Cursor(0), gaps=(Gap(Cursor(5), Cursor(7), GAP_EXPIRED),))
    assert merge(ledger(s0=gap), live(landed(0, 0, 6))).lost


@quick
@given(interval_sets(SMALL), SMALL, SMALL)
def test_a_fill_lands_what_was_a_gap_and_the_gap_shrinks_by_it(
    gaps: IntervalSet, begin: int, end: int
) -> None:
    """The frontier stays where it is: a gap is accounted before and landed after."""
    begin, end = min(begin, end), max(begin, end) + 1
    base = ShardLedger(Cursor(0), gaps=tuple(Gap(Cursor(b), Cursor(e), GAP_EXPIRED) for b, e in gaps))
    window = landed(0, begin, end)
    merged = merge(ledger(s0=base), fill(window))
    done = merged.ledger.shards[0]
    assert merged.accepted == (window,)
    assert IntervalSet.of((g.begin, g.end) for g in done.gaps) == gaps.minus(IntervalSet.of([(begin, end)]))
    assert done.accounted == base.accounted.union([(begin, end)])
    assert done.frontier >= base.frontier


def test_of_two_fills_of_one_gap_the_second_is_refused() -> None:
    base = ledger(s0=ShardLedger(Cursor(0), gaps=(Gap(Cursor(0), Cursor(9), GAP_EXPIRED),)))
    once = merge(base, fill(landed(0, 2, 6))).ledger
    assert merge(once, fill(landed(0, 4, 8))).lost


# --- suspicion, and taking back --------------------------------------------------------------------

GONE_GAP = Gap(Cursor(5), CURSOR_UNKNOWN, GAP_SHARD_GONE)


def write_off(*, seen_s: int) -> Delta:
    """The landing of a run that believes what was suspected since `seen_s`: shard 0 is gone behind 5."""
    return changing(
        gaps={0: (GONE_GAP,)}, closings={0: CURSOR_UNKNOWN}, suspicions={0: Suspicion(Cursor(5), seen_s, 0)}
    )


def test_a_suspicion_gives_nothing_up_and_is_kept_until_it_is_taken_back() -> None:
    base = ledger(s0=entry(0, (0, 5)))
    suspect = merge(base, changing(suspicions={0: Suspicion(Cursor(5), 0, 77)})).ledger
    assert suspect == ledger(s0=replace(entry(0, (0, 5)), suspect_s=77))
    other = merge(suspect, changing(suspicions={0: Suspicion(Cursor(5), 0, 99)})).ledger
    assert other == suspect, "whoever was first to suspect says since when"
    assert merge(suspect, changing(suspicions={0: Suspicion(Cursor(5), 77, 0)})).ledger == base


def test_a_proof_that_rests_on_a_suspicion_closes_the_shard_where_it_still_stands() -> None:
    base = ledger(s0=replace(entry(0, (0, 5)), suspect_s=77))
    done = merge(base, write_off(seen_s=77)).ledger.shards[0]
    assert (done.gaps, done.end, done.suspect_s) == ((GONE_GAP,), CURSOR_UNKNOWN, 0)


@pytest.mark.parametrize(
    "now",
    [
        entry(0, (0, 5)),
        replace(entry(0, (0, 5)), suspect_s=88),
        replace(entry(0, (0, 7)), suspect_s=77),
    ],
    ids=["taken back", "taken back and suspected anew", "somebody landed more of it"],
)
def test_a_proof_whose_suspicion_was_taken_back_meanwhile_gives_nothing_up(now: ShardLedger) -> None:
    assert merge(ledger(s0=now), write_off(seen_s=77)).ledger == ledger(s0=now)


def test_what_is_shown_again_is_opened_without_the_gap_that_nobody_knew_the_end_of() -> None:
    expired = Gap(Cursor(1), Cursor(2), GAP_EXPIRED)
    gone = ShardLedger(
        Cursor(0), IntervalSet.of([(0, 1), (2, 5)]), gaps=(expired, GONE_GAP), end=CURSOR_UNKNOWN
    )
    delta = Delta(ORIGIN, True, (landed(0, 5, 8),), change=LedgerChange(opened={0: CURSOR_UNKNOWN}))
    done = merge(ledger(s0=gone), delta).ledger.shards[0]
    assert (done.closed, done.gaps, done.frontier) == (False, (expired,), 8)


def test_what_a_fill_left_before_it_of_a_shard_that_was_gone_goes_on_too() -> None:
    gone = ShardLedger(Cursor(0), IntervalSet.of([(0, 5)]), gaps=(GONE_GAP,), end=CURSOR_UNKNOWN)
    filled = merge(ledger(s0=gone), fill(landed(0, 7, 9))).ledger
    assert filled.shards[0].closed
    done = merge(filled, changing(opened={0: CURSOR_UNKNOWN})).ledger.shards[0]
    assert (done.gaps, done.frontier) == ((), 5)


def test_a_shard_that_was_closed_again_since_it_was_looked_at_is_not_opened() -> None:
    base = ledger(s0=entry(0, (0, 9), end=9))
    assert merge(base, changing(opened={0: Cursor(5)})).ledger == base


def test_what_was_withdrawn_is_landed_by_a_backfill_only() -> None:
    base = ledger(s0=ShardLedger(Cursor(0), withdrawn=IntervalSet.of([(2, 4)])))
    assert merge(base, live(landed(0, 0, 6))).lost
    done = merge(base, fill(landed(0, 2, 4))).ledger.shards[0]
    assert (done.landed.pairs, done.withdrawn.pairs) == (((2, 4),), ())


@quick
@given(entries(), interval_sets(SMALL))
def test_what_leaves_is_withdrawn_and_the_frontier_stays(base: ShardLedger, taken: IntervalSet) -> None:
    after = withdrawn(base, taken, rows=3, total=base.sum + 5)
    assert after.frontier == base.frontier
    assert after.accounted == base.accounted
    assert after.landed == base.landed.minus(taken)
    assert after.landed.union(after.withdrawn) == base.landed.union(base.withdrawn)
    assert (after.rows, after.sum) == (base.rows - 3, 2**64 - 5)
    assert not any(after.landed.overlaps(b, e) for b, e in taken)


def test_an_interval_that_was_withdrawn_and_landed_again_is_as_it_was() -> None:
    base = ledger(s0=entry(0, (0, 6)))
    one = landed(0, 2, 4)
    undone = base.with_shards(
        {0: withdrawn(base.shards[0], IntervalSet.of([(2, 4)]), rows=one.rows, total=one.sum)}
    )
    assert merge(undone, live(one)).lost
    assert merge(undone, fill(one)).ledger == base


def test_a_gap_is_trimmed_by_what_is_there() -> None:
    delta = changing(gaps={0: (Gap(Cursor(0), Cursor(9), GAP_EXPIRED),)})
    base = ShardLedger(Cursor(0), IntervalSet.of([(0, 2), (4, 5)]), withdrawn=IntervalSet.of([(6, 7)]))
    gaps = merge(ledger(s0=base), delta).ledger.shards[0].gaps
    assert [(g.begin, g.end) for g in gaps] == [(2, 4), (5, 6), (7, 9)]


def test_a_gap_told_twice_is_one_gap() -> None:
    delta = changing(gaps={0: (Gap(Cursor(0), Cursor(9), GAP_EXPIRED),)})
    once = merge(ledger(s0=entry(0)), delta).ledger
    assert merge(once, delta).ledger == once


def test_a_closed_shard_gets_no_gap_although_retention_removed_it_since() -> None:
    base = ledger(s0=entry(0, (0, 5), end=5))
    gone = Gap(Cursor(2), CURSOR_UNKNOWN, GAP_SHARD_GONE)
    delta = changing(gaps={0: (gone,)}, closings={0: CURSOR_UNKNOWN})
    assert merge(base, delta).ledger == base


@pytest.mark.parametrize(("end", "closed"), [(5, True), (6, False)])
def test_a_shard_is_closed_where_its_frontier_really_is(end: int, closed: bool) -> None:
    delta = changing(closings={0: Cursor(end)})
    assert merge(ledger(s0=entry(0, (0, 5))), delta).ledger.shards[0].closed is closed


def test_a_shard_that_a_person_took_out_of_the_ledger_is_left_out() -> None:
    delta = Delta(
        ORIGIN,
        True,
        (landed(7, 0, 3),),
        change=LedgerChange(
            gaps={7: (Gap(Cursor(0), Cursor(1), GAP_EXPIRED),)},
            closings={7: Cursor(3)},
            marks={7: (Edge(10, Cursor(0)),)},
        ),
    )
    merged = merge(ledger(s0=entry(0)), delta)
    assert merged.ledger == ledger(s0=entry(0))
    assert len(merged.lost) == 1


def test_a_start_is_fixed_by_the_first_who_says_it() -> None:
    delta = changing(starts={0: Cursor(9), 1: Cursor(4)})
    merged = merge(ledger(s0=entry(5)), delta).ledger
    assert {s: e.start for s, e in merged.shards.items()} == {0: 5, 1: 4}


def test_receive_time_advances_to_the_last_mark_reached_and_never_back() -> None:
    base = ledger(s0=entry(0, (0, 5)))
    marks = (Edge(100, Cursor(3)), Edge(200, Cursor(5)), Edge(300, Cursor(6)))
    once = merge(base, changing(marks={0: marks})).ledger
    assert once.shards[0].reached_s == 200
    later = merge(once, changing(marks={0: (Edge(150, Cursor(0)),)})).ledger
    assert later.shards[0].reached_s == 200


@quick
@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=4)), max_size=8)
)
def test_whatever_is_merged_rows_land_once_and_are_counted(
    landings: list[tuple[bool, list[tuple[int, int]]]],
) -> None:
    current = ledger(s0=entry(0))
    brought: list[tuple[int, int]] = []
    for is_live, pairs in landings:
        windows = tuple(landed(0, b, e, rows=e - b, total=e * e - b * b) for b, e in pairs if b < e)
        before = current.shards[0].frontier
        merged = merge(current, Delta(ORIGIN, is_live, windows))
        assert sorted([*merged.accepted, *merged.lost], key=lambda x: x.window) == sorted(
            windows, key=lambda x: x.window
        )
        if is_live and merged.accepted:
            assert merged.accepted[0].window.begin == before
        current = merged.ledger
        brought += [(x.window.begin, x.window.end) for x in merged.accepted]
    done = current.shards[0]
    cursors = [c for b, e in brought for c in range(b, e)]
    assert len(cursors) == len(set(cursors))
    assert {c for b, e in done.landed for c in range(b, e)} == set(cursors)
    assert done.rows == len(cursors)
    assert done.sum == sum(2 * c + 1 for c in cursors)
