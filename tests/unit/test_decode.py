"""Pages against a second reading of the same bytes: the vendor's protobuf classes and plain Python."""

import base64
import hashlib
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aliyun.log.log_logs_raw_pb2 import LogRaw
from hypothesis import given, settings
from hypothesis import strategies as st

from sls_io.decoding import causes
from sls_io.decoding.causes import Cause
from sls_io.decoding.decode import Decoder, identity_sum
from sls_io.decoding.pairs import Declared
from sls_io.values.errors import ConfigError, DecodeError
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.page import Page
from tests.worlds.pages import HOUR, group, page, page_of, rows


def small_int(text: str) -> int | None:
    """The number, or None when the text is not one to nine digits."""
    return int(text) if text.isdigit() and text.isascii() and len(text) < 10 else None


def as_int(text: pa.Array) -> pa.Array:
    """A small cast of the test's own."""
    return pa.array([small_int(t or "") for t in text.to_pylist()], pa.int32())


INT = Declared("n", pa.int32(), as_int, label="int")
TEXT = Declared("s", pa.string())
DROP = Declared("secret", pa.string(), None, "drop")
HASH = Declared("mail", pa.string(), None, "hash")


def decode(one: Page, *declared: Declared) -> list[dict[str, Any]]:
    return rows(Decoder("o-1", declared).decode(one, hour=HOUR))


def log_bytes(*pairs: tuple[bytes, bytes], time: int | None = 1_760_000_000) -> bytes:
    """A Log put together by hand, for what the vendor's classes refuse."""
    out = b"" if time is None else b"\x08" + loggroup.varint(time)
    for key, value in pairs:
        body = b"\x0a" + loggroup.varint(len(key)) + key + b"\x12" + loggroup.varint(len(value)) + value
        out += b"\x12" + loggroup.varint(len(body)) + body
    return out


def list_of(*logs: bytes, tail: bytes = b"") -> bytes:
    """A LogGroupList with one group of these logs."""
    return loggroup.frame(b"".join(loggroup.frame(log) for log in logs) + tail)


def test_a_row_has_the_systems_columns_the_declared_ones_and_the_rest() -> None:
    one = group([("n", b"7"), ("s", b"x"), ("other", b"y")], tags=(("host", b"a"), ("zone", b"")))
    one.Logs[0].Time_ns = 123_456_789
    (row,) = decode(page(one), INT, TEXT)
    moment = row.pop("__time__")
    assert (moment.timestamp(), moment.microsecond) == (1_760_000_000.123456, 123_456)
    assert row.pop("__receive_hour__").timestamp() == HOUR * 3600
    assert row == {
        "__origin__": "o-1",
        "__shard__": 3,
        "__cursor__": 100,
        "__index__": 0,
        "__topic__": "t",
        "__source__": "s",
        "__tags__": {"host": "a", "zone": ""},
        "n": 7,
        "s": "x",
        "__rest__": {"other": "y"},
        "__error__": None,
        "__raw__": None,
    }


def test_an_empty_group_gives_no_row_and_still_has_a_cursor() -> None:
    decoded = Decoder("o", ()).decode(page(group([("a", b"")]), group(), group([], [])), hour=HOUR)
    assert (decoded.groups, decoded.rows) == (3, 3)
    assert [(r["__cursor__"], r["__index__"]) for r in rows(decoded)] == [(100, 0), (102, 0), (102, 1)]
    assert [r["__rest__"] for r in rows(decoded)] == [{"a": ""}, None, None]


def test_an_empty_page_gives_an_empty_batch() -> None:
    decoded = Decoder("o", (INT, HASH)).decode(page(next=Cursor(500)), hour=HOUR)
    assert (decoded.rows, decoded.groups, decoded.sum, decoded.forward) == (0, 0, 0, False)
    assert decoded.batch.num_rows == 0


@pytest.mark.parametrize("kind", ["", "lz4", "zstd", "deflate"])
def test_a_page_may_be_compressed_in_any_way_the_service_offers(kind: str) -> None:
    assert decode(page(group([("s", b"x" * 1000)]), kind=kind), TEXT)[0]["s"] == "x" * 1000


def test_cursors_count_back_from_the_last_one_where_it_was_sent() -> None:
    two = (group([("a", b"1")]), group([("a", b"2")]))
    decoded = Decoder("o", ()).decode(page(*two, next=Cursor(900), last=Cursor(707)), hour=HOUR)
    assert [r["__cursor__"] for r in rows(decoded)] == [706, 707]
    assert not decoded.forward


def test_cursors_counted_forward_are_flagged_when_the_next_one_jumps() -> None:
    two = (group([("a", b"1")]), group([("a", b"2")]))
    exact = Decoder("o", ()).decode(page(*two), hour=HOUR)
    jumped = Decoder("o", ()).decode(page(*two, next=Cursor(900)), hour=HOUR)
    assert [r["__cursor__"] for r in rows(jumped)] == [100, 101]
    assert (exact.forward, jumped.forward) == (False, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 1, "next": 101},
        {"count": 3, "next": 103},
        {"raw_bytes": 5},
        {"next": 101},
        {"next": 100},
        {"last": Cursor(100)},
        {"last": Cursor(102)},
        {"compression": "lz4"},
        {"compression": "brotli"},
        {"raw_bytes": 2**40},
    ],
)
@pytest.mark.fault("4b.lying.pull")
def test_a_page_that_contradicts_its_headers_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(page(group([("a", b"canary")]), group([("a", b"canary")]), **changes))
    assert (caught.value.shard, caught.value.cursor) == (3, 100)
    assert "canary" not in str(caught.value)


def test_a_value_that_does_not_fit_is_kept_as_text_with_the_logs_bytes() -> None:
    one = group([("n", b"7")], [("n", b"abc"), ("s", b"x")], [("n", b"")])
    first, second, third = decode(page(one), INT, TEXT)
    assert (first["n"], first["__rest__"], first["__error__"], first["__raw__"]) == (7, None, None, None)
    assert (second["n"], second["s"], second["__rest__"]) == (None, "x", {"n": "abc"})
    assert second["__error__"] == "n is not int"
    assert second["__raw__"] == one.Logs[1].SerializeToString()
    assert (third["n"], third["__rest__"], third["__error__"]) == (None, {"n": ""}, "n is not int")


def test_of_a_repeated_key_the_last_value_is_shown_and_the_bytes_have_all() -> None:
    one = group(
        [("s", b"1"), ("k", b"a"), ("s", b"2"), ("k", b"b"), ("s", b"3"), ("k", b"c")], [("s", b"ok")]
    )
    first, second = decode(page(one), TEXT)
    assert (first["s"], first["__rest__"]) == ("3", {"k": "c"})
    assert sorted(first["__error__"].split("; ")) == ["repeated key k", "repeated key s"]
    assert first["__raw__"] == one.Logs[0].SerializeToString()
    assert second["__error__"] is None


def test_an_earlier_value_of_a_repeated_key_is_not_judged() -> None:
    one = group([("n", b"abc"), ("n", b"5")], [("n", b"5"), ("n", b"abc")])
    first, second = decode(page(one), INT)
    assert (first["n"], first["__rest__"], first["__error__"]) == (5, None, "repeated key n")
    assert (second["n"], second["__rest__"]) == (None, {"n": "abc"})
    assert second["__error__"] == "repeated key n; n is not int"


@pytest.mark.fault("4b.poison.stage")
def test_bytes_that_are_not_utf8_cost_their_own_row_only() -> None:
    one = group([("s", b"\xff\xfe"), ("k", b"v")], [("s", b"fine")], [("k", b"a\xc3")])
    first, second, third = decode(page(one), TEXT)
    assert (first["s"], first["__rest__"]) == (None, {"s": "\ufffd\ufffd", "k": "v"})
    assert first["__error__"] == "s is not UTF-8"
    assert first["__raw__"] == one.Logs[0].SerializeToString()
    assert (second["s"], second["__error__"]) == ("fine", None)
    assert (third["__rest__"], third["__error__"]) == ({"k": "a\ufffd"}, "k is not UTF-8")


def test_keys_that_are_not_utf8_are_kept_and_may_look_alike() -> None:
    log = log_bytes((b"k\xff", b"1"), (b"k\xfe", b"2"), (b"s", b"x"))
    (row,) = decode(page_of(list_of(log), 1), TEXT)
    assert (row["s"], row["__rest__"], row["__raw__"]) == ("x", {"k\ufffd": "2"}, log)
    assert set(row["__error__"].split("; ")) == {"a key is not UTF-8", "repeated key k\ufffd"}


def test_topic_source_and_tags_that_are_not_utf8_show_their_bytes() -> None:
    tag = b"\x0a\x02t\xff\x12\x02\xfev"
    tail = b"\x1a\x02T\xff" + b"\x22\x02S\xff" + b"\x32" + loggroup.varint(len(tag)) + tag
    (row,) = decode(page_of(list_of(log_bytes((b"s", b"x")), tail=tail), 1), TEXT)
    assert (row["__topic__"], row["__source__"], row["__tags__"]) == (
        "T\\xff",
        "S\\xff",
        {"t\\xff": "\\xfev"},
    )
    assert row["__error__"] == "topic is not UTF-8; source is not UTF-8; tag t\\xff is not UTF-8"
    assert row["s"] == "x"


def test_topic_source_and_tags_that_are_long_and_not_utf8_are_shown_whole_as_base64() -> None:
    long = b"\xff" * 70_000
    size = loggroup.varint(len(long))
    for tag, cause in (
        (b"\x0a" + size + long + b"\x12\x01v", f"tag base64:{'/' * 57}... is not UTF-8"),
        (b"\x0a\x01t\x12" + size + long, "tag t is not UTF-8"),
    ):
        tail = b"\x1a" + size + long + b"\x22\x02S\xff\x32" + loggroup.varint(len(tag)) + tag
        (row,) = decode(page_of(list_of(log_bytes((b"s", b"x")), tail=tail), 1), TEXT)
        whole = "base64:" + base64.b64encode(long).decode()
        assert row["__error__"].split("; ") == [
            "topic is not UTF-8, shown whole as base64",
            "source is not UTF-8",
            f"{cause}, shown whole as base64",
        ]
        assert (row["__topic__"], row["__source__"]) == (whole, "S\\xff")
        assert row["__tags__"] in ({whole: "v"}, {"t": whole})
        head = causes.HeadShown(row["__topic__"], row["__source__"], row["__tags__"])
        assert head.causes(row["__error__"]) == causes.listed(row["__error__"])


def test_a_repeated_tag_is_named_on_every_row_of_its_group_only() -> None:
    bad = group([("s", b"1")], [("s", b"2")], tags=(("host", b"a"), ("host", b"b")))
    found = decode(page(bad, group([("s", b"3")], tags=(("host", b"c"),))), TEXT)
    assert [r["__tags__"] for r in found] == [{"host": "b"}, {"host": "b"}, {"host": "c"}]
    assert [r["__error__"] for r in found] == ["repeated tag host"] * 2 + [None]


def test_what_the_protocol_requires_and_a_log_lacks_is_named() -> None:
    logs = (
        log_bytes((b"s", b"x"), time=None),
        b"\x08\x05" + b"\x12\x03\x0a\x01s",  # a key without a value
        b"\x08\x05" + b"\x12\x03\x12\x01v",  # a value without a key
        b"\x08\x05" + b"\x25" + (10**9).to_bytes(4, "little"),
    )
    found = decode(page_of(list_of(*logs), 1), TEXT)
    causes = [
        "time is missing or over 32 bits",
        "s has no value",
        "a key is missing",
        "nanosecond part is over 999999999",
    ]
    assert [r["__error__"] for r in found] == causes
    assert [r["__raw__"] for r in found] == list(logs)
    assert [r["s"] for r in found] == ["x", "", None, None]
    assert found[0]["__time__"] is None
    assert found[2]["__rest__"] == {"": "v"}
    assert found[3]["__time__"].timestamp() == 5.0


def test_unknown_fields_are_skipped_and_stay_in_the_bytes() -> None:
    log = log_bytes((b"n", b"abc")) + b"\x1a\x03new" + b"\x78\x01"
    raw = list_of(log, tail=b"\x12\x01r" + b"\x2a\x04uuid" + b"\x7a\x02zz") + b"\x10\x01"
    (row,) = decode(page_of(raw, 1), INT)
    assert (row["__raw__"], row["__rest__"]) == (log, {"n": "abc"})


def test_dropped_and_hashed_values_are_nowhere_in_the_batch() -> None:
    person = b"canary@example.com"
    one = group(
        [("mail", person), ("secret", b"canary-1"), ("n", b"abc")],
        [("mail", person), ("secret", b"canary-2"), ("secret", b"canary-3"), ("k", b"v")],
        [("mail", b"canary\xff"), ("secret", b"canary\xff")],
        [("mail", b"canary-4"), ("mail", person)],
    )
    batch = Decoder("o", (HASH, DROP, INT)).decode(page(one), hour=HOUR).batch
    found = rows(Decoder("o", (HASH, DROP, INT)).decode(page(one), hour=HOUR))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert b"canary" not in sink.getvalue().to_pybytes()
    assert "secret" not in batch.schema.names
    digest = hashlib.sha256(person).hexdigest()
    assert [r["mail"] for r in found] == [digest, digest, hashlib.sha256(b"canary\xff").hexdigest(), digest]
    assert [r["__error__"] for r in found] == ["n is not int", None, None, "repeated key mail"]
    kept = LogRaw.FromString(found[0]["__raw__"])
    assert [(c.Key, c.Value) for c in kept.Contents] == [("mail", digest.encode()), ("n", b"abc")]
    assert kept.Time == one.Logs[0].Time
    twice = LogRaw.FromString(found[3]["__raw__"])
    assert [c.Value for c in twice.Contents] == [
        hashlib.sha256(b"canary-4").hexdigest().encode(),
        digest.encode(),
    ]


def test_a_missing_value_of_a_dropped_key_is_nobodys_trouble() -> None:
    log = b"\x08\x05" + b"\x12\x08\x0a\x06secret" + log_bytes((b"s", b"x"), time=None)
    (row,) = decode(page_of(list_of(log), 1), TEXT, DROP)
    assert (row["s"], row["__rest__"], row["__error__"]) == ("x", None, None)


def test_columns_follow_the_tables_schema() -> None:
    plain = Decoder("o", (INT,)).schema
    gone = pa.field("gone", pa.float64(), metadata={"PARQUET:field_id": "77"})
    schema = pa.schema([gone, *reversed(list(plain))])
    decoded = Decoder("o", (INT,), schema).decode(page(group([("n", b"1"), ("gone", b"2.5")])), hour=HOUR)
    assert decoded.batch.schema.equals(schema, check_metadata=True)
    (row,) = rows(decoded)
    assert (row["gone"], row["n"], row["__rest__"]) == (None, 1, {"gone": "2.5"})


def test_a_schema_that_lacks_a_declared_column_is_refused() -> None:
    with pytest.raises(ConfigError, match="'n'"):
        Decoder("o", (INT,), Decoder("o", ()).schema)


# --- against a second reading ------------------------------------------------------------------


def expected(one: Page, groups: list[Any]) -> list[dict[str, Any]]:
    """What the rules say, one log at a time."""
    result = []
    for g, source in enumerate(groups):
        for i, log in enumerate(source.Logs):
            pairs = [(c.Key, c.Value) for c in log.Contents]
            last = dict(pairs)
            row: dict[str, Any] = {"cursor": one.cursor + g, "index": i, "topic": source.Topic}
            repeated = {k for k in last if sum(p[0] == k for p in pairs) > 1}
            broken = {k for k, v in pairs if v.decode("utf-8", "ignore").encode() != v}
            shown = {k: v.decode("utf-8", "replace") for k, v in last.items()}
            row["s"] = shown.pop("s") if "s" in shown and is_text(last["s"]) else None
            row["n"] = small_int(shown.get("n", ""))
            if row["n"] is not None:
                del shown["n"]
            row["rest"] = shown or None
            row["bad"] = bool(repeated or broken or ("n" in last and row["n"] is None))
            row["raw"] = log.SerializeToString() if row["bad"] else None
            result.append(row)
    return result


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


KEYS = st.sampled_from(["n", "s", "k", "a.b", "", "键"])
VALUES = st.one_of(
    st.integers(0, 10**6).map(lambda i: str(i).encode()),
    st.text(max_size=5).map(lambda t: t.encode("utf-8", "ignore")),
    st.binary(max_size=4),
)
LOGS = st.lists(st.tuples(KEYS, VALUES), max_size=5)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(LOGS, max_size=4), max_size=4))
def test_any_page_reads_as_the_vendors_classes_read_it(content: list[list[list[tuple[str, bytes]]]]) -> None:
    groups = [group(*logs, topic=f"t{i}") for i, logs in enumerate(content)]
    one = page(*groups)
    found = decode(one, INT, TEXT)
    short = [
        {
            "cursor": r["__cursor__"],
            "index": r["__index__"],
            "topic": r["__topic__"],
            "s": r["s"],
            "n": r["n"],
            "rest": r["__rest__"],
            "bad": r["__error__"] is not None,
            "raw": r["__raw__"],
        }
        for r in found
    ]
    assert short == expected(one, groups)


def three_groups() -> bytes:
    """A LogGroupList with a bit of everything."""
    one = group([("n", b"1"), ("mail", b"v" * 40)], [("s", b"x"), ("k", b"y")], tags=(("h", b"a"),))
    one.Logs[0].Time_ns = 5
    return loggroup.frame(one.SerializeToString()) * 3


def test_a_page_cut_anywhere_is_refused() -> None:
    whole = three_groups()
    decoder = Decoder("o", (INT, TEXT))
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decoder.decode(page_of(whole[:size], 3), hour=HOUR)


@pytest.mark.fault("4b.corrupt.pull")
def test_flipped_bytes_are_refused_or_read_or_kept_as_they_are() -> None:
    whole = three_groups()
    decoder = Decoder("o", (INT, TEXT, HASH, DROP))
    rng = random.Random(7)
    refused = kept = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            batch = decoder.decode(page_of(bytes(data), 3), hour=HOUR).batch
        except DecodeError:
            refused += 1
        else:
            batch.validate(full=True)
            errors = [e for e in batch.column("__error__").to_pylist() if e is not None]
            kept += any(e.startswith(tuple(c for c in Cause if c.unreadable)) for e in errors)
    assert refused > 50 and kept > 500


# --- identity ----------------------------------------------------------------------------------


@given(
    st.integers(0, 2**31 - 1),
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1)), max_size=20),
)
def test_the_identity_sum_is_what_the_documentation_says(shard: int, places: list[tuple[int, int]]) -> None:
    p = 2**31 - 1
    total = 0
    for cursor, index in places:
        c = cursor % p
        one = (c * 1000003 + index * 8191 + shard * 131071) % p
        two = (c * 69069 + index * 524287 + shard * 65537 + 12345) % p
        total += pow(one, 5, p) * 2**31 + pow(two, 5, p)
    cursors = np.array([c for c, _ in places], dtype=np.int64)
    indexes = np.array([i for _, i in places], dtype=np.int64)
    assert identity_sum(shard, cursors, indexes) == total % 2**64


def test_the_identity_sum_tells_moved_lost_and_doubled_rows_apart() -> None:
    cursors, indexes = np.repeat(np.arange(50), 20), np.tile(np.arange(20), 50)
    whole = identity_sum(1, cursors, indexes)
    others = {
        identity_sum(2, cursors, indexes),
        identity_sum(1, cursors[1:], indexes[1:]),
        identity_sum(1, np.append(cursors[1:], 49), np.append(indexes[1:], 19)),
        identity_sum(1, cursors + 1, indexes),
        identity_sum(1, indexes, cursors),
    }
    assert whole not in others and len(others) == 5


def test_a_pages_sum_is_that_of_its_rows_and_adds_up_over_pages() -> None:
    first, second = group([("a", b"1")], [("a", b"2")]), group([("a", b"3")])
    decoder = Decoder("o", ())
    both = decoder.decode(page(first, second), hour=HOUR)
    parts = (
        decoder.decode(page(first), hour=HOUR).sum + decoder.decode(page(second, cursor=101), hour=HOUR).sum
    )
    assert both.sum == parts % 2**64
    assert both.sum == identity_sum(3, np.array([100, 100, 101]), np.array([0, 1, 0]))
