"""What Dagster is told of the hours behind a landing, each with numbers and a data version of its own.

A live run tells what nobody was told of yet: the newest event of each hour is compared with the newest commit
of `main` that changed it. Its own hours are among these, and those of a run that died behind its commit, of
`sls-lake land`, and of a replace whose answer was lost. Hour by hour, so that nothing has to be remembered.

Worked example: commit 11 brought 07:00 and 08:00, 12 brought 08:00, 13 brought 09:00. Dagster's newest event
of 07:00 has the data version 11, of 08:00 it is 11, too, and 09:00 has none: the run of 12 died behind its
commit, and 13 was made at the command line. A live run that lands nothing itself tells 08:00 as 12 and 09:00
as 13, and leaves 07:00 alone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg
from pyiceberg.table import Table

from pipelines.components.logstore import metadata
from pipelines.components.logstore.schedule import CLAIMS_TAG
from pipelines.landing.hours import hour_text
from pipelines.landing.inspection.brought import Brought, brought
from pipelines.landing.inspection.describe import hour_rows
from pipelines.landing.inspection.error_rows import HourErrors
from pipelines.landing.ledger.state import TableState, facts
from pipelines.landing.ledger.values import Landed
from pipelines.landing.logstore import Logstore
from pipelines.landing.run.report import LandingReport
from pipelines.landing.table.lake import Lake
from sls_io.values.claim import Ledger
from sls_io.values.window import HOUR_S

LATE_MAX = 100
"""Hours that a run tells beside those with rows of its own: an event costs some milliseconds, and a table
that another Dagster looked after has years of them. The next run goes on, as far as the commits that
`brought` reads."""
UNKNOWN_TAG, UNKNOWN_HOURS_TAG = "sls/unknown", "sls/unknown_hours"
"""On a run that lost the answer to its commit: the logstore, and the hours of which nobody knows."""
_UNKNOWN_RUNS_MAX = 20
_ASKED_MAX = 10_000
"""Hours of one question: SQLite takes 32,766 values in a statement, and one landing may pass more hours."""


@dataclass(frozen=True)
class News:
    """Hours to tell, what the newest landing pulled of each, and the newest commit that changed it, where it
    is known. `left`: how many more are left for the next run. `told`: the data version that each has by now;
    it stays where no commit is behind the event. `open`: the hour of them that goes on, with no new rows.
    `emptied`: those whose rows have all left."""

    hours: frozenset[int]
    windows: Mapping[int, Sequence[Landed]] = field(default_factory=dict)
    versions: Mapping[int, int] = field(default_factory=dict)
    left: int = 0
    told: Mapping[int, str] = field(default_factory=dict)
    open: int | None = None
    emptied: frozenset[int] = frozenset()


def untold(
    instance: dg.DagsterInstance, logstore: Logstore, bronze: dg.AssetKey, report: LandingReport, lake: Lake
) -> News:
    """What a live run has to tell: hours with rows of its own, and what the table says that others left.

    An hour whose rows have all left since (an undo) is told with none where somebody was told of it: the page
    would show for ever what it had. Where nobody was, it is not told and stays missing: a backfill brings it.
    One that a run left as unknown is told as it is, however old the commits are that brought it. The open
    hour is told once without rows, too: the page would count it as missing until its first log.
    """
    table = lake.load(logstore.table)
    state = facts(table) if table is not None else None
    commits = _commits(logstore, table, state, report.origin)
    once = _unknown_once(instance, bronze)
    last = report.until_s // HOUR_S
    told = versions_told(instance, bronze, once.union({last}, *(each.hours for each in commits)))
    newer = _newer_than_told(told, commits)
    unknown = {hour for hour in once if told.get(hour, "").startswith(metadata.UNKNOWN)}
    full = {hour for hour, found in newer.items() if _had_rows(hour, found)}
    in_table = hour_rows(logstore, lake, report.origin, newer)
    emptied = {hour for hour in full if not in_table.get(hour, 1)}
    started = {hour for hour in newer.keys() | unknown if hour >= logstore.start_hour}
    others = started - (emptied - unknown - told.keys()) - set(report.hours)
    # Those with rows first: a run after a long pause passes thousands of empty hours.
    chosen = sorted(others, key=lambda h: (h not in full | unknown, h))[:LATE_MAX]
    goes_on = range(max(last, logstore.start_hour), last + 1) if commits else ()
    still = {*goes_on} - others - set(report.hours)
    shown = still if last not in told or _left_red(instance, logstore) else set[int]()
    hours = frozenset({*report.hours, *chosen, *shown})
    # What no commit in reach has changed is as the newest of them left it.
    newest = dict.fromkeys(unknown | shown, commits[0].snapshot_id) if commits else {}
    versions = newest | {hour: found[0].snapshot_id for hour, found in newer.items()}
    ledger = state.ledger(report.origin) if state is not None else Ledger(report.origin)
    return News(
        hours,
        {hour: newest_landed(hour, commits, ledger) for hour in hours - emptied if hour in newer},
        {hour: versions[hour] for hour in hours if hour in versions},
        len(others) - len(chosen),
        open=max(shown, default=None),
        emptied=hours & emptied,
    )


def _commits(logstore: Logstore, table: Table | None, state: TableState | None, origin: str) -> list[Brought]:
    """What the newest commits brought; nothing where there is no table."""
    if table is None or state is None:
        return []
    return [*brought(table, origin, _begin(logstore, state, origin))]


def _left_red(instance: dg.DagsterInstance, logstore: Logstore) -> bool:
    """Whether the live run before this one failed: it named the open hour, which stays red on the page until
    somebody tells of it, and an hour without logs is passed only at its end."""
    runs = instance.get_runs(dg.RunsFilter(tags={CLAIMS_TAG: logstore.name}), limit=2)
    return len(runs) == 2 and not runs[1].is_success


def _begin(logstore: Logstore, state: TableState, origin: str) -> int | None:
    """The first hour of a history that has all that came: older ones hold nothing, now and later, or logs of
    them were deleted before anybody looked. None where a policy skipped logs that were there; somebody may
    ask for these hours."""
    if logstore.leaves_older:
        return None
    asked_s, kept_s = state.asked.get(origin), state.kept.get(origin, 0)
    return None if asked_s is None else max(asked_s // HOUR_S, logstore.start_hour, -(-kept_s // HOUR_S))


def newest_landed(hour: int, commits: Iterable[Brought], ledger: Ledger) -> Sequence[Landed]:
    """What the newest landing brought of the hour, of those whose windows the ledger still calls landed;
    `commits` newest first.

    Story: an hour of 300 rows lands, is rolled back, lands again and is replaced, and Dagster hears of it
    afterwards. Three landings brought 300 each, and the sum of them was 900 beside the 300 in the table.

    Worked example: 10 rows landed, then 7, and a rollback took the 7 back. The ledger ends before their
    window, so it is 10; once they land again it is 7, as a run tells what it brings itself.
    """
    kept = ([w for w in each.windows.get(hour, ()) if _landed(w, ledger)] for each in commits)
    found = [windows for windows in kept if windows]
    return next((windows for windows in found if any(w.rows for w in windows)), found[0] if found else ())


def _landed(landed: Landed, ledger: Ledger) -> bool:
    window, entry = landed.window, ledger.shards.get(landed.window.shard)
    return entry is not None and entry.landed.overlaps(window.begin, window.end)


def _had_rows(hour: int, commits: Iterable[Brought]) -> bool:
    """Whether rows of the hour came or left with these commits: else they passed it empty."""
    return any(hour in each.changed or any(w.rows for w in each.windows.get(hour, ())) for each in commits)


def _newer_than_told(told: Mapping[int, str], commits: Sequence[Brought]) -> dict[int, list[Brought]]:
    """Hour -> the commits that changed it since Dagster was told of it, newest first; `commits` likewise.

    A data version that is none of these commits is older than all of them, or says that nobody knew.
    """
    place = {str(each.snapshot_id): at for at, each in enumerate(commits)}
    hours = {hour for each in commits for hour in each.hours}
    found = {
        hour: [each for each in commits[: place.get(told.get(hour, ""), len(commits))] if hour in each.hours]
        for hour in hours
    }
    return {hour: newer for hour, newer in found.items() if newer}


def versions_told(instance: dg.DagsterInstance, bronze: dg.AssetKey, hours: Iterable[int]) -> dict[int, str]:
    """Hour -> data version of its newest event, for those that have one.

    Story: a backfill asks for hours that are there, nothing is to do, and its events name no version. The
    next live run would take the hours for such that nobody was told of.
    """
    keys, tag = {hour_text(hour): hour for hour in hours}, metadata.DATA_VERSION_TAG
    asked, found = [*keys], dict[int, str]()
    for at in range(0, len(asked), _ASKED_MAX):
        told = instance.event_log_storage.get_latest_tags_by_partition(
            bronze, dg.DagsterEventType.ASSET_MATERIALIZATION, [tag], asked[at : at + _ASKED_MAX]
        )
        found |= {keys[key]: tags[tag] for key, tags in told.items() if tag in tags}
    return found


def hours_tag(hours: range) -> str:
    """The value of a run's tag that names its hours."""
    return f"{hours.start}-{hours.stop}"


def _unknown_once(instance: dg.DagsterInstance, bronze: dg.AssetKey) -> set[int]:
    """Hours that the newest runs which lost the answer to their commit told as unknown."""
    runs = instance.get_runs(dg.RunsFilter(tags={UNKNOWN_TAG: bronze.path[-1]}), limit=_UNKNOWN_RUNS_MAX)
    spans = (run.tags.get(UNKNOWN_HOURS_TAG, "").split("-") for run in runs)
    return {hour for span in spans if len(span) == 2 for hour in range(int(span[0]), int(span[1]))}


def hour_events(
    logstore: Logstore,
    report: LandingReport,
    news: News,
    in_table: Mapping[int, int],
    errors: Mapping[int, HourErrors] | None = None,
    also: metadata.Metadata | None = None,
) -> Iterator[dg.AssetMaterialization]:
    """One event per hour, oldest first, with its own numbers and windows; `also` goes to the newest."""
    bronze = dg.AssetKey(["bronze", logstore.name])
    newest = max(news.hours, default=None)
    for hour in sorted(news.hours):
        version = news.versions.get(hour, report.snapshot_id)
        landed = news.windows.get(hour, ())
        rows, wrong = in_table.get(hour), (errors or {}).get(hour)
        if hour == news.open or hour in report.hours or version is None or version == report.snapshot_id:
            numbers = metadata.hour(report, hour, rows_in_table=rows, errors=wrong)
        else:
            emptied = hour in news.emptied
            numbers = metadata.late_hour(landed, version, rows_in_table=rows, errors=wrong, emptied=emptied)
        yield dg.AssetMaterialization(
            bronze,
            partition=hour_text(hour),
            metadata={**numbers, **metadata.windows(landed), **((also or {}) if hour == newest else {})},
            tags=metadata.version_tags(news.told.get(hour) if version is None else version),
        )
