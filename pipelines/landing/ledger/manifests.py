"""Manifests and the plan of a scan as PyIceberg makes them, less what it does again for each file.

How an Avro file is read follows from the schema in its header, and all manifests of a partitioning have the
same one: to work that out takes 2 of the 2.4 ms of CPU that a landing's manifest takes. What is left of a
filter in a partition is the same for all of its files: another 2 ms a file. Worked example: a day of landings
each five minutes from four shards is 288 manifests and 1,152 files in 24 partitions.
"""

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any, Self, TypeVar

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import AvroFile
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import resolve_reader
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import ResidualEvaluator, residual_evaluator_of
from pyiceberg.io import FileIO, InputFile
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.schema import Schema
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.typedef import KeyDefaultDict, Record, StructProtocol
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

_SCHEMAS_MAX = 64
_Struct = TypeVar("_Struct", bound=StructProtocol)


class _Kind(StrEnum):
    LIST = "manifest list"
    MANIFEST = "manifest"


class ListedManifest(ManifestFile):
    """A manifest as its list names it."""

    def fetch_manifest_entry(self, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
        with _Avro[ManifestEntry](io.new_input(self.manifest_path), _Kind.MANIFEST) as entries:
            return [
                _inherit_from_manifest(entry, self)
                for entry in entries
                if not discard_deleted or entry.status != ManifestEntryStatus.DELETED
            ]


_READ: Mapping[_Kind, tuple[Schema, dict[int, Any], dict[int, Any]]] = {
    _Kind.LIST: (
        MANIFEST_LIST_FILE_SCHEMAS[DEFAULT_READ_VERSION],
        {-1: ListedManifest, 508: PartitionFieldSummary},
        {517: ManifestContent},
    ),
    _Kind.MANIFEST: (
        MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION],
        {-1: ManifestEntry, 2: DataFile},
        {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ),
}
"""What is read of each kind, and by field id what its records and its numbers become."""


def manifests_in(io: FileIO, manifest_list: str) -> list[ManifestFile]:
    """The manifests that a list names. Raises what the storage and PyIceberg's decoders raise."""
    with _Avro[ManifestFile](io.new_input(manifest_list), _Kind.LIST) as listed:
        return list(listed)


class _Avro(AvroFile[_Struct]):
    """Reads a file with what was worked out for the first one of its schema."""

    def __init__(self, file: InputFile, kind: _Kind) -> None:
        super().__init__(file)
        self.kind = kind

    def __enter__(self) -> Self:
        with self.input_file.open() as stream:
            self.decoder = new_decoder(stream.read())
        self.header = self._read_header()
        self.reader = _reader(self.header.meta["avro.schema"], self.kind)
        return self


@lru_cache(_SCHEMAS_MAX)
def _reader(schema: str, kind: _Kind) -> Reader:
    """What reads the values of a file with this schema; it keeps nothing, so threads share it."""
    return resolve_reader(AvroSchemaConversion().avro_to_iceberg(json.loads(schema)), *_READ[kind])


class Planner(ManifestGroupPlanner):
    """The files of a scan, each with what is left of the filter there."""

    def may_have(self, manifest: ManifestFile) -> bool:
        """Whether a row of its files may be wanted, as far as the bounds of their partitions say."""
        return self._may_have[manifest.partition_spec_id](manifest)

    @cached_property
    def _may_have(self) -> KeyDefaultDict[int, Callable[[ManifestFile], bool]]:
        return KeyDefaultDict(self._build_manifest_evaluator)

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
        spec, schema = self.table_metadata.specs()[spec_id], self.table_metadata.schema()
        residuals = _Residuals(residual_evaluator_of(spec, self.row_filter, self.case_sensitive, schema))
        return lambda _: residuals


class _Residuals(ResidualEvaluator):
    """What is left of a filter, worked out once a partition."""

    def __init__(self, evaluator: ResidualEvaluator) -> None:
        self._evaluator, self._known = evaluator, dict[Record, BooleanExpression]()

    def residual_for(self, partition_data: Record) -> BooleanExpression:
        if partition_data not in self._known:
            self._known[partition_data] = self._evaluator.residual_for(partition_data)
        return self._known[partition_data]
