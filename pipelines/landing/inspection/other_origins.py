"""Rows of a table's other origins against their ledgers: what the table proves without their services.

Story: a logstore is renamed, the table goes on with the new one, the old one is deleted. No settings reach it
any more, so a proof that looks at its own logstore alone leaves the old rows unproven for ever.

Rows of origins without a ledger (adopted as a number, or of other hands) are counted and named, no more.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.expressions import NotEqualTo
from pyiceberg.table import Table

from pipelines.landing.contents.tally import Count, Tally, tally
from pipelines.landing.ledger.reading import Unreadable, batches_of, tasks_of
from pipelines.landing.ledger.state import TableState
from pipelines.landing.table.bounded_scan import BoundedScan
from pipelines.landing.table.contract import origin_place
from sls_io.values.claim import SUM_MODULUS, ShardLedger
from sls_io.values.errors import printable
from sls_io.values.window import Cursor

_NAMED_MAX = 5


@dataclass(frozen=True)
class OtherOrigins:
    """What was found of them.

    problems  rows that their ledgers do not say, or that are missing
    notes     whose rows are proven, and whose nobody proves
    lost      files that are gone or damaged
    wrong     the origins with problems
    """

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lost: tuple[Unreadable, ...] = ()
    wrong: tuple[str, ...] = ()


def prove_others(table: Table, state: TableState, origin: str, *, sums: bool) -> OtherOrigins:
    """Hold the rows of all origins but `origin` against their ledgers: number, identity sum, once each.
    Without `sums` only the number, by the manifests. Raises as `reading.py` does, not for lost files."""
    try:
        counts = _counts(table, origin)
    except Unreadable as error:
        return OtherOrigins(lost=(error,))
    problems: list[str] = []
    lost: list[Unreadable] = []
    proven: dict[str, int] = {}
    wrong: list[str] = []
    ours = sorted({*state.ledgers, *(name for name, _ in state.adopted.shards)} - {origin})
    for name in ours:
        found, files = _wrong(table, state, name, counts[name], sums=sums)
        lost += files
        problems += [f"origin {_named(state, name)}: {text}" for text in found[:_NAMED_MAX]]
        if len(found) > _NAMED_MAX:
            problems.append(f"origin {_named(state, name)}: and {len(found) - _NAMED_MAX} more")
        if found or files:
            wrong.append(name)
        elif counts[name]:
            proven[name] = counts[name]
    strange = {name: rows for name, rows in counts.items() if name not in ours}
    notes = (*_proven_notes(state, proven, sums=sums), *_strange_notes(strange))
    return OtherOrigins(tuple(problems), notes, tuple(lost), tuple(wrong))


def _wrong(
    table: Table, state: TableState, name: str, count: int, *, sums: bool
) -> tuple[list[str], list[Unreadable]]:
    """What is wrong with the rows of one origin, and its files that are lost."""
    ledger, adopted = state.ledger(name), state.adopted.shards_of(name)
    if not sums:
        known = sum(entry.rows for entry in ledger.shards.values())
        return _other_count(count, known, sum(state.adopted.of(name, shard)[0] for shard in adopted)), []
    tallies, lost = tally(table, name, ledger)
    found: list[str] = []
    for shard in sorted({*ledger.shards, *tallies, *adopted}):
        entry = ledger.shards.get(shard) or ShardLedger(Cursor(0))
        before, there = state.adopted.of(name, shard), tallies.get(shard)
        found += [
            f"shard {shard}: {text}"
            for text in (*other_sums(entry, there, before), *not_once(there, before[0]))
        ]
    return found, lost


def other_sums(entry: ShardLedger, tally: Tally | None, adopted: Count) -> list[str]:
    """Rows and identities of a shard that the ledger and what was adopted do not explain. Pure."""
    rows, total = (tally.rows, tally.sum) if tally else (0, 0)
    if found := _other_count(rows, entry.rows, adopted[0]):
        return found
    if total != (entry.sum + adopted[1]) % SUM_MODULUS:
        return ["the identities of the rows do not add up to the ledger's sum"]
    return []


def not_once(tally: Tally | None, adopted: int) -> list[str]:
    """Rows of a shard that are there more than once, or where nothing landed. Pure."""
    problems = []
    if tally and tally.doubled:
        problems.append(f"{tally.doubled} rows are there more than once")
    if tally and tally.outside > adopted:
        problems.append(f"{tally.outside - adopted} rows lie outside of what the ledger calls landed")
    return problems


def _other_count(rows: int, ledger: int, adopted: int) -> list[str]:
    if rows == ledger + adopted:
        return []
    beside = f" and {adopted} adopted" if adopted else ""
    return [f"the table holds {rows} rows, the ledger {ledger}{beside}"]


def _counts(table: Table, origin: str) -> Counter[str]:
    """Rows of each other origin, from the manifests. A file whose partition does not say its origin, and one
    of which row-level deletes hide rows, is read."""
    theirs = NotEqualTo(term="__origin__", value=origin)
    reader = BoundedScan(table.metadata, table.io, table.schema().select("__origin__"), theirs)
    places = {number: origin_place(spec, table.schema()) for number, spec in table.specs().items()}
    rows: Counter[str] = Counter()
    lost: Unreadable | None = None
    for task in tasks_of(table, table.scan(row_filter=theirs)):
        place = places[task.file.spec_id]
        if place is not None and not task.delete_files:
            rows[str(task.file.partition[place])] += task.file.record_count
            continue
        try:
            for batch in batches_of(table, reader, task):
                rows.update(str(name) for name in batch.column("__origin__").to_pylist())
        except Unreadable as error:
            lost = lost or error
    if lost is not None:
        raise lost
    return rows


def _named(state: TableState, name: str) -> str:
    text = state.origins.get(name)
    return f"{printable(name)} ({printable(text)})" if text else printable(name)


def _proven_notes(state: TableState, proven: dict[str, int], *, sums: bool) -> Iterator[str]:
    how = "as its ledger says" if sums else "as many as its ledger says"
    for name, rows in sorted(proven.items())[:_NAMED_MAX]:
        yield f"and {rows} rows of origin {_named(state, name)}, {how} (its service was not asked)"
    rest = dict(sorted(proven.items())[_NAMED_MAX:])
    if rest:
        yield f"and {sum(rest.values())} rows of {len(rest)} more origins, {how.replace('its', 'their')}"


def _strange_notes(rows: dict[str, int]) -> Iterator[str]:
    if rows:
        named = ", ".join(f"{n} of {printable(name)}" for name, n in sorted(rows.items())[:_NAMED_MAX])
        count = sum(rows.values())
        yield f"the table also holds {count} rows of other origins, which this proof is not about: {named}"
