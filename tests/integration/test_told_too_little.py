"""A page that lost a group, with headers that agree, cannot be told from a whole one: only a second pull
finds it, and a replace brings the rest without calling anything strange.
"""

import base64
from typing import Any

import pyarrow as pa
import pytest
from aliyun.log.log_logs_raw_pb2 import LogGroupListRaw
from pyiceberg.expressions import And, EqualTo

from pipelines.cli.main import EXIT_FAILED
from pipelines.landing.commit.planned import Tools
from pipelines.landing.operations.replace import Replacement, execute_replace, plan_replace
from sls_io.values.errors import ConfigError, LedgerBroken, TransportError
from sls_io.values.window import cursor_to_wire
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, World
from tests.worlds.printed_cures import printed, run_as_printed, ways

HERE = "0" * 32
FIRST, SECOND = range(HOUR0, HOUR0 + 1), range(HOUR0 + 1, HOUR0 + 2)


def keep_back(world: World, *, shown: slice = slice(2), less: int = 1, **aimed: Any) -> None:
    """Of the groups of a page only these of shard 0 are shown, `less` are not; both headers speak of these.
    Twice: a page whose cursors are more than its groups is pulled again before it is believed."""
    told = LogGroupListRaw()
    for stored in list(world.emulator.admin.dump(PROJECT, "access_logs"))[shown]:
        told.LogGroups.add().ParseFromString(base64.b64decode(stored["raw"]))
    headers = {"x-log-count": str(len(told.LogGroups)), "x-log-bodyrawsize": str(told.ByteSize())}
    world.emulator.admin.fault("short", call="pull_logs", shard=0, groups=less, times=2, **aimed)
    world.emulator.admin.fault("headers", call="pull_logs", shard=0, headers=headers, times=2, **aimed)


@pytest.fixture
def short(world: World) -> World:
    """Fifteen logs in one hour, of which ten landed; five in the next, which landed."""
    world.put(15, key=HERE)
    keep_back(world)
    world.at(HOUR0_S + 180)
    assert world.land().rows == 10
    world.at(HOUR0_S + 3600)
    assert world.land_more(5, until_s=HOUR0_S + 3600 + 180).rows == 5
    return world


def replaced(world: World, hours: range = FIRST) -> Replacement:
    with world.client as client:
        planned = plan_replace(world.lake, world.logstore, client, hours)
        return execute_replace(world.lake, planned, Tools(engine=world.engine))[1]


def delete_one(world: World, hour: int) -> pa.Table:
    """A row of the hour leaves by hand; returns it."""
    of_hour = EqualTo(term="__receive_hour__", value=hour * 3600 * 1_000_000)
    row = world.table.scan(row_filter=of_hour).to_arrow().slice(0, 1)
    cursor, index = row["__cursor__"][0].as_py(), row["__index__"][0].as_py()
    world.table.delete(
        And(
            EqualTo(term="__shard__", value=0),
            EqualTo(term="__cursor__", value=cursor),
            EqualTo(term="__index__", value=index),
        )
    )
    return row


def test_a_second_pull_finds_it_and_the_cure_that_is_printed_makes_the_table_whole(
    short: World, command: Command
) -> None:
    assert short.proof().ok, "what the ledger says of it agrees with the table"

    said = command("verify", "--pull")

    assert said["code"] == EXIT_FAILED
    assert "the table holds 10 rows, the service 15" in str(said["shards"])
    (cure,) = [call for way in ways(said) for call in printed(way) if call[0] == "backfill"]
    run_as_printed(short, command, cure)
    assert short.ledger.shards[0].rows == 20
    assert command("verify", "--pull")["ok"]
    assert short.land_more(5, pass_s=3600).rows == 5
    short.assert_whole()


def test_it_is_told_of_which_shard_more_came(short: World) -> None:
    done = replaced(short)

    (said,) = [note for note in done.said() if note.level == "warn"]
    assert said.text.startswith("shard 0: 5 rows more came than had landed")
    (shard,) = [each for each in done.shards if each.shard == 0]
    assert (shard.rows_after, done.rows) == (20, 10)
    assert [note for note in replaced(short).said() if note.level == "warn"] == [], "now they are the same"
    short.assert_whole()


def test_a_replace_that_is_told_too_little_takes_no_row_away(short: World) -> None:
    replaced(short)
    keep_back(short)
    before = short.table.metadata.current_snapshot_id

    with pytest.raises(TransportError, match="shard 0: the service gives 5 rows fewer of these hours"):
        replaced(short)

    assert short.table.metadata.current_snapshot_id == before
    replaced(short)
    short.assert_whole()


def test_a_row_that_left_by_hand_is_brought_back_before_the_ledger_goes_up(short: World) -> None:
    """While a row of another hour is missing, nobody could tell five rows that come from strange ones."""
    delete_one(short, SECOND.start)
    with pytest.raises(LedgerBroken, match="5 rows more came than had landed, and bronze"):
        replaced(short)

    replaced(short, SECOND)
    assert short.ledger.shards[0].rows == 15, "the ledger was right of that hour"
    replaced(short)

    assert short.ledger.shards[0].rows == 20
    short.assert_whole()


def test_what_comes_more_in_one_hour_does_not_pay_for_what_lacks_in_another(short: World) -> None:
    """Five more come in the first hour; of the twelve of the third the service shows eight."""
    hours = range(HOUR0, HOUR0 + 3)
    short.at(HOUR0_S + 7200)
    short.put(12, key=HERE, logs_a_group=4, until_s=HOUR0_S + 7200 + 180)
    assert short.land().rows == 12
    before = short.table.metadata.current_snapshot_id
    with short.client as client:
        begin = cursor_to_wire(client.cursor_at(0, hours[-1] * 3600))
    keep_back(short, shown=slice(4, 6), query={"cursor": begin})

    with pytest.raises(TransportError, match="shard 0: the service gives 4 rows fewer of these hours"):
        replaced(short, hours)

    assert short.table.metadata.current_snapshot_id == before
    replaced(short, hours)
    short.assert_whole()


def test_nothing_is_replaced_where_retention_may_have_taken_what_leaves(world: World) -> None:
    """Of a page that was short nobody knows which cursors its groups have: their rows may be those that the
    service has no more."""
    short = world
    short.put(20, key=HERE)
    keep_back(short, less=2)
    short.at(HOUR0_S + 180)
    assert short.land().rows == 10
    short.at(HOUR0_S + 3600 + 180)
    assert short.land().rows == 0
    with short.client as client:
        begin = client.head(client.shards()[0]).begin
    short.emulator.admin.retain(PROJECT, "access_logs", shard=0, before_cursor=begin + 1)
    before = short.table.metadata.current_snapshot_id

    with pytest.raises(ConfigError, match="retention may have taken a part of these hours"):
        replaced(short)

    assert short.table.metadata.current_snapshot_id == before
