"""A program: the vendor's ConsumerWorker, unmodified, telling on stdout what it was given.

Arguments: project, logstore, group, consumer, order (0 or 1). The emulator is its HTTP proxy, named
by `http_proxy`. A line `log SHARD KEY NUMBER` per log; it leaves gracefully, and says `left`, when
standard input closes.
"""

import sys

from aliyun.log.consumer import ConsumerProcessorBase, ConsumerWorker, LogHubConfig

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
    project, logstore, group, consumer, order = sys.argv[1:]
    config = LogHubConfig(
        "http://sls.emu", FAKE_ID, FAKE_SECRET, project, logstore, group, consumer,
        heartbeat_interval=1, data_fetch_interval=1, in_order=order == "1",
    )  # fmt: skip
    config.consumer_group_time_out = TIMEOUT_S
    worker = ConsumerWorker(Teller, config)
    worker.start()
    say("started")
    sys.stdin.read()
    worker.shutdown()
    worker.join(timeout=20)
    say("left")


if __name__ == "__main__":
    main()
