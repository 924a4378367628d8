"""The first logs of a shard as a pandas frame, from the oldest or from a receive time on.

    python examples/peek.py PROJECT LOGSTORE SHARD [SINCE]

SINCE is a time such as 2026-11-20T08:00 (UTC). SLS_ENDPOINT and the key pair come from the environment.
"""

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from sls_io import open_logstore

LOGS = 10


def main(project: str, logstore: str, shard: str, since: str | None) -> None:
    """Show a few logs, each key a column, and what the keys hold."""
    with open_logstore(os.environ["SLS_ENDPOINT"], project, logstore) as logs:
        frame = logs.peek(int(shard), LOGS, since=since)
    keys = [name for name in frame.columns if not name.startswith("__")]
    print(frame[["__time__", *keys]].to_string(index=False))
    print(frame[keys].nunique().rename("different values").to_string())


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    for name in ("project", "logstore", "shard"):
        asked.add_argument(name)
    asked.add_argument("since", nargs="?")
    main(**vars(asked.parse_args()))
