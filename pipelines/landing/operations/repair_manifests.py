"""List the data files of lost manifests again. One commit, and no row changes.

A lost or damaged manifest is only a lost list. Its data files are still there, and the newest metadata has
the ledgers, which say what rows the table has. So the readable manifests of main stay. From the table's
folder, the files are listed again that hold exactly the rows that the ledgers know and that no manifest lists
any more (`strays.py`, `choice.py`). When main's manifest list is gone, all of the content is listed anew.

The repair is proven before it is committed: every shard's rows and identity sum, read through the very
entries that would be committed, are those of its ledger, for every logstore of the table. Otherwise nothing
is changed.

With `without_missing` rows may be missing, but there is never a row too many: the files that are there are
listed, the ledger stays, and `verify` names what brings the rest back. In a shard that does not add up, files
of hours with rows removed for good are left out: nobody could say that they hold none of the removed rows.

Why not go back to a snapshot whose manifests can be read: the data files are all there, and a rollback would
pull again what landed since, or lose what retention took. Why not list every file of the folder: it also
holds what dead runs left, what a compaction replaced and what was taken back, and listed, those rows are
there twice or are back.

Worked example: a manifest with 12 files is gone. Its shard has 100 rows in the ledger, and the manifests that
are left list 80. The folder holds 15 files that none lists: the 12, and 3 of a dead run. A choice is looked
for that holds exactly 20 rows with exactly the identity sum that is lacking; the 3 of the dead run are left
over.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents import choice, strays
from pipelines.landing.contents.cells import Tally, partition_origin
from pipelines.landing.contents.explained import Compared, compare, known_of, unlike
from pipelines.landing.ledger.place import Place, Trust, look
from pipelines.landing.ledger.reading import readable_manifests, tasks_in
from pipelines.landing.ledger.state import TableState
from pipelines.landing.ledger.values import Count, Deed, Key, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import SUM_MODULUS, Ledger
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, LedgerBroken, amount, some_of
from sls_io.wire.client import SlsClient


@dataclass(frozen=True)
class ShardListed:
    """One shard: rows that are listed as it is, rows that are listed again, rows that its ledger and what was
    adopted say."""

    origin: str
    shard: int
    rows_listed: int
    rows_again: int
    rows_known: int


@dataclass(frozen=True)
class Repair(Effect):
    """What `table repair-manifests` would do.

    lost     names of the manifests, or of the manifest list, that cannot be read
    files    how many data files are listed again, and `rows` their rows
    left     how many files of the folder are of rows that the ledger knows, and stay unlisted
    missing  rows that the ledger knows and that no file has
    """

    WHAT = "{table}: the data files of manifests that cannot be read are listed again"
    THEN = (commands.VERIFY.plus(does="proves it"),)

    table: str
    lost: tuple[str, ...]
    files: int
    rows: int
    left: int
    missing: int
    shards: tuple[ShardListed, ...]

    def said(self) -> Iterable[Note]:
        if self.missing:
            yield Note(
                f"{self.missing:,} rows are missing. Restore lost data files first if you can: this command "
                "lists them then, with what is left out for their sake",
                "loss",
            )


@dataclass(frozen=True)
class _Listed:
    """What the readable manifests list, compared with the ledgers."""

    tasks: tuple[FileScanTask, ...]
    there: Compared


def plan_repair_manifests(
    lake: Lake, logstore: Logstore, client: SlsClient, *, without_missing: bool = False
) -> Planned[Repair]:
    """Look at what listing the files of lost manifests again would do. Changes nothing.

    Raises ConfigError when no manifest of main is lost, LedgerBroken when the table cannot be trusted, or
    what the files hold is not what is missing.
    """
    place = look(lake, logstore, client, trust=Trust.SOUND)
    table, state = place.table, place.state
    manifests, lost = readable_manifests(table, place.head)
    tasks = tuple(tasks_in(table, manifests))
    found = _Listed(tasks, compare(table, _ledgers(state), tasks=tasks))
    if not lost and not any(rows > 0 for rows, _ in _wanted(state, found.there).values()):
        raise ConfigError(f"every manifest of {place.name} can be read: there is nothing to list again")
    known = strays.known(table, [each.path for each in lost])
    leaves = strays.look(table, state, [task.file.file_path for task in found.tasks], known)
    made = {stray.leaf.path: strays.entry_of(table, stray, known) for stray in leaves}
    entries = {path: entry for path, entry in made.items() if entry is not None}
    taken = _taken(place, found, [stray for stray in leaves if stray.leaf.path in entries], without_missing)
    added = tuple(entries[leaf.path] for leaf in taken)
    if not lost and not added:
        raise ConfigError(
            f"every manifest of {place.name} can be read, and no file of its folder holds the rows that are "
            "missing: there is nothing to list again"
        )
    missing = _proven(place, found, added, without_missing=without_missing)
    view = Repair(
        table=place.name,
        lost=tuple(sorted(each.path.rsplit("/", 1)[-1] for each in lost)),
        files=len(added),
        rows=sum(leaf.rows for leaf in taken),
        left=len(leaves) - len(added),
        missing=missing,
        shards=tuple(_shards(state, found, taken)),
    )
    change = authored.unchanged(place.head, state, Deed(Operation.REPAIR_MANIFESTS))
    change = replace(change, added=added, manifests=tuple(manifests))
    return Planned(view, place, change)


def _ledgers(state: TableState) -> dict[str, Ledger]:
    adopted = {origin for origin, _ in state.adopted.shards}
    return {origin: state.ledger(origin) for origin in {*state.ledgers, *state.origins, *adopted}}


def _known(state: TableState, key: Key) -> Count:
    return known_of(state.ledger(key[0]), state.adopted, key[1])


def _keys(state: TableState) -> set[Key]:
    return {(o, s) for o, ledger in state.ledgers.items() for s in ledger.shards} | set(state.adopted.shards)


def _taken(
    place: Place, found: _Listed, leaves: Collection[strays.Stray], without_missing: bool
) -> tuple[choice.Leaf, ...]:
    """The files that are listed again. Raises as `reading.py` does."""
    state = place.state
    pairs, there = strays.conflicts(place.table, leaves, found.tasks)
    wanted = _wanted(state, found.there)
    useful = [stray.leaf for stray in leaves if stray.leaf.path not in there]
    # Of a shard with rows in a file that is listed and gone nobody knows what else is missing.
    # What such a file held is part of the ledger's number and in no file that can be read. The exact sum is
    # then out of reach, and a search for it would use up its tries and find that the shard does not add up.
    free = {key for key in wanted if any(x.origin == key[0] and x.may_hold(key[1]) for x in found.there.lost)}
    chosen = choice.choose(useful, pairs, wanted, free=free)
    _check_told_apart(place, useful, pairs, chosen.taken)
    if not chosen.short or not without_missing:
        return chosen.taken
    hours = {stray.leaf.path: stray.place for stray in leaves}
    return tuple(
        leaf
        for leaf in chosen.taken
        if not (chosen.short & leaf.counts.keys() and state.forgotten.lacks(*hours[leaf.path]))
    )


def _wanted(state: TableState, there: Compared) -> dict[Key, Count]:
    """Rows and identity sum that each shard lacks; fewer than none where there are too many.

    Worked example: the ledger says 100 rows with the sum 10, 7 with the sum 1 were adopted, and 80 with the
    sum 4 are listed: 27 rows with the sum 7 are wanted. Where 50 are known and 52 listed, it is -2: no file
    makes that right, the shard does not add up, and `_proven` refuses.
    """
    wanted = dict[Key, Count]()
    for key in _keys(state) | set(there.tallies):
        (rows, total), now = _known(state, key), there.tallies.get(key, Tally())
        wanted[key] = rows - now.rows, (total - now.sum) % SUM_MODULUS
    return wanted


def _check_told_apart(
    place: Place,
    leaves: Collection[choice.Leaf],
    pairs: Collection[tuple[str, str]],
    taken: Collection[choice.Leaf],
) -> None:
    """Raises LedgerBroken where a file would be listed and another one that was not seen to leave main holds
    the same rows with other values: no ledger tells which of them the table had."""
    ours, left = {leaf.path for leaf in taken}, {leaf.path for leaf in leaves if leaf.left}
    useful = {leaf.path for leaf in leaves}
    for one, other in sorted(pairs):
        # Sums are over identities: shard, cursor and index. A file and its rewriting with another contract
        # have the same rows by that. Passed over are pairs with a file whose rows are listed already, pairs
        # of which none was taken, and pairs whose other file is known to have left main: there history tells.
        if not useful.issuperset((one, other)) or len(ours & {one, other}) != 1 or {one, other} & left - ours:
            continue
        if not strays.same_values(place.table, one, other):
            names = " and ".join(path.rsplit("/", 1)[-1] for path in (one, other))
            raise LedgerBroken(
                f"files {names} of {place.name} hold the same rows with other values, and nobody can tell "
                "which of them the lost manifests listed; nothing was changed",
                cures=(
                    Do("restore the manifests"),
                    Do(
                        "move the file that the table did not have out of its folder (rows with errors that "
                        "were read again, a rollback, a copy by hand), and look again"
                    ),
                ),
            )


def _proven(place: Place, found: _Listed, added: tuple[DataFile, ...], *, without_missing: bool) -> int:
    """How many rows are missing once main lists these files, too; read as they would be then.

    Raises LedgerBroken unless none are, or `without_missing`, and none are there that should not be.

    It reads the entries that would be committed, and not the counts that the choice went by. An entry made of
    a file's footer could be wrong by itself, and a manifest that says it would be believed by all readers.
    """
    table, state = place.table, place.state
    there = compare(table, _ledgers(state), tasks=[*found.tasks, *map(FileScanTask, added)])
    wrong, missing = list[str](), 0
    for origin, ledger in sorted(_ledgers(state).items()):
        if there.proves(ledger, state.adopted):
            continue
        for shard, (tally, (rows, _)) in unlike(ledger, state.adopted, there.tallies).items():
            beside = tally.outside - state.adopted.of(origin, shard)[0]
            if without_missing and tally.rows < rows and not tally.doubled and beside <= 0:
                missing += rows - tally.rows
            else:
                wrong.append(f"shard {shard} of {origin}: {_said(tally, rows)}")
        missing -= min(missing, sum(each.rows for each in there.lost if each.origin == origin))
    if (others := _others(table, state, found.tasks)) and not without_missing:
        wrong.append(f"{others} adopted rows are of logstores without a ledger here")
    missing += others
    if wrong:
        raise LedgerBroken(
            f"the data files that are there are not what the lost manifests of {place.name} listed: "
            f"{some_of(wrong, between='; ')}; nothing was changed",
            cures=(Do("restore the manifests"), commands.VERIFY),
        )
    return missing


def _said(tally: Tally, rows: int) -> str:
    if tally.rows == rows:
        return f"{amount(rows, 'row')}, as its ledger says, but other ones"
    return f"{amount(tally.rows, 'row')}, its ledger says {rows}"


def _others(table: Table, state: TableState, tasks: Collection[FileScanTask]) -> int:
    """How many rows are not listed that were adopted as a number, since the table has no ledger of their
    logstore. Nothing could prove a file that holds them."""
    if not state.adopted.others:
        return 0
    known = _ledgers(state).keys()
    origins = ((partition_origin(table, task.file), task.file.record_count) for task in tasks)
    there = sum(rows for origin, rows in origins if origin is not None and origin not in known)
    return max(0, state.adopted.others - there)


def _shards(state: TableState, found: _Listed, taken: Collection[choice.Leaf]) -> Iterator[ShardListed]:
    for key in sorted(_keys(state) | set(found.there.tallies)):
        yield ShardListed(
            origin=key[0],
            shard=key[1],
            rows_listed=found.there.tallies.get(key, Tally()).rows,
            rows_again=sum(leaf.counts.get(key, (0, 0))[0] for leaf in taken),
            rows_known=_known(state, key)[0],
        )
