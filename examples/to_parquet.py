"""All logs that were received in a window of time, of all shards, into one Parquet file.

    python examples/to_parquet.py PROJECT LOGSTORE SINCE UNTIL FILE

Times such as 2026-11-20T08:00 are UTC, the window is half-open. The file has its name only when it is
whole: what could not be read is an error. SLS_ENDPOINT and the key pair come from the environment.
"""

import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

import pyarrow.parquet as pq

from sls_io import open_logstore


def main(project: str, logstore: str, since: str, until: str, file: str) -> None:
    """Write next to the place, then move."""
    rows, unfinished = 0, Path(f"{file}.unfinished")
    with (
        open_logstore(os.environ["SLS_ENDPOINT"], project, logstore, columns=["status"]) as logs,
        pq.ParquetWriter(unfinished, logs.schema, compression="zstd") as parquet,
    ):
        for shard in logs.shards():
            for batch in logs.batches(shard.id, since=since, until=until):
                parquet.write_batch(batch)
                rows += batch.num_rows
    unfinished.replace(file)
    print(f"{rows} logs in {file}")


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    for name in ("project", "logstore", "since", "until", "file"):
        asked.add_argument(name)
    main(**vars(asked.parse_args()))
