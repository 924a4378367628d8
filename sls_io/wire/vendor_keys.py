"""Keys as the vendor's own library finds them: where it looks, what it tried, when what it gave ends.

The library (`alibabacloud-credentials` 1.0.12) knows the places; here is what it leaves to its caller. It
puts whole answers, with keys in them, into its exceptions and its log, and addresses with a session's token
into the first: its log is switched off, and of an exception only what can hold no key is said. Its chain
forgets when keys end, so the same places are asked here in its order, most of which tell.
"""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, printable
from sls_io.wire.keys import Keys

KEYS_ASKED_AGAIN_S = 180.0
"""How long a role's keys are used whose end is not told: the library renews those, a quarter of an hour
ahead. Keys of a user have no end."""
_UNSAID_CODES = ("SignatureDoesNotMatch", "IncompleteSignature")
"""Codes of STS whose sentence repeats what was signed."""
_ANEW_PAUSE_S = 60.0
_lock = threading.Lock()
_anew_s: dict[str | None, float] = {}
_found: dict[str | None, tuple[str, Callable[[], Any]]] = {}


def vendor_keys(profile: str | None, *, anew: bool = False) -> Keys:
    """The keys of a profile of the vendor's command line tool, or of the whole chain with None.

    Once keys were found they come from that place only, as with the vendor: a place that fails for a
    moment is not replaced by another's identity. `anew` looks everywhere again, and asks for new ones, but
    only once a minute: a service that refuses every call for another reason does not make a call of STS each.
    Raises ConfigError with each place and why it has none.
    """
    with _lock:
        now_s = SYSTEM_CLOCK.monotonic()
        if anew and now_s - _anew_s.get(profile, -_ANEW_PAUSE_S) >= _ANEW_PAUSE_S:
            _anew_s[profile] = now_s
            _found.pop(profile, None)
        places = iter([_found[profile]]) if profile in _found else _places(profile)
        tried = []
        for name, made in places:
            try:
                provider = made()
                keys = _read(provider.get_credentials())._replace(place=name)
            except Exception as error:  # the library raises whatever its layers raise
                tried.append(f"{name} ({_said(error)})")
                continue
            _found[profile] = (name, partial(_kept, provider))
            return keys
    raise ConfigError(f"the vendor's places for keys have no pair. Tried: {'; '.join(tried)}")


def _places(profile: str | None) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The places and their order, as in `DefaultCredentialsProvider` of the library."""
    library = _library()
    if profile is not None:
        yield f"profile {profile!r}", lambda: library.CLIProfileCredentialsProvider(profile_name=profile)
        return
    yield "environment", library.EnvironmentVariableCredentialsProvider
    yield "OIDC", library.OIDCRoleArnCredentialsProvider
    yield "~/.aliyun/config.json", library.CLIProfileCredentialsProvider
    yield "~/.alibabacloud/credentials", library.ProfileCredentialsProvider
    # Without its thread: whoever signs asks often enough.
    yield "ECS role", lambda: library.EcsRamRoleCredentialsProvider(async_update_enabled=False)
    yield "credentials URI", library.URLCredentialsProvider


def _kept(provider: Any) -> Any:
    return provider


def _library() -> Any:
    import alibabacloud_credentials.provider

    logging.getLogger("credentials").disabled = True
    return alibabacloud_credentials.provider


def _read(found: Any) -> Keys:
    pair = found.get_access_key_id(), found.get_access_key_secret(), found.get_security_token()
    if not (pair[0] and pair[1]):
        raise ValueError("no key pair in it")
    untold_s = SYSTEM_CLOCK.now() + KEYS_ASKED_AGAIN_S if pair[2] else float("inf")
    ends_s = found.get_expiration() or untold_s
    return Keys(str(pair[0]), str(pair[1]), str(pair[2] or ""), float(ends_s))


def _said(error: Exception) -> str:
    """Why a place has no keys, without anything that may hold one: code and sentence of an answer of STS,
    else what the library itself says, up to where somebody else's words begin.

    Story: the library asks a metadata service with the session's token in the address, and puts the address
    into its exception: printed as it is, a log would have the token. So of an answer of STS the code, the
    sentence and the request id are said, of the library's own errors what stands before the first colon,
    and of any other the kind.

    Worked example: `... result: {"Code": "NoPermission", "Message": "You are not authorized", "RequestId":
    "R1"}` is said as `NoPermission: You are not authorized (request R1)`; a ValueError with a secret in it
    is said as `ValueError`.
    """
    text = str(error)
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        answer = json.loads(text.partition("result:")[2])
        if code := answer.get("Code"):
            sentence = "" if code in _UNSAID_CODES else f": {answer.get('Message')}"
            return printable(f"{code}{sentence} (request {answer.get('RequestId') or '-'})")
    kind = type(error).__name__
    own = kind == "CredentialException" or text.endswith("cannot be empty")
    return printable(text.partition(":")[0]) if own else kind
