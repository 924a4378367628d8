"""The codes of the vendor's page of common errors, from the emulator to our client: what each makes it do."""

from collections.abc import Callable, Iterator

import pytest

from sls_io.emulator import Emulator, start
from sls_io.emulator.limits import Limits
from sls_io.emulator.signing import FAKE_ID, FAKE_SECRET
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ServiceError, Throttled
from sls_io.values.settings import Service
from sls_io.wire.client import SlsClient
from sls_io.wire.transport import Transport
from tests.worlds.one_log import LOGSTORE, ONE_LOG, PROJECT


class OtherClock(Clock):
    """The machine's clock, set to another time."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def now(self) -> float:
        return SYSTEM_CLOCK.now() + self._ahead_s

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()

    def sleep(self, duration_s: float) -> None:
        SYSTEM_CLOCK.sleep(duration_s)


@pytest.fixture(scope="module")
def service() -> Iterator[Emulator]:
    """One service, with one logstore of one log."""
    with start(key_pair=(FAKE_ID, FAKE_SECRET), limits=Limits(skew_s=900)) as running:
        with pytest.MonkeyPatch.context() as patch:
            keys(patch, FAKE_ID, FAKE_SECRET)
            with opened(running) as client:
                client.transport.create_project(PROJECT, "")
                client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=1)
                client.put_raw(ONE_LOG)
        yield running


def keys(patch: pytest.MonkeyPatch, access_id: str, secret: str, token: str = "") -> None:
    for name, value in (
        ("ACCESS_KEY_ID", access_id),
        ("ACCESS_KEY_SECRET", secret),
        ("SECURITY_TOKEN", token),
    ):
        patch.setenv(f"ALIBABA_CLOUD_{name}", value)


def opened(emulator: Emulator, clock: Clock = SYSTEM_CLOCK, **changed: str) -> SlsClient:
    found = Service.model_validate({
        "endpoint": emulator.endpoint, "project": PROJECT, "logstore": LOGSTORE, "tries_max": 2, **changed,
    })  # fmt: skip
    return SlsClient(found, transport=Transport(found, clock=clock))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys(monkeypatch, FAKE_ID, FAKE_SECRET)


Prepare = Callable[[Emulator, pytest.MonkeyPatch], None]


def _ended(emulator: Emulator, patch: pytest.MonkeyPatch) -> None:
    emulator.admin.add_key("sts", "its-secret", token="its-token", lasts_s=-1.0)
    keys(patch, "sts", "its-secret", "its-token")


def _unknown(_: Emulator, patch: pytest.MonkeyPatch) -> None:
    keys(patch, "nobody", "a-secret")


def _no_key(_: Emulator, patch: pytest.MonkeyPatch) -> None:
    keys(patch, "no key", "a-secret")


def _disabled(emulator: Emulator, _: pytest.MonkeyPatch) -> None:
    emulator.admin.disable(PROJECT)


def _other_host(emulator: Emulator, _: pytest.MonkeyPatch) -> None:
    """No name that our settings take is one: only a proxy that rewrites it."""
    emulator.admin.fault("error", call="list_shards", status=400, code="InvalidHost")


@pytest.mark.parametrize("region", ["", "cn-hangzhou"], ids=["v1", "v4"])
@pytest.mark.parametrize(
    ("prepare", "status", "code", "said"),
    [
        (_ended, 401, "Unauthorized", "the security token has ended.*name a profile or a function"),
        (_unknown, 401, "Unauthorized", "the access key id is unknown or disabled.*ACCESS_KEY_ID"),
        (_no_key, 401, "InvalidAccessKeyId", "does not accept the access key.*ACCESS_KEY_ID"),
        (_disabled, 403, "ProjectForbidden", f"Project {PROJECT} is disabled"),
        (_other_host, 400, "InvalidHost", "Check service.project"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_a_documented_refusal_is_said_with_its_cure(
    service: Emulator, monkeypatch: pytest.MonkeyPatch, prepare: Prepare, status: int, code: str, said: str,
    region: str,
) -> None:  # fmt: skip
    prepare(service, monkeypatch)
    try:
        with opened(service, region=region) as client:
            with pytest.raises(ServiceError, match=f"(?s){code}.*{said}") as caught:
                client.shards()
            assert (caught.value.code, caught.value.status) == (code, status)
            assert client.transport.retries == {}
    finally:
        service.admin.disable(PROJECT, disabled=False)


def test_a_project_that_is_disabled_can_still_be_looked_at(service: Emulator) -> None:
    service.admin.disable(PROJECT)
    try:
        with opened(service) as client:
            assert client.project()["status"] == "Disable"
    finally:
        service.admin.disable(PROJECT, disabled=False)
    with opened(service) as client:
        assert client.project()["status"] == "Normal" and len(client.shards()) == 1


@pytest.mark.parametrize("region", ["", "cn-hangzhou"], ids=["v1", "v4"])
def test_a_token_that_ended_is_renewed_inside_the_call(
    service: Emulator, monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    service.admin.add_key("first", "one", token="t1", lasts_s=3600.0)
    keys(monkeypatch, "first", "one", "t1")
    with opened(service, region=region) as client:
        assert len(client.shards()) == 1
        service.admin.add_key("first", "one", token="t1", lasts_s=-1.0)
        service.admin.add_key("second", "two", token="t2", lasts_s=3600.0)
        keys(monkeypatch, "second", "two", "t2")
        head = client.head(client.shards()[0])
        assert client.pull(0, head.begin).count == 1
        assert client.transport.retries == {"Unauthorized": 1}


@pytest.mark.parametrize("region", ["", "cn-hangzhou"], ids=["v1", "v4"])
@pytest.mark.parametrize("ahead_s", [-4000.0, 4000.0])
def test_a_request_of_another_time_is_sent_again_by_the_services_clock(
    service: Emulator, ahead_s: float, region: str
) -> None:
    with opened(service, OtherClock(ahead_s), region=region) as client:
        assert len(client.shards()) == 1
        assert client.transport.retries == {"RequestTimeExpired": 1}


def test_a_quota_is_said_as_documented_and_waited_for(service: Emulator) -> None:
    with opened(service) as client:
        head = client.head(client.shards()[0])
        for limits, said in (
            ({"shard_read_bytes_per_s": 1}, "ShardReadQuotaExceed"),
            ({"project_read_calls_per_min": 1}, "ReadQuotaExceed"),
        ):
            service.admin.limits(**limits)
            with pytest.raises(Throttled, match=said):
                for _ in range(10):  # an interval may end between two
                    client.pull(0, head.begin)
            service.admin.limits(**Limits().model_dump(include=set(limits)))
        assert set(client.transport.retries) == {"ShardReadQuotaExceed", "ReadQuotaExceed"}


def test_logs_that_are_deleted_softly_are_still_delivered(service: Emulator) -> None:
    body = b'{"from": 0, "to": 4000000000, "query": "*"}'
    with opened(service) as client:
        head = client.head(client.shards()[0])
        for rows in (b'{"affectedRows": 1}', b'{"affectedRows": 0}'):
            answer, _ = client.transport.exchange("POST", f"/logstores/{LOGSTORE}/deletelogs", body=body)
            assert answer == rows
        assert client.pull(0, head.begin).count == 1
