"""Rows read again from their own bytes: whose cause is whose, and what is kept of personal data."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from pipelines.landing.contents.kept import FromBytes, RowReader, mended
from pipelines.landing.contents.rest import FromRest
from pipelines.landing.table.contract import Contract, arrow_schema
from pipelines.landing.transform import Transform
from sls_io.decoding.causes import HeadShown, listed
from sls_io.decoding.nested import digest
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.page import Page

Pairs = list[tuple[bytes, bytes]]
HOUR = 489_000


def text(number: int, value: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + loggroup.varint(len(value)) + value


def log(pairs: Pairs) -> bytes:
    return b"\x08\x05" + b"".join(text(2, text(1, key) + text(2, value)) for key, value in pairs)


def group(
    logs: list[Pairs], *, topic: bytes = b"t", source: bytes = b"s", tags: Pairs | None = None
) -> bytes:
    """A LogGroup in bytes, of which none need be text."""
    head = text(3, topic) + text(4, source)
    head += b"".join(text(6, text(1, key) + text(2, value)) for key, value in tags or [])
    return b"".join(text(1, log(pairs)) for pairs in logs) + head


def landed(columns: Mapping[str, str], *groups: bytes) -> pa.RecordBatch:
    """Rows of these groups as they land with `columns`."""
    contract = Contract.from_columns(columns)
    raw = b"".join(map(loggroup.frame, groups))
    page = Page(0, Cursor(0), Cursor(len(groups)), len(groups), len(raw), "", raw, None)
    return contract.decoder("o-1", contract.iceberg_schema()).decode(page, hour=HOUR).batch


def evolved(before: Mapping[str, str], columns: Mapping[str, str]) -> Schema:
    """The columns of a table that had the contract `before`, and has `columns` now."""
    schema = Contract.from_columns(before).iceberg_schema()
    return Contract.from_columns(columns).evolve(schema) or schema


def in_table(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """`rows` in the columns of a table; those that they lack are null."""
    arrays = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.schema.names
        else pa.nulls(len(rows), field.type)
        for field in arrow_schema(schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def alternating(
    rows: pa.RecordBatch, before: Mapping[str, str], columns: Mapping[str, str], *, bytes_first: bool
) -> list[dict[str, Any]]:
    """Rows of the contract `before` read again with `columns`, from their bytes and from their texts by
    turns; and once more, which must change none."""
    contract, schema = Contract.from_columns(columns), evolved(before, columns)
    readers: list[RowReader] = [FromBytes(contract, "o-1", schema, Transform("")), FromRest(contract)]
    if not bytes_first:
        readers.reverse()
    rows = in_table(rows, schema)
    for reader in readers:
        rows = mended(reader, rows)
    for reader in readers:
        chosen = rows.filter(reader.chosen(rows))
        assert not chosen.num_rows or reader.again(chosen).changed == 0, "asked twice nothing changes"
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def again(
    rows: pa.RecordBatch, before: Mapping[str, str], columns: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Rows of the contract `before`, those with an error read again with `columns`; and once more, to the
    same rows."""
    contract, schema = Contract.from_columns(columns), evolved(before, columns)
    rows = in_table(rows, schema)
    reader = FromBytes(contract, "o-1", schema, Transform(""))
    after = reader.again(rows.filter(reader.chosen(rows))).batch
    wrong = after.filter(reader.chosen(after))
    if wrong.num_rows:
        assert reader.again(wrong).changed == 0, "asked twice nothing changes"
    found: list[dict[str, Any]] = after.to_pylist()
    return found


def with_error(rows: pa.RecordBatch, error: str) -> pa.RecordBatch:
    """One row with the `__error__` that an earlier release wrote."""
    at = rows.schema.get_field_index("__error__")
    return rows.set_column(at, rows.schema.field(at), pa.array([error]))


# --- whose cause it is ---------------------------------------------------------------------------


def cause(key: str, what: str, *, earlier: bool) -> str:
    """How a log's own cause is written; an earlier release quoted no key for what stands behind it."""
    quoted = not earlier and f"{key} {what}".startswith(("tag ", "topic is not UTF-8", "source is not UTF-8"))
    return f"key {key} {what}" if quoted else f"{key} {what}"


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("key", ["tag", "topic", "source", "n"])
def test_a_logs_own_key_called_tag_topic_or_source_has_no_error_once_its_contract_is_mended(
    key: str, earlier: bool
) -> None:
    rows = landed({key: "int"}, group([[(key.encode(), b"5000000000")]]))
    assert rows.column("__error__").to_pylist() == [cause(key, "is not int", earlier=False)]
    if earlier:
        rows = with_error(rows, cause(key, "is not int", earlier=True))

    (row,) = again(rows, {key: "int"}, {key: "long"})

    assert (row[key], row["__error__"], row["__raw__"]) == (5_000_000_000, None, None)


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("key", ["tag", "topic", "source"])
def test_a_logs_own_key_that_was_no_text_has_no_error_once_its_encoding_is_declared(
    key: str, earlier: bool
) -> None:
    rows = landed({}, group([[(key.encode(), "登".encode("gbk"))]]))
    assert rows.column("__error__").to_pylist() == [f"key {key} is not UTF-8"]
    if earlier:
        rows = with_error(rows, f"{key} is not UTF-8")

    (row,) = again(rows, {}, {key: "string(gbk)"})

    assert (row[key], row["__error__"], row["__raw__"]) == ("登", None, None)


def test_where_nobody_can_tell_whose_an_earlier_releases_cause_is_the_row_keeps_it() -> None:
    sent = group([[(b"topic", "登".encode("gbk"))]], topic=b"T\xff")
    rows = landed({}, sent)
    assert rows.column("__error__").to_pylist() == ["topic is not UTF-8; key topic is not UTF-8"]
    for before in ("topic is not UTF-8; topic is not UTF-8", "topic is not UTF-8"):
        (row,) = again(with_error(rows, before), {}, {"topic": "string(gbk)"})
        assert (row["topic"], row["__error__"]) == ("登", "topic is not UTF-8")
        assert row["__raw__"] is not None


NAMES = st.sampled_from(
    [
        b"tag",
        b"topic",
        b"source",
        b"key tag",
        b"tag x",
        b"repeated tag x",
        b"x",
        b"x is not int",
        b"a;",
        b"; tag x",
        b"group cannot be read",
        b"\xff",
        b"",
        b"topic is not UTF-8",
        b"y" * 300,
        b"tag y is not UTF-8",
    ]
)
VALUES = st.sampled_from([b"7", b"x", b"\xff", b"", b"\\xff", b"base64:/w=="])
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=4)


@given(tags=PAIRS, pairs=PAIRS, topic=VALUES, source=VALUES)
def test_causes_of_a_group_are_told_from_those_of_its_logs_whatever_they_are_called(
    tags: Pairs, pairs: Pairs, topic: bytes, source: bytes
) -> None:
    columns = {"tag": "int", "topic": "int", "x": "int"}
    both = landed(columns, group([pairs, []], topic=topic, source=source, tags=tags)).to_pylist()
    own = landed(columns, group([pairs])).to_pylist()[0]["__error__"]
    of_group = both[1]["__error__"]
    assert both[0]["__error__"] == ("; ".join(filter(None, [of_group, own])) or None)
    if both[0]["__error__"] is not None:
        head = HeadShown(
            topic=both[0]["__topic__"], source=both[0]["__source__"], tags=dict(both[0]["__tags__"] or [])
        )
        assert head.causes(both[0]["__error__"]) == (listed(of_group) if of_group else ())


# --- personal data -------------------------------------------------------------------------------


def test_a_key_that_was_hashed_stays_one_digest_when_another_is_added() -> None:
    before = {"n": "int", "user": "hash"}
    sent = [(b"n", b"x"), (b"user", b"ann"), (b"mail", b"a@b"), (b"user", b"bob")]
    rows = landed(before, group([sent]))

    (row,) = again(rows, before, {**before, "mail": "hash"})

    assert (row["user"], row["mail"]) == (digest(b"bob").decode(), digest(b"a@b").decode())
    hashed = [(key, value if key == b"n" else digest(value)) for key, value in sent]
    assert row["__raw__"] == log(hashed) and row["__rest__"] == [("n", "x")]


VALUELESS = b"\x08\x05" + text(2, text(1, b"user"))


@pytest.mark.parametrize("bytes_first", [True, False])
@pytest.mark.parametrize("kind", ["", "string", "hash"])
def test_a_hashed_key_without_a_value_has_no_digest_in_whatever_order_its_row_is_read_again(
    kind: str, bytes_first: bool
) -> None:
    """Nobody sent the empty text that its column shows."""
    before, after = {"user": kind} if kind else {}, {"user": "hash"}
    sent = text(1, VALUELESS)
    fresh = landed(after, sent).to_pylist()
    assert (fresh[0]["user"], fresh[0]["__error__"]) == ("", "user has no value")

    assert alternating(landed(before, sent), before, after, bytes_first=bytes_first) == fresh


@pytest.mark.parametrize("bytes_first", [True, False])
@pytest.mark.parametrize("value", ["", "ann", "登"])
def test_a_row_with_an_error_has_the_digest_of_the_bytes_that_were_sent_in_whatever_order_it_is_read_again(
    value: str, bytes_first: bool
) -> None:
    before, after = {"user": "string(gbk)", "n": "int"}, {"user": "hash", "n": "int"}
    sent = group([[(b"n", b"x"), (b"user", value.encode("gbk"))]])

    found = alternating(landed(before, sent), before, after, bytes_first=bytes_first)

    assert found == landed(after, sent).to_pylist()
    assert found[0]["user"] == digest(value.encode("gbk")).decode()


def test_the_rest_read_again_gives_a_row_with_an_error_the_digest_that_its_bytes_have() -> None:
    before, after = {"user": "string(gbk)", "n": "int"}, {"user": "hash", "n": "int"}
    rows = landed(before, group([[(b"n", b"x"), (b"user", "登".encode("gbk"))]]))

    (row,) = FromRest(Contract.from_columns(after)).again(rows).batch.to_pylist()

    sent = digest("登".encode("gbk"))
    assert (row["user"], row["__raw__"]) == (sent.decode(), log([(b"n", b"x"), (b"user", sent)]))


def test_a_dropped_key_leaves_the_bytes_of_rows_whose_cause_is_their_groups() -> None:
    secret = [(b"n", b"7"), (b"password", b"hunter2")]
    rows = landed(
        {"n": "int"},
        group([secret], tags=[(b"host", b"a"), (b"host", b"b")]),
        group([secret], topic=b"T\xff"),
    )
    assert all(b"hunter2" in raw for raw in rows.column("__raw__").to_pylist())

    found = again(rows, {"n": "int"}, {"n": "int", "password": "drop"})

    assert [row["__error__"] for row in found] == ["repeated tag host", "topic is not UTF-8"]
    assert [row["__raw__"] for row in found] == [log(secret[:1])] * 2
    assert "hunter2" not in repr(found)


def test_what_stands_under_no_key_leaves_the_bytes_with_the_first_key_of_personal_data() -> None:
    unknown = log([(b"n", b"x")]) + text(9, b"hunter2")
    rows = landed({"n": "int"}, text(1, unknown))
    assert rows.column("__raw__").to_pylist() == [unknown]
    (row,) = again(rows, {"n": "int"}, {"n": "int", "user": "hash"})
    assert row["__raw__"] == log([(b"n", b"x")])


def test_a_column_that_another_engine_filled_keeps_its_values_when_rows_are_read_again() -> None:
    rows = landed({"n": "int"}, group([[(b"n", b"5000000000")], [(b"n", b"x"), (b"country", b"of the log")]]))
    remark = pa.array(["it", "at"])
    contract = Contract.from_columns({"n": "long"})
    table = Contract.from_columns({"n": "long", "country": "string"}).iceberg_schema()
    reader = FromBytes(contract, "o-1", table, Transform(""))
    columns = {**{name: rows.column(name) for name in rows.schema.names}, "country": remark}
    arrays = [columns[field.name].cast(field.type) for field in arrow_schema(table)]

    after = reader.again(pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table))).batch.to_pylist()

    assert [row["country"] for row in after] == ["it", "at"]
    assert [row["n"] for row in after] == [5_000_000_000, None]
    assert after[1]["__rest__"] == [("n", "x"), ("country", "of the log")]


@pytest.mark.parametrize("text", ["nan", "1.5", "-0.0"])
def test_a_text_that_says_what_its_column_has_leaves_the_rest(text: str) -> None:
    """Rows with errors were read again while `x` was not declared; the column kept its values."""
    rows = landed({}, group([[(b"x", text.encode())]]))
    contract = Contract.from_columns({"x": "double"})
    schema = arrow_schema(contract.iceberg_schema())
    columns = {**{name: rows.column(name) for name in rows.schema.names}, "x": pa.array([float(text)])}
    batch = pa.RecordBatch.from_arrays([columns[f.name].cast(f.type) for f in schema], schema=schema)

    read = FromRest(contract).again(batch)

    (row,) = read.batch.to_pylist()
    assert (repr(row["x"]), row["__rest__"], read.mended, read.left) == (repr(float(text)), None, 1, {})
