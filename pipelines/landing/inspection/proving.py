"""What follows from the evidence of a table: a proof. Values in, values out.

Story of other origins: a logstore is renamed, the table goes on with the new one, the old one is deleted. No
settings reach it any more, so a proof that looks at its own logstore alone leaves the old rows unproven for
ever. So their rows are held against their ledgers, too. Rows of origins without a ledger (adopted as a
number, or of other hands) are counted and named, no more.

What is held against what, and what that finds:

    rows and identity sum of a shard    the ledger's, and what was adopted    a row lost, added, exchanged
    the identity of each row            all others of its shard               a row that is there twice
    the cursor of each row              what the ledger calls landed          a row that no landing brought
    the rows of a window                what its landing brought              in which hour it happened
    rows and sum of a window            the service, pulled again             that both are what was sent

The first three are of all rows, at any age. The last two need that snapshots or the service still have the
window. A number alone would not do: with 5 rows twice and 5 others missing it is the same, and so it is with
a row in place of another. The sum, mod 2^64, of a hash over (shard, cursor, index) tells them apart.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pipelines.landing.contents.cells import Tally
from pipelines.landing.hours import hour_text, hours_text, moment_text
from pipelines.landing.inspection.evidence import Evidence, ServiceShard, accounted
from pipelines.landing.inspection.proof import Proof, ShardProof
from pipelines.landing.ledger.state import TableState
from pipelines.landing.ledger.values import Count, Gone, summed
from sls_io.values.claim import CURSOR_UNKNOWN, SUM_MODULUS, ShardLedger
from sls_io.values.errors import amount, printable
from sls_io.values.window import Cursor, IntervalSet, Window

_NAMED_MAX = 5
"""Of windows and of origins that are wrong, this many are named; the rest is counted."""
_MORE = "and {} more windows do not hold what they should"


def prove(e: Evidence) -> tuple[Proof, tuple[str, ...]]:
    """The proof, without cures; and the other origins whose rows are wrong."""
    others = _prove_others(e)
    tallies = e.there.counted.shards(e.ledger)
    decided = (*e.state.adopted.shards, *e.state.adopted.missing)
    shards = {*e.ledger.shards, *tallies, *(s for name, s in decided if name == e.origin.id)}
    proof = Proof(
        e.table,
        e.origin.id,
        tuple(_prove_shard(e, shard, tallies.get(shard, Tally())) for shard in sorted(shards)),
        (*e.problems, *_unread(e), *others.problems),
        e.since_ms,
        e.state.tagged,
        (*e.notes, *others.notes),
        begun=bool(e.origin.known_as) or e.ledger.started,
        whole=e.whole,
    )
    return proof, others.wrong


def _prove_shard(e: Evidence, shard: int, there: Tally) -> ShardProof:
    """A shard of which the ledger knows nothing may hold rows that a person adopted, and no others. One that
    it knows is held against rows, identities, edges and the service's own end.

    Worked example: the ledger has 3 rows with the sum 30. With 2 rows the shard is short; with 4 something is
    strange; with 3 of the sum 31 it is both, since one row is missing and another is there.
    """
    key, entry = (e.origin.id, shard), e.ledger.shards.get(shard)
    before, missing = e.state.adopted.of(*key), e.state.adopted.missing.get(key, 0)
    gone = e.state.forgotten.of(*key)
    barred = e.state.forgotten.barred_of(*key)
    kept_out, _ = summed(barred.values())
    notes = tuple(_decided(before[0], missing, gone, kept_out))
    if entry is None:
        problems = [f"{amount(there.rows, 'row')} of a shard that the ledger does not know"]
        if before[0] or not there.rows:
            problems = _other_sums(e, ShardLedger(Cursor(0)), there, before)
        return ShardProof(
            shard, 0, there.rows, Cursor(0), None, False, (), tuple(problems), notes, before[0],
            strange=bool(problems) and there.rows > before[0],
        )  # fmt: skip
    answer = e.answers.get(shard, ServiceShard())
    sums, once = _other_sums(e, entry, there, before), _not_once(there, before[0])
    known = entry.rows + before[0]
    proof = ShardProof(
        shard=shard,
        rows_ledger=entry.rows,
        rows_table=there.rows,
        frontier=entry.frontier,
        end=answer.end,
        closed=entry.closed,
        gaps=tuple(f"[{g.begin}, {'?' if g.end == CURSOR_UNKNOWN else g.end}) {g.cause}" for g in entry.gaps),
        problems=(*sums, *once, *answer.shown, *_behind_the_end(entry, answer)),
        notes=(*notes, *answer.lost, *_of_ledger(entry)),
        rows_adopted=before[0],
        withdrawn=tuple(
            f"[{begin}, {end}) of {answer.withdrawn.get((begin, end), 'an hour the service no longer has')}"
            for begin, end in entry.withdrawn
        ),
        rows_forgotten=gone.rows + kept_out,
        others=bool(sums) and there.rows == known,
        strange=bool(once) or there.rows > known,
        owed=answer.owed,
        rows_missing=missing,
    )
    return _with_windows(e, proof, gone, barred)


def _decided(adopted: int, missing: int, gone: Gone, barred: int) -> Iterator[str]:
    """What people decided about a shard: rows adopted, given up, removed, kept out."""
    if adopted:
        yield f"{adopted} rows were adopted: there before the ledger begins, by a decision"
    if missing:
        yield f"at least {missing} rows that are missing were given up, by decision"
    if gone.rows or gone.before:
        yield f"{gone.rows} rows of {_hours_gone(gone)} were removed by decision"
    if barred:
        yield f"{barred} rows were kept out by decision: their values were not to land"


def _hours_gone(gone: Gone) -> str:
    before = [f"all hours before {hour_text(gone.before)}"] if gone.before else []
    beside = gone.hours.minus(IntervalSet.of([(0, gone.before)]))
    return ", ".join([*before, *(hours_text(range(b, e)) for b, e in beside)])


def _of_ledger(entry: ShardLedger) -> Iterator[str]:
    if entry.suspect_s:
        yield (
            f"suspected since {moment_text(entry.suspect_s)} to be gone from the service: nothing is given "
            "up yet"
        )
    yield from (f"landed ahead of the frontier: [{b}, {e})" for b, e in entry.landed if b > entry.frontier)


def _behind_the_end(entry: ShardLedger, answer: ServiceShard) -> Iterator[str]:
    """A frontier beyond the shard's end cannot be: the ledger is of another logstore, or the service lost
    what it had. Not of a closed shard, whose end was compared when it was closed, and not of one that begins
    anew."""
    anew = bool(answer.shown) and entry.frontier == entry.start
    if answer.end is not None and entry.frontier > answer.end and not entry.closed and not anew:
        yield f"the ledger reached {entry.frontier}, the service ends at {answer.end}: not the same logstore"


_Wrong = tuple[Window, int, str]
"""A window that does not hold what it should; whether it holds less (-1) or more (1); and what it holds."""


_Barred = Mapping[int, Count]
"""Of a shard how many rows of each receive hour are kept out, and their identity sum."""


def _with_windows(e: Evidence, proof: ShardProof, gone: Gone, barred: _Barred) -> ShardProof:
    """The proof with the shard's windows, each held against its landing and the service. Those of hours with
    rows removed by decision are left out: nobody knows which windows those rows were in. Of hours with rows
    that are kept out it is known by hour."""
    mine = sorted(window for window in e.windows if window.shard == proof.shard)
    asked = [w for w in mine if not gone.hours.overlaps(w.hour, w.hour + 1)]
    emptied = [w for w in mine if w.hour < gone.before and w in e.landed]
    rest = [w for w in mine if w.hour >= gone.before and gone.hours.overlaps(w.hour, w.hour + 1)]
    landed, pulled = ([w for w in asked if w in had] for had in (e.landed, e.told.windows))
    unlike, unsure = _unlike_service(e, pulled, barred)
    wrong = [*_emptied(e, emptied), *_unlike_landings(e, landed, barred), *unlike]
    return replace(
        proof,
        windows=len(emptied) + len(landed),
        windows_left=sum(w in e.landed for w in rest),
        windows_pulled=len(pulled) - len(unsure),
        rows_pulled=None if e.pulled is None else summed(e.told.windows[w] for w in {*pulled} - {*unsure})[0],
        hours_short=_hours(wrong, -1),
        hours_over=_hours(wrong, 1),
        problems=(
            *proof.problems,
            *_first([f"{_place(window)}: {text}" for window, _, text in wrong], _MORE),
        ),
        notes=(*proof.notes, *_missed(e, proof.shard), *_left(e, rest), *_unsure(unsure)),
    )


def _hours(wrong: Iterable[_Wrong], asked: int) -> tuple[int, ...]:
    return tuple(sorted({window.hour for window, sign, _ in wrong if sign == asked}))


def _missed(e: Evidence, shard: int) -> Iterator[str]:
    for window in sorted(e.told.expired):
        if window.shard == shard:
            yield f"{_place(window)} was not compared with the service: retention took it meanwhile"


def _unread(e: Evidence) -> Iterator[str]:
    """Windows that were to be compared with the service, and of which it did not tell all. Nothing is known
    to be wrong with the table, and nothing of them is proven."""
    texts = [
        f"shard {window.shard}: {_place(window)} was not compared with the service: {why}"
        for window, why in sorted(e.told.unread.items())
    ]
    yield from _first(texts, "and {} more windows were not compared")


def _left(e: Evidence, windows: list[Window]) -> Iterator[str]:
    if windows:
        compared = " nor compared with the service" if e.pulled is not None else ""
        hours = ", ".join(map(hour_text, sorted({w.hour for w in windows})[:_NAMED_MAX]))
        yield (
            f"{sum(w in e.landed for w in windows) or len(windows)} windows of hours with rows removed by "
            f"decision ({hours}) were not counted one by one{compared}: the sums of the shard prove them"
        )


def _first(texts: Sequence[str], more: str) -> tuple[str, ...]:
    """The first few, and how many more there are."""
    rest = len(texts) - _NAMED_MAX
    return (*texts[:_NAMED_MAX], *([more.format(rest)] if rest > 0 else []))


def _emptied(e: Evidence, windows: Iterable[Window]) -> Iterator[_Wrong]:
    """The hour is before all that is kept, so not one row may be there. The sign is 0: it is no hour that a
    replace should land again."""
    for window in windows:
        if rows := e.windows[window][0]:
            yield window, 0, f"the table holds {amount(rows, 'row')} of an hour that is forgotten"


def _unlike_landings(e: Evidence, windows: Iterable[Window], barred: _Barred) -> Iterator[_Wrong]:
    """A window may lack rows that were kept out of its hour by a decision from after its landing.

    Worked example: a landing brought 3 rows, and 2 rows of the hour are kept out by now: 1, 2 or 3 rows are
    right, since nobody knows which windows of the hour the two were in. 0 is short, 4 is over.
    """
    for window in windows:
        rows, brought = e.windows[window][0], e.landed[window]
        out = barred.get(window.hour, (0, 0))[0]
        if not brought - out <= rows <= brought:
            sign = 1 if rows > brought else -1
            beside = f", and at most {out} of them are kept out" if out else ""
            yield (
                window,
                sign,
                f"the table holds {amount(rows, 'row')}, its landing brought {brought}{beside}",
            )


def _unlike_hours(
    e: Evidence, windows: Iterable[Window], barred: _Barred
) -> tuple[list[_Wrong], list[Window]]:
    """Windows of hours with rows that are kept out: the hour's rows and those together are the service's.
    And those of which nobody can say, since the service has only a part of their hour by now.

    Worked example: of an hour the table holds 7 rows with the sum 70, and 3 with the sum 9 are kept out. The
    service has 10 with 79: proven. It has 8 of a part of the hour: at most one of the three is in that part,
    and which one nobody knows.
    """
    told, wrong, unsure = e.told, list[_Wrong](), list[Window]()
    hours = dict[int, list[Window]]()
    for window in windows:
        hours.setdefault(window.hour, []).append(window)
    for hour, those in hours.items():
        (rows, total), (had, sums) = (summed(each[w] for w in those) for each in (e.windows, told.windows))
        out, out_sum = barred[hour]
        if (rows + out, (total + out_sum) % SUM_MODULUS) == (had, sums):
            continue
        whole = not (told.cut & set(those)) and not any(w.hour == hour for w in told.missed)
        if not whole and rows <= had <= rows + out:
            unsure += those
            continue
        beside = f"the table holds {amount(rows, 'row')} and {out} are kept out, the service has {had}"
        wrong.append((those[0], 1 if rows + out > had else -1, beside))
    return wrong, unsure


def _unsure(windows: list[Window]) -> Iterator[str]:
    if windows:
        hours = ", ".join(map(hour_text, sorted({w.hour for w in windows})[:_NAMED_MAX]))
        yield (
            f"{len(windows)} windows of {hours} were not compared with the service, which has only a part of "
            "them by now: rows of them are kept out, and nobody knows of which part"
        )


def _unlike_service(
    e: Evidence, windows: Collection[Window], barred: _Barred
) -> tuple[list[_Wrong], list[Window]]:
    """Windows that hold other rows than the service, and those of which nobody can say."""
    alone = [window for window in windows if window.hour not in barred]
    wrong, unsure = _unlike_hours(e, [w for w in windows if w.hour in barred], barred)
    return [*_unlike_windows(e, alone), *wrong], unsure


def _unlike_windows(e: Evidence, windows: Iterable[Window]) -> Iterator[_Wrong]:
    """Other rows in the same number count as missing, so that the hour is named and a replace is offered."""
    for window in windows:
        (rows, _), (had, _) = here, there = e.windows[window], e.told.windows[window]
        if rows != had:
            yield window, 1 if rows > had else -1, f"the table holds {amount(rows, 'row')}, the service {had}"
        elif here != there:
            yield window, -1, "the table holds other rows than the service"


def _place(window: Window) -> str:
    return f"window [{window.begin}, {window.end}) of {hour_text(window.hour)}"


@dataclass(frozen=True)
class _Others:
    """What was found of them.

    problems  rows that their ledgers do not say, or that are missing
    notes     whose rows are proven, and whose nobody proves
    wrong     the origins with problems
    """

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def _prove_others(e: Evidence) -> _Others:
    """Hold the rows of all origins but the evidence's own against their ledgers: number, identity sum, once
    each; only the number where their sums were not asked for.

    An origin is wrong, too, where a file is lost that may have held its rows: its count may look right while
    the manifests, and not the files, say how many there are. `None` among the short ones is a file of which
    nobody knows the origin, so every origin may be short.
    """
    if not e.there.listed:
        return _Others()
    found = {name: tuple(_wrong(e, name)) for name in sorted(accounted(e.state) - {e.origin.id})}
    rows = {name: number for name, number in e.there.rows.items() if name != e.origin.id}
    wrong = tuple(name for name, texts in found.items() if texts or {name, None} & e.there.short)
    proven = {name: rows[name] for name in found if name not in wrong and rows.get(name)}
    strange = {name: number for name, number in rows.items() if name not in found}
    problems = (
        f"origin {_named(e.state, name)}: {text}"
        for name, texts in found.items()
        for text in _first(texts, "and {} more")
    )
    notes = (*_proven_notes(e.state, proven, sums=e.asked.sums_of_others), *_strange_notes(strange))
    return _Others(tuple(problems), notes, wrong)


def _wrong(e: Evidence, name: str) -> Iterator[str]:
    """What is wrong with the rows of one origin."""
    ledger, adopted = e.state.ledger(name), e.state.adopted.shards_of(name)
    if not e.asked.sums_of_others:
        known = sum(entry.rows for entry in ledger.shards.values())
        before = sum(e.state.adopted.of(name, shard)[0] for shard in adopted)
        yield from _other_count(e, e.there.rows.get(name, 0), known, before)
        return
    tallies = e.there.counted.shards(ledger)
    for shard in sorted({*ledger.shards, *tallies, *adopted}):
        entry = ledger.shards.get(shard) or ShardLedger(Cursor(0))
        kept, there = e.state.adopted.of(name, shard), tallies.get(shard, Tally())
        texts = chain(_other_sums(e, entry, there, kept), _not_once(there, kept[0]))
        yield from (f"shard {shard}: {text}" for text in texts)


def _other_sums(e: Evidence, entry: ShardLedger, there: Tally, adopted: Count) -> list[str]:
    """Rows and identities of a shard that the ledger and what was adopted do not explain."""
    if found := _other_count(e, there.rows, entry.rows, adopted[0]):
        return found
    if there.sum != (entry.sum + adopted[1]) % SUM_MODULUS:
        return ["the identities of the rows do not add up to the ledger's sum"]
    return []


def _not_once(there: Tally, adopted: int) -> list[str]:
    """Rows of a shard that are there more than once, or where nothing landed."""
    problems = []
    if there.doubled:
        problems.append(f"{there.doubled} rows are there more than once")
    if there.outside > adopted:
        problems.append(f"{there.outside - adopted} rows lie outside of what the ledger calls landed")
    return problems


def _other_count(e: Evidence, rows: int, ledger: int, adopted: int) -> list[str]:
    if rows == ledger + adopted:
        return []
    beside = f" and {adopted} adopted" if adopted else ""
    least = "" if e.there.listed else "at least "
    return [f"the table holds {least}{amount(rows, 'row')}, the ledger {ledger}{beside}"]


def _named(state: TableState, name: str) -> str:
    text = state.origins.get(name)
    return f"{printable(name)} ({printable(text)})" if text else printable(name)


def _proven_notes(state: TableState, proven: dict[str, int], *, sums: bool) -> Iterator[str]:
    how = "as its ledger says" if sums else "as many as its ledger says"
    for name, rows in sorted(proven.items())[:_NAMED_MAX]:
        yield f"and {amount(rows, 'row')} of origin {_named(state, name)}, {how} (its service was not asked)"
    rest = dict(sorted(proven.items())[_NAMED_MAX:])
    if rest:
        more = f"{len(rest)} more origins, {how.replace('its', 'their')}"
        yield f"and {amount(sum(rest.values()), 'row')} of {more}"


def _strange_notes(rows: dict[str, int]) -> Iterator[str]:
    if rows:
        named = ", ".join(f"{n} of {printable(name)}" for name, n in sorted(rows.items())[:_NAMED_MAX])
        count = amount(sum(rows.values()), "row")
        yield f"the table also holds {count} of other origins, which this proof is not about: {named}"
