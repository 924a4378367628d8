"""Faults, asked for and never patched in: which request they meet, how often, and what they do.

Pure: `Faults.meet` decides, the edge in `server.py` acts. A fault matches by call name, project,
logstore, shard, consumer and query (empty: any), skips the first `after` matches, then acts `times` times
(None: until removed), each with probability `chance` from its own seeded generator.

Before the call is done:  observe, hold, delay, error, drop_request
After it is done:         duplicate (done twice), hold_reply, delay_reply, drop_reply,
                          headers (replaced as named), answer (a field of the JSON replaced),
                          short (a page loses its last groups while the headers still speak of
                          all), truncate (the connection breaks inside the body)

Why the service itself has them. A client whose functions are replaced in a test proves what the test
believes of HTTP. Here the bytes on the wire are wrong, late or missing, any client in any language meets
the same, and `seen` says what it asked.
"""

import json
import random
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from sls_io.values.settings import Settings

Action = Literal[
    "observe", "hold", "delay", "error", "drop_request", "duplicate", "hold_reply", "delay_reply",
    "drop_reply", "headers", "answer", "short", "truncate",
]  # fmt: skip
HeaderName = Annotated[str, Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[\t -~\x80-\xff]*$")]
"""What HTTP can carry: anything else would break the answer, not only spoil it."""

_SEEN_MAX = 1000
_COUNT_MAX = 2**53


def _is_pattern(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        raise ValueError("not a regular expression") from None
    return text


class Wanted(Settings):
    """A request for a fault. `bytes` is what `truncate` lets through, `groups` what `short` takes.

    `query` holds patterns of query values: `{"from": "begin"}`, `{"from": "[0-9]+"}`. A header whose value
    is null is left out. `answer` replaces `field` by `value`, or with `drop` leaves it out; without `field`
    the whole answer, or the entry. In a list it acts on the entries of shard `item`, or on all.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    do: Action
    call: str = ""
    project: str = ""
    logstore: str = ""
    shard: int | None = Field(default=None, ge=0, le=_COUNT_MAX)
    consumer: str = ""
    times: int | None = Field(default=1, ge=1, le=_COUNT_MAX)
    after: int = Field(default=0, ge=0, le=_COUNT_MAX)
    chance: float = Field(default=1.0, ge=0.0, le=1.0)
    seed: int = Field(default=0, ge=-_COUNT_MAX, le=_COUNT_MAX)
    status: int = Field(default=500, ge=400, le=599)
    code: str = "InternalServerError"
    message: str = "asked for by a fault"
    delay_s: float = Field(default=0.0, ge=0.0, le=600.0)
    headers: dict[HeaderName, HeaderValue | None] = Field(default_factory=dict)
    query: dict[str, Annotated[str, AfterValidator(_is_pattern)]] = Field(default_factory=dict)
    field: str = ""
    item: int | None = None
    value: Any = None
    drop: bool = False
    bytes: int = Field(default=0, ge=0, le=_COUNT_MAX)
    groups: int = Field(default=1, ge=1, le=_COUNT_MAX)


@dataclass(slots=True)
class Fault:
    """A fault in force or used up. `hits` counts how often it acted; `seen` remembers the last ones."""

    id: int
    wanted: Wanted
    hits: int = 0
    matches: int = 0
    seen: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_SEEN_MAX))
    dice: random.Random = field(default_factory=random.Random)

    @property
    def spent(self) -> bool:
        """Whether it will never act again."""
        return self.wanted.times is not None and self.hits >= self.wanted.times

    def doc(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "id": self.id, "hits": self.hits, "spent": self.spent, "seen": list(self.seen),
            **self.wanted.model_dump(exclude_defaults=True),
        }  # fmt: skip


class Faults:
    """All faults, in the order they were asked for."""

    def __init__(self) -> None:
        self.all: dict[int, Fault] = {}
        self._next = 1

    def add(self, wanted: Wanted) -> Fault:
        """Put a fault in force."""
        fault = Fault(self._next, wanted, dice=random.Random(wanted.seed))
        self.all[fault.id] = fault
        self._next += 1
        return fault

    def remove(self, fault: int | None = None) -> list[Fault]:
        """Take one out of force, or all."""
        gone = [f for f in self.all.values() if fault in (None, f.id)]
        for each in gone:
            del self.all[each.id]
        return gone

    def meet(self, facts: Mapping[str, Any]) -> list[Fault]:
        """The faults that act on this request, counted. `facts`: call, project, logstore, shard, consumer.

        What a fault names must fit, and what it leaves open fits all. `after` counts requests that fit before
        it acts, `chance` throws a die of the fault's own seed, so a test's faults fall the same each time.

        Worked example: a fault on pull_logs with `after=1` and `times=2` lets the first pull pass, meets
        the second and third, and is spent. With `chance=0.5`, `seed=7` and no end it meets requests 1, 2,
        4, 6 and 7 of eight, in each run; with `times=2` only 1 and 2.
        """
        if not self.all:
            return []
        met = []
        for fault in self.all.values():
            wanted = fault.wanted
            named = (("call", wanted.call), ("project", wanted.project), ("logstore", wanted.logstore),
                     ("consumer", wanted.consumer), ("shard", wanted.shard))  # fmt: skip
            if fault.spent or any(
                value not in ("", None) and facts.get(key) != value for key, value in named
            ):
                continue
            asked = facts.get("query", {})
            if not all(re.fullmatch(text, asked.get(key, "")) for key, text in wanted.query.items()):
                continue
            fault.matches += 1
            if fault.matches > wanted.after and fault.dice.random() < wanted.chance:
                fault.hits += 1
                fault.seen.append(dict(facts))
                met.append(fault)
        return met


def rewritten(body: bytes, wanted: Wanted) -> bytes:
    """The JSON answer as an `answer` fault wants it.

    Of a list, the entry with the shard `item`, or each of them, or, without `item` and `field`, the list
    itself; of an object, the whole. A `field` is put in, or taken out with `drop`; without one, all of the
    entry is.

    Worked example: ListShards answers shards 0 and 1. `field="status", value="readonly", item=1` closes
    shard 1 in this answer alone; `item=1, drop=True` leaves it out, as a node of the service that was
    restored from a copy would. A heartbeat's `[0, 1]` becomes `[0]` with `item=1, drop=True`, and `[]` with
    `value=[]`.
    """
    answer = json.loads(body) if body else None
    if not isinstance(answer, list):
        return json.dumps(_changed(answer, wanted)).encode()
    if wanted.item is None and not wanted.field:
        return json.dumps(None if wanted.drop else wanted.value).encode()
    made = []
    for entry in answer:
        number = entry.get("shardID", entry.get("shard")) if isinstance(entry, dict) else entry
        mine = wanted.item in (None, number)
        if not (mine and wanted.drop and not wanted.field):
            made.append(_changed(entry, wanted) if mine else entry)
    return json.dumps(made).encode()


def _changed(entry: Any, wanted: Wanted) -> Any:
    if not wanted.field:
        return None if wanted.drop else wanted.value
    if not isinstance(entry, dict):
        return entry
    rest = {key: value for key, value in entry.items() if key != wanted.field}
    return rest if wanted.drop else {**rest, wanted.field: wanted.value}
