"""What must hold of the logs that consumers were given. Values in, sentences out; no sentence: it holds."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

KEYS = 8
_SHOWN = 3

Logs = Iterable[Mapping[str, Any]]


def expected(counts: Mapping[str, int], begin: int = 0) -> set[tuple[str, int]]:
    """(key, seq) of all that was put: `counts` logs of each key of each prefix, from `begin` on."""
    return {
        (f"{prefix}-{key}", seq)
        for prefix, count in counts.items()
        for key in range(KEYS)
        for seq in range(begin, count)
    }


def seen(logs: Logs) -> Counter[tuple[str, int]]:
    """How often each (key, seq) was given."""
    return Counter((str(log["key"]), int(log["seq"])) for log in logs)


def problems(
    logs: Logs, wanted: set[tuple[str, int]], text: str, *, order: bool = False, once: bool = True
) -> list[str]:
    """Everything wanted arrived unchanged and nothing else; `once`: not twice; `order`: per key in order."""
    logs = list(logs)
    counts = seen(logs)
    found = [
        *_some("missing", wanted - counts.keys()),
        *_some("unexpected", counts.keys() - wanted),
        *_some("changed", {str(log["key"]) for log in logs if _changed(log, text)}),
    ]
    if once:
        found += _some("twice", {each for each, n in counts.items() if n > 1})
    if order:
        found += _some("out of order", _out_of_order(logs))
    return found


def _changed(log: Mapping[str, Any], text: str) -> bool:
    """Topic, source and text are as the programs put them."""
    prefix = str(log["key"]).rpartition("-")[0]
    return (log["topic"], log["source"], log["text"]) != (prefix, "127.0.0.1", text)


def _out_of_order(logs: Logs) -> set[str]:
    """Keys whose first arrivals do not come in order of their numbers, over all consumers."""
    arrivals: dict[str, list[int]] = defaultdict(list)
    first: set[tuple[str, int]] = set()
    for log in sorted(logs, key=lambda line: line["at"]):
        each = str(log["key"]), int(log["seq"])
        if each not in first:
            first.add(each)
            arrivals[each[0]].append(each[1])
    return {key for key, numbers in arrivals.items() if numbers != sorted(numbers)}


def _some(word: str, which: set[Any]) -> list[str]:
    if not which:
        return []
    shown = ", ".join(map(str, sorted(which)[:_SHOWN]))
    return [f"{len(which)} {word}: {shown}{' ...' if len(which) > _SHOWN else ''}"]
