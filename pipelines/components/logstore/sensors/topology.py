"""One half of `<name>_demand_sensor`: splits, merges, read-only and deleted shards.

A change is an observation of `sls/<name>_logstore` with the table of shards. Each shard is a partition of
`sls/<name>_shards`, added when it is first listed and removed when retention took it; the partition is
materialized as open when it is added, and as landed once all of the shard has.

A shard that became read-only and still holds something wants one live run, which reads it to its end and
closes it; its children can land after that. It is asked for once: by the run key of origin, shard and end
cursor, by the sensor's own cursor, and by a tag on the run, which is looked up first, so that another
deployment over the same run storage does not ask again. Deployments with storages of their own may both
ask: the second run finds the shard closed, and lands nothing twice.

Why three memories of one thing: each is lost in another way. A cursor is reset with a click, or was not
stored since the daemon died behind the tick. A run key is Dagster's own and holds for one sensor. A tag is on
the run and goes with it when old runs are deleted. None of them protects data: a run too many lands nothing.

Worked example: shard 0 splits into 1 and 2 and ends at cursor 700, of which 400 has landed. The tick tells
the split, makes partitions 1 and 2, and asks for a run with the key drain-<origin>-0@700. That run lands 400
to 700 and closes shard 0. The next tick tells that 0 has landed, and asks for nothing.
"""

import re
from collections.abc import Mapping
from hashlib import sha256

import dagster as dg

from pipelines.components.logstore import metadata
from pipelines.components.logstore.metadata import Metadata, bullets, records
from pipelines.components.logstore.schedule import live_request
from pipelines.components.logstore.sensors.ticks import Partitions, Sighting
from pipelines.landing.logstore import Logstore
from pipelines.landing.watch.look import Look
from pipelines.landing.watch.topology import Event, Seen, Topology, due, events, remembered, topology
from sls_io.values.errors import amount
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient

DRAINS_TAG = "sls/drains-"
"""With the shard's number behind it; its value is origin@end cursor."""
OPEN, LANDED = "open", "landed"
_SAID = {
    OPEN: "open: takes logs, or holds some that have not landed",
    LANDED: "landed: takes no more logs, and all of it is in the table",
}
_SHARD = re.compile(r"0|[1-9][0-9]{0,8}")
_LINES_MAX = 50
_KEY_CHARS_MAX = 100
_KEY_SHOWN = 8
"""Of 32 digits: all of them leave the other columns no room."""


def shards_key(logstore: Logstore) -> dg.AssetKey:
    """The shards, each a partition."""
    return dg.AssetKey(["sls", f"{logstore.name}_shards"])


def shards_partitions(logstore: Logstore) -> dg.DynamicPartitionsDefinition:
    """The shards that the service lists, by number."""
    return dg.DynamicPartitionsDefinition(name=f"{logstore.name}_shards")


def shards_spec(logstore: Logstore, origin: dg.AssetKey) -> dg.AssetSpec:
    """The external asset of the shards."""
    return dg.AssetSpec(
        shards_key(logstore),
        deps=[origin],
        partitions_def=shards_partitions(logstore),
        description=(
            "A partition for each shard, kept by the demand sensor. The newest materialization says its "
            "`state`: open, or landed, when the shard is read-only and all of it has landed."
        ),
        group_name=logstore.name,
        tags=metadata.tags(logstore),
        kinds={"source"},
    )


def drains(
    instance: dg.DagsterInstance,
    logstore: Logstore,
    origin: dg.AssetKey,
    client: SlsClient,
    seen: Look,
    cursor: str,
) -> Sighting:
    """What became of the shards since the look that left `cursor`; `origin` is the asset that is observed.

    A tick that sees what the last one saw leaves Dagster's partitions and their states alone. Where something
    moved, both are worked out anew: partitions that a dead tick did not store are added, and those of shards
    that retention took are removed, whoever added them.
    """
    before, partitions = Seen.of(cursor), shards_partitions(logstore)
    # The storage has what a cursor says: it is kept last. Asking it anew was most of a quiet tick.
    same = before is not None and before.still(seen)
    there = set() if same else set(instance.get_dynamic_partitions(str(partitions.name)))
    # Anybody can add a partition on the page: one that no shard is called is nobody's, and stays.
    known = {int(name): True for name in there if _SHARD.fullmatch(name)}
    known |= before.shards if before else {}
    now = topology(client, seen, known)
    found, origin_id = events(before, now), seen.ledger.origin
    if before is not None and before.origin != origin_id:
        # Dagster knows a partition by its name: shard 0 of a logstore made anew would stand as landed.
        instance.wipe_assets([shards_key(logstore)])
    requests, why, asked = _drains(instance, logstore, origin_id, due(before, now))
    observed = [_observed(origin, now, found)] if before is None or found else []
    return Sighting(
        said=_said(now, found, why),
        cursor=remembered(before, now, asked).text(),
        requests=tuple(requests),
        events=(*observed, *([] if same else _stand(instance, logstore, now))),
        partitions=() if same else tuple(_partitions(partitions, there, now)),
    )


def _drains(
    instance: dg.DagsterInstance, logstore: Logstore, origin: str, wanted: Mapping[int, Cursor]
) -> tuple[list[dg.RunRequest], str, list[int]]:
    """(requests, what is said of drains, shards whose drain is asked for): one run drains all that close."""
    tags = {shard: {f"{DRAINS_TAG}{shard}": f"{origin}@{int(end)}"} for shard, end in wanted.items()}
    done = [shard for shard in wanted if instance.get_runs_count(dg.RunsFilter(tags=tags[shard]))]
    left = {shard: end for shard, end in wanted.items() if shard not in done}
    if not left:
        return [], "", done
    names = ", ".join(map(str, sorted(left)))
    merged = {tag: value for shard in left for tag, value in tags[shard].items()}
    asked = live_request(instance, logstore, run_key=run_key(origin, left), tags=merged)
    if isinstance(asked, dg.SkipReason):
        return [], f"the drain of shard {names} is asked for later: {asked.skip_message}", done
    return [asked], f"a run is asked for that drains shard {names}", [*done, *left]


def run_key(origin: str, closing: Mapping[int, Cursor]) -> str:
    """The same for the same shards with the same ends. Worked example: shards 4 (end 10) and 2 (end 7) of o1
    are `drain-o1-2@7,4@10`; many of them are a digest, since a key is a column of Dagster's database. The end
    is in it because a shard that is opened again and closes later has more to drain."""
    text = ",".join(f"{shard}@{int(end)}" for shard, end in sorted(closing.items()))
    return f"drain-{origin}-{text if len(text) <= _KEY_CHARS_MAX else sha256(text.encode()).hexdigest()[:16]}"


def _partitions(
    partitions: dg.DynamicPartitionsDefinition, there: set[str], now: Topology
) -> list[Partitions]:
    """Shards that are listed and no partitions yet, and partitions whose shard is gone."""
    new = sorted(s for s in now.seen if str(s) not in there)
    gone = sorted(s for s in now.deleted if str(s) in there)
    added = [partitions.build_add_request([str(s) for s in new])] if new else []
    return [*added, *([partitions.build_delete_request([str(s) for s in gone])] if gone else [])]


def _stand(instance: dg.DagsterInstance, logstore: Logstore, now: Topology) -> list[dg.AssetMaterialization]:
    """The listed shards that are open or landed whole and were not told as that: Dagster has no colour of its
    own for what takes logs, and would call it missing although nothing is."""
    key, entries, tag = shards_key(logstore), now.look.ledger.shards, metadata.DATA_VERSION_TAG
    made, names = dg.DagsterEventType.ASSET_MATERIALIZATION, [str(shard) for shard in now.seen]
    told = instance.event_log_storage.get_latest_tags_by_partition(key, made, [tag], names) if names else {}
    found = []
    for shard in sorted(now.seen):
        entry = entries.get(shard)
        closed = entry is not None and entry.closed
        state = LANDED if closed else OPEN
        if told.get(str(shard), {}).get(tag) == state:
            continue
        values = {"state": _SAID[state], "origin": now.look.ledger.origin}
        values |= {"rows": f"{entry.rows:,}", "end": str(entry.end)} if closed and entry is not None else {}
        found.append(
            dg.AssetMaterialization(
                key,
                partition=str(shard),
                description=f"Shard {shard} is {_SAID[state]}.",
                metadata={name: dg.MetadataValue.text(value) for name, value in values.items()},
                tags={tag: state},
            )
        )
    return found


def _observed(origin: dg.AssetKey, now: Topology, found: tuple[Event, ...]) -> dg.AssetObservation:
    """What changed, and every shard with its lineage."""
    said = [str(event) for event in found]
    return dg.AssetObservation(
        origin,
        description="; ".join(said[:_LINES_MAX]) or "first look at the shards",
        metadata=_shown(now, said),
    )


def _shown(now: Topology, said: list[str]) -> Metadata:
    shards = now.look.shards
    rows = (
        {
            "shard": s.id,
            "status": "readonly" if s.readonly else "readwrite",
            "parents": ", ".join(map(str, sorted(now.parents[s.id]))),
            "table": now.standing(s),
            "first key": f"{s.begin_key[:_KEY_SHOWN]}…",
        }
        for s in shards
    )
    values: Metadata = {
        "shards": dg.MetadataValue.int(len(shards)),
        "readwrite": dg.MetadataValue.int(sum(not s.readonly for s in shards)),
        "readonly": dg.MetadataValue.int(sum(s.readonly for s in shards)),
        "closing": dg.MetadataValue.int(len(now.ends)),
        "by shard": records(rows),
    }
    if said:
        values["changed"] = bullets(said[:_LINES_MAX])
    if now.hidden:
        values["not listed, and there"] = dg.MetadataValue.text(", ".join(map(str, sorted(now.hidden))))
    return values


def _said(now: Topology, found: tuple[Event, ...], of_drains: str) -> str:
    """What became of the shards, and of a run for it."""
    changed = "; ".join(map(str, found[:_LINES_MAX]))
    if not changed:
        return of_drains or f"{amount(len(now.look.shards), 'shard')}, as before"
    return f"{changed}: {of_drains or 'no run is needed for it'}"
