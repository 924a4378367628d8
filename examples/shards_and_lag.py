"""Every shard of a logstore, and how far a consumer group is behind in it.

    python examples/shards_and_lag.py PROJECT LOGSTORE GROUP

SLS_ENDPOINT and the key pair come from the environment; beside a running `make dev`: `. var/dev/env`.
"""

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from sls_io import open_logstore


def main(project: str, logstore: str, group: str) -> None:
    """One line a shard, the most behind first."""
    with open_logstore(os.environ["SLS_ENDPOINT"], project, logstore) as logs:
        shards = logs.shards(group)
    for shard in sorted(shards, key=lambda s: -(s.lag_s or 0)):
        behind = "cannot be told" if shard.lag_s is None else f"{shard.lag_s:.0f} s behind"
        print(f"shard {shard.id}  {shard.status:9}  {behind:16}  {shard.holder or 'nobody'}")


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    for name in ("project", "logstore", "group"):
        asked.add_argument(name)
    main(**vars(asked.parse_args()))
