"""What an earlier release left on disk is read, landed on and proven by this one (`freeze.py` made it)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sls_io.emulator.handle import Emulator, start
from tests.frozen.freeze import HERE, Folder, lines, write

FROZEN = json.loads((Path(__file__).parent / "96c58b4.json").read_text(encoding="utf-8"))
LOGS, LEASED = ("-l", "logs/defs.yaml"), ("-l", "leased/defs.yaml")
PROVEN = ("shard", "frontier", "rows_ledger", "rows_table", "rows_forgotten", "gaps", "withdrawn")


class Release:
    """The folder under this release, and the service that it knew, in the same hour."""

    def __init__(self, folder: Folder, emulator: Emulator) -> None:
        self.folder, self.emulator = folder, emulator

    def call(self, *words: str) -> dict[str, Any]:
        """The document of a verb that ends well."""
        return self.folder.call(*words, endpoint=self.emulator.endpoint)

    def add(self, begin: int) -> None:
        """Forty more logs in each logstore, an hour later."""
        self.emulator.admin.advance(3600)
        lines(self.folder.path / "lines.json", begin)
        for of in (LOGS, LEASED):
            self.call("load", "--file", "lines.json", "--format", "json", "--group-size", "7", *of)
        self.emulator.admin.advance(60)  # what came a moment ago waits for the next run


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    folder = Folder(tmp_path)
    folder.unpack(FROZEN["files"])
    write(tmp_path / "logs" / "defs.yaml", name="logs", coordinator="{}")
    write(tmp_path / "leased" / "defs.yaml", name="leased", coordinator='{database: "env:LEASES"}')
    for path in tmp_path.glob("*/defs.yaml"):
        # Where the machine has another name the leases are somebody else's, for one time-out.
        path.write_text(path.read_text().replace("holder: one", "holder: one, timeout_s: 15"))
    with start(tmp_path / "emulator", now=FROZEN["now_s"]) as emulator:
        yield Release(folder, emulator)


def proven(verified: dict[str, Any]) -> list[dict[str, Any]]:
    """What a proof says of each shard, in words that do not change."""
    return [{name: shard[name] for name in PROVEN} for shard in verified["shards"]]


def windows(said: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What each snapshot brought, and what became of it."""
    return [
        (entry["snapshot_id"], entry["rows"], entry["in_table"], entry["windows"], entry["withdrawn"])
        for entry in said["entries"]
    ]


def test_all_that_an_earlier_release_left_is_read_as_it_was_told_then(release: Release) -> None:
    for name, of in (("logs", LOGS), ("leased", LEASED)):
        verified = release.call("verify", "--rows", *of)
        assert verified["ok"] and proven(verified) == proven(FROZEN["said"][f"verify {name}"])
        assert windows(release.call("windows", *of)) == windows(FROZEN["said"][f"windows {name}"])
    stores = ("file:store.json", f"sql:sqlite:///{HERE}/store.db", "ledger", "group")
    places = release.call("checkpoints", "show", *stores, *LOGS)["places"]
    kept = [{str(s["shard"]): s["checkpoint"] for s in place["shards"]} for place in places]
    frontiers = {str(s["shard"]): s["frontier"] for s in FROZEN["said"]["verify logs"]["shards"]}
    assert kept == [frontiers] * 4


def test_a_table_of_an_earlier_release_is_landed_on_each_log_once(release: Release) -> None:
    release.add(160)
    landed = [release.call("land", *of) for of in (LOGS, LEASED)]
    assert 0 < landed[0]["rows"] < 40, "one of the two shards was paused then"
    # The leases have the name that the command line had then: half of them are its, until that is gone.
    assert landed[1]["rows"] + release.call("land", *LEASED)["rows"] == 40
    release.call("shards", "resume", "1", *LOGS, "--execute")
    assert landed[0]["rows"] + release.call("land", *LOGS)["rows"] == 40
    release.call("backfill", "--local", "--from", "2026-11-20-11:00", *LOGS)
    totals = [sum(s["rows_table"] for s in release.call("verify", *of)["shards"]) for of in (LOGS, LEASED)]
    assert totals == [5 * 40 - 5, 5 * 40], "what was taken back came again, what was removed for good did not"
