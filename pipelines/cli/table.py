"""`sls-lake table`: what a person decides about a table. A dry run until `--execute`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import click

from pipelines.cli.deciding import decision, without_missing_option
from pipelines.cli.hours import HOUR, HOURS
from pipelines.cli.maintain import maintain
from pipelines.cli.typed import Typed
from pipelines.landing.commit.planned import Decision, Planned
from pipelines.landing.contents.fresh_starts import At
from pipelines.landing.hours import hour_of
from pipelines.landing.ledger.start import known
from pipelines.landing.ledger.ways_back import pasts
from pipelines.landing.logstore import Logstore
from pipelines.landing.operations import reach
from pipelines.landing.operations.columns import plan_columns
from pipelines.landing.operations.forget import plan_forget_before, plan_forget_older, plan_forget_where
from pipelines.landing.operations.give_up import plan_give_up
from pipelines.landing.operations.relabel import plan_moved, plan_relabel
from pipelines.landing.operations.repair_manifests import plan_repair_manifests
from pipelines.landing.operations.rollback import Rollback, kept_by_rollback, plan_rollback
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.recovery.register import plan_register
from pipelines.landing.recovery.start_over import plan_start_over
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import ConfigError, SlsError
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient


@click.group("table")
def table() -> None:
    """Settle a table, or maintain it. A dry run until --execute; all take --json, --debug."""


table.add_command(maintain)
_missing_option = without_missing_option(
    "Go on although rows are missing. Run sls-lake verify first: it may name a way back."
)


@decision(
    table,
    "register",
    click.option(
        "--metadata", default="", metavar="FILE", help="Register this metadata file, not the newest."
    ),
    lands=True,
)
def register(lake: Lake, logstore: Logstore, client: SlsClient, metadata: str) -> Decision[Any]:
    """Register the newest metadata of a table that the catalog has lost, or has in an older state.

    Looks in the table's folder and checks what it finds: the ledger, the files of the newest landing, the
    logstore. Metadata that fails a check is registered only when --metadata names it. Deletes nothing.
    """
    return plan_register(lake, logstore, client, metadata=metadata)


@decision(table, "start-over", lands=True)
def start_over(lake: Lake, logstore: Logstore, client: SlsClient) -> Decision[Any]:
    """Give up a table that the catalog has lost, or whose metadata is gone: make a new, empty one in a folder
    of its own.

    The old files stay where they are, and no verb touches them any more. The next run begins where
    `reset` says. Not for a table that is in the catalog and can be read.
    """
    return plan_start_over(lake, logstore, client)


@decision(
    table,
    "repair-manifests",
    without_missing_option(
        "List what is there although rows are missing; sls-lake verify then names what brings those back."
    ),
)
def repair_manifests(
    lake: Lake, logstore: Logstore, client: SlsClient, without_missing: bool
) -> Decision[Any]:
    """List the data files of lost or damaged manifests again, even when all manifests are lost.

    No row changes. Takes the files in the table's folder that together hold exactly the rows that the ledgers
    of its logstores know. Where no files do, nothing is changed.
    """
    return plan_repair_manifests(lake, logstore, client, without_missing=without_missing)


@decision(table, "rollback", click.argument("snapshot", type=int), _missing_option)
def rollback(
    lake: Lake, logstore: Logstore, client: SlsClient, snapshot: int, without_missing: bool
) -> Decision[Any]:
    """Give the table the rows and the ledger of the landing SNAPSHOT, as a new commit.

    The next runs pull again what leaves; what retention took becomes a named gap. `sls-lake landings
    show` lists the landings.
    """
    planned = plan_rollback(lake, logstore.table, snapshot, without_missing=without_missing)
    return replace(planned, view=_asked(client, planned))


def _asked(client: SlsClient, planned: Planned[Rollback]) -> Rollback:
    """With what the service still has of the rows that the rollback gives back; without where the service
    cannot be asked, which does not stop a rollback."""
    try:
        (past, *_), state = pasts(planned.place.table, first=planned.view.snapshot_id), planned.place.state
        origin = known(state, client.origin()).id
        return replace(planned.view, asked=origin, kept=kept_by_rollback(state, past, origin, client))
    except SlsError:
        return planned.view


@decision(table, "relabel")
def relabel(lake: Lake, logstore: Logstore, client: SlsClient) -> Decision[Any]:
    """Give the logstore in the table the region that the settings say.

    For a table whose logstore was landed under a wrong region. Rows and ledger stay as they are.
    """
    return plan_relabel(lake, logstore, client)


def _renaming(text: str) -> tuple[str, str]:
    """(old, new) of `OLD=NEW`, two names of columns. Raises ConfigError."""
    old, _, new = text.partition("=")
    if not old or not new:
        raise ConfigError(f"{text!r} is no OLD=NEW; write it like code=status")
    return old, new


@decision(
    table,
    "columns",
    click.option(
        "--rename",
        "renamed",
        type=Typed("old=new", _renaming),
        multiple=True,
        metavar="OLD=NEW",
        help="Rows keep their values.",
    ),
    click.option(
        "--retype",
        "retyped",
        multiple=True,
        metavar="NAME",
        help="Give this column the type that the logstore declares: in place where Iceberg can (int to long, "
        "float to double); else the column gets another name, and one of the declared type begins beside it. "
        "May be given again.",
    ),
    click.option(
        "--restore",
        "restored",
        is_flag=True,
        help="Put sls-lake's own and the declared columns back that other hands dropped, renamed or began "
        "anew: older rows show their values again. What took a name since gets another one.",
    ),
    click.option(
        "--plain",
        multiple=True,
        metavar="KEY",
        help="Let values of a key land as they are sent that settings had as drop or hash; what the settings "
        "say counts again. May be given again.",
    ),
)
def columns(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    renamed: tuple[tuple[str, str], ...],
    retyped: tuple[str, ...],
    restored: bool,
    plain: tuple[str, ...],
) -> Decision[Any]:
    """Show the table's columns beside the declared ones; rename some, retype them or put them back.

    No file is written anew: rows that are there keep what they have. sls-lake backfill --mode replace lands
    hours again with the new type, as far as the service still has them.
    """
    return plan_columns(
        lake, logstore, renamed=dict(renamed), retyped=retyped, restored=restored, plain=plain
    )


@decision(
    table,
    "undo",
    click.option(
        "--hour",
        "hours",
        type=HOURS,
        required=True,
        metavar="A[..B]",
        help="Receive hours like 2026-11-20-07:00..2026-11-20-09:00, the last included.",
    ),
)
def undo(lake: Lake, logstore: Logstore, client: SlsClient, hours: range) -> Decision[Any]:
    """Take whole receive hours back: their rows leave, no live run lands them again.

    Only hours that every shard has landed to their end. `sls-lake backfill` lands them again, as far as
    retention still has them; `sls-lake backfill --mode replace` does both in one commit.
    """
    planned = plan_undo(lake, logstore, client, hours)
    lost = reach.taken(planned.place.table, planned.view.origin, client, planned.taken)
    return replace(planned, view=replace(planned.view, cannot_come_again=tuple(lost)))


@decision(
    table,
    "give-up",
    click.option(
        "--origin",
        default="",
        metavar="ID",
        help="Files of another origin in the table, as verify names it: one whose logstore is gone.",
    ),
    click.option(
        "--rows",
        is_flag=True,
        help="Read every column of every row, as verify --rows does, and give up files that this finds, too.",
    ),
)
def give_up(lake: Lake, logstore: Logstore, client: SlsClient, origin: str, rows: bool) -> Decision[Any]:
    """Give up the rows of data files that are gone or damaged, these rows and no others.

    Only for rows that nothing brings back: `sls-lake verify` names what does. The files leave the table,
    their rows leave the ledger, and verify reports their number from then on. Refused while other rows are
    missing.
    """
    return plan_give_up(lake, logstore, client, origin=origin, whole=lambda path: rows)


@decision(
    table,
    "forget",
    click.option(
        "--where",
        metavar="FILTER",
        help="Rows that this takes, like \"user = 'x' and n in (1, 2.5e3)\". Tests: = != < <= > >= in "
        "between like, is null, is nan; joined by and, or, not, (). A dot is part of a name; names with "
        "blanks or quotes stand in \"...\". In 'text' a quote is written twice and nothing else is special; "
        "E'text' knows \\n \\r \\t \\0 \\' \\\\ \\xHH \\uHHHH \\UHHHHHHHH; X'00ff' are bytes, '2026-11-20' a "
        "day, '2026-11-20T07:00:00+00:00' a moment.",
    ),
    click.option("--before", "hour", type=HOUR, metavar="HOUR", help="Whole receive hours before this one."),
    click.option(
        "--older-than",
        "days",
        type=click.IntRange(min=1, max=3650),
        metavar="DAYS",
        help="Whole receive hours of more than so many days ago, as far as all shards have landed them.",
    ),
    click.option(
        "--from-now-on",
        is_flag=True,
        help="And rows with these values never land again: column = value, or column in (...). Kept as keyed "
        "hashes.",
    ),
    click.option("--end", is_flag=True, help="End that: rows with these values may land again."),
    click.option("--reason", default="", help="Why; kept in the table. The filter's values are not."),
    click.option(
        "--origin",
        default="",
        metavar="ID",
        help="Rows of another origin in the table, as verify names it: the logstore before it was made "
        "again.",
    ),
    _missing_option,
)
def forget(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    where: str | None,
    hour: int | None,
    days: int | None,
    from_now_on: bool,
    end: bool,
    **said: Any,
) -> Decision[Any]:
    """Remove rows for good: by a filter, or whole receive hours before one.

    Nothing brings them back: no run, no backfill, no rollback. With --before that holds for all hours before
    HOUR, also for those without rows now. Older snapshots hold the rows until they are expired. A table with
    missing rows is refused: no rollback goes back past a removal, so nothing could bring them back.
    """
    if from_now_on and end:
        raise click.UsageError("say one of --from-now-on and --end")
    asked = [name for name, each in (("where", where), ("hour", hour), ("days", days)) if each is not None]
    if where is not None and asked == ["where"]:
        said |= {"from_now_on": from_now_on, "end": end}
        return plan_forget_where(lake, logstore, client, where, **said)
    if hour is not None and asked == ["hour"] and not (from_now_on or end):
        return plan_forget_before(lake, logstore, client, hour, **said)
    if days is not None and asked == ["days"] and not (from_now_on or end or any(said.values())):
        return plan_forget_older(lake, logstore, client, days)
    raise click.UsageError(
        "say what to forget: one of --where FILTER, --before HOUR and --older-than DAYS; --from-now-on and "
        "--end go with --where"
    )


def _at(text: str) -> At:
    """Where shards start: `begin`, `latest`, `rows`, or a whole hour, UTC, as unix seconds. Raises
    ConfigError."""
    return cast(At, text) if text in ("begin", "latest", "rows") else hour_of(text) * HOUR_S


def _start(text: str) -> tuple[int, Cursor]:
    """(shard, cursor) of `SHARD=CURSOR`, both as decimal numbers, as `sls-lake describe` shows them. Raises
    ConfigError."""
    shard, _, cursor = text.partition("=")
    if not all(each.isascii() and each.isdecimal() and len(each) < 20 for each in (shard, cursor)):
        raise ConfigError(f"{text!r} is no SHARD=CURSOR; write it like 0=1790000000000001")
    return int(shard), Cursor(int(cursor))


@decision(
    table,
    "adopt",
    click.option(
        "--at",
        type=Typed("place", _at),
        metavar="WHERE",
        help="Where shards start: `rows` (right after those in the table), `begin`, `latest`, or an hour "
        "like 2026-11-20-07:00.",
    ),
    click.option(
        "--start",
        "starts",
        type=Typed("shard=cursor", _start),
        multiple=True,
        metavar="SHARD=CURSOR",
        help="Where one shard starts; may be given again.",
    ),
    without_missing_option(
        "Give up rows that an older ledger knew and that are not there any more; verify goes on to say how "
        "many."
    ),
    click.option(
        "--moved",
        metavar="ORIGIN",
        help="The project moved, or the logstore was renamed: the origin that it was, by its id in the "
        "table.",
    ),
    lands=True,
)
def adopt(
    lake: Lake,
    logstore: Logstore,
    client: SlsClient,
    at: At | None,
    starts: tuple[tuple[int, Cursor], ...],
    without_missing: bool,
    moved: str | None,
) -> Decision[Any]:
    """Give a table a true ledger again, where its own is missing, damaged or does not explain the rows.

    A ledger that the rows prove is kept. Otherwise say where each shard starts (--at, --start): the rows
    that are in the table are counted as adopted, and nothing before the start is landed. Rows that are
    there twice are not adopted, and lost ones are given up only with --without-missing.

    With --moved the table goes on with the logstore of the settings, from --at on; what is there stays.
    """
    said: Mapping[str, Any] = {"at": at, "cursors": dict(starts), "without_missing": without_missing}
    if moved is not None:
        return plan_moved(lake, logstore, client, moved, **said)
    return plan_adopt(lake, logstore, client, **said)
