"""A SQLite catalog, as the product sets it up, whose commits do not always come back as they should.

    lost      the commit is made, its answer is an error
    never     nothing is committed, the answer is an error that says nothing about it
    late      the request is put into the spool, where it outlives its sender; the answer is an error
    doubled   the commit is made and answered, and the same request arrives a second time later
    hang      the request arrives after the sender's deadline

Each request tells what really became of it, so that a run's own conclusion can be laid beside it. With
the property `chaos-fence` = "off" all requirements are taken out of a request before it is sent.
"""

import random
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Table, TableIdentifier
from pyiceberg.table.update import TableRequirement, TableUpdate

from chaos.troubles.behind import behind
from chaos.troubles.reapply import ReapplyingCatalog
from pipelines.landing.table.lake import Lake

KINDS = ("lost", "never", "late", "doubled", "hang")
LATE_S = 1.0
HANG_S = 2.5
"""Longer than a worker waits for the answer to a commit."""
FENCE = "chaos-fence"


class ChaosCatalog(ReapplyingCatalog):
    """`chance` is the share of commits that meet one of `KINDS`; 0 until `arm` is called."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)
        self.tell: Callable[[str], None] = lambda line: None
        self._dice = random.Random()
        self._chance, self._spool = 0.0, Path()

    def arm(self, seed: int, chance: float, spool: Path, tell: Callable[[str], None]) -> None:
        """Begin to lose answers."""
        self._dice, self._chance, self._spool, self.tell = random.Random(seed), chance, spool, tell

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """One request.

        Tells `adds ID` before it is sent, and once `commit WHAT`: accepted, refused, landed (but the
        answer is an error), absent (it never was sent), late (nobody can say yet).
        """
        if self.properties.get(FENCE) == "off":
            requirements = ()
        for added in (u.snapshot.snapshot_id for u in updates if u.action == "add-snapshot"):
            # Before it is sent: whoever dies now may still land.
            self.tell(f"adds {added}")
        kind = self._dice.choice(KINDS) if self._dice.random() < self._chance else ""
        if kind == "never":
            self.tell("commit absent")
            raise ConnectionError("could not send the request")
        if kind == "late":
            self._spool_request(table, requirements, updates)
            self.tell("commit late")
            threading.Event().wait(self._dice.uniform(0.0, LATE_S))  # it may arrive before we give up
            raise ConnectionError("no answer in time")
        if kind == "hang":
            self.tell("commit late")
            threading.Event().wait(HANG_S)
        try:
            answer = super().commit_table(table, requirements, updates)
        except Exception as error:
            if kind != "hang":
                self.tell(f"commit refused {type(error).__name__}")
            raise
        if kind == "lost":
            self.tell("commit landed")
            raise ConnectionError("server closed the connection")
        if kind == "doubled":
            self._spool_request(table, requirements, updates)
        if kind != "hang":
            self.tell("commit accepted")
        return answer

    def _spool_request(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> None:
        *namespace, name = table.name()
        request = CommitTableRequest(
            identifier=TableIdentifier(namespace=tuple(namespace), name=name),
            requirements=requirements,
            updates=updates,
        )
        name = uuid.uuid4().hex
        part = self._spool / f"{name}.part"
        part.write_text(request.model_dump_json())
        part.rename(self._spool / f"{name}.json")


def deliver(catalog: SqlCatalog, request: Path) -> bool:
    """Let a spooled request arrive; whether the catalog accepted it."""
    parsed = CommitTableRequest.model_validate_json(request.read_text())
    request.unlink()
    identifier = (*parsed.identifier.namespace.root, parsed.identifier.name)
    try:
        catalog.commit_table(catalog.load_table(identifier), parsed.requirements, parsed.updates)
    except Exception:  # whatever a catalog refuses with
        return False
    return True


def chaotic(lake: Lake, *, fence: bool = True) -> Lake:
    """The same lake behind a catalog that loses answers once it is armed."""
    return behind(lake, ChaosCatalog, **({} if fence else {FENCE: "off"}))
