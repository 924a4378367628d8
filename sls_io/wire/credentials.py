"""Finding the key pair that a description of credentials names.

The only place that reads keys. A `Credentials` travels (to Spark executors, into logs); what it
leads to does not: whoever signs calls `resolve` where it runs.

Read anew each time, on purpose. Story: a side-car renews the file of a profile every hour. A process that
kept its first answer would work for an hour and be refused from then on; a restart would cure it, and
nobody would know why.
"""

import json
import math
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from sls_io.values.errors import ConfigError
from sls_io.values.named import Unusable, called, load
from sls_io.values.settings import Credentials
from sls_io.wire.keys import Keys
from sls_io.wire.vendor_keys import vendor_keys

ENV_ID = "ALIBABA_CLOUD_ACCESS_KEY_ID"
ENV_SECRET = "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
ENV_TOKEN = "ALIBABA_CLOUD_SECURITY_TOKEN"
_NOT_A_CONFIG = "~/.aliyun/config.json is not the command line tool's JSON"
_PLAIN_MODES = ("AK", "StsToken")
"""Modes of a profile whose keys sign as they stand there."""
_RETURNS = "(id, secret, token or '')"
_ENDS = "when the keys end, in unix seconds or like 2026-11-20T07:00:00Z"


def resolve(credentials: Credentials, *, refused: bool = False) -> Keys:
    """The keys, from where `credentials` says they are found, read anew at each call.

    Called wherever a client is built, executors included, so that no key ever travels, and again when
    keys end, or were `refused`: then a role is asked for new ones, too, which otherwise are kept until a
    quarter of an hour before their end. Raises ConfigError, naming the place and never the content, when
    there is no usable pair.
    """
    if credentials.provider == "default":
        return vendor_keys(None, anew=refused)
    if credentials.provider == "env":
        found = os.environ
        keys = Keys(found.get(ENV_ID, ""), found.get(ENV_SECRET, ""), found.get(ENV_TOKEN, ""))
        place = f"set {ENV_ID} and {ENV_SECRET} in the environment"
    elif credentials.provider == "profile":
        profile = credentials.name or "default"
        words = _profile(profile)
        # In every other mode a key pair may stand there, too: that of a user who may become a role.
        if str(words.get("mode") or "AK") not in _PLAIN_MODES:
            return vendor_keys(profile, anew=refused)
        keys = _in_profile(words)
        place = f"write profile {profile!r} in ~/.aliyun/config.json"
    else:
        keys = _from_import(credentials.name)
        place = f"let {credentials.name} return {_RETURNS}"
    if not (keys.id and keys.secret):
        raise ConfigError(f"no key pair for the log service: {place}")
    return keys


def _profile(name: str) -> dict[str, Any]:
    path = Path.home() / ".aliyun" / "config.json"
    try:
        profiles = json.loads(path.read_text(encoding="utf-8"))["profiles"]
        return dict(next((p for p in profiles if p.get("name") == name), {}))
    except (OSError, RuntimeError) as error:
        # A RuntimeError without a home folder; of its kind is a RecursionError, too.
        if isinstance(error, RecursionError):
            raise ConfigError(_NOT_A_CONFIG) from None
        raise ConfigError(
            f"~/.aliyun/config.json cannot be read ({type(error).__name__}); credentials provider 'profile' "
            "needs it in the home folder of who runs this"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(_NOT_A_CONFIG) from None


def _in_profile(found: dict[str, Any]) -> Keys:
    pair = [str(found.get(k) or "") for k in ("access_key_id", "access_key_secret", "sts_token")]
    try:
        return Keys(pair[0], pair[1], pair[2], _moment_s(found.get("sts_expiration")))
    except (ValueError, OverflowError):
        raise ConfigError(_NOT_A_CONFIG) from None


def _from_import(path: str) -> Keys:
    setting = "credentials.name"
    return called(
        setting,
        path,
        load(setting, path),
        reads=_keys,
        cure=f"let it return {_RETURNS}, or a fourth part, too: {_ENDS}",
    )


def _keys(found: object) -> Keys | Unusable:
    """Three parts, or four with the end. What is wrong is said by its kind alone: what a function gave may be
    a key in the wrong place.
    """
    if not isinstance(found, tuple | list) or len(found) not in (3, 4):
        return Unusable("gave no keys")
    if not all(part is None or isinstance(part, str) for part in found[:3]):
        return Unusable("gave keys that are no texts")
    pair = [str(part or "") for part in found[:3]]
    try:
        return Keys(pair[0], pair[1], pair[2], _moment_s(found[3] if len(found) == 4 else None))
    except (ValueError, OverflowError):
        return Unusable("gave an end of the keys that is no moment")


def _moment_s(value: object) -> float:
    """Unix seconds from a number or an ISO 8601 text with its zone; none is never.

    Raises ValueError or OverflowError.

    Worked example: nothing, "" and 0 are never; 1790000000 is that second; `2026-11-20T07:00:00Z` and
    `2026-11-20T15:00:00+08:00` are both 1795158000. Without a zone it raises: eight hours off, keys would
    be used long after their end, or asked for at every call.
    """
    if value in (None, 0, ""):
        return float("inf")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if math.isnan(value):
            raise ValueError("no moment")
        return float(value)
    at = datetime.fromisoformat(str(value))
    if at.tzinfo is None:
        raise ValueError("a moment without its zone")
    return at.timestamp()
