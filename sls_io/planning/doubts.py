"""Answers by which data would be given up, and what a second kind of answer says of them.

Nothing is given up by one answer: `Second` is what planning decides by, the sentences are for people. Why:
docs/decisions/0022-nothing-is-given-up-by-one-answer.md.
"""

from enum import StrEnum


class Second(StrEnum):
    """What a second kind of answer says of data that the first answer would give up."""

    NONE = "not asked"
    AGREES = "agrees"
    DENIES = "denies"
    SILENT = "did not come"


_LATER = "nothing is given up before a later run, a group timeout after this one, is told the same"
LISTED_AND_GONE = (
    "the service lists this shard and says in the same moment that it does not exist; it is left alone until "
    "the answers agree"
)
_LEFT = "it is left alone until the answers agree"
UNLISTED = {
    Second.AGREES: f"the service neither lists this shard nor has cursors of it; {_LATER}",
    Second.DENIES: f"the service does not list this shard, and its cursors can be read; {_LEFT}",
    Second.SILENT: f"the service does not list this shard, and did not answer whether it is there; {_LEFT}",
}
UNLISTED[Second.NONE] = UNLISTED[Second.SILENT]
_BEGINS = "the service says that it begins at {begin}, beyond the frontier {frontier}"
EXPIRED = {
    Second.AGREES: f"{_BEGINS}, but logs so young are not deleted by age; {_LATER}",
    Second.DENIES: f"{_BEGINS}, and the frontier can be read; {_LEFT}",
    Second.SILENT: f"{_BEGINS}, and did not answer whether the frontier can be read; {_LEFT}",
}
EXPIRED[Second.NONE] = EXPIRED[Second.SILENT]
_ENDS = "the service says that it is read-only and ends at {end}"
END = {
    Second.DENIES: f"{_ENDS}, and then that it is not, or that more lies behind; it is not closed",
    Second.SILENT: f"{_ENDS}, and a second answer did not come; it is not closed",
}
_STOPS = "by `expired: fail` nothing of it lands; with `expired: gap` the loss is named and it goes on"
LOST = f"retention took cursors {{frontier}} to {{begin}} before they landed; {_STOPS}"
LOST_SHARD = f"the service removed the shard before it landed from cursor {{frontier}} on; {_STOPS}"
