"""`sls-lake demo`: the whole path on one machine, from log lines to a printed proof.

Everything it makes lies in var/demo and is made afresh each time: the emulator's store, the
catalog, the warehouse, Dagster's runs. Nothing of it is simulated: a consumer group, Spark tasks,
Iceberg commits and Dagster runs are the real ones, only the service is the emulator.

The acts show what is hard, and each has to happen for the proof to be one. Rows are received over several
hours, so there are several windows a shard. The shard splits with rows on both sides of it, so children must
wait for their parent: the micro-batch behind it closes the parent, and only the next one reads the children.
The backfill asks for an hour that is there, and lands nothing. `--break-one-file` shows that the proof can
fail: a proof that is always green proves nothing.
"""

import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from pipelines.cli.demo import ending, sandbox
from pipelines.cli.demo.audit import Audit
from pipelines.cli.demo.dagster_runs import FinishedRun, Runs
from pipelines.cli.demo.own_project import entered
from pipelines.cli.demo.spark_server import SparkServer, free_address
from pipelines.cli.emulator_admin import stored
from pipelines.cli.files.accesslog import generated
from pipelines.cli.files.lines import Log
from pipelines.cli.files.loading import oddities
from pipelines.cli.files.log_files import AUTO, LogFile, count_records, parse_file
from pipelines.cli.files.packing import GROUP_ROWS, Counts, Packer
from pipelines.cli.files.sending import put, put_over_hours
from pipelines.cli.load import create, format_option, recognised, time_key_option
from pipelines.cli.logstores import project_root, resolve
from pipelines.cli.main import EXIT_FAILED
from pipelines.cli.output import Output, megabytes, noise_into, verb
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.describe import preview
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import PlanReport
from pipelines.landing.spark.session import require_jars
from pipelines.landing.suggestion import Suggested
from pipelines.landing.table.lake import Lake
from sls_io.emulator import Admin, start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, printable
from sls_io.values.window import HOUR_S
from sls_io.wire.client import SlsClient

OPENER = "open-dagster"
RECONCILED = "reconciled"
SHARDS = 4
ROWS = 200_000
HOURS = 5
SEED = 1
BEHIND_S = 120
"""The emulator's clock runs this far behind, so that moving it over the settle time stays in the past."""
BATCHES_MAX = 4
GROUPS_MIN = 40
UI_PORT = 3000


@dataclass(frozen=True, slots=True)
class DemoRows:
    """Where the demo's rows come from: `first` of them before the shard split, `second` after it.

    logs    the rows of these numbers, received at that time; asked for in order, each once
    file    what they are read from, None for generated ones
    """

    first: int
    second: int
    logs: Callable[[range, float], Iterable[Log]]
    counts: Counts
    file: LogFile | None = None


def generated_rows(rows: int) -> DemoRows:
    """Access-log rows of one seed; a fifth of so many comes after the split."""

    def logs(numbers: range, at_s: float) -> Iterable[Log]:
        return (generated(SEED, number, at_s) for number in numbers)

    return DemoRows(rows, max(1, rows // 5), logs, Counts())


def file_rows(path: Path, format_name: str = AUTO, time_key: str = "") -> DemoRows:
    """The lines of a file, the last sixth after the split. Raises ConfigError."""
    if not path.is_file():
        raise ConfigError(f"{path} can be read only once: name a file, its lines are counted first")
    # The demo changes its working folder.
    file = recognised(path.absolute(), format_name, time_key)
    counts, lines = Counts(), count_records(file)
    parsed = parse_file(file, counts)

    def logs(numbers: range, at_s: float) -> Iterable[Log]:
        return itertools.islice(parsed, len(numbers))

    return DemoRows(lines - lines // 6, lines // 6, logs, counts, file)


@click.command("demo")
@click.option(
    "--logs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Land the lines of this file instead of generated rows; it may be gzip or zstd.",
)
@format_option("--logs")
@time_key_option("--logs")
@click.option("--rows", type=click.IntRange(min=10), default=ROWS, show_default=True, help="Generated rows.")
@click.option("--break-one-file", is_flag=True, help="Delete a landed file before the proof: must end red.")
@click.option(
    "--home",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="Where everything lies.  [default: var/demo]",
)
@verb
def demo(
    output: Output,
    *,
    logs: Path | None,
    format_name: str,
    time_key: str,
    rows: int,
    break_one_file: bool,
    home: Path | None,
) -> None:
    """Show the whole path, from log lines to a proof that each landed once."""
    if logs is None and (time_key or format_name != AUTO):
        raise click.UsageError("--format and --time-key go with --logs: generated rows have their own")
    require_jars()  # where they miss, nothing is made
    source = file_rows(logs, format_name, time_key) if logs is not None else generated_rows(rows)
    started = SYSTEM_CLOCK.monotonic()
    box = sandbox.Sandbox(home) if home is not None else sandbox.at("demo")
    with box.owned():
        audit = _play(output, box, source, break_one_file=break_one_file)
    output = Output(as_json=output.as_json)
    output.say()
    output.say(
        f"See the runs in Dagster: {_shown(box.home / OPENER)}, then http://127.0.0.1:{UI_PORT}/assets"
    )
    output.say(f"All of it took {SYSTEM_CLOCK.monotonic() - started:.0f} s")
    if not audit.ok:
        click.get_current_context().exit(EXIT_FAILED)


def _play(output: Output, box: sandbox.Sandbox, source: DemoRows, *, break_one_file: bool) -> Audit:
    """All acts in a fresh folder of our own."""
    box.prepare(fresh=True)
    box.enter()
    log = box.home / "demo.log"
    with noise_into(log) as shown, start(box.home / "emulator") as emulator:
        output = Output(as_json=output.as_json, file=shown)
        # One Spark for all acts: each of them would else wait for a start of its own.
        jars = str(require_jars()[0].parent)
        box = replace(box, port=emulator.port, spark_remote=free_address(), jars=jars)
        box.enter()
        begins = hour_text(int(SYSTEM_CLOCK.now() - BEHIND_S) // HOUR_S - HOURS)
        with entered(box.home, source.file, seed=SEED, start=begins) as (name, keys):
            logstore = resolve(name)
            box.write_opener(box.home / OPENER, UI_PORT)
            with SparkServer(output, box) as spark, SlsClient(logstore.service) as client:
                play = Demo(output, logstore, client, emulator.admin, source, spark, keys)
                audit = play.play(break_one_file=break_one_file)
            if not audit.ok:
                _say_where(output, box)
            return audit


def _say_where(output: Output, box: sandbox.Sandbox) -> None:
    """Where what `verify` names can be typed: the service and Spark end with the demo, its folder stays."""
    env, data = box.home / "env", shlex.quote(str(box.home / "emulator"))
    env.write_text(f"{replace(box, spark_remote='').exports()}cd {shlex.quote(str(project_root()))}\n")
    output.say()
    output.say("To try what verify names, start the service again in one terminal, and type it in another:")
    output.say(f"  . {shlex.quote(_shown(env))}; sls-lake emulator --data {data} --port {box.port}")
    output.say(f"  . {shlex.quote(_shown(env))}")


class Demo:
    """The acts of the demo, in order."""

    def __init__(
        self,
        output: Output,
        logstore: Logstore,
        client: SlsClient,
        admin: Admin,
        rows: DemoRows,
        spark: SparkServer,
        keys: Sequence[Suggested] = (),
    ) -> None:
        self.output, self.logstore, self.client, self.rows, self.keys = output, logstore, client, rows, keys
        self.admin, self.spark = admin, spark
        # Groups small enough that each shard gets some of them, also of a short file.
        group_rows = max(1, min(GROUP_ROWS, rows.second // GROUPS_MIN))
        self.packer = Packer("demo-host", (("env", "demo"),), group_rows, rows.counts)
        self.children: frozenset[int] = frozenset()
        self.story: dict[str, Any] = {}

    def play(self, *, break_one_file: bool) -> Audit:
        """Every act, then the proof."""
        rows = self.rows
        if rows.file is not None:
            with self.step("columns") as say:
                say(_columns(rows.file, self.logstore, self.keys))
        with self.step("load") as say:
            now_s = self.load_first()
            say(
                f"{rows.first:,} log lines written into the log service, {self._raw()}: {SHARDS} shards, "
                f"received over {HOURS} hours; {rows.second:,} more follow after a split"
            )
        with self.step("Dagster") as say:
            runs = Runs()
            self.spark.wait()
            say("loaded the project, and Spark has started; each run below is one of Dagster's")
        try:
            with self.step("micro-batch") as say:
                say(_landed(runs.microbatch(self.logstore)))
            with self.step("split") as say:
                say(self.split())
            with self.step("load") as say:
                self.load_second()
                say(f"the {rows.second:,} log lines that were left, into the shards that are open now")
            self.say_oddities()
            self.land_rest(runs)
            with self.step("backfill") as say:
                hour = hour_text(int(now_s) // HOUR_S - HOURS // 2)
                filled = runs.backfill(self.logstore, hour, hour)
                say(_filled(hour, filled))
            with self.step("dbt build") as say:
                say(_built(runs.models()))
        finally:
            runs.close()
        return self.prove(break_one_file=break_one_file)

    def load_first(self) -> float:
        """Fill the first receive hours; returns the time of the last one, unix seconds."""
        now_s = SYSTEM_CLOCK.now() - BEHIND_S
        # Before anything is created: a shard younger than its first log would be no honest history.
        self.admin.set_clock(now_s - (HOURS - 1) * HOUR_S)
        create(self.client, shards=SHARDS)
        numbers = range(self.rows.first)
        put_over_hours(
            self.client, self.admin, self.packer, self.rows.logs, numbers, hours=HOURS, now_s=now_s
        )
        self.settle()
        return now_s

    def load_second(self) -> None:
        """More rows, now."""
        numbers = range(self.rows.first, self.rows.first + self.rows.second)
        at_s = self.admin.now()
        put(self.client, self.packer, self.rows.logs(numbers, at_s), at_s=at_s)
        self.settle()

    def say_oddities(self) -> None:
        """What of a file was not as usual."""
        for oddity in self._oddities():
            self.output.say(f"{'':<12} {oddity}")

    def _oddities(self) -> list[str]:
        file = self.rows.file
        return oddities(self.rows.counts, file.time_keys if file is not None else ())

    def settle(self) -> None:
        """Move the clock over the settle time: the newest seconds are left for the next run."""
        self.admin.advance(self.logstore.budget.settle_s + 1)

    def land_rest(self, runs: Runs) -> None:
        """Micro-batches until nothing is left. Two are needed after a split: children are read only
        when their parent is closed in the table, which is the first one's doing."""
        for _ in range(BATCHES_MAX):
            with self.step("micro-batch") as say:
                say(_landed(runs.microbatch(self.logstore)))
                left = preview(self.logstore, Lake.default(), self.client)
                if why := self._why_another(left):
                    say(f"\n{'':<12} {why}")
            if not left.windows and not left.closings:
                return

    def _why_another(self, left: PlanReport) -> str:
        """Why another micro-batch follows, "" where none does."""
        waiting = sorted({shard for shard, *_ in left.windows})
        if waiting and self.children.issuperset(waiting):
            then = f"then shard{'s' * (len(waiting) > 1)} {' and '.join(map(str, waiting))}"
            return f"{then}: what a split made is read once all of the split shard is in the table"
        if waiting:
            return "then what is left: one batch has its limits of size and time"
        done = " and ".join(map(str, sorted(left.closings)))
        return f"then shard {done} is closed in the table: it is empty and ended" if done else ""

    def split(self) -> str:
        """Split the first open shard in the middle of its keys."""
        shard = next(s for s in self.client.shards() if not s.readonly)
        before = {s.id for s in self.client.shards()}
        middle = (int(shard.begin_key, 16) + int(shard.end_key, 16)) // 2
        self.client.split(shard.id, f"{middle:032x}")
        new = sorted(s.id for s in self.client.shards() if s.id not in before)
        self.children = frozenset(new)
        return (
            f"shard {shard.id} is closed, {' and '.join(map(str, new))} take its place, as under more traffic"
        )

    def prove(self, *, break_one_file: bool) -> Audit:
        """Show what is there, then compare it with what the service stored."""
        output, lake = self.output, Lake.default()
        table = lake.load(self.logstore.table)
        if table is None:
            raise ConfigError(f"there is no table {self.logstore.table}: nothing has landed")
        self.story |= ending.landings(output, self.logstore, lake)
        self.story["shards"] = ending.shards(output, self.logstore, lake, self.client)
        ending.first_rows(output, self.logstore, table)
        self.story["query"] = ending.query(output, self.logstore, table)
        if break_one_file:
            name = ending.delete_one_file(table)
            output.say(f"[yellow]deleted on purpose[/]: {name}")
        self.story["verified"] = ending.verified(output, self.logstore, lake, self.client)
        audit = ending.audit(
            output,
            self.logstore,
            table,
            stored(self.admin, self.client.service),
            parts=(self.rows.first, self.rows.second),
        )
        if self.rows.file is not None:
            kept = stored(self.admin, self.client.service)
            audit.file = ending.file_audit(output, self.rows.file, kept, self._oddities())
        output.result({**self.story, "audit": {**asdict(audit), "ok": audit.ok}})
        return audit

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """One line when the act is done: its name, what it says, seconds."""
        started = SYSTEM_CLOCK.monotonic()
        said: list[str] = []
        yield said.append
        seconds = SYSTEM_CLOCK.monotonic() - started
        done, *more = " ".join(said).splitlines()
        self.output.say(f"{name:<12} {done.rstrip()}  [dim]{seconds:.1f} s[/]")
        for line in more:
            self.output.say(line)

    def _raw(self) -> str:
        return f"{megabytes(self.packer.counts.bytes)} raw"


def _landed(outcome: FinishedRun) -> str:
    checks = "counted again" if outcome.checks[RECONCILED] else "[red]the count differs[/]"
    hours = sum(1 for rows in outcome.hours.values() if rows)
    where = f" of {hours} {'hour' if hours == 1 else 'hours'}" if hours else ""
    return f"{outcome.rows:,} new rows{where} landed in the table and {checks}, run {outcome.run_id[:8]}"


def _columns(file: LogFile, logstore: Logstore, keys: Sequence[Suggested]) -> str:
    left = [printable(key.key, 40) for key in keys if not key.type]
    typed = sum(key.type not in ("", "string") for key in keys)
    rest = f"; in __rest__: {', '.join(left)}" if left else ""
    return (
        f"read {file.path.name} as {file.format_name}: {len(keys)} keys make the table {logstore.table}, "
        f"{typed} of its columns are typed{rest}"
    )


def _filled(hour: str, outcome: FinishedRun) -> str:
    """A backfill of an hour that the table has: what it found and what it added."""
    there = outcome.in_table.get(hour, 0) - outcome.rows
    lacked = "none was missing" if not outcome.rows else "the others were missing"
    return f"hour {hour} asked for again: {there:,} rows were there, {lacked}, {outcome.rows:,} landed"


def _built(outcome: FinishedRun) -> str:
    passed = sum(outcome.checks.values())
    tests = f"{passed} of {len(outcome.checks)} tests passed"
    return f"{outcome.materialized} model, {tests}, run {outcome.run_id[:8]}"


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
