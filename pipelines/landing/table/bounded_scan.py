"""Rows of data files a few megabytes at a time, whatever their row groups hold.

PyIceberg's scan has all rows of a file in memory before it gives the first. A file of half a megabyte may
hold 360 MB of rows that look alike, and one of 512 MB many gigabytes. So a Parquet file is read here, with
everything else (columns, types, filters, row-level deletes) as PyIceberg does it.

Texts that a file has in dictionaries are read so, each distinct value once, with a number for each row. What
rows take is reckoned from that before they are spelled out. Worked example: a row group has a text of 1 MB in
each of 10,000 rows. It is read in 1 MB, is seen to be 10 GB of rows, and is spelled out four rows at a time.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.expressions.visitors import bind, translate_column_names
from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import (
    ArrowScan,
    _get_column_projection_values,
    _read_all_delete_files,
    _to_requested_schema,
    expression_to_pyarrow,
    pyarrow_to_schema,
)
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import FileScanTask

BATCH_BYTES = 4 * 1024 * 1024
"""About the most that the rows of a batch take; a row that takes more is a batch of its own."""
_BATCH_ROWS = 1 << 15
_VALUE_BYTES = 16
"""A value that is read takes at least so much: its place among the distinct ones, levels and offsets."""
_FETCHED_BYTES = 16 * 1024 * 1024
"""A row group that takes at most so much in storage is fetched in one go."""
_BUFFER_BYTES_MIN, _BUFFER_BYTES_MAX = 1 << 16, 1 << 20
"""Of a larger one, each column is fetched in parts of so many bytes."""
_Longs = npt.NDArray[np.int64]


class BoundedScan(ArrowScan):
    """As PyIceberg's, a batch at a time. Files that are not Parquet are read whole.

    What a file's own columns are in the table's is worked out once for files that have the same ones.
    """

    def __init__(self, *asked: Any, **more: Any) -> None:
        super().__init__(*asked, **more)
        self._schemas = dict[bytes, tuple[Schema, Schema]]()

    def to_record_batches(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """The rows of these files, each read as its rows are asked for."""
        tasks = list(tasks)
        deletes = _read_all_delete_files(self._io, tasks)
        for task in tasks:
            if task.file.file_format == FileFormat.PARQUET:
                hidden = _places(deletes.get(task.file.file_path, []))
                with self._io.new_input(task.file.file_path).open() as stream:
                    yield from self._of_parquet(task, stream, hidden)
            else:
                yield from super().to_record_batches([task])

    def _of_parquet(
        self, task: FileScanTask, stream: InputStream, hidden: _Longs
    ) -> Iterator[pa.RecordBatch]:
        """The rows but those in the places `hidden`, which are sorted.

        Hidden rows leave before the filter: their places are counted in the file, and a filter would move
        them.
        """
        table, metadata = self._table_metadata, pq.read_metadata(stream)
        asked, stored = self._downcast_ns_timestamp_to_us, metadata.schema.to_arrow_schema()
        downcast = table.format_version <= 2 if asked is None else asked
        schema, there = self._columns(stored, downcast)
        spec = table.specs().get(task.file.spec_id)
        missing = _get_column_projection_values(
            task.file, self._projected_schema, table.schema(), spec, schema.field_ids
        )
        wanted = self._filter(schema, missing)
        names = [column.name for column in there.columns]
        for first, rows in _packed(stream, metadata, names, wanted):
            for batch in _spelled(_without(rows, hidden, first), stored):
                if wanted is not None:
                    batch = batch.filter(wanted)
                if not batch.num_rows:
                    continue
                yield _to_requested_schema(
                    self._projected_schema,
                    there,
                    batch,
                    downcast_ns_timestamp_to_us=downcast,
                    projected_missing_fields=missing,
                    allow_timestamp_tz_mismatch=True,
                )

    def _columns(self, stored: pa.Schema, downcast: bool) -> tuple[Schema, Schema]:
        """All columns of a file with their ids, and those of them that are read. By the schema's bytes, since
        two with other ids are equal."""
        key = stored.serialize().to_pybytes()
        if key not in self._schemas:
            table = self._table_metadata
            schema = pyarrow_to_schema(
                stored,
                table.name_mapping(),
                downcast_ns_timestamp_to_us=downcast,
                format_version=table.format_version,
            )
            there = prune_columns(schema, self._projected_field_ids, select_full_types=False)
            self._schemas[key] = schema, there
        return self._schemas[key]

    def _filter(self, schema: Schema, missing: dict[int, Any]) -> pc.Expression | None:
        """The row filter in the names of a file with this schema."""
        if isinstance(self._bound_row_filter, AlwaysTrue):
            return None
        named = translate_column_names(
            self._bound_row_filter,
            schema,
            case_sensitive=self._case_sensitive,
            projected_field_values=missing,
        )
        return expression_to_pyarrow(bind(schema, named, case_sensitive=self._case_sensitive), schema)


def rows_of_file(stream: InputStream, names: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """All rows of an open Parquet file, in its own columns; only those of these `names`, in that order.
    Raises KeyError where one of them is not there."""
    metadata = pq.read_metadata(stream)
    schema = metadata.schema.to_arrow_schema()
    for _, batch in _packed(stream, metadata, list(schema.names if names is None else names), None):
        yield from _spelled(batch, schema)


def rows_counted(stream: InputStream) -> int:
    """How many rows an open Parquet file holds, by reading each value of all of them.

    Spelled out, too. Story: a bit turns over in the header of a page of distinct values, which no checksum
    covers. The page is read, its rows point behind it, and only who spells them out can tell.
    """
    return sum(rows.num_rows for rows in rows_of_file(stream))


def _places(deletes: Iterable[pa.ChunkedArray]) -> _Longs:
    """The places of rows that these row-level deletes of a file hide, sorted."""
    none = np.array([], dtype=np.int64)
    return np.unique(np.concatenate([none, *(part.to_numpy().astype(np.int64) for part in deletes)]))


def _without(rows: pa.RecordBatch, hidden: _Longs, first: int) -> pa.RecordBatch:
    """The rows less those that are hidden; `first` is the place of the first one in the file.

    Places are sorted, so those of a batch lie together: two searches find them.
    """
    begin, end = np.searchsorted(hidden, [first, first + rows.num_rows]).tolist()
    if begin == end:
        return rows
    shown = np.ones(rows.num_rows, dtype=np.bool_)
    shown[hidden[begin:end] - first] = False
    return rows.filter(pa.array(shown))


def _packed(
    stream: InputStream,
    metadata: pq.FileMetaData,
    names: list[str],
    wanted: pc.Expression | None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The columns `names` of a file, texts of dictionaries as distinct values, with the place of each batch's
    first row in the file. Checksums of pages are checked. Row groups that hold no `wanted` row, as their
    statistics say, are passed over.

    A text that stands in a thousand rows is read once and pointed to: so a batch of many rows is small, and
    only what is chosen is spelled out.
    """
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    columns = [i for i, leaf in enumerate(leaves) if _within(leaf.path, names)]
    stored = (_stored(metadata.row_group(r), columns) for r in range(metadata.num_row_groups))
    parquet = pq.ParquetFile(
        stream,
        metadata=metadata,
        read_dictionary=[leaves[i].path for i in columns if _is_text(leaves[i]) and _repeats(metadata, i)],
        pre_buffer=max(stored, default=0) <= _FETCHED_BYTES,
        buffer_size=max(_BUFFER_BYTES_MIN, min(_BUFFER_BYTES_MAX, _FETCHED_BYTES // max(1, len(columns)))),
        page_checksum_verification=True,
    )
    chosen = _row_groups(stream, metadata, wanted)
    first = 0
    for number in range(metadata.num_row_groups):
        at, first = first, first + metadata.row_group(number).num_rows
        if number not in chosen:
            continue
        size = _rows_at_a_time(metadata, number, columns)
        for batch in parquet.iter_batches(batch_size=size, row_groups=[number], columns=names):
            # A name with a dot in it is asked for as what lies within a column, too.
            yield at, batch.select(names)
            at += batch.num_rows


def _is_text(leaf: pq.ColumnSchema) -> bool:
    return leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in ("STRING", "NONE", "JSON")


def _repeats(metadata: pq.FileMetaData, column: int) -> bool:
    """Whether a value of it may stand in many rows and once in the file. Where it does not, distinct values
    would be looked for in vain: of 300 columns in 20,000 rows that took a gigabyte."""
    return any(
        metadata.row_group(n).column(column).has_dictionary_page for n in range(metadata.num_row_groups)
    )


def _within(path: str, names: list[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _stored(group: pq.RowGroupMetaData, columns: list[int]) -> int:
    return sum(group.column(i).total_compressed_size for i in columns)


def _row_groups(
    stream: InputStream, metadata: pq.FileMetaData, wanted: pc.Expression | None
) -> Collection[int]:
    """The row groups that may hold a wanted row."""
    if wanted is None:
        return range(metadata.num_row_groups)
    fragment = ds.ParquetFileFormat().make_fragment(stream)
    return {group.id for group in fragment.subset(wanted, schema=fragment.physical_schema).row_groups}


def _rows_at_a_time(metadata: pq.FileMetaData, number: int, columns: list[int]) -> int:
    """So many rows of a row group that those columns of them take a batch's bytes while they are read.

    Worked example: a group has 1,000,000 rows of 200 MB in these columns. A batch takes 4 MiB of them: 20,971
    rows.
    """
    group, size = metadata.row_group(number), 0
    for i in columns:
        chunk, leaf = group.column(i), metadata.schema.column(i)
        size += max(chunk.total_uncompressed_size, chunk.num_values * max(_VALUE_BYTES, leaf.length))
    return int(max(1, min(_BATCH_ROWS, BATCH_BYTES * group.num_rows // max(1, size))))


def _spelled(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows with their texts spelled out, in pieces.

    Cut in halves, or more, until a piece takes no more than a batch: how long texts are is known only now.
    One row that is longer is a piece of its own.
    """
    if not batch.num_rows:
        return
    size = sum(map(_bytes_spelled, batch.columns))
    parts = min(batch.num_rows, -(-size // BATCH_BYTES))
    if parts <= 1:
        fields = [schema.field(name) for name in batch.schema.names]
        # What is not copied first is spelled out from a slice's begin to the end of what it is a slice of.
        arrays = [
            array if array.type == field.type else pa.concat_arrays([array]).cast(field.type)
            for array, field in zip(batch.columns, fields, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)) if arrays else batch
        return
    step = -(-batch.num_rows // parts)
    for begin in range(0, batch.num_rows, step):
        yield from _spelled(batch.slice(begin, step), schema)


def _bytes_spelled(array: pa.Array) -> int:
    """What the values take with each text spelled out.

    A slice of a list or map still holds all the values behind it, so only those between its offsets count.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0) + 4 * len(array)
    if pa.types.is_struct(kind):
        return sum(map(_bytes_spelled, array.flatten()))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
        return 4 * len(array) + sum(_bytes_spelled(part.slice(begin, end - begin)) for part in parts)
    return int(array.nbytes)
