"""RAM policies of the emulator: what a statement is about, and that a denial wins."""

from typing import Any

import pytest
from pydantic import ValidationError

from sls_io.emulator.api import ROUTES
from sls_io.emulator.policy import ACTIONS, Policy
from sls_io.emulator.storage.refusal import Refused

NAMES = {"project": "demo", "logstore": "orders", "group": "lake", "shard": "0"}
PLACE = "acs:log:emulator:1000000000000000:project/demo/logstore/orders"


def statement(action: object, resource: object = "*", effect: str = "Allow") -> dict[str, Any]:
    """One statement of a document."""
    return {"Effect": effect, "Action": action, "Resource": resource}


def denied(call: str, *statements: dict[str, Any]) -> str:
    """What a policy of these statements says to a call; "" where it allows it."""
    policy = Policy.model_validate({"Version": "1", "Statement": list(statements)})
    try:
        policy.check(call, NAMES)
    except Refused as refused:
        assert (refused.status, refused.code) == (401, "Unauthorized")
        return refused.message
    return ""


def test_every_call_has_an_action() -> None:
    assert {route.name for route in ROUTES} == set(ACTIONS)


@pytest.mark.parametrize(
    ("call", "statements", "allowed"),
    [
        ("list_shards", [statement("log:ListShards", PLACE)], True),
        ("list_shards", [statement("log:listshards", PLACE)], True),
        ("list_shards", [statement("log:ListShards", PLACE.upper())], False),
        ("list_shards", [statement("log:List*", "acs:log:*:*:project/demo/*")], True),
        ("list_shards", [statement("log:ListShard?", "*")], True),
        ("list_shards", [statement("log:ListShards?", "*")], False),
        ("list_shards", [statement(["log:GetLogStore", "log:ListShards"], ["x", PLACE])], True),
        ("list_shards", [statement("log:ListShards", "acs:log:*:*:project/other/*")], False),
        ("list_shards", [], False),
        ("list_shards", [statement("*"), statement("log:ListShards", "*", "Deny")], False),
        ("list_shards", [statement("*"), statement("log:PostLogStoreLogs", "*", "Deny")], True),
        ("heartbeat", [statement("*", PLACE)], False),
        ("heartbeat", [statement("*", f"{PLACE}/consumergroup/lake")], True),
        ("create_group", [statement("*", f"{PLACE}/consumergroup/lake")], False),
        ("create_group", [statement("*", f"{PLACE}/consumergroup/*")], True),
        ("get_cursor_time", [statement("log:GetCursorOrData", PLACE)], True),
    ],
)
def test_a_call_is_allowed_by_a_statement_and_denied_by_any(
    call: str, statements: list[dict[str, Any]], allowed: bool
) -> None:
    assert (denied(call, *statements) == "") is allowed


def test_a_denial_names_action_and_resource() -> None:
    assert denied("heartbeat", statement("log:Get*")) == (
        f"denied by sts or ram, action: log:ConsumerGroupHeartBeat, resource: {PLACE}/consumergroup/lake"
    )


@pytest.mark.parametrize(
    "document",
    [
        {"Version": "2", "Statement": []},
        {"Version": "1"},
        {"Version": "1", "Statement": [{"Effect": "Allow", "Action": "*"}]},
        {"Version": "1", "Statement": [statement("*", effect="allow")]},
        {"Version": "1", "Statement": [{**statement("*"), "Condition": {}}]},
        {"Version": "1", "Statement": [statement(7)]},
    ],
)
def test_what_is_no_policy_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Policy.model_validate(document)
