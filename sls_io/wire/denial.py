"""What a refusal of keys means: that they are not accepted, that their token has ended, or what RAM denies.
All three have one code, 401 Unauthorized, in the vendor's page of error codes."""

import json
import re
from typing import NamedTuple

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
BAD_SIGNATURE = "SignatureNotMatch"
_SAID = {
    BAD_SIGNATURE: "the secret is not the one of this access key id",
    "Unauthorized": "the access key id is unknown or disabled, or may not do this",
}


def keys_refused(status: int, code: str) -> bool:
    """Whether the service does not accept the keys, be it their token's end or the pair itself.

    Worked example: 401 with any code, 403 SecurityToken.Expired and 400 InvalidAccessKeyId.NotFound are
    about keys. 403 ProjectForbidden is not: the key is good, the project is disabled.
    """
    return status == 401 or code in _AUTH or code.split(".", maxsplit=1)[0].startswith(_AUTH_FAMILIES)


def token_ended(code: str, text: str) -> bool:
    """Whether the token of a temporary pair has ended; of one code only the words tell it."""
    return code in _TOKEN_ENDED or (code == "Unauthorized" and _TOKEN_ENDED_SAID in text)


def said_of_keys(code: str, *, ended: bool) -> str:
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


def denial_in(text: str) -> Denial | None:
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
