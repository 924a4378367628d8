"""What a tick of each sensor costs with 256 shards: quiet, late, and after every shard was split.

    python -m bench.bench_ticks [SHARDS]

Service and lake are real and on this machine; the service is a process of its own, whose CPU is not ours.
Seconds of the wall say little on a busy machine; CPU seconds are those of this process, all threads.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import dagster as dg
from dagster._core.test_utils import instance_for_test

from chaos.engine import InProcess
from pipelines.components import SlsLogstore
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.driver import Run
from sls_io.emulator import start
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.wire.client import SlsClient

NOW_S = 1_790_000_000 // 3600 * 3600 + 60
SENSORS = ("demand", "sealed", "health")


def put(client: SlsClient, shards: int) -> None:
    """A log into each shard."""
    for shard in client.shards():
        if not shard.readonly:
            client.put_raw(b"\n\x10\x08\x80\xa0\xc5\xd5\x06\x12\x08\n\x01n\x12\x03100", key=shard.begin_key)


def land(logstore: Logstore) -> None:
    """A live run in this process."""
    with Run(logstore, InProcess()) as run:
        run.land()
        run.checkpoint()


def ticks(
    what: str, logstore: Logstore, instance: dg.DagsterInstance, cursors: dict[str, str | None]
) -> None:
    """One tick of each sensor, printed."""
    component = SlsLogstore.from_attributes_dict(
        attributes=logstore.model_dump(mode="json", exclude_none=True)
    )
    defs = component.build_defs(dg.ComponentTree.for_test().load_context)
    for name in SENSORS:
        sensor = defs.resolve_sensor_def(f"{logstore.name}_{name}_sensor")
        context = dg.build_sensor_context(instance=instance, cursor=cursors.get(name), definitions=defs)
        with dg.partition_loading_context(dynamic_partitions_store=instance), context:
            wall, cpu = time.perf_counter(), time.process_time()
            answer = sensor.evaluate_tick(context)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        for event in answer.asset_events:
            instance.report_runless_asset_event(event)
        cursors[name] = answer.cursor
        said = f"{len(answer.asset_events)} events, {len(answer.run_requests or [])} runs"
        print(f"  {what:14}{name:14}{wall:7.2f} s   CPU {cpu:6.2f} s   {said}", flush=True)


def main(shards: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, start(Path(folder) / "emulator", now=NOW_S) as emulator:
        os.environ |= {
            "SLS_LAKE_HOME": folder,
            "ALIBABA_CLOUD_ACCESS_KEY_ID": FAKE_ID,
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": FAKE_SECRET,
        }
        logstore = Logstore.model_validate(
            {
                "service": {"endpoint": emulator.endpoint, "project": "demo", "logstore": "many"},
                "group": "lake",
                "table": "bronze.many",
                "start": "2026-01-01-00:00",
            }
        )
        with SlsClient(logstore.service) as client, instance_for_test() as instance:
            client.transport.create_project("demo", "")
            client.transport.create_logstore("demo", "many", ttl=30, shard_count=shards)
            put(client, shards)
            emulator.admin.advance(1200)
            land(logstore)
            cursors: dict[str, str | None] = {}
            print(f"{shards} shards")
            ticks("first", logstore, instance, cursors)
            ticks("quiet", logstore, instance, cursors)
            put(client, shards)
            emulator.admin.advance(3600)
            ticks("all are late", logstore, instance, cursors)
            land(logstore)
            for shard in range(0, shards, 2):
                emulator.admin.merge("demo", "many", shard)
            emulator.admin.advance(60)
            ticks("all merged", logstore, instance, cursors)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 256)
