"""Asks the service what a plan needs: heads of shards and hour edges, as data.

From the frontier, GetCursorTime gives the receive hour of the next group and GetCursor the end of
that hour; then on from there. Only hours that hold data cost calls, and only as many are asked for
as the budget can use. Shards are asked in parallel.
"""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from sls_io.claim import Ledger
from sls_io.client import SlsClient
from sls_io.errors import ServiceError, ShardGone
from sls_io.planning import Edge, Span, Survey
from sls_io.shard import Shard
from sls_io.window import HOUR_S, Cursor

_CALLS_PARALLEL = 8


def survey_live(
    client: SlsClient,
    shards: Iterable[Shard],
    ledger: Ledger,
    *,
    until_s: int,
    spans_max: int,
    pieces: int = 1,
) -> Mapping[int, Survey]:
    """One `Survey` a shard from its frontier to `until_s`, at most `spans_max` hours in each.

    `pieces` cuts each hour further at even times, for parallelism when shards are few.
    """

    def ask(shard: Shard) -> Survey:
        head = client.head(shard)
        entry = ledger.shard(shard.id, begin=head.begin)
        until = min(client.cursor_at(shard.id, until_s), head.end)
        at = max(entry.frontier, head.begin)
        spans: list[Span] = []
        while at < until and len(spans) < spans_max:
            hour = client.cursor_time_s(shard.id, at) // HOUR_S
            end = min(client.cursor_at(shard.id, (hour + 1) * HOUR_S), until)
            if end <= at:
                raise ServiceError(
                    "CursorOrder",
                    f"shard {shard.id}: the end of hour {hour} is not after a group received in it",
                    hint="Run again; if it stays, report the request id to the service",
                )
            spans.extend(_cut(client, shard.id, Span(hour, at, end), pieces))
            at = Cursor(end)
        marks = [Edge((s.hour + 1) * HOUR_S, s.end) for s in spans if (s.hour + 1) * HOUR_S <= until_s]
        marks.append(Edge(until_s, Cursor(until)))
        return Survey(shard.id, head, tuple(spans), _last_of_each_hour(marks))

    return _each(ask, shards)


def left_over(
    client: SlsClient, shards: Iterable[Shard], checkpoints: Mapping[int, Cursor | None]
) -> list[Shard]:
    """The read-only shards whose checkpoint is their end: the group is done with them for good.

    Story: a shard is drained, its checkpoint published, then it is split. The service sees a
    read-only shard with its checkpoint at the end, calls it over and grants it to nobody any more.
    Would only claimed shards be looked at, the ledger never closed it and its children waited for
    ever. The same when somebody forced the checkpoint to the end before the rest was landed.
    """

    def ask(shard: Shard) -> Survey:
        return Survey(shard.id, client.head(shard))

    known = {s: at for s, at in checkpoints.items() if at is not None}
    surveys = _each(ask, [s for s in shards if s.readonly and s.id in known])
    over = {s for s, survey in surveys.items() if survey.head and known[s] >= survey.head.end}
    return [s for s in shards if s.id in over]


def survey_hours(
    client: SlsClient, shards: Iterable[Shard], *, hours: range, until_s: int, pieces: int = 1
) -> Mapping[int, Survey]:
    """One `Survey` a shard of the receive hours `hours`, whatever the ledger says of them."""

    def ask(shard: Shard) -> Survey:
        head = client.head(shard)
        until = min(client.cursor_at(shard.id, until_s), head.end)
        spans: list[Span] = []
        at = min(client.cursor_at(shard.id, hours.start * HOUR_S), until)
        for hour in hours:
            end = min(client.cursor_at(shard.id, (hour + 1) * HOUR_S), until)
            if at < end:
                spans.extend(_cut(client, shard.id, Span(hour, Cursor(at), Cursor(end)), pieces))
            at = end
            if at >= until:
                break
        return Survey(shard.id, head, tuple(spans))

    return _each(ask, shards)


def mark_cut(
    client: SlsClient, shards: Iterable[Shard], ledger: Ledger, surveys: Mapping[int, Survey]
) -> Mapping[int, Survey]:
    """The surveys, with `cut` for shards that a started ledger never saw and that are older than the
    service keeps logs: retention may have taken their beginning unseen."""
    unseen = {s.id: s for s in shards if s.id in surveys and s.id not in ledger.shards}
    if not (unseen and ledger.started):
        return surveys
    kept_s = client.retention_s()
    if kept_s is None:
        return surveys
    oldest_s = client.now_s() - kept_s
    return {
        shard: replace(survey, cut=shard in unseen and 0 < unseen[shard].created_s < oldest_s)
        for shard, survey in surveys.items()
    }


def _each(ask: Callable[[Shard], Survey], shards: Iterable[Shard]) -> Mapping[int, Survey]:
    def one(shard: Shard) -> Survey:
        try:
            return ask(shard)
        except ShardGone:
            return Survey(shard.id, None)

    listed = list(shards)
    with ThreadPoolExecutor(max_workers=_CALLS_PARALLEL) as pool:
        return {s.id: answer for s, answer in zip(listed, pool.map(one, listed), strict=True)}


def _cut(client: SlsClient, shard: int, span: Span, pieces: int) -> list[Span]:
    """The span cut at even times of its hour; times that resolve to the same cursor make no cut."""
    cut: list[Span] = []
    rest = span
    for piece in range(1, pieces):
        edge = client.cursor_at(shard, span.hour * HOUR_S + HOUR_S * piece // pieces)
        if rest.begin < edge < rest.end:
            cut.append(replace(rest, end=edge))
            rest = replace(rest, begin=edge)
    return [*cut, rest]


def _last_of_each_hour(marks: list[Edge]) -> tuple[Edge, ...]:
    """Pieces of one hour share its end time; only the last piece's end means the hour is done."""
    latest: dict[int, Edge] = {}
    for mark in marks:
        held = latest.get(mark.time_s)
        latest[mark.time_s] = mark if held is None or held.cursor < mark.cursor else held
    return tuple(latest[t] for t in sorted(latest))
