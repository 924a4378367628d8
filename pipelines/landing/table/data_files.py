"""How a data file is written, and what the table says of it: its size, counts and bounds.

Statistics never decide whether rows land. A bound that cannot be made is left out; so is a bound that does
not cover all values, because a reader that prunes by it would miss rows. Every writer of files asks here.
"""

import base64
import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import OutputStream
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatsAggregator,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

Metrics = dict[str, Any]
"""Keyword arguments of `DataFile.from_args`: counts, bounds and offsets by field id."""
ROW_GROUP_ROWS = 1 << 20
"""The most rows of one row group of a data file."""
ROW_GROUP_BYTES = 48 * 1024 * 1024
"""Rows that take so much before they are written make a row group."""
LONG_GROUP_BYTES = 8 * 1024 * 1024
"""The same of rows of a megabyte each."""
_LONG_ROW_BYTES = 1024 * 1024
_SHORT_TEXTS = ("__origin__", "__error__")
_SAMPLE_ROWS, _SAMPLE_ROWS_MIN, _SAMPLE_BYTES_MAX = 4096, 64, 1024 * 1024
_DICTIONARY_BYTES_MAX = 1024 * 1024
"""Parquet's own bound of a dictionary page."""
_CAN_FILTER = "bloom_filter_options" in inspect.signature(pq.ParquetWriter.__init__).parameters
_FALSE_POSITIVES = 0.01
_BLOOM = "write.parquet.bloom-filter-enabled.column."
_BOUNDS = ("lower_bounds", "upper_bounds")


def long_rows(batch: pa.RecordBatch) -> bool:
    """Whether its rows are of a megabyte each: they are written apart from others."""
    return bool(batch.nbytes >= _LONG_ROW_BYTES * batch.num_rows > 0)


def parquet_writer(
    stream: OutputStream, rows: pa.Table, properties: Mapping[str, str], *, long: bool = False
) -> pq.ParquetWriter:
    """How every data file of a table is written: by a landing, by a compaction, after a removal. `rows` are
    the first of them, by which columns get a dictionary; they are not written here.

    Each page has its checksum: a bit that turns over in storage mostly still is a number or a text, only
    another one. Spark's own writer makes them, too, and readers that do not check pass them over.

    `properties` of the table say of which columns there are Bloom filters.

    `long`: texts of megabytes are to come. The library keeps about five copies of a row group's largest and
    smallest text, and then leaves both out, since they are over 4 KB. So columns of texts then have no
    statistics.
    """
    schema = rows.schema
    short = [field.name for field in schema if not _may_be_long(field)]
    filters = {} if long else _bloom_filters(schema, properties)
    return pq.ParquetWriter(
        stream,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[leaf for field in schema if _repeats(rows, field.name) for leaf in _leaves(field)],
        store_decimal_as_integer=True,
        write_statistics=short if long else True,
        write_page_checksum=True,
        **({"bloom_filter_options": filters} if filters else {}),
    )


def _repeats(rows: pa.Table, name: str) -> bool:
    """Whether so many values of a column are the same that a dictionary of them is worth it, by a sample.

    Parquet gives up a dictionary that grows over a megabyte, and has paid for it by then: it hashed each
    value, and what it had written stays as numbers into a dictionary of values that hardly come again. In
    access logs the columns of traces, times, sizes and referers are like that: without their dictionaries
    files were 15 % smaller (`bench_read`), and writing others took 9 to 15 % less CPU (`bench_profile`).

    Of n values drawn from D that come equally often, about n*n / 2D are the same as one before. Where some
    come more often than others D looks smaller than it is, and there is a dictionary, as there would be
    without this. Of large values and of few nothing is known: there is one, too.

    Worked example: 4,096 values, 84 of them seen before: D is about 100,000. With 38 bytes each the
    dictionary would take 3.8 MB: none. Had 1,533 been seen before, D would be 5,500, and 200 KB are one.
    """
    column = rows.column(name)
    if pa.types.is_nested(column.type):
        return True
    room = rows.num_rows * _SAMPLE_BYTES_MAX // max(1, column.nbytes)
    sample = column.slice(0, min(_SAMPLE_ROWS, room)).drop_null()
    if len(sample) < _SAMPLE_ROWS_MIN:
        return True
    again = len(sample) - int(pc.count_distinct(sample).as_py())
    different = len(sample) ** 2 / (2 * max(again, 0.5))
    fit = _DICTIONARY_BYTES_MAX * len(sample) / max(1, int(sample.nbytes))
    return different <= min(int(rows.num_rows), fit)


def _leaves(field: pa.Field, above: str = "") -> list[str]:
    """The columns of a field as Parquet names them."""
    path, kind = f"{above}{field.name}", field.type
    if pa.types.is_map(kind):
        pair = (kind.key_field.with_name("key"), kind.item_field.with_name("value"))
        return [leaf for part in pair for leaf in _leaves(part, f"{path}.key_value.")]
    if pa.types.is_struct(kind):
        return [leaf for part in kind for leaf in _leaves(part, f"{path}.")]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _leaves(kind.value_field.with_name("element"), f"{path}.list.")
    return [path]


def _bloom_filters(schema: pa.Schema, properties: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """What the table asks for by Iceberg's own properties, of columns that are there; the rate of false
    positives is Iceberg's. A reader that looks for one value then passes over the row groups without it. An
    older Arrow writes none. Parquet has none of booleans, and Arrow refuses what Iceberg's own writers leave
    out in silence: anybody may set a property, and none may stop a landing.

    A bitset has as many bits as the rows of its group need: 10 bits a row, 100 KB of 80,000 rows.
    """
    if not _CAN_FILTER:
        return {}
    able = (f.name for f in schema if not (pa.types.is_nested(f.type) or pa.types.is_boolean(f.type)))
    # As Java reads a boolean.
    asked = (name for name in able if properties.get(_BLOOM + name, "").lower() == "true")
    return {name: {"fpp": _FALSE_POSITIVES} for name in asked}


def _may_be_long(field: pa.Field) -> bool:
    kind = field.type
    text = pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind)
    return text and field.name not in _SHORT_TEXTS


def metrics_of(parquet: pq.ParquetWriter, schema: Schema, properties: Mapping[str, str]) -> Metrics:
    """The metrics of a file that was just closed, as the table's properties ask for them."""
    return metrics_in(parquet.writer.metadata, schema, properties)


def metrics_in(metadata: pq.FileMetaData, schema: Schema, properties: Mapping[str, str]) -> Metrics:
    """The metrics that a file's footer tells, as the table's properties ask for them; `schema` is that of the
    file."""
    ids = parquet_path_to_id_mapping(schema)
    plan = compute_statistics_plan(schema, dict(properties))
    for field in _without_statistics(metadata, ids):  # left out on purpose, and no warning is wanted
        plan[field] = replace(plan[field], mode=MetricsMode(MetricModeTypes.NONE))
    found = data_file_statistics_from_parquet_metadata(
        parquet_metadata=metadata,
        stats_columns=plan,
        parquet_column_mapping=ids,
    )
    aggregates = dict(found.column_aggregates)
    found.column_aggregates.clear()
    metrics: Metrics = found.to_serialized_dict()
    unbounded = _unbounded(metadata, ids)
    bounded = {field: each for field, each in aggregates.items() if field not in unbounded}
    lower = {field: _bound(each, upper=False) for field, each in bounded.items()}
    upper = {field: _bound(each, upper=True) for field, each in bounded.items()}
    metrics["lower_bounds"] = {field: bound for field, bound in lower.items() if bound is not None}
    metrics["upper_bounds"] = {field: bound for field, bound in upper.items() if bound is not None}
    return metrics


def packed(metrics: Metrics) -> Metrics:
    """As JSON can hold them: bounds are bytes.

    Worked example: the lower bound of field 3 is the byte 1. On its way it is "AQ==", JSON has it under the
    key "3", and `unpacked` makes the byte 1 of field 3 of it again.
    """
    texts = {name: {k: base64.b64encode(v).decode() for k, v in metrics[name].items()} for name in _BOUNDS}
    return {**metrics, **texts}


def unpacked(metrics: Metrics) -> Metrics:
    """The inverse of `packed`, after a way through JSON: field ids are numbers again.

    JSON has no keys but texts, so field ids come back as `"3"`.
    """
    found = {
        name: {int(k): v for k, v in value.items()} if isinstance(value, dict) else value
        for name, value in metrics.items()
    }
    return {**found, **{name: {k: base64.b64decode(v) for k, v in found[name].items()} for name in _BOUNDS}}


def data_file(*, path: str, size: int, metrics: Metrics, partition: Record, spec_id: int) -> DataFile:
    """The Iceberg entry of a written file in `partition` of the spec `spec_id`."""
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=size,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **metrics,
    )
    file.spec_id = spec_id
    return file


def _without_statistics(metadata: pq.FileMetaData, ids: Mapping[str, int]) -> set[int]:
    """Columns of which some row group has no statistics at all."""
    return {
        ids[column.path_in_schema]
        for r in range(metadata.num_row_groups)
        for column in map(metadata.row_group(r).column, range(metadata.num_columns))
        if not column.is_stats_set
    }


def _unbounded(metadata: pq.FileMetaData, ids: Mapping[str, int]) -> set[int]:
    """Columns with values but no bounds in some row group: Parquet leaves out the bounds of long values. The
    bounds of the other row groups would cover only some of the file's rows.

    A bound that covers some row groups only would make a reader leave out the file for a value that the
    others hold.
    """
    found = set()
    for r in range(metadata.num_row_groups):
        row_group = metadata.row_group(r)
        for pos in range(metadata.num_columns):
            column = row_group.column(pos)
            known = column.statistics if column.is_stats_set else None
            if known is not None and known.has_min_max:
                continue
            if known is None or not known.has_null_count or known.null_count < column.num_values:
                found.add(ids[column.path_in_schema])
    return found


def _bound(aggregate: StatsAggregator, *, upper: bool) -> bytes | None:
    """A bound as Iceberg writes it; None where there is none or it cannot be made.

    Story: the largest text of a file is 17 times U+D7FF. Cut to 16 characters, the last one is raised
    to U+D800, which is half of a pair and no text. So what cannot be encoded is left out.
    """
    value = aggregate.current_max if upper else aggregate.current_min
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, Decimal) and not value.is_finite():
        return None
    try:
        return aggregate.max_as_bytes() if upper else aggregate.min_as_bytes()
    except (ValueError, ArithmeticError, TypeError):  # includes UnicodeEncodeError
        return None


def partition_text(file: DataFile) -> tuple[str, ...]:
    """The values of a file's partition, comparable whatever their types."""
    return tuple(str(file.partition[i]) for i in range(len(file.partition)))
