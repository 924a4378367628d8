"""`sls-lake table`: what a person decides about a table. A dry run until `--execute`."""

from dataclasses import asdict
from typing import Any, cast

import click
from rich.markup import escape

from pipelines.cli.deciding import decide, execute_option, without_missing_option
from pipelines.cli.hours import HourParam, Hours
from pipelines.cli.leaving import show_leaving
from pipelines.cli.logstores import logstore_option, resolve, resolve_to_land
from pipelines.cli.maintain import maintain
from pipelines.cli.moved import adopt_moved
from pipelines.cli.output import Output, moment, verb
from pipelines.cli.register import register, start_over
from pipelines.cli.repair_manifests import repair_manifests
from pipelines.landing.commit.operation import Planned
from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.reading import spans
from pipelines.landing.ledger.start import known
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.operations.adopt import Adoption, plan_adopt
from pipelines.landing.operations.columns import plan_columns
from pipelines.landing.operations.forget import Forget, plan_forget_before, plan_forget_where
from pipelines.landing.operations.fresh_starts import At
from pipelines.landing.operations.give_up import plan_give_up
from pipelines.landing.operations.relabel import plan_relabel
from pipelines.landing.operations.rollback import Rollback, kept_by_rollback, plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.table import calls
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import SlsError
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient


@click.group("table")
def table() -> None:
    """Settle a table, or maintain it. A dry run until --execute; all take --json, --debug."""


table.add_command(maintain)
table.add_command(register)
table.add_command(repair_manifests)
table.add_command(start_over)


_missing_option = without_missing_option(
    "Go on although rows are missing. Run sls-lake verify first: it may name a way back."
)


@table.command("rollback")
@click.argument("snapshot", type=int)
@_missing_option
@logstore_option
@execute_option
@verb
def rollback(
    output: Output, *, snapshot: int, without_missing: bool, name: str | None, execute: bool
) -> None:
    """Give the table the rows and the ledger of the landing SNAPSHOT, as a new commit.

    The next runs pull again what leaves; what retention took becomes a named gap. `sls-lake windows` lists
    the landings.
    """
    logstore, lake = resolve(name), Lake.default()
    planned = plan_rollback(lake, logstore.table, snapshot, without_missing=without_missing)
    kept = _kept(logstore, planned)
    show_rollback(output, planned.view)
    _show_kept(output, planned.view, kept)
    land = "; land again" if planned.view.pulled_again else ""
    then = f" of {logstore.table} is what {snapshot} was{land}"
    cost = asdict(kept) if kept is not None else None
    decide(output, lake, planned, now=execute, then=then, more={"kept": cost})


def _show_kept(output: Output, view: Rollback, kept: reach.StillThere | None) -> None:
    if kept is None:
        output.say("the service could not be asked what it still has of that")
    elif kept.rows:
        text = f"of what is given back: {kept}"
        output.say(f"[red]{escape(text)}[/]" if kept.lost else text)
    if len({shard.origin for shard in view.shards}) > 1:
        output.say("what the service still has of the table's other logstores was not asked")


def _kept(logstore: Logstore, planned: Planned[Rollback]) -> reach.StillThere | None:
    """What the service still has of the rows that the rollback gives back; None when the service cannot be
    asked, which does not stop a rollback."""
    try:
        with SlsClient(logstore.service) as client:
            return kept_by_rollback(planned, known(planned.place.state, client.origin()).id, client)
    except SlsError:
        return None


@table.command("relabel")
@logstore_option
@execute_option
@verb
def relabel(output: Output, *, name: str | None, execute: bool) -> None:
    """Give the logstore in the table the region that the settings say.

    For a table whose logstore was landed under a wrong region. Rows and ledger stay as they are.
    """
    logstore, lake = resolve(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan_relabel(lake, logstore, client)
    view = planned.view
    output.say(escape(f"{view.origin} in {view.table}: {view.before} becomes {view.after}; no row changes"))
    decide(output, lake, planned, now=execute, then="; land again")


class Renaming(click.ParamType[tuple[str, str]]):
    """`OLD=NEW`, two names of columns."""

    name = "old=new"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """(old, new)."""
        old, _, new = str(value).partition("=")
        if not old or not new:
            self.fail(f"{value!r} is no OLD=NEW; write it like code=status", param, ctx)
        return old, new


@table.command("columns")
@click.option(
    "--rename", "renamed", type=Renaming(), multiple=True, metavar="OLD=NEW", help="Rows keep their values."
)
@click.option(
    "--retype",
    "retyped",
    multiple=True,
    metavar="NAME",
    help="Give this column the type that the logstore declares: in place where Iceberg can (int to long, "
    "float to double); else the column gets another name, and one of the declared type begins beside it.",
)
@click.option(
    "--restore",
    "restored",
    is_flag=True,
    help="Put sls-lake's own and the declared columns back that other hands dropped, renamed or began anew: "
    "older rows show their values again. What took a name since gets another one.",
)
@logstore_option
@execute_option
@verb
def columns(
    output: Output,
    *,
    renamed: tuple[tuple[str, str], ...],
    retyped: tuple[str, ...],
    restored: bool,
    name: str | None,
    execute: bool,
) -> None:
    """Show the table's columns beside the declared ones; rename some, retype them or put them back.

    No file is written anew: rows that are there keep what they have. sls-lake backfill --mode replace lands
    hours again with the new type, as far as the service still has them.
    """
    logstore, lake = resolve(name), Lake.default()
    planned = plan_columns(lake, logstore, renamed=dict(renamed), retyped=retyped, restored=restored)
    view = planned.view
    output.table(
        ["column", "type", "declared", ""],
        [(escape(c.name), c.type, escape(c.declared), escape(c.note)) for c in view.columns],
    )
    for change in view.changes:
        output.say(escape(change))
    if planned.needed or execute:
        decide(output, lake, planned, now=execute, then="; the next landing follows")
    else:
        output.result({"executed": False, "committed": None, **asdict(view)})


@table.command("undo")
@click.option(
    "--hour",
    "hours",
    type=Hours(),
    required=True,
    metavar="A[..B]",
    help="Receive hours like 2026-11-20-07:00..2026-11-20-09:00, the last included.",
)
@logstore_option
@execute_option
@verb
def undo(output: Output, *, hours: range, name: str | None, execute: bool) -> None:
    """Take whole receive hours back: their rows leave, no live run lands them again.

    Only hours that every shard has landed to their end. `sls-lake backfill` lands them again, as far as
    retention still has them; `sls-lake backfill --mode replace` does both in one commit.
    """
    logstore, lake = resolve(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan_undo(lake, logstore, client, hours)
        lost = reach.taken(planned.place.table, planned.view.origin, client, planned.taken)
    show_leaving(output, planned.view)
    for text in lost:
        output.say(f"[red]{escape(text)}[/]")
    does = "lands these hours again"
    if lost:
        does = (
            "lands again what retention still has; the rest comes back only by a rollback, while its files "
            "are there"
        )
    then = (calls.of_hours(calls.BACKFILL, spans(hours)[0], does),)
    decide(output, lake, planned, now=execute, then=then, more={"cannot_come_again": lost})


@table.command("give-up")
@click.option(
    "--origin",
    default="",
    metavar="ID",
    help="Files of another origin in the table, as verify names it: one whose logstore is gone.",
)
@click.option(
    "--rows",
    is_flag=True,
    help="Read every column of every row, as verify --rows does, and give up files that this finds, too.",
)
@logstore_option
@execute_option
@verb
def give_up(output: Output, *, origin: str, rows: bool, name: str | None, execute: bool) -> None:
    """Give up the rows of data files that are gone or damaged, these rows and no others.

    Only for rows that nothing brings back: `sls-lake verify` names what does. The files leave the table,
    their rows leave the ledger, and verify reports their number from then on. Refused while other rows are
    missing.
    """
    logstore, lake = resolve(name), Lake.default()
    with SlsClient(logstore.service) as client:
        planned = plan_give_up(lake, logstore, client, origin=origin, whole=lambda path: rows)
    view = planned.view
    output.say(
        f"{view.table}: {view.rows:,} rows of {view.origin} were in {len(view.files)} files that are gone or "
        "damaged; they are given up"
    )
    output.table(
        ["receive hour", ">rows in lost files"],
        [(hour_text(hour), rows) for hour, rows in sorted(view.hours.items())],
    )
    output.table(
        ["shard", ">rows given up", ">rows left"], [(str(s.shard), s.rows, s.rows_after) for s in view.shards]
    )
    output.say(str(view.kept or "what its service still has of them was not asked"))
    then = [calls.VERIFY.plus(does="goes on to name them")]
    if view.kept is not None and view.kept.lost < view.rows:
        does = "lands again what the service still has"
        then += [calls.of_hours(calls.BACKFILL, span, does) for span in spans(view.hours)]
    decide(output, lake, planned, now=execute, then=then)


@table.command("forget")
@click.option(
    "--where",
    metavar="FILTER",
    help="Rows that this takes, like \"user = 'x' and n in (1, 2.5e3)\". Tests: = != < <= > >= in between "
    "like, is null, is nan; joined by and, or, not, (). A dot is part of a name; names with blanks or quotes "
    "stand in \"...\". In 'text' a quote is written twice and nothing else is special; E'text' knows \\n \\r "
    "\\t \\0 \\' \\\\ \\xHH \\uHHHH \\UHHHHHHHH; X'00ff' are bytes, '2026-11-20' a day, "
    "'2026-11-20T07:00:00+00:00' a moment.",
)
@click.option(
    "--before", "hour", type=HourParam(), metavar="HOUR", help="Whole receive hours before this one."
)
@click.option("--reason", default="", help="Why; kept in the table. The filter's values are not.")
@click.option(
    "--origin",
    default="",
    metavar="ID",
    help="Rows of another origin in the table, as verify names it: the logstore before it was made again.",
)
@_missing_option
@logstore_option
@execute_option
@verb
def forget(
    output: Output,
    *,
    where: str | None,
    hour: int | None,
    reason: str,
    origin: str,
    without_missing: bool,
    name: str | None,
    execute: bool,
) -> None:
    """Remove rows for good: by a filter, or whole receive hours before one.

    Nothing brings them back: no run, no backfill, no rollback. With --before that holds for all hours before
    HOUR, also for those without rows now. Older snapshots hold the rows until they are expired. A table with
    missing rows is refused: no rollback goes back past a removal, so nothing could bring them back.
    """
    if (where is None) == (hour is None):
        raise click.UsageError("say what to forget: --where FILTER or --before HOUR")
    logstore, lake = resolve(name), Lake.default()
    said: dict[str, Any] = {"reason": reason, "origin": origin, "without_missing": without_missing}
    with SlsClient(logstore.service) as client:
        if where is not None:
            planned = plan_forget_where(lake, logstore, client, where, **said)
        else:
            planned = plan_forget_before(lake, logstore, client, hour or 0, **said)
        show_forget(output, planned.view)
        then = "; older snapshots hold the rows until they are expired"
        decide(output, lake, planned, now=execute, then=then)


class AtParam(click.ParamType[At]):
    """Where shards start: `begin`, `latest`, `rows` or a whole hour, UTC."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> At:
        """The word, or the hour as unix seconds."""
        if value in ("begin", "latest", "rows"):
            return cast(At, value)
        return HourParam().convert(value, param, ctx) * HOUR_S


class ShardCursor(click.ParamType[tuple[int, Cursor]]):
    """`SHARD=CURSOR`, both as decimal numbers, as `sls-lake describe` shows them."""

    name = "shard=cursor"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, Cursor]:
        """(shard, cursor)."""
        shard, _, cursor = str(value).partition("=")
        if not all(text.isascii() and text.isdecimal() and len(text) < 20 for text in (shard, cursor)):
            self.fail(f"{value!r} is no SHARD=CURSOR; write it like 0=1790000000000001", param, ctx)
        return int(shard), Cursor(int(cursor))


@table.command("adopt")
@logstore_option
@click.option(
    "--at",
    type=AtParam(),
    metavar="WHERE",
    help="Where shards start: `rows` (right after those in the table), `begin`, `latest`, or an hour "
    "like 2026-11-20-07:00.",
)
@click.option(
    "--start",
    "starts",
    type=ShardCursor(),
    multiple=True,
    metavar="SHARD=CURSOR",
    help="Where one shard starts; may be given again.",
)
@without_missing_option(
    "Give up rows that an older ledger knew and that are not there any more; verify goes on to say how many."
)
@click.option(
    "--moved",
    metavar="ORIGIN",
    help="The project moved, or the logstore was renamed: the origin that it was, by its id in the table.",
)
@execute_option
@verb
def adopt(
    output: Output,
    *,
    name: str | None,
    at: At | None,
    starts: tuple[tuple[int, Cursor], ...],
    without_missing: bool,
    moved: str | None,
    execute: bool,
) -> None:
    """Give a table a true ledger again, where its own is missing, damaged or does not explain the rows.

    A ledger that the rows prove is kept. Otherwise say where each shard starts (--at, --start): the rows
    that are in the table are counted as adopted, and nothing before the start is landed. Rows that are
    there twice are not adopted, and lost ones are given up only with --without-missing.

    With --moved the table goes on with the logstore of the settings, from --at on; what is there stays.
    """
    logstore, lake = resolve_to_land(name), Lake.default()
    if moved is not None:
        given = {"without_missing": without_missing, "execute": execute}
        adopt_moved(output, logstore, moved, at=at, cursors=dict(starts), **given)
        return
    with SlsClient(logstore.service) as client:
        planned = plan_adopt(
            lake, logstore, client, at=at, cursors=dict(starts), without_missing=without_missing
        )
    view = planned.view
    show_adoption(output, view)
    then = f" of {logstore.table} has a ledger again; land"
    if view.still_refused:
        then = (
            f" of {logstore.table} has a ledger of {view.origin} again. Landings stay refused until "
            f"{', '.join(view.still_refused)} is adopted, too, by its own settings"
        )
    kept = {origin: str(snapshot) for origin, snapshot in view.kept.items()}
    decide(output, lake, planned, now=execute, then=then, more={"kept": kept})


def show_forget(output: Output, view: Forget) -> None:
    """What would be removed, for people."""
    output.say(
        f"{view.table}: {view.rows:,} rows of {view.origin} are to leave for good; they stand in "
        f"{view.files} files, {view.rewritten} of them are written anew with their other rows"
    )
    if view.rows:
        output.table(
            ["receive hour", ">rows"], [(hour_text(hour), rows) for hour, rows in sorted(view.hours.items())]
        )
        output.table(["shard", ">rows"], [(str(shard), rows) for shard, rows in sorted(view.shards.items())])
    if view.adopted:
        output.say(f"{view.adopted:,} of them were adopted: no landing brought them")
    if view.before:
        output.say(f"from then on nothing received before {hour_text(view.before)} is landed, by no backfill")
    output.say(f"the table will say of it: {escape(view.what)}")


def show_adoption(output: Output, view: Adoption) -> None:
    """What was found and would be done, for people."""
    said = "landings are refused: " if view.refused else "landings go on, but "
    output.say(f"{said}{view.trouble}")
    for origin, snapshot in sorted(view.kept.items()):
        output.say(f"{origin}: its rows prove the ledger of snapshot {snapshot}, which is kept")
    if view.starts:
        output.say(f"{view.origin}: no ledger that its rows prove; it begins anew")
        output.table(
            ["shard", ">start", ">rows adopted"],
            [(str(s.shard), "" if s.start is None else str(s.start), s.adopted) for s in view.starts],
        )
        output.say("adopted rows are counted and never called landed; nothing before a start is landed")
    for origin in view.former:
        output.say(f"{origin}: deleted since, and no ledger that its rows prove; they are counted as adopted")
    for text in view.remade.values():
        output.say(
            f"[yellow]{escape(text)} was deleted[/]: what it had behind its frontier cannot land any more, "
            "and nobody can say how much that was"
        )
    _show_differences(output, view)
    for origin, names in sorted(view.lost.items()):
        leave = origin in {view.origin, *view.former} and origin not in view.kept
        stay = "leave the table" if leave else "stay, and are named by each proof"
        output.say(f"{origin}: {len(names)} files are gone or damaged, {', '.join(names[:5])}; they {stay}")
    if view.others:
        output.say(f"{view.others:,} rows of origins that the table does not know are adopted as a number")
    for origin in view.still_refused:
        output.say(
            f"{origin}: not proven either; landings stay refused until it is adopted, too, by its own "
            "settings"
        )
    if view.asks:
        output.say(
            f"{view.origin}: nothing proves what of it is in the table; say where its shards start: "
            "--at rows, begin, latest or an hour, and --start SHARD=CURSOR"
        )


def _show_differences(output: Output, view: Adoption) -> None:
    """What the newest readable ledgers say differently, and what cures that."""
    if view.damaged is not None:
        output.say(f"the newest landing, snapshot {view.damaged}, has a ledger that cannot be read")
    if not view.differs:
        return
    output.say("the newest ledgers that can be read say something else than the table:")
    output.table(
        ["origin", "shard", ">ledger of snapshot", ">rows it knew", ">rows now", ">missing", ">foreign"],
        [
            (d.origin, str(d.shard), str(d.snapshot), d.known, d.there, d.missing, d.foreign)
            for d in view.differs
        ],
    )
    output.say("at least so many rows are missing or foreign; there may be more")
    if any(d.missing for d in view.differs if d.origin in view.kept):
        output.say(
            "where an older ledger is kept, the next runs pull its missing rows again; "
            "what retention took becomes a gap"
        )
    if view.back is not None:
        output.say(
            "a rollback is possible: it brings back the rows that had landed by then and takes foreign rows "
            "out. The next runs pull again what landed since; what retention took becomes a gap"
        )
        output.say_cures(calls.rollback(view.back))
    if view.missing:
        output.say(
            f"{view.origin}: at least {view.missing:,} rows would be given up; say --without-missing "
            "to allow that"
        )
    if view.forgotten and any(d.foreign for d in view.differs):
        output.say("rows were removed from this table by `table forget`: the foreign rows may be those")


def show_rollback(output: Output, view: Rollback) -> None:
    """What would happen, for people."""
    output.say(
        f"{view.table} back to snapshot {view.snapshot_id}, landed {moment(view.landed_ms / 1000)} UTC"
    )
    for note in view.notes:
        output.say(note)
    output.say(
        f"rows of main: {_count(view.rows)} now, {_count(view.rows_then)} then "
        f"({_count(view.rows_leaving)} leave in {_count(view.files_leaving)} files, "
        f"{_count(view.rows_returning)} return in {_count(view.files_returning)})"
    )
    output.table(
        ["origin", "shard", ">frontier", ">then", ">rows in ledger", ">then"],
        [
            (
                shard.origin,
                str(shard.shard),
                str(shard.frontier),
                str(shard.frontier_then),
                shard.rows,
                shard.rows_then,
            )
            for shard in view.shards
        ],
    )
    if view.rows_then == 0:
        output.say("the table will be empty: nothing had landed by that time")
    if view.hours:
        output.say(f"receive hours affected: {', '.join(hour_text(hour) for hour in view.hours)}")
    if view.pulled_again:
        output.say(
            "what the ledger gives back is pulled again by the next runs; what retention took becomes a gap"
        )
    if any(shard.kept_out for shard in view.shards):
        hours = ", ".join(hour_text(hour) for hour in view.hours_out) or "older hours"
        output.say(f"no live run pulls what stays withdrawn: a backfill that names {hours} does")


def _count(rows: int | None) -> str:
    return "unknown" if rows is None else f"{rows:,}"
