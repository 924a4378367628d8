"""A logstore opened from Python, over a real emulator; what is expected is read from its own store."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from aliyun.log import log_logs_raw_pb2 as pb

from sls_io import (
    ConfigError,
    Cursor,
    CursorExpired,
    Declared,
    Group,
    Reader,
    Service,
    SlsClient,
    open_logstore,
)
from sls_io.emulator import Emulator
from sls_io.values.errors import DecodeError, ServiceError
from sls_io.wire.fetch import PAGE_TRIES_MAX
from tests.contract.opened import HOUR0_S, LOGSTORE, PROJECT, Place, modules_after, opened

pytestmark = pytest.mark.sls_emulator(now=HOUR0_S + 60)
HEAVY = {"pyspark", "dagster", "pyiceberg", "dbt", "pipelines"}
USE = """
import sys
from sls_io import open_logstore
with open_logstore(sys.argv[1], "demo", "logs", columns=["n"]) as logs:
    assert [s.id for s in logs.shards()] == [0, 1]
    assert len(logs.peek(0)) == 2 and sum(b.num_rows for b in logs.batches(0)) == 2
    with logs.hold("readers") as held:
        assert sum(r.batch.num_rows for s in held.shards for r in held.rows(s)) == 2
"""


def numbers(batches: list[pa.RecordBatch]) -> list[int]:
    return [int(dict(rest)["n"]) for batch in batches for rest in batch["__rest__"].to_pylist()]


def test_importing_the_package_loads_no_engine_and_no_orchestration() -> None:
    assert not HEAVY & modules_after("import sls_io")


def test_all_that_the_package_offers_loads_no_engine_and_no_orchestration(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1, 2)
        loaded = modules_after(USE, emulator.endpoint)
    assert "pyarrow" in loaded and "pandas" in loaded
    assert not HEAVY & loaded


def test_a_read_of_all_gives_each_log_of_the_shard_once_and_in_order(emulator: Emulator) -> None:
    with opened(emulator) as place:
        for first in range(0, 40, 4):
            place.put(*range(first, first + 4), shard=first // 4 % 2)
        for shard in (0, 1):
            table = pa.Table.from_batches(place.logs.batches(shard))
            read = list(
                zip(
                    table["__cursor__"].to_pylist(),
                    table["__index__"].to_pylist(),
                    [dict(rest) for rest in table["__rest__"].to_pylist()],
                    strict=True,
                )
            )
            assert read == place.truth(shard) and len(read) == 20
            assert set(table["__shard__"].to_pylist()) == {shard}


@pytest.mark.parametrize("kind", ["lz4", "zstd"])
def test_pages_come_in_the_compression_that_the_settings_ask_for(emulator: Emulator, kind: Any) -> None:
    with opened(emulator) as place:
        place.put(*range(100))
        service = place.logs.client.service.model_copy(update={"compression": kind})
        with SlsClient(service) as client:
            page = client.pull(0, client.cursor_at(0, "begin"))
            assert page.compression == kind and 0 < len(page.body) < page.raw_bytes
            assert sorted(numbers(list(Reader(client).batches(0)))) == list(range(100))


def three_hours(place: Place) -> list[datetime]:
    """Logs 0, 1 and 2 received in three hours, the second of which is followed by an empty one."""
    times = []
    for number, hour in enumerate((0, 1, 3)):
        place.emulator.admin.set_clock(HOUR0_S + hour * 3600 + 600)
        place.put(number)
        times.append(datetime.fromtimestamp(HOUR0_S + hour * 3600, UTC))
    place.emulator.admin.set_clock(HOUR0_S + 4 * 3600)
    return times


def test_a_window_of_receive_times_is_half_open_and_labels_each_row_with_its_hour(emulator: Emulator) -> None:
    with opened(emulator) as place:
        hours = three_hours(place)
        logs = place.logs
        whole = list(logs.batches(0))
        assert numbers(whole) == [0, 1, 2]
        assert [h for b in whole for h in b["__receive_hour__"].to_pylist()] == hours
        assert numbers(list(logs.batches(0, since=hours[1]))) == [1, 2]
        assert numbers(list(logs.batches(0, until=hours[1]))) == [0]
        assert numbers(list(logs.batches(0, since=hours[1], until=hours[2]))) == [1]
        # A group received in the last second before the edge, and in its first.
        second = HOUR0_S + 3600 + 600
        assert numbers(list(logs.batches(0, since=second, until=second + 1))) == [1]
        assert numbers(list(logs.batches(0, since=second + 1, until=HOUR0_S + 9 * 3600))) == [2]
        assert numbers(list(logs.batches(0, since=HOUR0_S + 9 * 3600))) == []


@pytest.mark.parametrize(
    "since",
    [
        HOUR0_S + 3600,
        HOUR0_S + 3600.9,
        datetime.fromtimestamp(HOUR0_S + 3600, UTC),
        datetime.fromtimestamp(HOUR0_S + 3600, UTC).replace(tzinfo=None),
        datetime.fromtimestamp(HOUR0_S + 3600, timezone(timedelta(hours=8))),
        datetime.fromtimestamp(HOUR0_S + 3600, timezone(timedelta(hours=8))).isoformat(),
        datetime.fromtimestamp(HOUR0_S + 3600, UTC).replace(tzinfo=None).isoformat(),
    ],
    ids=["int", "float", "utc", "naive", "offset", "text with offset", "text"],
)
def test_a_receive_time_may_be_written_in_each_of_these_ways(emulator: Emulator, since: datetime) -> None:
    with opened(emulator) as place:
        three_hours(place)
        assert numbers(list(place.logs.batches(0, since=since))) == [1, 2]


def test_a_window_of_cursors_is_half_open_and_ends_where_the_shard_ends(emulator: Emulator) -> None:
    with opened(emulator) as place:
        for number in range(5):
            place.put(number)
        at = [cursor for cursor, _, _ in place.truth(0)]
        logs = place.logs
        assert numbers(list(logs.batches(0, begin=at[1], end=at[3]))) == [1, 2]
        assert numbers(list(logs.batches(0, begin=at[3], end=at[4] + 1000))) == [3, 4]
        assert numbers(list(logs.batches(0, begin=at[2], end=at[2]))) == []


def test_rows_name_the_cursor_behind_each_page_and_it_continues_there(emulator: Emulator) -> None:
    emulator.admin.limits(page_bytes_max=1)  # a group a page
    with opened(emulator) as place:
        for first in range(0, 6, 2):
            place.put(first, first + 1)
        pages = list(place.logs.rows(0))
        assert [rows.batch.num_rows for rows in pages] == [2, 2, 2]
        for done, rows in enumerate(pages, start=1):
            assert rows.next is not None
            rest = numbers(list(place.logs.batches(0, begin=rows.next)))
            assert rest == list(range(6))[done * 2 :]


def test_a_page_of_many_logs_comes_in_parts_and_only_the_last_names_the_cursor_behind_it(
    emulator: Emulator,
) -> None:
    with opened(emulator) as place:
        place.put(*range(40_000))
        parts = list(place.logs.rows(0))
        end = place.logs.client.cursor_at(0, "end")
        assert len(parts) > 1
        assert [part.next for part in parts] == [None] * (len(parts) - 1) + [end]
        assert numbers([part.batch for part in parts]) == list(range(40_000))


def test_a_group_without_a_log_moves_the_cursor_and_gives_no_row(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put()
        (rows,) = place.logs.rows(0)
        assert rows.batch.num_rows == 0 and rows.batch.schema == place.logs.schema
        assert rows.next == place.logs.client.cursor_at(0, "end")
        assert list(place.logs.batches(0)) == [] and place.logs.peek(0).empty


def test_a_page_is_what_the_service_stores_and_its_cursors_follow_one_another(emulator: Emulator) -> None:
    emulator.admin.limits(page_bytes_max=1)
    with opened(emulator) as place:
        for number in range(3):
            place.put(number)
        head = place.logs.client.head(place.logs.client.shards()[0])
        pages = list(place.logs.pages(0))
        assert [page.count for page in pages] == [1, 1, 1]
        assert [page.cursor for page in pages] == [head.begin, *(page.next for page in pages[:-1])]
        assert pages[-1].next == head.end
        assert all(page.compression == "" and len(page.body) == page.raw_bytes for page in pages)


def test_asked_for_columns_are_columns_and_the_rest_stays_in_rest(emulator: Emulator) -> None:
    whole = Declared("n", pa.int64(), lambda text: text.cast(pa.int64()))
    with opened(emulator, columns=[whole, "path"]) as place:
        place.put(3, 4)
        (batch,) = place.logs.batches(0)
        assert batch["n"].to_pylist() == [3, 4] and batch["n"].type == pa.int64()
        assert batch["path"].to_pylist() == ["/p/3", "/p/4"]
        assert batch["__rest__"].null_count == 2
        assert batch.schema.names == place.logs.schema.names


def test_a_peek_shows_the_first_logs_with_each_key_as_a_column(emulator: Emulator) -> None:
    with opened(emulator) as place:
        hours = three_hours(place)
        place.put(7, 8, 9)
        frame = place.logs.peek(0, 4)
        assert list(frame["n"]) == ["0", "1", "2", "7"]
        assert list(frame["path"]) == ["/p/0", "/p/1", "/p/2", "/p/0"]
        assert list(frame["__cursor__"]) == [cursor for cursor, _, _ in place.truth(0)][:4]
        assert list(frame["__index__"]) == [0, 0, 0, 0]
        assert frame["__time__"].iloc[0] == hours[0]
        assert frame["__topic__"].unique().tolist() == ["shop"]
        assert frame["__tags__"].iloc[0]["host"] == "web-1"
        assert frame["__error__"].isna().all() and "__rest__" not in frame
        assert list(place.logs.peek(0, 2, since=hours[2])["n"]) == ["2", "7"]
        assert len(place.logs.peek(0, 100)) == 6 and len(place.logs.peek(1)) == 0
        for few in (0, -1, True, "5"):
            with pytest.raises(ConfigError, match="n says how many logs to show, a whole number from 1 on"):
                place.logs.peek(0, few)  # type: ignore[arg-type]
        for wrong in ("0", -1, None):
            with pytest.raises(ConfigError, match="a shard is its number"):
                place.logs.peek(wrong)  # type: ignore[arg-type]


def test_a_peek_hides_no_key_that_is_called_like_a_column_of_the_system(emulator: Emulator) -> None:
    message = pb.LogGroupRaw()
    log = message.Logs.add()
    log.Time = HOUR0_S
    content = log.Contents.add()
    content.Key, content.Value = "__topic__", b"mine"
    with opened(emulator) as place:
        place.logs.client.put_raw(bytes(message.SerializeToString()), key="0" * 32)
        frame = place.logs.peek(0)
        assert frame["__rest__"].tolist() == [{"__topic__": "mine"}]


def test_shards_say_how_they_stand_and_how_far_a_group_is(emulator: Emulator) -> None:
    with opened(emulator) as place:
        three_hours(place)
        emulator.admin.freeze()
        client = place.logs.client
        plain = place.logs.shards()
        assert [(s.id, s.status, s.holder, s.lag_s) for s in plain] == [
            (0, "readwrite", "", None),
            (1, "readwrite", "", None),
        ]
        assert plain[0].oldest_s == HOUR0_S + 600 and plain[1].oldest_s is None
        head = client.head(client.shards()[0])
        assert (plain[0].begin, plain[0].end) == (head.begin, head.end)

        now_s = int(emulator.admin.now())
        client.create_group(Group(name="readers"))
        # Between two answers the client goes on counting seconds by itself.
        waits, nothing = place.logs.shards("readers")
        assert waits.lag_s is not None and 0 <= waits.lag_s - (now_s - HOUR0_S - 600) < 600
        assert nothing.lag_s == 0.0
        second = Cursor(place.truth(0)[1][0])
        client.heartbeat("readers", "me", ())
        client.save_checkpoint("readers", "me", 0, second)
        one = place.logs.shards("readers")[0]
        assert (one.holder, one.checkpoint) == ("me", second)
        assert one.lag_s is not None and 0 <= one.lag_s - (now_s - HOUR0_S - 3600 - 600) < 600
        client.save_checkpoint("readers", "me", 0, head.end)
        assert place.logs.shards("readers")[0].lag_s == 0.0


def test_a_split_shard_is_readonly_beside_its_children(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        emulator.admin.split(PROJECT, LOGSTORE, 0)
        assert [s.status for s in place.logs.shards()] == ["readonly", "readwrite", "readwrite", "readwrite"]


def test_what_retention_took_is_an_error_and_never_an_empty_read(emulator: Emulator) -> None:
    with opened(emulator) as place:
        for number in range(3):
            place.put(number)
        at = [cursor for cursor, _, _ in place.truth(0)]
        emulator.admin.retain(PROJECT, LOGSTORE, shard=0, before_cursor=at[2])
        with pytest.raises(CursorExpired):
            list(place.logs.batches(0, begin=at[0]))
        assert numbers(list(place.logs.batches(0))) == [2]


def test_retention_that_overtakes_a_read_is_told_at_its_end(emulator: Emulator) -> None:
    with opened(emulator) as place:
        for number in range(3):
            place.put(number)
        emulator.admin.limits(page_bytes_max=1)
        rows = place.logs.rows(0)
        read = numbers([next(rows).batch, next(rows).batch])
        emulator.admin.retain(PROJECT, LOGSTORE, shard=0, before_cursor=place.truth(0)[2][0])
        with pytest.raises(CursorExpired, match="may be missing"):
            read += numbers([r.batch for r in rows])
        assert read[:2] == [0, 1]


def test_a_page_that_breaks_on_the_way_is_pulled_again_and_one_that_stays_broken_is_an_error(
    emulator: Emulator,
) -> None:
    with opened(emulator) as place:
        for number in range(4):
            place.put(number)
        emulator.admin.fault("short", call="pull_logs", groups=1)
        assert numbers(list(place.logs.batches(0))) == [0, 1, 2, 3]
        emulator.admin.fault("short", call="pull_logs", groups=1, times=None)
        with pytest.raises(DecodeError, match="the header says 4"):
            list(place.logs.batches(0))
        assert PAGE_TRIES_MAX <= emulator.admin.faults()[-1]["hits"] < 10


def test_a_service_that_refuses_is_told_with_its_own_words(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(1)
        emulator.admin.fault("error", call="pull_logs", status=400, code="ParameterInvalid", times=None)
        with pytest.raises(ServiceError, match="ParameterInvalid"):
            list(place.logs.batches(0))


def test_a_log_that_cannot_be_shown_exactly_is_a_row_with_its_cause(emulator: Emulator) -> None:
    with opened(emulator) as place:
        message = pb.LogGroupRaw()
        log = message.Logs.add()
        log.Time = HOUR0_S
        content = log.Contents.add()
        content.Key, content.Value = "n", b"\xff"
        place.logs.client.put_raw(bytes(message.SerializeToString()), key="0" * 32)
        (batch,) = place.logs.batches(0)
        assert batch["__error__"].to_pylist()[0]
        assert batch["__raw__"].to_pylist() == [bytes(log.SerializeToString())]
        assert place.logs.peek(0)["__error__"].notna().all()


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ({"begin": 1, "since": 1}, "a cursor or a receive time"),
        ({"end": 1, "until": 1}, "a cursor or a receive time"),
        ({"begin": 9, "end": 3}, "ends before it begins"),
        ({"since": 9, "until": 3}, "ends before it begins"),
        ({"since": "yesterday"}, "'yesterday' is no time"),
    ],
)
def test_a_window_that_cannot_be_is_refused_before_anything_is_read(
    emulator: Emulator, window: dict[str, int], said: str
) -> None:
    with opened(emulator) as place:
        for read in (place.logs.pages, place.logs.rows, place.logs.batches):
            with pytest.raises(ConfigError, match=said):
                read(0, **window)


def test_names_that_cannot_be_are_refused_without_a_call() -> None:
    with pytest.raises(ConfigError, match="https://HOST"):
        open_logstore("https://user:secret-4711@host", "demo", "logs")
    with pytest.raises(ConfigError, match="part of the Service"):
        open_logstore(Service(endpoint="http://127.0.0.1:1", project="demo", logstore="logs"), "demo")
    with pytest.raises(ConfigError) as caught:
        open_logstore("https://user:secret-4711@host", "demo", "logs")
    assert "secret-4711" not in str(caught.value)


def test_a_reader_takes_a_client_that_is_there(emulator: Emulator) -> None:
    with opened(emulator) as place:
        place.put(5)
        service = Service(endpoint=emulator.endpoint, project=PROJECT, logstore=LOGSTORE, tries_max=2)
        with SlsClient(service) as client:
            assert numbers(list(Reader(client).batches(0))) == [5]
        with open_logstore(service) as logs:
            assert numbers(list(logs.batches(0))) == [5]
