"""Rows of a table's other origins against their ledgers: what the table proves without their services.

Story: a logstore is renamed, the table goes on with the new one, the old one is deleted. No settings reach it
any more, so a proof that looks at its own logstore alone leaves the old rows unproven for ever.

Rows of origins without a ledger (adopted as a number, or of other hands) are counted and named, no more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyiceberg.table import Table

from pipelines.landing.contents.cells import Count, Counted, Tally, count, edges, partition_origin, totals
from pipelines.landing.ledger.reading import Unreadable, rows_shown, tasks_of
from pipelines.landing.ledger.state import TableState
from sls_io.values.claim import SUM_MODULUS, ShardLedger
from sls_io.values.errors import printable
from sls_io.values.window import Cursor, Window

_NAMED_MAX = 5


@dataclass(frozen=True)
class OtherOrigins:
    """What was found of them.

    problems  rows that their ledgers do not say, or that are missing
    notes     whose rows are proven, and whose nobody proves
    wrong     the origins with problems
    """

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contents:
    """What the files of main hold.

    counted  rows that were read by their identities
    rows     how many of each origin: read, or as the manifests say
    lost     files that are gone or damaged
    short    the origins of which these may have held rows; None: of any
    listed   False when nobody can say which files there are
    """

    counted: Counted = field(default_factory=Counted)
    rows: Mapping[str, int] = field(default_factory=Counter)
    lost: tuple[Unreadable, ...] = ()
    short: frozenset[str | None] = frozenset()
    listed: bool = True


def contents(
    table: Table, state: TableState, origin: str, windows: Iterable[Window], *, sums: bool
) -> Contents:
    """Read the identities of the rows of an origin, with `sums` those of all origins that have a ledger or
    adopted rows. Of others the manifests tell how many rows there are, and only files of which row-level
    deletes hide some are read. Raises as `reading.py` does, not for lost files."""
    try:
        tasks = tasks_of(table, table.scan())
    except Unreadable as error:
        return Contents(lost=(error,), listed=False)
    names = {origin, *(_ours(state) if sums else ())}
    cut = edges(map(state.ledger, names), {origin: windows})
    of = {task.file.file_path: partition_origin(table, task.file) for task in tasks}
    counted = count(table, (t for t in tasks if of[t.file.file_path] in {*names, None}), cut)
    rows, lost = Counter[str](), list(counted.lost)
    for (name, _), (number, _) in totals(cell for each in counted.files.values() for cell in each).items():
        rows[name] += number
    for task in tasks:
        owner = of[task.file.file_path]
        if owner is not None and owner not in names:
            try:
                rows[owner] += rows_shown(table, task)
            except Unreadable as error:
                lost.append(error)
    short = frozenset(of.get(error.path) for error in lost)
    return Contents(counted, rows, tuple(lost), short)


def _ours(state: TableState) -> set[str]:
    return {*state.ledgers, *(name for name, _ in state.adopted.shards)}


def prove_others(state: TableState, origin: str, there: Contents, *, sums: bool) -> OtherOrigins:
    """Hold the rows of all origins but `origin` against their ledgers: number, identity sum, once each.
    Without `sums` only the number. Pure."""
    if not there.listed:
        return OtherOrigins()
    problems: list[str] = []
    proven: dict[str, int] = {}
    wrong: list[str] = []
    for name in sorted(_ours(state) - {origin}):
        found, rows = _wrong(state, name, there, sums=sums), there.rows.get(name, 0)
        problems += [f"origin {_named(state, name)}: {text}" for text in found[:_NAMED_MAX]]
        if len(found) > _NAMED_MAX:
            problems.append(f"origin {_named(state, name)}: and {len(found) - _NAMED_MAX} more")
        if found or {name, None} & there.short:
            wrong.append(name)
        elif rows:
            proven[name] = rows
    strange = {name: rows for name, rows in there.rows.items() if name not in {*_ours(state), origin}}
    notes = (*_proven_notes(state, proven, sums=sums), *_strange_notes(strange))
    return OtherOrigins(tuple(problems), notes, tuple(wrong))


def _wrong(state: TableState, name: str, there: Contents, *, sums: bool) -> list[str]:
    """What is wrong with the rows of one origin."""
    ledger, adopted = state.ledger(name), state.adopted.shards_of(name)
    if not sums:
        known = sum(entry.rows for entry in ledger.shards.values())
        before = sum(state.adopted.of(name, shard)[0] for shard in adopted)
        return _other_count(there.rows.get(name, 0), known, before)
    tallies = there.counted.shards(ledger)
    found: list[str] = []
    for shard in sorted({*ledger.shards, *tallies, *adopted}):
        entry = ledger.shards.get(shard) or ShardLedger(Cursor(0))
        kept, each = state.adopted.of(name, shard), tallies.get(shard)
        found += [
            f"shard {shard}: {text}" for text in (*other_sums(entry, each, kept), *not_once(each, kept[0]))
        ]
    return found


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
