"""Shards that the settings name (`shards`): which of the others a live run leaves alone, and which of them
nobody reads.

A group hands a child on by itself; a list of names does not. When a named shard is split, its children are
somebody's only once somebody names them, and so is a shard that no list had in it from the beginning: each
look says of which nothing has landed. Whether another deployment of the table reads one the ledger says: a
shard of which a live run has reached something is read.

Worked example: `shards: [0]`, of a logstore with the shards 0, 1 and 4. Shard 0 is split into 2 and 3, and a
deployment that names 1 and 2 reads these: nobody reads 3 and 4, and both are told.
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
    return {shard: waits.unnamed(logstore.shards, nobodys=shard in nobodys) for shard in others}


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


def unread(logstore: Logstore, shards: Iterable[Shard], ledger: Ledger) -> frozenset[int]:
    """The listed shards that the settings do not name, and of which no live run has landed anything. None
    where the settings name no shards, and none before the first landing.

    A child whose parent another deployment still reads is not on turn yet. One that came of a shard of ours
    is told at once: it is known that it will be.

    Story: only who named the parent was told. It was taken out of the list once it was closed, and its
    children were in nobody's any more, until retention had them.
    """
    if logstore.shards is None or not ledger.started:
        return frozenset()
    listed = list(shards)
    above, named = parents(listed), frozenset(logstore.shards)
    elsewhere = {s for s, e in ledger.shards.items() if s not in named and _begun(ledger, s) and not e.closed}
    mine = {s for s in above if s not in named and not _begun(ledger, s)}
    return frozenset(shard for shard in mine if not above[shard] & elsewhere)


def own(logstore: Logstore, shards: Iterable[Shard], ledger: Ledger) -> frozenset[int]:
    """Those of the listed `shards`, and of the ledger's, that this deployment answers for: all of them; where
    the settings name shards, these, and those that nobody reads. Of the others whoever reads them is told."""
    listed = tuple(shards)
    nobodys = unread(logstore, listed, ledger)
    there = {*ledger.shards, *(s.id for s in listed)}
    return frozenset(shard for shard in there if logstore.reads(shard) or shard in nobodys)


def spoken(found: Iterable[int]) -> tuple[str, ...]:
    """What `unread` found, a sentence for all of them."""
    names = ", ".join(map(str, sorted(found)))
    if not names:
        return ()
    return (
        f"the logstore has shard{'s' * (',' in names)} {names}, which `shards` does not name, and of which "
        f"nothing has landed. Add {names} to `shards` of a deployment of the table, this one or another; "
        "where one names them already, this ends with its first landing of them",
    )


def _begun(ledger: Ledger, shard: int) -> bool:
    """As in `sls_io.planning.plan.lineage`: rows that a backfill brought make nobody its reader."""
    entry = ledger.shards.get(shard)
    return entry is not None and bool(entry.reached_s)
