"""What stands beside a logstore's assets on the page: owners, how old the checkpoint may be, windows."""

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from pipelines.components.logstore import metadata
from pipelines.components.logstore.assets import bronze_key, checkpoint_key
from pipelines.landing.ledger.values import Landed
from sls_io.values.window import Cursor, Window
from tests.worlds.components import ATTRIBUTES, definitions, logstore

CHECKPOINT, HOUR = checkpoint_key(logstore()), 494_000
OWNERS = ["someone@example.com", "team:logs"]


@pytest.mark.filterwarnings("ignore:`parse_obj_as`", "ignore::dagster_shared.utils.warnings.BetaWarning")
def test_owners_are_written_below_the_attributes_and_stand_with_every_asset() -> None:
    """As `docs/reference.md` has it."""
    written = {
        "type": "pipelines.components.SlsLogstore",
        "attributes": ATTRIBUTES,
        "post_processing": {"assets": [{"target": "*", "attributes": {"owners": OWNERS}}]},
    }
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "access_logs"
        folder.mkdir()
        (folder / "defs.yaml").write_text(yaml.safe_dump(written))
        with sandbox.load_component_and_build_defs(defs_path=folder) as (_, loaded):
            graph = loaded.resolve_asset_graph()
            owners = {key: list(graph.get(key).owners) for key in graph.get_all_asset_keys()}
    assert owners.keys() == definitions(ATTRIBUTES).resolve_asset_graph().get_all_asset_keys()
    assert owners.keys() >= {bronze_key(logstore()), CHECKPOINT}
    assert set(map(tuple, owners.values())) == {tuple(OWNERS)}


@pytest.mark.parametrize(
    ("lag_s", "fail_s", "warn_s"),
    [
        ([600, 1800], 1800, 600),
        ([0, 900], 900, None),
        ([600, 0], 600, None),
        ([5, 10], 60, None),
    ],
    ids=str,
)
def test_the_checkpoint_is_late_by_the_bounds_of_the_lag(
    lag_s: list[int], fail_s: int, warn_s: int | None
) -> None:
    assert policies({"lag_s": lag_s}) == {
        CHECKPOINT: dg.FreshnessPolicy.time_window(
            fail_window=timedelta(seconds=fail_s), warn_window=timedelta(seconds=warn_s) if warn_s else None
        )
    }


def test_the_checkpoint_has_bounds_as_it_is_and_none_where_the_lag_has_none() -> None:
    assert set(policies({})) == {CHECKPOINT}
    assert policies({"lag_s": [0, 0]}) == {}


def policies(health: dict[str, Any]) -> dict[dg.AssetKey, dg.FreshnessPolicy]:
    """The freshness policies of a logstore's assets with these settings."""
    graph = definitions({**ATTRIBUTES, "health": health}).resolve_asset_graph()
    found = {key: graph.get(key).freshness_policy for key in graph.get_all_asset_keys()}
    return {key: policy for key, policy in found.items() if policy is not None}


def test_twenty_windows_of_an_hour_are_shown_and_the_others_counted() -> None:
    def landed(count: int) -> list[Landed]:
        windows = (Window(n, Cursor(10 * n), Cursor(10 * n + 9), HOUR) for n in range(count))
        return [Landed(window, rows=window.shard, sum=0) for window in windows]

    assert metadata.windows([]) == {}
    few, many = metadata.windows(landed(20)), metadata.windows(landed(23))
    assert set(few) == {"windows"} and many["windows not shown"].value == 3
    table: Any = many["windows"].value
    assert [record.data for record in table.records][1] == {"shard": 1, "begin": "10", "end": "19", "rows": 1}
    assert len(table.records) == 20
