"""What a refusal by RAM names, for people: the code of it is that of an unknown key."""

import json
import re
from typing import NamedTuple

_NAMED = re.compile(
    r"\baction: (?P<action>log:[A-Za-z]{1,64}), resource: (?P<resource>acs:log:[A-Za-z0-9:*/._-]{1,400})"
)
"""As the service says it: `denied by sts or ram, action: log:ConsumerGroupHeartBeat, resource:
acs:log:cn-hangzhou:1234:project/p/logstore/l/consumergroup/g`. No key has these forms."""


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
    """What a refusal names; None where it names no action and resource."""
    found = _NAMED.search(text)
    return Denial(found["action"], found["resource"]) if found else None
