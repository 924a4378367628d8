"""Puts numbered logs: each log says its stream `k` and its number `q` in it, so (k, q) names it for ever.

A LogGroup holds logs of one stream, and a stream has its place in the key space, so that splits and
merges move it from shard to shard. The producer's calls meet no faults but a service that is killed: a
put without an answer may be stored or not, so its numbers are never used again.
"""

import hashlib
import os
import random
from dataclasses import dataclass

from aliyun.log import log_logs_raw_pb2 as pb

from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import SlsError
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient

STREAMS = 64
COLUMNS = {"k": "int", "q": "long"}
"""Declared; the third key, `v`, is not, and lands in `__rest__`."""
_LOGS_A_GROUP = (20, 60, 100, 200, 400)
_PAUSE_S = 0.1


@dataclass(frozen=True)
class Producing:
    """How many rows a second; 0 is as fast as it goes."""

    service: Service
    seed: int
    rows_per_s: float


def value_of(k: int, q: int) -> str:
    """What stands in `v` of log (k, q)."""
    return f"{k}.{q}." + "x" * (q * 7 % 31)


def group(k: int, numbers: range, time_s: int) -> bytes:
    """A serialised LogGroup of one stream."""
    message = pb.LogGroupRaw()
    message.Topic, message.Source = "chaos", "10.0.0.1"
    for q in numbers:
        log = message.Logs.add()
        log.Time = time_s
        for name, value in (("k", str(k)), ("q", str(q)), ("v", value_of(k, q))):
            content = log.Contents.add()
            content.Key, content.Value = name, value.encode()
    return bytes(message.SerializeToString())


def place_of(k: int) -> str:
    """The stream's place in the key space, 32 hex digits."""
    return hashlib.md5(str(k).encode(), usedforsecurity=False).hexdigest()


def produce(task: Producing, fd: int) -> None:
    """Put until killed. Tells `put K Q COUNT` when logs Q to Q + COUNT - 1 of stream K are acknowledged."""
    dice, clock = random.Random(task.seed), SYSTEM_CLOCK
    following = [0] * STREAMS
    began_s, rows = clock.monotonic(), 0
    with SlsClient(task.service) as client:
        while True:
            k, count = dice.randrange(STREAMS), dice.choice(_LOGS_A_GROUP)
            numbers = range(following[k], following[k] + count)
            following[k] += count
            rows += count
            try:
                client.put_raw(group(k, numbers, int(client.now_s())), key=place_of(k))
            except SlsError:
                os.write(fd, f"not-put {k}\n".encode())
                clock.sleep(_PAUSE_S)
            else:
                os.write(fd, f"put {k} {numbers.start} {count}\n".encode())
            if task.rows_per_s:
                ahead_s = began_s + rows / task.rows_per_s - clock.monotonic()
                if ahead_s > 0:
                    clock.sleep(ahead_s)
