"""What other stores than Amazon's refuse of S3's protocol, before a server that takes all of it.

A client reaches it as a proxy, so it asks for the real names (`lake-1.oss-cn-hangzhou.aliyuncs.com`) and
nobody resolves them: pyarrow by `s3.proxy-uri`, Java by `http-client.proxy-endpoint`.

OSS (vendor documentation, "Compatibility with Amazon S3", and its pages of error codes): the bucket only in
the host's name; `x-amz-content-sha256` a hash, UNSIGNED-PAYLOAD or STREAMING-AWS4-HMAC-SHA256-PAYLOAD; a
deletion of many objects only with Content-MD5. R2 and Google's door take a bucket in the path. None of them
takes Amazon's headers for checksums (R2: "not implemented"; Google: the signature does not match), but beside
the Content-MD5 of a deletion: Java's client cannot be told to leave them out there, and no page refuses them.
"""

import base64
import hashlib
import io
import re
from collections.abc import Callable, Iterable
from typing import Any

Start = Callable[[str, list[tuple[str, str]]], object]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]

OSS = "oss-cn-hangzhou.aliyuncs.com"
OSS_INSIDE = "oss-cn-hangzhou-internal.aliyuncs.com"
R2 = "account.r2.cloudflarestorage.com"
GOOGLE = "storage.googleapis.com"
REQUEST_ID = "656E5F9A1C0B"
TEMPORARY_KEY_ID = "STS.role-of-the-node"
"""As all of STS, taken with a token only."""
_HOST = re.compile(rf"(?:(?P<bucket>[a-z0-9-]+)\.)??(?:s3\.)?(?P<store>{OSS}|{OSS_INSIDE}|{R2}|{GOOGLE})")
_HASHED = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-AWS4-HMAC-SHA256-PAYLOAD")
_CHUNKED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
_KNOWN = re.compile(
    "x-amz-(?:content-sha256|date|security-token|api-version|acl|storage-class|copy-source|meta-.*"
    "|server-side-encryption|metadata-directive)"
)
_ERROR = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message>'
    "<RequestId>{id}</RequestId><HostId>{host}</HostId></Error>"
)


class Strict:
    """The application of a store by the name it is asked for."""

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self, request: dict[str, Any], start: Start) -> Iterable[bytes]:
        host = request["HTTP_HOST"].partition(":")[0]
        found = _HOST.fullmatch(host)
        if found is None:
            return _refused(start, host, "404 Not Found", "NoSuchHost", "nobody has this name")
        refusal = _refusal(request, found["store"], found["bucket"])
        if refusal:
            return _refused(start, host, *refusal)
        path = f"/{found['bucket']}{request['PATH_INFO']}" if found["bucket"] else request["PATH_INFO"]
        query = f"?{request['QUERY_STRING']}" if request.get("QUERY_STRING") else ""
        inner = {**request, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1", "RAW_URI": path + query}
        return self._app({**inner, "REQUEST_URI": path + query}, start)


def _refusal(request: dict[str, Any], store: str, bucket: str | None) -> tuple[str, str, str] | None:
    """Status, code and message; None for what the store takes."""
    named = {k[5:].lower().replace("_", "-"): v for k, v in request.items() if k.startswith("HTTP_")}
    if store in (OSS, OSS_INSIDE) and not bucket:
        message = "The bucket you are attempting to access must be addressed using OSS third level domain."
        return "403 Forbidden", "SecondLevelDomainForbidden", message
    digest = named.get("x-amz-content-sha256", "")
    chunked = "aws-chunked" in named.get("content-encoding", "")
    if not _HASHED.fullmatch(digest) or (chunked and digest != _CHUNKED):
        message = "aws-chunked encoding is not supported with the specified x-amz-content-sha256 value."
        return "400 Bad Request", "InvalidArgument", message
    if "Credential=STS." in named["authorization"] and "x-amz-security-token" not in named:
        return "403 Forbidden", "InvalidSecurityToken", "The security token you provided is invalid."
    if request["REQUEST_METHOD"] == "POST" and request.get("QUERY_STRING", "").split("=")[0] == "delete":
        return _of_many(request, named.get("content-md5"))
    if strange := [name for name in named if name.startswith("x-amz-") and not _KNOWN.fullmatch(name)]:
        return "400 Bad Request", "InvalidArgument", f"the header {strange[0]} is not known."
    return None


def _of_many(request: dict[str, Any], digest: str | None) -> tuple[str, str, str] | None:
    body = request["wsgi.input"].read(int(request.get("CONTENT_LENGTH") or 0))
    request["wsgi.input"] = io.BytesIO(body)
    if digest is None:
        return "400 Bad Request", "MissingArgument", "Missing Some Required Arguments."
    if digest != base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode():
        return "400 Bad Request", "InvalidDigest", "The Content-MD5 you specified was invalid."
    return None


def _refused(start: Start, host: str, status: str, code: str, message: str) -> Iterable[bytes]:
    body = _ERROR.format(code=code, message=message, id=REQUEST_ID, host=host).encode()
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
    start(status, [*headers, ("x-oss-request-id", REQUEST_ID), ("Connection", "close")])
    return [body]
