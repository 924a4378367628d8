"""The emulator's store: cursors, pages, key ranges, retention, and what a restart repeats."""

import json
from itertools import pairwise

import pytest

from sls_io.emulator.storage.refusal import Refused
from sls_io.emulator.storage.shard_log import RecordSpan
from sls_io.emulator.storage.store import DAY_S, Store, StoredLogstore
from sls_io.values.shard import KEY_MAX, KEY_MIN

NOW = 1_790_000_000.0


def make(shards: int = 1, *, ttl_days: int = 30) -> tuple[Store, StoredLogstore]:
    store = Store()
    store.create_project("demo", {}, NOW)
    return store, store.create_logstore("demo", "logs", ttl_days, shards, {}, NOW)


def fill(logstore: StoredLogstore, shard: int, count: int, *, size: int = 10, now: float = NOW) -> list[int]:
    log = logstore.shards[shard]
    return [log.append(f"{shard}/{log.next}", size, now) for _ in range(count)]


def code(refused: pytest.ExceptionInfo[Refused]) -> tuple[int, str]:
    return refused.value.status, refused.value.code


def test_cursors_begin_above_zero_differ_between_shards_and_rise_by_one() -> None:
    _, logstore = make(3)
    bases = [s.begin for s in logstore.shards.values()]
    assert len(set(bases)) == 3
    assert min(bases) > 0
    cursors = fill(logstore, 0, 5)
    assert cursors == list(range(bases[0], bases[0] + 5))
    assert logstore.shards[0].next == cursors[-1] + 1


@pytest.mark.parametrize(
    ("at", "count", "end", "groups", "next_at"),
    [
        (0, 1000, None, 10, 10),
        (0, 3, None, 3, 3),
        (3, 1000, 7, 4, 7),
        (3, 2, 7, 2, 5),
        (3, 1000, 3, 0, 3),
        (10, 1000, None, 0, 10),
        (4, 1000, 99, 6, 10),
    ],
)
def test_a_page_is_contiguous_and_stops_exactly(
    at: int, count: int, end: int | None, groups: int, next_at: int
) -> None:
    _, logstore = make()
    first = fill(logstore, 0, 10)[0]
    span = logstore.shards[0].span(first + at, count, None if end is None else first + end)
    assert (span.count, span.next - first) == (groups, next_at)
    assert span.at_end == (next_at == 10)
    assert span.last == (first + at + groups - 1 if groups else None)
    assert span.places == [f"0/{first + at + i}" for i in range(groups)]


def test_a_page_keeps_to_its_bytes_but_has_at_least_one_group() -> None:
    _, logstore = make()
    first = fill(logstore, 0, 10, size=100)[0]
    log = logstore.shards[0]
    assert [log.span(first, 1000, None, b).count for b in (1, 100, 250, 300, 10_000)] == [1, 1, 2, 3, 10]
    assert log.span(first, 1000, None, 250).raw_bytes == 200


def test_an_end_before_its_cursor_is_refused() -> None:
    _, logstore = make()
    first = fill(logstore, 0, 3)[0]
    with pytest.raises(Refused) as refused:
        logstore.shards[0].span(first + 2, 10, first)
    assert code(refused) == (400, "ParameterInvalid")


@pytest.mark.parametrize("off", [-1, 4])
def test_a_cursor_outside_the_shard_is_invalid(off: int) -> None:
    _, logstore = make()
    first = fill(logstore, 0, 3)[0]
    with pytest.raises(Refused) as refused:
        logstore.shards[0].span(first + off, 10, None)
    assert code(refused) == (400, "InvalidCursor")


def test_a_page_ends_before_a_jump_and_the_next_begins_behind_it() -> None:
    store, logstore = make()
    before = fill(logstore, 0, 4)
    store.jump(logstore, 0, 1000)
    after = fill(logstore, 0, 4)
    assert after[0] == before[-1] + 1001
    log = logstore.shards[0]
    span = log.span(before[0], 1000, None)
    assert (span.count, span.next) == (4, after[0])
    assert log.span(span.next, 1000, None).count == 4
    between = log.span(before[-1] + 1, 1000, None)
    assert (between.first, between.count) == (after[0], 4)
    assert log.time_of(before[-1] + 500) == int(NOW)
    stopped = log.span(before[2], 1000, before[-1] + 500)
    assert (stopped.count, stopped.next) == (2, before[-1] + 500)


def test_cursors_by_receive_second() -> None:
    _, logstore = make()
    early = fill(logstore, 0, 2, now=NOW + 0.9)
    late = fill(logstore, 0, 2, now=NOW + 60.2)
    log = logstore.shards[0]
    assert [log.at_time(int(NOW) + s) for s in (-5, 0, 1, 60, 61)] == [
        early[0], early[0], late[0], late[0], log.next,
    ]  # fmt: skip
    assert [log.time_of(c) - int(NOW) for c in (early[1], late[0])] == [0, 60]
    with pytest.raises(Refused) as refused:
        log.time_of(log.next)
    assert code(refused) == (400, "InvalidCursor")


def test_receive_seconds_never_go_back() -> None:
    _, logstore = make()
    fill(logstore, 0, 1, now=NOW)
    fill(logstore, 0, 1, now=NOW - 3600)
    assert list(logstore.shards[0].times) == [int(NOW), int(NOW)]


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 256])
def test_key_ranges_tile_the_key_space(shards: int) -> None:
    _, logstore = make(shards)
    tiles(logstore, shards)


def tiles(logstore: StoredLogstore, count: int) -> None:
    found = logstore.writable()
    assert len(found) == count
    assert [found[0].begin_key, found[-1].end_key] == [KEY_MIN, KEY_MAX]
    assert all(a.end_key == b.begin_key and a.begin_key < a.end_key for a, b in pairwise(found))


def test_a_write_by_key_goes_where_its_range_is() -> None:
    store, logstore = make(2)
    assert [logstore.route(k).id for k in (KEY_MIN, "7" + "f" * 31, "8" + "0" * 31, KEY_MAX, "F" * 32)] == [
        0, 0, 1, 1, 1,
    ]  # fmt: skip
    store.split(logstore, 0, NOW)
    assert logstore.route("4" + "0" * 31).id == 3
    for wrong in ("", "xyz", "0" * 31, "g" * 32):
        with pytest.raises(Refused):
            logstore.route(wrong)


def test_writes_without_key_take_turns() -> None:
    _, logstore = make(3)
    assert [logstore.route(None).id for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_split_evenly_by_key_and_by_count_then_merge() -> None:
    store, logstore = make()
    parent, left, right = store.split(logstore, 0, NOW + 5)
    assert [parent.id, left.id, right.id] == [0, 1, 2]
    assert parent.readonly
    assert left.end_key == right.begin_key == "8" + "0" * 31
    tiles(logstore, 2)
    assert [s.id for s in store.split(logstore, 2, NOW, key="9" + "0" * 31)] == [2, 3, 4]
    tiles(logstore, 3)
    assert [s.id for s in store.split(logstore, 1, NOW, count=4)] == [1, 5, 6, 7, 8]
    tiles(logstore, 6)
    assert [s.id for s in store.merge(logstore, 8, NOW)] == [9, 8, 3]
    tiles(logstore, 5)


@pytest.mark.parametrize(
    ("shard", "key", "count", "message"),
    [
        (7, "", 2, "invalid shard id"),
        (0, KEY_MIN, 2, "invalid mid hash"),
        (0, KEY_MAX, 2, "invalid mid hash"),
        (0, "abc", 2, "invalid mid hash"),
        (0, "", 1, "invalid shard count"),
    ],
)
def test_a_split_that_cannot_be_is_refused(shard: int, key: str, count: int, message: str) -> None:
    store, logstore = make()
    with pytest.raises(Refused) as refused:
        store.split(logstore, shard, NOW, key=key, count=count)
    assert (code(refused), refused.value.message) == ((400, "ParameterInvalid"), message)


def test_the_last_shard_and_a_readonly_one_do_not_merge() -> None:
    store, logstore = make(2)
    with pytest.raises(Refused, match="can not merge the last shard"):
        store.merge(logstore, 1, NOW)
    store.split(logstore, 0, NOW)
    with pytest.raises(Refused, match="invalid shard id"):
        store.merge(logstore, 0, NOW)


def test_retention_removes_groups_then_readonly_shards() -> None:
    store, logstore = make(ttl_days=1)
    old = fill(logstore, 0, 3)
    store.split(logstore, 0, NOW + 3600)
    fill(logstore, 1, 1, now=NOW + 7200)
    store.logstore("demo", "logs", NOW + DAY_S)
    assert logstore.shards[0].begin == old[0]
    store.logstore("demo", "logs", NOW + DAY_S + 1801)
    assert logstore.shards[0].begin == logstore.shards[0].next
    assert len(store.released) == 3
    store.logstore("demo", "logs", NOW + DAY_S + 3601)
    assert sorted(logstore.shards) == [1, 2]
    assert len(logstore.shards[1].cursors) == 1
    with pytest.raises(Refused) as refused:
        logstore.shard(0)
    assert code(refused) == (400, "ShardNotExist")


def test_ten_years_are_for_ever() -> None:
    store, logstore = make(ttl_days=3650)
    fill(logstore, 0, 1)
    store.logstore("demo", "logs", NOW + 5000 * DAY_S)
    assert len(logstore.shards[0].cursors) == 1


def test_a_trimmed_cursor_is_invalid_and_sizes_still_add_up() -> None:
    store, logstore = make()
    cursors = fill(logstore, 0, 10, size=7)
    log = logstore.shards[0]
    store.trim(logstore, log, cursors[4])
    assert (log.begin, log.raw_bytes) == (cursors[4], 42)
    assert log.span(cursors[4], 1000, None, 21).count == 3
    with pytest.raises(Refused, match="InvalidCursor"):
        log.span(cursors[3], 1, None)


def test_names_and_counts_out_of_bounds_are_refused() -> None:
    store, logstore = make()
    with pytest.raises(Refused, match="LogStoreAlreadyExist"):
        store.create_logstore("demo", "logs", 1, 1, {}, NOW)
    with pytest.raises(Refused, match="ProjectAlreadyExist"):
        store.create_project("demo", {}, NOW)
    for name, ttl, shards in (
        ("Not Ok", 1, 1),
        ("fine", 0, 1),
        ("fine", 3651, 1),
        ("fine", 1, 0),
        ("fine", 1, 257),
    ):
        with pytest.raises(Refused, match="LogStoreInfoInvalid"):
            store.create_logstore("demo", name, ttl, shards, {}, NOW)
    with pytest.raises(Refused, match="ProjectNotExist"):
        store.logstore("other", "logs")
    with pytest.raises(Refused, match="LogStoreNotExist"):
        store.logstore("demo", "other")
    store.delete_logstore("demo", "logs")
    with pytest.raises(Refused, match="LogStoreNotExist"):
        store.logstore("demo", logstore.name)


def test_changes_read_back_make_the_same_store() -> None:
    store, logstore = make(2)
    store.split(logstore, 0, NOW)
    store.create_logstore("demo", "gone", 1, 1, {}, NOW)
    store.delete_logstore("demo", "gone")
    store.jump(logstore, 1, 50)
    store.create_project("other", {"description": "x"}, NOW)
    store.delete_project("other")
    again = Store()
    for change in json.loads(json.dumps(store.changes)):
        again.apply(change, NOW)
    assert again.snapshot() == store.snapshot()
    third = Store()
    third.restore(json.loads(json.dumps(store.snapshot())), NOW)
    assert third.snapshot() == store.snapshot()


def test_a_snapshot_removes_what_it_lacks() -> None:
    store, logstore = make()
    fill(logstore, 0, 3)
    store.restore([{"op": "project", "doc": {"name": "demo"}}], NOW)
    assert not store.logstores
    assert len(store.released) == 3


def test_an_empty_page_has_no_groups_and_stays() -> None:
    _, logstore = make()
    span: RecordSpan = logstore.shards[0].span(logstore.shards[0].begin, 10, None)
    assert (span.count, span.raw_bytes, span.next, span.at_end) == (0, 0, logstore.shards[0].begin, True)
