"""`sls-lake verify`: the ledger against the service and the table."""

from collections.abc import Mapping
from dataclasses import asdict

import click
from rich.markup import escape

from pipelines.cli import session
from pipelines.cli.deciding import engine_of_a_verb
from pipelines.cli.hours import HOURS
from pipelines.cli.logstores import logstore_option, resolve
from pipelines.cli.main import EXIT_FAILED, EXIT_OWED
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.working import working_line
from pipelines.landing.inspection.proof import NOT_VERIFIED, OWED, VERIFIED, Proof, ShardProof, Verdict
from pipelines.landing.inspection.verify import verify as prove
from pipelines.landing.inspection.whole import every_file, no_file
from pipelines.landing.table import commands
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.metrics import tell_proof
from sls_io.values.errors import amount
from sls_io.wire.client import SlsClient

_EXIT: Mapping[Verdict, int] = {VERIFIED: 0, OWED: EXIT_OWED, NOT_VERIFIED: EXIT_FAILED}


@click.command("verify")
@logstore_option
@click.option(
    "--pull", is_flag=True, help="Pull again what retention still holds of it, and compare rows and sums."
)
@click.option(
    "--hour",
    "hours",
    type=HOURS,
    metavar="A[..B]",
    help="With --pull: only these receive hours, like 2026-11-20-07:00..2026-11-20-09:00.",
)
@click.option(
    "--rows", is_flag=True, help="Read every column of every row, and check the checksums of its pages."
)
@verb
def verify(output: Output, *, name: str | None, pull: bool, hours: range | None, rows: bool) -> None:
    """Prove gaps, holes, rows and identity sums, and that each row is there once.

    Reads of the table the columns that tell which rows there are, with --rows all columns, and asks the
    service; claims and moves nothing, and writes nothing but its verdict, for `metrics`. Ends with 0 where
    all is verified, with 3 where that is so and logs that were skipped are owed, with 1 where something is
    wrong.
    """
    if hours is not None and not pull:
        raise click.UsageError("--hour says what to pull again: add --pull")
    logstore = resolve(name)
    with (
        SlsClient(logstore.service) as client,
        engine_of_a_verb() as engine,
        working_line(output, f"verify {logstore.name}", engine) as progress,
    ):
        progress.phase("pulling again and counting the table" if pull else "counting the table")
        chosen = every_file if rows else no_file
        proof = prove(logstore, Lake.default(), client, pull=pull, hours=hours, rows=chosen)
    show(output, proof)
    if unkept := tell_proof(logstore, proof):
        output.say(escape(unkept))
    cures = commands.documents(proof.cures, session.logstore())
    output.result({"ok": proof.ok, "verdict": proof.verdict, **asdict(proof), "cures": cures})
    if proof.verdict != VERIFIED:
        click.get_current_context().exit(_EXIT[proof.verdict])


def show(output: Output, proof: Proof) -> None:
    """The proof for people: a line a shard, then one sentence."""
    if proof.shards:
        rows = [
            {
                "shard": shard.shard,
                "rows_ledger": shard.rows_ledger,
                "rows_table": shard.rows_table,
                "frontier": shard.frontier,
                "behind it": _unread(shard),
                "verdict": _word(shard),
            }
            for shard in proof.shards
        ]
        output.records(rows, less=("frontier",))
    for shard in proof.shards:
        for text in (
            *(f"gap {gap}" for gap in shard.gaps),
            *(f"withdrawn {w}" for w in shard.withdrawn),
            *shard.notes,
            *shard.owed,
            *shard.problems,
        ):
            output.say(f"shard {shard.shard}: {text}")
    _say_how_far(output, proof)
    for note in proof.notes:
        output.say(note)
    for problem in proof.problems:
        output.say(f"[red]{problem}[/]")
    _say_verdict(output, proof)


def _say_how_far(output: Output, proof: Proof) -> None:
    counted = sum(shard.windows for shard in proof.shards)
    if proof.since_ms is not None:
        output.say(
            f"{amount(counted, 'window')} counted one by one: those of snapshots kept since "
            f"{moment(proof.since_ms / 1000)} UTC; older ones are proven by the sums of their shard"
        )
    whole = proof.whole
    if whole.files:
        output.say(
            f"{amount(whole.files, 'file')} read in every column, with {amount(whole.rows, 'row')} in all"
        )
    if whole.others:
        output.say(
            f"of {amount(whole.others, 'file')} only the columns were read that tell which rows there are"
        )
        output.say_cures(commands.VERIFY_ROWS.plus(does="reads them all"))
    pulled = [shard.rows_pulled for shard in proof.shards if shard.rows_pulled is not None]
    if pulled:
        windows = amount(sum(shard.windows_pulled for shard in proof.shards), "window")
        output.say(
            f"{amount(sum(pulled), 'row')} pulled again and compared, {windows}: what the service still holds"
        )


def _say_verdict(output: Output, proof: Proof) -> None:
    if proof.verdict == NOT_VERIFIED:
        wrong = any(shard.problems for shard in proof.shards)
        why = f"{proof.table} does not hold what its ledger says" if wrong else "see above"
        if not proof.begun:
            why = "nothing of this logstore has landed"
        output.say(f"[red]{NOT_VERIFIED}[/]: {why}")
        output.say_cures(*proof.cures)
        return
    if proof.absent:
        output.say(f"not there, or not from a landing, and named above: {', '.join(proof.absent)}")
    there = f"{amount(proof.rows, 'row')} in {proof.table}, each once, as the ledger says"
    if proof.verdict == OWED:
        output.say(f"[yellow]{OWED}[/]: {there}; logs were skipped, and the backfill named above lands them")
    else:
        output.say(f"[green]{VERIFIED}[/]: {there}")


def _word(shard: ShardProof) -> str:
    if shard.problems:
        return "wrong"
    return "owed" if shard.owed else "ok"


def _unread(shard: ShardProof) -> str:
    if shard.closed:
        return "closed"
    if shard.end is None:
        return "gone from the service"
    return "nothing" if shard.end <= shard.frontier else "not landed yet"
