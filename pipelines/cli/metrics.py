"""`sls-lake metrics`: what `describe` and its findings say, for Prometheus."""

import logging
from pathlib import Path

import click
import yaml
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from rich.markup import escape

import pipelines
from pipelines.cli.logstores import logstore_option, resolve_all
from pipelines.cli.output import Output, verb
from pipelines.landing import json_log
from pipelines.landing.run.textfile import Families
from pipelines.landing.watch.metrics import Exporter, alert_rules
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, SlsError, printable

PORT = 9853
DASHBOARD = Path(pipelines.__file__).parent / "template" / "deploy" / "grafana.json"


@click.command("metrics")
@logstore_option
@click.option("--once", is_flag=True, help="Look once, print the text of Prometheus' format, and end.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; it has no login.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen at; 0 picks a free one.",
)
@click.option(
    "--every",
    "every_s",
    type=click.IntRange(1, 86_400),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Pause between two looks at table and service; a scrape has the newest one.",
)
@click.option(
    "--print",
    "printed",
    type=click.Choice(["rules", "dashboard"]),
    help="Print the alert rules for Prometheus, or the dashboard for Grafana, and end.",
)
@verb
def metrics(
    output: Output, *, name: str | None, once: bool, host: str, port: int, every_s: int, printed: str | None
) -> None:
    """Serve metrics of the logstores for Prometheus, at /metrics, until Ctrl-C.

    Of all logstores of the project, or of those that -l names, with commas. Reads table and service as
    `describe` does, claims and changes nothing.
    """
    if printed:
        _print(output, printed)
        return
    exporter = Exporter(resolve_all(name))
    if once:
        exporter.look()
        found = Families([*exporter.collect()])
        output.say(escape(generate_latest(found).decode().rstrip()))
        output.result(
            {
                "samples": [
                    {"name": sample.name, "labels": sample.labels, "value": sample.value}
                    for family in found.collect()
                    for sample in family.samples
                ]
            }
        )
        return
    registry = CollectorRegistry()
    registry.register(exporter)
    try:
        server, _ = start_http_server(port, host, registry)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", "") or "that is no address"
        raise ConfigError(
            f"nothing can listen at {printable(host)}:{port}: {why}; name another --port or --host"
        ) from error
    url = f"http://{host}:{server.server_port}/metrics"
    exporter.look()
    output.say(f"serving {url} until Ctrl-C")
    output.result({"url": url})
    while True:
        SYSTEM_CLOCK.sleep(every_s)
        try:
            exporter.look()
        except SlsError as error:
            # The moment of the newest look grows old, for which there is an alert.
            if not json_log.say(logging.ERROR, str(error)):
                click.echo(f"sls-lake metrics: {error}", err=True)


def _print(output: Output, what: str) -> None:
    text = DASHBOARD.read_text(encoding="utf-8") if what == "dashboard" else rules_text()
    output.say(escape(text.rstrip()))
    output.result(yaml.safe_load(text))


def rules_text() -> str:
    """The alert rules as the file that Prometheus reads."""
    return yaml.safe_dump(alert_rules(), sort_keys=False, width=100, allow_unicode=True)
