"""What retention, compaction and expiry take away, kept where the proof finds it: files beside the table.

    history.jsonl   each data file that a landing brought, with the sequence number of its commit; a hard
                    link in landed/ keeps its content when compaction and the sweep have done their work
    archive.jsonl   each LogGroup that retention is about to remove, as the service's dump gave it
    cuts.jsonl      each act of retention, written before it is done: shard, the cursor before which all goes
    shards.jsonl    each shard that retention is about to remove, as the service listed it

Every line is written whole, and before the act it names.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from pipelines.landing.ledger.newest_landing import added_entries

HISTORY, ARCHIVE, CUTS, SHARDS = "history.jsonl", "archive.jsonl", "cuts.jsonl", "shards.jsonl"
LANDED = "landed"


def landed_files(table: Table, seen: set[int], folder: Path) -> Iterator[dict[str, Any]]:
    """Lines of files that the appends among the table's snapshots brought, but for those of `seen`.

    Each is linked into the folder, and the snapshots are `seen` from now on.
    """
    links = folder / LANDED
    links.mkdir(exist_ok=True)
    for snapshot in table.metadata.snapshots:
        operation = snapshot.summary.operation if snapshot.summary else None
        if snapshot.snapshot_id in seen or operation is not Operation.APPEND:
            continue
        seen.add(snapshot.snapshot_id)
        for entry in added_entries(table, snapshot):
            path = Path(entry.data_file.file_path.removeprefix("file://"))
            link = links / path.name
            if not link.exists():
                os.link(path, link)
            yield {
                "path": str(link),
                "sequence": snapshot.sequence_number,
                "snapshot": snapshot.snapshot_id,
            }


def write(path: Path, lines: Collection[Mapping[str, Any]]) -> None:
    """Add lines; they are in the file when this returns, whatever happens to the process."""
    if lines:
        with path.open("ab", buffering=0) as file:
            file.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines; none without the file. A last line that a kill tore is none."""
    if path.exists():
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)


def cut_before(folder: Path) -> dict[int, int]:
    """Shard -> the cursor before which retention removed everything."""
    found: dict[int, int] = {}
    for line in read(folder / CUTS):
        found[line["shard"]] = max(line["before"], found.get(line["shard"], 0))
    return found
