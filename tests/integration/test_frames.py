"""The ledger as pandas frames; what is expected comes from the emulator's store and the table's files."""

from collections import Counter
from collections.abc import Hashable
from pathlib import Path

import pandas as pd
import pytest

from pipelines.landing.inspection.frames import INTERVALS, LAG, WINDOWS, LedgerFrames, open_ledger
from pipelines.landing.operations.undo import plan_undo
from sls_io.values.errors import ConfigError
from tests.worlds.command_line import settings
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World, use_catalog


@pytest.fixture
def ledger(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LedgerFrames:
    """Opened as a notebook does it: by file, with the catalog of the environment."""
    use_catalog(world.lake, monkeypatch)
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    return open_ledger(str(defs))


def two_hours(world: World) -> None:
    """30 logs in the first hour and 10 in the second, two landings."""
    world.land_more(30, until_s=HOUR0_S + 120)
    world.at(HOUR0_S + 3600 + 60)
    world.land_more(10, until_s=HOUR0_S + 3600 + 120)


def types(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(kind) for name, kind in frame.dtypes.items()}


def test_windows_say_what_landed_with_utc_times_and_whole_cursors(world: World, ledger: LedgerFrames) -> None:
    two_hours(world)
    frame = ledger.windows()
    assert types(frame) == dict(WINDOWS)
    assert frame["rows"].sum() == 40
    hour0 = pd.Timestamp(HOUR0_S, unit="s", tz="UTC")
    by_hour = frame.groupby("receive_hour")["rows"].sum()
    assert dict(by_hour) == {hour0: 30, hour0 + pd.Timedelta(hours=1): 10}
    assert frame["in_table"].all() and not frame["withdrawn"].any() and (frame["deed"] == "").all()
    assert frame["landed_at"].is_monotonic_increasing
    # Every stored log lies in exactly one window of its shard, with the rows that the window says.
    counted = Counter[Hashable]()
    for shard, cursor, _ in world.truth():
        inside = frame[(frame["shard"] == shard) & (frame["begin"] <= cursor) & (cursor < frame["end"])]
        assert len(inside) == 1
        counted[inside.index[0]] += 1
    assert counted == {i: n for i, n in frame["rows"].items() if n}


def test_lag_says_how_far_each_shard_is(world: World, ledger: LedgerFrames) -> None:
    two_hours(world)
    before = ledger.lag()
    assert types(before) == dict(LAG)
    assert list(before["shard"]) == [0, 1] and before["rows"].sum() == 40
    assert (before["frontier"] == before["end"]).all() and (before["frontier"] == before["checkpoint"]).all()
    assert (before["lag_s"] == 0).all() and before["raw_bytes"].isna().all()
    assert (before["reached_at"] > pd.Timestamp(HOUR0_S + 3600, unit="s", tz="UTC")).all()
    assert before["suspect_since"].isna().all() and not before["closed"].any()

    world.put(5, key="0" * 32, until_s=HOUR0_S + 3 * 3600)
    waits, drained = ledger.lag().to_dict("records")
    assert waits["end"] > waits["frontier"] and drained["lag_s"] == 0
    assert 2 * 3600 - 600 < waits["lag_s"] < 2 * 3600 + 600


def test_what_is_gone_is_a_gap_and_what_was_taken_back_is_withdrawn(
    world: World, ledger: LedgerFrames
) -> None:
    two_hours(world)
    assert types(ledger.gaps()) == types(ledger.withdrawn()) == dict(INTERVALS)
    assert len(ledger.gaps()) == len(ledger.withdrawn()) == 0

    landed = {s: e.frontier for s, e in world.ledger.shards.items()}
    world.put(4, key="0" * 32)
    with world.client as client:
        end = client.cursor_at(0, "end")
        world.at(HOUR0_S + 40 * 24 * 3600)
        world.emulator.admin.retain(PROJECT, "access_logs", shard=0, before_cursor=end)
    world.land_more(1, key="0" * 32, until_s=HOUR0_S + 40 * 24 * 3600 + 120)
    (gap,) = ledger.gaps().to_dict("records")
    assert (gap["shard"], gap["begin"], gap["end"]) == (0, landed[0], end)
    assert gap["cause"] == "expired"

    world.carried_out(plan_undo, range(HOUR0 + 1, HOUR0 + 2))
    back = ledger.withdrawn()
    assert set(back["cause"]) == {"withdrawn"} and back["begin"].dtype == "int64"
    windows = ledger.windows()
    hour1 = pd.Timestamp(HOUR0_S + 3600, unit="s", tz="UTC")
    assert windows[windows["receive_hour"] == hour1]["withdrawn"].all()
    assert not windows[windows["receive_hour"] < hour1]["withdrawn"].any()


def test_a_logstore_without_a_table_says_so(ledger: LedgerFrames) -> None:
    with pytest.raises(ConfigError, match="nothing has landed yet"):
        ledger.windows()
