"""Whether a ledger explains the rows of a table: as many, with the same identity sums, in every shard.

Files that cannot be read stand beside the counts. A ledger is accepted when it explains all other rows, and
knows exactly as many more as these files held. What to do about the files is named once the table has a
ledger again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.contents.tally import Tally
from pipelines.landing.contents.tally import tally as tally_of
from pipelines.landing.ledger.reading import bounds
from pipelines.landing.ledger.values import Adopted
from sls_io.values.claim import SUM_MODULUS, Ledger, ShardLedger
from sls_io.values.errors import ConfigError
from sls_io.values.window import Cursor

Key = tuple[str, int]
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


def tally(
    table: Table, ledgers: Mapping[str, Ledger], *, tasks: Collection[FileScanTask] | None = None
) -> tuple[dict[Key, Tally], list[LostFile]]:
    """Rows of these origins by (origin, shard), compared with their ledgers, and the data files whose rows
    could not be counted. Looks at all files of main, or at `tasks`.

    Raises ConfigError for a table without identity columns, Unreadable for any other file that cannot be
    read.
    """
    name = ".".join(table.name())
    if not set(_IDENTITY) <= set(table.schema().column_names):
        raise ConfigError(
            f"table {name} lacks columns of sls-lake ({', '.join(_IDENTITY)}); land in a table of its own"
        )
    found: dict[Key, Tally] = {}
    lost: list[LostFile] = []
    for origin, ledger in sorted(ledgers.items()):
        shards, wrong = tally_of(table, origin, ledger, tasks=tasks)
        for each in wrong:
            if isinstance(each.file, str) or each.file.content != DataFileContent.DATA or each.first:
                raise each
            span = bounds(table, each.file, "__shard__")
            of = range(span[0], span[1] + 1) if span is not None else None
            lost.append(LostFile(origin, each.path, each.file.record_count, of))
        found |= {(origin, shard): each for shard, each in shards.items()}
    return found, lost


def holds(there: Tally, entry: ShardLedger, adopted: tuple[int, int]) -> bool:
    """Whether these are the rows of a shard that its ledger and its `adopted` rows (rows, identity sum) say.
    Pure."""
    rows, total = adopted
    return (there.rows, there.sum) == (entry.rows + rows, (entry.sum + total) % SUM_MODULUS)


def proves(
    ledger: Ledger, adopted: Adopted, tallies: Mapping[Key, Tally], lost: Collection[LostFile] = ()
) -> bool:
    """Whether the table holds of this origin exactly the rows that the ledger and what was adopted
    before say: as many, with the same identity sum, in every shard. Pure.

    For shards with rows in `lost` files only the number is compared, lost rows included. The files stay as
    they are; what to do about them is named once the table has a ledger.
    """
    mine = {shard for origin, shard in {*tallies, *adopted.shards} if origin == ledger.origin}
    files = [each for each in lost if each.origin == ledger.origin]
    short = 0
    for shard in {*ledger.shards, *mine}:
        entry = ledger.shards.get(shard) or ShardLedger(Cursor(0))
        before = adopted.of(ledger.origin, shard)
        there = tallies.get((ledger.origin, shard), Tally())
        if any(each.may_hold(shard) for each in files):
            if there.rows > entry.rows + before[0] or there.doubled:
                return False
            short += entry.rows + before[0] - there.rows
        elif not holds(there, entry, before):
            return False
    return short == sum(each.rows for each in files)
