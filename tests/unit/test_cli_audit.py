"""The comparison that ends the demo: it must see every kind of fault, or its green says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from pipelines.cli.demo.audit import Audit, compare
from pipelines.cli.emulator_admin import Stored
from pipelines.cli.files.accesslog import ODD_EVERY, generated
from pipelines.cli.files.packing import Packer, unpack
from sls_io.values.window import HOUR_S

NOW_S = 1_763_700_000
DECLARED = {"status": "int", "latency_ms": "double"}
FIRST = ODD_EVERY - 3
"""Row numbers from here on; the third row has a latency that is no number."""

Row = dict[str, Any]


def stored_groups() -> list[Stored]:
    """Two groups of three rows in one shard, cursors 10 and 11."""
    packer = Packer("host", (("env", "test"),), group_rows=3)
    logs = (generated(1, FIRST + n, NOW_S) for n in range(6))
    return [Stored(0, 10 + n, NOW_S, packed.body) for n, packed in enumerate(packer.pack(logs, float(NOW_S)))]


def row_of(group: Stored, index: int) -> Row:
    """The row that the table must hold for a log, written out by hand."""
    parsed = unpack(group.body)
    log = parsed.Logs[index]
    contents = {content.Key: content.Value.decode() for content in log.Contents}
    odd = contents["latency_ms"] == "-"
    status = int(contents.pop("status"))
    latency = None if odd else float(contents.pop("latency_ms"))
    return {
        "__shard__": group.shard,
        "__cursor__": group.cursor,
        "__index__": index,
        "__receive_hour__": NOW_S // HOUR_S * HOUR_S * 1_000_000,
        "__time__": log.Time * 1_000_000,
        "__topic__": parsed.Topic,
        "__source__": parsed.Source,
        "__tags__": [("env", "test")],
        "__rest__": list(contents.items()),
        "__error__": "latency_ms: not a double" if odd else None,
        "__raw__": log.SerializeToString() if odd else None,
        "status": status,
        "latency_ms": latency,
    }


def rows_of(groups: list[Stored]) -> list[Row]:
    """All rows as they must be."""
    return [row_of(group, index) for group in groups for index in range(3)]


def audited(change: Callable[[list[Row]], object]) -> Audit:
    """The audit of a table that is right but for `change`."""
    groups = stored_groups()
    rows = rows_of(groups)
    change(rows)
    return compare(groups, rows, DECLARED)


def test_a_table_that_holds_every_log_once_is_ok() -> None:
    audit = audited(lambda rows: None)
    assert audit.ok
    assert (audit.stored, audit.landed, audit.same, audit.untyped) == (6, 6, 6, 1)


def test_the_order_of_the_rows_does_not_matter() -> None:
    assert audited(lambda rows: rows.reverse()).ok


def test_a_row_that_is_not_there_is_missing() -> None:
    audit = audited(lambda rows: rows.pop(4))
    assert not audit.ok
    assert audit.missing == 1
    assert audit.examples == ["shard 0, cursor 11: 1 of 3 logs not in the table"]


def test_a_row_that_is_there_twice_is_doubled() -> None:
    audit = audited(lambda rows: rows.append(rows[0]))
    assert not audit.ok
    assert audit.doubled == 1


def test_one_lost_and_another_doubled_do_not_cancel_out() -> None:
    def swap(rows: list[Row]) -> None:
        rows[1] = rows[0]

    audit = audited(swap)
    assert audit.stored == audit.landed
    assert not audit.ok
    assert (audit.missing, audit.doubled) == (1, 1)


@pytest.mark.parametrize("place", [{"__cursor__": 99}, {"__shard__": 7}, {"__index__": 3}])
def test_a_row_that_the_service_does_not_have_is_unknown(place: Row) -> None:
    audit = audited(lambda rows: rows.append({**rows[0], **place}))
    assert not audit.ok
    assert audit.unknown == 1


@pytest.mark.parametrize(
    "change",
    [
        {"status": 201},
        {"status": None},
        {"latency_ms": 1.5},
        {"__time__": 1},
        {"__receive_hour__": 0},
        {"__topic__": "other"},
        {"__source__": "other"},
        {"__tags__": []},
        {"__rest__": []},
        {"__raw__": b"\x08\x01"},
        {"__error__": "made up", "__raw__": b"\x08\x01"},
    ],
)
def test_content_that_differs_is_different_and_named_without_being_shown(change: Row) -> None:
    audit = audited(lambda rows: rows[0].update(change))
    assert not audit.ok
    assert audit.different == 1
    assert audit.examples[0].startswith("shard 0, cursor 10, log 0: ")
    assert "other" not in audit.examples[0]


def test_a_key_too_many_is_different() -> None:
    audit = audited(lambda rows: rows[0]["__rest__"].append(("more", "1")))
    assert audit.different == 1


def test_the_row_with_an_error_must_carry_the_very_log() -> None:
    groups = stored_groups()
    other = unpack(groups[1].body).Logs[0].SerializeToString()
    audit = audited(lambda rows: rows[2].update({"__raw__": other}))
    assert audit.different == 1
