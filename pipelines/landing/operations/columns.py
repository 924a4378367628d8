"""The columns of a table beside those that its logstore declares, and what brings the two together.

A column is an id with a name and a type; files keep ids. So a column can be renamed without touching a file,
and its type changes in place only where Iceberg can read the old files with the new one (int as long, float
as double). For every other change the rows that are there keep the old column under another name, and a new
one begins.

Worked example: `latency_ms` was declared int and has landed; it should be double. The column of the table
becomes `latency_ms_int`, with all its values; a new `latency_ms` of type double is null in the rows that are
there. `sls-lake backfill --mode replace` lands hours again that the service still has, with the new type.

Why an id and not a name: another engine that drops `status` and adds `status` has made a second column under
the same name. The old files keep the first one's id, so all their values read as null, and nothing looks
wrong. `--restore` gives the name back to the id that the newest landing wrote with. No file is touched by any
of this: each is one commit of a schema.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from pipelines.landing.commit import authored
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.commit.planned import Planned
from pipelines.landing.ledger.place import look_at
from pipelines.landing.ledger.state import held_columns
from pipelines.landing.ledger.values import Deed, Operation
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import (
    SYSTEM_COLUMNS,
    Contract,
    Held,
    displaced,
    next_schema_id,
    widens,
)
from pipelines.landing.table.lake import Lake
from pipelines.landing.table.names import check_names, protected_keys, unprotected
from sls_io.values.errors import ConfigError, printable


@dataclass(frozen=True)
class ColumnView:
    """One column: its type in the table and as declared ("" where it is not), and what that means."""

    name: str
    type: str
    declared: str
    note: str


@dataclass(frozen=True)
class Columns(Effect):
    """The columns of a table as they are, or as they would be; `changes` say what makes the difference."""

    WHAT = "columns of {table}"
    QUIET = frozenset({"changes"})

    table: str
    columns: tuple[ColumnView, ...]
    changes: tuple[str, ...] = ()

    def said(self) -> Iterable[Note]:
        return map(Note, self.changes)


def plan_columns(
    lake: Lake,
    logstore: Logstore,
    *,
    renamed: Mapping[str, str],
    retyped: Collection[str],
    restored: bool = False,
    plain: Collection[str] = (),
) -> Planned[Columns]:
    """The columns, after some got another name (old name -> new) and some the type that is declared.

    `restored`: before that, sls-lake's own and the declared ones are put back under the ids that files have
    them by. `plain`: keys that the table has as drop or hash, and that may land as they are sent. Changes
    nothing. Raises ConfigError for a column or a key that is not there or may not change, and when nothing
    has landed; LedgerBroken for a table that cannot be written to.

    The plan has no `again`: a landing that commits meanwhile may have added columns, and then what a person
    agreed to is another list.
    """
    place = look_at(lake, logstore.table, columns=not restored)
    table, schema, held = place.table, place.table.schema(), held_columns(place.table)
    contract = Contract.from_columns(logstore.columns)
    after = _restored(schema, held, contract) if restored else schema
    if renamed or retyped or plain:
        contract.check_held(after, held)
    aside = {name: _aside(name, after, contract) for name in retyped}
    names = {**renamed, **{name: new for name, new in aside.items() if new}}
    after = _renamed(after, names)
    if retyped:
        last = table.metadata.last_column_id
        after = contract.evolve(after, last_column_id=last, schema_id=schema.schema_id, only=retyped) or after
    lifted = unprotected(table.properties, logstore.service.full_name, plain)
    refused = protected_keys({**table.properties, **lifted}, logstore.service.full_name) - logstore.protected
    views = tuple(_with_protected(_views(after, contract, {} if names else held), refused))
    changes = (
        *_changes(schema, after, table.metadata.last_column_id),
        *(f"values of {name} land as they are sent, where the settings say so" for name in sorted(plain)),
    )
    view = Columns(logstore.table, views, changes)
    if after == schema and not plain:
        return Planned(view, place, None, nothing=f"no column of {view.table} changes")
    change = authored.unchanged(place.head, place.state, Deed(Operation.COLUMNS, "; ".join(changes)))
    new = None if after == schema else _numbered(after, table.metadata)
    return Planned(view, place, replace(change, schema=new, properties=lifted))


def _numbered(schema: Schema, metadata: TableMetadata) -> Schema:
    """The table's next schema. Columns that are as they were once are a schema that the table has: it goes by
    that one's id. A REST server would not add it again under another, and the snapshot would name a schema
    that is not there."""
    number, keys = next_schema_id(metadata), metadata.schema().identifier_field_ids
    new = Schema(*schema.fields, schema_id=number, identifier_field_ids=keys)
    return next((known for known in metadata.schemas if known == new), new)


def _field(schema: Schema, name: str) -> NestedField:
    found = next((field for field in schema.fields if field.name == name), None)
    if found is None:
        own = ", ".join(field.name for field in schema.fields if field.name not in SYSTEM_COLUMNS)
        raise ConfigError(f"the table has no column {printable(name)!r}; of its own it has {own or 'none'}")
    if name in SYSTEM_COLUMNS:
        raise ConfigError(f"{name!r} is sls-lake's own column, and stays as it is")
    return found


def _aside(name: str, schema: Schema, contract: Contract) -> str:
    """The name it gets so that one of the declared type can begin; "" where it changes in place.

    Worked example: declared double. A column of type int becomes `latency_ms_int`, of decimal(10, 2)
    `latency_ms_decimal_10__2`; a float widens in place, so the answer is "". No value is converted: what has
    landed stays what it was, under another name.
    """
    field = _field(schema, name)
    column = next((column for column in contract.shown if column.name == name), None)
    if column is None:
        raise ConfigError(f"the logstore declares no column {name!r}: write its type under `columns` first")
    if column.type == field.field_type:
        raise ConfigError(f"column {name!r} has the declared type already: {field.field_type}")
    if widens(field.field_type, column.type):
        return ""
    kind = "".join(char if char.isalnum() else "_" for char in str(field.field_type)).strip("_")
    return f"{name}_{kind}"


def _restored(schema: Schema, held: Held, contract: Contract) -> Schema:
    """`schema` with sls-lake's own and the declared columns as `held` has them, and all others.

    What took such a column's name since gets another one: somebody may have filled it. A declared column
    keeps the type it has, which may be a wider one that files have by now.

    Worked example: `status` (id 101, int) landed. Somebody renames it to `code` and adds a `status` of type
    string (id 102). 101 is `status` again, and 102 becomes `status_102` with the texts that somebody may have
    filled in. Had 101 been dropped, it would come back at the end of the columns, with all its values.
    """
    names = {*SYSTEM_COLUMNS, *(column.name for column in contract.shown)}
    mine = [field for name, field in held.items() if name in names]
    own, taken = {field.field_id: field for field in mine}, {field.name.lower() for field in mine}
    fields = []
    for field in schema.fields:
        back = own.get(field.field_id)
        if back is None:
            name = f"{field.name}_{field.field_id}" if field.name.lower() in taken else field.name
            back = field.model_copy(update={"name": name})
        elif back.name not in SYSTEM_COLUMNS:
            back = field.model_copy(update={"name": back.name})
        fields.append(back)
    there = {field.field_id for field in fields}
    fields.extend(field for field in mine if field.field_id not in there)
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


def _renamed(schema: Schema, names: Mapping[str, str]) -> Schema:
    """`schema` with other names for some columns. Raises ConfigError for one that cannot be, or is there.

    All names change at once, so two columns can change places: {latency_ms: status, status: latency_ms} is
    fine, and one after the other the first step would make two of one name. Names that differ in case only
    are refused, since SQL does not tell them apart.
    """
    changed = {_field(schema, old).field_id: new for old, new in names.items()}
    check_names(names.values())
    fields = [
        NestedField(f.field_id, changed.get(f.field_id, f.name), f.field_type, f.required, f.doc)
        for f in schema.fields
    ]
    seen = set[str]()
    for name in (field.name for field in fields):
        if name.lower() in seen:
            raise ConfigError(
                f"there would be two columns {name!r}, which SQL does not tell apart; give the one that is "
                f"there another name, too (--rename {name}=NAME)"
            )
        seen.add(name.lower())
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


def _views(schema: Schema, contract: Contract, held: Held) -> Iterator[ColumnView]:
    declared = {column.name: column for column in contract.shown}
    dropped = {column.name for column in contract.columns if column.pii == "drop"}
    for field in schema.fields:
        kind, column = str(field.field_type), declared.pop(field.name, None)
        if field.name in SYSTEM_COLUMNS:
            yield ColumnView(field.name, kind, "", "")
        elif field.name in dropped:
            note = "null in new rows, older ones keep their values until a backfill of the mode rest"
            yield ColumnView(field.name, kind, "drop", note)
        elif column is None:
            yield ColumnView(
                field.name, kind, "", "not declared: null in new rows, older ones keep their values"
            )
        elif what := displaced(schema, held, field.name):
            yield ColumnView(field.name, kind, column.text, f"{what}, nothing lands: --restore puts it back")
        elif column.type == field.field_type:
            yield ColumnView(field.name, kind, column.text, "")
        elif widens(field.field_type, column.type):
            yield ColumnView(field.name, kind, column.text, f"becomes {column.type} with the next landing")
        else:
            note = f"disagrees, nothing lands: --retype {field.name} lets it begin anew"
            yield ColumnView(field.name, kind, column.text, note)
    for name, column in declared.items():
        what = displaced(schema, held, name)
        note = f"{what}, nothing lands: --restore puts it back" if what else "is made by the next landing"
        yield ColumnView(name, "", column.text, note)


def _with_protected(views: Iterable[ColumnView], refused: Collection[str]) -> Iterator[ColumnView]:
    """The columns, and which keys the settings would land as they are sent, and the table does not let them.
    A key may have no column."""
    was = "was drop or hash, nothing lands: --plain {} lets its values land as they are sent"
    left = set(refused)
    for view in views:
        yield replace(view, note=was.format(view.name)) if view.name in left else view
        left.discard(view.name)
    yield from (ColumnView(name, "", "", was.format(name)) for name in sorted(left))


def _changes(before: Schema, after: Schema, last: int) -> Iterator[str]:
    """What is different, a few words a column; `last`: the highest id that any column had before."""
    known = {field.field_id: field for field in before.fields}
    for field in after.fields:
        old = known.get(field.field_id)
        if old is None and field.field_id <= last:
            yield f"{field.name} is put back, with all its values"
        elif old is None:
            yield f"{field.name} begins as {field.field_type}"
        elif old.name != field.name:
            yield f"{old.name} becomes {field.name}, with all its values"
        elif old.field_type != field.field_type:
            yield f"{field.name} becomes {field.field_type}, with all its values"
