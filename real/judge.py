"""The vendor's Python client against the service: the scenarios of `conformance` that need no emulator."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

from conformance import scenarios
from conformance.build import OUT, build
from conformance.environment import ID, NAME, SECRET, TOKEN
from conformance.program import Failed, Program, clean_environment
from conformance.table import Table
from conformance.world import TEXT
from real.asked import Asked
from real.report import FAILED, NOT_TRIED, OK
from sls_io.values.settings import is_loopback
from sls_io.wire.credentials import resolve

LANGUAGE = "python"
_NEEDS_EMULATOR = "needs a clock that can be set and a server that can be killed: make conformance"


class Judge:
    """What scenarios need of a world: programs that talk, and what they have put."""

    def __init__(self, asked: Asked) -> None:
        self.languages: tuple[str, ...] = (LANGUAGE,)
        self.project, self.made = asked.name, True
        self.talkers: dict[str, Program] = {}
        self.put: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._asked, self._built, self._programs = asked, build(LANGUAGE), list[Program]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """(scenario, word, reason), one after the other."""
        table = Table(self.languages)
        if problem := self._built.missing or self._built.broken:
            yield "client", NOT_TRIED, problem
            return
        self.talkers = {LANGUAGE: self.talk(LANGUAGE, "v1")}
        signers = {LANGUAGE: self.talk(LANGUAGE, "v4")}
        with suppress(Failed):  # its cell says so
            scenarios.calls(self, table, signers)
            scenarios.wrong_key(self, table)
            scenarios.each_reads_all(self, table)
        for row, _, word, reason in table.cells():
            yield row, OK if word == "ok" else FAILED, reason
        yield "group consumers, a server killed", NOT_TRIED, _NEEDS_EMULATOR

    def talk(self, language: str, sign: str, secret: str = "") -> Program:
        """A client; with another secret than the right one if it is given."""
        keys = resolve(self._asked.credentials)
        parts = urlsplit(self._asked.service().endpoint)
        on_loopback = is_loopback(parts.hostname or "")
        proxy = self._asked.service().endpoint if on_loopback else self._asked.service().proxy_address
        environment = clean_environment(
            **{ID: keys.id, SECRET: secret or keys.secret, TOKEN: keys.token},
            **({"http_proxy": proxy, "https_proxy": proxy} if proxy else {}),
            no_proxy="",
            PYTHONPATH=os.pathsep.join((str(OUT.parents[1]), str(OUT / LANGUAGE))),
        )
        command = [*self._built.command, "talk", "--sign", sign, "--text", TEXT, "--project", self.project]
        command += ["--endpoint", f"http://{NAME}" if on_loopback else self._asked.service().endpoint]
        command += ["--region", self._asked.service().region_name]
        name = f"talk-{sign}-{len(self._programs)}"
        program = Program(name, command, environment, self._asked.folder / f"{name}.err")
        self._programs.append(program)
        return program

    @property
    def keyed(self) -> tuple[str, ...]:
        """All of them."""
        return self.languages

    def put_all(self, store: str, count: int, *, languages: Iterable[str] | None = None) -> None:
        """`count` more logs of each key."""
        self.talkers[LANGUAGE].do(f"put {store} {LANGUAGE} {count} lz4")
        self.put[store][LANGUAGE] += count
