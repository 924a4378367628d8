"""`sls-lake dev`: the parts of the demo, kept running until Ctrl-C.

An emulator, a steady producer, and Dagster's page with the schedule on. State lies in var/dev and
is kept from one time to the next; `--fresh` begins anew.
"""

import itertools
import signal
import socket
import subprocess
import sys
from pathlib import Path

import click

from pipelines.cli import dagster_client
from pipelines.cli.demo import sandbox
from pipelines.cli.demo.accesslog import generated
from pipelines.cli.emulator import PORT
from pipelines.cli.load import create, put
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.packing import Packer
from pipelines.landing.logstore import Logstore
from sls_io.client import SlsClient
from sls_io.clock import SYSTEM_CLOCK
from sls_io.emulator import start
from sls_io.errors import ConfigError, TransportError

UI_PORT = 3000
PORTS = click.IntRange(1, 65535)
START_DEADLINE_S = 120.0
REPORT_EVERY_S = 60
SHARDS = 4


@click.command("dev")
@logstore_option
@click.option(
    "--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Of the emulator."
)
@click.option("--ui-port", type=PORTS, default=UI_PORT, show_default=True, help="Of Dagster's page.")
@click.option(
    "--rate",
    type=click.IntRange(1, 100_000),
    default=200,
    show_default=True,
    help="Rows a second that the producer sends.",
)
@click.option("--fresh", is_flag=True, help="Remove what an earlier time left in var/dev.")
@verb
def dev(output: Output, *, name: str | None, port: int, ui_port: int, rate: int, fresh: bool) -> None:
    """Run emulator, producer and Dagster's page with the schedule on, until Ctrl-C."""
    # Started in the background of a shell, Ctrl-C's signal is ignored here and in every child:
    # nothing would end. A request to end is taken as Ctrl-C, so that children end with us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    _refuse_taken(ui_port)
    box = sandbox.at("dev", port)
    box.prepare(fresh=fresh)
    box.enter()
    logstore = resolve(name)
    url = f"http://127.0.0.1:{ui_port}"
    (box.home / "env").write_text(box.exports())
    log = box.home / "dagster.log"
    command = [sys.executable, "-m", "dagster", "dev", "-w", "workspace.yaml", "-h", "127.0.0.1"]
    with start(box.home / "emulator", port=port), SlsClient(logstore.service) as client:
        create(client, shards=SHARDS)
        output.say(f"emulator  {box.endpoint}")
        with sandbox.started([*command, "-p", str(ui_port)], log) as dagster:
            _wait_until_loaded(url, dagster, log)
            dagster_client.start_schedule(url, f"{logstore.name}_schedule")
            output.say(f"Dagster   {url}/assets, schedule on ({logstore.schedule}), its log in {log}")
            output.say(f"producer  {rate:,} rows a second")
            output.say(f"In another terminal: . {box.home / 'env'}; sls-lake describe")
            output.say("Ctrl-C ends all of it.")
            output.result(
                {"endpoint": box.endpoint, "dagster": url, "rate": rate, "env": str(box.home / "env")}
            )
            sys.stdout.flush()
            try:
                produce(output, logstore, client, rate, dagster)
            except KeyboardInterrupt:
                output.say("ending")


def produce(
    output: Output, logstore: Logstore, client: SlsClient, rate: int, dagster: subprocess.Popen[bytes]
) -> None:
    """Send `rate` rows a second until interrupted, or until Dagster ends by itself."""
    packer = Packer("dev-host", (("env", "dev"),))
    seed = int(SYSTEM_CLOCK.now())
    for second in itertools.count():
        if dagster.poll() is not None:
            raise ConfigError(f"Dagster ended by itself (exit status {dagster.returncode}); see its log")
        due_s = SYSTEM_CLOCK.monotonic() + 1.0
        at_s = client.now_s()
        numbers = range(second * rate, (second + 1) * rate)
        try:
            put(client, packer, (generated(seed, number, at_s) for number in numbers), at_s=at_s)
        except TransportError as error:
            output.say(f"{moment(SYSTEM_CLOCK.now())} not sent: {error}")
        if second and second % REPORT_EVERY_S == 0:
            output.say(f"{moment(SYSTEM_CLOCK.now())} {packer.counts.rows:,} rows sent")
        SYSTEM_CLOCK.sleep(max(0.0, due_s - SYSTEM_CLOCK.monotonic()))


def _refuse_taken(ui_port: int) -> None:
    """Another Dagster there would answer for ours."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        if probe.connect_ex(("127.0.0.1", ui_port)) == 0:
            raise ConfigError(
                f"port {ui_port} is taken: stop what listens there or choose another with --ui-port"
            )


def _wait_until_loaded(url: str, dagster: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = SYSTEM_CLOCK.monotonic() + START_DEADLINE_S
    while not dagster_client.loaded(url):
        if dagster.poll() is not None or SYSTEM_CLOCK.monotonic() > deadline_s:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            said = lines[-1].strip() if lines else "nothing"
            raise ConfigError(f"Dagster did not start; the end of {log}: {said}")
        SYSTEM_CLOCK.sleep(dagster_client.POLL_S)
