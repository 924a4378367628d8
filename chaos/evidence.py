"""What the processes told that the proof needs, and everything it is made of, put together."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from chaos import history, proof
from chaos.proof import Found
from pipelines.landing.ledger.state import facts

_CURSOR_MAX = 2**62


@dataclass
class Told:
    """fills: snapshot ids that backfills sent; acked: (stream, first, count) of acknowledged puts;
    undone: (shard, begin, end) of undos that were sent; cut: LogGroups that retention removed after and
    without a landing."""

    fills: set[int] = field(default_factory=set)
    acked: list[tuple[int, int, int]] = field(default_factory=list)
    undone: list[tuple[int, int, int]] = field(default_factory=list)
    cut_landed: int = 0
    cut_past: int = 0

    def hear(self, word: str, rest: str, *, fill: bool) -> bool:
        """Keep a line if it is evidence. `fill`: a backfill told it. Whether it was."""
        if word == "put":
            k, q, count = map(int, rest.split())
            self.acked.append((k, q, count))
        elif word == "adds":
            if fill:
                self.fills.add(int(rest))
        elif word == "undo":
            for part in rest.split(","):
                shard, _, span = part.partition(":")
                begin, _, end = span.partition("-")
                self.undone.append((int(shard), int(begin), int(end)))
        elif word == "cut":
            _, landed, past = map(int, rest.split())
            self.cut_landed += landed
            self.cut_past += past
        else:
            return False
        return True


def weigh(
    table: Table,
    shards: Iterable[Mapping[str, Any]],
    dump: Iterable[Mapping[str, Any]],
    folder: Path,
    told: Told,
) -> Found:
    """The proof, of the table, the service's shards and dump, what the folder keeps and what was told."""
    brought = list(history.read(folder / history.HISTORY))
    seen = {int(line["snapshot"]) for line in brought}
    brought += history.landed_files(table, seen, folder)
    gone = {int(s["shardID"]): s for s in history.read(folder / history.SHARDS)}
    return proof.prove(
        proof.files_of(table),
        proof.shards_of({**gone, **{int(s["shardID"]): s for s in shards}}.values()),
        proof.truth_of(itertools.chain(history.read(folder / history.ARCHIVE), dump)),
        proof.Beside(
            history=proof.files_table(
                (line["path"], line["sequence"], line["snapshot"] not in told.fills)
                for line in {line["path"]: line for line in brought}.values()
            ),
            intervals=proof.intervals_table(_intervals(table, folder, told)),
            acked=proof.acked_table(told.acked),
        ),
    )


def _intervals(table: Table, folder: Path, told: Told) -> Iterator[tuple[str, int, int, int]]:
    for ledger in facts(table).ledgers.values():
        for shard, entry in ledger.shards.items():
            for gap in entry.gaps:
                yield "gap", shard, gap.begin, min(gap.end, _CURSOR_MAX)
            for begin, end in entry.withdrawn.pairs:
                yield "withdrawn", shard, begin, end
    for shard, before in history.cut_before(folder).items():
        yield "cut", shard, 0, before
    for shard, begin, end in set(told.undone):
        yield "undone", shard, begin, end
