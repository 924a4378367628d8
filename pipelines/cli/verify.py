"""`sls-lake verify`: the ledger against the service and the table."""

from dataclasses import asdict

import click

from pipelines.cli.hours import Hours
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, moment, verb
from pipelines.landing.inspection.verify import Proof, ShardProof
from pipelines.landing.inspection.verify import verify as prove
from pipelines.landing.table.lake import Lake
from sls_io.client import SlsClient


@click.command("verify")
@logstore_option
@click.option(
    "--pull", is_flag=True, help="Pull again what retention still holds of it, and compare rows and sums."
)
@click.option(
    "--hour",
    "hours",
    type=Hours(),
    metavar="A[..B]",
    help="With --pull: only these receive hours, like 2026-11-20-07:00..2026-11-20-09:00.",
)
@verb
def verify(output: Output, *, name: str | None, pull: bool, hours: range | None) -> None:
    """Prove gaps, holes, rows and identity sums, and that each row is there once.

    Reads the table and asks the service; claims, moves and writes nothing.
    """
    if hours is not None and not pull:
        raise click.UsageError("--hour says what to pull again: add --pull")
    logstore = resolve(name)
    with SlsClient(logstore.service) as client, output.progress(f"verify {logstore.name}") as progress:
        progress.phase("pulling again and counting the table" if pull else "counting the table")
        proof = prove(logstore, Lake.default(), client, pull=pull, hours=hours)
    show(output, proof)
    output.result({"ok": proof.ok, **asdict(proof)})
    if not proof.ok:
        click.get_current_context().exit(EXIT_FAILED)


def show(output: Output, proof: Proof) -> None:
    """The proof for people: a line a shard, then one sentence."""
    if proof.shards:
        output.table(
            ["shard", ">rows in ledger", ">rows in table", ">frontier", "behind it", "verdict"],
            [
                (
                    str(shard.shard),
                    shard.rows_ledger,
                    shard.rows_table,
                    str(shard.frontier),
                    _unread(shard),
                    "[red]wrong[/]" if shard.problems else "[green]ok[/]",
                )
                for shard in proof.shards
            ],
            less=("frontier",),
        )
    for shard in proof.shards:
        for text in (
            *(f"gap {gap}" for gap in shard.gaps),
            *(f"withdrawn {w}" for w in shard.withdrawn),
            *shard.notes,
            *shard.problems,
        ):
            output.say(f"shard {shard.shard}: {text}")
    _say_how_far(output, proof)
    for note in proof.notes:
        output.say(note)
    for problem in proof.problems:
        output.say(f"[red]{problem}[/]")
    if proof.ok:
        output.say(f"[green]verified[/]: {proof.rows:,} rows in {proof.table}, each once, as the ledger says")
    else:
        wrong = any(shard.problems for shard in proof.shards) or not proof.shards
        why = f"{proof.table} does not hold what its ledger says" if wrong else "see above"
        if not proof.begun:
            why = "nothing of this logstore has landed"
        output.say(f"[red]not verified[/]: {why}")
        for cure in proof.cures:
            output.say(cure)


def _say_how_far(output: Output, proof: Proof) -> None:
    counted = sum(shard.windows for shard in proof.shards)
    if proof.since_ms is not None:
        output.say(
            f"{counted} windows counted one by one: those of snapshots kept since "
            f"{moment(proof.since_ms / 1000)} UTC; older ones are proven by the sums of their shard"
        )
    pulled = [shard.rows_pulled for shard in proof.shards if shard.rows_pulled is not None]
    if pulled:
        windows = sum(shard.windows_pulled for shard in proof.shards)
        output.say(
            f"{sum(pulled):,} rows pulled again and compared, {windows} windows: what the service still holds"
        )


def _unread(shard: ShardProof) -> str:
    if shard.closed:
        return "closed"
    if shard.end is None:
        return "gone from the service"
    return "nothing" if shard.end <= shard.frontier else "not landed yet"
