"""A proof, a compaction and a removal whose work is done by Spark's workers, in a process of its own.

    python -m tests.integration.tended '{"logstore": ..., "lake": ..., "home": ..., "where": ...}'

Takes what `killed_run` takes; rows that `where` takes leave. Prints what came of each as a line of JSON. Exit
status 2 and one sentence on stderr for an error of ours.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pipelines.landing.commit.planned import execute
from pipelines.landing.contents.spread import Spread
from pipelines.landing.inspection.proof import Proof
from pipelines.landing.inspection.verify import verify
from pipelines.landing.inspection.whole import every_file
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.spark.session import Engine
from pipelines.landing.table.home import HOME_VARIABLE
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import SlsError
from sls_io.wire.client import SlsClient
from tests.integration.killed_run import arguments_of, python
from tests.worlds.one_logstore import HOUR0_S, World


def main(arguments: dict[str, Any]) -> int:
    """Each of them, as `arguments` say; returns the exit status."""
    os.environ[HOME_VARIABLE] = arguments["home"]
    lake, logstore = Lake(arguments["lake"]), Logstore.model_validate(arguments["logstore"])
    engine = Engine(lake=lake, **{n: arguments[n] for n in ("remote", "master", "conf") if n in arguments})
    engine.here_bytes_max = -1
    try:
        with SlsClient(logstore.service) as client, Spread(engine).kept():
            before = verify(logstore, lake, client, pull=True, rows=every_file)
            done = Maintainer(logstore, lake).execute(["compact"])
            planned = plan_forget_where(lake, logstore, client, arguments["where"])
            execute(lake, planned)
            after = verify(logstore, lake, client, rows=every_file)
    except SlsError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    finally:
        engine.stop()
    compacted = [[hour.files, hour.files_after] for hour in done.compacted]
    print(json.dumps([_told(before), compacted, planned.view.rows, _told(after)]))  # noqa: T201
    return 0


def _told(proof: Proof) -> dict[str, Any]:
    shards = proof.shards
    return {
        "ok": proof.ok,
        "rows": sum(shard.rows_table for shard in shards),
        "pulled": sum(shard.windows_pulled or 0 for shard in shards),
        "whole": proof.whole.rows,
    }


def tend_elsewhere(world: World, home: Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    """The same in another process, of a table with four landings in two hours; ended when this returns."""
    for minute in (2, 30, 62, 90):
        world.at(HOUR0_S + 60 * (minute - 1))
        world.land_more(20, until_s=HOUR0_S + 60 * minute)
    asked = arguments_of(world.logstore, world.lake, home, where="n = 7", **more)
    return python("-m", "tests.integration.tended", asked)


def assert_tended(done: "subprocess.CompletedProcess[str]") -> None:
    """All rows were proven, an hour was written together, and one row left."""
    assert done.returncode == 0, done.stderr[-2000:]
    before, compacted, left, after = json.loads(done.stdout.splitlines()[-1])
    assert before["ok"] and (before["rows"], before["whole"]) == (80, 80) and before["pulled"] > 0
    assert compacted == [[4, 1]]
    assert left == 1 and after["ok"] and (after["rows"], after["whole"]) == (79, 79)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
