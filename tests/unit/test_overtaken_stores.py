"""Stores of positions as a process has them that read before others acted."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from sls_io.checkpoints.copying import copy, written
from sls_io.checkpoints.local_file import LocalFile
from sls_io.checkpoints.policy import begin
from sls_io.checkpoints.sql_table import SqlTable
from sls_io.checkpoints.store import CheckpointStore, Kept, Written
from sls_io.values.shard import Head, Shard
from sls_io.values.window import Cursor
from tests.worlds.database_events import on_event

Opened = Callable[[], CheckpointStore]


@pytest.fixture(params=["file", "sqlite"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens the store as one more process does."""
    if request.param == "file":
        return lambda: LocalFile(tmp_path / "positions.json", of="logs-1", reader="dev")
    return lambda: SqlTable(address(tmp_path), of="logs-1", reader="dev")


def address(folder: Path) -> str:
    return f"sqlite:///{folder}/positions.sqlite"


@dataclass
class OvertakenStore:
    """One that was read before others acted."""

    store: CheckpointStore
    then: Mapping[int, Kept]

    @property
    def name(self) -> str:
        return self.store.name

    def read(self) -> Mapping[int, Kept]:
        return self.then

    def write(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self.store.write(cursors)

    def place(self, cursors: Mapping[int, Cursor]) -> tuple[Written, ...]:
        return self.store.place(cursors)

    def thaw(self, at: Mapping[int, Cursor | None]) -> None:
        self.store.thaw(at)

    def forget(self, shards: Collection[int]) -> frozenset[int]:
        return self.store.forget(shards)


def cursors(store: CheckpointStore) -> dict[int, int | None]:
    return {shard: kept.cursor for shard, kept in store.read().items()}


def test_a_reset_that_comes_while_a_reader_takes_up_the_one_before_it_stays(opened: Opened) -> None:
    reader, person = opened(), opened()
    reader.write({0: Cursor(100)})
    person.place({0: Cursor(50)})
    then = reader.read()
    person.place({0: Cursor(20)})

    head = Head(Shard(0, readonly=False), Cursor(0), Cursor(200))
    starts = begin(OvertakenStore(reader, then), {0: head})

    assert starts[0] is not None and starts[0].cursor == 50
    (told,) = reader.write({0: Cursor(51)})
    assert told.fate == "frozen", "it hears that its shard was put elsewhere"
    assert cursors(opened()) == {0: 20}


def test_a_copy_forgets_no_shard_that_came_while_it_was_made(opened: Opened) -> None:
    target = opened()
    target.write({0: Cursor(10), 3: Cursor(1)})
    then = target.read()
    opened().write({1: Cursor(40)})

    moves = copy({0: Cursor(10)}, then, {})
    assert written(OvertakenStore(target, then), moves, drop=True) == ()

    assert cursors(opened()) == {0: 10, 1: 40}


@contextmanager
def between_two_looks(act: Callable[[], object]) -> Iterator[None]:
    """Whoever looks whether our tables are there has looked for one of them; then others act."""
    seen: list[str] = []

    def before(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        named = re.search(r"sls_lake_checkpoint\w*", f"{statement} {parameters!r}")
        if named and len(seen) < 2 and named[0] not in seen:
            seen.append(named[0])
            if len(seen) == 2:
                act()

    with on_event("before_cursor_execute", before):
        yield


def test_who_looks_while_another_makes_the_tables_calls_nothing_lost(tmp_path: Path) -> None:
    with create_engine(address(tmp_path), poolclass=NullPool).begin() as connection:
        connection.execute(text("CREATE TABLE beside (number INTEGER)"))
    here, other = (SqlTable(address(tmp_path), of="logs-1", reader="dev") for _ in range(2))

    with between_two_looks(lambda: other.write({0: Cursor(12)})):
        assert cursors(here) in ({}, {0: 12})

    assert cursors(here) == {0: 12}
