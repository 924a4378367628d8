"""Where a history begins: the reset policy, resolved once for every listed shard.

The answer is landed (zero rows) before any log is pulled, so that a run which dies in between, or a
second run at the same time, cannot begin somewhere else.
"""

from collections.abc import Mapping

from pipelines.landing.logstore import Logstore
from pipelines.landing.state import TableState
from sls_io.client import Origin, SlsClient
from sls_io.errors import ConfigError, LedgerBroken
from sls_io.shard import Shard
from sls_io.window import Cursor


def resolve_starts(
    client: SlsClient, logstore: Logstore, checkpoints: Mapping[int, Cursor | None]
) -> dict[int, Cursor]:
    """Start cursor of each listed shard; never before the configured `start` hour.

    Raises ConfigError for policy `none`, which means that somebody has to choose.
    """
    if logstore.reset == "none":
        raise ConfigError(
            f"{logstore.table} has no history yet and reset is 'none'; "
            "set reset to earliest, latest, group, a time or a duration"
        )
    at_s = logstore.reset_time_s(client.now_s())
    return {s.id: _start(client, logstore, s, at_s, checkpoints.get(s.id)) for s in client.shards()}


def check_origin(state: TableState, origin: Origin, table: str) -> None:
    """Raises LedgerBroken when the logstore was deleted and made again under the same name.

    Its cursors begin anew, so a ledger of the old one would say "nothing to do", or worse.
    """
    if origin.id in state.origins:
        return  # the new one has a ledger of its own: `table adopt` settled it
    for known, text in state.origins.items():
        if known != origin.id and text.rpartition("@")[0] == origin_text(origin).rpartition("@")[0]:
            raise LedgerBroken(
                f"logstore {origin.logstore} was deleted and created again since it was landed in {table} "
                f"(known as {known}, now {origin.id})",
                verb="sls-lake table adopt",
            )


def origin_text(origin: Origin) -> str:
    """The readable identity that the table keeps of an origin: region/project/logstore@created."""
    return f"{origin.region}/{origin.project}/{origin.logstore}@{origin.created_s}"


def _start(
    client: SlsClient, logstore: Logstore, shard: Shard, at_s: int | None, checkpoint: Cursor | None
) -> Cursor:
    floor = client.cursor_at(shard.id, logstore.start_s)
    if at_s is not None:
        return max(floor, client.cursor_at(shard.id, at_s))
    if logstore.reset == "latest":
        return max(floor, client.cursor_at(shard.id, "end"))
    if logstore.reset == "group" and checkpoint is not None:
        return max(floor, checkpoint)
    return max(floor, client.cursor_at(shard.id, "begin"))
