"""Every single wrong answer of the service: call by call, field by field, as faults of the emulator.

A lie is one answer, wrong in one way. What it says is taken from what is true at the moment: a cursor
that is too high is a little behind the end, one of another shard is that shard's.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DAY_S = 86_400
CODES = (
    (404, "ShardNotExist"),
    (400, "ShardNotExist"),
    (400, "InvalidCursor"),
    (404, "LogStoreNotExist"),
    (404, "ProjectNotExist"),
    (404, "ConsumerGroupNotExist"),
    (404, "ConsumerNotExist"),
    (400, "ConsumerNotMatch"),
    (400, "NotExistConsumerWithBody"),
    (400, "ParameterInvalid"),
    (403, "ReadQuotaExceed"),
    (403, "Unauthorized"),
    (500, "InternalServerError"),
    (404, ""),
)
DROPPED: Any = object()


@dataclass(frozen=True)
class Lie:
    """One wrong answer: `name` says what is wrong; `faults` are all its parts, in force once."""

    call: str
    what: str
    faults: tuple[Mapping[str, Any], ...]

    @property
    def name(self) -> str:
        """Call, and what is wrong."""
        return f"{self.call}: {self.what}"


@dataclass(frozen=True)
class Facts:
    """What is true now: shard -> (begin, end) of those that are listed, time, first id that is free."""

    shards: Mapping[int, tuple[int, int]]
    now_s: int
    created_s: int
    free: int = field(default=99)


def wire(cursor: int) -> str:
    """A cursor as the service writes it."""
    return base64.b64encode(str(cursor).encode()).decode()


def all_lies(facts: Facts) -> Iterator[Lie]:
    """Every wrong answer there is, of every call that a landing makes."""
    for shard in sorted(facts.shards):
        yield from _cursors(facts, shard)
        yield from _times(facts, shard)
        yield from _pages(facts, shard)
    yield from _lists(facts)
    yield from _logstore(facts)
    yield from _group(facts)
    yield from _dates(facts)
    yield from _errors(facts)


def _answer(call: str, what: str, value: Any, **aimed: Any) -> Lie:
    said = {"drop": True} if value is DROPPED else {"value": value}
    return Lie(call, what, ({"do": "answer", "call": call, **said, **aimed},))


_SHAPES: Mapping[str, Any] = {"null": None, "a list": [], "an object": {}, "a text": "no", "a number": 7}


def _field(call: str, name: str, values: Mapping[str, Any], **aimed: Any) -> Iterator[Lie]:
    shard = f" of shard {aimed['shard']}" if "shard" in aimed else ""
    for what, value in {"missing": DROPPED, **_SHAPES, **values}.items():
        yield _answer(call, f"{name}{shard} is {what}", value, field=name, **aimed)


def _near(facts: Facts, shard: int) -> dict[str, int]:
    """Cursors that are wrong in each way."""
    begin, end = facts.shards[shard]
    others = [edge for s, edges in facts.shards.items() if s != shard for edge in edges]
    return {
        "zero": 0,
        "too low": max(0, begin - 3),
        "the begin": begin,
        "in the middle": (begin + end) // 2,
        "one before the end": max(begin, end - 1),
        "the end": end,
        "too high": end + 5,
        "far too high": 10**30,
        **{f"that of another shard, {n}": cursor for n, cursor in enumerate(sorted(set(others)))},
    }


def _cursors(facts: Facts, shard: int) -> Iterator[Lie]:
    values = {what: wire(cursor) for what, cursor in _near(facts, shard).items()}
    for other, edges in sorted(facts.shards.items()):
        if other > shard:
            swapped = [
                {"do": "answer", "call": "get_cursor", "field": "cursor", "value": wire(cursor), **aimed}
                for s, (begin, end) in ((shard, edges), (other, facts.shards[shard]))
                for asked, cursor in (("begin", begin), ("end", end))
                for aimed in ({"shard": s, "query": {"from": asked}},)
            ]
            yield Lie("get_cursor", f"edges of shards {shard} and {other} are swapped", tuple(swapped))
    values |= {"no cursor": "!!", "a minus": base64.b64encode(b"-1").decode(), "empty": ""}
    for asked in ("begin", "end", "[0-9]+"):
        for lie in _field("get_cursor", "cursor", values, shard=shard, query={"from": asked}):
            yield Lie(lie.call, f"{lie.what}, from={asked}", lie.faults)


def _times(facts: Facts, shard: int) -> Iterator[Lie]:
    hours = {f"{h:+d} h": facts.now_s + h * 3600 for h in (-800, -26, -2, -1, 1, 2, 26)}
    values = {"zero": 0, "minus one": -1, "now": facts.now_s, "10^15": 10**15, **hours}
    yield from _field("get_cursor_time", "cursor_time", values, shard=shard)


def _pages(facts: Facts, shard: int) -> Iterator[Lie]:
    near = _near(facts, shard)
    texts = {"missing": None, "empty": "", "a word": "x y", "minus one": "-1", "zero": "0", "one": "1"}
    headers: dict[str, dict[str, str | None]] = {
        "x-log-cursor": {**texts, **{what: wire(cursor) for what, cursor in near.items()}},
        "x-log-count": {**texts, "too high": "77", "huge": str(10**20)},
        "x-log-bodyrawsize": {**texts, "too high": "99999", "huge": str(10**20)},
        "x-log-compresstype": {"missing": None, "zstd": "zstd", "deflate": "deflate", "unheard of": "rot13"},
        "x-log-read-last-cursor": {**texts, **{what: str(cursor) for what, cursor in near.items()}},
    }
    aimed = {"call": "pull_logs", "shard": shard}
    for name, values in headers.items():
        for what, value in values.items():
            one = {"do": "headers", **aimed, "headers": {name: value}}
            yield Lie("pull_logs", f"{name} of shard {shard} is {what}", (one,))
    empty = {"do": "short", **aimed, "groups": 1000}
    for what, more in _EMPTY_PAGES.items():
        for after, cursor in near.items():
            said = {"x-log-cursor": wire(cursor), **more}
            lie = ({"do": "headers", **aimed, "headers": said}, empty)
            yield Lie("pull_logs", f"page of shard {shard} is {what}, next is {after}", lie)
    yield Lie("pull_logs", f"page of shard {shard} lost a group", ({"do": "short", **aimed},))
    yield Lie("pull_logs", f"page of shard {shard} lost all groups", (empty,))
    yield Lie("pull_logs", f"page of shard {shard} is cut", ({"do": "truncate", **aimed, "bytes": 20},))


_EMPTY_PAGES: Mapping[str, Mapping[str, str | None]] = {
    "empty": {"x-log-count": "0"},
    "empty, without a last cursor": {"x-log-count": "0", "x-log-read-last-cursor": None},
}


def _lists(facts: Facts) -> Iterator[Lie]:
    for what, value in {**_SHAPES, "a list of numbers": [1, 2]}.items():
        yield _answer("list_shards", f"the answer is {what}", value)
    for shard in sorted(facts.shards):
        yield _answer("list_shards", f"shard {shard} is left out", DROPPED, item=shard)
        other = next((s for s in sorted(facts.shards) if s != shard), facts.free)
        fields: dict[str, dict[str, Any]] = {
            "shardID": {"another's": other, "unheard of": facts.free, "minus one": -1},
            "status": {"readonly": "readonly", "readwrite": "readwrite", "unheard of": "busy"},
            "inclusiveBeginKey": {"the lowest": "0" * 32, "the highest": "f" * 32, "no key": "key"},
            "exclusiveEndKey": {"the lowest": "0" * 32, "the highest": "f" * 32, "no key": "key"},
            "createTime": {"zero": 0, "minus one": -1, "now": facts.now_s, "old": 1, "10^15": 10**15},
        }
        for name, values in fields.items():
            for lie in _field("list_shards", name, values, item=shard):
                yield Lie(lie.call, f"{lie.what}, shard {shard}", lie.faults)


def _logstore(facts: Facts) -> Iterator[Lie]:
    for what, value in _SHAPES.items():
        yield _answer("get_logstore", f"the answer is {what}", value)
    created = {"zero": 0, "minus one": -1, "a second off": facts.created_s + 1, "10^15": 10**15}
    yield from _field("get_logstore", "createTime", created)
    days = {"zero": 0, "minus one": -1, "one": 1, "for ever": 3650, "10^15": 10**15}
    yield from _field("get_logstore", "ttl", days)


def _group(facts: Facts) -> Iterator[Lie]:
    shards = sorted(facts.shards)
    for call in ("heartbeat", "get_checkpoints", "list_groups", "create_group", "save_checkpoint"):
        for what, value in _SHAPES.items():
            yield _answer(call, f"the answer is {what}", value)
    for what, held in {"one unheard of": [facts.free], "all": shards, "texts": ["0"], "minus": [-1]}.items():
        yield _answer("heartbeat", f"the answer is {what}", held)
    for shard in shards:
        yield _answer("heartbeat", f"shard {shard} is left out", DROPPED, item=shard)
        yield _answer("get_checkpoints", f"shard {shard} is left out", DROPPED, item=shard)
        values = {what: wire(cursor) for what, cursor in _near(facts, shard).items()}
        for name, said in (
            ("checkpoint", {**values, "empty": "", "no cursor": "!!"}),
            ("shard", {"unheard of": facts.free, "minus one": -1}),
            ("consumer", {"somebody else": "other"}),
            ("updateTime", {"zero": 0, "minus one": -1}),
        ):
            for lie in _field("get_checkpoints", name, said, item=shard):
                yield Lie(lie.call, f"{lie.what}, shard {shard}", lie.faults)
    yield from _field("list_groups", "timeout", {"zero": 0, "minus one": -1, "10^15": 10**15})
    yield from _field("list_groups", "order", {"false": False, "true": True})
    yield from _field("list_groups", "name", {"another's": "other"})


def _dates(facts: Facts) -> Iterator[Lie]:
    dates = {
        "missing": None,
        "no date": "yesterday",
        "the beginning": "Thu, 01 Jan 1970 00:00:00 GMT",
        "last year": "Sun, 21 Sep 2025 00:00:00 GMT",
        "next year": "Tue, 21 Sep 2027 00:00:00 GMT",
        "the end": "Fri, 31 Dec 9999 23:59:59 GMT",
    }
    for call in ("get_logstore", "list_shards", "get_cursor", "heartbeat"):
        for what, date in dates.items():
            one = {"do": "headers", "call": call, "headers": {"Date": date}}
            yield Lie(call, f"Date is {what}", (one,))


_CALLS = (
    *("get_cursor", "get_cursor_time", "pull_logs", "list_shards", "get_logstore", "heartbeat"),
    *("get_checkpoints", "list_groups", "create_group", "save_checkpoint"),
)


def _errors(facts: Facts) -> Iterator[Lie]:
    for call in _CALLS:
        for status, code in CODES:
            one = {"do": "error", "call": call, "status": status, "code": code}
            yield Lie(call, f"answered {status} {code or 'without a code'}", (one,))
