"""One contract for all that a person decides about a table: planned, told twice, raced, not answered."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import StringType

from pipelines.landing.commit import authored
from pipelines.landing.commit.planned import NothingToDo, Planned, Tools, execute
from pipelines.landing.inspection.landings import Stage, landings_of
from pipelines.landing.inspection.verify import verify
from pipelines.landing.ledger.codec import TAG
from pipelines.landing.ledger.place import Trust, look_at
from pipelines.landing.ledger.state import TableState, ancestry, facts
from pipelines.landing.ledger.summary import forgotten_of, summary_of
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.maintenance.abort import plan_abort
from pipelines.landing.maintenance.compact import compactions, plan_compaction
from pipelines.landing.maintenance.maintain import Maintainer
from pipelines.landing.operations.columns import plan_columns
from pipelines.landing.operations.forget import plan_forget_before, plan_forget_where
from pipelines.landing.operations.give_up import plan_give_up
from pipelines.landing.operations.mend import plan_mend
from pipelines.landing.operations.pause import plan_pause, plan_resume
from pipelines.landing.operations.relabel import plan_moved, plan_relabel
from pipelines.landing.operations.repair_manifests import plan_repair_manifests
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.skip import plan_skip
from pipelines.landing.operations.undo import plan_undo
from pipelines.landing.recovery.adopt import plan_adopt
from pipelines.landing.table.contract import Contract
from sls_io.emulator import Emulator
from sls_io.values.claim import Ledger
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ConfigError, LandingConflict, LandingUnknown, LedgerBroken, SlsError
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient
from tests.worlds.in_process import quick_world
from tests.worlds.landed_hours import files_of
from tests.worlds.lossy_catalog import LossyCatalog, lossy
from tests.worlds.mold import Mold
from tests.worlds.one_logstore import PROJECT, World, group
from tests.worlds.two_logstores import second_logstore
from tests.worlds.two_runs import At

Plan = Callable[[World, Logstore, SlsClient], Planned[Any]]


@dataclass(frozen=True)
class Case:
    """An operation: how it is planned; what is done to the table before, that it has something to settle;
    the settings with which it is asked for; `settles`: landings are refused until it is done.

    `same_rows`: readers that follow what is appended see nothing of it. `work`: it writes data files.
    `files`: it is about files, and they must be there. `repeats`: asked for again it does the same once more.
    `stops`: a landing that is on its way ends. `owes`: what it leaves to a backfill is red until it
    has landed.
    """

    plan: Plan
    before: Callable[[World], object] = lambda world: None
    settings: Callable[[World], Logstore] = lambda world: world.logstore
    settles: bool = False
    same_rows: bool = False
    work: bool = False
    files: bool = False
    repeats: bool = False
    stops: bool = False
    owes: bool = False


def hour(world: World) -> int:
    """The receive hour in which 40 rows of the logstore landed in two landings."""
    return world.hours.stop - 2


def landing(world: World) -> int:
    """The landing before the newest one."""
    table = world.lake.load(world.logstore.table)
    landed = [s for s in ancestry(table) if "added-records" in summary_of(s)] if table is not None else []
    return landed[1].snapshot_id if landed else 1


class Died(Exception):
    """A run ends right before its commit."""


def die() -> None:
    """As a killed run: its files are written, nothing is committed."""
    raise Died


def ends(client: SlsClient) -> dict[int, Cursor]:
    """Where each shard ends now."""
    return {shard.id: client.cursor_at(shard.id, "end") for shard in client.shards()}


def on_its_way(world: World) -> None:
    """A landing whose run is gone: its files are there."""
    waiting(world)
    with pytest.raises(Died):
        world.land(on_event=At("publish", die))


def waiting(world: World) -> None:
    """Ten logs that have not landed."""
    world.put(10, pass_s=60)


def staged(world: World) -> str:
    """The run whose files no snapshot has."""
    found = landings_of(world.logstore, world.lake).found
    return next((x.run for x in found if x.state is not Stage.COMMITTED), "none")


def loses_a_file(world: World) -> None:
    """The files of the logstore in an hour are gone."""
    for path in files_of(world, hour(world)):
        if world.origin in path.parts:
            path.unlink()


def loses_a_manifest(world: World) -> None:
    """A manifest of main is gone."""
    head = world.table.current_snapshot()
    assert head is not None
    Path(head.manifests(world.table.io)[-1].manifest_path.removeprefix("file://")).unlink()


def in_another_region(world: World) -> Logstore:
    """Settings that call the service's region otherwise."""
    return world.changed(service={**world.logstore.service.model_dump(), "region": "cn-hangzhou"})


def renamed(world: World) -> Logstore:
    """Settings of a logstore that the table does not know."""
    name = f"{world.logstore.service.logstore}_anew"
    with world.client as client:
        client.transport.create_logstore(PROJECT, name, ttl=30, shard_count=1)
    return world.changed(service={**world.logstore.service.model_dump(), "logstore": name})


def compact_one(world: World, logstore: Logstore, client: SlsClient) -> Planned[Any]:
    """The newest hour with small files."""
    look = partial(look_at, world.lake, logstore.table)
    hours = plan_compaction(look())
    if not hours:
        raise NothingToDo("no hour has files to write together")
    (only,) = compactions(look, hours[-1:])
    return only.planned


def without_tag(world: World) -> None:
    """Somebody deleted the tag, and a row."""
    world.table.delete("n = 25")
    world.table.manage_snapshots().remove_tag(TAG).commit()


CASES = {
    "pause": Case(lambda w, s, c: plan_pause(w.lake, s, c, [0]), same_rows=True),
    "resume": Case(lambda w, s, c: plan_resume(w.lake, s, c, [1]), same_rows=True),
    "skip": Case(lambda w, s, c: plan_skip(w.lake, s, c, ends(c)), before=waiting, same_rows=True, owes=True),
    "columns": Case(lambda w, s, c: plan_columns(w.lake, s, renamed={"n": "m"}, retyped=()), same_rows=True),
    "undo": Case(lambda w, s, c: plan_undo(w.lake, s, c, range(hour(w), hour(w) + 1))),
    "rollback": Case(lambda w, s, c: plan_rollback(w.lake, s.table, landing(w))),
    "forget": Case(
        lambda w, s, c: plan_forget_where(w.lake, s, c, "n > 25 and n < 30"), work=True, files=True
    ),
    "forget-before": Case(lambda w, s, c: plan_forget_before(w.lake, s, c, hour(w) + 1), files=True),
    "errors": Case(
        lambda w, s, c: plan_mend(w.lake, s, c, w.hours),
        settings=lambda w: w.changed(columns={"n": "long", "status": "long"}),
        work=True,
        files=True,
    ),
    "rest": Case(
        lambda w, s, c: plan_mend(w.lake, s, c, w.hours, kept_in="rest"),
        settings=lambda w: w.changed(columns={**w.logstore.columns, "path": "string"}),
        work=True,
        files=True,
    ),
    "replace": Case(
        lambda w, s, c: plan_replace(w.lake, s, c, range(hour(w), hour(w) + 1)), work=True, repeats=True
    ),
    "replace-so-far": Case(
        lambda w, s, c: plan_replace(w.lake, s, c, range(hour(w) + 1, hour(w) + 2)), work=True, repeats=True
    ),
    "compact": Case(compact_one, same_rows=True, work=True, files=True),
    "abort": Case(
        lambda w, s, c: plan_abort(w.lake, s, staged(w)), before=on_its_way, same_rows=True, stops=True
    ),
    "relabel": Case(
        lambda w, s, c: plan_relabel(w.lake, s, c), settings=in_another_region, same_rows=True, stops=True
    ),
    "moved": Case(
        lambda w, s, c: plan_moved(w.lake, s, c, w.origin, at="begin", without_missing=True),
        settings=renamed,
        same_rows=True,
    ),
    "give-up": Case(lambda w, s, c: plan_give_up(w.lake, s, c), before=loses_a_file, settles=True),
    "adopt": Case(
        lambda w, s, c: plan_adopt(w.lake, s, c, at="rows", without_missing=True),
        before=without_tag,
        settles=True,
    ),
    "repair-manifests": Case(
        lambda w, s, c: plan_repair_manifests(w.lake, s, c),
        before=loses_a_manifest,
        settles=True,
        same_rows=True,
    ),
}


UPKEEP = {Operation.MANIFESTS, Operation.REFRESH, Operation.OTHER}
"""What maintenance does by itself between its steps, and what a later release did."""


def test_each_operation_that_a_person_asks_for_keeps_this_contract() -> None:
    assert {operation.value for operation in Operation if operation not in UPKEEP} <= CASES.keys()


def decided(emulator: Emulator, lake: Path) -> World:
    """Two logstores in a table. Of the first one an hour was removed for good; then 40 rows in two landings
    of an hour, one of them with an error, in which 10 of the second one landed, too; then 10 of the hour that
    runs; then its shard 1 was paused."""
    world = quick_world(emulator, lake)
    world.logstore = world.changed(shared=True)
    world.land_hours(1)
    other = World(emulator, world.lake, second_logstore(world), world.engine)
    other.land()
    world.carried_out(plan_forget_before, world.hours.stop - 1)
    world.put(20)
    other.counter = 26  # numbers that a removal asks for, and not the one that somebody deletes
    other.put(10)
    with world.client as client:
        client.put_raw(group([{"n": "900", "status": str(2**40), "path": "/p"}]), key="0" * 32)
    emulator.admin.advance(60)
    world.land()
    other.land()
    world.put(19)
    emulator.admin.advance(3600)
    world.land()
    world.put(10)
    emulator.admin.advance(60)
    world.land()
    world.carried_out(plan_pause, [1])
    return world


@pytest.fixture(scope="module")
def two_logstores(tmp_path_factory: pytest.TempPathFactory) -> Mold:
    """What all operations begin in."""
    return Mold(tmp_path_factory.mktemp("two_logstores"), decided)


@pytest.fixture
def world(two_logstores: Mold) -> Iterator[World]:
    """A copy of it, behind a catalog that loses answers."""
    with two_logstores.copy() as world:
        world.lake, _ = lossy(world.lake)
        yield world


@dataclass(frozen=True)
class Asked:
    """A case in its world, prepared."""

    case: Case
    world: World
    logstore: Logstore
    client: SlsClient

    @property
    def catalog(self) -> LossyCatalog:
        """What loses answers."""
        catalog = self.world.lake.catalog()
        assert isinstance(catalog, LossyCatalog)
        return catalog

    def plan(self) -> Planned[Any]:
        """What it would do now."""
        return self.case.plan(self.world, self.logstore, self.client)

    def execute(self, planned: Planned[Any], **tools: Any) -> int:
        """Do it."""
        return execute(self.world.lake, planned, Tools(engine=self.world.engine, **tools)).snapshot

    def somebody_commits(self) -> None:
        """A commit that leaves all rows; where that is refused, a column is added by hand."""
        if self.case.settles:
            self.world.table.update_schema().add_column("by_hand", StringType()).commit()
            return
        looked = look_at(self.world.lake, self.world.logstore.table)
        change = authored.unchanged(looked.head, looked.state, Deed(Operation.REFRESH))
        execute(self.world.lake, Planned(None, looked, change))

    def seen(self) -> tuple[object, ...]:
        """All that a dry run could change."""
        return (self.world.table.metadata_location, self.world.files(), self.world.checkpoints())


@pytest.fixture(params=CASES)
def asked(request: pytest.FixtureRequest, world: World) -> Iterator[Asked]:
    """Each operation in turn."""
    case = CASES[request.param]
    case.before(world)
    logstore = case.settings(world)
    with SlsClient(logstore.service) as client:
        yield Asked(case, world, logstore, client)


def others(world: World, state: TableState) -> tuple[Ledger, ...]:
    """The ledgers of the table's other logstores."""
    return tuple(ledger for name, ledger in sorted(state.ledgers.items()) if "other_logs" in name)


def numbers(world: World) -> Counter[tuple[str, int, int, int]]:
    """The identities in the table, of all its logstores."""
    rows = world.table.scan(selected_fields=("__origin__", "__shard__", "__cursor__", "__index__")).to_arrow()
    return Counter(tuple(row.values()) for row in rows.to_pylist())


def test_it_is_a_dry_run_until_it_is_done_and_then_done_once_although_its_answer_is_lost(
    asked: Asked,
) -> None:
    world, before, state = asked.world, asked.seen(), facts(asked.world.table, damaged_too=True)
    planned = asked.plan()
    assert asked.seen() == before, "a plan changes nothing"
    rows = numbers(world) if not asked.case.settles else None

    asked.catalog.script.append("lost")
    snapshot = asked.execute(planned)

    table, now = world.table, facts(world.table)
    head = table.current_snapshot()
    assert head is not None and head.snapshot_id == snapshot == now.tagged
    assert head.summary is not None
    assert (head.summary.operation.value == "replace") == asked.case.same_rows
    if asked.case.same_rows and rows is not None:
        assert numbers(world) == rows
        assert {s: (e.rows, e.sum) for s, e in world.ledger.shards.items()} == {
            s: (e.rows, e.sum) for s, e in state.ledger(world.origin).shards.items()
        }
    if others(world, state):
        assert others(world, now) == others(world, state)
    assert state.forgotten.shards or asked.case.settles
    for shard, gone in state.forgotten.shards.items():
        assert forgotten_of(head).shards[shard].rows >= gone.rows, "older snapshots expire"
    assert (now.paused == state.paused) == (
        asked.case.plan not in (CASES["pause"].plan, CASES["resume"].plan)
    )
    if not asked.case.repeats:
        with pytest.raises(SlsError):
            asked.execute(asked.plan())
        assert world.table.current_snapshot() == head, "told twice"
    proved(asked)


def proved(asked: Asked) -> None:
    """The table is what its ledgers say, those of both logstores."""
    looked = look_at(asked.world.lake, asked.logstore.table, trust=Trust.WHOLE)
    assert looked.head == asked.world.table.current_snapshot()
    proof = verify(asked.logstore, asked.world.lake, asked.client)
    assert proof.ok is not asked.case.owes, proof


@pytest.mark.parametrize("how", ["commit", "compaction"])
def test_what_another_commits_meanwhile_is_never_lost(asked: Asked, how: str) -> None:
    """It is refused, or done on the table as it is then, as its plan says."""
    if how == "compaction" and asked.case.settles:
        pytest.skip("such a table is not compacted")
    world, planned = asked.world, asked.plan()
    rows = numbers(world) if not asked.case.settles else None
    if how == "commit":
        asked.somebody_commits()
    else:
        assert Maintainer(world.logstore, world.lake).execute(["compact"]).compacted
    head = world.table.current_snapshot()
    assert head is not None

    if (planned.again is None and planned.work is None) or (how == "compaction" and asked.case.files):
        with pytest.raises(LandingConflict, match="nothing was changed"):
            asked.execute(planned)
        assert world.table.current_snapshot() == head
        assert rows is None or numbers(world) == rows
        return
    done = execute(world.lake, planned, Tools(engine=world.engine))
    # Compactions look once their files are written: another hour's commit came before.
    assert done.conflicts == (asked.case.plan is not compact_one)
    now = world.table.current_snapshot()
    assert now is not None and now.parent_snapshot_id == head.snapshot_id
    proved(asked)


def test_a_landing_that_is_on_its_way_is_refused_once_and_lands(asked: Asked) -> None:
    if asked.case.settles or asked.case.stops:
        pytest.skip("no landing is on its way, or none may be")
    world = asked.world
    waiting(world)
    if asked.logstore.service == world.logstore.service:
        world.logstore = asked.logstore
    assert world.land(on_event=At("publish", lambda: asked.execute(asked.plan()))).conflicts == 1
    world.land()
    proved(asked)


def test_what_was_not_confirmed_is_unknown_and_done_once_when_it_is_asked_for_again(asked: Asked) -> None:
    world = asked.world
    for word in ("refused", "full"):
        planned, head = asked.plan(), world.table.metadata_location
        asked.catalog.script.append(word)
        with pytest.raises(LandingUnknown, match="Make room" if word == "full" else "Run it again") as said:
            asked.execute(planned)
        assert word != "full" or "another program" not in str(said.value)
        assert world.table.metadata_location == head, word
    asked.catalog.script.append("late")
    with pytest.raises(LandingUnknown):
        asked.execute(asked.plan())
    asked.somebody_commits()
    asked.catalog.deliver()
    assert asked.catalog.deliveries == ["CommitFailedException"], "somebody was faster"
    asked.catalog.script.append("late")
    with pytest.raises(LandingUnknown):
        asked.execute(asked.plan())
    again = asked.plan()
    asked.catalog.deliver()
    assert asked.catalog.deliveries[1:] == [""], "it arrived after all"
    head = world.table.metadata_location
    if not asked.case.repeats:
        with pytest.raises((LandingConflict, ConfigError)):
            asked.execute(again)
        assert world.table.metadata_location == head
    proved(asked)


def test_files_that_a_sweep_may_have_taken_are_never_sent(asked: Asked) -> None:
    if not asked.case.work:
        pytest.skip("it writes no data files")
    clock, head = ManualClock(asked.world.emulator.admin.now()), asked.world.table.metadata_location
    planned = asked.plan()
    work = planned.work
    assert work is not None

    def slept(tools: Tools) -> Planned[Any]:
        made = work(tools)
        clock.advance(13 * 3600)
        return made

    with pytest.raises(LandingConflict):
        asked.execute(replace(planned, work=slept), clock=clock)
    assert asked.world.table.metadata_location == head


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_before_anything_has_landed_it_is_refused(calm: World, name: str, made: bool) -> None:
    """Also where the table is there, and empty."""
    if made:
        calm.lake.ensure(calm.logstore.table, Contract.from_columns(calm.logstore.columns))
    with calm.client as client, pytest.raises((ConfigError, LedgerBroken)):
        CASES[name].plan(calm, calm.logstore, client)
