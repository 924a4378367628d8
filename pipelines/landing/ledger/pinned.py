"""Shards that the settings name (`shards`): which of the others a live run leaves alone, and which of them
nobody reads.

A group hands a child on by itself; a list of names does not. When a named shard is split, its children are
somebody's only once somebody names them, and so is a shard that no list had in it from the beginning: each
look says of which nothing has landed. Whether another deployment of the table reads one the ledger says: a
shard of which a live run has reached something is read.

Worked example: `shards: [0]`, of a logstore with the shards 0, 1 and 4. Shard 0 is split into 2 and 3, and a
deployment that names 1 and 2 reads these: nobody reads 3, and whoever names 0 is told. Of 4 both are told.
"""

from collections.abc import Iterable, Mapping, Sequence

from pipelines.landing.logstore import Logstore
from sls_io.planning import waits
from sls_io.planning.waits import Wait
from sls_io.values.claim import Ledger
from sls_io.values.errors import ConfigError
from sls_io.values.shard import Shard, parents


def left_to_others(logstore: Logstore, shards: Iterable[Shard], ledger: Ledger) -> Mapping[int, Wait]:
    """Those of the listed `shards`, and of the ledger's, that the settings do not name, with the reason; none
    where they name no shards."""
    if logstore.shards is None:
        return {}
    listed = tuple(shards)
    nobodys = unread(logstore, listed, ledger)
    others = {*ledger.shards, *(s.id for s in listed)}.difference(logstore.shards)
    return {shard: waits.unnamed(logstore.shards, nobodys.get(shard)) for shard in others}


def check_named(logstore: Logstore, shards: Iterable[Shard], ledger: Ledger) -> None:
    """Raises ConfigError where the settings name a shard that the service does not list and the table does
    not know: with a slip of the pen nobody would read the shard that was meant. One that retention took is
    known to the table."""
    listed = {shard.id for shard in shards}
    strange = sorted({*(logstore.shards or ())} - listed - ledger.shards.keys())
    if strange:
        raise ConfigError(
            f"shards: logstore {logstore.service.logstore} has no shard {', '.join(map(str, strange))}; it "
            f"has {', '.join(map(str, sorted(listed)))}. Nothing was landed"
        )


def unread(logstore: Logstore, shards: Iterable[Shard], ledger: Ledger) -> Mapping[int, tuple[int, ...]]:
    """The listed shards that the settings do not name, of which no live run has landed anything, and that
    came of no shard of somebody else's -> the named shards that they came of; empty for one that came of
    none. None where the settings name no shards; before the first landing only what came of a named one.

    Lineage is what the list tells. Once retention took a parent, nothing does, and its child came of none.
    """
    if logstore.shards is None:
        return {}
    listed = list(shards)
    above, named = parents(listed), frozenset(logstore.shards)
    came_of: dict[int, frozenset[int] | None] = {}
    for shard in sorted(above):  # parents have lower ids
        if shard in named:
            came_of[shard] = frozenset({shard})
        elif _begun(ledger, shard):
            came_of[shard] = None  # whoever reads it is told of its children
        elif above[shard]:
            mine = [of for parent in above[shard] if (of := came_of[parent]) is not None]
            came_of[shard] = frozenset[int]().union(*mine) if mine else None
        else:
            came_of[shard] = frozenset() if ledger.started else None
    return {s: tuple(sorted(of)) for s, of in came_of.items() if of is not None and s not in named}


def spoken(found: Mapping[int, tuple[int, ...]]) -> tuple[str, ...]:
    """What `unread` found, a sentence for each of the named shards, and one for what came of none."""
    by_parents: dict[tuple[int, ...], list[str]] = {}
    for shard, above in found.items():
        by_parents.setdefault(above, []).append(str(shard))
    return tuple(
        f"{_of(above, some)}{', '.join(some)}, which `shards` does not name, and of which nothing has "
        f"landed. Add {', '.join(some)} to `shards` of a deployment of the table, this one or another; where "
        "one names them already, this ends with its first landing of them"
        for above, some in sorted(by_parents.items())
    )


def _of(above: Sequence[int], some: Sequence[str]) -> str:
    if not above:
        return f"the logstore has shard{'s' * (len(some) > 1)} "
    return f"shard{'s' * (len(above) > 1)} {' and '.join(map(str, above))}, split or merged, went on as "


def _begun(ledger: Ledger, shard: int) -> bool:
    """As in `sls_io.planning.plan.lineage`: rows that a backfill brought make nobody its reader."""
    entry = ledger.shards.get(shard)
    return entry is not None and bool(entry.reached_s)
