"""`sls-lake dev`: the parts of the demo, kept running until Ctrl-C.

An emulator, a steady producer for each logstore of access logs, a Spark that stays up, and Dagster's page
with the schedules and sensors of all logstores on: so their definitions say to this Dagster, and what
somebody turns off on the page stays off. State lies in var/dev and is kept from one time to the next;
`--fresh` begins anew.

The order of beginning and end is what this module is about. The emulator is first and last: Dagster's sensors
ask it from their first tick on. Spark's server is begun before Dagster and waited for behind it, since both
take their time. Claims of an earlier time are let go before the first run, those of this time when Dagster
and its runs have ended: done before, a run that still ends would take its claim again, and a landing at the
command line would wait a group timeout for nobody.

What dies is not treated alike. Emulator and Spark are started again, up to five times without success in
between, since they lose nothing. Dagster is not: it is what the person looks at, and its log says why.
"""

import itertools
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

import click

from pipelines import dagster_client
from pipelines.cli.demo import sandbox
from pipelines.cli.demo.spark_server import SparkServer, free_address
from pipelines.cli.emulator import PORT
from pipelines.cli.files.accesslog import KEYS, generated
from pipelines.cli.files.packing import Packer
from pipelines.cli.files.sending import put
from pipelines.cli.load import create
from pipelines.cli.logstores import defs_of, logstore_option, project_root, resolve_all
from pipelines.cli.output import Output, moment, verb
from pipelines.landing.bounds import ON_VARIABLE
from pipelines.landing.logstore import Logstore
from pipelines.landing.spark.remote import without_session
from pipelines.landing.table.home import in_checkout
from sls_io.emulator import start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.cures import Call, Do
from sls_io.values.errors import ConfigError, ServiceError, TransportError
from sls_io.wire.client import SlsClient

UI_PORT = 3000
PORTS = click.IntRange(1, 65535)
START_DEADLINE_S = 120.0
REPORT_EVERY_S = 60
SHARDS = 4
DEATHS_MAX = 5
"""So often the emulator is started again without a row sent in between; then something else is wrong."""


@click.command("dev")
@logstore_option
@click.option("--port", type=PORTS, default=PORT, show_default=True, help="Of the emulator.")
@click.option("--ui-port", type=PORTS, default=UI_PORT, show_default=True, help="Of Dagster's page.")
@click.option(
    "--rate",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Rows a second that each producer sends.",
)
@click.option(
    "--spark-server/--no-spark-server",
    "warm",
    default=True,
    show_default=True,
    help="One Spark for all runs and the command line, kept warm; else each starts its own.",
)
@click.option("--fresh", is_flag=True, help="Remove what an earlier time left in var/dev.")
@verb
def dev(
    output: Output, *, name: str | None, port: int, ui_port: int, rate: int, fresh: bool, warm: bool
) -> None:
    """Run emulator, producers, Spark and Dagster's page with schedules and sensors on, until Ctrl-C.

    Of all logstores of the project, or of those that -l names, with commas.
    """
    defs_of(project_root())  # where there is no project, nothing is made and no port is spoken of
    # Started in the background of a shell, Ctrl-C's signal is ignored here and in every child:
    # nothing would end. A request to end is taken as Ctrl-C, so that children end with us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    url = f"http://127.0.0.1:{ui_port}"
    box = replace(sandbox.at("dev", port), spark_remote=free_address() if warm else "", dagster_url=url)
    with box.owned():
        _refuse_taken(port, "PORT", "--port")
        _refuse_taken(ui_port, "UI_PORT", "--ui-port")
        box.prepare(fresh=fresh)
        box.enter()
        _run(output, box, _own(resolve_all(name), box), rate)


def _own(logstores: list[Logstore], box: sandbox.Sandbox) -> list[Logstore]:
    """The logstores, every one of them in the emulator: a producer must never write into a real one."""
    for logstore in logstores:
        if logstore.service.endpoint != box.endpoint:
            raise ConfigError(
                f"{logstore.name}: its endpoint is {logstore.service.endpoint}, and not the emulator of "
                'dev; write endpoint: "{{ env.SLS_ENDPOINT }}", or leave it out with --logstore'
            )
    return logstores


def _run(output: Output, box: sandbox.Sandbox, logstores: list[Logstore], rate: int) -> None:
    """All parts, until Ctrl-C; `box` is ours."""
    url, env, log = box.dagster_url, box.home / "env", box.home / "dagster.log"
    on = {ON_VARIABLE: ",".join(logstore.name for logstore in logstores)}
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1"]
    with OwnEmulator(output, box) as service, ExitStack() as stack:
        spark = stack.enter_context(SparkServer(output, box)) if box.spark_remote else None
        producers = []
        for logstore in {(x.service.project, x.service.logstore): x for x in logstores}.values():
            client = stack.enter_context(SlsClient(logstore.service))
            create(client, shards=SHARDS)
            if takes_access_logs(logstore):
                producers.append(Producer(logstore, client, rate))
        service.let_claims_go(logstores)
        env.write_text(box.exports())
        output.say(f"emulator  {box.endpoint} (process {service.process_id})")
        try:
            with sandbox.started([*command, "-p", url.rpartition(":")[2]], log, on) as dagster:
                _wait_until_loaded(url, dagster, log)
                if spark is not None:
                    spark.wait()
                    output.say(f"Spark     {without_session(box.spark_remote)} (process {spark.process_id})")
                _say_ready(output, logstores, url, env, log, rate)
                output.result(
                    {
                        "endpoint": box.endpoint,
                        "dagster": url,
                        "rate": rate,
                        "env": str(env),
                        "logstores": [logstore.name for logstore in logstores],
                    }
                )
                sys.stdout.flush()
                produce(output, producers, service, dagster, spark)
        except KeyboardInterrupt:
            output.say("ending")
        finally:
            # Dagster and its runs have ended by now: nobody works on these shards any more.
            service.let_claims_go(logstores)


def takes_access_logs(logstore: Logstore) -> bool:
    """Whether generated access logs belong there: not where most of the declared columns are of something
    else. Somebody's orders would stand among rows of nulls. Worked example: status, latency_ms and order are
    two of three, so they are sent; status, order and z are not; without declared columns they are."""
    declared = set(logstore.columns)
    return 2 * len(declared & KEYS) >= len(declared)


def _say_ready(
    output: Output, logstores: Sequence[Logstore], url: str, env: Path, log: Path, rate: int
) -> None:
    output.say(f"Dagster   {url}/assets, its log in {log}")
    for logstore in logstores:
        every = f"schedule on ({logstore.schedule}), sensors on"
        sent = f"{rate:,} rows a second"
        if not takes_access_logs(logstore):
            sent = "no rows are sent: its columns are not those of access logs"
        output.say(f"logstore  {logstore.name}: {every}, {sent}")
    choose = f" -l {logstores[0].name}" if len(logstores) > 1 else ""
    output.say(f"In another terminal: . {shlex.quote(str(env))}; sls-lake describe{choose}")
    output.say("Ctrl-C ends all of it.")


class OwnEmulator:
    """The emulator as our own child: said and started again when it dies. Stopped with the block."""

    def __init__(self, output: Output, box: sandbox.Sandbox) -> None:
        self._output, self._box, self._deaths = output, box, 0
        self._emulator = start(box.home / "emulator", port=box.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._emulator.stop()

    @property
    def process_id(self) -> int:
        """Of the emulator that runs now."""
        return self._emulator.pid

    def see_to_it(self, *, sent: bool) -> None:
        """Start it again if it has ended; `sent`: rows have reached it since the last question.

        Raises ConfigError when it does not stay alive.
        """
        self._deaths = 0 if sent else self._deaths
        status = self._emulator.exit_status
        if status is None:
            return
        self._deaths += 1
        how = f"the emulator that dev started (process {self._emulator.pid}) has ended, exit status {status}"
        self._emulator.stop()
        if self._deaths > DEATHS_MAX:
            raise ConfigError(f"{how}, {self._deaths} times in a row: its own words are above")
        self._emulator = start(self._box.home / "emulator", port=self._box.port)
        again = f"started again (process {self._emulator.pid}), nothing stored is lost"
        self._output.say(f"{moment(SYSTEM_CLOCK.now())} {how}: {again}")

    def let_claims_go(self, logstores: Sequence[Logstore]) -> None:
        """Free the shards that runs of dev held: without it they keep their names until the group's timeout,
        and a landing at the command line finds them taken though nothing runs."""
        for logstore in logstores:
            with suppress(OSError, HTTPException, ServiceError):
                self._emulator.admin.forget_members(logstore.service.project, logstore.service.logstore)


class Producer:
    """Generated rows for one logstore, `rate` a second."""

    def __init__(self, logstore: Logstore, client: SlsClient, rate: int) -> None:
        self.logstore, self.client, self.rate = logstore, client, rate
        self.packer = Packer("dev-host", (("env", "dev"),))
        self._seed = int(SYSTEM_CLOCK.now())

    def send(self, second: int) -> None:
        """The rows of one second. Raises TransportError when the service does not answer."""
        at_s = self.client.now_s()
        numbers = range(second * self.rate, (second + 1) * self.rate)
        put(self.client, self.packer, (generated(self._seed, n, at_s) for n in numbers), at_s=at_s)


def produce(
    output: Output,
    producers: Sequence[Producer],
    service: OwnEmulator,
    dagster: subprocess.Popen[bytes],
    spark: SparkServer | None,
) -> None:
    """Let each producer send its rows every second until interrupted, or until Dagster ends by itself."""
    sent = True
    for second in itertools.count():
        if dagster.poll() is not None:
            raise ConfigError(f"Dagster ended by itself (exit status {dagster.returncode}); see its log")
        service.see_to_it(sent=sent)
        if spark is not None:
            spark.see_to_it()
        due_s = SYSTEM_CLOCK.monotonic() + 1.0
        sent = not producers
        for producer in producers:
            try:
                producer.send(second)
                sent = True
            except TransportError as error:
                output.say(f"{moment(SYSTEM_CLOCK.now())} {producer.logstore.name}: not sent: {error}")
                break
        if producers and second and second % REPORT_EVERY_S == 0:
            rows = ", ".join(f"{p.logstore.name} {p.packer.counts.rows:,}" for p in producers)
            output.say(f"{moment(SYSTEM_CLOCK.now())} rows sent: {rows}")
        sys.stdout.flush()
        SYSTEM_CLOCK.sleep(max(0.0, due_s - SYSTEM_CLOCK.monotonic()))


def _refuse_taken(port: int, variable: str, option: str) -> None:
    """Another program there would answer for ours."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise ConfigError(
                f"port {port} is taken: stop what listens there, or choose another",
                cures=(Do(f"make dev {variable}=N") if in_checkout() else Call(("dev", option, "N")),),
            )


def _wait_until_loaded(url: str, dagster: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = SYSTEM_CLOCK.monotonic() + START_DEADLINE_S
    while not dagster_client.loaded(url):
        if dagster.poll() is not None or SYSTEM_CLOCK.monotonic() > deadline_s:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            said = lines[-1].strip() if lines else "nothing"
            raise ConfigError(f"Dagster did not start; the end of {log}: {said}")
        SYSTEM_CLOCK.sleep(dagster_client.POLL_S)
