"""A program: the vendor's ConsumerWorker, unmodified, telling on stdout what it was given.

Arguments: project, logstore, group, consumer, order (0 or 1), where a group without checkpoints starts
(`begin`, `end` or unix seconds). The emulator is its HTTP proxy, named
by `http_proxy`. A line `log SHARD KEY NUMBER` per log; it leaves gracefully, and says `left`, when
standard input closes.
"""

import sys

from aliyun.log.consumer import ConsumerProcessorBase, ConsumerWorker, CursorPosition, LogHubConfig

from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET

TIMEOUT_S = 6


def say(*words: object) -> None:
    """One line, at once."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Teller(ConsumerProcessorBase):
    """Prints each log, then saves the checkpoint at once."""

    def process(self, log_groups, tracker):  # type: ignore[no-untyped-def]
        for group in log_groups.LogGroups:
            for log in group.Logs:
                pairs = {c.Key: c.Value for c in log.Contents}
                say("log", self.shard_id, pairs["key"], pairs["n"])
        tracker.save_check_point(True)


def main() -> None:
    """Consume until standard input closes."""
    project, logstore, group, consumer, order, start = sys.argv[1:]
    position = {"begin": CursorPosition.BEGIN_CURSOR, "end": CursorPosition.END_CURSOR}
    config = LogHubConfig(
        "http://sls.emu", FAKE_ID, FAKE_SECRET, project, logstore, group, consumer,
        cursor_position=position.get(start, CursorPosition.SPECIAL_TIMER_CURSOR), cursor_start_time=start,
        heartbeat_interval=1, data_fetch_interval=1, in_order=order == "1",
    )  # fmt: skip
    config.consumer_group_time_out = TIMEOUT_S
    worker = ConsumerWorker(Teller, config)
    worker.start()
    say("started")
    sys.stdin.read()
    worker.shutdown()
    worker.join(timeout=120)
    say("left")


if __name__ == "__main__":
    main()
