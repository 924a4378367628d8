"""What lanes stand on: an emulator that this process has the keys of, and lakes of their own."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.landing.table.lake import Lake
from sls_io.emulator import Emulator, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET


def new_lake(folder: Path) -> Lake:
    """A catalog and a warehouse in `folder`, which is made."""
    folder.mkdir(parents=True)
    uri, warehouse = f"sqlite:///{folder}/catalog.sqlite?timeout=30", f"file://{folder}/warehouse"
    return Lake({"type": "sql", "uri": uri, "warehouse": warehouse})


@contextmanager
def serving(*arguments: Any, **options: Any) -> Iterator[Emulator]:
    """An emulator, started with these arguments; the environment has its keys, and is put back after it."""
    before = dict(os.environ)
    os.environ["ALIBABA_CLOUD_ACCESS_KEY_ID"] = FAKE_ID
    os.environ["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = FAKE_SECRET
    os.environ.pop("ALIBABA_CLOUD_SECURITY_TOKEN", None)
    try:
        with start(*arguments, **options) as emulator:
            yield emulator
    finally:
        os.environ.clear()
        os.environ.update(before)
