"""The emulator, the relay and all the programs of one run."""

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from conformance.build import NODE_MODULES, OUT, Built, jvm_flags
from conformance.environment import ID, NAME, PROJECT, SECRET
from conformance.judges import JUDGES
from conformance.program import DEADLINE_S, Failed, Program, changed, clean_environment
from conformance.relay import Relay
from sls_io.emulator import Emulator, start

KEY_PAIR = ("conformance-id", "conformance-secret")
TEXT = "naïve 日志 \U0001f40b"
HEARTBEAT_S, TIMEOUT_S = 1, 6
_LOOK_S = 0.2


class World:
    """Started programs end with the block, and so does the emulator."""

    def __init__(self, built: Mapping[str, Built]) -> None:
        self.project, self.made = PROJECT, False
        self.languages = tuple(language for language, each in built.items() if each.command)
        self._built = built
        self.logs_folder = OUT / "logs"
        shutil.rmtree(self.logs_folder, ignore_errors=True)
        self.logs_folder.mkdir(parents=True)
        self._data = Path(tempfile.mkdtemp(prefix="data-", dir=OUT))
        self.emulator: Emulator = start(self._data, key_pair=KEY_PAIR)
        self._relay = Relay(self.emulator.port)
        self._programs: list[Program] = []
        self.talkers: dict[str, Program] = {}
        self.put: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
        self._relay.stop()
        self.emulator.stop()
        shutil.rmtree(self._data, ignore_errors=True)

    def talk(self, language: str, sign: str, secret: str = KEY_PAIR[1]) -> Program:
        """A client of that language. Java takes the emulator for its proxy with v1, and the relay with v4."""
        flags = ["--sign", sign, "--text", TEXT]
        if language == "java":
            flags += ["--proxy-port", str(self.emulator.port if sign == "v1" else 0)]
        return self.start(f"talk-{language}-{sign}", language, "talk", flags, secret)

    def consume(
        self, language: str, store: str, group: str, *, start_at: str = "begin", order: bool = False,
        name: str = "", more: Mapping[str, str] | None = None,
    ) -> Program:  # fmt: skip
        """A group consumer of that language."""
        name = name or f"{language}-{group}"
        flags = ["--store", store, "--group", group, "--consumer", name, "--from", start_at]
        flags += ["--order", str(order).lower()] if language != "go" else [f"--order={str(order).lower()}"]
        flags += ["--heartbeat-s", str(HEARTBEAT_S), "--timeout-s", str(TIMEOUT_S)]
        for flag, value in (more or {}).items():
            flags += [f"--{flag}", value]
        return self.start(name, language, "consume", flags)

    @property
    def keyed(self) -> tuple[str, ...]:
        """Those that write by hash key: only of their logs an order can be told."""
        return tuple(language for language in self.languages if JUDGES[language].by_key)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Those that have a group consumer of the vendor's."""
        return tuple(language for language in self.languages if JUDGES[language].group == "library")

    def put_all(
        self, store: str, count: int, meanwhile: Callable[[], None] | None = None,
        languages: Iterable[str] | None = None,
    ) -> None:  # fmt: skip
        """Each that writes by key, or each of `languages`, puts `count` more logs of each of its keys;
        `meanwhile` happens beside it."""
        talkers = {one: self.talkers[one] for one in (self.keyed if languages is None else languages)}
        for language, talker in talkers.items():
            talker.ask(f"put {store} {language} {count} {JUDGES[language].kinds[0]}")
        if meanwhile is not None:
            meanwhile()
        for language, talker in talkers.items():
            reply = talker.answer()
            if reply["event"] == "error":
                raise Failed(f"{talker.name}: put: {reply}")
            self.put[store][language] += count

    def restart(self) -> None:
        """SIGKILL the emulator and start it again on the same data and port."""
        port = self.emulator.port
        self.emulator.kill()
        self.emulator = start(self._data, port=port, key_pair=KEY_PAIR)

    def wait_state(self, ready: Callable[[], bool], what: str) -> None:
        """Look at something of the emulator until it is so."""
        for _ in range(int(DEADLINE_S / _LOOK_S)):
            if ready():
                return
            with changed:
                changed.wait(_LOOK_S)
        raise Failed(f"{what}: not within {DEADLINE_S:.0f} s")

    def slots(self, store: str, group: str) -> list[dict[str, object]]:
        """State, holder and checkpoint of each shard in a group; empty while there is no such group."""
        for logstore in self.emulator.admin.state()["logstores"]:
            for each in logstore["groups"]:
                if (logstore["logstore"], each["name"]) == (store, group):
                    return list(each["shards"])
        return []

    def start(
        self, name: str, language: str, do: str, flags: list[str], secret: str = KEY_PAIR[1]
    ) -> Program:
        command = list(self._built[language].command)
        if language == "java":
            command[1:1] = jvm_flags(self._relay.port)
        endpoint = NAME if language == "java" else f"http://{NAME}"
        if language in ("typescript", "node"):  # their HTTP client knows no proxy
            endpoint += f":{self.emulator.port}"
        extras = OUT / ("openapi" if language == "openapi" else "python")
        paths = os.pathsep.join((str(OUT.parents[1]), str(extras)))
        environment = clean_environment(
            **{ID: KEY_PAIR[0], SECRET: secret},
            http_proxy=self.emulator.endpoint,
            no_proxy="",
            PYTHONPATH=paths,
            NODE_PATH=str(NODE_MODULES),
        )
        program = Program(
            name, [*command, do, "--endpoint", endpoint, "--project", PROJECT, *flags], environment,
            self.logs_folder / f"{name}.err",
        )  # fmt: skip
        self._programs.append(program)
        return program
