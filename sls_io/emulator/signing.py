"""Signature v1 (`LOG id:...`, by SHA-1 or SHA-256) and v4 (`SLS4-HMAC-SHA256`), verified by our own code.

Source of both formulas: requests of the vendor's Python, Go and Java SDKs, looked at on the wire.
v1 signs method, Content-MD5, Content-Type, Date, the `x-log-*` and `x-acs-*` headers but
`x-log-date`, path and decoded query. v4 signs method, path, encoded query, `x-log-*`, `x-acs-*`,
host and content type, and the hash of the body.

Not by the SDK's signing code, on purpose: the client under test signs with that, and a mistake of it would
be made twice and agree. The machine's clock is what a date is held against, never the emulator's own:
clients sign with theirs, and a test that moves the emulator by a year would lock everybody out.
"""

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate, parsedate_to_datetime
from urllib.parse import quote

from sls_io.emulator.policy import Policy
from sls_io.emulator.storage.refusal import Refused

FAKE_ID, FAKE_SECRET = "emulator-key", "emulator-secret"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_V4 = "SLS4-HMAC-SHA256"
_V1_DIGESTS = {"hmac-sha1": hashlib.sha1, "hmac-sha256": hashlib.sha256}
"""What v1 may sign with: the LogHub SDKs send the first, the vendor's OpenAPI SDKs the second."""
_ACCESS_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SCOPE_END = "sls/aliyun_v4_request"


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What is signed. `headers` have lower-case names; `query` and `path` are decoded."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Key:
    """A key pair; with a `token` it is temporary and ends at `expires_s` of the machine's clock. Without a
    `policy` it may do everything."""

    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires_s: float = float("inf")
    policy: Policy | None = None


class SigningKeys:
    """The key pairs that may sign."""

    def __init__(self, access_id: str, secret: str, token: str = "") -> None:
        self._keys = {access_id: Key(secret, token)}

    @staticmethod
    def from_environment() -> "SigningKeys":
        """ALIBABA_CLOUD_ACCESS_KEY_ID and _SECRET (and _SECURITY_TOKEN), else the documented fake pair."""
        access_id = os.environ.get("ALIBABA_CLOUD_ACCESS_KEY_ID", "")
        secret = os.environ.get("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "")
        if not access_id or not secret:
            return SigningKeys(FAKE_ID, FAKE_SECRET)
        return SigningKeys(access_id, secret, os.environ.get("ALIBABA_CLOUD_SECURITY_TOKEN", ""))

    def add(self, access_id: str, key: Key) -> None:
        """Let another pair sign."""
        self._keys[access_id] = key

    def verify(self, request: SignedRequest, wall_s: float, skew_s: int) -> Key:
        """The key. Raises Refused unless `request` is signed by a known one, at about `wall_s`."""
        if request.headers.get("x-log-apiversion") != "0.6.0":
            kind = "Invalid" if "x-log-apiversion" in request.headers else "Missing"
            raise Refused(400, f"{kind}APIVersion", "x-log-apiversion: expected 0.6.0")
        authorization = request.headers.get("authorization", "")
        if authorization.startswith(f"{_V4} "):
            access_id, expected, given = self._v4(request, authorization, wall_s, skew_s)
        elif authorization.startswith("LOG "):
            access_id, expected, given = self._v1(request, authorization, wall_s, skew_s)
        else:
            raise Refused(401, "Unauthorized", "no Authorization header of a known kind")
        if not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
            raise Refused(401, "SignatureNotMatch", f"signature {access_id[:64]} not match")
        return self._keys[access_id]

    def _key(self, access_id: str, request: SignedRequest, wall_s: float) -> Key:
        """Raises Refused as the vendor's page of error codes has it: a key's end is 401 Unauthorized, too."""
        if not _ACCESS_ID.fullmatch(access_id):
            raise Refused(401, "InvalidAccessKeyId", "The access key id you provided is invalid")
        key = self._keys.get(access_id)
        if key is None:
            raise Refused(401, "Unauthorized", f"AccessKeyId not found: {access_id}")
        if wall_s > key.expires_s:
            raise Refused(401, "Unauthorized", "The security token you provided has expired.")
        token = request.headers.get("x-acs-security-token", "")
        if not hmac.compare_digest(token.encode("utf-8", "replace"), key.token.encode()):
            raise Refused(401, "Unauthorized", "The security token you provided is invalid.")
        return key

    def _v1(
        self, request: SignedRequest, authorization: str, wall_s: float, skew_s: int
    ) -> tuple[str, str, str]:
        """(id of the key, the signature that is right, the one that was sent). What the signature is about is
        checked first: method, date, and the body's MD5 where there is one."""
        method = request.headers.get("x-log-signaturemethod")
        if method not in _V1_DIGESTS:
            kind = "Missing" if method is None else "Invalid"
            expected = " or ".join(_V1_DIGESTS)
            raise Refused(400, f"{kind}SignatureMethod", f"x-log-signaturemethod: expected {expected}")
        date = request.headers.get("date", "")
        clock_date = request.headers.get("x-log-date") or date
        if not clock_date:
            raise Refused(400, "MissingDate", "no Date header")
        try:
            _check_skew(parsedate_to_datetime(clock_date), wall_s, skew_s)
        except (ValueError, TypeError, OverflowError) as error:
            raise Refused(400, "InvalidRequestTime", "Request time not follow RFC822 spec.") from error
        md5 = request.headers.get("content-md5", "")
        if md5 and md5.upper() != hashlib.md5(request.body, usedforsecurity=False).hexdigest().upper():
            raise Refused(401, "SignatureNotMatch", "Content-MD5 is not that of the body")
        access_id, _, given = authorization.removeprefix("LOG ").rpartition(":")
        secret = self._key(access_id, request, wall_s).secret
        text = v1_text(request).encode("utf-8", "surrogateescape")
        digest = hmac.new(secret.encode(), text, _V1_DIGESTS[method])
        return access_id, base64.b64encode(digest.digest()).decode(), given.strip()

    def _v4(
        self, request: SignedRequest, authorization: str, wall_s: float, skew_s: int
    ) -> tuple[str, str, str]:
        """As `_v1`: the date within the clock's reach, the scope that fits it, and the body's hash, or the
        hash of nothing."""
        fields = dict(
            part.strip().partition("=")[::2] for part in authorization.removeprefix(f"{_V4} ").split(",")
        )
        access_id, _, scope = fields.get("Credential", "").partition("/")
        date, _, rest = scope.partition("/")
        region, _, end = rest.partition("/")
        moment = request.headers.get("x-log-date", "")
        if not moment:
            raise Refused(400, "MissingDate", "no x-log-date header")
        try:
            _check_skew(datetime.strptime(moment, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), wall_s, skew_s)
        except ValueError as error:
            raise Refused(400, "InvalidRequestTime", "x-log-date: expected yyyymmddThhmmssZ") from error
        if end != _SCOPE_END or date != moment[:8] or not region:
            raise Refused(401, "SignatureNotMatch", "Credential: expected id/yyyymmdd/region/" + _SCOPE_END)
        body_hash = request.headers.get("x-log-content-sha256", "")
        if body_hash not in (_EMPTY_SHA256, hashlib.sha256(request.body).hexdigest()):
            raise Refused(401, "SignatureNotMatch", "x-log-content-sha256 is not that of the body")
        secret = self._key(access_id, request, wall_s).secret
        return access_id, v4_signature(request, secret, date, region), fields.get("Signature", "")


def v1_text(request: SignedRequest) -> str:
    """The text that a v1 signature signs.

    Worked example: GetCursor of shard 0 without a body, at 14:13:20. The text is `GET`, two empty lines for
    MD5 and type, the date, `x-log-apiversion:0.6.0`, `x-log-bodyrawsize:0`,
    `x-log-signaturemethod:hmac-sha1`, and `/logstores/a/shards/0?from=begin&type=cursor`: the query sorted,
    and decoded, as v4's is not. `x-log-date` is left out, since the vendor's client adds it after signing.
    """
    signed = sorted(
        name for name in request.headers if name.startswith(("x-log-", "x-acs-")) and name != "x-log-date"
    )
    resource = request.path
    if request.query:
        resource += "?" + "&".join(f"{k}={request.query[k]}" for k in sorted(request.query))
    plain = (request.headers.get(name, "") for name in ("content-md5", "content-type", "date"))
    return "\n".join((request.method, *plain, *(f"{n}:{request.headers[n]}" for n in signed), resource))


def v4_signature(request: SignedRequest, secret: str, date: str, region: str) -> str:
    """The hexadecimal v4 signature of `request` by `secret`.

    Method, path, query, headers, their names, and the body's hash are one text; its hash, with the date and
    region it is good for, is signed by a key that is made of the secret, step by step, for that date and
    region alone.
    """
    signed = sorted(
        name
        for name in request.headers
        if name in ("host", "content-type")
        or (name.startswith(("x-log-", "x-acs-")) and not name.startswith("x-log-meta-"))
    )
    pairs = ((k, quote(request.query[k], safe="~")) for k in sorted(request.query))
    canonical = "\n".join((
        request.method,
        request.path,
        "&".join(f"{k}={v}" if v else k for k, v in pairs),
        "".join(f"{name}:{request.headers[name].strip()}\n" for name in signed),
        ";".join(signed),
        request.headers.get("x-log-content-sha256", ""),
    ))  # fmt: skip
    scope = f"{date}/{region}/{_SCOPE_END}"
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    text = "\n".join((_V4, request.headers.get("x-log-date", ""), scope, digest))
    key = ("aliyun_v4" + secret).encode()
    for part in (date, region, "sls", "aliyun_v4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _check_skew(moment: datetime, wall_s: float, skew_s: int) -> None:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if abs(aware.timestamp() - wall_s) > skew_s:
        sent, here = (formatdate(at, usegmt=True) for at in (aware.timestamp(), wall_s))
        raise Refused(
            400, "RequestTimeExpired", f"Request time {sent} has been expired while server time is {here}."
        )
