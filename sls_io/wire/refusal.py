"""What the service's refusal of a call means: which error of ours it is, what is said of it, and the cure.

Of keys that are not accepted, a token that has ended and what RAM denies all three have one code, 401
Unauthorized, in the vendor's page of error codes.
"""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from aliyun.log.logexception import LogException

from sls_io.values.errors import (
    NO_GROUP_CODE,
    NO_LOGSTORE_CODE,
    NO_PROJECT_CODES,
    CursorExpired,
    ServiceError,
    ShardGone,
    SlsError,
    Throttled,
    printable,
)
from sls_io.values.settings import Service, is_loopback
from sls_io.wire.credentials import ENV_ID, ENV_SECRET, ENV_TOKEN
from sls_io.wire.http import Answer
from sls_io.wire.json_body import parse_json
from sls_io.wire.keys import Keys

_FAKE_PAIR = "emulator-key and emulator-secret"
SKEWED = frozenset({"RequestTimeTooSkewed", "RequestTimeExpired"})
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,63}")

_NAMED = re.compile(
    r"\baction: (?P<action>log:[A-Za-z]{1,64}), resource: (?P<resource>acs:log:[A-Za-z0-9:*/._-]{1,400})"
)
"""As the service says it: `denied by sts or ram, action: log:ConsumerGroupHeartBeat, resource:
acs:log:cn-hangzhou:1234:project/p/logstore/l/consumergroup/g`. No key has these forms."""

_TOKEN_ENDED = frozenset({"SecurityTokenExpired", "SecurityToken.Expired"})
_TOKEN_ENDED_SAID = "security token you provided has expired"
_AUTH = frozenset({"Unauthorized", *_TOKEN_ENDED})
_AUTH_FAMILIES = ("InvalidAccessKeyId", "SecurityToken", "InvalidSecurityToken")
"""Codes of keys that are not accepted, alone or before a dot; the vendor's SDK goes by these, too, and by
no status (its `logclient.py`, 0.9.52)."""
_BAD_SIGNATURE = "SignatureNotMatch"
_SAID = {
    _BAD_SIGNATURE: "the secret is not the one of this access key id",
    "Unauthorized": "the access key id is unknown or disabled, or may not do this",
}


def _token_ended(code: str, text: str) -> bool:
    """Whether the token of a temporary pair has ended; of one code only the words tell it."""
    return code in _TOKEN_ENDED or (code == "Unauthorized" and _TOKEN_ENDED_SAID in text)


def _said_of_keys(code: str, *, ended: bool) -> str:
    """A sentence in the place of the service's own, which may repeat a key."""
    return (
        "the security token has ended"
        if ended
        else _SAID.get(code, "the service does not accept the access key")
    )


class Denial(NamedTuple):
    """An action that a policy does not allow on a resource, both in RAM's words."""

    action: str
    resource: str

    def __str__(self) -> str:
        return f"RAM does not allow this key {self.action} on {self.resource}"

    @property
    def cure(self) -> str:
        """The statement that a policy lacks."""
        statement = {"Effect": "Allow", "Action": self.action, "Resource": self.resource}
        return f"Its policy lacks the statement {json.dumps(statement)}"


def _denial_in(text: str) -> Denial | None:
    """What a refusal names; None where it names no action and resource.

    A refusal's own words are left out of errors, since they may repeat a key id and what was signed. Of
    these two names that cannot be so: each is taken by a form that no key has, and only what matched is
    shown.

    Worked example: of `denied by sts or ram, action: log:ListShards, resource:
    acs:log:cn-hangzhou:1:project/p/logstore/l` the answer is that action on that resource, and `cure` is
    the statement to paste into the policy: `{"Effect": "Allow", "Action": "log:ListShards", "Resource":
    "acs:log:cn-hangzhou:1:project/p/logstore/l"}`.
    """
    found = _NAMED.search(text)
    return Denial(found["action"], found["resource"]) if found else None


class _Vendor(LogException):
    """Makes our error readable for the SDK's own `except LogException`. Holds no body, ever."""

    def __init__(self, text: str) -> None:
        # Not LogException's, which wants code and message apart: `adopt` gives it those.
        Exception.__init__(self, text)

    def adopt(self, code: str, text: str, status: int, request_id: str) -> None:
        """Fill what the SDK's getters read."""
        self._errorCode, self._errorMessage, self._requestId = code, text, request_id
        self.resp_status, self.resp_header, self.resp_body = status, "", ""

    def __str__(self) -> str:
        return str(self.args[0])


class _VendorServiceError(ServiceError, _Vendor):
    pass


class _VendorCursorExpired(CursorExpired, _Vendor):
    pass


class _VendorShardGone(ShardGone, _Vendor):
    pass


_OURS: Mapping[str, type[ServiceError]] = {
    "InvalidCursor": CursorExpired,
    "SLSInvalidCursor": CursorExpired,
    "ShardNotExist": ShardGone,
    "ShardNotExsit": ShardGone,
}
_FOR_VENDOR: Mapping[type[ServiceError], type[ServiceError]] = {
    ServiceError: _VendorServiceError,
    CursorExpired: _VendorCursorExpired,
    ShardGone: _VendorShardGone,
}


class ErrorAnswer(NamedTuple):
    """An answer that is no usable 200, with the service's code and text, or a code of ours where it has none
    that can be read."""

    answer: Answer
    code: str
    text: str

    @classmethod
    def read(cls, answer: Answer) -> "ErrorAnswer":
        """What an answer with another status says."""
        if 300 <= answer.status < 400:
            return cls(answer, "Redirect", "the service pointed elsewhere")
        body = parse_json(answer.body)
        code, text = (body.get("errorCode"), body.get("errorMessage")) if isinstance(body, dict) else ("", "")
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            return cls(answer, "BadResponse", "an error without a readable code")
        return cls(answer, code, text if isinstance(text, str) else "")

    @property
    def request_id(self) -> str:
        """By which the vendor finds the call; empty where the answer has none."""
        return printable(self.answer.headers.get("x-log-requestid", "")[:64])

    @property
    def of_keys(self) -> bool:
        """Whether the service does not accept the keys, be it their token's end or the pair itself.

        Worked example: 401 with any code, 403 SecurityToken.Expired and 400 InvalidAccessKeyId.NotFound are
        about keys. 403 ProjectForbidden is not: the key is good, the project is disabled.
        """
        family = self.code.split(".", maxsplit=1)[0]
        return self.answer.status == 401 or self.code in _AUTH or family.startswith(_AUTH_FAMILIES)

    def error(
        self, service: Service, project: str, keys: Keys, *, private: bool, vendor: bool, throttled: bool
    ) -> SlsError:
        """The error of our tree for it.

        What is said depends on what the call may hold. Of a `private` call, one with logs, the service's
        words are left out, since it may quote what it could not read. Of a refusal of keys they are
        replaced, since they may repeat the key id and the text that was signed. Whatever is left goes
        through the pair once more, and each of its parts becomes `***`.

        `vendor`: a method of the SDK catches LogException in the middle of its work and goes on, so its
        calls get our error in a class that is one, too.
        """
        code, text, status = self.code, self.text, self.answer.status
        ended = _token_ended(code, text)
        denial = _denial_in(text) if self.of_keys else None
        if denial:
            text = str(denial)
        elif private and not ended:
            # A service may repeat what it could not read, and what it could not read are logs.
            text = "the service refuses the call (its own words are left out: they may repeat logs)"
        elif self.of_keys or code == _BAD_SIGNATURE:
            # What the service says here may repeat the key id and what was signed.
            text = _said_of_keys(code, ended=ended)
        for secret in keys[:3]:
            text = text.replace(secret, "***") if secret else text
        if throttled:
            return Throttled(code, text, status=status, request_id=self.request_id)
        kind = _OURS.get(code, ServiceError)
        kind = _FOR_VENDOR[kind] if vendor else kind
        hint = denial.cure if denial else self._hint(service, project, ended=ended)
        error = kind(code, text, status=status, request_id=self.request_id, hint=hint)
        if isinstance(error, _Vendor):
            error.adopt(code, printable(text), status, self.request_id)
        return error

    def _hint(self, service: Service, project: str, *, ended: bool) -> str:
        code = self.code
        if ended and service.credentials.provider == "env":
            return (
                f"{ENV_TOKEN} of this process has ended, and what stands in an environment stays as long as "
                "the process lives: for temporary keys let service.credentials name a profile or a function"
            )
        if self.of_keys or code == _BAD_SIGNATURE:
            if service.credentials.provider == "env":
                emulator = (
                    f"; an emulator takes {_FAKE_PAIR}, or what these were when it started"
                    if is_loopback(urlsplit(service.endpoint).hostname or "")
                    else ""
                )
                return f"Check {ENV_ID}, {ENV_SECRET} and {ENV_TOKEN}, and what the key may read{emulator}"
            return f"Check the key pair of credentials provider {service.credentials.provider!r}"
        if code == "ProjectForbidden":
            return f"Project {project} is disabled: its account may be overdue; see the service's console"
        if code in NO_PROJECT_CODES or code == "InvalidHost":
            return f"Check service.project ({project}) and service.endpoint ({service.endpoint})"
        if code == NO_LOGSTORE_CODE:
            return f"Check service.logstore ({service.logstore}) and service.project ({project})"
        if code == NO_GROUP_CODE:
            return "A live run makes its logstore's own group, and no other"
        if code in SKEWED:
            return "Set this machine's clock"
        if 300 <= self.answer.status < 400:
            return "Redirects are never followed: set service.endpoint to the service's own address"
        return ""
