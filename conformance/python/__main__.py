"""`talk` or `consume`, then flags: the Python SDK's client or its group consumer.

`http_proxy` leads the made-up endpoint to the emulator. The commands stand in conformance/program.py.
"""

import argparse
import os
import signal
import sys
import threading
from typing import Any

from aliyun.log import LogClient, LogException, LogItem, PutLogsRequest
from aliyun.log.consumer import ConsumerProcessorBase, ConsumerWorker, CursorPosition, LogHubConfig

from conformance.environment import TOKEN, key_pair
from conformance.telling import (
    GROUPS_A_PULL,
    PAUSE_S,
    TRIES,
    Puts,
    Refusal,
    obey,
    once,
    tell,
    tell_log,
)
from sls_io.values.clock import SYSTEM_CLOCK


def tell_logs(shard: int, groups: Any) -> None:
    """Every log of the vendor's groups."""
    for group in groups.LogGroups:
        for log in group.Logs:
            tell_log(shard, group.Topic, group.Source, {c.Key: c.Value for c in log.Contents})


def refusal(failed: Exception) -> Refusal | None:
    """What the service said; None: something else is wrong."""
    if not isinstance(failed, LogException):
        return None
    return failed.get_resp_status(), failed.get_error_code(), failed.get_error_message()


class Talk:
    """The vendor's client, one command a line."""

    def __init__(self, flags: argparse.Namespace) -> None:
        token = os.environ.get(TOKEN) or None
        self._client = LogClient(
            flags.endpoint, *key_pair(), securityToken=token, auth_version=flags.sign, region=flags.region
        )
        self._project, self._puts = flags.project, Puts(flags.text)
        self.retries = 0

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
        def put(key: str, logs: list[dict[str, str]]) -> None:
            request = PutLogsRequest(
                self._project, store, prefix, "127.0.0.1",
                [LogItem(contents=list(log.items())) for log in logs], key,
                compress=kind != "none", compress_type=kind,
            )  # fmt: skip
            self.retries += once(lambda: self._client.put_logs(request), refusal)

        self._puts.each(store, prefix, count, put)

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
        talk = Talk(flags)
        obey(talk.obey, refusal, lambda: talk.retries)
    tell("left")


if __name__ == "__main__":
    main()
