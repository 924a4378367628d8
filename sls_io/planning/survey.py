"""Asks the service what a plan needs: heads of shards and hour edges, as data.

From the frontier, GetCursorTime gives the receive hour of the next group and GetCursor the end of that hour;
then on from there. Only hours that hold data cost calls, and only as many are asked for as the budget can
use. Shards are asked in parallel.

Worked example: the frontier is 500. GetCursorTime(500) says 07:12, so the hour is 07; GetCursor(08:00) says
640: [500, 640) is the unread part of hour 07. GetCursorTime(640) says 11:03: hours 08 to 10 are empty and
cost no call. GetCursor(12:00) says 700: [640, 700) is of hour 11. No cursor is computed, since the service
may skip numbers.

What would give data up is asked a second time by another kind of call (see `Second`):

    one answer                                    the second
    a begin cursor beyond the frontier            PullLogs from the frontier, and the age of what lies there
    ShardNotExist, or a list without the shard    the other one of the two
    read-only, and the frontier at its end        PullLogs from the end, and another list
    begin of a shard never seen                   GetCursor of a time before all logs; the lower one holds
    older than retention, never seen              another list, another GetLogStore
    an end before a start with nothing landed     PullLogs from that start, and where the settings begin now

A begin may have been told too high both times, so each look asks for it again (`again.py`).

Such a call is made only where something would be given up, so that a run in which nothing is wrong
makes about as many calls as without.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from sls_io.planning.again import Begins, begins_anew, begins_later, readable_again
from sls_io.planning.doubts import Second
from sls_io.planning.gone import passed_over
from sls_io.planning.values import Edge, Span, Survey
from sls_io.values.claim import CURSOR_UNKNOWN, Ledger, ShardLedger
from sls_io.values.errors import CursorExpired, ServiceError, ShardGone, SlsError, TransportError
from sls_io.values.shard import Head, Shard
from sls_io.values.side_by_side import answers
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient

_STATUS_FAILED = 500
_BEFORE_ALL_S = 1
"""A receive time (unix seconds) before that of any log."""


def look_at(
    client: SlsClient,
    shards: Iterable[Shard],
    mine: Iterable[Shard],
    ledger: Ledger,
    *,
    until_s: int,
    windows_max: int,
    pieces: int = 1,
    spare: bool = False,
    begins: Begins | None = None,
    heard: Callable[[Survey], None] = lambda survey: None,
) -> Mapping[int, Survey]:
    """All that a live plan needs: of `mine`, of closed shards of which the service shows more, of those
    that the ledger has open and the service does not list. `shards` are the listed ones; the rest is
    as in `survey_live`."""
    listed = list(shards)
    closed = [s for s in listed if s.id in ledger.shards and ledger.shards[s.id].closed]
    shown = _shown_again(client, closed, ledger, spare=spare, begins=begins)
    again = [s for s in closed if s.id in shown and shown[s.id].opened]
    asked = [*(s for s in mine if s not in closed), *again]
    spans_max = max(1, windows_max // max(1, len(asked)))
    live = survey_live(
        client,
        asked,
        ledger,
        until_s=until_s,
        spans_max=spans_max,
        pieces=pieces,
        spare=spare,
        begins=begins,
        heard=heard,
    )
    surveys = {**shown, **live, **_unlisted(client, listed, ledger)}
    return mark_cut(client, listed, ledger, surveys)


def survey_live(
    client: SlsClient,
    shards: Iterable[Shard],
    ledger: Ledger,
    *,
    until_s: int,
    spans_max: int,
    pieces: int = 1,
    spare: bool = False,
    begins: Begins | None = None,
    heard: Callable[[Survey], None] = lambda survey: None,
) -> Mapping[int, Survey]:
    """One `Survey` a shard from its frontier to `until_s`, at most `spans_max` hours in each.

    `pieces` cuts each hour further at even times, for parallelism when shards are few. With `spare` a
    shard that could not be asked (throttled, no answer) is a survey that says so (`Survey.trouble`), as
    long as others could: one busy shard must not keep the others waiting. With `begins` it is asked again
    where histories begin. `heard` gets each survey as it is made, from several threads.
    """

    seconds = _Seconds(client)

    def ask(shard: Shard) -> Survey:
        head = _head(client, shard, ledger)
        # Story: a begin is told that is another shard's, and lies beyond the end. Retention explains it, so
        # a gap is named up to there, beyond the end, and each later run is refused. The begin is asked for
        # first and an end never moves back: one of the two is wrong.
        if head.begin > head.end:
            return Survey(shard.id, None, doubt=_CONTRADICTED)
        entry = ledger.shard(shard.id, begin=head.begin)
        survey = Survey(shard.id, head, readable=readable_again(client, shard, entry, head, begins))
        if entry.closed:
            entry, survey = entry.opened_again(), replace(survey, opened=True)
        elif begins and (start := begins_anew(client, head, entry, survey.readable, begins)) is not None:
            gaps = tuple(part for part in survey.readable if not part.early)
            entry, survey = entry.begun_anew(start), replace(survey, anew=start, readable=gaps)
        if entry.frontier < head.begin:
            gone, explained = seconds.of_begin(shard, entry, head), seconds.explain(shard, entry)
            survey = replace(survey, gone=gone, explained=explained)
        until = min(client.cursor_at(shard.id, until_s), head.end)
        at = max(entry.frontier, head.begin)
        spans: list[Span] = []
        while at < until and len(spans) < spans_max:
            span = next_span(client, shard.id, at, until=until, until_s=until_s)
            if span is None:
                return replace(survey, doubt=_CONTRADICTED)
            spans.extend(_cut(client, shard.id, span, pieces))
            at = span.end
        marks = [Edge((s.hour + 1) * HOUR_S, s.end) for s in spans if (s.hour + 1) * HOUR_S <= until_s]
        marks.append(Edge(until_s, Cursor(until)))
        over = seconds.of_end(head) if ledger.started and head.readonly and at >= head.end else Second.NONE
        survey = replace(survey, spans=tuple(spans), marks=_last_of_each_hour(marks), over=over)
        heard(survey)
        return survey

    return _each(ask, shards, spare=spare)


def next_span(client: SlsClient, shard: int, at: Cursor, *, until: Cursor, until_s: int) -> Span | None:
    """From `at` to the end of the receive hour of the group there, at most to `until`, the cursor of
    `until_s`. None where cursors and receive times contradict each other. Raises CursorExpired.

    Worked example: 500 was received at 07:12 and `until_s` is 07:30: the hour is 07, GetCursor(08:00) says
    640, the cursor of 07:30 is 610: [500, 610).
    """
    time_s = client.cursor_time_s(shard, at)
    # The service may leave cursors out: then the next group can be younger than what is asked for.
    hour = min(time_s, until_s) // HOUR_S
    end = min(client.cursor_at(shard, (hour + 1) * HOUR_S), until)
    return None if time_s <= 0 or end <= at else Span(hour, at, end)


def left_over(
    client: SlsClient, shards: Iterable[Shard], checkpoints: Mapping[int, Cursor | None]
) -> list[Shard]:
    """The read-only shards whose checkpoint is their end: the group is done with them for good.

    Story: a shard is drained, its checkpoint published, then it is split. The service sees a read-only shard
    with its checkpoint at the end, calls it over and grants it to nobody any more. Would only claimed shards
    be looked at, the ledger never closed it and its children waited for ever. The same when somebody forced
    the checkpoint to the end before the rest was landed.

    Such a shard is looked at like one that is held: nothing of it needs a holder any more but its closing.
    """

    def ask(shard: Shard) -> Survey:
        return Survey(shard.id, client.head(shard))

    known = {s: at for s, at in checkpoints.items() if at is not None}
    surveys = _each(ask, [s for s in shards if s.readonly and s.id in known], spare=True)
    over = {s for s, survey in surveys.items() if survey.head and known[s] >= survey.head.end}
    return [s for s in shards if s.id in over]


def survey_hours(
    client: SlsClient,
    shards: Iterable[Shard],
    *,
    hours: range,
    until_s: int,
    from_s: int = 0,
    pieces: int = 1,
    ledger: Ledger | None = None,
    also: Iterable[int] = (),
) -> Mapping[int, Survey]:
    """One `Survey` a shard of the receive hours `hours`, whatever the ledger says of them: of what was
    received from `from_s` to before `until_s`. With a `ledger` the history of a shard that it lacks can begin
    at the head. Those of `also` that are not among `shards` are looked at, too, as far as they are there."""
    listed = list(shards)
    unlisted = [Shard(shard, readonly=True) for shard in sorted({*also} - {s.id for s in listed})]
    first = max(hours.start, from_s // HOUR_S)

    def ask(shard: Shard) -> Survey:
        head = client.head(shard) if ledger is None else _head(client, shard, ledger)
        until = min(client.cursor_at(shard.id, until_s), head.end)
        spans: list[Span] = []
        at = min(client.cursor_at(shard.id, max(first * HOUR_S, from_s)), until)
        hour = first
        while hour < hours.stop and at < until:
            end = min(client.cursor_at(shard.id, (hour + 1) * HOUR_S), until)
            if at < end:
                spans.extend(_cut(client, shard.id, Span(hour, Cursor(at), Cursor(end)), pieces))
                at, hour = Cursor(end), hour + 1
            else:
                hour = _next_hour(client, shard.id, Cursor(at), hour)
        return Survey(shard.id, head, tuple(spans))

    # One that the list lacks and that has no cursor is gone: its own loss is a live run's to name.
    shown = {shard: one for shard, one in _each(ask, unlisted).items() if one.head is not None}
    return {**_each(ask, listed), **shown}


def to_fill(listed: Iterable[Shard], ledger: Ledger) -> list[int]:
    """Shards of which a fill may have something to bring, whether or not the list has them: those that the
    ledger has and not whole, and those that may have been made since."""
    part = (s for s, e in ledger.shards.items() if not e.closed or e.gaps or e.withdrawn)
    return [*part, *passed_over(listed, ledger)]


def _next_hour(client: SlsClient, shard: int, at: Cursor, empty: int) -> int:
    """The hour (since 1970) of the group at `at`, none of which came in the hour `empty`.

    A year in which little came would cost a call for each of its hours. The group's own time is believed
    only where the edge of its hour says the same: an hour that is too late would label its logs wrongly.
    """
    try:
        hour = client.cursor_time_s(shard, at) // HOUR_S
    except CursorExpired:
        return empty + 1
    if hour > empty + 1 and client.cursor_at(shard, hour * HOUR_S) == at:
        return hour
    return empty + 1


def from_hour(surveys: Mapping[int, Survey], hour: int) -> Mapping[int, Survey]:
    """The surveys with nothing of receive hours before `hour` (since 1970)."""
    return {
        shard: replace(survey, spans=tuple(span for span in survey.spans if span.hour >= hour))
        for shard, survey in surveys.items()
    }


def opened_from_hour(client: SlsClient, surveys: Mapping[int, Survey], hour: int) -> Mapping[int, Survey]:
    """The surveys; a shard that is opened again begins where `hour` (since 1970) does: the rest is lost for
    good.

    Story: a shard is written off by wrong answers, all hours before 10:00 are removed for good, which it does
    not hold back, and then it is shown again with logs of 09:00. Those were asked to be gone.
    """
    found = dict(surveys)
    for shard, survey in surveys.items():
        if survey.opened and survey.head is not None and any(span.hour < hour for span in survey.spans):
            head = replace(survey.head, begin=client.cursor_at(shard, hour * HOUR_S))
            found[shard] = replace(survey, head=head, gone=Second.AGREES, explained=True)
    return {**found, **from_hour({s: one for s, one in found.items() if one.opened}, hour)}


def mark_cut(
    client: SlsClient, shards: Iterable[Shard], ledger: Ledger, surveys: Mapping[int, Survey]
) -> Mapping[int, Survey]:
    """The surveys, with `cut` for shards that a started ledger never saw and that are older than the
    service keeps logs: retention may have taken their beginning unseen.

    A creation time, a retention or a date that is told wrong once would name a gap that is none, or hide one
    for ever: the start is fixed now. So all are asked for twice, and where that differs the third decides.

    Two of three: what both say holds, and where they differ a third look agrees with one of them.
    """
    unseen = [s for s in shards if s.id in surveys and s.id not in ledger.shards]
    if not (unseen and ledger.started):
        return surveys
    ids = {s.id for s in unseen}
    first, again = _older_than_kept(client, unseen), _older_than_kept(client, client.shards()) & ids
    differ = first ^ again
    old = first & again | (_older_than_kept(client, client.shards()) & differ if differ else set())
    return {shard: replace(survey, cut=shard in old) for shard, survey in surveys.items()}


def _older_than_kept(client: SlsClient, shards: Iterable[Shard]) -> set[int]:
    kept_s = client.retention_s()
    if kept_s is None:
        return set()
    # A shard whose creation is not told may be as old as its logstore.
    oldest_s, made_s = client.now_s() - kept_s, client.origin().created_s
    return {s.id for s in shards if (s.created_s or made_s) < oldest_s}


_CONTRADICTED = (
    "the service's cursors and receive times contradict each other; it is left alone until the answers agree"
)
_EXPIRED_WHILE_ASKED = (
    "the service says that a cursor which it gave a moment ago has expired; it is left alone, the next run "
    "asks again"
)


@dataclass
class _Seconds:
    """Second kinds of answers, asked only when they are needed."""

    client: SlsClient

    def of_begin(self, shard: Shard, entry: ShardLedger, head: Head) -> Second:
        """Whether PullLogs has nothing between the frontier and the begin cursor, either."""
        try:
            agrees = begins_later(self.client, shard.id, entry.frontier, head.begin)
        except CursorExpired:
            return Second.AGREES
        except SlsError:
            return Second.SILENT
        return Second.AGREES if agrees else Second.DENIES

    def explain(self, shard: Shard, entry: ShardLedger) -> bool:
        """Whether what lies behind the frontier may be older than the service keeps logs.

        It was received after the time reached, and after the shard was made.
        """
        try:
            kept_s = self.client.retention_s()
            return kept_s is not None and max(entry.reached_s, shard.created_s) < self.client.now_s() - kept_s
        except SlsError:
            return False

    def of_end(self, head: Head) -> Second:
        """Whether another list says read-only, too, and PullLogs that nothing lies behind the end.

        Two questions: does a list that was made later also say read-only, and does a pull from the end stay
        there? A single "no" keeps the shard open: closed too early, its children would land before the rest
        of it.
        """
        try:
            page = self.client.pull(head.shard.id, head.end, groups_max=1)
            more = bool(page.count or page.body or page.next != head.end)
            return Second.DENIES if more or head.shard.id not in self._readonly else Second.AGREES
        except SlsError:
            return Second.SILENT

    @cached_property
    def _readonly(self) -> frozenset[int]:
        return frozenset(s.id for s in self.client.shards() if s.readonly)


def _head(client: SlsClient, shard: Shard, ledger: Ledger) -> Head:
    """Begin and end. A shard that the ledger lacks begins its history here, and nothing before that is asked
    for later. So a second answer is asked for, and the lower one holds."""
    head = client.head(shard)
    if shard.id in ledger.shards or not ledger.started:
        return head
    return replace(head, begin=min(head.begin, client.cursor_at(shard.id, _BEFORE_ALL_S)))


def _shown_again(
    client: SlsClient, closed: Iterable[Shard], ledger: Ledger, *, spare: bool, begins: Begins | None
) -> dict[int, Survey]:
    """Of the listed shards that the ledger calls closed: those of which the service shows more than the
    ledger has, those with a gap that can be read again, and with logs before a start that was told.

    Where a closed shard has neither a gap nor a start that was told, one cursor answers: is the end further
    than the ledger has it? With them its head is asked for, and each gap.
    """

    def ask(shard: Shard) -> Survey:
        entry = ledger.shards[shard.id]
        if entry.end != CURSOR_UNKNOWN and not entry.gaps and not (begins and entry.told):
            more = not shard.readonly or client.cursor_at(shard.id, "end") > (entry.end or 0)
            return Survey(shard.id, None, opened=more)
        head = client.head(shard)
        more = not shard.readonly or entry.end == CURSOR_UNKNOWN or head.end > (entry.end or 0)
        parts = readable_again(client, shard, entry, head, begins)
        return Survey(shard.id, head, opened=more, readable=parts)

    asked = _each(ask, closed, spare=spare)
    return {s: survey for s, survey in asked.items() if survey.opened or survey.readable}


def _unlisted(client: SlsClient, listed: Iterable[Shard], ledger: Ledger) -> dict[int, Survey]:
    """A survey of each shard that the ledger has open and the service does not list, and of each that it may
    have made since (`passed_over`), unless that is gone.

    Not in the list is the first kind of answer; GetCursor is the second. "No such shard" agrees, a cursor
    denies, and anything else says nothing.
    """
    there, unknown = {s.id for s in listed}, passed_over(listed, ledger)

    def ask(shard: Shard) -> Survey:
        try:
            client.cursor_at(shard.id, "begin")
        except ShardGone:
            gone = Second.AGREES
        except SlsError:
            gone = Second.SILENT
        else:
            gone = Second.DENIES
        return Survey(shard.id, None, listed=False, gone=gone)

    missing = [s for s, e in ledger.shards.items() if s not in there and not e.closed]
    found = dict(_each(ask, [Shard(shard, readonly=True) for shard in (*missing, *unknown)]))
    # Nothing of such a shard is given up: it is landed from its begin whenever it is listed.
    return {s: one for s, one in found.items() if s in ledger.shards or one.gone is not Second.AGREES}


def _each(
    ask: Callable[[Shard], Survey], shards: Iterable[Shard], *, spare: bool = False
) -> Mapping[int, Survey]:
    """A shard that retention takes while it is asked is a survey that says so, and no error: the others go
    on. With `spare`, so is one that did not answer, unless nobody did: then the service is away, and the run
    ends with that."""
    failed: list[SlsError] = []

    def one(shard: Shard) -> Survey:
        try:
            return ask(shard)
        except ShardGone:
            return Survey(shard.id, None, gone=Second.DENIES)
        except CursorExpired:
            return Survey(shard.id, None, doubt=_EXPIRED_WHILE_ASKED)
        except (TransportError, ServiceError) as error:
            if not spare or not _of_the_moment(error):
                raise
            failed.append(error)
            return Survey(shard.id, None, trouble=f"could not be asked, the next run asks again: {error}")

    listed = list(shards)
    found = {shard.id: answer for shard, answer in answers(one, listed)}
    if failed and len(failed) == len(listed):
        raise failed[0]
    return found


def _of_the_moment(error: TransportError | ServiceError) -> bool:
    """Whether the next run may well be answered: no answer, throttled, or the service's own failure."""
    return isinstance(error, TransportError) or error.status >= _STATUS_FAILED


def _cut(client: SlsClient, shard: int, span: Span, pieces: int) -> list[Span]:
    """The span cut at even times of its hour; times that resolve to the same cursor make no cut.

    Worked example: hour 7 in four pieces: the cursors of 07:15, 07:30 and 07:45 are asked for. Of an hour in
    which all came in its first minute they are all its end, and it stays one piece.
    """
    cut: list[Span] = []
    rest = span
    for piece in range(1, pieces):
        edge = client.cursor_at(shard, span.hour * HOUR_S + HOUR_S * piece // pieces)
        if rest.begin < edge < rest.end:
            cut.append(replace(rest, end=edge))
            rest = replace(rest, begin=edge)
    return [*cut, rest]


def _last_of_each_hour(marks: list[Edge]) -> tuple[Edge, ...]:
    """Pieces of one hour share its end time; only the end of the last piece means that the hour is done.

    Worked example: an hour is cut in two, [100, 150) and [150, 180), and both pieces carry the mark "10:00".
    A landing that reaches 150 has not reached 10:00, one that reaches 180 has. So of marks with one time the
    highest cursor stays.
    """
    latest: dict[int, Edge] = {}
    for mark in marks:
        held = latest.get(mark.time_s)
        latest[mark.time_s] = mark if held is None or held.cursor < mark.cursor else held
    return tuple(latest[t] for t in sorted(latest))
