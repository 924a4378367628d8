"""Every call that a run makes meets every fault of a network and of a busy service.

Once: the run gets over it. Lasting: the run ends with one error of ours, or puts off what can be put off,
and nothing has moved that is not in the table. Either way the next run leaves everything whole.
"""

import threading
from typing import Any

import pytest

from sls_io.values.errors import SlsError
from tests.worlds.one_logstore import World
from tests.worlds.two_runs import At

CLAIMING = ("list_groups", "heartbeat")
PLANNING = ("get_logstore", "list_shards", "get_cursor", "get_cursor_time")
PULLING = ("pull_logs",)
CHECKPOINTS = ("get_checkpoints", "save_checkpoint")
LOOKS_MAX = 500
KINDS: dict[str, tuple[dict[str, Any], ...]] = {
    "request_lost": ({"do": "drop_request"},),
    "reply_lost": ({"do": "drop_reply"},),
    "late": ({"do": "duplicate"}, {"do": "delay_reply", "delay_s": 0.3}),
    "refused": (
        {"do": "error", "status": 500},
        {"do": "error", "status": 429, "code": "TooManyRequests"},
    ),
}


@pytest.mark.parametrize(
    ("calls", "kind"),
    [
        pytest.param(CLAIMING, "request_lost", id="claim-lost", marks=pytest.mark.fault("4a.1.request_lost")),
        pytest.param(
            CLAIMING, "reply_lost", id="claim-unanswered", marks=pytest.mark.fault("4a.1.reply_lost")
        ),
        pytest.param(CLAIMING, "late", id="claim-late", marks=pytest.mark.fault("4a.1.late")),
        pytest.param(CLAIMING, "refused", id="claim-refused", marks=pytest.mark.fault("4a.1.refused")),
        pytest.param(PLANNING, "request_lost", id="plan-lost", marks=pytest.mark.fault("4a.2.request_lost")),
        pytest.param(
            PLANNING, "reply_lost", id="plan-unanswered", marks=pytest.mark.fault("4a.2.reply_lost")
        ),
        pytest.param(PLANNING, "late", id="plan-late", marks=pytest.mark.fault("4a.2.late")),
        pytest.param(PLANNING, "refused", id="plan-refused", marks=pytest.mark.fault("4a.2.refused")),
        pytest.param(PULLING, "request_lost", id="pull-lost", marks=pytest.mark.fault("4a.3.request_lost")),
        pytest.param(PULLING, "reply_lost", id="pull-unanswered", marks=pytest.mark.fault("4a.3.reply_lost")),
        pytest.param(PULLING, "late", id="pull-late", marks=pytest.mark.fault("4a.3.late")),
        pytest.param(PULLING, "refused", id="pull-refused", marks=pytest.mark.fault("4a.3.refused")),
    ],
)
def test_a_fault_that_passes_costs_a_try(started: World, calls: tuple[str, ...], kind: str) -> None:
    rows = 60
    for call in calls:
        for fault in KINDS[kind]:
            asked = started.fault(call=call, **fault)

            report = started.land()

            assert started.emulator.admin.wait(asked, 1)["hits"] == 1, (call, fault)
            assert report.rows == rows, (call, fault)
            started.put(rows := 10, pass_s=60)
    started.assert_next_lands(10)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        pytest.param(
            "heartbeat", {"do": "drop_request"}, id="join", marks=pytest.mark.fault("4a.1.request_lost")
        ),
        pytest.param(
            "list_shards", {"do": "drop_reply"}, id="shards", marks=pytest.mark.fault("4a.2.reply_lost")
        ),
        pytest.param(
            "get_cursor",
            {"do": "error", "status": 500},
            id="cursor",
            marks=pytest.mark.fault("4a.2.refused"),
        ),
        pytest.param(
            "pull_logs", {"do": "drop_request"}, id="pull", marks=pytest.mark.fault("4a.3.request_lost")
        ),
        pytest.param(
            "pull_logs",
            {"do": "error", "status": 400, "code": "NoSuchThing"},
            id="pull-refused",
            marks=pytest.mark.fault("4a.3.refused"),
        ),
    ],
)
def test_a_fault_that_stays_is_one_error_and_nothing_moves(
    started: World, call: str, fault: dict[str, Any]
) -> None:
    before, checkpoints = started.table.metadata.current_snapshot_id, started.checkpoints()
    asked = started.fault(call=call, times=None, **fault)

    with pytest.raises(SlsError, match=fault.get("code", ".")) as raised:
        started.land()

    assert "\n" not in str(raised.value)
    started.emulator.admin.remove(asked)
    assert started.table.metadata.current_snapshot_id == before
    assert started.checkpoints() == checkpoints
    started.assert_next_lands(60)


@pytest.mark.fault("4a.1.late", "4a.3.late")
@pytest.mark.parametrize("call", ["heartbeat", "pull_logs"])
def test_an_answer_after_the_deadline_is_nobodys(started: World, call: str) -> None:
    """The held answer comes when the run is over; its connection is not used again."""
    held = started.fault(do="hold_reply", call=call)
    group = {**started.logstore.group.model_dump(), "patience_s": 5}

    report = started.land(logstore=started.changed(group=group))
    started.emulator.admin.release(held)

    assert report.rows == 60
    started.assert_next_lands(0)


@pytest.mark.fault("4a.2.late", "4b.overlap.commit")
def test_a_plan_from_answers_that_came_late_is_refused_at_the_commit(started: World) -> None:
    """An answer of the survey is held; until it comes, a run of the same name has landed everything."""
    won: list[int] = []

    def meanwhile() -> None:
        held = started.fault(do="hold_reply", call="get_cursor")
        threads.append(threading.Thread(target=overtake, args=(held,)))
        threads[0].start()

    def overtake(held: int) -> None:
        started.emulator.admin.wait(held)
        won.append(started.land().rows)
        started.emulator.admin.release(held)

    threads: list[threading.Thread] = []
    patient = started.changed(service={**started.logstore.service.model_dump(), "read_timeout_s": 60.0})
    late = started.land(logstore=patient, on_event=At("survey", meanwhile))
    threads[0].join(60)

    assert won == [60]
    assert (late.rows, late.replans, late.snapshot_id) == (0, 0, None), "it lets go"
    started.assert_next_lands(0)


@pytest.mark.parametrize(
    ("kind", "at_once"),
    [
        pytest.param("request_lost", False, id="lost", marks=pytest.mark.fault("4a.6.request_lost")),
        pytest.param("reply_lost", False, id="unanswered", marks=pytest.mark.fault("4a.6.reply_lost")),
        pytest.param("late", True, id="late", marks=pytest.mark.fault("4a.6.late")),
        pytest.param("refused", True, id="refused", marks=pytest.mark.fault("4a.6.refused")),
    ],
)
def test_a_checkpoint_that_meets_a_fault_is_there_at_last_and_the_landing_stands(
    started: World, kind: str, at_once: bool
) -> None:
    """A write is not sent twice when nobody knows what became of it: that one waits for the next run."""
    for call in CHECKPOINTS:
        for fault in KINDS[kind]:
            asked = started.fault(call=call, **fault)

            assert started.land().rows == (60 if started.counter == 80 else 10)

            assert started.emulator.admin.wait(asked, 1)["hits"] == 1, (call, fault)
            if at_once:
                started.assert_whole()
            started.land()
            started.assert_whole()
            started.put(10, pass_s=60)


@pytest.mark.fault("4a.6.late")
def test_an_old_checkpoint_that_arrives_late_is_overwritten_by_the_next_run(started: World) -> None:
    """The service takes it: the name is the same. The table knows better."""
    held = started.fault(do="hold", call="save_checkpoint", shard=0)
    started.land()
    assert started.emulator.admin.wait(held)["hits"] == 1
    started.put(20, pass_s=60)
    frontier = started.ledger.shards[0].frontier
    started.land()
    assert (started.checkpoints()[0] or 0) > frontier

    started.emulator.admin.release(held)
    looks = (started.checkpoints()[0] == frontier for _ in range(LOOKS_MAX))
    assert any(looks), "the late one never arrived"
    started.land()

    started.assert_whole()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("request_lost", id="lost", marks=pytest.mark.fault("4a.7.request_lost")),
        pytest.param("reply_lost", id="unanswered", marks=pytest.mark.fault("4a.7.reply_lost")),
        pytest.param("late", id="late", marks=pytest.mark.fault("4a.7.late")),
        pytest.param("refused", id="refused", marks=pytest.mark.fault("4a.7.refused")),
    ],
)
def test_a_release_that_meets_a_fault_says_nothing_and_the_timeout_does_the_same(
    started: World, kind: str
) -> None:
    for fault in KINDS[kind]:
        faults: list[int] = []

        def begin(fault: dict[str, Any] = fault, faults: list[int] = faults) -> None:
            faults.append(started.fault(call="heartbeat", times=None, **fault))

        assert started.land(on_event=At("release", begin)).rows in (60, 10)
        assert started.emulator.admin.wait(faults[0], 1)["hits"] >= 1
        started.emulator.admin.remove(faults[0])
        started.assert_whole()
        started.put(10, pass_s=31)
    other = started.with_holder("another")
    assert started.land(logstore=other).rows == 10, "one timeout later the shards are free"
    started.assert_whole()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"do": "drop_request"}, id="lost", marks=pytest.mark.fault("4a.8.request_lost")),
        pytest.param({"do": "drop_reply"}, id="unanswered", marks=pytest.mark.fault("4a.8.reply_lost")),
        pytest.param({"do": "duplicate"}, id="doubled", marks=pytest.mark.fault("4a.8.late")),
        pytest.param(
            {"do": "error", "status": 503, "code": "ServerBusy"},
            id="refused",
            marks=pytest.mark.fault("4a.8.refused"),
        ),
    ],
)
def test_a_heartbeat_beside_the_work_that_meets_a_fault_costs_nothing(
    started: World, fault: dict[str, Any]
) -> None:
    """The writing begins when the renewing thread has met the fault."""
    names: list[str] = []
    met: list[dict[str, Any]] = []

    def on_event(name: str) -> None:
        names.append(name)
        if name == "write":
            asked = started.fault(call="heartbeat", **fault)
            met.append(started.emulator.admin.wait(asked))

    report = started.land(on_event=on_event)

    assert met[0]["hits"] == 1
    assert "claim.lost" not in names
    assert (report.rows, report.replans) == (60, 0)
    started.assert_whole()
