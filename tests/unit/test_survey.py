"""Hour edges asked of a service: here the simulator's, a value that answers as the real one does."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sls_io.planning.again import Begins
from sls_io.planning.doubts import Second
from sls_io.planning.survey import survey_hours, survey_live
from sls_io.planning.values import Again, Survey
from sls_io.values.claim import GAP_SKIPPED, Gap, Ledger, ShardLedger
from sls_io.values.errors import CursorExpired, ServiceError, ShardGone, SlsError, Throttled
from sls_io.values.shard import Head, Shard
from sls_io.values.window import HOUR_S, Cursor, IntervalSet
from sls_io.wire.client import SlsClient
from sls_io.wire.page import Page
from tests.simulation import service as simulated
from tests.simulation.service import Service

EPOCH_S = 500 * HOUR_S
quick = settings(max_examples=60, deadline=None, database=None)


class Asked:
    """The calls a survey makes, answered by a simulated service."""

    def __init__(self, service: Service, away: Mapping[int, SlsError] | None = None) -> None:
        self._service, self._away = service, away or {}

    def head(self, shard: Shard) -> Head:
        if shard.id in self._away:
            raise self._away[shard.id]
        if shard.id in self._service.removed:
            raise ShardGone("ShardNotExist", "gone")
        return self._service.head(shard.id, readonly=shard.readonly)

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        found = self._service.shards[shard]
        if at == "begin":
            return Cursor(found.begin)
        return Cursor(found.end) if at == "end" else found.at(at)

    def pull(self, shard: int, cursor: Cursor, *, groups_max: int) -> Page:
        found = self._service.shards[shard]
        if not found.begin <= cursor <= found.end:
            raise CursorExpired("InvalidCursor", "expired")
        here = found.groups(cursor, found.end)[:groups_max]
        after = Cursor(here[-1] + 1 if here else found.end)
        return Page(shard, cursor, after, len(here), 9, "", b"", Cursor(here[-1]) if here else None)

    def shards(self) -> list[Shard]:
        return [s.value for s in self._service.listed()]

    def retention_s(self) -> float:
        return 3.0 * HOUR_S

    def now_s(self) -> float:
        return self._service.now_s

    def cursor_time_s(self, shard: int, cursor: Cursor) -> int:
        return self._service.shards[shard].time_of(cursor)


def client(service: Service) -> SlsClient:
    """As the survey takes it."""
    return cast(SlsClient, Asked(service))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Service, int]:
    """(a service of one or two shards with groups over some hours, a time up to which to look)."""
    service = Service(draw(st.integers(1, 2)), EPOCH_S)
    for wait_s, jump, pick in draw(
        st.lists(
            st.tuples(st.sampled_from((0, 7, 900, HOUR_S, 3 * HOUR_S)), st.integers(0, 2), st.booleans()),
            max_size=20,
        )
    ):
        service.now_s += wait_s
        live = service.live()
        service.append(live[-1] if pick else live[0], jump=jump)
    if draw(st.booleans()):
        service.expire(draw(st.integers(EPOCH_S, service.now_s + 1)))
    return service, draw(st.integers(EPOCH_S, service.now_s + 10))


def live(
    service: Service, ledger: Ledger, until_s: int, *, most: int = 99, pieces: int = 1
) -> Mapping[int, Survey]:
    """A live survey of all shards."""
    listed = [s.value for s in service.listed()]
    return survey_live(client(service), listed, ledger, until_s=until_s, spans_max=most, pieces=pieces)


@quick
@given(histories(), st.integers(0, 9), st.integers(1, 4))
def test_spans_lead_from_the_frontier_to_until_hour_by_hour(
    history: tuple[Service, int], done: int, pieces: int
) -> None:
    service, until_s = history
    entries = {
        s.id: ShardLedger(
            Cursor(1000 * (s.id + 1)),
            IntervalSet.of([(1000 * (s.id + 1), min(s.end, 1000 * (s.id + 1) + done))]),
        )
        for s in service.listed()
    }
    for number, survey in live(service, Ledger("o", entries), until_s, pieces=pieces).items():
        shard = service.shards[number]
        at = max(entries[number].frontier, shard.begin)
        for span in survey.spans:
            assert span.begin == at < span.end
            assert {shard.time_of(c) // HOUR_S for c in shard.groups(span.begin, span.end)} <= {span.hour}
            at = span.end
        unread = [c for c in shard.groups(at, shard.end) if shard.time_of(c) < until_s]
        assert not unread
        for mark in survey.marks:
            assert mark.time_s <= until_s
            assert all(shard.time_of(c) >= mark.time_s for c in shard.groups(int(mark.cursor), shard.end))


@quick
@given(histories())
def test_the_simulator_asks_as_production_does(history: tuple[Service, int]) -> None:
    service, until_s = history
    for survey in live(service, Ledger("o"), until_s).values():
        assert survey.head is not None
        own = simulated.model_survey_live(service, survey.head, survey.head.begin, until_s)
        assert (own.spans, own.marks[-1]) == (survey.spans, survey.marks[-1])
        assert set(own.marks) == set(survey.marks)


@quick
@given(histories(), st.integers(-1, 8), st.integers(0, 5), st.integers(1, 3))
def test_the_named_hours_are_covered_and_no_others(
    history: tuple[Service, int], first: int, count: int, pieces: int
) -> None:
    service, until_s = history
    hours = range(EPOCH_S // HOUR_S + first, EPOCH_S // HOUR_S + first + count)
    listed = [s.value for s in service.listed()]
    found = survey_hours(client(service), listed, hours=hours, until_s=until_s, pieces=pieces)
    for number, survey in found.items():
        shard = service.shards[number]
        named = {
            c
            for c in shard.groups(shard.begin, shard.end)
            if shard.time_of(c) // HOUR_S in hours and shard.time_of(c) < until_s
        }
        assert {c for s in survey.spans for c in shard.groups(s.begin, s.end)} == named
        for span in survey.spans:
            assert {shard.time_of(c) // HOUR_S for c in shard.groups(span.begin, span.end)} <= {span.hour}


class Counting(Asked):
    """Counts the calls for edges; tells times `late_s` too late, or that a cursor it told has expired."""

    def __init__(self, service: Service, *, late_s: int = 0, expired: bool = False) -> None:
        super().__init__(service)
        self.edges, self._late_s, self._expired = 0, late_s, expired

    def cursor_at(self, shard: int, at: int | Literal["begin", "end"]) -> Cursor:
        self.edges += 1
        return super().cursor_at(shard, at)

    def cursor_time_s(self, shard: int, cursor: Cursor) -> int:
        if self._expired:
            raise CursorExpired("InvalidCursor", "expired")
        return super().cursor_time_s(shard, cursor) + self._late_s


@pytest.mark.parametrize(
    ("late_s", "expired", "edges_max"),
    [(0, False, 20), (-7 * HOUR_S, False, 40), (7 * HOUR_S, False, 3010), (0, True, 3010)],
)
def test_hours_in_which_nothing_came_cost_no_calls_where_the_edges_agree(
    late_s: int, expired: bool, edges_max: int
) -> None:
    service, first = Service(1, EPOCH_S), EPOCH_S // HOUR_S
    for _ in range(2):
        service.append(service.shards[0], jump=0)
        service.now_s += 1000 * HOUR_S
    asked, listed = Counting(service, late_s=late_s, expired=expired), [s.value for s in service.listed()]
    hours = range(first - 500, first + 2000)
    (survey,) = survey_hours(cast(SlsClient, asked), listed, hours=hours, until_s=service.now_s).values()
    assert [span.hour for span in survey.spans] == [first, first + 1000]
    assert asked.edges <= edges_max


def test_no_more_hours_are_asked_for_than_the_budget_can_use() -> None:
    service = Service(1, EPOCH_S)
    for _ in range(9):
        service.append(service.shards[0], jump=0)
        service.now_s += HOUR_S
    (survey,) = live(service, Ledger("o"), service.now_s, most=3).values()
    assert len(survey.spans) == 3
    assert survey.marks[-1].cursor == service.shards[0].end


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_an_hour_is_cut_at_times_and_its_end_is_told_once(pieces: int) -> None:
    service = Service(1, EPOCH_S)
    for _ in range(4):
        service.append(service.shards[0], jump=0)
        service.now_s += HOUR_S // 4
    (survey,) = live(service, Ledger("o"), service.now_s, pieces=pieces).values()
    assert len(survey.spans) == pieces
    assert [m for m in survey.marks if m.time_s == EPOCH_S + HOUR_S] == [survey.marks[0]]
    assert survey.marks[0].cursor == survey.spans[-1].end


def test_a_shard_that_is_gone_is_a_survey_without_a_head() -> None:
    service = Service(2, EPOCH_S)
    listed = [s.value for s in service.listed()]
    service.removed.add(1)
    found = survey_live(client(service), listed, Ledger("o"), until_s=EPOCH_S, spans_max=9)
    assert found[1] == Survey(1, None, gone=Second.DENIES), "the list still has it"
    assert found[0].head is not None


FROM_HERE = Begins(lambda shard, entry: Cursor(0))
"""Settings that want all that there is."""


def asked_about(entry: ShardLedger, begins: Begins | None = FROM_HERE) -> Survey:
    """A live survey of a shard with two groups in each of three hours, from cursor 1000 on."""
    service = Service(1, EPOCH_S)
    for _ in range(3):
        service.append(service.shards[0], jump=0)
        service.append(service.shards[0], jump=0)
        service.now_s += HOUR_S
    (found,) = survey_live(
        client(service),
        [s.value for s in service.listed()],
        Ledger("o", {0: entry}),
        until_s=service.now_s,
        spans_max=9,
        begins=begins,
    ).values()
    return found


def from_1004(*, told: bool, landed: bool = True, withdrawn: tuple[int, int] = (0, 0)) -> ShardLedger:
    """A start at the third hour."""
    done = [(1004, 1005)] if landed else []
    return ShardLedger(Cursor(1004), IntervalSet.of(done), withdrawn=IntervalSet.of([withdrawn]), told=told)


def test_logs_before_a_start_that_was_told_are_found_and_before_a_chosen_one_nobody_looks() -> None:
    hour = EPOCH_S // HOUR_S
    (part,) = asked_about(from_1004(told=True)).readable
    assert part == Again(Cursor(1000), Cursor(1004), range(hour, hour + 2), early=True)
    assert asked_about(from_1004(told=True), None).readable == ()
    assert asked_about(from_1004(told=False)).readable == ()


def test_what_the_settings_leave_out_what_was_withdrawn_and_what_was_forgotten_is_not_missed() -> None:
    hour = EPOCH_S // HOUR_S
    since = Begins(lambda shard, entry: Cursor(1003))
    assert [part.begin for part in asked_about(from_1004(told=True), since).readable] == [1003]
    assert asked_about(from_1004(told=True), Begins(lambda shard, entry: None)).readable == ()
    assert asked_about(from_1004(told=True, withdrawn=(1000, 1004))).readable == ()
    gone = Begins(FROM_HERE.at, IntervalSet.of([(hour, hour + 2)]))
    assert asked_about(from_1004(told=True), gone).readable == ()


def test_what_was_skipped_is_owed_unless_its_hours_were_removed_whole() -> None:
    """Of hours of which only rows were removed, a fill lands the cursors that never landed."""
    hour = EPOCH_S // HOUR_S
    skipped = Gap(Cursor(1002), Cursor(1004), GAP_SKIPPED)
    entry = ShardLedger(Cursor(1000), IntervalSet.of([(1000, 1002), (1004, 1006)]), gaps=(skipped,))
    gone = IntervalSet.of([(hour, hour + 3)])
    (part,) = asked_about(entry, Begins(FROM_HERE.at, gone)).readable
    assert part == Again(Cursor(1002), Cursor(1004), range(hour + 1, hour + 2), owed=True)
    assert asked_about(entry, Begins(FROM_HERE.at, gone, hour + 1)).readable == (part,)
    assert asked_about(entry, Begins(FROM_HERE.at, gone, hour + 2)).readable == ()


def test_a_shard_of_which_nothing_has_landed_begins_anew_and_its_spans_with_it() -> None:
    survey = asked_about(from_1004(told=True, landed=False))
    assert (survey.anew, survey.readable, survey.spans[0].begin) == (1000, (), 1000)
    half = Begins(FROM_HERE.at, IntervalSet.of([(EPOCH_S // HOUR_S, EPOCH_S // HOUR_S + 1)]))
    left = asked_about(from_1004(told=True, landed=False), half)
    assert (left.anew, len(left.readable)) == (None, 1), "an hour of it was removed for good"


@pytest.mark.parametrize("told", [True, False])
def test_a_start_beyond_the_end_is_left_where_the_settings_say(told: bool) -> None:
    beyond = ShardLedger(Cursor(2000), told=told)
    wanted = Begins(lambda shard, entry: Cursor(1000 if told else 1005))
    assert asked_about(beyond, wanted).anew == (1000 if told else 1005)
    assert asked_about(beyond, Begins(lambda shard, entry: Cursor(1007))).anew is None
    landed = replace(beyond, landed=IntervalSet.of([(2000, 2001)]))
    assert asked_about(landed, wanted).anew is None


QUOTA = Throttled("ReadQuotaExceed", "used up", status=403)
FAILING = ServiceError("InternalServerError", "failed", status=500)
REFUSED = ServiceError("Unauthorized", "denied", status=401)


def asked_of_two(away: Mapping[int, SlsError], *, spare: bool) -> Mapping[int, Survey]:
    """A live survey over two shards."""
    service = Service(2, EPOCH_S)
    for shard in service.live():
        service.append(shard, jump=0)
    asked, listed = cast(SlsClient, Asked(service, away)), [s.value for s in service.listed()]
    return survey_live(asked, listed, Ledger("o"), until_s=EPOCH_S + HOUR_S, spans_max=9, spare=spare)


@pytest.mark.parametrize("error", [QUOTA, FAILING])
def test_a_shard_that_cannot_be_asked_now_does_not_keep_the_others_waiting(error: SlsError) -> None:
    found = asked_of_two({1: error}, spare=True)
    assert found[0].spans and not found[0].trouble
    assert str(error) in found[1].trouble and found[1].spans == ()
    with pytest.raises(type(error)):
        asked_of_two({1: error}, spare=False)


def test_when_no_shard_can_be_asked_the_survey_fails() -> None:
    with pytest.raises(Throttled):
        asked_of_two({0: QUOTA, 1: QUOTA}, spare=True)


def test_a_refusal_that_stays_is_nothing_to_wait_for() -> None:
    with pytest.raises(ServiceError, match="Unauthorized"):
        asked_of_two({1: REFUSED}, spare=True)
