"""The moves of a round: each verb with what its documentation promises, as a change of the model.

A move says when the verb has to be accepted (`must`) and when it has to be refused (`never`); in between
both are right. A refused verb has changed nothing. Chance is drawn before anything is done, so that a
move is the same whether a race comes in between or not.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz import strangers
from fuzz.lane import Broken
from fuzz.model import CONTRACTS, Place, Told
from fuzz.scene import Refused, Scene, difference, where
from pipelines.landing.commit.planned import Planned, Tools, execute
from pipelines.landing.hours import hour_text, hours_text
from pipelines.landing.maintenance.maintain import STEPS
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.removal import Forget
from pipelines.landing.operations.replace import execute_replace, plan_replace
from pipelines.landing.operations.rollback import plan_rollback
from pipelines.landing.operations.skip import Skip, plan_skip
from pipelines.landing.operations.undo import PlannedUndo, plan_undo
from pipelines.landing.run.driver import Run
from pipelines.landing.table.lake import Lake
from sls_io.values.errors import LandingUnknown, SlsError

STATUSES = ("200", "404", "3000000000", "many", "99999999999999999999")


class Killed(Exception):
    """A run that ends between two steps."""


@dataclass
class Move:
    """One thing that is done. `then` changes the model as the documentation says, given what `act` gave.

    must   why it has to be accepted, "" when it may be refused
    never  why it has to be refused
    """

    what: str
    act: Callable[[], Any]
    then: Callable[[Any], None] = lambda result: None
    must: str = ""
    never: str = ""


@dataclass
class Trouble:
    """What happens to a verb on its way: another move between its look and its commit, a lost answer, or
    an end at the `kill`th event."""

    between: Callable[[], None] | None = None
    word: str = ""
    kill: int = -1


CALM = Trouble()


class Moves:
    """The moves on one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.model = scene, scene.model
        self.held: Callable[[], None] | None = None
        """What the model becomes when a held request arrives after all."""
        self.there = frozenset[Path]()
        """The files that were there when the outermost move began."""

    # --- time and the service ----------------------------------------------------------------------

    def put(self, name: str, dice: random.Random) -> Move:
        """Some groups of logs, spread over the key space."""
        weights = (8, 3, 1, 1, 1)
        groups = [
            ([(s, f"/p/{dice.randrange(5)}") for s in dice.choices(STATUSES, weights, k=dice.randint(1, 4))],
             f"{dice.randrange(2**32):08x}".ljust(32, "0"))
            for _ in range(dice.randint(1, 5))
        ]  # fmt: skip

        def act() -> None:
            for logs, key in groups:
                self.scene.put(name, logs, key=key)
            self.scene.advance(dice.choice((20, 120)))

        return Move(f"put {sum(len(logs) for logs, _ in groups)} logs in {name}", act)

    def clock(self, dice: random.Random) -> Move:
        """On by minutes, to the next hour, or by hours."""
        now_s = self.scene.now_s
        next_s = (now_s // 3600 + 1) * 3600 + 30
        step = dice.choice((300, next_s - now_s, next_s - now_s, 3600 * dice.randint(2, 5)))
        return Move(f"clock +{step} s", lambda: self.scene.advance(step))

    def reshard(self, name: str, dice: random.Random, *, merge: bool) -> Move | None:
        """Split a shard, or merge it with its right neighbour."""
        with self.scene.client(name) as client:
            shards = [s for s in client.shards() if not s.readonly]
        if (len(shards) > (1 if merge else 4) and not merge) or (merge and len(shards) < 2):
            return None
        shard = dice.choice(sorted(shards, key=lambda s: s.id)).id
        admin, project = self.scene.emulator.admin, self.scene.project

        def act() -> None:
            try:
                (admin.merge if merge else admin.split)(project, name, shard)
            except SlsError:
                return  # the last one of the key space has no neighbour

        def then(_: object) -> None:
            self.model.stores[name].sealed = 0

        return Move(f"{'merge' if merge else 'split'} shard {shard} of {name}", act, then)

    def retain(self, name: str, dice: random.Random) -> Move:
        """Retention takes what is older than some hour, or half an hour into one."""
        hour = self.scene.hour - dice.choice((0, 1, 1, 2, 3))
        at_s = hour * 3600 + dice.choice((0, 0, 1800))

        def act() -> None:
            self.scene.emulator.admin.retain(self.scene.project, name, before_s=at_s)
            self.scene.look_at_service(name)

        return Move(f"retention takes {name} before {hour_text(hour)}+{at_s % 3600}", act)

    def contract(self) -> Move | None:
        """The next contract."""
        if self.model.contract + 1 == len(CONTRACTS):
            return None

        def then(_: object) -> None:
            self.model.contract += 1

        return Move("another contract", lambda: None, then)

    # --- landing -----------------------------------------------------------------------------------

    def land(self, name: str, trouble: Trouble = CALM, hours: range | None = None) -> Move:
        """A live run, or a fill of these hours."""
        mode = f"fill {hours_text(hours)} of" if hours else "land"

        def act() -> None:
            try:
                self._run(name, trouble, hours)
            except (Killed, SlsError):
                if self.scene.seen() != self.base:
                    self.came(name, hours)
                raise

        def then(_: object) -> None:
            self.came(name, hours)

        never = "" if self.model.trusted else "the ledger cannot be relied on"
        must = "" if trouble != CALM or never else "nothing is wrong"
        return Move(
            f"{mode} {name}{_said(trouble)}", act, then, must, never if trouble.between is None else ""
        )

    base: Any = None
    """What was seen before the move, or after the last race."""

    def _run(self, name: str, trouble: Trouble, hours: range | None) -> None:
        left = trouble.kill

        def on_event(event: str) -> None:
            nonlocal left
            if event == "publish" and trouble.between is not None:
                between, trouble.between = trouble.between, None
                between()
            if left == 0:
                raise Killed(event)
            left -= 1

        lake = self._lake(trouble)
        try:
            with Run(
                self.scene.logstore(name),
                self.scene.engine,
                mode="fill" if hours else "live",
                hours=(hours.start, hours.stop) if hours else None,
                lake=lake,
                on_event=on_event,
            ) as run:
                run.land()
                problems = run.reconcile().problems
                run.checkpoint()
        finally:
            self.scene.catalog.script.clear()  # a run with nothing new sends no request that it is for
        if problems:
            raise Refused(f"the newest landing does not add up: {problems}")

    def came(self, name: str, hours: range | None) -> None:
        """Of a landing: what came was open (or withdrawn, for a fill), each log once; nothing left."""
        scene, model = self.scene, self.model
        if name not in scene.ledgers(scene.tagged()):
            return
        rows = scene.rows(scene.table)
        new = rows - model.rows
        open_now = {p for p in model.open(name) if p[0] not in model.paused.get(name, ())}
        allowed = model.refillable(name, hours) if hours else open_now
        places = {row[1] for row in new}
        if model.rows - rows or not places <= allowed or new != Counter(model.row(name, p) for p in places):
            raise Broken(f"a landing of {name}: {difference('rows', rows, model.rows)}")
        model.land(name, places)

    def _lake(self, trouble: Trouble) -> Lake:
        if not trouble.word:
            return self.scene.lake
        self.scene.catalog.script.append(trouble.word)
        return self.scene.lossy

    # --- verbs of a person -------------------------------------------------------------------------

    def decide(
        self,
        name: str,
        words: list[str],
        look: Callable[[Lake], Any],
        trouble: Trouble,
        became: Callable[[], None],
    ) -> object:
        """A verb: on the command line, first as a dry run; or, where there is trouble, look and commit."""
        if trouble == CALM:
            _, dry = self.scene.cli(name, *words, debug=len(words) % 2 == 0)
            if self.scene.seen() != self.base:
                raise Broken(f"the dry run of {' '.join(words)} changed something: {dry}")
            return self.scene.cli(name, *words, "--execute")[1]
        lake = self._lake(trouble)
        planned = look(lake)
        if trouble.between is not None:
            between, trouble.between = trouble.between, None
            between()
        try:
            return execute(lake, planned).snapshot if planned.needed else None
        except LandingUnknown:
            self.held = became if trouble.word == "late" else None
            raise
        finally:
            self.scene.catalog.script.clear()

    def on_the_command_line(self, name: str, words: list[str]) -> object:
        """A verb without trouble."""
        return self.decide(name, words, lambda lake: None, CALM, lambda: None)

    def skip(self, name: str, trouble: Trouble = CALM) -> Move:
        """Live runs go on from now; what is open is owed."""
        model, scene, hour = self.model, self.scene, self.scene.hour

        def look(lake: Lake) -> Planned[Skip]:
            with scene.client(name) as client:
                ends = {shard.id: client.cursor_at(shard.id, "end") for shard in client.shards()}
                return plan_skip(lake, scene.logstore(name), client, ends)

        def became() -> None:
            told = model.told[name]
            assert told is not None
            ledger = scene.ledgers(scene.tagged())[name]
            owed = {p for p in model.stores[name].logs if where(ledger, p) == "skipped"}
            if settled := owed & (told.landed | told.withdrawn | set(told.adopted)):
                raise Broken(f"skipped, and settled before: {sorted(settled)}")
            told.skipped = owed
            if left := {p for p in model.open(name) if model.stores[name].logs[p].hour < hour}:
                begun = {p for p in left if p[0] in ledger.shards and p[1] >= ledger.shards[p[0]].start}
                if begun:
                    raise Broken(f"not skipped, and older than this hour: {sorted(begun)}")

        words = ["checkpoints", "set", "--from", "latest", "--to", "table", "--forward-only"]
        act = lambda: self.decide(name, words, look, trouble, became)  # noqa: E731
        never = "" if model.trusted else "the ledger cannot be relied on"
        must = "nothing is wrong" if self._well() and trouble == CALM else ""
        return Move(f"skip {name} to now{_said(trouble)}", act, lambda _: became(), must, never)

    def pause(self, name: str, dice: random.Random, *, resume: bool = False) -> Move | None:
        """A shard is left alone, or all are landed again."""
        model, scene = self.model, self.scene
        ledger = scene.ledgers(scene.tagged()).get(name)
        paused = model.paused.get(name, set())
        there = [s for s, e in sorted(ledger.shards.items()) if not e.closed] if ledger else []
        if not (paused if resume else there):
            return None
        chosen = sorted(paused) if resume else [dice.choice(there)]

        def then(_: object) -> None:
            model.paused[name] = set() if resume else paused | set(chosen)

        words = ["shards", "resume" if resume else "pause", *map(str, chosen)]
        act = lambda: self.on_the_command_line(name, words)  # noqa: E731
        never = "" if model.trusted else "the ledger cannot be relied on"
        must = "nothing is wrong" if self._well() else ""
        return Move(f"{' '.join(words[1:])} of {name}", act, then, must, never)

    def undo(self, name: str, hours: range, trouble: Trouble = CALM) -> Move:
        """Whole receive hours are taken back."""
        model, store = self.model, self.model.stores[name]

        def look(lake: Lake) -> PlannedUndo:
            with self.scene.client(name) as client:
                return plan_undo(lake, self.scene.logstore(name), client, hours)

        def became() -> None:
            model.undo(name, hours)

        words = ["table", "undo", "--hour", hours_text(hours)]
        act = lambda: self.decide(name, words, look, trouble, became)  # noqa: E731
        never = self._never(name, hours) or ("rows are missing or strange" if not model.well(name) else "")
        must = "" if never or trouble != CALM or self._adopted(name, hours) else self._passed(name, hours)
        if not model.of_hours(name, hours):
            must = ""
        if store.before > hours.start:
            never = never or "hours before it are forgotten"
        return Move(
            f"undo {hours_text(hours)} of {name}{_said(trouble)}", act, lambda _: became(), must, never
        )

    def replace(self, name: str, hours: range, trouble: Trouble = CALM) -> Move:
        """Whole receive hours are landed anew."""
        model, scene = self.model, self.scene

        def act() -> None:
            with scene.client(name) as client:
                planned = plan_replace(scene.lake, scene.logstore(name), client, hours)

                def on_event(event: str) -> None:
                    if event == "publish" and trouble.between is not None:
                        between, trouble.between = trouble.between, None
                        between()

                lake = self._lake(trouble)
                try:
                    execute_replace(lake, planned, Tools(engine=scene.engine, on_event=on_event))
                except LandingUnknown:
                    self.held = (lambda: model.replace(name, hours)) if trouble.word == "late" else None
                    raise
                finally:
                    scene.catalog.script.clear()

        landed = model.of_hours(name, hours)
        taken = landed - model.stores[name].alive
        never = self._never(name, hours) or ("retention took a part" if taken else "")
        strange = model.there(name) - model.expected(name)
        easy = landed and not strange and trouble == CALM and not self._adopted(name, hours)
        must = self._passed(name, hours) if easy and not never else ""
        what = f"replace {hours_text(hours)} of {name}{_said(trouble)}"
        return Move(what, act, lambda _: model.replace(name, hours), must, never)

    def forget(self, name: str, first: int, last: int, trouble: Trouble = CALM) -> Move | None:
        """Rows with numbers in a range leave for good."""
        model, scene = self.model, self.scene
        store = model.stores[name]
        where = f"n >= {first} and n <= {last}"
        taken = {p for p in model.there(name) if first <= store.log(p).n <= last}
        if not taken:
            return None

        def look(lake: Lake) -> Planned[Forget]:
            with scene.client(name) as client:
                return plan_forget_where(lake, scene.logstore(name), client, where)

        def became() -> None:
            model.forget(name, taken)

        words = ["table", "forget", "--where", where, "--reason", "asked for"]
        act = lambda: self.decide(name, words, look, trouble, became)  # noqa: E731
        never = self._never_forgets(name)
        must = "nothing is wrong" if self._well() and trouble == CALM else ""
        return Move(f"forget {where} of {name}{_said(trouble)}", act, lambda _: became(), must, never)

    def forget_before(self, name: str, hour: int) -> Move:
        """Whole hours before one leave for good."""
        model, store = self.model, self.model.stores[name]
        gone = {p for p in model.there(name) if store.log(p).hour < hour}
        words = ["table", "forget", "--before", hour_text(hour)]

        def then(_: object) -> None:
            model.forget(name, gone, before=hour)

        act = lambda: self.on_the_command_line(name, words)  # noqa: E731
        never = self._never_forgets(name)
        must = self._passed(name, range(hour - 1, hour)) if self._well() else ""
        if store.before >= hour and not gone:
            must, never = "", "all of them are forgotten already"
        return Move(f"forget --before {hour_text(hour)} of {name}", act, then, must, never)

    def mend(self, name: str, hours: range) -> Move:
        """Rows with errors are read again with the contract of today."""
        words = ["backfill", "--mode", "errors", "--local", "--from", hour_text(hours.start)]
        words += ["--to", hour_text(hours.stop - 1)]
        act = lambda: self.on_the_command_line(name, words)  # noqa: E731
        never = "" if self.model.trusted else "the ledger cannot be relied on"
        must = "" if never else "nothing is wrong"
        return Move(
            f"mend {hours_text(hours)} of {name}", act, lambda _: self.model.mend(name, hours), must, never
        )

    def roll_back(self, snapshot_id: int, trouble: Trouble = CALM, *, options: Iterable[str] = ()) -> Move:
        """Back to a landing."""
        model, scene = self.model, self.scene
        saved = scene.at(snapshot_id)
        table, name = scene.table, self.any_name
        kept = table is not None and table.snapshot_by_id(snapshot_id) is not None

        def became() -> None:
            model.go_to(saved)

        words = ["table", "rollback", str(snapshot_id), *options]
        act = lambda: self.decide(  # noqa: E731
            name, words, lambda lake: plan_rollback(lake, scene.table_name, snapshot_id),
            trouble, became,
        )  # fmt: skip
        never = "" if kept and saved.told is not None else "it is no landing that is kept"
        if not never and saved.forgotten != model.decided:
            never = "rows were removed for good since"
        known = saved.others + sum(
            len(told.landed - model.stores[each].forgotten) + told.adopted.total()
            for each, told in (saved.told or {}).items()
        )
        differs = saved.rows != model.rows or self._other_ledger(saved.told or {})
        easy = differs and saved.rows.total() == known and trouble == CALM
        must = "it is a landing whose files are there" if easy and not never else ""
        return Move(
            f"rollback {' '.join([self.label(snapshot_id), *options])}{_said(trouble)}",
            act,
            lambda _: became(),
            must,
            never,
        )

    def _other_ledger(self, told: dict[str, Told]) -> bool:
        return any(told.get(name, Told()) != now for name, now in self.model.told.items())

    @property
    def any_name(self) -> str:
        """A logstore for verbs that are about the whole table."""
        return next(iter(self.model.told), self.scene.names[0])

    @property
    def tag(self) -> int:
        """The snapshot of the newest landing."""
        tagged = self.scene.tagged()
        return tagged.snapshot_id if tagged else 0

    def label(self, snapshot_id: int) -> str:
        """A snapshot as a place in the history: ids differ from run to run."""
        table = self.scene.table
        snapshot = table.snapshot_by_id(snapshot_id) if table is not None else None
        return f"to commit {snapshot.sequence_number}" if snapshot else "to a snapshot that is not kept"

    def adopt(self, name: str, options: list[str]) -> Move:
        """A ledger that is true again: an older one that the rows prove, or one that begins anew."""
        model, scene = self.model, self.scene
        words = ["table", "adopt", *options]

        def act() -> Any:
            _, dry = scene.cli(name, *[w for w in words if w != "--without-missing"])
            if scene.seen() != self.base:
                raise Broken("the dry run of adopt changed something")
            done = scene.cli(name, *words, "--execute")[1]
            if dry["kept"] != done["kept"] or dry["missing"] != done["missing"]:
                raise Broken(f"adopt did something else than its dry run: {dry} {done}")
            return done

        def then(done: Any) -> None:
            self._adopted_as(name, done)

        names = list(model.told)
        fine = model.trusted and model.proven
        # One of another logstore stops that one's adoption, and may leave this one to be settled.
        doubled = any(times > 1 for times in model.there(name).values())
        never = "nothing is wrong" if fine else "a row is there twice" if doubled else ""
        if model.lineage == "behind" or model.contained != model.decided:
            never = "rollback settles it"
        lost = any(model.short(each) for each in names)
        asked = [o for o in options if o.startswith("--")]
        must = "all rows are as the newest ledger says" if not lost and not never and not asked else ""
        if must and (any(model.strange(each) for each in names) or model.lineage == "untagged"):
            must = ""
        return Move(f"adopt {' '.join(options)} for {name}", act, then, must, never)

    def _adopted_as(self, name: str, done: dict[str, Any]) -> None:
        model, scene = self.model, self.scene
        kept = {scene.origins[o]: int(s) for o, s in done["kept"].items() if o in scene.origins}
        for each in list(model.told) if name in model.told else [*model.told, name]:
            if each in kept:
                told = (scene.at(kept[each]).told or {}).get(each)
                if told is None:
                    raise Broken(f"adopt kept a ledger of {each} from a snapshot that has none")
                model.told[each] = told.again()
                if model.expected(each) != model.there(each):
                    raise Broken(
                        f"adopt kept a ledger of {each} that its rows do not prove: {scene.why(each)}"
                    )
            elif each == name:
                model.told[each] = Told(adopted=model.there(each))
            else:
                model.told[each] = None
            model.stores[each].sealed = 0
        ours = set(model.told)
        model.others = sum(times for row, times in model.rows.items() if row[0] not in ours)

    # --- the house and strangers -------------------------------------------------------------------

    def maintain(self, dice: random.Random) -> Move:
        """Some steps of maintenance, on files that look days old or not."""
        steps = [step for step in STEPS if dice.random() < 0.6] or [dice.choice(STEPS)]
        words = ["table", "maintain", "--only", ",".join(steps), "--manifests", "2"]
        words += ["--snapshots", str(dice.randint(3, 12)), "--execute"]
        aged = dice.random() < 0.5

        def act() -> Any:
            if aged:
                self.age()
            return self.scene.cli(self.any_name, *words)

        def then(result: Any) -> None:
            code, done = result
            if self.model.lost and self.scene.seen() != self.base:
                raise Broken(f"maintenance changed a table that lost rows: {json.dumps(done)[:400]}")
            if self.model.lost and not code:
                raise Broken("maintenance of a table that lost rows ended with 0")
            self.whole()

        trusted = self.model.trusted
        return Move(
            f"maintain {','.join(steps)}{' on old files' if aged else ''}", act, then,
            "nothing is wrong" if trusted else "", "" if trusted else "the ledger cannot be relied on",
        )  # fmt: skip

    def files(self) -> frozenset[Path]:
        """All files of the lake."""
        return frozenset(p for p in Path(self.scene.folder / "lake" / "warehouse").rglob("*") if p.is_file())

    def age(self) -> None:
        """Files look three days old; those of a move that is on its way were written a moment ago."""
        for path in self.files() & self.there:
            then_s = path.stat().st_mtime - 3 * 86_400
            os.utime(path, (then_s, then_s))

    def whole(self) -> None:
        """Every snapshot that is kept has its files."""
        table = self.scene.table
        if table is not None and (gone := strangers.missing_files(table)):
            raise Broken(f"files of kept snapshots are gone: {gone[:3]}")

    # --- when ----------------------------------------------------------------------------------------

    def _never(self, name: str, hours: range) -> str:
        store = self.model.stores[name]
        if not self.model.trusted:
            return "the ledger cannot be relied on"
        if store.hours & set(hours) or store.before > hours.start:
            return "rows of these hours were removed for good"
        return ""

    def _well(self) -> bool:
        return self.model.proven

    def _never_forgets(self, name: str) -> str:
        """A rollback brings back rows of every logstore, and none goes back past a removal."""
        if not self.model.well(name):
            return "rows are missing or strange"
        short = [each for each in sorted(self.model.told) if self.model.short(each)]
        return f"rows of {short[0]} are missing, too" if short else ""

    def _passed(self, name: str, hours: range) -> str:
        """Why it must go, as far as the hours are concerned: they are landed to their end."""
        return "every shard has passed these hours" if hours.stop <= self.model.stores[name].sealed else ""

    def _adopted(self, name: str, hours: Iterable[int]) -> set[Place]:
        store, told, asked = self.model.stores[name], self.model.told.get(name), set(hours)
        adopted = told.adopted if told else Counter[Place]()
        return {p for p in adopted if store.log(p).hour in asked}


def _said(trouble: Trouble) -> str:
    words = [trouble.word and f"the answer {trouble.word}", "a race" if trouble.between else ""]
    words.append(f"killed at event {trouble.kill}" if trouble.kill >= 0 else "")
    return "".join(f", {word}" for word in words if word)
