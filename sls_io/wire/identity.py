"""Who keys are, as STS says it: GetCallerIdentity, which needs no permission and changes nothing.

Vendor documentation: the call is of RPC style (version 2015-04-01), signed with HMAC-SHA1; a region's STS is
`sts.REGION.aliyuncs.com`, inside Alibaba Cloud's networks `sts-vpc.REGION.aliyuncs.com`.

Story: a run is refused with 401, the key is the right one in the console, and the process has another
one's, from a profile that somebody left on the machine. Only the service that gave the keys can say whose
they are. It is asked for people (`doctor`); nothing is decided by the answer.
"""

import base64
import hashlib
import hmac
import uuid
from contextlib import closing
from time import gmtime, strftime
from typing import NamedTuple
from urllib.parse import quote, urlencode

from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ServiceError, TransportError, printable
from sls_io.values.settings import Service
from sls_io.wire.credentials import resolve
from sls_io.wire.http import Lost, Wire
from sls_io.wire.json_body import parse_json
from sls_io.wire.transport import CONNECT_S

_VERSION = "2015-04-01"


class Caller(NamedTuple):
    """`kind` is Account, RAMUser or AssumedRoleUser; `arn` is like acs:ram::1234:user/admin."""

    kind: str
    account: str
    arn: str


def sts_host(service: Service) -> str:
    """The STS of the service's region, in the network of its endpoint."""
    return f"{'sts-vpc' if service.inside else 'sts'}.{service.region_name}.aliyuncs.com"


def caller(service: Service, *, deadline_s: float, clock: Clock = SYSTEM_CLOCK) -> Caller:
    """Who the keys of `service` are; asked once, through its proxy.

    Raises ConfigError without keys, TransportError without an answer, ServiceError for a refusal: its code
    and request id only, since STS repeats what was signed.
    """
    host, request = sts_host(service), _request(service)
    until_s = clock.monotonic() + deadline_s
    with closing(Wire(f"https://{host}", clock, proxy=service.proxy_address)) as wire:
        try:
            answer = wire.send(
                "GET",
                f"/?{urlencode(request)}",
                {"Host": host, "Accept": "application/json"},
                b"",
                connect_timeout_s=CONNECT_S,
                until_s=until_s,
            )
        except Lost as lost:
            raise TransportError(lost.reason) from None
    said = parse_json(answer.body)
    said = said if isinstance(said, dict) else {}
    parts = [said.get(name) for name in ("IdentityType", "AccountId", "Arn")]
    if answer.status == 200 and all(isinstance(part, str) and part for part in parts):
        return Caller(*(printable(str(part)) for part in parts))
    code, request_id = (printable(str(said.get(name) or ""))[:64] for name in ("Code", "RequestId"))
    raise ServiceError(
        code or "BadResponse",
        "STS does not say who these keys are",
        status=answer.status,
        request_id=request_id,
    )


def _request(service: Service) -> dict[str, str]:
    keys = resolve(service.credentials)
    words = {
        "Action": "GetCallerIdentity",
        "Format": "JSON",
        "Version": _VERSION,
        "SignatureMethod": "HMAC-SHA1",
        "SignatureVersion": "1.0",
        "Timestamp": strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(SYSTEM_CLOCK.now())),
        "SignatureNonce": uuid.uuid4().hex,
        "AccessKeyId": keys.id,
        **({"SecurityToken": keys.token} if keys.token else {}),
    }
    line = urlencode(sorted(words.items()), quote_via=quote, safe="~")
    signed = f"GET&%2F&{quote(line, safe='~')}".encode()
    signature = hmac.digest(f"{keys.secret}&".encode(), signed, hashlib.sha1)
    return {**words, "Signature": base64.b64encode(signature).decode()}
