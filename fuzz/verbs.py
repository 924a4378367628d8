"""Lane: sequences of verbs and of foreign hands on one table, against a small model of what must be there.

A round has one or two logstores in one table, in a real emulator, with a real catalog on SQLite; landings
run in this process. After each of its operations

    the rows of the table are, log by log and with their content, those of the model (`model.py`);
    the ledger calls each log landed, withdrawn or neither, as the model does;
    verify is green exactly when rows and ledger agree, and else names a verb;
    a verb that was refused has changed nothing and said an error of the tree.

At the end the round runs what verify names, as it is printed, until verify is green, lands until nothing
is open and fills what was withdrawn: then everything that the service still has and nobody removed for
good is in the table. A failing round is played again without one operation after the other; the shortest
sequence that still fails is in the text.
"""

import random
import re
import shlex
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.table import Table

from fuzz import strangers
from fuzz.ground import serving
from fuzz.lane import Broken, drawn
from fuzz.moves import CALM, Killed, Move, Moves, Trouble
from fuzz.scene import BEGIN_S, Scene
from pipelines.landing.hours import hour_of
from pipelines.landing.table.commands import line
from sls_io.emulator import Emulator
from sls_io.values.errors import DecodeError, InvariantBroken, SlsError

WEIGHTS = {
    "put": 16, "land": 16, "drain": 8, "clock": 6, "undo": 6, "fill": 6, "replace": 5, "forget": 4,
    "forget_before": 1, "mend": 4, "rollback": 5, "adopt": 3, "maintain": 6, "contract": 3, "retain": 3,
    "split": 2, "merge": 1, "f_delete": 4, "f_mark": 2, "f_copy": 2, "f_twice": 1, "f_intrude": 2,
    "f_rewrite": 4, "f_rollback": 2, "f_untag": 2, "f_expire": 2, "f_settings": 2, "cure": 5, "deliver": 2,
    "skip": 3, "pause": 3, "resume": 2,
}  # fmt: skip
"""How often each operation is drawn."""
_BETWEEN = ("land", "fill", "undo", "maintain", "f_rewrite", "f_delete", "f_copy", "mend", "forget", "f_mark")
_WORDS = ("lost", "refused", "late", "doubled")
_OPERATIONS = (8, 25)
_CURES_MAX = 12
_RUNS_MAX = 8


@dataclass(frozen=True)
class Operation:
    """A verb, and the seed of all chance in it."""

    verb: str
    seed: int


class Verbs:
    """The lane."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self.rounds_min, self.shrinks = 4, True
        self.counts: Counter[str] = Counter()
        self._emulator, self._folder = emulator, folder

    def play(self, seed: int) -> None:
        """One round; when it fails, the shortest part of it that fails too is told."""
        dice = drawn(seed)
        count = dice.randint(*_OPERATIONS)
        verbs = dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)
        operations = [Operation(verb, dice.randrange(2**32)) for verb in ("put", "land", *verbs)]
        try:
            self._play(seed, operations, self.counts)
        except Exception as error:
            raise Broken(self._shrunk(seed, operations, error)) from error

    def _play(self, seed: int, operations: list[Operation], counts: Counter[str]) -> None:
        folder = self._folder / str(seed)
        shutil.rmtree(folder, ignore_errors=True)
        dice = drawn(seed)
        shards = [dice.randint(1, 3) for _ in range(dice.choice((1, 1, 2)))]
        scene = Scene(self._emulator, folder, seed, shards)
        told = Round(scene, counts)
        try:
            for operation in operations:
                told.do(operation)
            told.finish()
            counts["rows compared"] += scene.told_rows
        except Exception as error:
            story = "\n  ".join(told.story)
            raise Broken(f"{type(error).__name__}: {error}\n  {story}") from error
        finally:
            scene.close()
            shutil.rmtree(folder, ignore_errors=True)

    def _shrunk(self, seed: int, operations: list[Operation], error: Exception) -> str:
        """Operations are left out one by one, the last first, for as long as the round goes on failing."""
        text, begun = str(error), len(operations)
        for at in reversed(range(begun)):
            if not self.shrinks:
                break
            fewer = operations[:at] + operations[at + 1 :]
            try:
                self._play(seed, fewer, Counter())
            except Exception as again:
                if type(again.__cause__) is type(error.__cause__):
                    operations, text = fewer, str(again)
        return f"{len(operations)} of {begun} operations: {text}"


class Round:
    """One table and what is done to it; `story` is what was done so far."""

    def __init__(self, scene: Scene, counts: Counter[str]) -> None:
        self.scene, self.counts = scene, counts
        self.moves, self.model = Moves(scene), scene.model
        self.story: list[str] = []
        self._depth = 0
        self._refusal = ""

    # --- one operation ------------------------------------------------------------------------------

    def do(self, operation: Operation) -> None:
        """Draw what it is, do it, compare."""
        dice = random.Random(operation.seed)
        move = self._drawn(operation.verb, dice)
        if move is not None:
            self.step(operation.verb, move)

    def step(self, verb: str, move: Move) -> bool:
        """Do one move and hold everything against the model; whether it was accepted."""
        self.counts[verb] += 1
        self.story.append("  " * self._depth + move.what)
        at = len(self.story) - 1
        self.moves.base = self.scene.seen()
        if not self._depth:
            self.moves.there = self.moves.files()
        try:
            result = move.act()
        except Killed as killed:
            self.story[at] += f" (ended before {killed})"
            accepted = False
        except SlsError as error:
            self.story[at] += f" -> {type(error).__name__}: {str(error)[:300]}"
            self.counts[f"{verb} refused"] += 1
            accepted = False
            self._refusal = str(error)
            self._refused(move, error)
        else:
            if move.never:
                raise Broken(f"{move.what} was accepted: {move.never}")
            move.then(result)
            accepted = True
        self.scene.compare()
        return accepted

    def _refused(self, move: Move, error: SlsError) -> None:
        if isinstance(error, InvariantBroken | DecodeError) or len(str(error)) < 20:
            raise Broken(f"{move.what}: {type(error).__name__}: {error}") from error
        if move.must:
            raise Broken(f"{move.what} was refused ({error}): {move.must}") from error
        # What a landing had committed before it was refused is in the model by now.
        if self.scene.seen() != self.moves.base and self.scene.rows(self.scene.table) != self.model.rows:
            raise Broken(f"{move.what} was refused ({error}) and changed something") from error

    # --- drawing ------------------------------------------------------------------------------------

    def _drawn(self, verb: str, dice: random.Random) -> Move | None:
        name = dice.choice(self.scene.names)
        if verb.startswith("f_"):
            return self._foreign(verb, dice)
        simple: dict[str, Callable[[], Move | None]] = {
            "put": lambda: self.moves.put(name, dice),
            "clock": lambda: self.moves.clock(dice),
            "split": lambda: self.moves.reshard(name, dice, merge=False),
            "merge": lambda: self.moves.reshard(name, dice, merge=True),
            "retain": lambda: self.moves.retain(name, dice),
            "contract": self.moves.contract,
            "land": lambda: self.moves.land(name, self._trouble(dice)),
        }
        if verb in simple:
            return simple[verb]()
        if not self.model.told:
            return None
        ripe = dice.random() < 0.7
        ripe = ripe and verb in ("undo", "replace", "forget_before") and self.model.trusted
        if ripe and not self._depth:
            self._ripen()
        name = dice.choice(sorted(self.model.told))
        hours = self._hours(name, dice, ended=ripe)
        later: dict[str, Callable[[], Move | None]] = {
            "fill": lambda: self.moves.land(name, self._trouble(dice), hours),
            "undo": lambda: self.moves.undo(name, hours, self._trouble(dice)),
            "replace": lambda: self.moves.replace(name, hours, self._trouble(dice)),
            "forget_before": lambda: self.moves.forget_before(name, hours.start + 1),
            "mend": lambda: self.moves.mend(name, hours),
            "maintain": lambda: self.moves.maintain(dice),
            "skip": lambda: self.moves.skip(name, self._trouble(dice)),
            "pause": lambda: self.moves.pause(name, dice),
            "resume": lambda: self.moves.pause(name, dice, resume=True),
            "adopt": lambda: self._adopt(name, dice),
            "forget": lambda: self._forget(name, dice),
            "rollback": lambda: self._rollback(dice),
            "drain": lambda: self._drained(name),
            "cure": lambda: self._cured(name),
            "deliver": self._delivered,
        }
        return later[verb]()

    def _ripen(self) -> None:
        """The hour ends and all of it lands: only such an hour is taken back or replaced."""
        self.scene.advance(self.scene.hour * 3600 + 3600 + 60 - self.scene.now_s)
        self.story.append("the hour ends:")
        for name in sorted(self.model.told):
            self._nested(lambda name=name: self.drain(name))  # type: ignore[misc]

    def _trouble(self, dice: random.Random) -> Trouble:
        kind, inner, kill = dice.random(), dice.choice(_BETWEEN), dice.randrange(24)
        seed, word = dice.randrange(2**32), dice.choice(_WORDS)
        if self._depth or kind < 0.6:
            return CALM
        if kind < 0.8:
            return Trouble(between=lambda: self._between(Operation(inner, seed)))
        return Trouble(word=word) if kind < 0.9 else Trouble(kill=kill)

    def _between(self, operation: Operation) -> None:
        self._depth += 1
        try:
            self.do(operation)
        finally:
            self._depth -= 1
        self.moves.base = self.scene.seen()

    def _hours(self, name: str, dice: random.Random, *, ended: bool) -> range:
        end = self.scene.hour if ended else self.scene.hour + 1
        there = sorted({log.hour for log in self.model.stores[name].logs.values() if log.hour < end})
        begin = dice.choice(there or [BEGIN_S // 3600]) + dice.choice((0, 0, 0, 0, -1))
        long = dice.choice((1, 1, 1, 2, 3))
        return range(begin, max(begin + 1, min(begin + long, end) if ended else begin + long))

    def _forget(self, name: str, dice: random.Random) -> Move | None:
        first = dice.randrange(max(1, self.scene.counter))
        return self.moves.forget(name, first, first + dice.randrange(4), self._trouble(dice))

    def _rollback(self, dice: random.Random) -> Move | None:
        table = self.scene.table
        snapshots = sorted(table.metadata.snapshots, key=lambda s: s.sequence_number or 0) if table else []
        if not snapshots:
            return None
        chosen = snapshots[-1 - min(int(dice.expovariate(0.4)), len(snapshots) - 1)]
        return self.moves.roll_back(chosen.snapshot_id, self._trouble(dice))

    def _adopt(self, name: str, dice: random.Random) -> Move:
        options = dice.choice(([], [], ["--at", "rows"], ["--at", "latest"], ["--at", "begin"]))
        if dice.random() < 0.3:
            options = [*options, "--without-missing"]
        return self.moves.adopt(name, options)

    def _drained(self, name: str) -> Move | None:
        if not self.model.trusted:
            return None
        return Move(f"drain {name}:", lambda: self._nested(lambda: self.drain(name)))

    def _cured(self, name: str) -> Move | None:
        if self.model.proven:
            return None
        return Move("cure:", lambda: self._nested(lambda: self.cure(name)))

    def _nested(self, what: Callable[[], object]) -> None:
        self._depth += 1
        try:
            what()
        finally:
            self._depth -= 1

    def _delivered(self) -> Move:
        """A request that was on its way arrives: it is accepted where nothing was committed since."""
        catalog, held = self.scene.catalog, self.moves.held
        self.moves.held = None

        def act() -> None:
            del catalog.deliveries[:]
            catalog.deliver()
            if self.scene.seen() != self.moves.base:
                if held is None:
                    raise Broken(f"a late request changed the table: {catalog.deliveries}")
                held()

        return Move("what was on its way arrives", act)

    # --- foreign hands --------------------------------------------------------------------------------

    def _foreign(self, verb: str, dice: random.Random) -> Move | None:
        table, model = self.scene.table, self.model
        if table is None or table.current_snapshot() is None or not model.rows:
            return None
        logs = [(n, p) for n, p, _ in sorted(model.rows) if n in model.stores and p in model.stores[n].logs]
        if verb in ("f_delete", "f_mark"):
            chosen = dice.sample(logs, min(len(logs), dice.randint(1, 5)))
            return self._leaves(verb, chosen) if chosen else None
        if verb in ("f_copy", "f_twice"):
            return self._copied(dice, index=90 + dice.randrange(9) if verb == "f_copy" else None)
        if verb == "f_intrude":
            hour = self.scene.hour

            def then(_: object) -> None:
                model.rows[strangers.STRANGER, (0, 0, 0), False] += 1

            return Move("a stranger's row", lambda: strangers.intrude(table, hour), then)
        if verb == "f_rewrite":
            part = dice.choice(["", *self.scene.origins])
            if part and not any(n == self.scene.origins[part] for n, _, _ in model.rows):
                part = ""
            return Move(f"another engine rewrites {part or 'all'}", lambda: strangers.rewrite(table, part))
        return self._moved(verb, dice)

    def _leaves(self, verb: str, chosen: list[tuple[str, tuple[int, int, int]]]) -> Move:
        model, table = self.model, self.scene.table
        assert table is not None
        numbers = sorted({model.stores[name].logs[place].n for name, place in chosen})
        origins = {name: origin for origin, name in self.scene.origins.items()}

        def act() -> None:
            if verb == "f_delete":
                strangers.delete(table, numbers)
            else:
                strangers.mark(table, {(origins[name], *place) for name, place in chosen})

        def then(_: object) -> None:
            for name, place in chosen:
                strays = model.stores[name].strays if verb == "f_delete" else {}
                # Copies have the number of the row they were copied from.
                model.drop(name, {place, *(stray for stray, of in strays.items() if of == place)})

        how = "deletes" if verb == "f_delete" else "marks as deleted"
        return Move(f"another engine {how} n in {numbers}", act, then)

    def _copied(self, dice: random.Random, *, index: int | None) -> Move | None:
        model, table = self.model, self.scene.table
        assert table is not None
        wanted = sorted(row for row in model.rows if row[0] in model.stores)
        if not wanted:
            return None
        name, place, error = dice.choice(wanted)
        origin = next(o for o, n in self.scene.origins.items() if n == name)

        def chosen(rows: list[strangers.Identity]) -> list[int]:
            return [rows.index((origin, *place))]

        copy = place if index is None else (place[0], place[1], index)

        def then(_: object) -> None:
            model.rows[name, copy, error] += 1
            if index is not None:
                strays = model.stores[name].strays
                strays[copy] = strays.get(place, place)

        what = f"another engine appends {name} {copy}"
        return Move(what, lambda: strangers.append(table, chosen, index=index), then)

    def _moved(self, verb: str, dice: random.Random) -> Move | None:
        """Refs, snapshots and settings."""
        table, model = self.scene.table, self.model
        assert table is not None
        if verb == "f_untag":
            if strangers.TAG not in table.metadata.refs:
                return None
            return Move("the tag is removed", lambda: strangers.untag(table))
        line = list(strangers.line(table))
        if verb == "f_rollback":
            past = [s for s in line[1:] if s in model.saved]
            if not past:
                return None
            target = past[min(int(dice.expovariate(0.6)), len(past) - 1)]

            def then(_: object) -> None:
                model.rows = Counter(model.saved[target].rows)
                model.contained = model.saved[target].forgotten

            act = lambda: table.manage_snapshots().rollback_to_snapshot(target).commit()  # noqa: E731
            return Move(f"main is put back by hand {self.moves.label(target)}", act, then)
        if verb == "f_expire":
            refs = {ref.snapshot_id for ref in table.metadata.refs.values()}
            past = [
                s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id not in refs | self._know()
            ]
            past = sorted(past, key=self.moves.label)
            chosen = past if dice.random() < 0.3 else dice.sample(past, dice.randint(0, len(past)))
            if not chosen:
                return None
            where = ", ".join(self.moves.label(s).removeprefix("to ") for s in chosen)
            return Move(f"somebody expires {where}", lambda: strangers.expire(table, chosen))
        return _settled(table, dice)

    def _know(self) -> set[int]:
        """Snapshots that alone know of a removal, while main does not: without them nobody could tell that
        its rows are back, and the model could."""
        model = self.model
        if model.contained == model.decided:
            return set()
        return {snapshot for snapshot, saved in model.saved.items() if saved.forgotten == model.decided}

    # --- until all is well ----------------------------------------------------------------------------

    def drain(self, name: str) -> None:
        """Land until nothing is open."""
        resumed = self.moves.pause(name, random.Random(0), resume=True)
        if resumed is not None and not self.step("resume", resumed):
            raise Broken("a resume was refused on a table that is well")
        for _ in range(_RUNS_MAX):
            self.scene.advance(60)
            accepted = self.step("land", self.moves.land(name))
            if not accepted:
                raise Broken("a landing was refused on a table that is well")
            if not self._open(name):
                self.scene.advance(60)
                self.step("land", self.moves.land(name))
                self.model.stores[name].sealed = (self.scene.now_s - 10) // 3600
                return
        raise Broken(f"{_RUNS_MAX} landings of {name} did not bring {sorted(self._open(name))}")

    def _open(self, name: str) -> set[tuple[int, int, int]]:
        """What a live run should still bring: a fill alone brings what is before a start."""
        ledger = self.scene.ledgers(self.scene.tagged()).get(name)
        shards = ledger.shards if ledger else {}
        return {p for p in self.model.open(name) if p[0] not in shards or p[1] >= shards[p[0]].start}

    def cure(self, name: str) -> bool:
        """Run what verify names, as printed, the first that is accepted; whether one was."""
        for each in sorted(self.model.told, key=lambda other: (other != name, other)):
            if self.model.well(each):
                continue
            proof = self.scene.prove(each, pull=True)
            said = [*proof.problems, *(p for s in proof.shards for p in s.problems)]
            cures = [line(cure) for cure in proof.cures]
            said += cures
            verbs = [words for text in said for words in commands(text)]
            self.story.append("  " * self._depth + f"verify of {each} names {[' '.join(v) for v in verbs]}")
            by_hand = self._doubled() and any("delete all but one of each" in text for text in cures)
            if (
                not verbs
                and len(self.model.told) > 1
                and any("by its own settings" in text for text in cures)
            ):
                continue  # the other one names what settles both
            if not verbs and not by_hand:
                raise Broken(f"verify of {each} is red and names no verb: {said}")
            named = [words for text in cures for words in commands(text)]
            if self._follow(each, [more for verb in verbs for more in spelled_out(verb)], named):
                return True
        return False

    def _doubled(self) -> bool:
        return max(self.model.rows.values(), default=1) > 1

    def _follow(self, name: str, verbs: list[list[str]], cures: list[list[str]]) -> bool:
        """Run these one after the other until one is accepted; what a refusal names comes right after it.

        `cures` were looked at before they were named, as every rollback was: they are not refused.
        """
        tried: list[list[str]] = []
        while verbs and len(tried) < _CURES_MAX:
            words, *verbs = verbs
            move = self._named(name, words) if words not in tried else None
            tried.append(words)
            if move is None:
                continue
            if words in cures or words[:2] == ["table", "rollback"]:
                move.must = f"sls-lake {' '.join(words)} is named, so it was looked at"
            self._refusal = ""
            if self.step("cure", move):
                return True
            verbs = [*commands(self._refusal), *verbs]
        table = self.scene.table
        if table is None or not self._doubled():
            return False
        # The one refusal that asks for another engine: "delete all but one of each, and look again".
        return self.step(
            "cure", Move("all but one of each are deleted", lambda: strangers.once(table), self._once)
        )

    def _once(self, _: object) -> None:
        self.model.rows = Counter(dict.fromkeys(self.model.rows, 1))

    def _named(self, name: str, words: list[str]) -> Move | None:
        options = dict(zip(words, [*words[1:], ""], strict=True))
        if words[:2] == ["table", "rollback"]:
            return self.moves.roll_back(int(words[2]), options=words[3:])
        if words[:2] == ["table", "adopt"]:
            return self.moves.adopt(name, [w for w in words[2:] if w != "--execute"])
        if words[0] == "backfill" and options.get("--mode") == "replace" and options["--from"] != "HOUR":
            first = hour_of(options["--from"])
            last = hour_of(options["--to"]) if "--to" in options else first
            return self.moves.replace(name, range(first, last + 1))
        return None

    def finish(self) -> None:
        """Cure, land, fill: then all is there that can be."""
        self._depth = 0
        self.step("deliver", self._delivered())
        self.scene.advance(2 * 3600)
        self.story.append("at the end:")
        for _ in range(_CURES_MAX):
            unwell = [name for name in sorted(self.model.told) if not self.model.well(name)]
            if not unwell:
                break
            if not any(self.cure(name) for name in unwell):
                raise Broken(f"nothing that verify names was accepted; {self.scene.why(unwell[0])}")
        else:
            raise Broken("what verify names does not end the trouble")
        for name in self.scene.names:
            self.drain(name)
        for name in self.scene.names:
            self._fill(name)
            self.scene.prove(name, pull=True)
        self.moves.whole()

    def _fill(self, name: str) -> None:
        model = self.model
        told = model.told[name]
        assert told is not None
        for hour in sorted({model.stores[name].logs[p].hour for p in told.withdrawn | told.skipped}):
            self.step("fill", self.moves.land(name, hours=range(hour, hour + 1)))
        left = ((told.withdrawn | told.skipped) & model.stores[name].alive) - self._barred(name)
        if left or self._open(name):
            raise Broken(f"{name}: {sorted(left | self._open(name))} cannot be brought to the table")

    def _barred(self, name: str) -> set[tuple[int, int, int]]:
        """Withdrawn logs that no fill may bring: of hours that are forgotten, or from before the start of
        a shard with adopted rows."""
        model, store = self.model, self.model.stores[name]
        told, ledger = model.told[name], self.scene.ledgers(self.scene.tagged())[name]
        assert told is not None
        adopted = {place[0] for place in told.adopted}
        held = told.withdrawn | told.skipped
        old = {p for p in held if p[0] in adopted and p[1] < ledger.shards[p[0]].start}
        return old | {p for p in held if store.logs[p].hour < store.before}


def spelled_out(words: list[str]) -> list[list[str]]:
    """A command, and what its refusal asks to add: adopt wants to be told where shards start, and that
    rows are given up."""
    if words != ["table", "adopt"]:
        return [words]
    return [words, [*words, "--at", "rows"], [*words, "--at", "rows", "--without-missing"]]


def commands(text: str) -> list[list[str]]:
    """The commands of sls-lake in a sentence, as a person would copy them."""
    found = []
    # Which logstore is known here: a name, or where its file is.
    for part in re.sub(r" (?:-l|--logstore) [^ `;,]+", "", text).split("sls-lake ")[1:]:
        words: list[str] = []
        for word in shlex.split(part.replace("'", "").replace("`", " `")):
            bare = word.rstrip(".,;:)")
            known = bare in _VERBS if len(words) < 2 else False
            value = bool(words) and words[-1] in ("--mode", "--from", "--to", "--at", "--logstore")
            if not (
                known or value or bare.startswith("--") or (bare.isdecimal() and words[-1:] == ["rollback"])
            ):
                break
            words.append(bare)
            if bare != word:
                break
        if words:
            found.append(words)
    return found


_VERBS = frozenset({"table", "rollback", "adopt", "backfill", "verify", "maintain", "land"})


def _settled(table: Table, dice: random.Random) -> Move:
    """A property, a column, a comment, or a tag of somebody else."""
    kind = dice.choice(("property", "column", "branch", "comment"))
    number = dice.randrange(10**6)
    return Move(f"somebody adds a {kind}", lambda: strangers.settle(table, kind, number))


@contextmanager
def open_lane(folder: Path) -> Iterator[Verbs]:
    """An emulator in memory for all rounds."""
    with warnings.catch_warnings(), serving(now=BEGIN_S + 60.0) as emulator:
        warnings.simplefilter("ignore")
        yield Verbs(emulator, folder)
