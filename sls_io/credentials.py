"""Finding the key pair that a description of credentials names.

The only place that reads keys. A `Credentials` travels (to Spark executors, into logs); what it
leads to does not: whoever signs calls `resolve` where it runs.
"""

import importlib
import json
import os
from pathlib import Path
from typing import Any

from sls_io.errors import ConfigError
from sls_io.settings import Credentials

ENV_ID = "ALIBABA_CLOUD_ACCESS_KEY_ID"
ENV_SECRET = "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
ENV_TOKEN = "ALIBABA_CLOUD_SECURITY_TOKEN"


def resolve(credentials: Credentials) -> tuple[str, str, str]:
    """(key id, key secret, security token or "") from where `credentials` says they are found.

    Called wherever a client is built, executors included, so that no key ever travels. Raises
    ConfigError, naming the place and never the content, when there is no usable pair.
    """
    if credentials.provider == "env":
        pair = tuple(os.environ.get(name, "") for name in (ENV_ID, ENV_SECRET, ENV_TOKEN))
        place = f"set {ENV_ID} and {ENV_SECRET} in the environment"
    elif credentials.provider == "profile":
        pair = _from_profile(credentials.profile)
        place = f"write profile {credentials.profile!r} with mode AK or StsToken in ~/.aliyun/config.json"
    else:
        pair = _from_import(credentials.path)
        place = f"let {credentials.path} return (id, secret, token or '')"
    if not (pair[0] and pair[1]):
        raise ConfigError(f"no key pair for the log service: {place}")
    return pair[0], pair[1], pair[2]


def _from_profile(name: str) -> tuple[str, ...]:
    path = Path.home() / ".aliyun" / "config.json"
    try:
        profiles = json.loads(path.read_text(encoding="utf-8"))["profiles"]
        found: dict[str, Any] = next((p for p in profiles if p.get("name") == name), {})
        return tuple(str(found.get(k) or "") for k in ("access_key_id", "access_key_secret", "sts_token"))
    except OSError as error:
        raise ConfigError(f"~/.aliyun/config.json cannot be read ({type(error).__name__})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError("~/.aliyun/config.json is not the command line tool's JSON") from None


def _from_import(path: str) -> tuple[str, ...]:
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        # Not chained: the text of a failing provider may hold what it was reading.
        raise ConfigError(
            f"credentials.path {path!r} failed ({type(error).__name__}): name a function as module:function"
        ) from None
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise ConfigError(f"credentials.path {path!r} must return (id, secret, token or '')")
    return tuple(str(part or "") for part in found)
