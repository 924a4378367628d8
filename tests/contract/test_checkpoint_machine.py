"""Random histories of several processes on one store, against a dictionary."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sls_io.checkpoints.local_file import LocalFile
from sls_io.checkpoints.sql_table import SqlTable
from sls_io.checkpoints.store import CheckpointStore
from sls_io.values.window import Cursor
from tests.contract.copies import copied

PROCESSES = st.integers(0, 2)
SHARDS = st.integers(0, 3)
CURSORS = st.integers(0, 9).map(lambda cursor: Cursor(2**62 + cursor))
BATCH = st.dictionaries(SHARDS, CURSORS, max_size=4)
SOME = st.frozensets(SHARDS)


class Machine(RuleBasedStateMachine):
    """Three processes, and what a dictionary says that each of their words must do.

    The model keeps (cursor or None, frozen) by shard.
    """

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="sls-lake-machine-"))
        self.model: dict[int, tuple[int | None, bool]] = {}
        self.beside: dict[int, int] = {}

    def open(self, reader: str = "dev") -> CheckpointStore:
        """The store as one more process opens it."""
        if self.kind == "file":
            return LocalFile(self.folder / f"{reader}.json", of="logs-1", reader=reader)
        return SqlTable(f"sqlite:///{self.folder}/positions.sqlite", of="logs-1", reader=reader)

    @initialize()
    def begin(self) -> None:
        self.stores = [self.open() for _ in range(3)]
        self.other = self.open("other")

    @rule(process=PROCESSES)
    def restart(self, process: int) -> None:
        self.stores[process] = self.open()

    @rule(process=PROCESSES, batch=BATCH)
    def write(self, process: int, batch: dict[int, Cursor]) -> None:
        expected = {}
        for shard, cursor in batch.items():
            known, frozen = self.model.get(shard, (None, False))
            if frozen:
                expected[shard] = "frozen"
            elif known is not None and known > cursor:
                expected[shard] = "ahead"
            else:
                expected[shard] = "sent"
                self.model[shard] = cursor, False
        written = self.stores[process].write(batch)
        assert {one.shard: one.fate for one in written} == expected
        assert {one.shard: one.kept for one in written} == {s: self.model[s][0] for s in batch}

    @rule(process=PROCESSES, batch=BATCH)
    def place(self, process: int, batch: dict[int, Cursor]) -> None:
        self.model |= {shard: (cursor, True) for shard, cursor in batch.items()}
        written = self.stores[process].place(batch)
        assert {one.shard: one.fate for one in written} == dict.fromkeys(batch, "sent")

    @rule(process=PROCESSES, batch=BATCH, shards=SOME)
    def thaw(self, process: int, batch: dict[int, Cursor], shards: frozenset[int]) -> None:
        """Some where they are, and some where others may have put them elsewhere."""
        known = {s: Cursor(c) for s, (c, _) in self.model.items() if s in shards and c is not None}
        self.stores[process].thaw(batch | known)
        for shard, cursor in (batch | known).items():
            if shard in self.model and self.model[shard][0] == cursor:
                self.model[shard] = cursor, False

    @rule(process=PROCESSES, shards=SOME)
    def forget(self, process: int, shards: frozenset[int]) -> None:
        gone = self.model.keys() & shards
        assert self.stores[process].forget(shards) == gone
        for shard in gone:
            del self.model[shard]

    @rule(process=PROCESSES)
    def copy_forwards(self, process: int) -> None:
        copied(self.stores[process], self.other, forward_only=True)
        for shard, (cursor, _) in self.model.items():
            if cursor is not None:
                self.beside[shard] = max(cursor, self.beside.get(shard, 0))

    @rule(process=PROCESSES)
    def copy_over(self, process: int) -> None:
        copied(self.stores[process], self.other, drop=True)
        self.other.thaw({s: Cursor(cursor) for s, (cursor, _) in self.model.items() if cursor is not None})
        had = self.beside
        self.beside = {s: cursor for s, (cursor, _) in self.model.items() if cursor is not None}
        self.beside |= {s: had[s] for s, (cursor, _) in self.model.items() if cursor is None and s in had}

    @rule(process=PROCESSES)
    def copy_back(self, process: int) -> None:
        copied(self.other, self.stores[process], drop=True)
        self.stores[process].thaw({s: Cursor(cursor) for s, cursor in self.beside.items()})
        self.model = {s: (cursor, False) for s, cursor in self.beside.items()}

    @invariant()
    def everyone_reads_what_the_dictionary_says(self) -> None:
        for store in getattr(self, "stores", []):
            assert {s: (k.cursor, k.frozen) for s, k in store.read().items()} == self.model
        if hasattr(self, "other"):
            assert {s: k.cursor for s, k in self.other.read().items()} == self.beside

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


class FileMachine(Machine):
    """On one file."""

    kind = "file"


class SqliteMachine(Machine):
    """On one SQLite database."""

    kind = "sqlite"


def test_a_file_does_what_a_dictionary_does() -> None:
    run_state_machine_as_test(FileMachine, settings=settings(max_examples=40, stateful_step_count=20))


def test_a_database_does_what_a_dictionary_does() -> None:
    run_state_machine_as_test(SqliteMachine, settings=settings(max_examples=25, stateful_step_count=15))
