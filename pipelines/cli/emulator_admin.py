"""The emulator behind a logstore's endpoint: its clock and its own stored log.

The log service has neither, so everything here refuses any endpoint but an emulator on loopback.
`stored` reads over the admin path, which shares nothing with our transport, fetch and decode.
"""

import base64
from collections.abc import Iterator
from http.client import HTTPException
from typing import NamedTuple
from urllib.parse import urlsplit

from sls_io.emulator import Admin
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError, ConnectFailed, ServiceError
from sls_io.values.settings import Service, is_loopback


class Stored(NamedTuple):
    """One LogGroup as the emulator stored it; `receive_s` in unix seconds."""

    shard: int
    cursor: int
    receive_s: int
    body: bytes


def admin_of(service: Service) -> Admin:
    """The admin path of the emulator at the endpoint. Raises ConfigError when there is none."""
    parts = urlsplit(service.endpoint)
    refusal = f"{service.endpoint} is no emulator: its clock cannot be set; leave --spread-hours out"
    if not is_loopback(parts.hostname or "") or parts.port is None:
        raise ConfigError(refusal)
    admin = Admin(parts.port)
    try:
        admin.now()
    except (OSError, HTTPException) as error:
        raise ConnectFailed(
            f"no emulator answers at {service.endpoint}",
            cures=(Call(("emulator", "--port", str(parts.port)), does="starts it"),),
        ) from error
    except (ValueError, KeyError, ServiceError) as error:
        raise ConfigError(refusal) from error
    return admin


def stored(admin: Admin, service: Service) -> Iterator[Stored]:
    """Every LogGroup of the logstore that the emulator keeps, from its own store."""
    for entry in admin.dump(service.project, service.logstore):
        body = base64.b64decode(entry["raw"])
        yield Stored(entry["shard"], entry["cursor"], entry["time"], body)
