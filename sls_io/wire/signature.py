"""The vendor SDK's signatures, v1 and v4, with one method replaced in each: the date.

The SDK's v1 calls `locale.setlocale`, which is process-wide and unsafe beside threads; ours is formatted
without a locale. Both take it from the clock that was handed in.
"""

from collections.abc import Callable
from email.utils import formatdate
from time import gmtime, strftime
from typing import Any

from aliyun.log.auth import AuthV1, AuthV4


class SignatureV1(AuthV1):  # type: ignore[misc]  # the SDK's signing code has no types
    """The SDK's v1 signature with a date that needs no locale and comes from our clock."""

    def __init__(self, provider: object, now: Callable[[], float]) -> None:
        super().__init__(provider)
        self._now = now

    def _getGMT(self) -> str:
        return formatdate(self._now(), usegmt=True)


class SignatureV4(AuthV4):  # type: ignore[misc]  # the SDK's signing code has no types
    """The SDK's v4 signature with a date from our clock."""

    def __init__(self, provider: object, region: str, now: Callable[[], float]) -> None:
        super().__init__(provider, region)
        self._now = now

    def sign_request(
        self,
        method: str,
        resource: str,
        params: dict[str, Any],
        headers: dict[str, str],
        body: bytes | None,
        compute_content_hash: bool = True,
    ) -> None:
        """Sign with the moment of our clock instead of the process's."""
        at = strftime("%Y%m%dT%H%M%SZ", gmtime(self._now()))
        headers["Authorization"] = self._do_sign_request(
            method, resource, params, headers, body, at, compute_content_hash=compute_content_hash
        )
