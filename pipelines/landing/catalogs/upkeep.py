"""What a catalog does to its tables by itself, and why a landing cannot live with all of it.

OSS Tables (vendor documentation, "Data maintenance"; `GetTableMaintenanceConfiguration`) expires the
snapshots of each table after 120 h, all but one, and compacts it, unless a table's own configuration says
otherwise. Its pages say nothing of tags.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from sls_io.values.cures import Do

COMPACTION, EXPIRY = "icebergCompaction", "icebergSnapshotManagement"
"""The two kinds of a table's maintenance, as the vendor's API names them."""
DEFAULTS: Mapping[str, Mapping[str, object]] = {
    COMPACTION: {"targetFileSizeMB": 512, "strategy": "auto"},
    EXPIRY: {"maxSnapshotAgeHours": 120, "minSnapshotsToKeep": 1},
}
"""What a table gets that nobody configured."""


@dataclass(frozen=True)
class CatalogUpkeep:
    """What a catalog does to a table by itself: nothing, where both are None.

    `expires` and `compacts` are the settings of each, as the vendor's API names them; `bucket` is the ARN of
    the table bucket. `untold`: what nobody can be asked.
    """

    expires: Mapping[str, Any] | None = None
    compacts: Mapping[str, Any] | None = None
    bucket: str = ""
    untold: str = ""

    def said(self) -> tuple[str, ...]:
        """What it does, a phrase each."""
        found = []
        if self.expires is not None:
            hours = self.expires.get("maxSnapshotAgeHours", "some")
            kept = self.expires.get("minSnapshotsToKeep", "some")
            found.append(f"expires snapshots after {hours} h, all but {kept},")
        if self.compacts is not None:
            found.append(f"compacts files to {self.compacts.get('targetFileSizeMB', 'some')} MB")
        return tuple(found)

    def cures(self, table: tuple[str, ...]) -> tuple[Do, ...]:
        """What turns off what it does, for a table."""
        on = {EXPIRY: self.expires, COMPACTION: self.compacts}
        return tuple(_turned_off(kind, self.bucket, table) for kind in on if on[kind] is not None)


@runtime_checkable
class KeepsTables(Protocol):
    """A catalog that may do something to its tables by itself, and can be asked."""

    def upkeep(self, table: tuple[str, ...]) -> CatalogUpkeep:
        """What it does to this table now. Raises ConfigError where it may not be asked, TransportError where
        it does not answer."""


def read(configuration: Mapping[str, Any], bucket: str) -> CatalogUpkeep:
    """The configuration of a table as the vendor's API gives it. A kind that it does not name has the
    defaults, and those are on.

    Worked example: {} expires snapshots after 120 h, all but one, and compacts to 512 MB. With compaction
    disabled it still expires. With an expiry of 48 h and nothing else said the least number of snapshots is
    the default's, one: settings go over the defaults one by one.
    """
    on = {}
    for kind, defaults in DEFAULTS.items():
        entry = configuration.get(kind) or {}
        if entry.get("status", "enabled") == "enabled":
            on[kind] = {**defaults, **(entry.get("settings") or {}).get(kind, {})}
    return CatalogUpkeep(on.get(EXPIRY), on.get(COMPACTION), bucket)


def _turned_off(kind: str, bucket: str, table: tuple[str, ...]) -> Do:
    value = json.dumps({"status": "disabled"}, separators=(",", ":"))
    return Do(
        f"ossutil tables-api put-table-maintenance-configuration --table-bucket-arn {bucket} "
        f"--namespace {table[0]} --name {table[-1]} --type {kind} --value '{value}'"
    )
