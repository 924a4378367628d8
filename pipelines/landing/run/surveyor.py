"""What is asked of the service before a plan: of hours that were named, or what is new where one may read.

A run asks, and whoever wants to know what the next run would do, in the very words of the run.

Nothing is decided here. What comes out are surveys: of each shard its head, the hour edges from its frontier
on, and what else the service said. So a test and `land --dry-run` can ask `plan_live` with the same values.
Edges are asked for by time, never made of cursors: a number between two cursors may name nothing.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pyiceberg.table import Table

from pipelines.landing.ledger.left import left_alone, rates_of
from pipelines.landing.ledger.pinned import check_named, left_to_others
from pipelines.landing.ledger.start import begins, check_ends, fill_only
from pipelines.landing.ledger.state import TableState
from pipelines.landing.logstore import Logstore
from pipelines.landing.spark.session import Engine
from sls_io.planning.draft import Patience
from sls_io.planning.plan import plan_live
from sls_io.planning.survey import left_over, look_at, mark_cut, opened_from_hour, survey_hours, to_fill
from sls_io.planning.values import Plan, Survey
from sls_io.planning.waits import Wait
from sls_io.values.claim import Ledger
from sls_io.values.errors import TransportError
from sls_io.values.shard import Shard
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient

Surveys = Mapping[int, Survey]


@dataclass(frozen=True)
class Surveyor:
    """Asks for the logstore of `ledger`, in `table` with what that says; None where there is no table yet.

    `shards` are the listed ones. What is received from `until_s` on (unix seconds) is left for later. All
    surveys raise LedgerBroken where a shard ends before its frontier, and what the service's calls raise.
    """

    client: SlsClient
    logstore: Logstore
    table: Table | None
    state: TableState | None
    ledger: Ledger
    shards: tuple[Shard, ...]
    until_s: int

    @property
    def paused(self) -> frozenset[int]:
        """The shards that a person paused."""
        return frozenset() if self.state is None else self.state.paused_of(self.ledger.origin)

    def of_hours(self, hours: range, from_s: int = 0) -> Surveys:
        """What the ledger lacks of these receive hours (since 1970), received from `from_s` on.

        Without what a fill may not bring: what was removed for good, and what lies before rows that were
        adopted. Shards that the ledger never saw and that are older than the retention are marked: their
        beginning may be gone unseen.
        """
        surveys = survey_hours(
            self.client,
            self.shards,
            hours=hours,
            until_s=self.until_s,
            from_s=from_s,
            pieces=self.logstore.splits_per_hour,
            ledger=self.ledger,
            also=to_fill(self.shards, self.ledger),
        )
        if self.state is not None:
            surveys = fill_only(surveys, self.ledger, self.state, self.ledger.origin)
        return self._checked(mark_cut(self.client, self.shards, self.ledger, surveys))

    def claimed(
        self,
        held: frozenset[int],
        checkpoints: Callable[[], Mapping[int, Cursor | None]],
        engine: Engine,
    ) -> Surveys:
        """What is new in the claimed shards, and in those that the group has finished and the ledger has not
        closed. Spark starts beside the survey, as soon as one shard has something to land.

        The group finishes a drained shard by itself and grants it to nobody, so those are looked for beside
        what is held: the ledger still has to close them, or their children wait for ever. A paused shard is
        in neither. Raises ConfigError as `check_named`.

        `checkpoints` is asked only where a read-only shard is left that is not held and not closed: a run of
        a logstore without such shards does not pay for it.

        Worked example: shards 0 and 1 are held, 2 and 3 are not. 2 is read-only with its checkpoint at its
        end, and the ledger has it open: it is surveyed like the first two, closed by this run, and its
        children are let go. 3 is open and somebody else's: it is not looked at.
        """
        check_named(self.logstore, self.shards, self.ledger)
        known = self.ledger.shards
        shards = [s for s in self.shards if s.id not in self.paused]
        mine = [s for s in shards if s.id in held]
        rest = [s for s in shards if s not in mine and not (s.id in known and known[s.id].closed)]
        if any(s.readonly for s in rest):
            # Not worth a run: whoever cannot be asked now is looked at by the next one.
            with contextlib.suppress(TransportError):
                mine += left_over(self.client, rest, checkpoints())

        def begin_spark(survey: Survey) -> None:
            """Never for a run that finds nothing to do, so a shard that will have to wait is no reason."""
            if survey.spans and not engine.begun and self.plan({survey.shard: survey}).windows:
                engine.begin()

        return self.of(mine, windows_max=self.logstore.budget.windows_max, heard=begin_spark)

    def of(
        self,
        mine: Iterable[Shard],
        *,
        windows_max: int,
        heard: Callable[[Survey], None] = lambda survey: None,
    ) -> Surveys:
        """What is new in these shards, in at most about so many windows. `heard` gets each survey as it is
        made.

        For who holds shards and for who only looks, which is why `mine` is an argument: a preview asks as if
        every shard were its own. A shard that is opened again begins behind the hours that were removed for
        good, for both.
        """
        state = self.state
        surveys = look_at(
            self.client,
            self.shards,
            mine,
            self.ledger,
            until_s=self.until_s,
            windows_max=windows_max,
            pieces=self.logstore.splits_per_hour,
            spare=True,
            begins=None if state is None else begins(self.client, self.logstore, state, self.ledger.origin),
            heard=heard,
        )
        if state is not None:
            surveys = opened_from_hour(self.client, surveys, state.forgotten.before(self.ledger.origin))
        return self._checked(surveys)

    def left_alone(self, surveys: Surveys) -> Mapping[int, Wait]:
        """The shards that a live run leaves alone, with the reason.

        Those that the settings leave to others, and of the own ones those that the table says to leave. Where
        both speak of a shard, the table's reason is told.
        """
        others = left_to_others(self.logstore, self.shards, self.ledger)
        if self.state is None:
            return others
        mine = left_alone(
            self.state,
            self.ledger,
            surveys,
            self.logstore.budget,
            until_s=self.until_s,
            rates=lambda: self._rates,
            received_s=self.client.cursor_time_s,
        )
        return {**others, **mine}

    def plan(self, surveys: Surveys, patience: Patience | None = None) -> Plan:
        """What a live run would make of these surveys."""
        return plan_live(
            shards=self.shards,
            surveys=surveys,
            ledger=self.ledger,
            budget=self.logstore.budget,
            until_s=self.until_s,
            ordered=self.logstore.group.order,
            patience=patience or Patience(),
            left=self.left_alone(surveys),
            name_gaps=self.logstore.expired == "gap",
        )

    @cached_property
    def _rates(self) -> Mapping[int, float]:
        """Raw bytes a receive second by shard, read once: each shard that is surveyed asks for them."""
        return {} if self.table is None else rates_of(self.table, self.ledger)

    def _checked(self, surveys: Surveys) -> Surveys:
        check_ends(surveys, self.ledger, self.logstore.table)
        return surveys
