"""What a table says of itself, as pandas frames: what landed when, how far it is, what is missing.

    python examples/ledger_frame.py pipelines/defs/access_logs/defs.yaml

The catalog and the keys are those of every verb; beside a running `make dev`: `. var/dev/env`.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter

from pipelines.landing.inspection.frames import open_ledger


def main(defs: str) -> None:
    """Rows by receive hour, the shard that is most behind, and the gaps."""
    ledger = open_ledger(defs)
    windows = ledger.windows()
    print(windows[windows["in_table"]].groupby("receive_hour")[["rows", "raw_bytes"]].sum().to_string())
    behind = ledger.lag().sort_values("lag_s", ascending=False).iloc[0]
    print(f"shard {behind['shard']} is {behind['lag_s']:.0f} s behind")
    gaps = ledger.gaps()
    print("no gap" if gaps.empty else gaps.to_string(index=False))


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    asked.add_argument("defs")
    main(**vars(asked.parse_args()))
