"""Commands that a text names are printed as they can be run."""

import json
from pathlib import Path

import pytest

from pipelines.cli import calls
from pipelines.cli.main import EXIT_FAILED, EXIT_USAGE, cli, run
from tests.worlds.projects import CLICKS, make_project


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("Cure: sls-lake verify", "Cure: sls-lake verify -l clicks"),
        ("`sls-lake verify --pull` names them", "`sls-lake verify -l clicks --pull` names them"),
        (
            "sls-lake table rollback 17 --without-missing; x",
            "sls-lake table rollback -l clicks 17 --without-missing; x",
        ),
        ("sls-lake table register, which", "sls-lake table register -l clicks --execute, which"),
        ("sls-lake table register shows what", "sls-lake table register -l clicks shows what"),
        (
            "`sls-lake checkpoints set --from ledger --to group --forward-only`",
            "`sls-lake checkpoints set -l clicks --execute --from ledger --to group --forward-only`",
        ),
        (
            "sls-lake checkpoints set --from ledger --to group",
            "sls-lake checkpoints set -l clicks --from ledger --to group",
        ),
        (
            "sls-lake checkpoints set --from ledger --to group:other --forward-only",
            "sls-lake checkpoints set -l clicks --from ledger --to group:other --forward-only",
        ),
        (
            "(sls-lake table repair-manifests --execute)",
            "(sls-lake table repair-manifests -l clicks --execute)",
        ),
        ("sls-lake table adopt --logstore with its name", "sls-lake table adopt --logstore with its name"),
        ("sls-lake verify -l other", "sls-lake verify -l other"),
        (
            "upgrade sls-lake to a release that sls-lake made",
            "upgrade sls-lake to a release that sls-lake made",
        ),
        ("sls-lake emulator --port 1", "sls-lake emulator --port 1"),
        ("var/venv/bin/sls-lake verify", "var/venv/bin/sls-lake verify"),
    ],
)
def test_a_call_gets_the_logstore_and_the_word_that_it_needs(text: str, completed: str) -> None:
    assert calls.completed(text, "clicks", verbs=cli) == completed


def test_with_one_logstore_nothing_is_put_in() -> None:
    said = "sls-lake verify; sls-lake land"
    assert calls.completed(said, "", verbs=cli) == said


def test_a_cure_of_a_project_with_two_logstores_names_the_one_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(make_project(tmp_path, clicks=CLICKS, orders=CLICKS.replace("clicks", "orders")))
    monkeypatch.setenv("SLS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "var"))
    assert run(["windows"]) == EXIT_USAGE
    capsys.readouterr()
    assert run(["windows", "-l", "orders"]) in (EXIT_USAGE, EXIT_FAILED)
    said = capsys.readouterr().err
    assert "sls-lake describe -l orders" in said
    run(["windows", "-l", "orders", "--json"])
    assert "sls-lake describe -l orders" in json.loads(capsys.readouterr().out)["error"]["message"]
