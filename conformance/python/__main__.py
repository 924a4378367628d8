"""`talk` or `consume`, then flags: the Python SDK's client or its group consumer.

`http_proxy` leads the made-up endpoint to the emulator. The commands stand in conformance/program.py.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections import defaultdict
from typing import Any

from aliyun.log import LogClient, LogException, LogItem, PutLogsRequest
from aliyun.log.consumer import ConsumerProcessorBase, ConsumerWorker, CursorPosition, LogHubConfig

from conformance.environment import TOKEN, key_pair
from sls_io.values.clock import SYSTEM_CLOCK

KEYS = 8
LOGS_A_GROUP = 3
GROUPS_A_PULL = 10
TRIES = 60
PAUSE_S = 0.25

_one_line = threading.Lock()


def tell(event: str, **facts: object) -> None:
    """One JSON object on a line of standard output, at once."""
    with _one_line:
        sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
        sys.stdout.flush()


def tell_logs(shard: int, groups: Any) -> None:
    """Every log: its contents, the shard, topic and source, and when (microseconds)."""
    for group in groups.LogGroups:
        for log in group.Logs:
            contents = {c.Key: c.Value for c in log.Contents}
            at = int(SYSTEM_CLOCK.now() * 1e6)
            tell("log", shard=shard, topic=group.Topic, source=group.Source, at=at, **contents)


class Talk:
    """The vendor's client, one command a line."""

    def __init__(self, flags: argparse.Namespace) -> None:
        token = os.environ.get(TOKEN) or None
        self._client = LogClient(
            flags.endpoint, *key_pair(), securityToken=token, auth_version=flags.sign, region=flags.region
        )
        self._project, self._text = flags.project, flags.text
        self._next: dict[tuple[str, str], int] = defaultdict(int)
        self._retries = 0

    def obey(self, command: str, store: str, *words: str) -> None:
        """Do one command. LogException when the service refuses it."""
        if command == "project":
            self._client.create_project(store, "")
        elif command == "store":
            self._client.create_logstore(self._project, store, ttl=1, shard_count=int(words[0]))
            self._wait_for(store)
        elif command == "put":
            self._put(store, words[0], int(words[1]), words[2])
        elif command == "read":
            self._read(store, words[0], words[1])
        elif command == "split":
            self._client.split_shard(self._project, store, int(words[0]), words[1])
        elif command == "merge":
            self._client.merge_shard(self._project, store, int(words[0]))
        else:
            raise ValueError(f"no such command: {command}")

    def run(self) -> None:
        """Obey until standard input closes."""
        for line in sys.stdin:
            try:
                self.obey(*line.split())
            except LogException as refused:
                code, message = refused.get_error_code(), refused.get_error_message()
                tell("error", status=refused.get_resp_status(), code=code, message=message)
            else:
                tell("done", retries=self._retries)

    def _wait_for(self, store: str) -> None:
        """A logstore takes calls some seconds after it was made."""
        for tried in range(1, TRIES + 1):
            try:
                for shard in self._client.list_shards(self._project, store).get_shards_info():
                    self._client.get_end_cursor(self._project, store, shard["shardID"])
            except LogException:
                if tried == TRIES:
                    raise
                SYSTEM_CLOCK.sleep(PAUSE_S)
            else:
                return

    def _put(self, store: str, prefix: str, count: int, kind: str) -> None:
        for done in range(0, count, LOGS_A_GROUP):
            for key in range(KEYS):
                name, size = f"{prefix}-{key}", min(LOGS_A_GROUP, count - done)
                first = self._next[store, name]
                logs = [self._log(name, seq) for seq in range(first, first + size)]
                # The real service takes hash keys at the lower edge of a shard too.
                request = PutLogsRequest(
                    self._project, store, prefix, "127.0.0.1", logs, f"{2 * key:x}" + "0" * 31,
                    compress=kind != "none", compress_type=kind,
                )  # fmt: skip
                self._put_once(request)
                self._next[store, name] = first + size

    def _log(self, key: str, seq: int) -> LogItem:
        return LogItem(contents=[("key", key), ("seq", str(seq)), ("text", self._text)])

    def _put_once(self, request: PutLogsRequest) -> None:
        """Put one group, again after a failure that is not a refusal."""
        for tried in range(1, TRIES + 1):
            try:
                self._client.put_logs(request)
            except LogException as failed:
                if 400 <= failed.get_resp_status() < 500 or tried == TRIES:
                    raise
                self._retries += 1
                SYSTEM_CLOCK.sleep(PAUSE_S)
            else:
                return

    def _read(self, store: str, begin: str, kind: str) -> None:
        """Tell what stands between `begin` and the end, shard by shard."""
        for shard in self._client.list_shards(self._project, store).get_shards_info():
            place = self._project, store, shard["shardID"]
            cursor = self._client.get_cursor(*place, begin).get_cursor()
            end = self._client.get_end_cursor(*place).get_cursor()
            while cursor != end:
                page = self._client.pull_logs(
                    *place, cursor, GROUPS_A_PULL, compress=kind != "none", accept_compress_type=kind
                )
                tell_logs(shard["shardID"], page.get_loggroup_list())
                cursor = page.get_next_cursor()


class Teller(ConsumerProcessorBase):
    """Tells every log it is given and saves the checkpoint after each batch."""

    def initialize(self, shard):  # type: ignore[no-untyped-def]
        """Called once for each shard."""
        super().initialize(shard)
        tell("shard", shard=shard)

    def process(self, log_groups, tracker):  # type: ignore[no-untyped-def]
        """Called with each batch."""
        tell_logs(self.shard_id, log_groups)
        tracker.save_check_point(True)


def consume(flags: argparse.Namespace) -> None:
    """The vendor's group consumer; it leaves when standard input closes or on SIGTERM."""
    position = {"begin": CursorPosition.BEGIN_CURSOR, "end": CursorPosition.END_CURSOR}
    config = LogHubConfig(
        flags.endpoint, *key_pair(), flags.project, flags.store, flags.group, flags.consumer,
        cursor_position=position.get(flags.start, CursorPosition.SPECIAL_TIMER_CURSOR),
        cursor_start_time=flags.start, heartbeat_interval=flags.heartbeat_s, data_fetch_interval=1,
        in_order=flags.order == "true", auth_version=flags.sign, region="emulated",
        accept_compress_type=flags.compress,
    )  # fmt: skip
    config.consumer_group_time_out = flags.timeout_s
    worker = ConsumerWorker(Teller, config)
    leave = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leave.set())
    threading.Thread(target=_leave_at_end, args=(leave,), daemon=True).start()
    worker.start()
    tell("started")
    leave.wait()
    worker.shutdown()
    worker.join()


def _leave_at_end(leave: threading.Event) -> None:
    sys.stdin.read()
    leave.set()


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("do", choices=("talk", "consume"))
    parser.add_argument("--endpoint", default="http://sls.emu")
    parser.add_argument("--from", dest="start", default="begin")
    parser.add_argument("--sign", default="v1")
    parser.add_argument("--compress", default="lz4")
    parser.add_argument("--order", default="false")
    parser.add_argument("--region", default="emulated")
    parser.add_argument("--heartbeat-s", type=int, default=1)
    parser.add_argument("--timeout-s", type=int, default=6)
    for name in ("project", "store", "text", "group", "consumer"):
        parser.add_argument(f"--{name}", default="")
    flags = parser.parse_args()
    if flags.do == "consume":
        consume(flags)
    else:
        tell("started")
        Talk(flags).run()
    tell("left")


if __name__ == "__main__":
    main()
