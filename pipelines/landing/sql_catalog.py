"""PyIceberg's SQL catalog, whose commits copy what they change and not the table's whole past.

A commit there ends with a deep copy of all metadata. The entries of the long lists in it are frozen,
nobody changes one in place, so a copy may share them: at 200 snapshots it was a third of a publish.
"""

from collections.abc import Iterable
from typing import Any, Self, TypeVar

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.typedef import Identifier

Entry = TypeVar("Entry")


class Kept(list[Entry]):
    """A list of frozen entries: its deep copy holds the same ones, and so does that of a longer one."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self)

    def __add__(self, more: Iterable[Entry]) -> Self:  # type: ignore[override]
        return type(self)([*self, *more])


class UnreadableMetadata(Exception):
    """The database answered, and the metadata file that it names cannot be read; `cause` says why."""

    def __init__(self, file: str, cause: Exception) -> None:
        super().__init__(f"{file}: {type(cause).__name__}")
        self.file, self.cause = file, cause


class SharingSqlCatalog(SqlCatalog):
    """Loads tables whose snapshots and logs are shared by the copies of their metadata."""

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        try:
            return super()._convert_orm_to_iceberg(orm_table)
        except NoSuchTableError:
            raise
        except Exception as error:  # the database has answered: whatever the decoder met is about the file
            file = (orm_table.metadata_location or "").rsplit("/", 1)[-1]
            raise UnreadableMetadata(file, error) from error

    def load_table(self, identifier: str | Identifier) -> Table:
        """As PyIceberg's, which a commit there asks for the table it is about to change."""
        table = super().load_table(identifier)
        known = table.metadata
        table.metadata = known.model_copy(
            update={
                "snapshots": Kept(known.snapshots),
                "snapshot_log": Kept(known.snapshot_log),
                "metadata_log": Kept(known.metadata_log),
            }
        )
        return table
