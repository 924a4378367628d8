"""Which request a fault meets, and how often."""

from typing import Any

import pytest
from pydantic import ValidationError

from sls_io.emulator.faults import Faults, Wanted

FACTS: dict[str, Any] = {
    "call": "pull_logs",
    "project": "demo",
    "logstore": "logs",
    "shard": 3,
    "consumer": "",
}


@pytest.mark.parametrize(
    ("wanted", "meets"),
    [
        ({}, True),
        ({"call": "pull_logs", "shard": 3}, True),
        ({"call": "heartbeat"}, False),
        ({"shard": 0}, False),
        ({"project": "other"}, False),
        ({"logstore": "logs"}, True),
        ({"consumer": "c"}, False),
    ],
)
def test_a_fault_meets_what_it_names(wanted: dict[str, Any], meets: bool) -> None:
    faults = Faults()
    faults.add(Wanted(do="observe", **wanted))
    assert bool(faults.meet(FACTS)) is meets


@pytest.mark.parametrize(
    ("times", "after", "acted"), [(1, 0, [0]), (2, 1, [1, 2]), (None, 3, [3, 4, 5]), (1, 5, [5])]
)
def test_a_fault_acts_so_often_after_so_many(times: int | None, after: int, acted: list[int]) -> None:
    faults = Faults()
    fault = faults.add(Wanted(do="error", times=times, after=after))
    assert [i for i in range(6) if faults.meet({**FACTS, "at": i})] == acted
    assert [seen["at"] for seen in fault.seen] == acted
    assert fault.spent is (times is not None)


def test_a_seeded_chance_is_the_same_again() -> None:
    runs = []
    for _ in range(2):
        faults = Faults()
        faults.add(Wanted(do="error", times=None, chance=0.3, seed=7))
        runs.append([bool(faults.meet(FACTS)) for _ in range(200)])
    assert runs[0] == runs[1]
    assert 30 < sum(runs[0]) < 90


def test_several_faults_meet_in_the_order_asked_for_until_removed() -> None:
    faults = Faults()
    first = faults.add(Wanted(do="delay", times=None))
    faults.add(Wanted(do="error", times=None))
    assert [f.wanted.do for f in faults.meet(FACTS)] == ["delay", "error"]
    faults.remove(first.id)
    assert [f.wanted.do for f in faults.meet(FACTS)] == ["error"]
    faults.remove()
    assert faults.meet(FACTS) == []


@pytest.mark.parametrize(
    "wrong", [{"do": "explode"}, {"do": "error", "status": 200}, {"do": "error", "typo": 1}]
)
def test_a_fault_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Wanted(**wrong)
