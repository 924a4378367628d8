"""A SQLite catalog that others interrupt: behind an answer of it they act, and whoever asked goes on after.

It is a catalog of its own as PyIceberg loads one (`py-catalog-impl`). Others go by the lake behind it, whose
calls are not interrupted.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

from chaos.troubles.behind import behind
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.sql_catalog import SharingSqlCatalog

Act = Callable[[], object]


class InterruptedCatalog(SharingSqlCatalog):
    """`loads` and `namespaces` say what others do behind the next loads of a table and the next makings of a
    namespace, whatever came of these; then nobody does anything."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)
        self.loads, self.namespaces = deque[Act](), deque[Act]()

    def load_table(self, identifier: str | Identifier) -> Table:
        try:
            return super().load_table(identifier)
        finally:
            _next(self.loads)

    def create_namespace(self, namespace: str | Identifier, properties: Any = None) -> None:
        try:
            super().create_namespace(namespace, properties or {})
        finally:
            _next(self.namespaces)


def _next(acts: deque[Act]) -> None:
    if acts:
        acts.popleft()()


def interrupted(lake: Lake) -> tuple[Lake, InterruptedCatalog]:
    """The same lake behind such a catalog."""
    apart = behind(lake, InterruptedCatalog)
    catalog = apart.catalog()
    assert isinstance(catalog, InterruptedCatalog)
    return apart, catalog
