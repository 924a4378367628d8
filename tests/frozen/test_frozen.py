"""What an earlier release left on disk is read, landed on and proven by this one (`freeze.py` made it).

The verbs run in this process: it stands in the folder, which is what the files name one another by.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chaos.engine import InProcess
from pipelines.cli.logstores import resolve_to_land
from pipelines.cli.main import EXIT_FAILED, run
from pipelines.landing.hours import hour_of
from pipelines.landing.run.driver import Run
from pipelines.landing.table.commands import UPGRADE
from pipelines.landing.table.lake import Lake
from sls_io.emulator.handle import Emulator, start
from sls_io.values.errors import LedgerBroken
from tests.frozen.freeze import ENVIRONMENT, HERE, Folder, lines, write

RELEASES = sorted(Path(__file__).parent.glob("*.json"))
LOGS, LEASED = "logs/defs.yaml", "leased/defs.yaml"
PROVEN = ("shard", "frontier", "rows_ledger", "rows_table", "rows_forgotten", "gaps", "withdrawn")


class Release:
    """The folder under this release, and the service that it knew, in the same hour."""

    def __init__(self, emulator: Emulator, frozen: dict[str, Any], said: pytest.CaptureFixture[str]) -> None:
        self.emulator, self.said, self._out = emulator, frozen["said"], said

    def call(self, *words: str, of: str, code: int = 0) -> dict[str, Any]:
        """The document of a verb."""
        self._out.readouterr()
        ended, told = run([*words, "-l", of, "--json"]), self._out.readouterr()
        assert ended == code, told.err
        found: dict[str, Any] = json.loads(told.out)
        return found

    def add(self, begin: int) -> None:
        """Forty more logs in each logstore, an hour later."""
        self.emulator.admin.advance(3600)
        lines(Path("lines.json"), begin)
        for of in (LOGS, LEASED):
            self.call("load", "--file", "lines.json", "--format", "json", "--group-size", "7", of=of)
        self.emulator.admin.advance(60)  # what came a moment ago waits for the next run

    def land(self, of: str, hour: str = "") -> int:
        """Rows of a landing, or of a backfill of that hour."""
        hours = (hour_of(hour), hour_of(hour) + 1) if hour else None
        with Run(resolve_to_land(of), InProcess(), mode="fill" if hours else "live", hours=hours) as landing:
            report = landing.land()
            assert landing.reconcile().ok
            if not hours:
                landing.checkpoint()
        return report.rows


@pytest.fixture(params=RELEASES, ids=lambda path: path.stem)
def release(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Release]:
    frozen = json.loads(request.param.read_text(encoding="utf-8"))
    Folder(tmp_path).unpack(frozen["files"])
    write(tmp_path / LOGS, name="logs")
    write(tmp_path / LEASED, name="leased", coordinator='{database: "env:LEASES"}')
    with closing(sqlite3.connect(tmp_path / "leases.db")) as leases:
        ((holder,),) = leases.execute("SELECT DISTINCT lease_owner FROM loghub_client_shard_lease")
    for path in tmp_path.glob("*/defs.yaml"):
        # The command line's name on the machine of then: by any other one these are somebody else's leases.
        path.write_text(path.read_text().replace("holder: one", f"holder: {holder}"))
    monkeypatch.chdir(tmp_path)
    with start(tmp_path / "emulator", now=frozen["now_s"]) as emulator:
        more = {"SLS_ENDPOINT": emulator.endpoint, "SLS_LAKE_HOME": "state"}
        for name, value in {**ENVIRONMENT, **more}.items():
            # A process keeps its connections: a database has a name of its own in each test.
            monkeypatch.setenv(name, value.replace(f"sqlite:///{HERE}", f"sqlite:///{tmp_path}"))
        yield Release(emulator, frozen, capsys)


def proven(verified: dict[str, Any]) -> list[dict[str, Any]]:
    """What a proof says of each shard, in words that do not change."""
    return [{name: shard[name] for name in PROVEN} for shard in verified["shards"]]


def windows(listed: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What each snapshot brought, and what became of it."""
    return [
        (entry["snapshot_id"], entry["rows"], entry["in_table"], entry["windows"], entry["withdrawn"])
        for entry in listed
    ]


def test_all_that_an_earlier_release_left_is_read_as_it_was_told_then(release: Release) -> None:
    for name, of in (("logs", LOGS), ("leased", LEASED)):
        verified = release.call("verify", "--rows", of=of)
        assert verified["ok"] and proven(verified) == proven(release.said[f"verify {name}"])
        now, then = release.call("landings", "show", of=of), release.said[f"windows {name}"]
        assert windows(now["landings"]) == windows(then["entries"])
    stores = ("file:store.json", f"sql:sqlite:///{Path.cwd()}/store.db", "ledger", "group")
    places = release.call("checkpoints", "show", *stores, of=LOGS)["places"]
    kept = [{str(s["shard"]): s["checkpoint"] for s in place["shards"]} for place in places]
    frontiers = {str(s["shard"]): s["frontier"] for s in release.said["verify logs"]["shards"]}
    assert kept == [frontiers] * 4


def test_a_table_of_an_earlier_release_is_landed_on_each_log_once(release: Release) -> None:
    release.add(160)
    landed = [release.land(of) for of in (LOGS, LEASED)]
    assert landed[1] == 40 and 0 < landed[0] < 40, "one of the two shards was paused then"
    release.call("shards", "resume", "1", "--execute", of=LOGS)
    assert landed[0] + release.land(LOGS) == 40
    release.land(LOGS, "2026-11-20-11:00")
    totals = [sum(s["rows_table"] for s in release.call("verify", of=of)["shards"]) for of in (LOGS, LEASED)]
    assert totals == [5 * 40 - 5, 5 * 40], "what was taken back came again, what was removed for good did not"


def test_leases_of_an_earlier_release_keep_their_checkpoints_and_are_shared_by_weight(
    release: Release,
) -> None:
    settings = Path(LEASED)
    settings.write_text(settings.read_text().replace('"env:LEASES"', '"env:LEASES", assignor: weighted'))
    before = rows("check_point")
    for hour in range(3):
        release.add(160 + 40 * hour)
        assert release.land(LEASED) == 40
    assert before and all(after > then for then, after in zip(before, rows("check_point"), strict=True))
    assert None not in rows("weight"), "measured in the hours that are over"


def rows(column: str) -> list[int]:
    """A column of the leases."""
    with closing(sqlite3.connect("leases.db")) as leases:
        asked = f"SELECT {column} FROM loghub_client_shard_lease ORDER BY shard_id"
        return [value for (value,) in leases.execute(asked)]


def test_a_ledger_that_a_later_release_wrote_is_refused_with_the_cure(release: Release) -> None:
    """As this release will be, one day, after somebody goes back to it."""
    table = Lake.default().load("bronze.logs")
    assert table is not None
    place = Path(table.metadata_location.removeprefix("file://"))
    before = place.read_text(encoding="utf-8")
    later = re.sub(r'("sls-lake\.ledger\.[^"]+":")1;', r"\g<1>9;", before)
    assert later != before
    place.write_text(later, encoding="utf-8")
    with pytest.raises(LedgerBroken, match="the text has version 9, this release reads 1") as refused:
        release.land(LOGS)
    assert refused.value.cures == (UPGRADE,)
    said = release.call("verify", of=LOGS, code=EXIT_FAILED)
    assert UPGRADE.text in json.dumps(said)
    assert place.read_text(encoding="utf-8") == later, "nothing is written over it"
    assert release.land(LEASED) == 0, "the other table is not touched"
