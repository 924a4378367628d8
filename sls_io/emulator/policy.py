"""RAM policies: what a key may do, by action and resource, as the vendor's console takes them.

A key without a policy may do everything, as an account's own key does. One with a policy may do what a
statement allows and none denies: a denial wins over any number of allowances, and what nobody names is
denied. In both names `*` stands for any text and `?` for one character; actions are compared without their
case (vendor documentation, "Policy structure and syntax"). The actions and resources of each call are those
of its page in the API reference; GetCursor, GetCursorTime and PullLogs share one.

Worked example: a policy that allows `log:Get*` on `acs:log:*:*:project/demo/logstore/orders` reads that
logstore's settings and pulls its logs; its heartbeat is about `.../orders/consumergroup/lake`, which is
another resource, and is denied.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sls_io.emulator.storage.refusal import Refused

REGION, ACCOUNT = "emulator", "1000000000000000"
_PROJECT = "project/{project}"
_ANY_LOGSTORE = "project/{project}/logstore/*"
_LOGSTORE = "project/{project}/logstore/{logstore}"
_ANY_GROUP = "project/{project}/logstore/{logstore}/consumergroup/*"
_GROUP = "project/{project}/logstore/{logstore}/consumergroup/{group}"

ACTIONS: Mapping[str, tuple[str, str]] = {
    "put_logs": ("log:PostLogStoreLogs", _LOGSTORE),
    "put_logs_by_key": ("log:PostLogStoreLogs", _LOGSTORE),
    "delete_logs": ("log:DeleteLogs", _LOGSTORE),  # its page names no action; as the others are called
    "pull_logs": ("log:GetCursorOrData", _LOGSTORE),
    "get_cursor": ("log:GetCursorOrData", _LOGSTORE),
    "get_cursor_time": ("log:GetCursorOrData", _LOGSTORE),
    "heartbeat": ("log:ConsumerGroupHeartBeat", _GROUP),
    "save_checkpoint": ("log:ConsumerGroupUpdateCheckPoint", _GROUP),
    "get_checkpoints": ("log:GetConsumerGroupCheckPoint", _GROUP),
    "create_group": ("log:CreateConsumerGroup", _ANY_GROUP),
    "list_groups": ("log:ListConsumerGroup", _ANY_GROUP),
    "update_group": ("log:UpdateConsumerGroup", _GROUP),
    "delete_group": ("log:DeleteConsumerGroup", _GROUP),
    "list_shards": ("log:ListShards", _LOGSTORE),
    "split_shard": ("log:SplitShard", _LOGSTORE),
    "merge_shard": ("log:MergeShard", _LOGSTORE),
    "delete_shard": ("log:DeleteShard", _LOGSTORE),
    "create_logstore": ("log:CreateLogStore", _ANY_LOGSTORE),
    "list_logstores": ("log:ListLogStores", _ANY_LOGSTORE),
    "get_logstore": ("log:GetLogStore", _LOGSTORE),
    "update_logstore": ("log:UpdateLogStore", _LOGSTORE),
    "delete_logstore": ("log:DeleteLogStore", _LOGSTORE),
    "create_project": ("log:CreateProject", _PROJECT),
    "update_project": ("log:UpdateProject", _PROJECT),
    "delete_project": ("log:DeleteProject", _PROJECT),
    "get_project": ("log:GetProject", _PROJECT),
}
"""Each call of `api.ROUTES`: the action it needs, and on what. Where only the body has a name, such as a new
group's, the resource has `*`: the policy has to allow all of them."""


class Statement(BaseModel):
    """One statement. Conditions are not emulated, and refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    effect: Literal["Allow", "Deny"] = Field(alias="Effect")
    action: tuple[str, ...] = Field(alias="Action")
    resource: tuple[str, ...] = Field(alias="Resource")

    @field_validator("action", "resource", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    def is_about(self, action: str, resource: str) -> bool:
        """Whether it names this action on this resource."""
        return _matches(self.action, action, re.IGNORECASE) and _matches(self.resource, resource)


class Policy(BaseModel):
    """A policy document."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal["1"] = Field(alias="Version")
    statements: tuple[Statement, ...] = Field(alias="Statement")

    @field_validator("statements", mode="before")
    @classmethod
    def _a_list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def check(self, call: str, names: Mapping[str, str]) -> None:
        """Raises Refused where it does not allow `call` (a route's name) on what `names` are.

        Worked example: `Allow log:Get* on project/demo/*` and `Deny log:GetLogStore on *`: PullLogs is
        allowed, GetLogStore has both effects and is denied, ListShards has none and is denied. The refusal
        names action and resource in the words that a client may look for (`sls_io/wire/refusal.py`).
        """
        action, place = ACTIONS[call]
        resource = f"acs:log:{REGION}:{ACCOUNT}:{place.format_map(names)}"
        effects = {one.effect for one in self.statements if one.is_about(action, resource)}
        if effects != {"Allow"}:
            raise Refused(
                401, "Unauthorized", f"denied by sts or ram, action: {action}, resource: {resource}"
            )


def _matches(patterns: Sequence[str], text: str, flags: int = 0) -> bool:
    expressions = (re.escape(one).replace(r"\*", ".*").replace(r"\?", ".") for one in patterns)
    return any(re.fullmatch(one, text, flags) for one in expressions)
