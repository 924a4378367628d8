"""No content of a log stops a landing, and none is dropped: logs and groups that nobody can read, measure or
repeat, through a real emulator that stores whatever it is sent."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pipelines.landing.commit.planned import execute
from pipelines.landing.ledger.place import look_at
from pipelines.landing.maintenance.compact import (
    compactions,
    plan_compaction,
)
from pipelines.landing.operations.forget import plan_forget_where
from pipelines.landing.operations.mend import plan_mend
from sls_io.decoding.causes import Cause
from sls_io.emulator import Emulator
from sls_io.wire.loggroup import frame, varint
from tests.worlds.one_logstore import World, group

LOW = "0" * 32
EDGE = "\ud7ff" * 17
LOG = b"\x08\x05\x12\x06\x0a\x01k\x12\x01v"
ONE = frame(LOG)


@pytest.fixture
def lenient(shared_emulator: Emulator, quick: World) -> Iterator[World]:
    """A world whose service stores anything."""
    shared_emulator.admin.limits(check_groups=False)
    yield quick
    shared_emulator.admin.limits(check_groups=True)


def put(world: World, *groups: bytes) -> None:
    """LogGroups as they are, and a minute for them to be received."""
    with world.client as client:
        for raw in groups:
            client.put_raw(raw, key=LOW)
    world.emulator.admin.advance(60)


def by_place(world: World) -> list[dict[str, Any]]:
    """The rows in order."""
    return sorted(world.table_rows(), key=lambda r: (r["__cursor__"], r["__index__"]))


def assert_proved_by_a_second_pull(world: World) -> None:
    """The service and the table count the same rows."""
    proof = world.proof(pull=True)
    assert proof.ok, proof
    assert sum(shard.rows_pulled or 0 for shard in proof.shards) == len(world.table_rows())


@pytest.mark.parametrize("value", [EDGE, "\U0010ffff" * 20, "z" * 5000], ids=["d7ff", "10ffff", "long"])
def test_a_text_that_cannot_be_bounded_lands_and_rows_beside_it_can_be_forgotten_and_compacted(
    quick: World, value: str
) -> None:
    quick.logstore = quick.changed(columns={"n": "long", "s": "string"})
    put(quick, group([{"n": "1", "s": value}, {"n": "2", "s": "x"}], topic=value))
    assert quick.land().rows == 2
    put(quick, group([{"n": "3", "s": value}]))
    quick.assert_next_lands(1)
    quick.emulator.admin.advance(7200)
    quick.land()

    look = partial(look_at, quick.lake, quick.logstore.table)
    for each in compactions(look, plan_compaction(look())):
        execute(quick.lake, each.planned)
    quick.carried_out(plan_forget_where, "n = 2")

    assert [r["s"] for r in by_place(quick)] == [value, value]
    quick.assert_proved()


@pytest.mark.fault("4b.poison.pull", "4b.poison.stage")
def test_an_unknown_group_of_fields_beside_a_misfit_value_lands(quick: World) -> None:
    """The service takes it, readers of protobuf read it: it is a log like any other."""
    put(quick, group([{"n": "no number"}]) + b"\x7b\x08\x01\x7c", group([{"n": "1"}]))

    report = quick.land()

    assert (report.rows, report.error_rows, 0 in report.waits) == (2, 1, False)
    assert by_place(quick)[0]["__error__"] == "n is not long"
    quick.assert_whole()
    assert_proved_by_a_second_pull(quick)


@pytest.mark.fault("4b.poison.pull", "4b.poison.stage", "4b.poison.commit")
def test_what_nobody_can_read_is_landed_with_its_bytes_and_counted_by_both_pulls(lenient: World) -> None:
    broken = frame(LOG + b"\x7c")
    put(lenient, ONE * 2, ONE + broken + ONE, ONE + b"\x0e", b"\xff" * 40, ONE)

    report = lenient.land()

    assert (report.rows, report.error_rows, 0 in report.waits) == (8, 3, False)
    rows = [r for r in by_place(lenient) if r["__error__"]]
    assert [(r["__index__"], r["__error__"]) for r in rows] == [
        (1, Cause.UNREADABLE_LOG),
        (0, Cause.UNREADABLE_GROUP),
        (0, Cause.UNREADABLE_GROUP),
    ]
    assert [r["__raw__"] for r in rows] == [LOG + b"\x7c", ONE + b"\x0e", b"\xff" * 40]
    assert_proved_by_a_second_pull(lenient)
    planned = lenient.asked(plan_mend, lenient.hours)
    assert (planned.view.rows, planned.view.changed) == (3, 0)


@pytest.mark.parametrize("length", [2**64 - 1, 2**64 - 5, 2**63, 2**32])
@pytest.mark.parametrize("beside", [0, 20_000], ids=["small page", "large page"])
def test_a_length_that_runs_over_in_64_bits_costs_its_own_group_only(
    lenient: World, length: int, beside: int
) -> None:
    """The protobuf library panics at it, and a panic is no Exception."""
    put(lenient, ONE, b"\x1a" + varint(length), group([{"n": "2", "text": "x" * beside}]))

    report = lenient.land()

    assert (report.rows, report.error_rows, 0 in report.waits) == (3, 1, False)
    assert [r["__error__"] for r in by_place(lenient)] == [None, Cause.UNREADABLE_GROUP, None]
    assert_proved_by_a_second_pull(lenient)


@pytest.mark.parametrize("seconds", [2**32, 2**32 + 1_790_000_000, 2**35 - 1, 2**63, 2**64 - 1])
def test_a_time_of_over_32_bits_is_no_other_time(lenient: World, seconds: int) -> None:
    """Cut to 32 bits it may be written as short as it came: only its value tells."""
    late = b"\x08" + varint(seconds)
    put(lenient, ONE, frame(late))

    report = lenient.land()

    assert (report.rows, report.error_rows) == (2, 1)
    row = by_place(lenient)[1]
    assert row["__time__"] is None and "time" in row["__error__"] and row["__raw__"] == late


def test_a_page_with_something_unreadable_is_pulled_again_once_before_it_lands(lenient: World) -> None:
    """Bytes that come back the same are content."""
    put(lenient, ONE + frame(LOG + b"\x7c"))
    pulls = lenient.watch_pulls()

    assert lenient.land().error_rows == 1

    assert len(pulls.asked) == 2 and len(set(pulls.asked)) == 1


def test_a_key_that_is_declared_personal_later_takes_unreadable_bytes_with_it(lenient: World) -> None:
    secret = b"\x12\x10\x0a\x06secret\x12\x06canary"
    put(lenient, frame(LOG + secret + b"\x7c") + ONE, frame(secret) + b"\x7c", frame(LOG + b"\x7c"))
    assert lenient.land().error_rows == 3
    lenient.logstore = lenient.changed(columns={"n": "long", "status": "int", "secret": "hash"})
    with lenient.client as client:
        planned = plan_mend(lenient.lake, lenient.logstore, client, lenient.hours)
        assert planned.view.changed == 2
        execute(lenient.lake, planned)
        assert plan_mend(lenient.lake, lenient.logstore, client, lenient.hours).view.changed == 0

    rows = [r for r in by_place(lenient) if r["__error__"]]
    assert [r["__raw__"] is None for r in rows] == [True, True, False]
    assert [r["__error__"].endswith(Cause.WITHHELD) for r in rows] == [True, True, False]
    assert "canary" not in repr(rows)
    assert_proved_by_a_second_pull(lenient)


def test_forty_thousand_empty_logs_with_two_thousand_tags_land(quick: World) -> None:
    logs = frame(b"\x08\x05") * 40_000
    equal = b"\x32\x06\x0a\x01k\x12\x01v" * 2000
    distinct = b"".join(b"\x32" + frame(b"\x0a\x05t%04d\x12\x01v" % n)[1:] for n in range(2000))
    put(quick, logs + equal, logs + distinct)

    report = quick.land()

    assert (report.rows, report.error_rows) == (80_000, 80_000)
    rows = by_place(quick)
    assert {r["__error__"] for r in rows[:40_000]} == {"repeated tag k"}
    assert {r["__error__"] for r in rows[40_000:]} == {Cause.HEAD_ONCE}
    assert len(rows[40_000]["__tags__"]) == 2000 and rows[40_001]["__tags__"] is None
    quick.assert_whole()
