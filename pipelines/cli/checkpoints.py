"""`sls-lake checkpoints`: what the service's group has, against the table."""

from dataclasses import asdict

import click

from pipelines.cli.land import own_holder
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, verb
from pipelines.cli.table import execute_option
from pipelines.landing.maintenance.repair import execute_repair, plan_repair
from pipelines.landing.run.report import CheckpointOutcome
from pipelines.landing.table.lake import Lake
from sls_io.client import SlsClient

_OPEN = {CheckpointOutcome.NOT_HELD, CheckpointOutcome.PUT_OFF}
"""Of these a frontier was not published."""


@click.group("checkpoints")
def checkpoints() -> None:
    """Checkpoints of the group: repair. A dry run until --execute; takes --json and --debug."""


@checkpoints.command("repair")
@logstore_option
@execute_option
@verb
def repair(output: Output, *, name: str | None, execute: bool) -> None:
    """Publish the table's frontiers as checkpoints; none moves back, none is forced."""
    logstore = own_holder(resolve(name))
    with SlsClient(logstore.service) as client:
        points = plan_repair(logstore, Lake.default(), client)
        if execute:
            points = execute_repair(logstore, client, points)
    output.table(
        ["shard", ">checkpoint", ">frontier", ""],
        [
            (str(p.shard), "" if p.checkpoint is None else str(p.checkpoint), str(p.frontier), str(p.report))
            for p in points
        ],
    )
    if any(point.outcome is CheckpointOutcome.AHEAD for point in points):
        output.say("a checkpoint ahead of the table stays: landings begin at the frontier, and pass it")
    if not execute:
        output.say_dry()
    output.result({"executed": execute, "shards": [asdict(point) for point in points]})
    if execute and any(point.outcome in _OPEN for point in points):
        click.get_current_context().exit(EXIT_FAILED)
