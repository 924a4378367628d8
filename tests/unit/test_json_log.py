"""`SLS_LAKE_LOG=json`: each line that a process of ours writes to stderr is one object."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

RUN = """
    import logging, warnings
    import dagster as dg
    import pipelines.definitions
    from pipelines.landing import json_log

    @dg.op
    def lands(context):
        json_log.of_landing("0a1b2c3d")
        context.log.info("landing: %s", "publish")
        logging.getLogger("a.library").warning("not ours")
        raise ValueError("two\\nlines")

    @dg.job
    def nightly():
        lands()

    @dg.sensor(job=nightly)
    def looks(context):
        context.log.info("nothing waits")

    assert not nightly.execute_in_process(raise_on_error=False).success
    with dg.instance_for_test() as instance:
        defs = dg.Definitions(jobs=[nightly], sensors=[looks])
        with dg.build_sensor_context(instance, definitions=defs, sensor_name="looks") as context:
            looks(context)
    warnings.warn("soon gone")
    raise KeyError("nobody caught it")
"""
WORKER = """
    import logging
    from pipelines.landing.run.spark_task import task_of
    list(task_of(None)([]))
    logging.getLogger("a.transform").warning("a worker's word")
"""


def lines(code: str, *, fails: bool) -> list[dict[str, Any]]:
    """The objects that a process with this program writes to stderr; nothing else is there."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "SLS_LAKE_LOG": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(done.returncode) is fails, done.stderr
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "logger", "message"} <= {*each} for each in found)
    return found


def test_a_run_and_a_sensor_of_dagster_speak_json_with_the_runs_id() -> None:
    said = {each["message"]: each for each in lines(RUN, fails=True)}
    landing = said["landing: publish"]
    assert landing["level"] == "INFO" and landing["step"] == "lands" and landing["landing"] == "0a1b2c3d"
    assert len(landing["run"]) == 36 and landing["time"].endswith("Z")
    failed = said['Execution of step "lands" failed.']
    assert failed["run"] == landing["run"] and "two\nlines" in failed["trace"]
    assert said["not ours"]["logger"] == "a.library"
    assert said["nothing waits"]["logger"] == "dagster"
    assert any("soon gone" in message for message in said)
    assert "KeyError: 'nobody caught it'" in said["uncaught error"]["trace"]


def test_a_worker_of_spark_speaks_json() -> None:
    (said,) = lines(WORKER, fails=False)
    assert said["logger"] == "a.transform" and said["message"] == "a worker's word"


def test_a_command_speaks_json_and_what_it_shows_stays_text(tmp_path: Path) -> None:
    def typed(*arguments: str, word: str = "json") -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).parent / "sls-lake"
        environment = {**os.environ, "SLS_LAKE_LOG": word}
        return subprocess.run(
            [program, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    nowhere = typed("land", "--dry-run")
    assert nowhere.returncode == 2
    (said,) = map(json.loads, nowhere.stderr.splitlines())
    assert said["level"] == "ERROR" and said["message"].startswith(f"sls-lake: {tmp_path} is in no project")
    (usage,) = map(json.loads, typed("frob").stderr.splitlines())
    assert "No such command 'frob'" in usage["message"]
    assert typed("--version").stdout.startswith("sls-lake") and not typed("--version").stderr
    wrong = typed("land", word="xml")
    assert wrong.returncode == 2 and "SLS_LAKE_LOG is xml: it is json" in wrong.stderr
