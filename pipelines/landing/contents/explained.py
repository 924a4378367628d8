"""Whether a ledger explains the rows of a table: as many, with the same identity sums, in every shard.

Files that cannot be read stand beside the counts. A ledger is accepted when it explains all other rows, and
knows exactly as many more as these files held. What to do about the files is named once the table has a
ledger again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.cells import Cells, Shown, Tally, count, edges, partition_origin
from pipelines.landing.ledger.reading import bounds, tasks_of
from pipelines.landing.ledger.values import Adopted, Count, Key
from sls_io.values.claim import SUM_MODULUS, Ledger, ShardLedger
from sls_io.values.errors import ConfigError
from sls_io.values.window import Cursor

_IDENTITY = ("__origin__", "__shard__", "__cursor__", "__index__")


@dataclass(frozen=True)
class LostFile:
    """A data file of `origin` that is gone or damaged. It held `rows` rows of `shards`; None: the table does
    not say of which shards."""

    origin: str
    path: str
    rows: int
    shards: range | None

    @property
    def name(self) -> str:
        """The file's name, without its folders."""
        return self.path.rsplit("/", 1)[-1]

    def may_hold(self, shard: int) -> bool:
        """Whether rows of this shard may have been in it."""
        return self.shards is None or shard in self.shards


def known_of(ledger: Ledger, adopted: Adopted, shard: int) -> Count:
    """Rows and identity sum of a shard that its ledger and what was adopted before say. Pure."""
    entry = ledger.shards.get(shard) or ShardLedger(Cursor(0))
    rows, total = adopted.of(ledger.origin, shard)
    return entry.rows + rows, (entry.sum + total) % SUM_MODULUS


def unlike(ledger: Ledger, adopted: Adopted, tallies: Mapping[Key, Tally]) -> dict[int, tuple[Tally, Count]]:
    """The shards that hold other rows than are known: what is there, and what is known. Pure."""
    mine = {shard for origin, shard in {*tallies, *adopted.shards} if origin == ledger.origin}
    found = {}
    for shard in sorted({*ledger.shards, *mine}):
        there, known = tallies.get((ledger.origin, shard), Tally()), known_of(ledger, adopted, shard)
        if (there.rows, there.sum) != known:
            found[shard] = there, known
    return found


@dataclass(frozen=True)
class Compared:
    """Rows by origin and shard, held against ledgers; data files whose rows could not be counted; and the
    cells of the others."""

    tallies: Mapping[Key, Tally]
    lost: tuple[LostFile, ...] = ()
    files: Mapping[Shown, Cells] = field(default_factory=dict)

    def proves(self, ledger: Ledger, adopted: Adopted) -> bool:
        """Whether the table holds of this origin exactly the rows that the ledger and what was adopted
        before say: as many, with the same identity sum, in every shard.

        For shards with rows in lost files only the number is compared, lost rows included, and that none is
        behind what has landed: it would land again. The files stay as they are; what to do about them is
        named once the table has a ledger.

        Worked example: the ledger knows 30 rows of shard 2, 20 can be counted, and one file cannot be read
        that held 10 rows of the shards 2 and 3; shard 3 lacks nothing. That is accepted: 10 are missing and
        10 are lost. With 19 rows it is not, since one more is missing than the file held. With 25 it is not
        either: 25 and the 10 of the file are 35, so 5 of them are none that the ledger knows.
        """
        files = [each for each in self.lost if each.origin == ledger.origin]
        short = 0
        for shard, (there, (rows, _)) in unlike(ledger, adopted, self.tallies).items():
            entry = ledger.shards.get(shard)
            behind = entry is not None and there.last >= max([entry.start, *(end for _, end in entry.landed)])
            if there.rows > rows or behind or not _may_hold(files, shard):
                return False
            short += rows - there.rows
        twins = (
            shard for (of, shard), tally in self.tallies.items() if of == ledger.origin and tally.doubled
        )
        return short == sum(each.rows for each in files) and not any(_may_hold(files, s) for s in twins)


def _may_hold(files: Iterable[LostFile], shard: int) -> bool:
    return any(each.may_hold(shard) for each in files)


def compare(
    table: Table, ledgers: Mapping[str, Ledger], *, tasks: Iterable[FileScanTask] | None = None
) -> Compared:
    """Count the rows of these origins, of all files of main or of `tasks`.

    Raises ConfigError for a table without identity columns, Unreadable for any other file that cannot be
    read.
    """
    if not set(_IDENTITY) <= set(table.schema().column_names):
        raise ConfigError(
            f"table {'.'.join(table.name())} lacks columns of sls-lake ({', '.join(_IDENTITY)}); land in a "
            "table of its own"
        )
    every = tasks_of(table, table.scan()) if tasks is None else tasks
    mine = [task for task in every if partition_origin(table, task.file) in {*ledgers, None}]
    counted, lost = count(table, mine, edges(ledgers.values())), list[LostFile]()
    for each in counted.lost:
        if isinstance(each.file, str) or each.file.content != DataFileContent.DATA or each.first:
            raise each
        span, owner = bounds(table, each.file, "__shard__"), partition_origin(table, each.file)
        of = range(span[0], span[1] + 1) if span is not None else None
        names = sorted(ledgers) if owner is None else [owner]
        lost += [LostFile(name, each.path, each.file.record_count, of) for name in names]
    tallies = {
        (origin, shard): there
        for origin, ledger in sorted(ledgers.items())
        for shard, there in counted.shards(ledger).items()
    }
    return Compared(tallies, tuple(lost), counted.files)
