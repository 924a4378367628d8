"""The very first runs of a deployment meet in a catalog that is new: both find nothing, one is second."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema

from chaos.troubles.behind import behind
from pipelines.landing.table.lake import Lake
from sls_io.values.deadline import Deadline
from sls_io.values.errors import TransportError
from tests.worlds.lost_metadata import CONTRACT
from tests.worlds.one_logstore import make_lake

OPENERS, NEW_CATALOGS = 8, 15


class OvertakenCatalog(SqlCatalog):
    """Whoever asks whether a namespace is there is told the truth, and then another process makes it."""

    def namespace_exists(self, namespace: Any) -> bool:
        found = super().namespace_exists(namespace)
        if not found and "overtaken" not in self.properties:
            other = {k: v for k, v in self.properties.items() if k != "py-catalog-impl"}
            SqlCatalog(self.name, **other, overtaken="yes").create_namespace(namespace)
        return found


class BrokenCatalog(SqlCatalog):
    """Nothing can be made in it."""

    def create_namespace(self, namespace: Any, properties: Any = None) -> None:
        raise RuntimeError("the disk is full")


class SilentCatalog(BrokenCatalog):
    """And whoever then asks what is in it gets no answer while the test lasts."""

    over = threading.Event()

    def namespace_exists(self, namespace: Any) -> bool:
        self.over.wait(20)
        return False


def all_at_once(calls: list[Callable[[], Catalog]]) -> list[BaseException]:
    """What those of the calls raised that did."""
    barrier, raised = threading.Barrier(len(calls)), list[BaseException]()

    def one(call: Callable[[], Catalog]) -> None:
        barrier.wait()
        try:
            call().list_namespaces()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_a_new_catalog_that_is_opened_by_many_at_once_opens_for_all(tmp_path: Path) -> None:
    for number in range(NEW_CATALOGS):
        folder = tmp_path / str(number)
        lakes = [make_lake(folder, opener=str(opener)) for opener in range(OPENERS)]
        assert all_at_once([lake.catalog for lake in lakes]) == []


def test_a_namespace_that_another_run_makes_first_is_taken_as_it_is(tmp_path: Path) -> None:
    table = behind(make_lake(tmp_path), OvertakenCatalog).ensure("bronze.access_logs", CONTRACT)
    assert table.name() == ("bronze", "access_logs")


def test_a_namespace_that_cannot_be_made_is_a_trouble_of_the_catalog(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"the disk is full"):
        behind(make_lake(tmp_path), BrokenCatalog).ensure("bronze.access_logs", CONTRACT)


def test_a_catalog_that_makes_no_namespace_and_then_is_silent_is_waited_for_no_longer_than_any_other(
    tmp_path: Path,
) -> None:
    said = list[str]()
    lake = behind(make_lake(tmp_path), SilentCatalog)
    lake.catalog()
    around = Deadline(tell=said.append, patience_s=0.1).within(1.0)
    try:
        with around.kept(), pytest.raises(TransportError, match="the disk is full"):
            lake.ensure_namespace("bronze.access_logs")
    finally:
        SilentCatalog.over.set()
    (line,) = said
    assert line.startswith(f"waiting for the Iceberg catalog ({lake.place})")


class UnusableCatalog(SqlCatalog):
    """Fails each time that it is asked for a table."""

    def load_table(self, identifier: Any) -> Any:
        raise OSError("no route")


def test_a_catalog_that_fails_is_asked_once_in_one_look(tmp_path: Path) -> None:
    """Story: six facts of one look waited a minute each for a catalog that hung."""
    whole = make_lake(tmp_path)
    whole.catalog().create_namespace("bronze")
    lake = behind(whole, UnusableCatalog)
    look = lake.one_look()

    assert refusal(look) is refusal(look) is refusal(look.one_look())
    assert refusal(lake.one_look()) is not refusal(look), "another look asks anew"


def refusal(lake: Lake) -> TransportError:
    """What a look at a table ends with."""
    with pytest.raises(TransportError, match="no route") as raised:
        lake.load("bronze.logs")
    return raised.value


def test_a_table_that_is_not_there_is_not_there_for_one_look(tmp_path: Path) -> None:
    lake = make_lake(tmp_path)
    look = lake.one_look()
    assert look.load("bronze.logs") is None

    lake.catalog().create_namespace("bronze")
    lake.catalog().create_table("bronze.logs", schema=Schema())

    assert look.load("bronze.logs") is None
    assert lake.one_look().load("bronze.logs") is not None

    found = look.load_anew("bronze.logs")
    assert found is not None and look.load("bronze.logs") is found, "the look goes by its second answer"
