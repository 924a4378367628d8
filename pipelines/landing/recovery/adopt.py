"""Give a table a true ledger again, where its own cannot be read or does not explain the rows.

The table itself is the evidence: the identities of its rows are counted and summed for each logstore and
shard. A ledger that is still readable somewhere (under the tag, in an older landing of main, or, once the
newest landing is expired, in an older version of the metadata) is kept when the rows prove it: same rows,
same identity sums. Where none is proven, a person says where each shard starts from now on, and the rows that
are there are *adopted*: counted, so that rows which nobody brought are still seen, and never called landed.

Nothing is lost in silence. The newest ledger that can still be read anywhere, also beside main, says how
many rows each shard had: where fewer are there now, a person has to say so, and the number stays beside
the adopted rows. Rows that are there twice are never adopted. And a removal for good (`table forget`)
is remembered from every snapshot that metadata still has.

Situations that end here: rows without a ledger, rows of unknown origin beside landed ones, a logstore
without its ledger (a deleted tag), a damaged ledger, history that was expired between main and the
newest landing, a logstore that was deleted and made again, rows that nothing brings back. A table that was
provably rolled back is the business of `rollback.py`.

Worked example: the newest landing's ledger is damaged. The one before it says 100 rows of shard 0, and 100
are there with the same sum: the newest brought none, so the older ledger is true, stays, and no start is
asked for. Where 104 are there, it explains too few, and no other ledger is left: somebody says where the
shard starts, say after the last row. All 104 are adopted, and none of them is called landed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyiceberg.table import Table

from pipelines.landing.commit import authored, publish
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents.cells import Tally
from pipelines.landing.contents.explained import Compared, compare, unlike
from pipelines.landing.contents.fresh_starts import At, Floors, starts_of
from pipelines.landing.contents.sameness import way_back
from pipelines.landing.ledger.codec import LEDGER_PREFIX
from pipelines.landing.ledger.fence import lowered
from pipelines.landing.ledger.newest_landing import expired_landing
from pipelines.landing.ledger.place import Place, Trust, look
from pipelines.landing.ledger.reading import live_rows
from pipelines.landing.ledger.start import check_beside, check_origin, namesakes, origin_text
from pipelines.landing.ledger.state import (
    TableState,
    ancestry,
    check_ancestry,
    check_removed,
    facts,
    read_state,
)
from pipelines.landing.ledger.summary import is_landing, summary_of
from pipelines.landing.ledger.values import Adopted, Deed, Forgotten, Key, Operation
from pipelines.landing.ledger.ways_back import PastLanding, pasts
from pipelines.landing.logstore import Logstore
from pipelines.landing.recovery.adoption import Adoption, Difference, ShardStart
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.cures import Do
from sls_io.values.errors import Breach, ConfigError, LedgerBroken
from sls_io.values.window import Cursor
from sls_io.wire.client import Origin, SlsClient

_FILES_NAMED_MAX = 5


@dataclass(frozen=True)
class Unsettled:
    """The table as it is: what it says, what its files hold, and what stops landings into it.

    pasts   landings whose ledgers may be true, the likeliest first
    newest  of each origin the newest landing whose ledger can be read
    rows    how many rows there are, of whatever origin
    """

    place: Place
    pasts: Sequence[PastLanding]
    newest: Mapping[str, PastLanding]
    there: Compared
    rows: int
    stops: str
    trouble: str

    @cached_property
    def back(self) -> int | None:
        """The landing that `table rollback` can go to."""
        lost = [each.path for each in self.there.lost]
        found = way_back(self.place.table, lost, self.there.files)
        return None if found is None else found.id


def plan_adopt(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    *,
    at: At | None = None,
    cursors: Mapping[int, Cursor] | None = None,
    without_missing: bool = False,
    found: Unsettled | None = None,
) -> Planned[Adoption]:
    """Look at what adopting would do. Changes nothing. Refused while a start is missing, or rows are and
    nobody said `without_missing`.

    `cursors` names single shards' starts, `at` that of the others; `found` is what `find` said already.
    Raises ConfigError when there is nothing to settle or a start would land rows again that are there,
    LedgerBroken when another verb is the cure, or rows are there twice.
    """
    found = found or find(lake, logstore, client)
    place, origin, decided = found.place, found.place.origin.id, _decide(found)
    named = at is not None or bool(cursors)
    if named and not decided.asks:
        raise ConfigError(f"the ledger of {origin} is proven by its rows and stays; leave the start out")
    if named:
        _check_removal_known(found)
        floors = Floors(client, place.state.forgotten, found.newest.get(origin))
        starts = starts_of(client, logstore, origin, found.there.tallies, at, cursors or {}, floors)
        decided = decided.started(origin, starts)
    view = _describe(found, decided, named=named)
    change = authored.Change(
        place.head,
        decided.ledgers,
        decided.adopted,
        Deed(Operation.ADOPT),
        publish.RegisteredOrigin(origin, origin_text(place.origin)),
        _forgotten(found, decided),
        frozenset(x.path for x in found.there.lost if x.origin in decided.begun),
    )
    _check_news(view, place.state, change)
    does = "in its place: brings back the rows that had landed by then, and takes foreign rows out"
    back = (commands.rollback(view.back, does=does),) if view.back is not None else ()
    refusal = _refusal(view, decided, without_missing=without_missing)
    return Planned(view, place, change, refusal=refusal, cures=back)


def _forgotten(found: Unsettled, decided: "_Decided") -> Forgotten:
    """All that was removed; and what is barred as the ledgers that are kept say, of the others nothing."""
    forgotten, past = found.place.state.forgotten, {past.id: past.removed for past in found.pasts}
    for origin in decided.begun:
        forgotten = forgotten.without_barred(origin)
    for origin, source in decided.sources.items():
        forgotten = forgotten.counting(past[source], origin)
    return forgotten


def _refusal(view: Adoption, decided: "_Decided", *, without_missing: bool) -> str:
    """What has to be said first: where a ledger begins that nothing proves; that rows are given up, which
    ones, and what does not. "" for nothing."""
    if view.asks:
        return (
            f"nothing proves what of {view.origin} is in {view.table}: say where its shards "
            "start with --at rows, begin, latest or an hour"
        )
    given = sum(len(names) for origin, names in view.lost.items() if origin in decided.begun)
    if without_missing or not (view.missing or given):
        return ""
    cure = "no landing that is kept brings them back; "
    if view.back is not None:
        cure = f"a rollback to {view.back} brings back what that landing had; else "
    files = f", and the rows of {given} files that are gone or damaged" if given else ""
    return (
        f"at least {view.missing} rows of {view.origin} that an older ledger knew are not in "
        f"{view.table}{files}: {cure}say --without-missing to give them up"
    )


@dataclass(frozen=True)
class _Decided:
    """Which ledgers stay, which begin anew, and what is adopted then.

    sources  where a kept ledger was found
    former   origins of the logstore before it was made again, which begin anew
    asks     the logstore's own ledger begins anew, so somebody has to say where
    """

    ledgers: Mapping[str, Ledger]
    sources: Mapping[str, int]
    adopted: Adopted
    former: tuple[str, ...]
    differs: tuple[Difference, ...]
    begun: frozenset[str]
    asks: bool
    starts: Mapping[int, Cursor] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """Rows of ledgers that begin anew which are given up, at least."""
        return sum(d.missing for d in self.differs if d.origin in self.begun)

    def started(self, origin: str, starts: Mapping[int, Cursor]) -> "_Decided":
        """With a ledger of the logstore that begins there."""
        begun = Ledger(origin, {shard: ShardLedger(start=cursor) for shard, cursor in starts.items()})
        return replace(self, ledgers={**self.ledgers, origin: begun}, starts=starts)


def find(lake: Lake, logstore: Logstore, client: SlsClient) -> Unsettled:
    """All that is known of the table. Raises as `plan` does."""
    place = look(lake, logstore, client, trust=Trust.FACTS, started=False, same=False)
    table, state, origin, name = place.table, place.state, place.origin, place.name
    check_beside(state, origin, logstore)
    stops = _trouble(table, origin, name)
    expired = expired_landing(table) if state.tagged is None else None
    past = {each.id: each for each in pasts(table, expired=expired, damaged_too=True)}
    if expired is not None and not state.forgotten:
        # The list only grows, and no snapshot that is left has one.
        state = replace(state, forgotten=past[expired.snapshot_id].removed)
        place = replace(place, state=state)
    newest = _newest(past.values())
    # Also origins without a ledger that can be read: an empty one counts all of their rows as outside, so
    # they are counted under their name and do not end among the rows of nobody.
    every = {*state.origins, *newest, origin.id}
    there = compare(table, {o: newest[o].ledgers[o] if o in newest else Ledger(o) for o in every})
    main = [s.snapshot_id for s in ancestry(table)]
    tagged = state.tagged if expired is None else expired.snapshot_id
    likely = [past[each] for each in dict.fromkeys([tagged, *main, *past]) if each in past]
    found = Unsettled(place, likely, newest, there, live_rows(table), stops, stops)
    return found if stops else replace(found, trouble=_short(found))


def _decide(found: Unsettled) -> _Decided:
    """What stays and what begins anew: a ledger whose rows prove it stays, another begins anew with all that
    is there adopted. Raises LedgerBroken where rows are there twice."""
    state, origin, newest, there = found.place.state, found.place.origin, found.newest, found.there
    ledgers, sources, adopted = _proven(found)
    # An older ledger that stays does not know shards that appeared since. They keep the start that the newest
    # has, else their first logs could expire before the next run and nobody would know.
    ledgers = lowered(ledgers, {o: ledger for o, ledger in state.ledgers.items() if o in ledgers})
    former = _former(state, origin, ledgers)
    ledgers |= {o: Ledger(o) for o in former}
    _check_once(found, {*ledgers, origin.id})
    asks = origin.id not in ledgers
    # One that is true but for lost files, and begins anew all the same, gives their rows up.
    true = {o for o in ledgers if o in newest and there.proves(newest[o].ledgers[o], newest[o].adopted)}
    differs = tuple(d for o in sorted(newest.keys() - true) for d in _differences(o, newest[o], there))
    begun = frozenset({*former, *([origin.id] if asks else [])})
    for each in sorted(begun):
        adopted = _with_rows(adopted, each, newest.get(each), there.tallies, differs)
    adopted = replace(adopted, others=_others(found, {*state.origins, *ledgers, origin.id}))
    return _Decided(ledgers, sources, adopted, former, differs, begun, asks)


def begins_anew(found: Unsettled) -> bool:
    """Whether nothing proves a ledger of the logstore, so that somebody has to say where it begins."""
    return _decide(found).asks


def _describe(found: Unsettled, decided: _Decided, *, named: bool) -> Adoption:
    """The decision for people; `named`: somebody said where the ledger begins."""
    state, origin, lost = found.place.state, found.place.origin, found.there.lost
    starts = _shard_starts(origin.id, decided.starts, found.there.tallies) if decided.asks else ()
    return Adoption(
        table=found.place.name,
        origin=origin.id,
        trouble=found.trouble,
        kept=decided.sources,
        starts=starts,
        others=decided.adopted.others,
        still_refused=tuple(sorted(set(state.origins) - set(decided.ledgers) - {origin.id})),
        asks=decided.asks and not named,
        differs=decided.differs,
        missing=decided.missing,
        back=found.back if decided.differs or lost else None,
        damaged=_damaged(found),
        forgotten=bool(state.forgotten),
        former=decided.former,
        lost={o: [x.name for x in lost if x.origin == o] for o in sorted({x.origin for x in lost})},
        refused=bool(found.stops),
        remade=_remade(state, origin) if decided.asks else {},
    )


def _others(found: Unsettled, ours: Collection[str]) -> int:
    """Rows of origins that are none of ours.

    Worked example: the manifests say 120 live rows, 100 of our origins were counted, and lost files of ours
    held 15: 5 are of nobody. They have no identity that a ledger could know, so a number is all that is kept
    of them.
    """
    known_ones = sum(t.rows for k, t in found.there.tallies.items() if k[0] in ours)
    return max(0, found.rows - known_ones - sum(x.rows for x in found.there.lost))


def _trouble(table: Table, origin: Origin, name: str) -> str:
    """Why landings are refused; "" when they are not. Raises when another verb settles it."""
    try:
        check_origin(read_state(table), origin, name)
    except LedgerBroken as error:
        if error.kind is Breach.OTHER:
            raise
        if facts(table, damaged_too=True).tagged is not None:
            _check_not_rolled_back(table)
        check_removed(table)
        return str(error)
    return ""


def _short(found: Unsettled) -> str:
    """What is wrong with a table into which landings go on. Raises ConfigError when nothing is.

    Story: rows are lost, retention and the sweep have taken what could bring them back, and maintenance
    leaves the table alone for as long as its ledger knows more rows than it holds. Or rows of nobody are
    lacking: they are known by their number alone, and nothing says which they were.
    """
    name, state, there = found.place.name, found.place.state, found.there
    if there.lost and all(there.proves(ledger, state.adopted) for ledger in state.ledgers.values()):
        raise LedgerBroken(
            f"{len(there.lost)} files of table {name} are gone or damaged, and its ledger explains all other "
            f"rows: {', '.join(sorted(each.name for each in there.lost)[:_FILES_NAMED_MAX])}",
            cures=(Do("restore them"), commands.VERIFY),
        )
    proven = not any(unlike(ledger, state.adopted, there.tallies) for ledger in state.ledgers.values())
    if proven and _others(found, {*state.origins, *state.ledgers}) >= state.adopted.others:
        raise ConfigError(f"the ledger of table {name} explains its rows: there is nothing to settle")
    return f"table {name} does not hold the rows that its ledger says; what brings rows back is tried first"


def _check_not_rolled_back(table: Table) -> None:
    try:
        check_ancestry(table)
    except LedgerBroken as error:
        if error.kind not in (Breach.UNEXPLAINED, Breach.FOREIGN):
            raise


def _newest(landings: Iterable[PastLanding]) -> dict[str, PastLanding]:
    """Of each origin the landing with the newest ledger, of all snapshots that metadata still has, those
    beside main among them; and of the newest landing that is expired."""
    found: dict[str, PastLanding] = {}
    for past in landings:
        for origin in past.ledgers:
            found.setdefault(origin, past)
    return found


def _proven(found: Unsettled) -> tuple[dict[str, Ledger], dict[str, int], Adopted]:
    """Per origin the newest ledger that the rows prove, its snapshot, and what it had adopted.

    A ledger from before a removal for good never counts as proven: if its rows are there, removed rows are
    back.

    The newest first, since of two that the rows prove alike the later one knows more of what is not rows:
    gaps, ends, receive times. Each origin is judged alone: the one may stay with the newest landing, the
    other with an older one.
    """
    ledgers: dict[str, Ledger] = {}
    sources: dict[str, int] = {}
    adopted = Adopted()
    for past in found.pasts:
        if past.removed != found.place.state.forgotten:
            continue
        for origin, ledger in past.ledgers.items():
            if origin not in ledgers and found.there.proves(ledger, past.adopted):
                ledgers[origin], sources[origin] = ledger, past.id
                adopted = _joined(adopted, past.adopted, origin)
    return ledgers, sources, adopted


def _joined(adopted: Adopted, before: Adopted, origin: str) -> Adopted:
    """`adopted` with what `before` says of `origin`."""
    return replace(
        adopted,
        shards={**adopted.shards, **{k: v for k, v in before.shards.items() if k[0] == origin}},
        missing={**adopted.missing, **{k: v for k, v in before.missing.items() if k[0] == origin}},
    )


def _remade(state: TableState, origin: Origin) -> dict[str, str]:
    """Origins, with their texts, that were this logstore before it was deleted and made again."""
    return {other: text for other, text in namesakes(state, origin).items() if other != origin.id}


def _former(state: TableState, origin: Origin, proven: Collection[str]) -> tuple[str, ...]:
    """Those of them that are not proven: no service tells of them any more, so nobody else could settle
    them."""
    return tuple(sorted(set(_remade(state, origin)) - set(proven)))


def _with_rows(
    adopted: Adopted,
    origin: str,
    newest: PastLanding | None,
    tallies: Mapping[Key, Tally],
    differs: tuple[Difference, ...],
) -> Adopted:
    """`adopted` with all rows of `origin`, and with its rows that are missing now or were missing before.

    Worked example: 104 rows of shard 0 are there, 6 are missing by now, and 2 were said to be missing when it
    was adopted before: 104 adopted, 8 missing. What was once given up stays named.
    """
    missing = dict(newest.adopted.missing) if newest else {}
    for each in differs:
        if each.origin == origin and each.missing:
            missing[origin, each.shard] = missing.get((origin, each.shard), 0) + each.missing
    there = Adopted({key: (tally.rows, tally.sum) for key, tally in tallies.items()}, missing=missing)
    return _joined(adopted, there, origin)


def _differences(origin: str, newest: PastLanding, there: Compared) -> Iterator[Difference]:
    """What the ledger and the table say differently of each shard. Pure.

    Rows in what the ledger calls landed are held against its rows, the others against what was adopted. A
    foreign row in a landed interval may hide a missing one, so the numbers are the least there can be.

    Worked example: 100 rows landed and 10 were adopted. 104 are there, 6 of them outside of what has landed:
    2 landed and 4 adopted ones are missing, 6 in all. With 108, 12 of them outside: 4 are missing and 2
    foreign. With 110, 10 of them outside, and another sum: as many as there should be and not the same, so at
    least one of each.
    """
    adopted = newest.adopted
    for shard, (tally, (rows, _)) in unlike(newest.ledgers[origin], adopted, there.tallies).items():
        before = adopted.of(origin, shard)[0]
        landed, beside = tally.rows - tally.outside - (rows - before), tally.outside - before
        missing, foreign = max(0, -landed) + max(0, -beside), max(0, landed) + max(0, beside)
        if not missing and not foreign:
            missing = foreign = 1  # as many rows, and not the same
        yield Difference(origin, shard, newest.id, rows, tally.rows, missing, foreign)


def _check_once(found: Unsettled, origins: Collection[str]) -> None:
    """No identity of these origins is there twice. An adoption would keep the second row for ever."""
    doubled = sum(t.doubled for (origin, _), t in found.there.tallies.items() if origin in origins)
    if not doubled:
        return
    by_hand = Do("delete all but one of each with any engine, and look again")
    raise LedgerBroken(
        f"{doubled} rows of table {found.place.name} are there more than once, and nobody can adopt "
        "a row twice",
        cures=(commands.rollback(found.back) if found.back is not None else by_hand,),
    )


def _damaged(found: Unsettled) -> int | None:
    """The newest landing, when not all of its ledgers can be read."""
    for past in found.pasts[:1]:
        texts = sum(name.startswith(LEDGER_PREFIX) for name in summary_of(past.snapshot))
        return past.id if texts > len(past.ledgers) else None
    return None


def _check_removal_known(found: Unsettled) -> None:
    """Raises LedgerBroken when nobody can say whether main is from before a removal for good, and a landing
    from after it can be gone back to.

    Story: rows are forgotten, main is put back by hand to before that, and its landings are expired. What is
    there now cannot be told from what was removed, and adopted, it would be there for ever.
    """
    if not found.place.state.forgotten or any(map(is_landing, ancestry(found.place.table))):
        return
    if found.back is not None:
        raise LedgerBroken(
            f"rows were removed from table {found.place.name} by `table forget`, and nobody can say "
            "whether they are there again: no landing is left in main's history",
            cures=(commands.rollback(found.back),),
        )


def _check_news(view: Adoption, state: TableState, change: authored.Change) -> None:
    """Story: two logstores of a table have no proven ledger. One is adopted; asked for again, that would
    commit the same for ever, while landings stay refused because of the other."""
    same = (state.head, dict(state.ledgers), state.adopted) == (
        state.tagged,
        dict(change.ledgers),
        change.adopted,
    )
    if same and view.still_refused and not view.asks:
        raise ConfigError(
            f"{view.origin} is settled already; landings into {view.table} stay refused until "
            f"{', '.join(view.still_refused)} is, too",
            cures=(Do("adopt that one by its own settings, too"),),
        )


def _shard_starts(
    origin: str, starts: Mapping[int, Cursor], tallies: Mapping[Key, Tally]
) -> tuple[ShardStart, ...]:
    there = {shard: t.rows for (name, shard), t in tallies.items() if name == origin}
    return tuple(ShardStart(s, starts.get(s), there.get(s, 0)) for s in sorted({*starts, *there}))
