"""The region of a logstore in the table, put right; or a logstore that goes on under another name.

A table keeps each origin as an id, which stands in every row, and a readable identity
`region/project/logstore@created`, by which settings and table find each other. Only that text is
changed, in one commit beside the rows: the id stays what the rows say, whatever it was made of once.

Worked example: a logstore was landed through an address whose first label was taken for its region,
so the table knows `logs-1a2b3c4d` as `ep-bp1abc/shop/logs@17`. The settings say `cn-hangzhou` now.
Afterwards the text is `cn-hangzhou/shop/logs@17`, the id is `logs-1a2b3c4d` still, and a landing
through any address of that region goes on where the last one ended.

A project that moved, or a logstore that was renamed, is another logstore: the service makes it anew, with
shards and cursors of its own. So it is another origin of the same table, and a person says where it begins.
The commit registers it with a ledger that begins there; the old origin, its rows and its ledger stay. It is
refused while the old one can still be asked and has logs that have not landed. It is taken for gone only
where two kinds of answers agree, its own and the project's list: what one wrong answer gives up could land.

It proves that the table knows nothing of the new logstore, and that the old one's rows are what its ledger
says. It cannot prove that no log is in both: who copied logs over begins behind the copies.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from pipelines.landing.commit import authored, publish
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned
from pipelines.landing.contents.fresh_starts import At, Floors, starts_of
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.place import Trust, look
from pipelines.landing.ledger.start import check_origin, logs_before, mislabelled, origin_text
from pipelines.landing.ledger.values import Deed, Forgotten, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.errors import (
    GONE_CODES,
    NO_PROJECT_CODES,
    ConfigError,
    ServiceError,
    ShardGone,
    SlsError,
)
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient

_ANEW_S = 5
"""A logstore's first shards may be made so many seconds after it; those of one made anew are younger."""


@dataclass(frozen=True)
class Relabelling(Effect):
    """What is changed: the origin's id, which stays, and its text before and after."""

    THEN = (commands.LAND,)
    WHAT = "{origin} in {table}: {before} becomes {after}; no row changes"

    table: str
    origin: str
    before: str
    after: str


def plan_relabel(lake: Lake, logstore: Logstore, client: SlsClient) -> Planned[Relabelling]:
    """What a relabelling would do. Changes nothing.

    Raises ConfigError when nothing has landed or the label is right, LedgerBroken when another verb is
    the cure.
    """
    place = look(lake, logstore, client, trust=Trust.SOUND, started=False, same=False)
    state, origin = place.state, place.origin
    name = mislabelled(state, origin)
    if name is None:
        check_origin(state, origin, place.name)
        label = "is right" if origin.known_as else "is made by its first landing"
        raise ConfigError(f"the label of {origin.logstore} in {place.name} {label}: nothing to change")
    view = Relabelling(place.name, name, state.origins[name], origin_text(origin))
    registered = publish.RegisteredOrigin(name, view.after)
    change = authored.unchanged(place.head, state, Deed(Operation.RELABEL))
    return Planned(view, place, replace(change, origin=registered))


@dataclass(frozen=True)
class Moved(Effect):
    """A logstore that goes on under another name.

    old, new  ids of both origins; `before` and `after` their readable identities
    rows      of the old one in the table, by its ledger; they stay
    reached_s receive time (unix seconds) up to which all shards of the old one have landed; 0: unknown
    starts    where each shard of the new one begins
    left      shards of the old one with logs that have not landed; None where nobody can say
    unasked   why nobody can say although it may be there still; "" where it is gone, by two calls
    before_s  shards of the new one with logs from before their start, which are not landed -> receive time
              (unix seconds) of the oldest of them
    """

    WHAT = "{before} ({old}) goes on in {table} as {after} ({new}), from these cursors"
    THEN = (commands.LAND,)

    table: str
    old: str
    new: str
    before: str
    after: str
    rows: int
    reached_s: int
    starts: Mapping[int, Cursor]
    left: tuple[int, ...] | None
    unasked: str
    before_s: Mapping[int, int] = field(default_factory=dict)

    def said(self) -> Iterable[Note]:
        reached = f", landed up to {moment_text(self.reached_s)} UTC" if self.reached_s else ""
        yield Note(f"the rows and the ledger of {self.old} stay{reached}")
        for shard, at_s in sorted(self.before_s.items()):
            yield Note(
                f"logs of shard {shard} lie before its start and are not landed: the oldest was received "
                f"{moment_text(at_s)} UTC",
                "warn",
            )
        if self.left is None and not self.unasked:
            yield Note(
                "the service says that the old logstore is gone: what had not landed cannot land any more"
            )
        yield Note("no proof that no log is in both: who copied logs over begins behind the copies")

    def document(self) -> dict[str, Any]:
        starts = [{"shard": shard, "cursor": cursor} for shard, cursor in self.starts.items()]
        return super().document() | {"starts": starts}

    @property
    def refusal(self) -> str:
        """Why it is refused while nobody says that what the old one has may be left; "" where nothing is."""
        if self.unasked:
            return (
                f"{self.before} may still have logs that have not landed: {self.unasked}. Ask again, or say "
                "--without-missing to leave what it has"
            )
        if self.left:
            return (
                f"{self.before} still has logs that have not landed, in shard "
                f"{', '.join(map(str, self.left))}: land them first with its own settings, or say "
                "--without-missing to leave them. Settings of both may land in one table, also later"
            )
        return ""


def plan_moved(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    old: str,
    *,
    at: At | None,
    cursors: Mapping[int, Cursor] | None = None,
    without_missing: bool = False,
) -> Planned[Moved]:
    """What going on with the logstore of the settings in the place of the origin `old` would do. `cursors`
    names single shards' starts, `at` that of the others. Changes nothing.

    Refused while the old logstore has logs that have not landed, or may have some, unless `without_missing`.

    Raises ConfigError when nothing has landed, the table knows the new logstore or not the old one, or a
    start is missing or cannot be; LedgerBroken when another verb is the cure.
    """
    place = look(lake, logstore, client, started=False)
    state, origin = place.state, place.origin
    if origin.known_as:
        raise ConfigError(f"{logstore.table} knows {origin.logstore} as {origin.id}: just land")
    if old not in state.origins or old not in state.ledgers:
        there = ", ".join(f"{name} ({text})" for name, text in sorted(state.origins.items()))
        raise ConfigError(f"{logstore.table} knows no origin of that id; there is {there or 'none'}")
    if at == "rows":
        raise ConfigError(
            "of the new logstore no rows are there: begin, latest or an hour says where it begins"
        )
    starts = starts_of(client, logstore, origin.id, {}, at, cursors or {}, Floors(client, Forgotten(), None))
    ledger, before = state.ledgers[old], state.origins[old]
    left, unasked = _left(logstore, before, ledger)
    view = Moved(
        table=logstore.table,
        old=old,
        new=origin.id,
        before=before,
        after=origin_text(origin),
        rows=sum(entry.rows for entry in ledger.shards.values()),
        reached_s=min((e.reached_s for e in ledger.shards.values() if not e.closed), default=0),
        starts=starts,
        left=left,
        unasked=unasked,
        before_s=logs_before(client, starts),
    )
    begun = Ledger(origin.id, {shard: ShardLedger(start=cursor) for shard, cursor in starts.items()})
    change = authored.unchanged(place.head, state, Deed(Operation.ADOPT, f"moved from {old}"))
    registered = publish.RegisteredOrigin(origin.id, view.after)
    barred = frozenset(bar for bar in state.forgotten.bars.values if bar.origin == old)
    bars = state.forgotten.bars.inherited(barred, origin.id)
    forgotten = replace(state.forgotten, bars=bars)
    ledgers = {**state.ledgers, origin.id: begun}
    change = replace(change, ledgers=ledgers, origin=registered, forgotten=forgotten)
    return Planned(view, place, change, refusal="" if without_missing else view.refusal)


def _left(logstore: Logstore, text: str, ledger: Ledger) -> tuple[tuple[int, ...] | None, str]:
    """The old logstore's shards with logs behind their frontier, by the same endpoint and keys; or None, and
    why nobody can say. One that is gone has nothing more to land; an answer that failed proves nothing, and
    neither does a single one."""
    names, _, created = text.rpartition("@")
    region, project, name = names.split("/", 2)
    there = logstore.service.model_copy(update={"project": project, "logstore": name})
    if region != there.region_name:
        return None, f"it is in {region}, and these settings ask {there.region_name}"
    with SlsClient(there) as client:
        try:
            if client.origin().created_s != int(created):
                return None, _doubt_made_anew(client, int(created))
            # Twice: of a shard that nobody landed yet the lists alone know.
            listed = {shard.id for shard in (*client.shards(), *client.shards())}
            if not listed:
                return None, "it lists no shard, and every logstore has one"
            return _behind(client, ledger, listed), ""
        except ServiceError as error:
            return None, _doubt_gone(client, error) if error.code in GONE_CODES else str(error)
        except SlsError as error:
            return None, str(error)


def _behind(client: SlsClient, ledger: Ledger, listed: AbstractSet[int]) -> tuple[int, ...]:
    """The shards with logs behind their frontier.

    One that the ledger has not closed is asked also where it is not listed: a list may be cut. It is gone
    where it says so itself; of a listed one that raises ShardGone.

    Worked example: shards 0 and 1 have frontiers 500 and 300, the service ends them at 500 and 320, and lists
    a shard 2 that nobody landed, with logs: 1 and 2 are behind. Where the list leaves 1 out it is asked all
    the same.
    """
    unlisted = {shard for shard, entry in ledger.shards.items() if not entry.closed} - listed
    found = []
    for shard in sorted(listed | unlisted):
        entry = ledger.shards.get(shard)
        try:
            frontier = client.cursor_at(shard, "begin") if entry is None else entry.frontier
            if frontier < client.cursor_at(shard, "end"):
                found.append(shard)
        except ShardGone:
            if shard in listed:
                raise
    return tuple(found)


def _doubt_gone(client: SlsClient, first: ServiceError) -> str:
    """Why it may be there although one call says that logstore or project is not; "" where the project's list
    of logstores says the same."""
    said = f"one answer says that it is not there ({first.code})"
    try:
        names = client.logstores()
    except ServiceError as error:
        if error.code in NO_PROJECT_CODES and first.code in NO_PROJECT_CODES:
            return ""
        return f"{said}, and the project's list of logstores does not confirm it: {error}"
    except SlsError as error:
        return f"{said}, and the project's list of logstores could not be asked: {error}"
    if first.code in NO_PROJECT_CODES:
        return f"{said}, and the project answers with its list of logstores"
    return f"{said}, and the project's list of logstores names it" if client.service.logstore in names else ""


def _doubt_made_anew(client: SlsClient, created_s: int) -> str:
    """Why it may be the same one although it names another time of creation; "" where its shards do, too.

    Worked example: the table's text says that it was created at 997, the service now says another time. Its
    oldest shard was made at 1000, within 5 s of 997: it may be the same one, and it is in doubt. Made at
    1003, all shards are younger, and the old logstore is gone.
    """
    shards = client.shards()
    if shards and all(shard.created_s > created_s + _ANEW_S for shard in shards):
        return ""
    return "it names another time of its creation than before, and its shards do not"
