"""`sls-lake metrics`, files that runs leave, dashboard and alert rules: one verdict with `describe`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener
from uuid import uuid4

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pipelines.cli.metrics import DASHBOARD, rules_text
from pipelines.landing.run import textfile
from pipelines.landing.run.textfile import Labels, labels
from pipelines.landing.watch.health import Kind, Level
from pipelines.landing.watch.metrics import NAMES, Exporter, survey, tell_proof
from pipelines.landing.watch.wear import wear
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from tests.sources import ROOT
from tests.worlds.command_line import Command, environment, settings
from tests.worlds.lossy_catalog import lossy
from tests.worlds.one_logstore import PROJECT, World, use_catalog

RULES = ROOT / "docs" / "deploy" / "prometheus-rules.yaml"
_NAME = re.compile(r"sls_lake_\w+")
Exposed = dict[tuple[str, Labels], float]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder of this process."""
    monkeypatch.setenv("SLS_LAKE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def exposed(families: Iterable[Any]) -> Exposed:
    """Each sample of some families, as Prometheus names it."""
    return {(s.name, labels(**s.labels)): s.value for family in families for s in family.samples}


def level(samples: Exposed, logstore: str, kind: Kind) -> str:
    """The one level that a kind has."""
    (found,) = [
        dict(of)["level"]
        for (name, of), value in samples.items()
        if name == "sls_lake_finding" and value and {("logstore", logstore), ("kind", kind.value)} <= {*of}
    ]
    return found


def test_metrics_say_what_describe_says_and_runs_add_up(world: World, command: Command) -> None:
    world.begun(10, waiting=0)
    world.land_more(5, value="none")
    world.put(7, pass_s=3 * 3600)

    said = command("metrics", "--once")
    samples = {(s["name"], labels(**s["labels"])): s["value"] for s in said["samples"]}
    described = command("describe")

    one, live = labels(logstore="access_logs"), labels(logstore="access_logs", mode="live")
    assert samples["sls_lake_runs_total", labels(logstore="access_logs", mode="live", outcome="ok")] == 2
    assert samples["sls_lake_run_rows_total", live] == 15
    assert samples["sls_lake_run_error_rows_total", live] == samples["sls_lake_error_rows", one] == 5
    assert samples["sls_lake_run_cpu_seconds_total", live] > 0
    assert samples["sls_lake_shards", labels(logstore="access_logs", state="open")] == 2
    health = {each["kind"]: each for each in described["health"]}
    assert {kind: level(samples, "access_logs", Kind(kind)) for kind in health} == {
        kind: each["level"] for kind, each in health.items()
    }
    assert health["lag"]["level"] == "fail"
    assert samples["sls_lake_lag_seconds", one] == pytest.approx(health["lag"]["numbers"]["lag s"], abs=30)
    assert samples["sls_lake_runway_seconds", one] == pytest.approx(described["runway"]["shortest_s"], abs=30)
    for shard in described["shards"]:
        of = labels(logstore="access_logs", shard=str(shard["shard"]))
        assert samples["sls_lake_shard_rows", of] == shard["rows"]
        assert samples["sls_lake_shard_lag_seconds", of] == pytest.approx(shard["lag_s"], abs=30)
        waiting = pytest.approx(shard["behind_bytes"], rel=0.1) if shard["behind_bytes"] is not None else None
        assert samples.get(("sls_lake_shard_waiting_bytes", of)) == waiting


def test_facts_and_shards_are_of_one_snapshot_though_a_landing_comes_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(world.lake, monkeypatch)
    world.begun(10, waiting=0)

    class Busy(ManualClock):
        """Somebody lands while the look is on its way: at the first time that it asks."""

        landed = 0

        def now(self) -> float:
            if not self.landed:
                self.landed = -1
                self.landed = world.land_more(7).rows
            return super().now()

    clock = Busy(SYSTEM_CLOCK.now())
    before = wear(world.table)
    seen = survey(world.logstore, clock=clock)
    assert clock.landed == 7 and wear(world.table) != before
    assert seen.facts.wear == before
    assert sum(shard.rows for shard in seen.shards) == 10


def test_dashboard_and_rules_ask_for_what_is_exposed_and_no_finding_is_missed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(world.lake, monkeypatch)
    leases, mirror = {"database": f"sqlite:///{tmp_path}/leases.sqlite"}, f"file:{tmp_path}/positions.json"
    world.logstore = world.changed(coordinator=leases, mirror=mirror)
    world.begun(10, waiting=5)
    assert tell_proof(world.logstore, world.proof()) == ""
    exporter = Exporter([world.logstore])
    exporter.look()
    there = {name for name, _ in exposed(exporter.collect())}
    assert there == set(NAMES), "each name that may be exposed is exposed here, and no other"

    dashboard, rules = json.loads(DASHBOARD.read_text()), yaml.safe_load(RULES.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    queries += [each["definition"] for each in dashboard["templating"]["list"] if "definition" in each]
    asked = {name for query in queries for name in _NAME.findall(query)}
    assert asked <= there
    shown = "".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    kept = {"sls_lake_shard_rows", "sls_lake_run_end_timestamp_seconds", "sls_lake_run_error_rows_total"}
    kept |= {"sls_lake_look_duration_seconds"}
    assert there - {*_NAME.findall(shown)} == kept, "the others are on the dashboard"
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])

    assert RULES.read_text() == rules_text(), "make it anew: sls-lake metrics --print rules"
    pairs = {tuple(re.findall(r'(?:kind|level)="(\w+)"', query)) for query in queries} - {()}
    bad = [each.value for each in Level if each is not Level.OK]
    assert {(kind.value, each) for kind in Kind for each in bad} <= pairs


def test_a_service_that_is_gone_is_unknown_then_an_error_and_has_no_old_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(world.lake, monkeypatch)
    world.begun(10, waiting=5)
    service = world.logstore.service.model_copy(update={"endpoint": "http://127.0.0.1:9", "tries_max": 1})
    clock = ManualClock(SYSTEM_CLOCK.now())
    exporter = Exporter([world.logstore.model_copy(update={"service": service})], clock=clock)
    exporter.look()
    first = exposed(exporter.collect())
    assert level(first, "access_logs", Kind.LAG) == level(first, "access_logs", Kind.RUNWAY) == "unknown"
    assert level(first, "access_logs", Kind.RECONCILED) == "ok"
    assert not {"sls_lake_lag_seconds", "sls_lake_shards"} & {name for name, _ in first}
    clock.advance(world.logstore.health.lag_s.fail + 1)
    exporter.look()
    assert level(exposed(exporter.collect()), "access_logs", Kind.LAG) == "fail"


def proofs(samples: Iterable[tuple[str, Labels]]) -> set[str]:
    """What is said of the last proof."""
    return {
        name
        for name, of in samples
        if name == "sls_lake_proof_timestamp_seconds" or ("kind", Kind.PROVEN.value) in of
    }


def test_the_proof_of_another_table_is_not_shown_and_the_next_run_forgets_it(
    world: World, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(world.lake, monkeypatch)
    world.begun(10, waiting=0)
    table, world.logstore = world.logstore, world.changed(table="other.access_logs", group={"name": "other"})
    assert tell_proof(world.logstore, world.proof()) == ""
    before = Exporter([world.logstore])
    before.look()
    assert level(exposed(before.collect()), "access_logs", Kind.PROVEN) == "fail", "it has no table yet"

    assert tell_proof(table, replace(world.proof(), uuid=str(uuid4()), problems=())) == ""
    exporter = Exporter([world.logstore])
    assert proofs(exposed(exporter.collect())), "nobody has looked yet which table it is"
    exporter.look()
    assert not proofs(exposed(exporter.collect()))
    world.land()
    assert not proofs(textfile.read(state / "metrics" / "access_logs.prom"))

    assert tell_proof(world.logstore, world.proof()) == ""
    world.land()
    exporter.look()
    shown = exposed(exporter.collect())
    assert level(shown, "access_logs", Kind.PROVEN) == "ok"
    of = labels(logstore="access_logs", table_uuid=str(world.table.metadata.table_uuid))
    assert ("sls_lake_proof_timestamp_seconds", of) in shown


def test_a_proof_stays_while_nobody_can_look_which_table_is_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(world.lake, monkeypatch)
    world.begun(10, waiting=0)
    assert tell_proof(world.logstore, world.proof()) == ""
    behind, catalog = lossy(world.lake)
    monkeypatch.delenv("PYICEBERG_CATALOG__LAKE__TYPE")
    use_catalog(behind, monkeypatch)
    exporter = Exporter([world.logstore])
    for down in (True, False, True):
        catalog.down = down
        exporter.look()
        assert level(exposed(exporter.collect()), "access_logs", Kind.PROVEN) == "ok"


def test_what_was_looked_at_is_shown_while_another_service_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_catalog(world.lake, monkeypatch)
    world.begun(10, waiting=5)
    with world.client as client:
        client.transport.create_logstore(PROJECT, "hangs", ttl=30, shard_count=1)
    service = {**world.logstore.service.model_dump(), "logstore": "hangs"}
    hanging = world.changed(service=service, table="bronze.hangs")
    held = world.emulator.admin.fault("hold", logstore="hangs", times=None)
    exporter = Exporter([hanging, world.logstore])
    with ThreadPoolExecutor(1) as beside:
        look = beside.submit(exporter.look)
        world.emulator.admin.wait(held)
        looked = "sls_lake_look_timestamp_seconds", labels(logstore="access_logs")
        while looked not in exposed(exporter.collect()):
            assert not look.done()
        assert level(exposed(exporter.collect()), "access_logs", Kind.LAG) == "ok" and not look.done()
        world.emulator.admin.remove(held)
        look.result()
    assert level(exposed(exporter.collect()), "hangs", Kind.LAG) == "ok"


def test_a_run_that_fails_is_counted_by_its_error_and_one_that_cannot_be_counted_lands(
    world: World, state: Path
) -> None:
    world.put(5, pass_s=60)
    file = state / "metrics" / "access_logs.prom"
    file.parent.mkdir(parents=True)
    file.write_text("sls_lake_runs_total{ half a line")
    world.emulator.admin.fault("error", call="list_shards", code="ProjectNotExist", status=404, times=1)
    with pytest.raises(Exception, match="ProjectNotExist"), world.run() as run:
        run.land()
    samples = textfile.read(file)
    failed = labels(logstore="access_logs", mode="live", outcome="ServiceError")
    assert samples["sls_lake_runs", failed] == 1
    assert not any(name == "sls_lake_run_success_timestamp_seconds" for name, _ in samples)

    file.unlink()
    file.parent.rmdir()
    file.parent.write_text("a file where the folder should be")
    said: list[str] = []
    world.land(warn=said.append)
    assert len(world.table_rows()) == 5
    assert any("the metrics of this run are not kept" in each for each in said)


def test_the_exporter_serves_over_http_what_once_prints(world: World, tmp_path: Path) -> None:
    world.begun(10, waiting=5)
    defs = tmp_path / "defs.yaml"
    defs.write_text(settings(world))
    call = [str(Path(sys.executable).parent / "sls-lake"), "metrics", "-l", str(defs)]
    with subprocess.Popen(
        [*call, "--port", "0"], env=environment(world, tmp_path), stdout=subprocess.PIPE, text=True
    ) as exporter:
        try:
            assert exporter.stdout is not None
            url = exporter.stdout.readline().split()[1]
            with build_opener(ProxyHandler({})).open(url) as answer:
                text = answer.read().decode()
        finally:
            exporter.terminate()
    served = exposed(text_string_to_metric_families(text))
    assert level(served, "access_logs", Kind.LAG) == "ok"
    assert served["sls_lake_run_rows_total", labels(logstore="access_logs", mode="live")] == 10
    assert url.startswith("http://127.0.0.1:")
