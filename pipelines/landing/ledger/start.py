"""Where a history begins: the reset policy, resolved once for every listed shard.

The answer is landed (zero rows) before any log is pulled, so that a run which dies in between, or a
second run at the same time, cannot begin somewhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil

from pyiceberg.table import Table

from pipelines.landing.coordinators import published, standing_if_there
from pipelines.landing.hours import moment_text
from pipelines.landing.ledger.codec import ASKED_PROPERTY_PREFIX, KEPT_PROPERTY_PREFIX
from pipelines.landing.ledger.fence import merge
from pipelines.landing.ledger.state import TableState, facts, names_of, read_state
from pipelines.landing.ledger.values import Delta
from pipelines.landing.logstore import Logstore
from pipelines.landing.table import commands
from pipelines.landing.table.home import HOME_VARIABLE
from pipelines.landing.table.lake import Lake
from sls_io.planning.again import Begins
from sls_io.planning.plan import fallen_back, never_landed_in, since_start
from sls_io.planning.survey import from_hour
from sls_io.planning.values import LedgerChange, Survey
from sls_io.values.claim import Ledger, ShardLedger
from sls_io.values.clock import Clock
from sls_io.values.cures import Do
from sls_io.values.errors import (
    Breach,
    ConfigError,
    CursorExpired,
    LedgerBroken,
    ServiceError,
    ShardGone,
    TransportError,
    some_of,
)
from sls_io.values.shard import Shard
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import Origin, SlsClient


def find_table(lake: Lake, logstore: Logstore, client: SlsClient) -> Table | None:
    """The table, or None when there is none, and neither storage nor service knows of an earlier one.

    Raises as `Lake.load`, and LedgerBroken when the group has checkpoints although there is no table.
    Not with `reset: group`, which means to begin at them.
    """
    table = lake.load(logstore.table)
    shards = moved(client, logstore) if table is None and logstore.reset != "group" else []
    # Story: two first runs, B finds no table; A makes it, lands and publishes, B finds A's checkpoints.
    # The table was there before them, so B looks there once more before it believes them.
    if not shards or (table := lake.load_anew(logstore.table)) is not None:
        return table
    path = lake.sqlite_path
    nowhere = path is not None and not path.exists()
    place = f"{lake.place}{', a file that is not there' * nowhere}"
    raise LedgerBroken(
        f"there is no table {logstore.table} in the catalog ({place}), but group {logstore.group.name} "
        f"has checkpoints of shards {', '.join(map(str, shards))}: somebody landed with it before. Nothing "
        "was landed",
        cures=(
            *[Do(f"look whether {HOME_VARIABLE}, or the catalog's address, names the right place")] * nowhere,
            Do(f"name the table again that it landed in, if `table: {logstore.table}` in its file is wrong"),
            Do("restore the catalog"),
            Do("let the new table begin where the group stands (`reset: group`)"),
            Do("name another group if this one is another program's"),
            commands.START_OVER,
        ),
    )


def table_and_ledger(
    lake: Lake, logstore: Logstore, client: SlsClient, *, newest: bool = True
) -> tuple[Table | None, Ledger, frozenset[int]]:
    """The table, its proven ledger of the logstore, and the shards that a person paused; an empty ledger
    where there is no table yet and never was. `newest` as in `read_state`.

    Raises LedgerBroken where the table contradicts itself, and for the table of another logstore, as a run
    would.
    """
    origin, table = client.origin(), find_table(lake, logstore, client)
    if table is None:
        return None, Ledger(origin.id), frozenset()
    state = read_state(table, newest=newest)
    known = check_origin(state, origin, logstore.table).id
    return table, state.ledger(known), state.paused_of(known)


def moved(client: SlsClient, logstore: Logstore) -> list[int]:
    """The shards whose checkpoint in the group says that something was read.

    Not one that is at the begin of a shard from which retention cannot have taken anything yet: a run
    that found the shard empty publishes that, too, and nothing is lost with it.

    Worked example: a shard was made an hour ago and logs are kept for a day. Its checkpoint is its begin: a
    run found it empty, and nothing is lost. The same checkpoint in a shard that is two days old may be where
    retention is by now, and counts.
    """
    points = {s: at for s, at in published_cursors(client, logstore).items() if at is not None}
    if not points:
        return []
    kept_s, listed = client.retention_s(), {s.id: s for s in client.shards()}
    oldest_s = 0.0 if kept_s is None else client.now_s() - kept_s

    def untouched(shard: int, cursor: Cursor) -> bool:
        entry = listed.get(shard)
        young = entry is not None and entry.created_s > oldest_s
        return young and cursor <= client.cursor_at(shard, "begin")

    return sorted(shard for shard, cursor in points.items() if not untouched(shard, cursor))


def resolve_starts(
    client: SlsClient, logstore: Logstore, checkpoints: Sequence[Mapping[int, Cursor | None]]
) -> dict[int, Cursor]:
    """Start cursor of each listed shard; never before the configured `start` hour.

    Everything is asked twice (`checkpoints` already were) and the lower answer holds, so one wrong answer
    skips nothing. Where both were wrong, `begins` finds out later, except for starts that a policy chose
    (`chosen_of`). Raises as `check_reset`.

    Worked example: the first answer says that shard 0 begins at 500, the second 300: it starts at 300.
    """
    check_reset(logstore)
    found: dict[int, Cursor] = {}
    for known in (checkpoints[0], checkpoints[-1]):
        asked = partial(_start, client, logstore, logstore.reset_time_s(client.now_s()), known)
        starts = dict(side_by_side(asked, client.shards()))
        found |= {shard: min(start, found.get(shard, start)) for shard, start in starts.items()}
    return found


def asked_of(logstore: Logstore, origin: str, kept_s: int) -> dict[str, str]:
    """The properties that a first start sets: what the settings asked for, and `kept_since`."""
    kept = {KEPT_PROPERTY_PREFIX + origin: str(kept_s)} if kept_s else {}
    return {ASKED_PROPERTY_PREFIX + origin: str(logstore.asked_s), **kept}


def kept_since(client: SlsClient, logstore: Logstore) -> int:
    """The oldest receive time, unix seconds, of which the service still has all logs, where older ones are
    asked for; 0 where none are.

    Nobody can tell what it has deleted before anybody looked, so that is no gap, and not nothing either.
    Worked example: logs are kept for a day, `start` is Monday, and the first run is on Wednesday at 10:00.
    The logstore is from last year: what came before Tuesday 10:00 may be gone. Made on Tuesday at noon it had
    no logs before.
    """
    retention_s = client.retention_s()
    if retention_s is None or logstore.leaves_older:
        return 0
    since_s = ceil(client.now_s() - retention_s)
    return since_s if since_s > max(logstore.asked_s, client.origin().created_s) else 0


def kept_text(logstore: Logstore, kept_s: int) -> str:
    """What to say of `kept_since`."""
    return (
        f"logs from {moment_text(logstore.asked_s)} UTC on are asked for, and the service deletes those from "
        f"before {moment_text(kept_s)} UTC: what it had of them lands, and whether more came then nobody can "
        "tell. Of these hours only those with rows are shown as landed"
    )


def waiting_before(client: SlsClient, logstore: Logstore) -> str:
    """What to say of logs that are there while `Logstore.ahead` says something; "" where there are none."""
    found = logs_before(client, {s.id: client.cursor_at(s.id, logstore.asked_s) for s in client.shards()})
    if not found:
        return ""
    shards = ", ".join(map(str, sorted(found)))
    return (
        f"shard {shards} has logs from before it, received since {moment_text(min(found.values()))} UTC, and "
        "they are not landed. If they are to land, name an earlier hour"
    )


def logs_before(client: SlsClient, starts: Mapping[int, Cursor]) -> dict[int, int]:
    """The shards with logs before their start -> receive time (unix seconds) of the oldest. Not how many:
    the service may jump from one cursor to the next."""
    found: dict[int, int] = {}
    for shard, start in starts.items():
        try:
            begin = client.cursor_at(shard, "begin")
            if begin < start:
                found[shard] = client.cursor_time_s(shard, begin)
        except (CursorExpired, ShardGone):
            continue  # retention took it between the two calls
    return found


def begun(client: SlsClient, logstore: Logstore, ledger: Ledger) -> Ledger:
    """The ledger that a first run would begin with now, of a logstore that has none. Changes nothing; the run
    asks again. Raises as `resolve_starts`."""
    asked: list[Mapping[int, Cursor | None]] = [{}]
    if logstore.reset == "group":
        asked = [published_cursors(client, logstore), published_cursors(client, logstore)]
    starts = resolve_starts(client, logstore, asked)
    change = LedgerChange(starts=starts, chosen=chosen_of(logstore, starts, asked))
    return merge(ledger, Delta(ledger.origin, live=True, change=change, first=True)).ledger


def published_cursors(
    client: SlsClient, logstore: Logstore, *, known_as: str = ""
) -> Mapping[int, Cursor | None]:
    """What the group has; nothing where it is not there: the first run makes it."""
    found = standing_if_there(logstore, client, known_as=known_as).checkpoints
    return {shard: stored.cursor for shard, stored in found.items()}


def check_reset(logstore: Logstore) -> None:
    """Raises ConfigError for policy `none` of a logstore without history: somebody has to choose."""
    if logstore.reset == "none":
        raise ConfigError(
            f"{logstore.table} has no history yet and reset is 'none'; "
            "set reset to earliest, latest, group, a time or a duration"
        )


def chosen_of(
    logstore: Logstore, starts: Mapping[int, Cursor], checkpoints: Sequence[Mapping[int, Cursor | None]]
) -> frozenset[int]:
    """The shards whose start a policy chose by something that changes with time: the end, an age, a
    checkpoint.

    The others begin at the oldest log since an hour that the settings name. The service can be asked for that
    again.
    """
    if logstore.reset == "group":
        return frozenset(s for s in starts if any(known.get(s) is not None for known in checkpoints))
    return frozenset(starts) if logstore.reset == "latest" or logstore.reset_ages else frozenset()


def begins(client: SlsClient, logstore: Logstore, state: TableState, origin: str) -> Begins:
    """Where the settings begin the shards of `origin` (the table's id of it), as the service answers now.

    For a start that a policy chose, it is what the first run that looked at the shard would have been told.
    It is None for a start that a person named, where rows were adopted or removed, and for one that a group
    named in which nobody of ours reads.
    """
    oldest_s = max(logstore.start_s, state.forgotten.before(origin) * HOUR_S)
    decided = state.adopted.shards_of(origin) | {s for name, s in state.adopted.missing if name == origin}
    decided |= {s for name, s in state.forgotten.shards if name == origin}

    def at(shard: Shard, entry: ShardLedger) -> Cursor | None:
        """A start that the service told is asked for again as it was asked then. One that a policy chose is
        worked out for the time that the shard has reached."""
        if entry.told:
            return client.cursor_at(shard.id, max(oldest_s, logstore.asked_s))
        if decided or (logstore.shards is not None and logstore.reset == "group"):
            return None  # the group is not ours then: it has moved on, or is gone
        looked_s = entry.reached_s or int(client.now_s())
        at_s = looked_s if logstore.reset == "latest" else logstore.reset_time_s(looked_s)
        kept = published(logstore, client, known_as=origin) if logstore.reset == "group" else {}
        cursors = {number: stored.cursor for number, stored in kept.items()}
        return _start(client, logstore, at_s, cursors, shard)[1]

    gone, before = state.forgotten.hours(origin), state.forgotten.before(origin)
    return Begins(at, gone, before, lowered(logstore, state, origin))


def lowered(logstore: Logstore, state: TableState, origin: str) -> bool | None:
    """Whether the settings name an earlier time than when the history of `origin` began; None where the table
    does not say what they named then."""
    then_s = state.asked.get(origin)
    return None if then_s is None else logstore.asked_s < then_s


def known(state: TableState, origin: Origin) -> Origin:
    """`origin` under the id by which the table has it; as it is where the table does not know it."""
    text = origin_text(origin)
    found = next((name for name, there in state.origins.items() if there == text), "")
    return replace(origin, known_as=found)


def known_in(lake: Lake, logstore: Logstore, client: SlsClient) -> str:
    """The id by which the logstore's table knows it, see `known`; "" without a table. What is kept beside the
    table is found by it: leases, mirrors, which run landed last.

    The label alone is asked for: whether the ledger can be trusted is for whoever reads that.
    """
    table = lake.load(logstore.table)
    return "" if table is None else known(facts(table, damaged_too=True), client.origin()).id


def leased_as(lake: Lake, logstore: Logstore, client: SlsClient) -> str:
    """The same for leases; "" where a group holds the shards, which asks for no id, and so for no table."""
    return known_in(lake, logstore, client) if logstore.coordinator.leases else ""


def check_origin(state: TableState, origin: Origin, table: str) -> Origin:
    """The origin as the table knows it, see `known`.

    Raises LedgerBroken when the table has this logstore under another region, or had one of its name that
    was deleted since: its cursors begin anew, so a ledger of the old one would say "nothing to do", or worse.
    """
    found = known(state, origin)
    if found.known_as:
        return found  # one that was made again has a ledger of its own: `table adopt` settled it
    if (name := mislabelled(state, origin)) is not None:
        region = state.origins[name].partition("/")[0]
        raise LedgerBroken(
            f"{table} has logstore {origin.logstore} under the region {region!r}, the settings say "
            f"{origin.region!r}: landed as another origin, all of it would be there twice. Nothing was "
            "changed",
            cures=(
                Do(f"set service.region: {region} if the settings are wrong"),
                commands.RELABEL.plus(does="gives the table the region of the settings"),
            ),
        )
    for name in namesakes(state, origin):
        raise LedgerBroken(
            f"logstore {origin.logstore} was deleted and created again since it was landed in {table} "
            f"(known as {name}, now {origin.id})",
            cures=(commands.ADOPT,),
            kind=Breach.UNEXPLAINED,
        )
    return found


def namesakes(state: TableState, origin: Origin) -> dict[str, str]:
    """The origins of the table, with their texts, that are this logstore, whenever it was made: deleted and
    made again, it is another origin."""
    name = origin_text(origin).rpartition("@")[0]
    return {other: text for other, text in sorted(state.origins.items()) if text.rpartition("@")[0] == name}


def check_same_logstore(logstore: Logstore, state: TableState, clock: Clock) -> None:
    """Raises LedgerBroken, as `check_origin`, where the service has another logstore of that name by now.
    Where it does not answer, the next run asks.

    Story: a logstore is deleted and made again while a run reads it. Its windows end as those that retention
    took, its group is not there: each looks like trouble that passes, and what was not read is gone.
    """
    with SlsClient(logstore.service, clock=clock) as client:
        try:
            now = client.origin()
        except (ServiceError, TransportError):
            return
    check_origin(state, now, logstore.table)


def fill_only(
    surveys: Mapping[int, Survey], ledger: Ledger, state: TableState, origin: str
) -> Mapping[int, Survey]:
    """What a fill may land of surveyed hours.

    Nothing from before a ledger that began with adopted rows; of hours of which rows were removed for good
    nothing from before a start, and nothing that was withdrawn; nothing of hours that were removed whole.
    """
    surveys = since_start(surveys, ledger, state.adopted.shards_of(origin))
    surveys = never_landed_in(surveys, ledger, state.forgotten.hours(origin))
    return from_hour(surveys, state.forgotten.before(origin))


def check_ends(surveys: Mapping[int, Survey], ledger: Ledger, table: str) -> None:
    """Raises LedgerBroken when a shard ends before what the ledger says has landed of it; or before its
    start, and a live run did not find where it really begins."""
    found = fallen_back(surveys, ledger)
    said = ", ".join(f"shard {s} ends at {end}, landed up to {at}" for s, (end, at) in found.items())
    if found and all(at == ledger.shards[s].start for s, (_, at) in found.items()):
        raise LedgerBroken(
            f"the service has less than where the history in {table} begins: {said}. Nothing has landed "
            "there, so nothing is lost: the service tells a wrong end now, or it told a wrong start then. "
            "The next live run asks again, and gives a shard with a wrong start a new one",
            cures=(commands.LAND,),
        )
    if found:
        raise LedgerBroken(
            f"the service has less than {table} says has landed: {said}. Nothing was landed. Run again: if "
            "one answer was wrong, the next run goes on. If this stays, these are other shards: the logstore "
            "was made again within the second of its creation, or put back to an older state. Then give it "
            "another table and group in its defs.yaml; the old rows stay where they are",
            cures=(commands.VERIFY,),
        )


def origin_text(origin: Origin) -> str:
    """The readable identity that the table keeps of an origin: region/project/logstore@created."""
    return f"{origin.region}/{origin.project}/{origin.logstore}@{origin.created_s}"


def check_beside(state: TableState, origin: Origin, logstore: Logstore) -> None:
    """Raises ConfigError where the table holds other logstores, does not know this one, and its settings do
    not say `shared`.

    Story: a defs.yaml is copied, and its `table` stays. The first run finds a table with a sound ledger and
    lands: foreign rows, new columns, and every proof is green, since each origin has a ledger of its own.
    """
    if not logstore.shared and (said := unknown_beside(state, origin, logstore)):
        raise ConfigError(f"nothing was landed: {said}")


def unknown_beside(state: TableState, origin: Origin, logstore: Logstore) -> str:
    """What to say of a logstore that the table does not know, where it holds others: its `table` may be
    wrong, and it may be one of them under another name. "" where the table knows it, or has no others."""
    others = _others(state, origin)
    if not others or state.ledger(origin.id).started or known(state, origin).known_as:
        return ""
    moved = commands.moved(next(iter(others)) if len(others) == 1 else "ORIGIN")
    there = f"{logstore.table} holds rows of {_named(others)}, and does not know {origin_text(origin)}. "
    mean = (
        "Its next landing begins a history beside them. "
        if logstore.shared
        else (
            "Is `table` wrong in the defs.yaml: correct it. Are they to share the table: write "
            "`shared: true` beside `table` in the file of each. "
        )
    )
    return (
        f"{there}{mean}Is it the same logstore under another name: "
        f"`{commands.shown(moved, logstore.option)}`, or --at latest or an hour, before the next landing"
    )


def landing_beside(state: TableState, origin: Origin, logstore: Logstore, since_s: float) -> str:
    """What to say of other logstores that land in the table, too, where the settings do not say `shared`:
    those with rows that reached the receive time `since_s` (unix seconds). "" where there are none."""
    late = {
        name: text
        for name, text in _others(state, origin).items()
        if any(entry.rows and entry.reached_s >= since_s for entry in state.ledger(name).shards.values())
    }
    if logstore.shared or not late:
        return ""
    return (
        f"{logstore.table} also takes rows of {_named(late)}. Is that meant: write `shared: true` beside "
        "`table` in the defs.yaml of each. Else the `table` of one of them is wrong"
    )


def _others(state: TableState, origin: Origin) -> dict[str, str]:
    """Id -> text of the table's origins that are other logstores: not this one, nor what it was before it was
    deleted and made again."""
    name = names_of(origin_text(origin)).rpartition("@")[0]
    texts = {other: state.origins.get(other, "") for other in {*state.origins, *state.ledgers}}
    mine = {origin.id, known(state, origin).id}
    return {
        other: text
        for other, text in sorted(texts.items())
        if other not in mine and names_of(text).rpartition("@")[0] != name
    }


def _named(there: Mapping[str, str]) -> str:
    return f"origin {some_of((f'{name} ({text})' for name, text in there.items()), 3)}"


def mislabelled(state: TableState, origin: Origin) -> str | None:
    """The id by which the table has this very logstore under another region, if it has.

    Story: an address was taken for the region, or somebody mistyped it. Project, logstore and the second
    of creation are the same, and a project's name exists once in the whole service (vendor
    documentation, "Manage a project"), so it is this logstore, whatever its region was called.
    """
    names = names_of(origin_text(origin))
    if known(state, origin).known_as:
        return None
    return next((name for name, text in state.origins.items() if names_of(text) == names), None)


def _start(
    client: SlsClient,
    logstore: Logstore,
    at_s: int | None,
    checkpoints: Mapping[int, Cursor | None],
    shard: Shard,
) -> tuple[int, Cursor]:
    """The shard's number and where it begins: by `reset`, and not before `start`."""
    floor, checkpoint = client.cursor_at(shard.id, logstore.start_s), checkpoints.get(shard.id)
    if at_s is not None:
        chosen = client.cursor_at(shard.id, at_s)
    elif logstore.reset == "group" and checkpoint is not None:
        chosen = checkpoint
    else:
        chosen = client.cursor_at(shard.id, "end" if logstore.reset == "latest" else "begin")
    return shard.id, max(floor, chosen)
