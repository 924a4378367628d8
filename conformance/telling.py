"""What the programs in Python share: one JSON object a line out, one command a line in."""

import json
import sys
import threading
from collections.abc import Callable, Mapping

from sls_io.values.clock import SYSTEM_CLOCK

KEYS = 8
LOGS_A_GROUP = 3
GROUPS_A_PULL = 10
TRIES = 60
PAUSE_S = 0.25

_one_line = threading.Lock()

Refusal = tuple[int, str, str]
"""Status, code and message of a refusal by the service; status 0: there was no answer."""


def tell(event: str, **facts: object) -> None:
    """One JSON object on a line of standard output, at once."""
    with _one_line:
        sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
        sys.stdout.flush()


def tell_log(shard: int, topic: str, source: str, contents: Mapping[str, str]) -> None:
    """A log: its contents, the shard, topic and source, and when (microseconds)."""
    tell("log", shard=shard, topic=topic, source=source, at=int(SYSTEM_CLOCK.now() * 1e6), **contents)


class Puts:
    """The logs of `put`: numbered on for each logstore and key, three a group, each key to its shard."""

    def __init__(self, text: str) -> None:
        self._text, self._next = text, dict[tuple[str, str], int]()

    def each(
        self, store: str, prefix: str, count: int, put: Callable[[str, list[dict[str, str]]], None]
    ) -> None:
        """Call `put` with a hash key and the contents of the logs of each group."""
        for done in range(0, count, LOGS_A_GROUP):
            for key in range(KEYS):
                name = f"{prefix}-{key}"
                first, size = self._next.get((store, name), 0), min(LOGS_A_GROUP, count - done)
                seqs = range(first, first + size)
                # The real service takes hash keys at the lower edge of a shard too.
                put(f"{2 * key:x}" + "0" * 31, [self._log(name, seq) for seq in seqs])
                self._next[store, name] = first + size

    def _log(self, key: str, seq: int) -> dict[str, str]:
        return {"key": key, "seq": str(seq), "text": self._text}


def once(send: Callable[[], object], refusal: Callable[[Exception], Refusal | None]) -> int:
    """Send, again after a failure that is not a refusal; how often again."""
    for tried in range(TRIES):
        try:
            send()
        except Exception as failed:
            found = refusal(failed)
            if found is None or 400 <= found[0] < 500 or tried == TRIES - 1:
                raise
            SYSTEM_CLOCK.sleep(PAUSE_S)
        else:
            return tried
    return TRIES


def obey(
    command: Callable[..., None], refusal: Callable[[Exception], Refusal | None], retries: Callable[[], int]
) -> None:
    """Do what each line says until standard input closes, and answer it."""
    for line in sys.stdin:
        try:
            command(*line.split())
        except Exception as failed:
            found = refusal(failed)
            if found is None:
                raise
            tell("error", status=found[0], code=found[1], message=found[2])
        else:
            tell("done", retries=retries())
