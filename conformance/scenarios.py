"""What the clients are put through. Each scenario fills in rows of the table, one cell a language."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from conformance.environment import PROJECT
from conformance.judges import JUDGES
from conformance.program import DEADLINE_S, Failed, Program, changed
from conformance.table import Table
from conformance.verdict import expected, problems, seen
from conformance.world import TEXT, World

SPLIT_KEY = "2" + "0" * 31
SHARED = ("go", "python", "java")
"""Who is killed, who leaves, who stays."""


class Talking(Protocol):
    """What scenarios need that talk and no more: a client program a language, in a project that is there
    already (`made`), or that the first one makes."""

    languages: tuple[str, ...]
    project: str
    made: bool
    talkers: dict[str, Program]
    put: dict[str, dict[str, int]]

    @property
    def keyed(self) -> tuple[str, ...]:
        """Those that write by hash key."""

    def talk(self, language: str, sign: str, secret: str = ...) -> Program:
        """A client of that language."""

    def put_all(self, store: str, count: int, *, languages: Iterable[str] | None = None) -> None:
        """Each that writes by key, or each of `languages`, puts `count` more logs of each of its keys."""


def run_all(world: World, table: Table) -> None:
    """Every scenario, in an order in which later ones use what earlier ones started."""
    world.talkers = {language: world.talk(language, "v1") for language in world.languages}
    signers = {each: world.talk(each, "v4") for each in world.languages if "v4" in JUDGES[each].signs}
    calls(world, table, signers)
    for signer in signers.values():
        signer.kill()
    for language in world.languages:
        if JUDGES[language].why:
            table.remark(f"{language}: n/a: {JUDGES[language].why}")
    wrong_key(world, table)
    each_reads_all(world, table)
    softly(world, table)
    group_calls(world, table)
    if world.libraries:
        starts(world, table)
        order_and_restart(world, table)
        share(world, table)


def calls(world: Talking, table: Table, signers: Mapping[str, Program]) -> None:
    """Puts and pulls with both signatures and all compressions, split and merge, refusals by name."""
    for language in world.languages:
        judge, talker, store = JUDGES[language], world.talkers[language], f"calls-{language}"
        with table.cell("create project and logstore", language):
            if talker is _first(world) and not world.made:
                talker.do(f"project {world.project}")
            else:
                _refused(talker, f"project {world.project}", "ProjectAlreadyExist")
            talker.do(f"store {store} 2")
        counts: dict[str, int] = {}
        for sign, kind in (("v1", "lz4"), ("v1", "zstd"), ("v1", "none"), ("v4", "lz4"), ("v4", "zstd")):
            row = f"put and pull: {sign}, {kind}"
            if sign not in judge.signs or kind not in judge.kinds:
                table.note(row, language, "n/a")
                continue
            with table.cell(row, language):
                prefix = f"{sign}{kind}"
                program = talker if sign == "v1" else signers[language]
                program.do(f"put {store} {prefix} 4 {kind}")
                counts[prefix] = 4
                # Only Python reads an answer that is not compressed; the others put plain and pull lz4.
                back = kind if kind != "none" or judge.reads_plain else "lz4"
                reader = program if judge.reads else _reader(world)
                _must(reader.do(f"read {store} begin {back}"), expected(counts))
        if judge.splits:
            with table.cell("split and merge", language):
                kind = judge.kinds[0]
                talker.do(f"split {store} 0 {SPLIT_KEY}")
                talker.do(f"put {store} v1{kind} 2 {kind}")
                talker.do(f"merge {store} 2")
                talker.do(f"put {store} v1{kind} 2 {kind}")
                counts[f"v1{kind}"] += 4
                _must(talker.do(f"read {store} begin lz4"), expected(counts), order=True)
        else:
            table.note("split and merge", language, "n/a")
        with table.cell("refusals by name", language):
            _refused(talker, "read nowhere begin lz4", "LogStoreNotExist")
            _refused(talker, f"store {store} 2", "LogStoreAlreadyExist")
            if judge.splits:
                _refused(talker, f"merge {store} 1", "ParameterInvalid")  # it has no right neighbour
    table.remark("v1, none: but for Python's, no client reads a plain page, so they put plain and pull lz4")
    table.remark("-: the SDK has no group consumer; the API model is that of the OpenAPI SDK")
    table.remark("what node writes is read by another; openapi and typescript put and pull by `execute`")


def wrong_key(world: Talking, table: Table) -> None:
    """A secret that is not the service's is refused, in both signatures."""
    for language in world.languages:
        for sign in ("v1", "v4"):
            if sign not in JUDGES[language].signs:
                table.note(f"wrong key: {sign}", language, "n/a")
                continue
            stranger = world.talk(language, sign, secret="not-the-secret")
            with table.cell(f"wrong key: {sign}", language):
                _refused(stranger, f"read calls-{language} begin lz4", "SignatureNotMatch")
            stranger.kill()


def each_reads_all(world: Talking, table: Table) -> None:
    """What every library wrote, every library reads; also from the end, where nothing is."""
    row, store = "read what all wrote", "together"
    _first(world).do(f"store {store} 3")
    world.put_all(store, 6, languages=world.languages)
    for language, talker in world.talkers.items():
        if not JUDGES[language].reads:
            table.note(row, language, "n/a")
            continue
        with table.cell(row, language):
            told = talker.do(f"read {store} begin lz4")
            _must(told, expected(world.put[store]))
            of_keyed = {each: world.put[store][each] for each in world.keyed}
            ordered = [log for log in told if log["topic"] in of_keyed]
            _must(ordered, expected(of_keyed), order=True)
            if talker.do(f"read {store} end lz4"):
                raise Failed("logs behind the end cursor")


def softly(world: World, table: Table) -> None:
    """Logs that are deleted softly are read by all as before; of a disabled project nobody reads."""
    row, store = "deleted softly, still delivered", "together"
    deleting = world.talkers.get("openapi")
    for language, talker in world.talkers.items():
        if deleting is None or not JUDGES[language].reads:
            table.note(row, language, "n/a", "" if deleting else "only the OpenAPI SDK deletes logs")
            continue
        with table.cell(row, language):
            deleting.do(f"delete {store}")
            _must(talker.do(f"read {store} begin lz4"), expected(world.put[store]))
    if deleting is not None and not [line["rows"] for line in deleting.told if line.get("rows")]:
        table.note(row, "openapi", "FAILED", "no log was deleted")
    world.emulator.admin.disable(PROJECT)
    for language, talker in world.talkers.items():
        with table.cell("a disabled project", language):
            _refused(talker, f"read {store} begin lz4", "ProjectForbidden")
    world.emulator.admin.disable(PROJECT, disabled=False)


def group_calls(world: World, table: Table) -> None:
    """Heartbeat, checkpoint and the fence by the calls alone, where an SDK has them and no group consumer."""
    row, store = "group by its calls", "together"
    for language, talker in world.talkers.items():
        judge, group = JUDGES[language], f"calls-{language}"
        if judge.group != "calls":
            table.note(row, language, "n/a", "its group consumer makes them, below" * bool(judge.group))
            continue
        with table.cell(row, language):
            _must(talker.do(f"group {store} {group}"), expected(world.put[store]))
            if not [line for line in talker.told if line["event"] == "kept" and line["right"]]:
                raise Failed("the checkpoints are not those that were saved")
            holders = {slot["holder"] for slot in world.slots(store, group)}
            if holders != {"me"} or None in {slot["checkpoint"] for slot in world.slots(store, group)}:
                raise Failed(f"{group}: held by {holders}")


def starts(world: World, table: Table) -> None:
    """Group consumers that begin at the begin, at the end and at a time; v4 and zstd where they can."""
    store, admin = "starts", world.emulator.admin
    _first(world).do(f"store {store} 2")
    world.put_all(store, 3)
    moment = int(admin.advance(100))
    admin.advance(1)
    world.put_all(store, 3)
    ends = admin.fault("observe", call="get_cursor", logstore=store, times=None)
    running: dict[tuple[str, str], Program] = {}
    for language in world.libraries:
        more = {} if language == "java" else {"sign": "v4", "compress": "zstd"}
        for word, at in (("begin", "begin"), ("end", "end"), ("a time", str(moment))):
            running[language, word] = world.consume(
                language, store, f"{word.split()[-1]}-{language}", start_at=at,
                more=more if word == "a time" else None,
            )  # fmt: skip
        if language == "java":
            table.note("group consumer: v4, zstd", language, "n/a", "loghub-client-lib 0.6.41 has neither")

    def asked_for_end() -> bool:
        asked = next(f for f in admin.faults() if f["id"] == ends)["seen"]
        return [each["query"].get("from") for each in asked].count("end") >= 2 * len(world.libraries)

    world.wait_state(asked_for_end, "consumers that start at the end ask for it")
    admin.remove(ends)
    world.put_all(store, 3)
    wanted = {word: expected(world.put[store], n) for word, n in (("begin", 0), ("end", 6), ("a time", 3))}
    _settle({c: wanted[word] for (_, word), c in running.items()})
    for (language, word), consumer in running.items():
        with table.cell(f"group consumer: start at {word}", language):
            _must(consumer.logs, wanted[word], order=True)
        if word == "a time" and language != "java":
            with table.cell("group consumer: v4, zstd", language):
                _must(consumer.logs, wanted[word])
        consumer.kill()


def order_and_restart(world: World, table: Table) -> None:
    """Alone in a group of their own: in order over split and merge, once; then the emulator is killed."""
    store = "ordered"
    _first(world).do(f"store {store} 4")
    consumers = {
        language: world.consume(language, store, f"alone-{language}", order=True)
        for language in world.libraries
    }
    world.put_all(store, 6)
    world.put_all(store, 6, lambda: _void(world.emulator.admin.split(PROJECT, store, 0, key=SPLIT_KEY)))
    world.put_all(store, 6, lambda: _void(world.emulator.admin.merge(PROJECT, store, 1)))
    world.put_all(store, 3)
    wanted = expected(world.put[store])
    _settle(dict.fromkeys(consumers.values(), wanted))
    for language, consumer in consumers.items():
        with table.cell("drain in order over split and merge", language):
            _must(consumer.logs, wanted, order=True)
    world.put_all(store, 30, world.restart)
    world.put_all(store, 3)
    wanted = expected(world.put[store])
    _settle(dict.fromkeys(consumers.values(), wanted))
    for language, consumer in consumers.items():
        with table.cell("emulator killed and started again", language):
            _must(consumer.logs, wanted, order=True, once=False)
        with table.cell("leave, come back at the checkpoint", language):
            consumer.leave(by_signal=True)
        consumer.kill()
    count = next(iter(world.put[store].values()))
    world.put_all(store, 3)
    back = {each: world.consume(each, store, f"alone-{each}", order=True) for each in world.libraries}
    only = expected(world.put[store], count)
    _settle(dict.fromkeys(back.values(), only))
    for language, consumer in back.items():
        with table.cell("leave, come back at the checkpoint", language):
            _must(consumer.logs, only, order=True)
        consumer.kill()


def share(world: World, table: Table) -> None:
    """Three in one ordered group on four shards: splits and merges, one killed, one leaves."""
    row, store, group = "one group shared: split, merge, kill, leave", "shared", "shared"
    languages = [each if each in world.libraries else world.libraries[0] for each in SHARED]
    names = [f"{i}-{language}" for i, language in enumerate(languages)]
    with table.cell(row, *world.libraries):
        _first(world).do(f"store {store} 4")
        team = [
            world.consume(language, store, group, order=True, name=name)
            for language, name in zip(languages, names, strict=True)
        ]
        world.wait_state(lambda: _holders(world, store, group) == set(names), "each holds a shard")
        admin = world.emulator.admin
        world.put_all(store, 6)
        world.put_all(store, 6, lambda: _void(admin.split(PROJECT, store, 0, key=SPLIT_KEY)))
        world.put_all(store, 6, lambda: _void(admin.merge(PROJECT, store, 1)))
        _settle_together(world, team, store)
        _must(_logs(team), expected(world.put[store]), order=True)
        world.put_all(store, 30, team[0].kill)
        _settle_together(world, team, store)
        world.put_all(store, 6, team[1].leave)
        world.put_all(store, 6, lambda: _void(admin.merge(PROJECT, store, 4)))
        world.put_all(store, 6)
        _settle_together(world, team, store)
        _must(_logs(team), expected(world.put[store]), order=True, once=False)
        idle = [c.name for c in team if not c.logs]
        if idle:
            raise Failed(f"{', '.join(idle)} got no log at all")
    missing = sorted(set(SHARED) - set(world.libraries))
    if missing:
        table.remark(f"shared without {', '.join(missing)}: more consumers of {world.libraries[0]} stood in")


def _settle(wanted: Mapping[Program, set[tuple[str, int]]]) -> None:
    """Wait until all have what they want, or cannot get it any more; the verdict is the caller's."""
    with changed:
        changed.wait_for(
            lambda: all(not c.alive() or _has([c], logs) for c, logs in wanted.items()), DEADLINE_S
        )


def _settle_together(world: World, team: list[Program], store: str) -> None:
    with changed:
        changed.wait_for(lambda: _has(team, expected(world.put[store])), DEADLINE_S)


def _has(team: list[Program], wanted: set[tuple[str, int]]) -> bool:
    logs = _logs(team)
    return len(logs) >= len(wanted) and wanted <= seen(logs).keys()


def _logs(team: Iterable[Program]) -> list[dict[str, Any]]:
    return [log for consumer in team for log in consumer.logs]


def _holders(world: World, store: str, group: str) -> set[object]:
    return {slot["holder"] for slot in world.slots(store, group)}


def _reader(world: Talking) -> Program:
    for language, talker in world.talkers.items():
        if JUDGES[language].reads:
            return talker
    raise Failed("nobody here reads what it wrote: build another language, too")


def _first(world: Talking) -> Program:
    return next(iter(world.talkers.values()))


def _must(logs: Iterable[Mapping[str, Any]], wanted: set[tuple[str, int]], **how: bool) -> None:
    found = problems(logs, wanted, TEXT, **how)
    if found:
        raise Failed("; ".join(found))


def _refused(talker: Program, command: str, code: str) -> None:
    talker.ask(command)
    reply = talker.answer()
    if code not in f"{reply.get('code')} {reply.get('message')}":
        raise Failed(f"{command}: expected {code}, got {reply}")


def _void(_: object) -> None:
    """Forget an answer."""
