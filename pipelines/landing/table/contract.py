"""The contract of a table: declared log keys -> columns, the table's schema, and how it may change.

A column type is written as one of

    string boolean int long float double date decimal(p,s)
    string(ENCODING)            bytes that are not UTF-8, such as string(gbk)
    custom(MODULE:NAME, TYPE)   a function of somebody's own makes it of the bytes; TYPE is one of the first
                                line, or timestamp
    timestamp(FORMAT[, ZONE])   FORMAT: iso, epoch_s, epoch_ms, or directives such as
                                %d/%b/%Y:%H:%M:%S %z; ZONE names where times without an offset
                                were written
    drop                        personal data: written nowhere
    hash                        personal data: the SHA-256 of its bytes in hex, as a string

Columns whose names begin with `__` are the system's. Field ids are given once and never reused. A
schema changes only forward: a new key adds a nullable column, int becomes long, float becomes
double, and a removed key keeps its column, null from then on. Anything else is refused.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import HourTransform, IdentityTransform, Transform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestamptzType,
)

from pipelines.landing.table import casts, commands, decoders
from pipelines.landing.table.names import WrongColumn, check_names
from sls_io.decoding.decode import Decoder
from sls_io.decoding.pairs import Declared
from sls_io.values.errors import ConfigError, printable
from sls_io.values.named import load as load_named
from sls_io.values.window import HOUR_S

TYPE_NAMES = (
    "string, boolean, int, long, float, double, decimal(p,s), date, timestamp(FORMAT[, ZONE]), "
    "string(ENCODING), custom(MODULE:NAME, TYPE), drop, hash"
)
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.ASCII)
_TIMESTAMP = re.compile(
    r"timestamp\(\s*(?P<format>.+?)\s*(?:,\s*(?P<zone>[A-Za-z][A-Za-z0-9_+/-]*)\s*)?\)", re.ASCII
)
_ENCODED = re.compile(r"string\(\s*([A-Za-z0-9_.-]+)\s*\)", re.ASCII)
_CUSTOM = re.compile(r"custom\(\s*([\w.]+:[\w.]+)\s*,\s*([a-z]+(?:\([0-9, ]+\))?)\s*\)")
_PLAIN: Mapping[str, tuple[PrimitiveType, casts.Cast | None]] = {
    "string": (StringType(), None),
    "boolean": (BooleanType(), casts.Boolean()),
    "int": (IntegerType(), casts.INT),
    "long": (LongType(), casts.LONG),
    "float": (FloatType(), casts.FLOAT),
    "double": (DoubleType(), casts.DOUBLE),
    "date": (DateType(), casts.DATE),
}
_EPOCHS = {"epoch_s": casts.UnixTime(1_000_000), "epoch_ms": casts.UnixTime(1_000)}
_WIDER = {(IntegerType(), LongType()), (FloatType(), DoubleType())}

_BEFORE: tuple[tuple[str, PrimitiveType | None, bool, str], ...] = (
    ("__origin__", StringType(), True, "the logstore it came from"),
    ("__shard__", IntegerType(), True, "shard"),
    ("__cursor__", LongType(), True, "cursor of its LogGroup"),
    ("__index__", IntegerType(), True, "place in its LogGroup"),
    ("__receive_hour__", TimestamptzType(), True, "hour in which the service received it"),
    ("__time__", TimestamptzType(), False, "the log's own time"),
    ("__topic__", StringType(), False, "topic of its LogGroup"),
    ("__source__", StringType(), False, "source of its LogGroup"),
    ("__tags__", None, False, "tags of its LogGroup"),
)
_AFTER: tuple[tuple[str, PrimitiveType | None, bool, str], ...] = (
    ("__rest__", None, False, "keys without a column, and values that do not fit theirs"),
    ("__error__", StringType(), False, "why this row is not represented exactly"),
    ("__raw__", BinaryType(), False, "the log's original bytes, where __error__ is set"),
)
SYSTEM_COLUMNS = tuple(name for name, *_ in (*_BEFORE, *_AFTER))
"""The columns that every table of ours has, in their order; declared ones stand before the last three."""
Held = Mapping[str, NestedField]
"""The columns that landings had, by name: only their ids say what a file has, names change hands."""
_REST = "__rest__"
_HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class Column:
    """One declared key. `text` is its type as written; a `drop` key has no column in the table."""

    name: str
    text: str
    type: PrimitiveType
    declared: Declared

    @property
    def pii(self) -> Literal["", "drop", "hash"]:
        """How its values are protected."""
        return self.declared.pii


@dataclass(frozen=True)
class Contract:
    """The declared columns, in the order in which they were written."""

    columns: tuple[Column, ...]

    @staticmethod
    def from_columns(columns: Mapping[str, str]) -> "Contract":
        """From `key: type`. Raises WrongColumn that names the key and the cure."""
        check_names(columns)
        return Contract(tuple(_column(name, text) for name, text in columns.items()))

    @property
    def declared(self) -> tuple[Declared, ...]:
        """What the decoder needs to know of each key."""
        return tuple(c.declared for c in self.columns)

    @property
    def shown(self) -> tuple[Column, ...]:
        """Keys with a column of their own."""
        return tuple(c for c in self.columns if c.pii != "drop")

    def others(self, schema: Schema) -> tuple[str, ...]:
        """Columns of `schema` that are neither the system's nor declared: another engine may have filled
        them."""
        ours = {*SYSTEM_COLUMNS, *(c.name for c in self.columns)}
        return tuple(field.name for field in schema.fields if field.name not in ours)

    @property
    def pii(self) -> Mapping[bytes, Literal["", "drop", "hash"]]:
        """How the values of each key of personal data are protected; the keys as logs have them."""
        return {c.name.encode(): c.pii for c in self.columns if c.pii}

    def iceberg_schema(self) -> Schema:
        """Schema of a new table: top-level ids in order from 1, then those inside the maps.

        Worked example: with one declared key, `status`, there are 13 columns with the ids 1 to 13: `status`
        is 10, `__rest__` 11. Key and value of `__tags__` are 14 and 15, those of `__rest__` 16 and 17. A
        catalog would number them so, and some give ids anew at a creation: then nothing changes.
        """
        rows = [*_BEFORE, *((c.name, c.type, False, "") for c in self.shown), *_AFTER]
        inner = len(rows)
        fields = []
        for field_id, (name, kind, required, doc) in enumerate(rows, start=1):
            field_type: IcebergType | None = kind
            if field_type is None:
                field_type = MapType(inner + 1, StringType(), inner + 2, StringType(), value_required=False)
                inner += 2
            fields.append(NestedField(field_id, name, field_type, required=required, doc=doc or None))
        return Schema(*fields, schema_id=0)

    def arrow_schema(self, table_schema: Schema | None = None) -> pa.Schema:
        """Arrow form of `table_schema` (default: a new table's), with its field ids."""
        return arrow_schema(table_schema or self.iceberg_schema())

    def decoder(self, origin: str, table_schema: Schema) -> Decoder:
        """A decoder whose batches have the columns of `table_schema`, in its order.

        Columns of `table_schema` that the contract does not declare are null in the batches: a file has all
        columns of the table, whoever declared them.
        """
        return Decoder(origin, self.declared, arrow_schema(table_schema))

    def evolve(
        self,
        current: Schema,
        *,
        last_column_id: int = 0,
        schema_id: int | None = None,
        only: Collection[str] | None = None,
    ) -> Schema | None:
        """The schema the table needs for this contract, or None when `current` does. With `only`, other
        columns keep the type they have.

        New ids begin after the highest of `current` and `last_column_id` (the table's, which also
        counts columns that are gone); `schema_id` is the new schema's, by default the next.
        Raises ConfigError for a change that would lose or reinterpret what has landed.

        Columns are told by their ids: a file has values under an id, and whatever name that has now. So a new
        column gets an id that none ever had, a wider type keeps it, and no column is ever taken out: what is
        not declared any more stays, and is null in new rows.

        Worked example: the table has `a int` and the contract `a long, b string`: `a` keeps its id and is a
        long, which reads older files without a loss; `b` comes before `__rest__`, with the next id.
        """
        _check_system_columns(current)
        wider = _wider(current, [c for c in self.shown if only is None or c.name in only])
        fields, changed = [wider.get(field.field_id, field) for field in current.fields], bool(wider)
        there = {f.name.lower(): f.name for f in current.fields}
        next_id = max(last_column_id, current.highest_field_id) + 1
        at = next(i for i, f in enumerate(fields) if f.name == _REST)
        for column in self.shown:
            twin = there.get(column.name.lower())
            if twin == column.name:
                continue
            if twin is not None:
                raise ConfigError(
                    f"column {column.name!r}: the table has {twin!r}, which SQL does not tell apart; "
                    f"declare it as {twin!r} if that is the key, or leave it out (it is then in {_REST})"
                )
            fields.insert(at, NestedField(next_id, column.name, column.type, required=False))
            at, next_id, changed = at + 1, next_id + 1, True
        if not changed:
            return None
        number = current.schema_id + 1 if schema_id is None else schema_id
        return Schema(*fields, schema_id=number, identifier_field_ids=current.identifier_field_ids)

    def evolved(self, metadata: TableMetadata, held: Held) -> Schema | None:
        """As `evolve`, for the table of `metadata`: with ids that nothing in it ever had.

        Raises ConfigError also for a declared column that is not under the id of `held` any more.
        """
        self.check_held(metadata.schema(), held)
        return self.evolve(
            metadata.schema(),
            last_column_id=metadata.last_column_id,
            schema_id=next_schema_id(metadata),
        )

    def check_held(self, schema: Schema, held: Held) -> None:
        """Raises ConfigError for a declared column that other hands dropped, renamed or began anew.

        Story: somebody drops a declared column. Begun anew, it would be null in all older rows, in silence.
        """
        for column in self.shown:
            if what := displaced(schema, held, column.name):
                raise ConfigError(
                    f"column {column.name!r} {what} by other hands, and the contract still declares it. "
                    "Put it back under its own id, or declare it no more",
                    cures=(commands.RESTORE,),
                )


def partition_spec(schema: Schema) -> PartitionSpec:
    """identity(__origin__), hour(__receive_hour__): undo and replace drop whole partitions.

    A file lies in one partition, so the rows of one hour of one logstore leave with their files, and no row
    of another hour or logstore is written anew for it, whether or not files were compacted.
    """
    return PartitionSpec(
        PartitionField(
            source_id=schema.find_field("__origin__").field_id,
            field_id=1000,
            transform=IdentityTransform(),
            name="__origin__",
        ),
        PartitionField(
            source_id=schema.find_field("__receive_hour__").field_id,
            field_id=1001,
            transform=HourTransform(),
            name="__receive_hour___hour",
        ),
    )


def hour_place(spec: PartitionSpec, schema: Schema) -> int | None:
    """Where a file's partition under `spec` has the receive hour (since 1970); None: nowhere."""
    return _place(spec, schema, "__receive_hour__", HourTransform())


def origin_place(spec: PartitionSpec, schema: Schema) -> int | None:
    """Where a file's partition under `spec` has the origin; None: nowhere."""
    return _place(spec, schema, "__origin__", IdentityTransform())


def _place(spec: PartitionSpec, schema: Schema, column: str, transform: Transform[Any, Any]) -> int | None:
    source = schema.find_field(column).field_id
    kept = (i for i, f in enumerate(spec.fields) if (f.source_id, f.transform) == (source, transform))
    return next(kept, None)


def rows_of(origin: str, hours: range | None = None) -> BooleanExpression:
    """The rows of an origin, and of these receive hours (since 1970)."""
    owner = EqualTo(term="__origin__", value=origin)
    if hours is None:
        return owner
    return And(owner, received_in(hours))


def received_in(hours: range) -> BooleanExpression:
    """The rows of these receive hours (since 1970)."""
    begin, end = (datetime.fromtimestamp(at * HOUR_S, UTC).isoformat() for at in (hours.start, hours.stop))
    return And(
        GreaterThanOrEqual(term="__receive_hour__", value=begin), LessThan(term="__receive_hour__", value=end)
    )


def partition_of(
    spec: PartitionSpec, schema: Schema, *, table: str, origin: str, shard: int, hour: int
) -> Record:
    """The one partition of `table` that all rows of a window of `shard` and `hour` (since 1970) are in.

    A table may be partitioned anew by hand. Raises ConfigError for a field that a window does not
    settle: its rows could be in several partitions, a file is always in one.

    Every field must follow from origin, shard and hour. Then one partition holds the window, whatever its
    rows say.

    Worked example: the table's own spec, origin `o`, hour 498655 (2026-11-20-07:00): `Record[o, 498655]`. A
    bucket of `__shard__` beside them would be settled, too; a day of `__time__` is refused, since logs of one
    window may be of two days.
    """
    settled = {"__origin__": origin, "__shard__": shard, "__receive_hour__": hour * _HOUR_US}
    values: list[object] = []
    for field in spec.fields:
        name = schema.find_column_name(field.source_id)
        if isinstance(field.transform, VoidTransform):
            values.append(None)
        elif name in settled:
            kind = schema.find_field(field.source_id).field_type
            values.append(field.transform.transform(kind)(settled[name]))
        else:
            raise ConfigError(
                f"the table is partitioned by {name!r}, in which the rows of one window differ; partition it "
                f"by {', '.join(settled)} only: ALTER TABLE lake.{table} DROP PARTITION FIELD "
                f"`{printable(field.name)}` in Spark"
            )
    return Record(*values)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow schema with Parquet field ids, texts with 32-bit offsets.

    PyIceberg's own choice is the large types; the files are the same, and a page never comes near
    2 GB, so the smaller ones save a copy of every column.
    """
    return pa.schema([_narrow(field) for field in schema_to_pyarrow(schema)])


def _narrow(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_large_string(kind):
        return field.with_type(pa.string())
    if pa.types.is_large_binary(kind):
        return field.with_type(pa.binary())
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_narrow(kind.key_field), _narrow(kind.item_field)))
    return field


def _column(name: str, text: str) -> Column:
    try:
        kind, cast, pii = _parse(text)
    except ConfigError as error:
        raise WrongColumn(str(error), name, f"columns.{name}") from None
    label = text.split("(", maxsplit=1)[0] if text.startswith("timestamp") else text
    arrow = cast.type if cast is not None else pa.string()
    of_bytes = isinstance(cast, decoders.OfBytes)
    return Column(name, text, kind, Declared(name, arrow, cast, pii, label, of_bytes))


_Parsed = tuple[
    PrimitiveType,
    casts.Cast | decoders.OfBytes | None,
    Literal["", "drop", "hash"],
]


def _parse(text: str) -> _Parsed:
    """`drop` and `hash` need no type; `decimal(p,s)`, `string(ENCODING)`, a decoder of somebody's own,
    `timestamp(FORMAT, ZONE)`; else a plain word. Raises ConfigError with the cure."""
    if text == "drop":
        return StringType(), None, "drop"
    if text == "hash":
        return StringType(), None, "hash"
    if text in _PLAIN:
        return *_PLAIN[text], ""
    if match := _DECIMAL.fullmatch(text):
        precision, scale = int(match[1]), int(match[2])
        if not 1 <= precision <= 38 or scale > precision:
            raise ConfigError(f"{text}: use a precision of 1 to 38 and a scale of 0 to the precision")
        return DecimalType(precision, scale), casts.Decimal(precision, scale), ""
    if match := _ENCODED.fullmatch(text):
        return StringType(), decoders.Encoded.of(match[1]), ""
    if match := _CUSTOM.fullmatch(text):
        return _custom(match[1], match[2])
    if match := _TIMESTAMP.fullmatch(text):
        form, zone = match["format"], match["zone"] or ""
        if form not in _EPOCHS:
            return TimestamptzType(), casts.Timestamp.of(form, zone), ""
        if zone:
            raise ConfigError(f"{text}: remove the zone, {form} counts from 1970 UTC")
        return TimestamptzType(), _EPOCHS[form], ""
    if text == "timestamp":
        raise ConfigError("a timestamp needs its format, such as timestamp(iso, UTC) or timestamp(epoch_s)")
    raise ConfigError(f"unknown type {printable(text)!r}; use one of {TYPE_NAMES}")


def decoders_of(columns: Mapping[str, str]) -> list[str]:
    """Import paths of the decoders that these columns name."""
    return [match[1] for text in columns.values() if (match := _CUSTOM.fullmatch(text))]


def _custom(path: str, text: str) -> _Parsed:
    """Loaded here, when the settings are read, so that a decoder that is not there is said before anything
    runs."""
    kind, cast, pii = (TimestamptzType(), casts.DATE, "") if text == "timestamp" else _parse(text)
    if pii or isinstance(cast, decoders.OfBytes):
        raise ConfigError(f"a decoder answers values of a type, not {text!r}; use one such as string or long")
    load_named("a column's decoder", path)
    arrow = casts.TIMESTAMP if text == "timestamp" else cast.type if cast is not None else casts.STRING
    return kind, decoders.Custom(path, arrow), ""


def next_schema_id(metadata: TableMetadata) -> int:
    """An id that no schema of the table has."""
    return max(schema.schema_id for schema in metadata.schemas) + 1


def widens(before: IcebergType, after: IcebergType) -> bool:
    """Whether a column's type changes in place: files of `before` are read as `after` without a loss."""
    return (before, after) in _WIDER


def displaced(schema: Schema, held: Held, name: str) -> str:
    """What became of the column that files have as `name`, as the end of a sentence; "" where it is there, or
    no landing had it."""
    own = held.get(name)
    now = name if own is None else schema.find_column_name(own.field_id)
    if now == name:
        return ""
    if now is not None:
        return f"was renamed to {printable(now)!r}"
    anew = any(field.name == name for field in schema.fields)
    return "was dropped and added anew" if anew else "was dropped"


def lacking_column(schema: Schema, held: Held) -> str | None:
    """The first column that we always fill and that `schema` has not, or with another type, or under another
    id than `held`; None: none."""
    fields = {f.name: f for f in schema.fields}
    for name, kind, _, _ in (*_BEFORE, *_AFTER):
        field = fields.get(name)
        fits = field is not None and (
            field.field_type == kind if kind is not None else isinstance(field.field_type, MapType)
        )
        if not fits or displaced(schema, held, name):
            return name
    return None


def _check_system_columns(current: Schema) -> None:
    """The table is one of ours: every column we always fill is there, and nothing else is required."""
    name = lacking_column(current, {})
    if name is not None:
        raise ConfigError(
            f"the table has no column {name!r} of the type sls-lake writes; name another table, "
            "or one that sls-lake made"
        )
    required = [f.name for f in current.fields if f.required and f.name not in SYSTEM_COLUMNS]
    if required:
        raise ConfigError(
            f"the table's column {required[0]!r} is required, and logs cannot promise it; make it optional"
        )


def _wider(current: Schema, columns: Iterable[Column]) -> dict[int, NestedField]:
    """Fields of `current` with the wider type that is declared, by id.

    Raises ConfigError where another one is declared, for all such columns at once: a command that settles
    one would only bring the error of the next.
    """
    wanted = {column.name: column for column in columns}
    differ = [(c, f) for f in current.fields if (c := wanted.get(f.name)) and c.type != f.field_type]
    if refused := [(c, f) for c, f in differ if not widens(f.field_type, c.type)]:
        says = "column {!r}: the table has {}, the contract says {}"
        which = "; ".join(says.format(c.name, f.field_type, c.text) for c, f in refused)
        raise ConfigError(
            f"{which}. Only int to long and float to double change in place: declare what the table has, or "
            "let the columns begin anew; the old ones keep their values under other names",
            cures=(commands.retype(*(c.name for c, _ in refused)),),
        )
    return {f.field_id: f.model_copy(update={"field_type": c.type}) for c, f in differ}
