"""Share the shards of a logstore with other processes, and go on where the group was left.

    python examples/hold_and_process.py PROJECT LOGSTORE GROUP HOLDER

Start it as often as you like, each with a HOLDER of its own: the service deals the shards out. The
checkpoint comes after the work, so a process that dies in between does that work again and loses none.
SLS_ENDPOINT and the key pair come from the environment.
"""

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter

from sls_io import Group, open_logstore


def main(project: str, logstore: str, group: str, holder: str) -> None:
    """Count the values of `status` in what came since the last time."""
    counts: Counter[str] = Counter()
    with (
        open_logstore(os.environ["SLS_ENDPOINT"], project, logstore, columns=["status"]) as logs,
        logs.hold(Group(name=group, holder=holder)) as held,
    ):
        for shard in sorted(held.shards):
            for rows in held.rows(shard):
                counts.update(rows.batch["status"].to_pylist())
                if rows.next is not None:
                    held.checkpoint(shard, rows.next)
        print(f"{holder} held {sorted(held.shards)}: {dict(sorted(counts.items()))}")


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    for name in ("project", "logstore", "group", "holder"):
        asked.add_argument(name)
    main(**vars(asked.parse_args()))
