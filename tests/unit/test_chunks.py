"""Pages cut into chunks: every byte understood, or a row that says why not, the same whatever the cut."""

from typing import Any

import pytest

from sls_io.decoding import causes, chunks
from sls_io.decoding.causes import Cause
from sls_io.decoding.chunks import Chunks
from sls_io.decoding.decode import Decoder
from sls_io.decoding.nested import Tree, safe
from sls_io.decoding.pairs import Declared
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.page import Page

LOG = b"\x08\x05\x12\x06\x0a\x01k\x12\x01v"
ONE = loggroup.frame(LOG)
PII = (Declared("secret", Decoder("o", ()).schema.field("__topic__").type, None, "drop"),)


def rows(*groups: bytes, declared: tuple[Declared, ...] = ()) -> list[dict[str, Any]]:
    """The rows of a page of these groups, whose bytes came twice."""
    raw = b"".join(map(loggroup.frame, groups))
    page = Page(0, Cursor(0), Cursor(len(groups)), len(groups), len(raw), "", raw, None, confirmed=True)
    batch = Decoder("o", declared).decode(page, hour=1).batch
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def places(found: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Cursor and index of each row."""
    return [(r["__cursor__"], r["__index__"]) for r in found]


@pytest.mark.parametrize(
    "extra",
    [
        b"\x7b\x08\x01\x7c",
        b"\x7b\x7b\x12\x02ab\x7c\x7c",
        b"\x7b" * 100 + b"\x7c" * 100,
        b"\x78\x01",
        b"\x08\x05",
        b"\xca\x3e\x00",
        b"\x18\x05",
    ],
    ids=lambda b: b[:6].hex(),
)
def test_fields_that_nobody_knows_are_walked_past_wherever_they_stand(extra: bytes) -> None:
    (in_group,) = rows(ONE + extra)
    assert (in_group["__rest__"], in_group["__error__"]) == ([("k", "v")], None)
    if not extra.startswith((b"\x08", b"\x12")):
        (in_log,) = rows(loggroup.frame(LOG + extra))
        assert (in_log["__rest__"], in_log["__error__"]) == ([("k", "v")], None)


def overlong(message: bytes, more: int) -> bytes:
    """The message as field 1, its length written in `more` bytes than it needs."""
    length = bytearray(loggroup.varint(len(message)))
    length[-1] |= 0x80
    return b"\x0a" + bytes(length) + b"\x80" * (more - 1) + b"\x00" + message


@pytest.mark.parametrize("more", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 9, 100, 200])
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_a_length_that_is_written_longer_than_it_must_be_takes_nothing_from_its_message(
    more: int, size: int, odd: int
) -> None:
    key = "k" * size
    pair = loggroup.frame(key.encode()) + b"\x12\x01v"
    log = b"\x08\x05\x12" + loggroup.varint(len(pair)) + pair
    logs = b"".join(overlong(log, more) if n == odd else loggroup.frame(log) for n in range(3))
    broken = loggroup.frame(log + b"\x7b")
    unknown = loggroup.frame(log + b"\x78\x01")
    found = rows(logs, logs + b"\x78\x01", loggroup.frame(log) + broken + logs, unknown + logs)
    assert [r["__rest__"] for r in found if r["__error__"] is None] == [[(key, "v")]] * 14
    assert [r["__error__"] for r in found if r["__error__"]] == [Cause.UNREADABLE_LOG]

    page = b"".join(overlong(ONE, more) if n == odd else loggroup.frame(ONE) for n in range(3))
    assert [chunk.tree.topic.to_pylist() for chunk in Chunks(page)] == [[None] * 3]
    assert [chunk.tree.keys.to_pylist() for chunk in Chunks(page)] == [[b"k"] * 3]


@pytest.mark.parametrize(
    "broken",
    [
        b"\x7b",
        b"\x7c",
        b"\x7b\x74",
        b"\x7b" * 101 + b"\x7c" * 101,
        b"\x0e",
        b"\x00\x01",
        b"\x08" + b"\xff" * 11,
    ],
    ids=lambda b: b[:6].hex(),
)
def test_what_is_no_protobuf_costs_its_log_or_else_its_group_and_keeps_the_bytes(broken: bytes) -> None:
    found = rows(ONE, ONE + loggroup.frame(LOG + broken) + ONE, ONE + broken, ONE)
    assert places(found) == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0), (3, 0)]
    assert [r["__error__"] for r in found] == [
        *(None, None, Cause.UNREADABLE_LOG, None),
        *(Cause.UNREADABLE_GROUP, None),
    ]
    assert [r["__raw__"] for r in found if r["__raw__"]] == [LOG + broken, ONE + broken]
    assert all(r["__rest__"] == [("k", "v")] for r in found if r["__error__"] is None)


def test_groups_of_fields_nested_a_million_deep_end_no_process() -> None:
    """The fast reader goes down one call a level; a page of it must not reach it."""
    deep = b"\x7b" * 1_000_000
    for where in (deep, loggroup.frame(deep), loggroup.frame(b"\x12" + loggroup.varint(len(deep)) + deep)):
        assert not safe(where, 0, len(where))
        (row,) = rows(where)
        assert row["__error__"] in (Cause.UNREADABLE_GROUP, Cause.UNREADABLE_LOG)


def test_a_tag_with_groups_of_fields_nested_a_million_deep_ends_no_process() -> None:
    deep = b"\x7b" * 1_000_000
    where = ONE + b"\x32" + loggroup.varint(len(deep)) + deep
    assert not safe(where, 0, len(where))
    (row,) = rows(where)
    assert row["__tags__"] == [(deep.decode(), "")] and row["__rest__"] == [("k", "v")]


@pytest.mark.parametrize("size", [100_000, 500_000])
def test_what_is_read_unlooked_at_fits_the_stack_it_is_read_on(size: int) -> None:
    deep = loggroup.frame(b"\x7b" * size)
    assert safe(deep, 0, len(deep))
    with pytest.raises(ValueError):
        Tree.of(loggroup.frame(deep))


def test_a_tag_number_that_the_fast_reader_misreads_is_found_out() -> None:
    """It cuts the number to 32 bits and takes the field for a time."""
    strange = loggroup.varint(1 << 35 | 1 << 3) + b"\x07"
    (row,) = rows(loggroup.frame(LOG + strange))
    assert row["__error__"] == Cause.UNREADABLE_LOG


def test_a_time_over_32_bits_is_missing_and_not_some_moment_of_1970() -> None:
    (row,) = rows(loggroup.frame(b"\x08" + loggroup.varint(2**32 + 5)))
    assert (row["__time__"], row["__error__"]) == (None, "time is missing or over 32 bits")


def test_a_tag_that_cannot_be_read_shows_its_bytes_and_costs_no_log() -> None:
    first, second = rows(ONE * 2 + b"\x32\x03\x0a\x05x")
    assert first["__tags__"] == second["__tags__"] == [("\n\x05x", "")]
    assert first["__error__"] == "tag   x has no key or no value"
    assert (first["__raw__"], second["__rest__"]) == (LOG, [("k", "v")])


def test_bytes_in_which_a_dropped_key_may_stand_are_withheld_and_others_are_kept() -> None:
    pair = b"\x12\x10\x0a\x06secret\x12\x06canary"
    found = rows(
        loggroup.frame(LOG + pair + b"\x7c"),
        loggroup.frame(LOG + pair) + b"\x7c",
        loggroup.frame(LOG + b"\x7c"),
        loggroup.frame(pair + b"\x7b\x0a\x06canary\x7c" + b"\x12\x02\x0a\x00"),
        declared=PII,
    )
    assert b"canary" not in repr(found).encode()
    assert [r["__raw__"] is None for r in found] == [True, True, False, False]
    assert [Cause.WITHHELD in r["__error__"] for r in found] == [True, True, False, False]


def test_a_log_with_more_keys_than_fit_is_kept_as_its_bytes() -> None:
    log = LOG + b"\x12\x00" * causes.KEYS_MAX
    fits, over = rows(loggroup.frame(log[: -2 * 3]) + loggroup.frame(log))
    assert fits["__error__"].startswith("a key is missing") and over["__error__"] == Cause.TOO_MANY_KEYS
    assert (over["__raw__"], over["__time__"]) == (log, None)


def test_a_group_with_more_tags_than_fit_is_one_row() -> None:
    group = ONE * 3 + b"\x32\x04\x0a\x00\x12\x00" * (causes.TAGS_MAX + 1)
    (row,) = rows(group)
    assert (row["__error__"], row["__raw__"]) == (Cause.TOO_MANY_TAGS, group)


def test_a_head_too_large_to_repeat_stands_on_the_first_row_with_a_cause_on_all() -> None:
    group = ONE * 50_000 + b"\x1a" + loggroup.varint(1000) + b"t" * 1000
    found = rows(group, ONE + b"\x1a\x01t")
    assert found[0]["__topic__"] == "t" * 1000
    assert {r["__topic__"] for r in found[1:50_000]} == {None}
    assert {r["__error__"] for r in found[:50_000]} == {Cause.HEAD_ONCE}
    assert (found[50_000]["__topic__"], found[50_000]["__error__"]) == ("t", None)


def test_the_rows_are_the_same_whatever_the_chunks() -> None:
    """Groups that are walked in runs, put together again, or read fast: the rows follow from the bytes."""
    odd = loggroup.frame(LOG + b"\x7b\x7c")
    long = ONE * (chunks.RUN_LOGS + 10) + odd + loggroup.frame(b"\x0e") + b"\x1a\x01t"
    raw = b"".join(map(loggroup.frame, (ONE * 3, odd + ONE, long, b"\x0e", b"", ONE)))
    found = Chunks(raw)
    assert found.unreadable and found.groups == 6
    seen = [
        (chunk.first + int(group), chunk.offset + int(index))
        for chunk in found
        for logs in (chunk.tree.part(0, chunk.tree.logs),)
        for group, index in zip(logs.group_of_log, logs.index_of_log, strict=True)
    ]
    sizes = {0: 3, 1: 2, 2: chunks.RUN_LOGS + 12, 3: 1, 5: 1}
    assert seen == [(group, index) for group, size in sizes.items() for index in range(size)]
    assert sum(len(chunk.unreadable) for chunk in found) == 2


def test_only_a_group_of_very_many_logs_is_read_a_run_at_a_time() -> None:
    """Newlines in a value are bytes like those that begin a log."""
    lines = loggroup.frame(b"\x12" + loggroup.varint(3_000_007) + b"\x12" + loggroup.varint(3_000_000))
    lines += b"\n" * 3_000_000
    many = loggroup.frame(b"") * 600_000
    assert safe(lines, 0, len(lines)) and not safe(many, 0, len(many))


def test_in_a_run_of_logs_those_that_are_misread_are_walked_and_the_others_come_as_sent() -> None:
    """Far from each other, side by side, first and last of a run, and with something between logs."""
    run = chunks.RUN_LOGS
    logs = [LOG] * (2 * run + 5)
    odd = dict.fromkeys((0, 7, 8, run - 1), LOG + b"x\x01")
    broken = dict.fromkeys((9, 500, run, 2 * run + 4), LOG + b"|")
    for n, log in (odd | broken).items():
        logs[n] = log
    group = b"".join(map(loggroup.frame, logs[:10])) + b"\x78\x01" + b"".join(map(loggroup.frame, logs[10:]))
    found = rows(group)
    assert places(found) == [(0, n) for n in range(len(logs))]
    assert {n for n, row in enumerate(found) if row["__error__"]} == broken.keys()
    assert {row["__error__"] for row in found} == {None, Cause.UNREADABLE_LOG}
    assert {n: found[n]["__raw__"] for n in broken} == broken
    assert all(row["__rest__"] == [("k", "v")] for n, row in enumerate(found) if n not in broken)
