"""What the maintenance deletes of a month of live runs: what goes, what stays, seconds, Dagster's files.

    python -m bench.bench_prune [DAYS] [RUNS A DAY]

Two real live runs of an emulator's logs are told again for each five minutes of the month, every fiftieth
of them one that failed. Then the maintenance of the deployment prunes them, in this process. Files under
/dev/shm take what they take on a disk, and no second for its writes: CPU seconds are what to compare.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import dagster as dg

from bench.old_runs import OldRuns
from chaos.in_dagster import definitions_of
from pipelines.components.logstore.schedule import live_tags
from pipelines.landing.hours import hour_text
from pipelines.landing.logstore import Logstore
from sls_io.emulator import Emulator, start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.wire.client import SlsClient

FAILED_EVERY = 50
_LOG = b"\n\x10\x08\x80\xa0\xc5\xd5\x06\x12\x08\n\x01n\x12\x03100"


def templates(
    jobs: dg.Definitions, logstore: Logstore, emulator: Emulator, instance: dg.DagsterInstance, hour: int
) -> tuple[str, str]:
    """(a live run that ended well, one that failed), both of `hour` and as a tick asks for them."""

    def land() -> str:
        job = jobs.resolve_job_def(f"{logstore.name}_microbatch")
        tags = live_tags(logstore, hour)
        return job.execute_in_process(instance=instance, tags=tags, raise_on_error=False).run_id

    with SlsClient(logstore.service) as client:
        client.transport.create_project("demo", "")
        client.transport.create_logstore("demo", logstore.name, ttl=30, shard_count=4)
        for shard in client.shards():
            client.put_raw(_LOG, key=shard.begin_key)
    emulator.admin.advance(120)
    well = land()
    fault = emulator.admin.fault(
        "error", call="heartbeat", status=500, code="InternalServerError", times=None
    )
    failed = land()
    emulator.admin.remove(int(fault))
    return well, failed


def disk_mb(folder: Path) -> float:
    """MB of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main(days: int, runs_a_day: int) -> None:
    """Measure and print."""
    now_s = SYSTEM_CLOCK.now()
    hour = int(now_s) // 3600
    with (
        tempfile.TemporaryDirectory() as folder,
        start(Path(folder) / "emulator", now=hour * 3600.0 + 60) as emulator,
    ):
        os.environ |= {
            "SLS_LAKE_HOME": folder,
            "ALIBABA_CLOUD_ACCESS_KEY_ID": FAKE_ID,
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": FAKE_SECRET,
        }
        service = {"endpoint": emulator.endpoint, "project": "demo", "logstore": "many"}
        logstore = Logstore.model_validate(
            {"service": service, "group": "lake", "table": "bronze.many", "start": hour_text(hour - 2)}
        )
        home = Path(folder) / "dagster"
        home.mkdir()
        with dg.DagsterInstance.local_temp(str(home)) as instance:
            jobs = definitions_of(logstore)
            well, failed = templates(jobs, logstore, emulator, instance, hour)
            empty_mb = disk_mb(home)
            old = OldRuns(instance, (well, failed), hour)
            step_s, count = 86_400 / runs_a_day, days * runs_a_day
            began = time.perf_counter()
            kinds = (failed if n % FAILED_EVERY == FAILED_EVERY - 1 else well for n in range(count))
            old.add((kind, now_s - (count - n) * step_s) for n, kind in enumerate(kinds))
            took = time.perf_counter() - began
            print(f"{count:,} runs of {days} days made in {took:,.0f} s", flush=True)
            report(home, instance, empty_mb, count)
            for _ in range(2):
                prune(jobs, instance)
                report(home, instance, empty_mb, count)


def prune(jobs: dg.Definitions, instance: dg.DagsterInstance) -> None:
    """A run of the job, printed."""
    wall, cpu = time.perf_counter(), time.process_time()
    done = jobs.resolve_job_def("many_maintenance").execute_in_process(instance=instance)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    outputs = [e for e in done.all_events if e.is_successful_output and e.step_key == "prune__many"]
    counts = {name: value.value for name, value in outputs[0].step_output_data.metadata.items()}
    print(f"prune: {wall:,.1f} s, CPU {cpu:,.1f} s: {counts}", flush=True)


def report(home: Path, instance: dg.DagsterInstance, empty_mb: float, count: int) -> None:
    """Runs by status, and the size of the files, printed."""
    left = {
        status.value: instance.get_runs_count(dg.RunsFilter(job_name="many_microbatch", statuses=[status]))
        for status in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE)
    }
    size, shards = disk_mb(home) - empty_mb, [p for p in home.rglob("*.db") if len(p.stem) == 36]
    checks = instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey(["sls", "many_logstore"]), "errors"), limit=100_000
    )
    index = next(home.rglob("index.db")).stat().st_size / 1e6
    print(
        f"  {left}; {size:,.1f} MB ({1000 * size / count:,.0f} KB a run made), of it {len(shards):,} files "
        f"of runs with {sum(p.stat().st_size for p in shards) / 1e6:,.1f} MB, the index {index:,.1f} MB; "
        f"{len(checks):,} results of the check errors",
        flush=True,
    )


if __name__ == "__main__":
    numbers = [*map(int, sys.argv[1:]), 30, 288][:2] if len(sys.argv) < 3 else list(map(int, sys.argv[1:3]))
    main(*numbers)
