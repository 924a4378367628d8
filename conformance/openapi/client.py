"""The vendor's client as both programs make it, and what its exceptions mean."""

import argparse
from typing import Any

from alibabacloud_sls20201230.client import Client
from alibabacloud_tea_openapi import utils_models
from darabonba.exceptions import UnretryableException
from Tea.exceptions import TeaException

from conformance.environment import key_pair
from conformance.telling import Refusal


def made(flags: argparse.Namespace) -> Client:
    """A client as the vendor's page makes it, with the made-up endpoint."""
    access_id, secret = key_pair()
    return Client(
        utils_models.Config(
            access_key_id=access_id, access_key_secret=secret, protocol="HTTP", region_id="emulated",
            endpoint=flags.endpoint.removeprefix("http://"), signature_version=flags.sign,
        )
    )  # fmt: skip


def refusal(failed: Exception) -> Refusal | None:
    """What the service said; status 0: no answer, or nothing was sent. None: something else is wrong."""
    cause: Any = getattr(failed, "inner_exception", None) or failed
    if not isinstance(failed, TeaException | UnretryableException | OSError):
        return None
    data = getattr(cause, "data", None) or {}
    status, code = int(data.get("statusCode") or 0), getattr(cause, "code", None) or type(cause).__name__
    return status, str(code), str(getattr(cause, "message", ""))
