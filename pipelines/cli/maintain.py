"""`sls-lake table maintain`: keep a table small and fast. A dry run until `--execute`."""

import click

from pipelines.cli.deciding import engine_of_a_verb, execute_option, show_effect
from pipelines.cli.hours import older_than_option
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.output import Output, verb
from pipelines.cli.typed import Typed
from pipelines.cli.working import working_line
from pipelines.landing.maintenance.compact import TARGET_BYTES
from pipelines.landing.maintenance.expiry import KEPT
from pipelines.landing.maintenance.maintain import (
    MANIFESTS_MAX,
    STEPS,
    Maintainer,
)
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError
from sls_io.values.window import HOUR_S


def _steps(text: str) -> tuple[str, ...]:
    """The steps that are named, joined by commas. Raises ConfigError."""
    steps = tuple(text.split(","))
    for step in steps:
        if step not in STEPS:
            raise ConfigError(f"{step!r} is no step; they are {', '.join(STEPS)}")
    return steps


@click.command("maintain")
@click.option(
    "--only",
    type=Typed("steps", _steps),
    metavar="STEP,...",
    help=f"Some of {','.join(STEPS)}; all without it.",
)
@click.option(
    "--target-mb",
    type=click.IntRange(min=1),
    default=TARGET_BYTES // 1024**2,
    show_default=True,
    help="Size of files that small ones become (2^20 bytes).",
)
@click.option(
    "--snapshots",
    type=click.IntRange(min=2),
    help=f"How many of the newest are kept; without it {KEPT}.",
)
@click.option(
    "--keep-hours",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Younger snapshots are kept, too, however many they are.",
)
@click.option(
    "--manifests",
    type=click.IntRange(min=1),
    default=MANIFESTS_MAX,
    show_default=True,
    help="More than these are written anew as few.",
)
@older_than_option(least=24, says="Younger files are never deleted: a landing may be about to publish them.")
@execute_option
@logstore_option
@verb
def maintain(
    output: Output,
    *,
    only: tuple[str, ...] | None,
    target_mb: int,
    snapshots: int | None,
    keep_hours: float,
    manifests: int,
    floor_hours: float,
    execute: bool,
    name: str | None,
) -> None:
    """Compact sealed hours, expire snapshots, delete files that nothing refers to.

    Safe beside landings: rows, ledger and tag stay what they are. Snapshots that are expired cannot be
    rolled back to; files that a reader of one still has open may be deleted when they are old.
    """
    logstore = resolve(name)
    with (
        engine_of_a_verb() as engine,
        working_line(output, f"maintain {logstore.table}", engine) as progress,
    ):
        maintainer = Maintainer(
            logstore,
            Lake.default(),
            target_bytes=target_mb * 1024**2,
            manifests_max=manifests,
            snapshots_max=snapshots,
            keep_s=keep_hours * HOUR_S,
            floor_s=floor_hours * HOUR_S,
            on_event=lambda name: progress.phase(f"committing {name.partition('.')[0]}"),
        )
        progress.phase("looking at files and snapshots")
        done = maintainer.execute(only or STEPS) if execute else maintainer.plan(only or STEPS)
    show_effect(output, done)
    if not done.executed:
        output.say_dry()
    else:
        output.say("done, apart from what was put off" if done.put_off else "done")
    output.result(done.document(), fails=done.unsettled)
