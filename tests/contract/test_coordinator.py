"""One suite over all coordinators, over a real emulator; how they differ is data.

Time is moved by hand on both sides at once: `Time` is the coordinators' clock, and sleeping on it
moves the emulator's too.
"""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from sls_io.coordination.coordinator import Coordinator
from sls_io.coordination.database import Database
from sls_io.coordination.lease_store import SqlLeases
from sls_io.coordination.server_group import ServerGroup
from sls_io.coordination.sql_lease import SqlLease
from sls_io.coordination.static import Static
from sls_io.emulator import Admin, Emulator, start
from sls_io.values.clock import ManualClock
from sls_io.values.errors import ClaimLost, ConfigError, ServiceError, SlsError, TransportError
from sls_io.values.settings import Group, Service
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import Cursor
from sls_io.wire.client import SlsClient
from tests.contract.lease_databases import DATABASES, Databases

LOGSTORE, GROUP = "logs", "lake"
TIMEOUT_S = 30
PATIENT_S = 120.0


class Time(ManualClock):
    """A clock moved by hand that takes the emulator's with it."""

    def __init__(self, admin: Admin) -> None:
        super().__init__(now=admin.freeze())
        self._admin = admin
        self.slept: list[float] = []

    def sleep(self, duration_s: float) -> None:
        self.slept.append(duration_s)
        self.advance(duration_s)

    def advance(self, duration_s: float) -> None:
        super().advance(duration_s)
        self._admin.advance(duration_s)


@dataclass
class Place:
    """A logstore of four shards, its client, the time of both sides, and databases for leases."""

    admin: Admin
    client: SlsClient
    time: Time
    databases: Databases
    addresses: dict[str, str] = field(default_factory=dict)

    def group(self, holder: str = "a", **settings: object) -> ServerGroup:
        return ServerGroup(self.client, self.settings(holder, **settings), self.time)

    def leases(self, kind: str, holder: str = "a", **settings: object) -> SqlLease:
        if kind not in self.addresses:
            self.addresses[kind] = self.databases.new(kind)
        # The claims' time is moved by hand, the database's is the machine's: a slow one answers, too.
        database = Database(self.addresses[kind], deadline_s=PATIENT_S)
        signature = f"{self.client.service.project}/{LOGSTORE}"
        return SqlLease(
            SqlLeases(database, group=GROUP, signature=signature),
            self.settings(holder, **settings),
            lambda: {shard.id: 1 for shard in self.client.shards()},
            clock=self.time,
        )

    def settings(self, holder: str, **settings: object) -> Group:
        known: dict[str, object] = {
            "name": GROUP,
            "holder": holder,
            "timeout_s": TIMEOUT_S,
            "patience_s": 12.0,
        }
        return Group.model_validate(known | settings)

    def beats(self) -> Callable[[], list[dict[str, object]]]:
        """Watch heartbeats; the answer lists those seen so far."""
        fault = self.admin.fault("observe", call="heartbeat", times=None)
        return lambda: next(f["seen"] for f in self.admin.faults() if f["id"] == fault)


@contextmanager
def logstore_of(emulator: Emulator, project: str, databases: Databases) -> Iterator[Place]:
    """A new project on `emulator`, with the logstore in it."""
    service = Service(endpoint=emulator.endpoint, project=project, logstore=LOGSTORE, tries_max=2)
    with SlsClient(service) as client:
        client.transport.create_project(project, "")
        client.transport.create_logstore(project, LOGSTORE, ttl=30, shard_count=4)
        yield Place(emulator.admin, client, Time(emulator.admin), databases)
        emulator.admin.remove()


@pytest.fixture(scope="module")
def shared() -> Iterator[Emulator]:
    """One emulator for this file: each test has a project of its own, and time only moves on."""
    with start() as running:
        yield running


@pytest.fixture
def place(shared: Emulator, databases: Databases, request: pytest.FixtureRequest) -> Iterator[Place]:
    project = f"p-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:12]}"
    with logstore_of(shared, project, databases) as made:
        yield made


# --- the contract


@dataclass(frozen=True)
class Kind:
    """A coordinator, what it can do beyond the contract's minimum, and how what it asks is made to fail.

    `made(place, holder)` is a coordinator of that name; `unread` lets its checkpoints be unreadable from now
    on, `unheard` its releases.
    """

    name: str
    made: Callable[[Place, str], Coordinator]
    publishes: bool
    expires: bool
    exclusive: bool
    unread: Callable[[Place], object]
    unheard: Callable[[Place], object]

    def make(self, place: Place) -> Coordinator:
        return self.made(place, "a")


def _static(place: Place, holder: str) -> Coordinator:
    return Static(s.id for s in place.client.shards())


def _unread(place: Place) -> object:
    return place.admin.fault("error", call="get_checkpoints", times=None, status=500)


def _unheard(place: Place) -> object:
    return place.admin.fault("drop_request", call="heartbeat", times=None)


def _over_leases(database: str) -> Kind:
    def gone(place: Place) -> None:
        place.databases.drop_tables(place.addresses[database])

    return Kind(
        f"sql_lease-{database}",
        lambda place, holder: place.leases(database, holder),
        publishes=True,
        expires=True,
        exclusive=True,
        unread=gone,
        unheard=gone,
    )


_kind = partial(Kind, unread=_unread, unheard=_unheard)
KINDS = (
    _kind(
        "server_group",
        lambda place, holder: place.group(holder),
        publishes=True,
        expires=True,
        exclusive=True,
    ),
    _kind("static", _static, publishes=False, expires=False, exclusive=False),
    *map(_over_leases, DATABASES),
)
every = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
publishing = pytest.mark.parametrize("kind", [k for k in KINDS if k.publishes], ids=lambda k: k.name)
expiring = pytest.mark.parametrize("kind", [k for k in KINDS if k.expires], ids=lambda k: k.name)
exclusive = pytest.mark.parametrize("kind", [k for k in KINDS if k.exclusive], ids=lambda k: k.name)


@every
def test_a_claim_names_its_holder_and_its_shards_and_stands(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    claim = coordinator.claim()
    assert claim.holder == coordinator.holder
    assert claim.shards == {0, 1, 2, 3}
    assert claim.valid(place.time.monotonic())


@every
def test_renewing_in_time_keeps_the_shards(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    claim = coordinator.claim()
    for _ in range(10):
        place.time.advance(min(coordinator.renew_every_s, TIMEOUT_S / 3))
        claim = coordinator.renew()
    assert claim.shards == {0, 1, 2, 3}
    assert claim.valid(place.time.monotonic())


@every
def test_a_run_after_a_crash_finds_its_shards_still_its_own(kind: Kind, place: Place) -> None:
    kind.make(place).claim()
    assert kind.make(place).claim().shards == {0, 1, 2, 3}


@every
def test_a_run_after_a_release_finds_them_too(kind: Kind, place: Place) -> None:
    first = kind.make(place)
    first.claim()
    first.release()
    first.release()
    assert kind.make(place).claim().shards == {0, 1, 2, 3}
    assert first.claim().shards == {0, 1, 2, 3}


@every
def test_before_the_first_checkpoint_there_is_none_anywhere(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    coordinator.claim()
    assert set(coordinator.checkpoints().values()) <= {None}


@every
def test_a_checkpoint_is_published_or_refused_and_never_half(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    claim = coordinator.claim()
    cursor = place.client.cursor_at(1, "end")
    if kind.publishes:
        assert coordinator.checkpoint(1, cursor) == "sent"
        assert dict(kind.make(place).checkpoints()) == {s: cursor if s == 1 else None for s in claim.shards}
    else:
        with pytest.raises(ConfigError, match="never moves a checkpoint"):
            coordinator.checkpoint(1, cursor)
        assert coordinator.checkpoints() == {}


@publishing
def test_a_checkpoint_never_goes_back(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    coordinator.claim()
    end = place.client.cursor_at(1, "end")
    coordinator.checkpoint(1, Cursor(end + 1000))
    assert coordinator.checkpoint(1, end) == "ahead"
    again = kind.make(place)
    again.claim()
    assert again.checkpoint(1, end) == "ahead"
    assert again.checkpoint(1, Cursor(end + 1000)) == "sent"
    assert again.checkpoints()[1] == end + 1000


@publishing
def test_checkpoints_of_several_shards_may_be_sent_at_once(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    claim = coordinator.claim()
    for round_ in range(1, 9):
        sent = {shard: Cursor(100 * round_ + shard) for shard in claim.shards}
        assert {*side_by_side(lambda at: coordinator.checkpoint(*at), sent.items())} == {"sent"}
        assert dict(kind.make(place).checkpoints()) == sent
    before = {shard: Cursor(at - 1) for shard, at in sent.items()}
    assert {*side_by_side(lambda at: coordinator.checkpoint(*at), before.items())} == {"ahead"}


@publishing
def test_a_shard_that_is_not_held_gets_no_checkpoint(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    with pytest.raises(ClaimLost):
        coordinator.checkpoint(1, Cursor(1))
    coordinator.claim()
    with pytest.raises(ClaimLost):
        coordinator.checkpoint(17, Cursor(1))
    coordinator.release()
    with pytest.raises(ClaimLost):
        coordinator.checkpoint(1, Cursor(1))
    assert set(coordinator.checkpoints().values()) == {None}


@expiring
@pytest.mark.fault("4a.8.stop")
def test_a_silent_holder_stops_by_its_own_clock_and_may_claim_again(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    claim = coordinator.claim()
    place.time.advance(TIMEOUT_S)
    assert not claim.valid(place.time.monotonic())
    with pytest.raises(ClaimLost, match="Claim again"):
        coordinator.checkpoint(1, Cursor(1))
    with pytest.raises(ClaimLost, match="Claim again"):
        coordinator.renew()
    assert coordinator.claim().shards == {0, 1, 2, 3}


@publishing
def test_checkpoints_that_cannot_be_read_are_an_error_and_not_none(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    coordinator.claim()
    kind.unread(place)
    with pytest.raises(SlsError):
        coordinator.checkpoints()
    with pytest.raises(SlsError):
        coordinator.checkpoint(1, Cursor(5))


@every
@pytest.mark.fault("4a.7.request_lost")
def test_a_release_out_of_reach_says_nothing(kind: Kind, place: Place) -> None:
    coordinator = kind.make(place)
    coordinator.claim()
    kind.unheard(place)
    coordinator.release()


@exclusive
def test_two_holders_never_hold_one_shard_and_share_all_of_them(kind: Kind, place: Place) -> None:
    first, second = kind.made(place, "a"), kind.made(place, "b")
    assert first.claim().shards == {0, 1, 2, 3}
    first.renew()
    first.release()
    for _ in range(3):
        place.time.advance(1)
        try:
            wanted = second.claim().shards
            break
        except ClaimLost:
            first.claim()
            first.release()
    kept = first.claim().shards
    assert (len(wanted), len(kept)) == (2, 2)
    assert wanted | kept == {0, 1, 2, 3}
    assert second.renew().shards == wanted
    assert first.renew().shards == kept


@expiring
def test_a_holder_that_was_replaced_keeps_its_hands_off(kind: Kind, place: Place) -> None:
    first, second = kind.made(place, "a"), kind.made(place, "b")
    first.claim()
    assert first.checkpoint(1, Cursor(40)) == "sent"
    place.time.advance(TIMEOUT_S + 1)
    for _ in range(4):
        with contextlib.suppress(ClaimLost):
            if second.claim().shards == {0, 1, 2, 3}:
                break
    second.checkpoint(1, Cursor(50))
    with pytest.raises(ClaimLost):
        first.checkpoint(1, Cursor(60))
    assert second.checkpoints()[1] == 50


# --- what only the service's group does


def test_a_holder_alone_in_its_group_waits_for_nobody(place: Place) -> None:
    beats = place.beats()
    place.group().claim()
    assert place.time.slept == []
    assert len(beats()) == 2


def test_the_group_is_made_with_our_settings(place: Place) -> None:
    group = place.group()
    group.claim()
    (info,) = place.client.groups()
    assert (info.name, info.timeout_s, info.order) == (GROUP, TIMEOUT_S, True)
    assert group.drift == ()


def test_a_group_that_is_there_keeps_its_settings_and_its_timeout_is_the_one_that_counts(
    place: Place,
) -> None:
    place.client.create_group(Group(name=GROUP, timeout_s=20, heartbeat_s=5, order=False))
    group = place.group(timeout_s=60, heartbeat_s=8.0)
    claim = group.claim()
    (info,) = place.client.groups()
    assert (info.timeout_s, info.order) == (20, False)
    assert group.drift == (
        f"group '{GROUP}': timeout_s is 20, not 60",
        f"group '{GROUP}': order is False, not True",
    )
    assert claim.until_s == place.time.monotonic() + 20
    assert group.renew_every_s == pytest.approx(20 / 3)


def test_shards_move_to_a_second_holder_only_when_the_first_lets_go(place: Place) -> None:
    first, second = place.group("a"), place.group("b")
    first.claim()
    with pytest.raises(ClaimLost, match=r"'lake'.*'a' since .*ends by itself at .*30 s.*another group"):
        second.claim()
    assert sum(place.time.slept) <= 12.0

    kept = first.renew()
    assert kept.shards == {0, 1, 2, 3}, "a run goes on with shards that are asked back"
    for shard in kept.shards:
        assert first.checkpoint(shard, Cursor(7)) == "sent"

    first.release()
    wanted = second.claim().shards
    assert len(wanted) == 2
    assert first.claim().shards == {0, 1, 2, 3} - wanted
    assert second.renew().shards == wanted


def test_the_next_claim_of_the_same_run_lets_go_as_well(place: Place) -> None:
    first, second = place.group("a"), place.group("b")
    first.claim()
    with pytest.raises(ClaimLost):
        second.claim()
    first.renew()
    assert len(first.claim().shards) == 2
    assert len(second.claim().shards) == 2


def test_release_leaves_the_other_shards_with_the_name_until_the_timeout(place: Place) -> None:
    first, second = place.group("a"), place.group("b")
    first.claim()
    first.release()
    with pytest.raises(ClaimLost):
        second.claim()
    place.time.advance(TIMEOUT_S + 1)
    assert second.claim().shards == {0, 1, 2, 3}


@pytest.mark.fault("4a.6.stop", "4a.8.stop")
def test_a_holder_that_was_replaced_can_neither_renew_nor_publish(place: Place) -> None:
    first, second = place.group("a"), place.group("b")
    first.claim()
    # Only the service's clock moves: the first holder was frozen and does not know.
    place.admin.advance(TIMEOUT_S + 1)
    assert second.claim().shards == {0, 1, 2, 3}
    second.checkpoint(1, Cursor(50))
    with pytest.raises(ClaimLost, match="stays"):
        first.checkpoint(1, Cursor(60))
    with pytest.raises(ClaimLost, match="dropped 'a'"):
        first.renew()
    assert second.checkpoints()[1] == 50


def test_after_the_service_dropped_it_a_holder_joins_with_nothing(place: Place) -> None:
    group = place.group()
    group.claim()
    place.admin.advance(TIMEOUT_S + 1)
    with pytest.raises(ClaimLost):
        group.renew()
    beats = place.beats()
    assert group.claim().shards == {0, 1, 2, 3}
    assert len(beats()) == 2 and place.time.slept == []


def test_claiming_again_without_knowing_of_the_drop_works_at_once(place: Place) -> None:
    group = place.group()
    group.claim()
    place.admin.advance(TIMEOUT_S + 1)
    assert group.claim().shards == {0, 1, 2, 3}
    assert place.time.slept == []


@pytest.mark.fault("4a.8.refused")
def test_a_heartbeat_that_fails_leaves_the_claim_standing_until_its_time_is_over(place: Place) -> None:
    group = place.group()
    group.claim()
    fault = place.admin.fault("error", call="heartbeat", times=None, status=503, code="ServerBusy")
    for _ in range(2):
        place.time.advance(10)
        with pytest.raises(TransportError):
            group.renew()
    place.admin.remove(fault)
    claim = group.renew()
    assert claim.valid(place.time.monotonic() + TIMEOUT_S - 1)

    place.admin.fault("error", call="heartbeat", times=None, status=503, code="ServerBusy")
    place.time.advance(TIMEOUT_S)
    with pytest.raises(ClaimLost):
        group.renew()


@pytest.mark.fault("4a.8.late")
def test_the_time_of_a_claim_counts_from_when_the_heartbeat_was_sent(place: Place) -> None:
    group = place.group(heartbeat_s=8.0)
    group.claim()
    sent_s = place.time.monotonic()
    held = place.admin.fault("hold_reply", call="heartbeat")
    with ThreadPoolExecutor(1) as pool:
        renewed = pool.submit(group.renew)
        place.admin.wait(held)
        place.time.advance(5)
        place.admin.release(held)
        assert renewed.result().until_s == sent_s + TIMEOUT_S


@pytest.mark.fault("4a.1.refused")
def test_a_failed_join_is_tried_until_patience_ends(place: Place) -> None:
    place.group().claim()
    place.admin.fault("error", call="heartbeat", times=2, status=503, code="ServerBusy")
    assert place.group().claim().shards == {0, 1, 2, 3}
    place.admin.fault("error", call="heartbeat", times=None, status=503, code="ServerBusy")
    with pytest.raises(TransportError):
        place.group(patience_s=6.0).claim()


@pytest.mark.fault("4b.reshape.after")
def test_a_closed_parent_hands_on_to_its_children(place: Place) -> None:
    group = place.group()
    group.claim()
    place.admin.split(place.client.service.project, LOGSTORE, 1)
    assert group.claim().shards == {0, 1, 2, 3}
    end = place.client.cursor_at(1, "end")
    assert group.checkpoint(1, end) == "sent"
    assert group.claim().shards == {0, 2, 3, 4, 5}
    assert group.checkpoint(0, place.client.cursor_at(0, "end")) == "sent"


@pytest.mark.fault("4b.drain.after")
def test_a_parent_drained_before_its_split_is_closed_by_sending_the_same_again(place: Place) -> None:
    group = place.group()
    group.claim()
    end = place.client.cursor_at(1, "end")
    group.checkpoint(1, end)
    place.admin.split(place.client.service.project, LOGSTORE, 1)
    group.claim()
    if 1 in group.claim().shards:
        assert group.checkpoint(1, end) == "sent"
    assert {4, 5} <= group.claim().shards


def test_a_group_deleted_meanwhile_is_an_error(place: Place) -> None:
    group = place.group()
    group.claim()
    place.client.transport.delete_consumer_group(place.client.service.project, LOGSTORE, GROUP)
    with pytest.raises(ServiceError, match="ConsumerGroupNotExist"):
        group.renew()
    assert group.claim().shards == {0, 1, 2, 3}


def test_a_static_holder_needs_a_shard() -> None:
    with pytest.raises(ConfigError):
        Static(())
