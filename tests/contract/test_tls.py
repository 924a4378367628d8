"""https as it is in production: a certificate that must be trusted, valid and of the right name."""

from pathlib import Path

import pytest

from sls_io import loggroup
from sls_io.client import SlsClient
from sls_io.emulator import Emulator
from sls_io.errors import ConnectFailed
from sls_io.settings import Service
from tests.contract.test_client import LOGSTORE, ONE_LOG, PROJECT
from tests.contract.tls_front import make_papers, tls_front


def service(endpoint: str, region: str = "") -> Service:
    return Service(endpoint=endpoint, project=PROJECT, logstore=LOGSTORE, region=region, tries_max=3)


@pytest.mark.parametrize("region", ["", "cn-hangzhou"], ids=["v1", "v4"])
def test_logs_go_over_https_on_pooled_connections(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    papers = make_papers(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(papers.authority))
    with tls_front(emulator.port, papers) as (endpoint, shaken):
        with SlsClient(service(endpoint, region)) as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=1)
            for _ in range(5):
                client.put_raw(ONE_LOG, compression="zstd")
            head = client.head(client.shards()[0])
            page = client.pull(0, head.begin, end=head.end)
        assert len(shaken) == 1, "one caller, one handshake"

    assert loggroup.decompress(page.body, page.compression, page.raw_bytes) == loggroup.frame(ONE_LOG) * 5


@pytest.mark.parametrize(
    ("trusted", "address", "days", "why"),
    [
        (False, "127.0.0.1", 1, "unable to get local issuer certificate"),
        (True, "127.0.0.2", 1, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        (True, "127.0.0.1", -1, "certificate has expired"),
    ],
    ids=["unknown authority", "another name", "over"],
)
def test_a_certificate_that_is_not_right_is_refused_at_once_and_nothing_is_sent(
    emulator: Emulator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trusted: bool,
    address: str,
    days: int,
    why: str,
) -> None:
    papers = make_papers(tmp_path, address=address, days=days)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(papers.authority))
    fault = emulator.admin.fault("observe", times=None)
    with (
        tls_front(emulator.port, papers) as (endpoint, _),
        SlsClient(service(endpoint)) as client,
        pytest.raises(ConnectFailed, match="shows no certificate we trust") as raised,
    ):
        client.shards()

    assert endpoint.removeprefix("https://") in str(raised.value)
    assert f"({why}); check the endpoint" in str(raised.value)
    assert not client.transport.retries, "the same request would fail the same way"
    assert [f["hits"] for f in emulator.admin.faults() if f["id"] == fault] == [0]
