"""Keys, tokens and the content of logs are written nowhere but where they belong."""

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from pipelines.landing.barring import Barring
from pipelines.landing.inspection.describe import preview
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.spark_task import WriteJob, task_of
from pipelines.landing.spark.session import Engine
from pipelines.landing.task_storage import public_properties
from sls_io.emulator import start
from sls_io.values.errors import SlsError
from tests.integration import canary
from tests.worlds.one_logstore import HOUR0_S, PROJECT, World, group, logstore_settings, make_lake

pytestmark = pytest.mark.spark


@pytest.fixture
def guarded(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world whose service takes only the canary's key pair and token; every log holds a canary too."""
    for name, value in zip(("ID", "SECRET"), canary.triple(), strict=False):
        monkeypatch.setenv(f"ALIBABA_CLOUD_ACCESS_KEY_{name}", value)
    monkeypatch.setenv("ALIBABA_CLOUD_SECURITY_TOKEN", canary.TOKEN)
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        for name in ("ACCESS_KEY_ID", "ACCESS_KEY_SECRET", "SECURITY_TOKEN"):
            monkeypatch.delenv(f"ALIBABA_CLOUD_{name}")
        settings = logstore_settings(emulator, "access_logs")
        world = World(emulator, make_lake(tmp_path / "lake"), settings, engine)
        world.logstore = with_provider(world, "triple")
        with world.client as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, "access_logs", ttl=30, shard_count=2)
            client.put_raw(
                group([{"n": "1", "status": "200", "name": canary.VALUE}, {"n": canary.VALUE, "status": "2"}])
            )
        world.at(HOUR0_S + 120)
        yield world


def with_provider(world: World, name: str) -> Logstore:
    """The logstore's settings with credentials from a function of the canary module."""
    service = world.logstore.service.model_copy(
        update={"credentials": {"provider": "import", "name": f"{canary.__name__}:{name}"}}
    )
    return world.changed(service=service.model_dump(warnings=False))


def assert_clean(where: str, text: str | bytes, *, canaries: tuple[str, ...] = ()) -> None:
    """None of the canaries is in `text`; the failure does not print them either."""
    content = text.encode("utf-8", "replace") if isinstance(text, str) else text
    found = [c.split("-")[1] for c in canaries or (*canary.SECRETS, canary.VALUE) if c.encode() in content]
    assert not found, f"{where} holds a canary: {found}"


def test_no_key_and_no_log_content_is_in_logs_reports_summaries_or_the_event_log(
    guarded: World,
    home: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    with guarded.client as client:
        plan = preview(guarded.logstore, guarded.lake, client)
        assert_clean("client", repr(client) + repr(vars(client)))
    with guarded.run() as run:
        report = run.land()
        verdict, checkpoints = run.reconcile(), run.checkpoint()

    assert (report.rows, report.error_rows) == (2, 1)
    assert len(checkpoints) == 2
    texts = {
        "settings": repr(guarded.logstore) + guarded.logstore.model_dump_json(),
        "plan": repr(plan),
        "report": repr(report) + repr(verdict) + repr(checkpoints),
        "summaries": repr([s.summary for s in guarded.table.metadata.snapshots]),
        "properties": repr(guarded.table.properties) + repr(guarded.table.io.properties),
        "logging": caplog.text,
        "output": "".join(capfd.readouterr()),
    }
    for where, text in texts.items():
        assert_clean(where, text)
    for path in Path(guarded.lake.properties["warehouse"].removeprefix("file://")).rglob("*.metadata.json"):
        assert_clean(path.name, path.read_bytes())
    database = guarded.lake.sqlite_path
    assert database is not None
    assert_clean("catalog", database.read_bytes())
    events = [p for p in (home / "events").rglob("*") if p.is_file()]
    assert events, "Spark wrote no event log"
    for path in events:
        assert_clean(path.name, path.read_bytes())
    for name in guarded.files():
        assert_clean(name, Path(name).read_bytes(), canaries=canary.SECRETS)


@pytest.mark.parametrize("sql", [False, True])
def test_a_secret_that_a_person_gives_to_spark_reaches_it_and_stands_on_no_command_line(
    engine: Engine, sql: bool
) -> None:
    context: Any = engine.session.sparkContext if sql else engine.context
    java = context._jvm.java.lang.ProcessHandle.current().pid()
    line = Path(f"/proc/{java}/cmdline").read_text()
    assert "spark.eventLog.enabled=true" in line, "what is no secret can be seen"
    assert_clean("Java's command line", line)
    assert_clean("this command line", Path("/proc/self/cmdline").read_bytes())
    name = "spark.hadoop.fs.s3a.secret.key"
    told = context.getConf().get(name), context._jsc.hadoopConfiguration().get(name.split(".", 2)[2])
    assert told == (canary.ACCESS_SECRET,) * 2
    if sql:
        shown = engine.session.sql(f"SET {name}").collect()
        assert shown
        assert_clean("SET", str(shown))


def test_the_closure_that_travels_to_executors_holds_no_key(guarded: World) -> None:
    guarded.land()
    with guarded.client as client:
        origin = client.origin().id
    table = guarded.table
    secret_properties = {
        **table.io.properties,
        "s3.secret-access-key": canary.ACCESS_SECRET,
        "s3.session-token": canary.TOKEN,
        "s3.access-key-id": canary.ACCESS_ID,
        "gcs.oauth2.token": canary.TOKEN,
        "adls.account-key": canary.ACCESS_SECRET,
        "adls.connection-string": f"AccountKey={canary.ACCESS_SECRET}",
        "adls.sas-token": canary.TOKEN,
        "credential": canary.ACCESS_SECRET,
        "uri": f"postgresql://user:{canary.ACCESS_SECRET}@host/lake",
        "header.Authorization": f"Bearer {canary.TOKEN}",
        "hf.token": canary.TOKEN,
    }
    job = WriteJob(
        service=guarded.logstore.service,
        budget=guarded.logstore.budget,
        origin=origin,
        attempt="a" * 32,
        windows=(),
        columns=guarded.logstore.columns,
        transform="",
        schema=table.schema(),
        location=table.location(),
        io_properties=public_properties(secret_properties),
        table_properties=dict(table.properties),
        deadline_s=0.0,
        barring=Barring(),
    )

    assert_clean("closure", cloudpickle.dumps(task_of(job)))  # type: ignore[no-untyped-call]
    assert_clean("job", repr(job) + repr(pickle.dumps(job)))


def test_no_error_text_holds_a_key_or_log_content(guarded: World) -> None:
    """A refused signature, a page that cannot be read, a page that is no protobuf, a task that fails."""
    errors: list[BaseException] = []

    def collect(settings: Logstore) -> None:
        with pytest.raises(SlsError) as raised:
            guarded.land(logstore=settings)
        errors.append(raised.value)

    collect(with_provider(guarded, "wrong"))
    assert "SignatureNotMatch" in str(errors[-1]) or "Unauthorized" in str(errors[-1])
    fault = guarded.emulator.admin.fault(
        "error", call="pull_logs", times=None, status=400, code="Broken", message=canary.VALUE
    )
    collect(guarded.logstore)
    guarded.emulator.admin.remove(fault)
    collect(with_provider(guarded, "no_such_function"))

    for error in errors:
        chain: BaseException | None = error
        assert_clean(
            type(error).__name__, str(error), canaries=(*canary.SECRETS, canary.WRONG_SECRET, canary.VALUE)
        )
        while chain is not None:
            assert_clean(
                f"cause of {type(error).__name__}",
                repr(chain),
                canaries=(*canary.SECRETS, canary.WRONG_SECRET),
            )
            chain = chain.__cause__ or chain.__context__
    assert guarded.land().rows == 2
