"""The calls to Dagster's GraphQL, against a server that answers what it is told over a real socket."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines import dagster_client
from pipelines.cli.main import EXIT_FAILED, EXIT_INTERRUPTED, run
from sls_io.values.errors import ConfigError, ConnectFailed, ServiceError
from tests.worlds.graphql_server import answering, data
from tests.worlds.projects import settings_of


def test_a_backfill_is_launched_for_the_range_of_the_asset() -> None:
    asked: list[dict[str, Any]] = []
    answer = data(launchPartitionBackfill={"__typename": "LaunchBackfillSuccess", "backfillId": "abc"})
    with answering(answer, asked) as url:
        hours = "2026-11-20-00:00", "2026-11-20-02:00"
        assert dagster_client.launch(url, ["bronze", "x"], *hours, tags={"sls/mode": "rest"}) == "abc"
    params = asked[0]["variables"]["params"]
    assert params["tags"] == [{"key": "sls/mode", "value": "rest"}] and params["runConfigData"] == {}
    (selector,) = params["partitionsByAssets"]
    assert selector == {
        "assetKey": {"path": ["bronze", "x"]},
        "partitions": {"ranges": [{"start": "2026-11-20-00:00", "end": "2026-11-20-02:00"}]},
    }


def test_an_hour_that_landed_outside_is_told_with_its_version() -> None:
    asked: list[dict[str, Any]] = []
    with answering("{}", asked) as url:
        dagster_client.materialized(url, ["bronze", "x"], "2026-11-20-00:00", "7", {"rows": 3})
    assert asked == [{"partition": "2026-11-20-00:00", "data_version": "7", "metadata": {"rows": 3}}]


def test_a_refused_backfill_says_what_dagster_said() -> None:
    answer = data(launchPartitionBackfill={"__typename": "PartitionKeysNotFoundError", "message": "no such"})
    with answering(answer) as url, pytest.raises(ServiceError, match="PartitionKeysNotFoundError: no such"):
        dagster_client.launch(url, ["bronze", "x"], "a", "b")


def test_progress_counts_the_hours() -> None:
    counts = {"numPartitionsTargeted": 3, "numPartitionsMaterialized": 2, "numPartitionsFailed": 1}
    answer = data(
        partitionBackfillOrError={
            "__typename": "PartitionBackfill",
            "status": "COMPLETED_FAILED",
            "numPartitions": 3,
            "error": None,
            "assetBackfillData": {"assetBackfillStatuses": [{}, counts]},
        }
    )
    with answering(answer) as url:
        state = dagster_client.progress(url, "abc")
    assert (state.total, state.done, state.failed) == (3, 2, 1)
    assert state.ended and not state.ok


def test_reasons_of_failed_runs_are_said_once_each_and_on_one_line() -> None:
    step = {"__typename": "ExecutionStepFailureEvent", "error": {"message": "Failure: ..."}}
    step["failureMetadata"] = {"description": "hour 7 is\ngone"}
    crash = {"__typename": "RunFailureEvent", "error": {"message": "the process of the run ended"}}
    runs = [[{"__typename": "RunStartEvent"}, step, crash], [step], [crash], [crash | {"error": None}]]
    results = [{"eventConnection": {"events": events}} for events in runs]
    asked: list[dict[str, Any]] = []
    with answering(data(runsOrError={"__typename": "Runs", "results": results}), asked) as url:
        assert dagster_client.reasons(url, "abc") == [
            *("hour 7 is gone", "the process of the run ended", "RunFailureEvent")
        ]
    assert asked[0]["variables"]["filter"]["tags"] == [{"key": "dagster/backfill", "value": "abc"}]


def test_definitions_that_do_not_load_are_said_and_those_still_loading_are_waited_for() -> None:
    def location(status: str, **found: object) -> str:
        entry = {"name": "sls_lake", "loadStatus": status, "locationOrLoadError": found or None}
        return data(workspaceOrError={"locationEntries": [entry]})

    with answering(location("LOADING")) as url:
        assert not dagster_client.loaded(url)
    with answering(location("LOADED", __typename="RepositoryLocation")) as url:
        assert dagster_client.loaded(url)
    broken = location("LOADED", __typename="PythonError", message="bad defs.yaml")
    with answering(broken) as url, pytest.raises(ServiceError, match=r"bad defs\.yaml"):
        dagster_client.loaded(url)


def test_no_dagster_at_the_address_is_said_with_the_cure() -> None:
    with answering("") as url:
        pass
    assert not dagster_client.loaded(url)
    with pytest.raises(ConnectFailed, match="--local"):
        dagster_client.progress(url, "abc")


@pytest.mark.parametrize("answer", ["<html>", "{}", '{"data": null}'])
def test_what_is_no_dagster_is_said(answer: str) -> None:
    with answering(answer) as url, pytest.raises(ConfigError, match="no Dagster page"):
        dagster_client.progress(url, "abc")


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(ConfigError, match="expected http"):
        dagster_client.progress("localhost:3000", "abc")


@pytest.mark.parametrize(
    "answer",
    [
        *("", "[]", "null", "5", "{}", '{"data": []}', '{"data": {}}', '{"errors": [1]}', "[" * 99_999),
        *('{"errors": {"a": 1}}', '{"data": {"launchPartitionBackfill": null}}'),
    ],
)
def test_an_answer_that_is_no_dagster_s_is_one_sentence(answer: str) -> None:
    with answering(answer) as url, pytest.raises(ConfigError, match="is no Dagster page"):
        dagster_client.launch(url, ["bronze", "x"], "a", "b")


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://[::1",
            "https://a..b",
            "http://" + "a" * 64,
            "http://a b",
            "http://127.0.0.1:99999",
            "http://",
        ),
        *(
            "http://127.0.0.1:x",
            "http://127.0.0.1/é",
            "http://127.0.0.1/a b",
            "ftp://a",
            "",
            "http://a:secret@b",
        ),
    ],
)
def test_an_address_that_is_none_names_the_option(url: str) -> None:
    with pytest.raises(ConfigError, match="--dagster-url") as caught:
        dagster_client.launch(url, ["bronze", "x"], "a", "b")
    assert "secret" not in str(caught.value)


_DEFS = settings_of("logs", table="bronze.logs", start="2026-01-01-00:00")


def test_who_hears_no_more_of_a_backfill_that_was_launched_is_told_that_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "defs.yaml").write_text(_DEFS)
    answer = data(
        launchPartitionBackfill={"__typename": "LaunchBackfillSuccess", "backfillId": "abc"},
        partitionBackfillOrError={"__typename": "PythonError", "message": "the daemon's database is away"},
    )
    verb = ["backfill", "-l", str(tmp_path / "defs.yaml"), "--mode", "errors", "--execute"]
    with answering(answer) as url:
        code = run([*verb, "--from", "2026-01-01-00:00", "--dagster-url", url])
    said = capsys.readouterr()
    assert code == EXIT_FAILED and "database is away" in said.err
    assert "it goes on in Dagster" in said.out


def test_who_stops_following_hears_that_the_backfill_goes_on_and_where_to_cancel_it(tmp_path: Path) -> None:
    (tmp_path / "defs.yaml").write_text(_DEFS)
    begun = {"__typename": "PartitionBackfill", "status": "REQUESTED", "numPartitions": 1, "error": None}
    answer = data(
        launchPartitionBackfill={"__typename": "LaunchBackfillSuccess", "backfillId": "abc"},
        partitionBackfillOrError=begun,
    )
    verb = ["backfill", "-l", str(tmp_path / "defs.yaml"), "--mode", "errors", "--execute"]
    code = "import sys; from pipelines.cli.main import main; main(sys.argv[1:])"
    words = [sys.executable, "-u", "-c", code, *verb, "--from", "2026-01-01-00:00"]
    with (
        answering(answer) as url,
        subprocess.Popen([*words, "--dagster-url", url], stdout=subprocess.PIPE, text=True) as asked,
    ):
        assert asked.stdout is not None
        assert asked.stdout.readline().startswith("backfill abc of 1 hour")
        asked.send_signal(signal.SIGINT)
        said = asked.stdout.read()
    assert asked.returncode == EXIT_INTERRUPTED
    assert f"it goes on in Dagster; to end it, cancel it there: {url}/runs/b/abc" in said.replace("\n", "")
