"""A logstore in an emulator, opened for reading, and what the emulator itself says is in it."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from aliyun.log import log_logs_raw_pb2 as pb

from sls_io import Reader, open_logstore
from sls_io.decoding.pairs import Declared
from sls_io.emulator import Emulator

PROJECT, LOGSTORE = "demo", "logs"
HOUR0_S = 1_790_000_000 // 3600 * 3600
"""The start of a receive hour."""


def group(numbers: Iterable[int]) -> bytes:
    """A LogGroup of logs with a number and a path, made with the vendor's own classes."""
    message = pb.LogGroupRaw()
    message.Topic, message.Source = "shop", "10.0.0.1"
    tag = message.LogTags.add()
    tag.Key, tag.Value = "host", "web-1"
    for number in numbers:
        log = message.Logs.add()
        log.Time = HOUR0_S
        for key, value in (("n", str(number)), ("path", f"/p/{number % 7}")):
            content = log.Contents.add()
            content.Key, content.Value = key, value.encode()
    return bytes(message.SerializeToString())


@dataclass
class Place:
    """The emulator, a reader of its logstore, and the truth."""

    emulator: Emulator
    logs: Reader

    def put(self, *numbers: int, shard: int = 0) -> None:
        """One LogGroup of these logs into a shard of two."""
        self.logs.client.put_raw(group(numbers), key=f"{'8' if shard else '0'}" + "0" * 31)

    def truth(self, shard: int) -> list[tuple[int, int, dict[str, str]]]:
        """(cursor, index, pairs) of each stored log of a shard, from the emulator's own store."""
        found = []
        for entry in self.emulator.admin.dump(PROJECT, LOGSTORE):
            if int(entry["shard"]) != shard:
                continue
            message = pb.LogGroupRaw()
            message.ParseFromString(base64.b64decode(entry["raw"]))
            for index, log in enumerate(message.Logs):
                pairs: Mapping[str, bytes] = {c.Key: c.Value for c in log.Contents}
                found.append((int(entry["cursor"]), index, {k: v.decode() for k, v in pairs.items()}))
        return found


@contextmanager
def opened(emulator: Emulator, *, columns: Iterable[str | Declared] = ()) -> Iterator[Place]:
    """A logstore of two shards on `emulator`."""
    with open_logstore(emulator.endpoint, PROJECT, LOGSTORE, columns=columns) as logs:
        logs.client.transport.create_project(PROJECT, "")
        logs.client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=2)
        yield Place(emulator, logs)


def modules_after(code: str, *arguments: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`."""
    told = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", told, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    found: list[str] = json.loads(answer.stdout.splitlines()[-1])
    return set(found)
