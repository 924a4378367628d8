"""A SQLite catalog whose next answers can be lost, for the publish of a landing.

It is a catalog of its own as PyIceberg loads one (`py-catalog-impl`), with the real one behind it:

    lost      the commit is made, its answer is an error
    refused   nothing is committed, the answer is an error that says nothing about it
    late      the request stays on its way until `deliver`, its answer is an error at once
    silent    the request stays on its way and is not answered at all until `deliver`
    full      the commit is tried while no file of this process may grow: a full disk
    doubled   the commit is made and answered, and the same request comes again at `deliver`
    last      the commit is made and answered, and it is the last answer: no table is loaded while `down`
    gone      the same, and that answer is lost, too
    overtaken the commit is made, then comes what others do `meanwhile`, then its answer is an error
    outrun    what others do `meanwhile` comes first, then the commit is tried
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier

from chaos.troubles.behind import behind
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.sql_catalog import SharingSqlCatalog
from tests.faults.forked_run import disk
from tests.worlds.one_logstore import World

_SILENT_S = 60.0


class LossyCatalog(SharingSqlCatalog):
    """`script` says what happens to the commits to come, one word each; then all is well.

    `snapshots` are the ids each commit wanted to add, in order of arrival; `deliveries` is what
    became of the held ones: "" where it was accepted after all, else the name of the error. `error`
    is raised instead of the usual ones, as another kind of catalog would.
    """

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)
        self.script: deque[str] = deque()
        self.snapshots: list[list[int]] = []
        self.deliveries: list[str] = []
        self.error: Exception | None = None
        self.down = False
        self.loads_left: int | None = None
        self.meanwhile: Callable[[], object] = lambda: None
        self._held: list[Callable[[], object]] = []
        self._delivered = threading.Event()

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As the catalog behind it, apart from what the script says of this one."""
        self.snapshots.append([u.snapshot.snapshot_id for u in updates if u.action == "add-snapshot"])
        word = self.script.popleft() if self.script else ""
        commit = super().commit_table
        if word in ("last", "gone"):
            answer, self.down = commit(table, requirements, updates), True
            if word == "last":
                return answer
            raise ConnectionError("server closed the connection")
        if word == "outrun":
            self.meanwhile()
        if word in ("lost", "overtaken"):
            commit(table, requirements, updates)
            if word == "overtaken":
                self.meanwhile()
            raise self.error or ConnectionError("server closed the connection")
        if word == "refused":
            raise self.error or ConnectionError("could not send the request")
        if word == "full":
            disk(full=True)
            try:
                return commit(table, requirements, updates)
            finally:
                disk(full=False)
        if word == "doubled":
            self._held.append(lambda: commit(table, requirements, updates))
        if word in ("late", "silent"):
            self._held.append(lambda: commit(table, requirements, updates))
            if word == "silent":
                self._delivered.wait(_SILENT_S)
            raise ConnectionError("no answer in time")
        return commit(table, requirements, updates)

    def load_table(self, identifier: str | Identifier) -> Table:
        """As the catalog behind it, unless that is down, or the `loads_left` are over."""
        if self.down or self.loads_left == 0:
            raise ConnectionError("connection refused")
        if self.loads_left is not None:
            self.loads_left -= 1
        return super().load_table(identifier)

    def deliver(self) -> None:
        """Let what is on its way arrive, in order."""
        for send in self._held:
            try:
                send()
            except Exception as error:  # whatever a catalog refuses with
                self.deliveries.append(type(error).__name__)
            else:
                self.deliveries.append("")
        self._held.clear()
        self._delivered.set()


def lossy(lake: Lake) -> tuple[Lake, LossyCatalog]:
    """The same lake behind a catalog that loses answers."""
    apart = behind(lake, LossyCatalog)
    catalog = apart.catalog()
    assert isinstance(catalog, LossyCatalog)
    return apart, catalog


def lossy_catalog(world: World) -> LossyCatalog:
    """The world's catalog, which loses answers."""
    catalog = world.lake.catalog()
    assert isinstance(catalog, LossyCatalog)
    return catalog
