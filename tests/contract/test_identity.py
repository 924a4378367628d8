"""Who keys are: STS asked at the right place and by its own signature; what fails is unknown and no more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.landing.doctor.service import of_service
from pipelines.landing.doctor.trial import Came, Grade
from pipelines.landing.logstore import Logstore
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.wire.client import SlsClient
from sls_io.wire.credentials import ENV_ID, ENV_SECRET, ENV_TOKEN
from tests.worlds.fake_aliyun import USER, FakeAliyun, fake_aliyun


@pytest.fixture
def aliyun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAliyun]:
    with fake_aliyun(tmp_path) as aliyun:
        monkeypatch.setenv("SSL_CERT_FILE", str(aliyun.authority))
        use(USER, monkeypatch)
        yield aliyun


def use(keys: tuple[str, ...], patch: pytest.MonkeyPatch) -> None:
    """They stand in the environment."""
    for name, value in zip((ENV_ID, ENV_SECRET, ENV_TOKEN), (*keys, ""), strict=False):
        patch.setenv(name, value)


def asked(port: int, host: str = "cn-hangzhou.log.aliyuncs.com") -> Came | str:
    """What the doctor's trial says with the proxy on that port."""
    service = {"endpoint": host, "project": "demo", "logstore": "logs", "proxy": f"http://127.0.0.1:{port}"}
    said = {"service": service, "group": "lake", "table": "bronze.logs", "start": "2026-01-01-00:00"}
    logstore = Logstore.model_validate(said)
    (question,) = (
        each
        for each in of_service(logstore, lambda: SlsClient(logstore.service), SYSTEM_CLOCK)
        if each.name == "identity"
    )
    assert ("sts-vpc." in question.sent) == ("-intranet" in host) and not question.needed
    return question.ask()


def test_a_user_and_a_role_are_named(aliyun: FakeAliyun, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(aliyun.port) == "RAMUser acs:ram::1234:user/reader of account 1234"
    keys = aliyun.keys()
    use((keys["AccessKeyId"], keys["AccessKeySecret"], keys["SecurityToken"]), monkeypatch)
    said = asked(aliyun.port, "cn-hangzhou-intranet.log.aliyuncs.com")
    assert said == "AssumedRoleUser acs:ram::1234:assumed-role/node-role/s of account 1234"
    assert aliyun.asked == ["GetCallerIdentity"] * 2


def test_a_refusal_is_unknown_and_repeats_nothing_that_was_signed(
    aliyun: FakeAliyun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_SECRET, "canary-of-another")
    said = asked(aliyun.port)
    assert isinstance(said, Came) and said.grade is Grade.NOTE and said.changes
    assert "SignatureDoesNotMatch" in said.text and "id-1" in said.text and "canary" not in said.text


@pytest.mark.parametrize("answer", [(200, "<html>a gateway</html>"), (200, {"Arn": 7}), (503, "")])
def test_an_answer_that_is_not_the_protocols_is_unknown(answer: tuple[int, str], aliyun: FakeAliyun) -> None:
    aliyun.fail["GetCallerIdentity"] = answer
    said = asked(aliyun.port)
    assert isinstance(said, Came) and said.grade is Grade.NOTE and "BadResponse" in said.text


def test_where_sts_cannot_be_reached_the_cure_stands_there(aliyun: FakeAliyun) -> None:
    said = asked(1)
    assert isinstance(said, Came) and said.grade is Grade.NOTE
    assert "127.0.0.1:1" in said.text and "sts.cn-hangzhou" in str(said.changes)
