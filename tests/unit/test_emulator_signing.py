"""Signatures: vectors made with the vendor's Python SDK are accepted, and nothing else is."""

import base64
import hashlib
import hmac
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from aliyun.log.auth import AuthV1, AuthV4
from aliyun.log.credentials import StaticCredentialsProvider

from sls_io.emulator.signing import Key, SignedRequest, SigningKeys, v1_text, v4_signature
from sls_io.emulator.storage.refusal import Refused

SKEW_S = 900
ID, SECRET, TOKEN = "an-id", "a-secret", "a-token+/="
REQUESTS: dict[str, tuple[str, str, dict[str, Any], dict[str, str], bytes]] = {
    "list": ("GET", "/logstores", {"offset": 0, "size": 500, "logstoreName": ""}, {}, b""),
    "pull": (
        "GET",
        "/logstores/a_b/shards/0",
        {"type": "log", "cursor": "MTYxNDc1MDAyNzM3MzIwNTcxNA==", "count": 1000},
        {"Accept-Encoding": "lz4", "Accept": "application/x-protobuf"},
        b"",
    ),
    "put": (
        "POST",
        "/logstores/a_b/shards/lb",
        {},
        {"x-log-bodyrawsize": "9", "Content-Type": "application/x-protobuf", "x-log-compresstype": "lz4"},
        b"\x0a\x02\x08\x01\xff",
    ),
    "heartbeat": (
        "POST",
        "/logstores/a_b/consumergroups/g.1",
        {"type": "heartbeat", "consumer": "c 1/~ü%"},
        {"Content-Type": "application/json"},
        b"[0, 1]",
    ),
    "root": ("GET", "/", {}, {}, b""),
}


def signed(
    name: str, version: str, *, secret: str = SECRET, token: str = "", hashed: bool = True
) -> tuple[SignedRequest, float]:
    """A request as the SDK signs it, and the moment it says it was signed."""
    method, path, query, headers, body = REQUESTS[name]
    sent = {**headers, "x-log-apiversion": "0.6.0", "Host": "demo.sls.emu", "Content-Length": str(len(body))}
    if not body:
        sent["x-log-bodyrawsize"] = "0"
    provider = StaticCredentialsProvider(ID, secret, token)
    auth = AuthV1(provider) if version == "v1" else AuthV4(provider, "cn-x")
    auth.sign_request(method, path, query, sent, body, compute_content_hash=hashed)
    lower = {k.lower(): v for k, v in sent.items()}
    texts = {k: str(v) for k, v in query.items()}
    date = lower["x-log-date"]
    moment = (
        parsedate_to_datetime(date)
        if version == "v1"
        else datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    )
    return SignedRequest(method, path, texts, lower, body), moment.timestamp()


def refusal(request: SignedRequest, now: float, keys: SigningKeys | None = None) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        (keys or SigningKeys(ID, SECRET)).verify(request, now, SKEW_S)
    return refused.value.status, refused.value.code


@pytest.mark.parametrize("version", ["v1", "v4"])
@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize("hashed", [True, False])
def test_the_vendors_signature_is_accepted(name: str, version: str, token: str, hashed: bool) -> None:
    request, now = signed(name, version, token=token, hashed=hashed)
    SigningKeys(ID, SECRET, token).verify(request, now, SKEW_S)


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_a_wrong_secret_is_refused_without_naming_it(version: str) -> None:
    request, now = signed("pull", version, secret="another-secret")
    with pytest.raises(Refused) as refused:
        SigningKeys(ID, SECRET).verify(request, now, SKEW_S)
    assert (refused.value.status, refused.value.code) == (401, "SignatureNotMatch")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("version", ["v1", "v4"])
@pytest.mark.parametrize(
    "change",
    [
        {"method": "DELETE"},
        {"path": "/logstores/a_b/shards/route"},
        {"query": {"key": "0"}},
        {"body": b"other"},
    ],
    ids=lambda c: next(iter(c)),
)
def test_whatever_was_signed_cannot_change(version: str, change: dict[str, Any]) -> None:
    request, now = signed("put", version)
    assert refusal(replace(request, **change), now) == (401, "SignatureNotMatch")
    header = {**request.headers, "x-log-bodyrawsize": "10"}
    assert refusal(replace(request, headers=header), now) == (401, "SignatureNotMatch")


@pytest.mark.parametrize("version", ["v1", "v4"])
@pytest.mark.parametrize("off_s", [-SKEW_S - 1, SKEW_S + 1])
def test_a_request_of_another_time_is_refused(version: str, off_s: int) -> None:
    request, now = signed("list", version)
    assert refusal(request, now + off_s) == (400, "RequestTimeExpired")
    SigningKeys(ID, SECRET).verify(request, now + off_s - off_s / abs(off_s), SKEW_S)


@pytest.mark.parametrize("version", ["v1", "v4"])
def test_temporary_keys_need_their_token_and_end(version: str) -> None:
    keys = SigningKeys("other", "pair")
    request, now = signed("list", version, token=TOKEN)
    assert refusal(request, now, keys) == (401, "Unauthorized")
    keys.add(ID, Key(SECRET, TOKEN, now + 10))
    keys.verify(request, now, SKEW_S)
    with pytest.raises(Refused, match="The security token you provided has expired") as ended:
        keys.verify(request, now + 11, SKEW_S)
    assert (ended.value.status, ended.value.code) == (401, "Unauthorized")
    without, now = signed("list", version)
    assert refusal(without, now, keys) == (401, "Unauthorized")
    wrong, now = signed("list", version, token="wrong")
    assert refusal(wrong, now, keys) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("version", "header", "value", "status", "code"),
    [
        ("v1", "authorization", None, 401, "Unauthorized"),
        ("v1", "authorization", "Basic x", 401, "Unauthorized"),
        ("v1", "authorization", "LOG nonsense", 401, "InvalidAccessKeyId"),
        ("v1", "x-log-apiversion", None, 400, "MissingAPIVersion"),
        ("v1", "x-log-apiversion", "9", 400, "InvalidAPIVersion"),
        ("v1", "x-log-signaturemethod", None, 400, "MissingSignatureMethod"),
        ("v1", "x-log-signaturemethod", "md5", 400, "InvalidSignatureMethod"),
        ("v1", "x-log-date", "yesterday", 400, "InvalidRequestTime"),
        ("v4", "x-log-date", None, 400, "MissingDate"),
        ("v4", "x-log-date", "yesterday", 400, "InvalidRequestTime"),
        ("v4", "authorization", "SLS4-HMAC-SHA256 x", 401, "SignatureNotMatch"),
        ("v4", "authorization", "SLS4-HMAC-SHA256 Credential=a/b/c/d,Signature=é", 401, "SignatureNotMatch"),
    ],
)
def test_a_broken_header_has_its_own_code(
    version: str, header: str, value: str | None, status: int, code: str
) -> None:
    request, now = signed("list", version)
    headers = {k: v for k, v in request.headers.items() if k != header} | ({header: value} if value else {})
    assert refusal(replace(request, headers=headers), now) == (status, code)


def test_a_request_without_any_date_is_refused() -> None:
    request, now = signed("list", "v1")
    headers = {k: v for k, v in request.headers.items() if k not in ("date", "x-log-date")}
    assert refusal(replace(request, headers=headers), now) == (400, "MissingDate")


def test_a_client_that_sends_only_date_is_accepted() -> None:
    """Go and Java do not send x-log-date in v1."""
    request, now = signed("list", "v1")
    headers = {k: v for k, v in request.headers.items() if k != "x-log-date"}
    SigningKeys(ID, SECRET).verify(replace(request, headers=headers), now, SKEW_S)


def test_a_v4_signature_is_what_it_always_was() -> None:
    headers = {
        "host": "demo.sls.emu", "x-log-apiversion": "0.6.0", "x-log-date": "20261120T000000Z",
        "x-log-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "x-log-meta-x": "not signed", "user-agent": "not signed",
    }  # fmt: skip
    request = SignedRequest("GET", "/logstores", {"offset": "0", "logstoreName": ""}, headers, b"")
    provider = StaticCredentialsProvider(ID, SECRET)
    vendor = AuthV4(provider, "cn-x")._do_sign_request(
        "GET", "/logstores", {"offset": 0, "logstoreName": ""},
        {k: v for k, v in headers.items() if "meta" not in k and k != "user-agent"}, b"", "20261120T000000Z",
    )  # fmt: skip
    assert vendor.endswith("Signature=" + v4_signature(request, SECRET, "20261120", "cn-x"))


def test_v1_may_sign_by_sha256_as_the_vendors_openapi_sdks_do() -> None:
    request, now = signed("heartbeat", "v1")
    named = replace(request, headers={**request.headers, "x-log-signaturemethod": "hmac-sha256"})
    assert refusal(named, now) == (401, "SignatureNotMatch"), "it is the SHA-1 one still"
    digest = hmac.new(SECRET.encode(), v1_text(named).encode(), hashlib.sha256).digest()
    headers = {**named.headers, "authorization": f"LOG {ID}:{base64.b64encode(digest).decode()}"}
    SigningKeys(ID, SECRET).verify(replace(named, headers=headers), now, SKEW_S)
    unknown = replace(request, headers={**request.headers, "x-log-signaturemethod": "hmac-md5"})
    assert refusal(unknown, now) == (400, "InvalidSignatureMethod")
