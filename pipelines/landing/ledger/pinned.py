"""Shards that the settings name (`shards`): which of the others a live run leaves alone, and which of them
nobody reads.

A group hands a child on by itself; a list of names does not. When a named shard is split, its children are
somebody's only once somebody names them, so each look says which children nobody does. Whether another
deployment of the table has named them the ledger says: a child of which a live run has reached something is
read.

Worked example: `shards: [0]`. Shard 0 is split into 2 and 3, and a deployment that names 1 and 2 reads 2:
nobody reads 3, and whoever names 0 is told.
"""

from collections.abc import Iterable, Mapping

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
    return {shard: waits.unnamed(logstore.shards, nobodys.get(shard, ())) for shard in others}


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
    """The listed shards that came of one that the settings name, that they do not name, and of which no live
    run has landed anything -> the named shards that they came of. None where the settings name no shards.

    Lineage is what the list tells. Once retention took a named parent, nothing does, and each shard without
    parents of which nothing has landed counts as its child: shards come of others, and nobody reads this one.
    """
    if logstore.shards is None:
        return {}
    listed = list(shards)
    above, named = parents(listed), frozenset(logstore.shards)
    taken = frozenset(s for s in named if s not in above and s in ledger.shards and ledger.shards[s].closed)
    came_of: dict[int, frozenset[int]] = {}
    for shard in sorted(above):  # parents have lower ids
        if shard in named:
            came_of[shard] = frozenset({shard})
        elif _begun(ledger, shard):
            came_of[shard] = frozenset()  # whoever reads it is told of its children
        elif above[shard]:
            came_of[shard] = frozenset[int]().union(*(came_of[parent] for parent in above[shard]))
        else:
            came_of[shard] = taken
    return {shard: tuple(sorted(of)) for shard, of in came_of.items() if of and shard not in named}


def spoken(found: Mapping[int, tuple[int, ...]]) -> tuple[str, ...]:
    """What `unread` found, a sentence for each of the named shards."""
    by_parents: dict[tuple[int, ...], list[str]] = {}
    for shard, above in found.items():
        by_parents.setdefault(above, []).append(str(shard))
    return tuple(
        f"shard{'s' * (len(above) > 1)} {' and '.join(map(str, above))}, split or merged, went on as "
        f"{', '.join(children)}, which `shards` does not name, and nobody reads: nothing of that has landed. "
        f"Add {', '.join(children)} to `shards`, here or in another deployment of the table"
        for above, children in sorted(by_parents.items())
    )


def _begun(ledger: Ledger, shard: int) -> bool:
    """As in `sls_io.planning.plan.lineage`: rows that a backfill brought make nobody its reader."""
    entry = ledger.shards.get(shard)
    return entry is not None and bool(entry.reached_s)
