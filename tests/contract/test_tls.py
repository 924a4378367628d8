"""https as it is in production: a certificate that must be trusted, valid and of the right name."""

import base64
import os
import re
import socket
import struct
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from sls_io.emulator import Emulator
from sls_io.values.errors import ConfigError, ConnectFailed, TransportTimeout
from sls_io.values.settings import Service
from sls_io.wire import loggroup
from sls_io.wire.client import SlsClient
from tests.contract.tls_front import carry_both, make_papers, tls_front
from tests.unit.scripted_service import raw_server
from tests.worlds.one_log import LOGSTORE, ONE_LOG, PROJECT

HANDSHAKE = b"\x16"
"""First byte of a TLS record that belongs to a handshake."""


def service(endpoint: str, region: str = "", **more: str) -> Service:
    return Service(endpoint=endpoint, project=PROJECT, logstore=LOGSTORE, region=region, tries_max=3, **more)


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


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_connection_that_is_cut_in_its_handshake_is_tried_again_also_for_a_write(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reset: bool
) -> None:
    """Nothing was sent, so the service cannot have acted on it."""
    papers, cuts, tried = make_papers(tmp_path), [2], list[dict[str, int]]()
    monkeypatch.setenv("SSL_CERT_FILE", str(papers.authority))

    def cut_first(connection: socket.socket, over: threading.Event) -> None:
        if cuts[0]:
            cuts[0] -= 1
            assert connection.recv(65536)[:1] == HANDSHAKE
            if reset:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        with socket.create_connection(("127.0.0.1", inside)) as inner:
            carry_both(connection, inner)

    with tls_front(emulator.port, papers) as (front, _), raw_server(cut_first) as outside:
        inside = int(front.rpartition(":")[2])
        endpoint = outside.replace("http:", "https:")
        with SlsClient(service(endpoint)) as client:
            client.transport.create_project(PROJECT, "")
            client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=1)
            tried.append(dict(client.transport.retries))
        cuts[0] = 2
        with SlsClient(service(endpoint)) as client:
            client.put_raw(ONE_LOG)
            tried.append(dict(client.transport.retries))
        cuts[0] = 100
        with SlsClient(service(endpoint)) as client, pytest.raises(ConnectFailed) as raised:
            client.shards()
    assert "closed the connection in the TLS handshake" in str(raised.value)
    assert "certificate" not in str(raised.value)
    assert cuts == [97], "three tries"
    assert tried == [{"ConnectFailed": 2}, {"ConnectFailed": 2}]


def stalls(connection: socket.socket) -> None:
    """Takes what comes and answers nothing, until the other side goes away."""
    while connection.recv(65536):
        pass


def test_a_handshake_that_stalls_is_tried_again_also_for_a_write(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent here, either: no words of a write that may have been carried out."""
    papers, stalled = make_papers(tmp_path), [1]
    monkeypatch.setenv("SSL_CERT_FILE", str(papers.authority))

    def stall_first(connection: socket.socket, over: threading.Event) -> None:
        if stalled[0]:
            stalled[0] -= 1
            return stalls(connection)
        with socket.create_connection(("127.0.0.1", inside)) as inner:
            carry_both(connection, inner)

    with tls_front(emulator.port, papers) as (front, _), raw_server(stall_first) as outside:
        inside = int(front.rpartition(":")[2])
        patient = service(outside.replace("http:", "https:")).model_copy(update={"read_timeout_s": 1.0})
        with SlsClient(patient) as client:
            client.transport.create_project(PROJECT, "")
            assert client.transport.retries == {"TransportTimeout": 1}
        stalled[0] = 100
        at_once = patient.model_copy(update={"tries_max": 1})
        with SlsClient(at_once) as client, pytest.raises(TransportTimeout) as raised:
            client.put_raw(ONE_LOG)
    assert "did not answer in time in the TLS handshake" in str(raised.value)
    assert "acted on it" not in str(raised.value)


def test_an_address_that_speaks_no_tls_is_not_said_to_show_a_certificate(emulator: Emulator) -> None:
    endpoint = emulator.endpoint.replace("http:", "https:")
    with SlsClient(service(endpoint)) as client, pytest.raises(ConnectFailed) as raised:
        client.shards()
    assert "or speaks no TLS" in str(raised.value) and "certificate" not in str(raised.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("who", ["", "us%40here:p%2Fw%C3%A4"], ids=["anybody", "a user"])
def test_a_proxy_of_the_settings_carries_everything_and_sees_nothing(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, who: str
) -> None:
    papers, heads, carried = make_papers(tmp_path), [], []
    monkeypatch.setenv("SSL_CERT_FILE", str(papers.authority))

    def tunnel(connection: socket.socket, over: threading.Event) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        heads.append(head)
        host, _, port = head.split()[1].decode().rpartition(":")
        with socket.create_connection((host, int(port))) as inner:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            carried.append(host)
            carry_both(connection, inner)

    with ExitStack() as servers:
        endpoint, shaken = servers.enter_context(tls_front(emulator.port, papers))
        proxy = servers.enter_context(raw_server(tunnel))
        if scheme == "https":
            proxy, _ = servers.enter_context(tls_front(int(proxy.rpartition(":")[2]), papers))
        monkeypatch.setenv("WAY_OUT", proxy.replace("://", f"://{who}@"))
        through = service(endpoint, proxy="env:WAY_OUT" if who else proxy)
        client = servers.enter_context(SlsClient(through))
        client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, LOGSTORE, ttl=30, shard_count=1)
        client.put_raw(ONE_LOG)
        head = client.head(client.shards()[0])
        page = client.pull(0, head.begin, end=head.end)
    assert loggroup.decompress(page.body, page.compression, page.raw_bytes) == loggroup.frame(ONE_LOG)
    assert len(heads) == len(shaken) == len(carried) == 1, "one tunnel for all calls"
    assert heads[0].startswith(f"CONNECT {endpoint.removeprefix('https://')} HTTP/1.".encode())
    said = re.findall(rb"Proxy-Authorization: Basic (.*)\r\n", heads[0])
    assert [base64.b64decode(one).decode() for one in said] == (["us@here:p/wä"] if who else [])
    assert b"\nAuthorization" not in heads[0] and PROJECT.encode() not in heads[0]


@pytest.mark.parametrize(
    "address", ["", "http://who:secret@", "who:secret@proxy:3128", "http://a:secret@b/c"]
)
def test_an_environment_without_the_proxys_address_is_named_and_nothing_of_it_said(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAY_OUT", address)
    with pytest.raises(ConfigError, match=r"environment variable WAY_OUT .*export") as raised:
        SlsClient(service("https://127.0.0.1:9", proxy="env:WAY_OUT"))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n",
            " answered 407; check service.proxy, its user and its password (`env:VARIABLE`), and that",
        ),
        (b"HTTP/1.1 403 No <secret>\r\nContent-Length: 0\r\n\r\n", " answered 403; check service.proxy"),
        (b"", " gave no tunnel (RemoteDisconnected); check service.proxy"),
        (b"nonsense\r\n\r\n", " gave no tunnel (BadStatusLine); check service.proxy"),
    ],
    ids=["407", "403", "nothing", "no http"],
)
def test_a_proxy_that_makes_no_tunnel_is_named_with_the_cure(answer: bytes, why: str) -> None:
    def refuse(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    at_once = Service(endpoint="https://127.0.0.1:9", project=PROJECT, logstore=LOGSTORE, tries_max=1)
    with (
        raw_server(refuse) as proxy,
        SlsClient(at_once.model_copy(update={"proxy": proxy})) as client,
        pytest.raises(ConnectFailed) as raised,
    ):
        client.shards()
    said = str(raised.value)
    assert f"the proxy {proxy.removeprefix('http://')}{why}" in said
    assert "secret" not in said


@pytest.mark.parametrize("tunnel", [False, True], ids=["before its answer", "behind the tunnel"])
def test_a_proxy_that_stalls_before_anything_was_sent_leaves_no_doubt_of_a_write(tunnel: bool) -> None:
    def stall(connection: socket.socket, over: threading.Event) -> None:
        assert connection.recv(65536).startswith(b"CONNECT ")
        if tunnel:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        stalls(connection)

    impatient = Service(endpoint="https://127.0.0.1:9", project=PROJECT, logstore=LOGSTORE, tries_max=2)
    waits = {"read_timeout_s": 0.2}
    with (
        raw_server(stall) as proxy,
        SlsClient(impatient.model_copy(update={"proxy": proxy, **waits})) as client,
        pytest.raises(TransportTimeout) as raised,
    ):
        client.put_raw(ONE_LOG)
    assert client.transport.retries == {"TransportTimeout": 1}, "tried again: nothing was sent"
    assert "acted on it" not in str(raised.value)
    assert ("in the TLS handshake" if tunnel else "gave no tunnel") in str(raised.value)


@pytest.mark.parametrize(
    ("proxy", "endpoint", "cure"),
    [
        (
            "http://user:secret@127.0.0.1:3128",
            "https://127.0.0.1:9",
            "with a user, put it into an environment variable",
        ),
        ("127.0.0.1:3128", "https://127.0.0.1:9", "expected http://HOST:PORT"),
        ("ftp://127.0.0.1:3128", "https://127.0.0.1:9", "expected http://HOST:PORT"),
        ("env:http://user:secret@proxy:1", "https://127.0.0.1:9", "a variable's name"),
        ("http://proxy.example", "https://127.0.0.1:9", "expected http://HOST:PORT"),
        ("http://127.0.0.1:3128", "http://127.0.0.1:9", "leave the proxy out"),
    ],
)
def test_a_proxy_that_cannot_be_is_refused_with_the_settings(proxy: str, endpoint: str, cure: str) -> None:
    with pytest.raises(ValueError, match=cure) as raised:
        Service(endpoint=endpoint, project=PROJECT, logstore=LOGSTORE, proxy=proxy)
    assert "secret" not in str(raised.value)


def test_a_client_that_lives_on_trusts_an_authority_that_is_added_later(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = make_papers(tmp_path)
    (old := tmp_path / "old").mkdir()
    bundle = make_papers(old).authority
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    with tls_front(emulator.port, papers) as (endpoint, _), SlsClient(service(endpoint)) as client:
        with pytest.raises(ConnectFailed, match="shows no certificate we trust"):
            client.transport.create_project(PROJECT, "")
        bundle.write_bytes(papers.authority.read_bytes() + bundle.read_bytes())
        client.transport.create_project(PROJECT, "")
        assert client.logstores() == []


def test_authorities_are_read_once_for_all_connections_and_anew_when_their_file_is(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers = make_papers(tmp_path)
    bundle, written = papers.authority, papers.authority.stat()
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    with tls_front(emulator.port, papers) as (endpoint, shaken):
        with SlsClient(service(endpoint)) as client:
            client.transport.create_project(PROJECT, "")
        # Who reads it again finds no certificate there.
        bundle.write_bytes(b"x" * written.st_size)
        os.utime(bundle, ns=(written.st_atime_ns, written.st_mtime_ns))
        with SlsClient(service(endpoint)) as client:
            assert client.logstores() == []
        os.utime(bundle, ns=(written.st_atime_ns, written.st_mtime_ns + 1))
        with SlsClient(service(endpoint)) as client, pytest.raises(ConnectFailed, match="no certificate"):
            client.logstores()
        assert len(shaken) == 2
