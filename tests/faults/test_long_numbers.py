"""With `--json` no verb prints a number that jq or JavaScript rounds."""

import json
from pathlib import Path

import pytest

from pipelines.cli.main import run
from pipelines.landing.hours import hour_text
from tests.worlds.command_line import settings, too_long
from tests.worlds.one_logstore import HOUR0, World, use_catalog


@pytest.mark.parametrize("execute", [False, True], ids=["dry", "executed"])
def test_no_verb_prints_a_number_that_a_double_cannot_hold(
    calm: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    execute: bool,
) -> None:
    use_catalog(calm.lake, monkeypatch)
    calm.land_hours(3)
    first = min(landed.window.hour for _, windows in calm.landings() for landed in windows)
    back = calm.table.metadata.snapshots[0].snapshot_id
    calm.put(20, pass_s=60)
    (tmp_path / "defs.yaml").write_text(settings(calm))
    looks = [["land", "--dry-run"], ["describe"], ["verify"], ["verify", "--pull"], ["landings", "show"]]
    changes = [
        ["table", "undo", "--hour", hour_text(first)],
        ["table", "forget", "--where", "n = 25"],
        ["table", "maintain"],
        ["table", "rollback", str(calm.table.metadata.snapshots[-1].snapshot_id if execute else back)],
        ["checkpoints", "set", "--from", "ledger", "--to", "group", "--forward-only"],
    ]
    for words in [
        *looks,
        *(call for change in changes for call in ([*change, *["--execute"] * execute], ["windows"])),
    ]:
        run([*words, "--json", "--logstore", str(tmp_path / "defs.yaml")])
        said = json.loads(capsys.readouterr().out)
        assert too_long(said) == [], words
        if words == ["landings", "show"]:
            assert (
                all(isinstance(entry["snapshot_id"], str) for entry in said["landings"]) and said["landings"]
            )
        if words == ["land", "--dry-run"]:
            assert said["windows"] and all(
                len(w) == 4 and int(w[3]) > int(w[2]) > HOUR0 for w in said["windows"]
            )
