"""A REST catalog whose requests carry Amazon's signature, version 4, with keys that are renewed.

PyIceberg's own signer needs boto3, takes its keys once and finds them where Amazon's clients do. Its
interface for other ways to sign in (`AuthManager`) makes a header without seeing the request, and a signature
is of the request. So the signature is one of `requests`, which sees each request as it will be sent; what is
signed, and how, is botocore's.

Two kinds of keys are renewed here, by the same rule: those that sign requests, and those that DLF lends for a
table's files. Story: a run begins with keys that end in ten minutes, and a file is open for twelve. Its last
part is refused, and the task has pulled and decoded all of it for nothing. So keys with less than
`KEYS_AHEAD_S` left count as ended. Written keys have no end and are never asked for again: there is nobody to
ask, and what is wrong with them only a person can change.
"""

import hashlib
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as AmazonKeys
from botocore.session import Session as Amazon
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import StagedTable, Table
from requests import PreparedRequest, RequestException, Response, Session
from requests.auth import AuthBase

from pipelines.landing.catalogs.keys import KEYS_AHEAD_S, LENT_FOR, keys_of, written
from pipelines.landing.catalogs.profiles import (
    DLF,
    OSS_TABLES,
    PROFILE_PROPERTY,
    SIGNING_NAME,
    SIGNING_REGION,
    TO_ASK_AGAIN,
)
from pipelines.landing.catalogs.upkeep import CatalogUpkeep, read
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, TransportError
from sls_io.wire.credentials import resolve
from sls_io.wire.keys import Keys

_REFUSED = (401, 403)
_DIGEST = "X-Amz-Content-SHA256"
_LENT_END_MS = "s3.session-token-expires-at-ms"
_LENT_UNTOLD_S = 180.0
"""How long lent keys are used whose end is not told, from when the table was loaded with them."""
_LOADED_S = "keys-lent-at-s"
_UNTOLD = (
    "DLF compacts and expires a table where somebody turned its storage optimization on in the console, "
    "which cannot be asked here: leave it off, `table maintain` does both"
)
"""Off by default, and by Iceberg's own table properties (vendor documentation, "Automatic storage
optimization for Iceberg tables")."""


class Signature(AuthBase):
    """Signs each request. Keys of a provider are asked for again before they end, and once they were
    refused.

    A refusal is only noted when an answer comes, and acted upon by the next request: the one that was refused
    is the catalog's to try again or to raise. One lock for all threads, since each call of a catalog has a
    thread of its own: without it ten calls with keys near their end would ask a role service ten times.
    Raises ConfigError at once, before any request, where nobody said for which region it signs.
    """

    def __init__(self, properties: dict[str, Any]) -> None:
        self._name = properties.get(SIGNING_NAME, "execute-api")
        regions = (properties.get(name, "") for name in (SIGNING_REGION, "client.region", "s3.region"))
        self._region = next(filter(None, regions), "")
        if not self._region:
            raise ConfigError(f"a catalog that wants signatures needs {SIGNING_REGION}")
        self._provider = keys_of(properties)
        self._written = written(properties, "rest", "client", "s3")
        self._lock = threading.Lock()
        self._known: Keys | None = None
        self._amazon: Any = None
        self._refused = False

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        body = request.body or b""
        data = body.encode() if isinstance(body, str) else bytes(body)
        place, _, query = (request.url or "").partition("?")
        sent = AWSRequest(
            method=request.method,
            url=place,
            # One by one: a signature has each of them encoded in one way only, a request in several.
            params=parse_qsl(query, keep_blank_values=True),
            data=data,
            headers={_DIGEST: hashlib.sha256(data).hexdigest()},
        )
        keys = self._keys()
        pair = AmazonKeys(keys.id, keys.secret, keys.token or None)
        SigV4Auth(pair, self._name, self._region).add_auth(sent)
        request.headers.update(dict(sent.headers.items()))
        request.register_hook("response", self._answered)  # type: ignore[no-untyped-call]
        return request

    def _keys(self) -> Keys:
        with self._lock:
            left_s = self._known.expires_s - SYSTEM_CLOCK.now() if self._known else 0.0
            if self._known is None or self._refused or left_s < KEYS_AHEAD_S:
                self._known, self._refused = self._asked(), False
            return self._known

    def _asked(self) -> Keys:
        if self._provider is not None:
            return resolve(self._provider, refused=self._refused)
        if self._written is not None:
            return self._written
        self._amazon = self._amazon or Amazon().get_credentials()
        if self._amazon is None:
            raise ConfigError(
                "no keys to sign the catalog's requests: set PYICEBERG_CATALOG__LAKE__CLIENT__"
                "CREDENTIALS_PROVIDER, or a key pair where Amazon's clients look for one"
            )
        keys = self._amazon.get_frozen_credentials()
        # Amazon's own renew themselves, and do not say when: asked for each time.
        return Keys(keys.access_key, keys.secret_key, keys.token or "", expires_s=0.0)

    def _answered(self, response: Response, **_: object) -> None:
        self._refused |= response.status_code in _REFUSED


class SigningCatalog(RestCatalog):
    """PyIceberg's REST catalog with that signature, and what OSS Tables can be asked beside the protocol."""

    def _init_sigv4(self, session: Session) -> None:
        session.auth = Signature(self.properties)

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        """With the table's name and the time beside the keys that DLF lends for its files: who opens one
        later asks again."""
        return super()._response_to_table(identifier_tuple, self._named(identifier_tuple, table_response))

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        return super()._response_to_staged_table(
            identifier_tuple, self._named(identifier_tuple, table_response)
        )

    def _named(self, identifier: tuple[str, ...], response: TableResponse) -> TableResponse:
        if self.properties.get(PROFILE_PROPERTY) == DLF:
            response.config[LENT_FOR] = ".".join(identifier)
            response.config[_LOADED_S] = str(SYSTEM_CLOCK.now())
        return response

    def upkeep(self, table: tuple[str, ...]) -> CatalogUpkeep:
        """What the catalog does to a table by itself, where that can be asked."""
        profile = self.properties.get(PROFILE_PROPERTY)
        if profile != OSS_TABLES:
            return CatalogUpkeep(untold=_UNTOLD if profile == DLF else "")
        arn, place = self.properties["warehouse"], urlsplit(self.uri)
        path = "/".join(quote(part, safe="") for part in (arn, *table))
        try:
            answer = self._session.get(f"{place.scheme}://{place.netloc}/tables/{path}/maintenance")
        except RequestException as error:
            raise TransportError(
                f"nobody can say what OSS Tables does to {'.'.join(table)} by itself: {type(error).__name__}"
            ) from error
        if answer.status_code in _REFUSED:
            raise ConfigError(
                f"OSS Tables does not let this key see what it does to {'.'.join(table)} by itself: allow it "
                f"oss:GetTableMaintenanceConfiguration on {arn}/table/*"
            )
        if not answer.ok:
            raise TransportError(
                f"nobody can say what OSS Tables does to {'.'.join(table)} by itself: status "
                f"{answer.status_code}"
            )
        return read(answer.json().get("configuration") or {}, arn)


def lent(properties: Mapping[str, Any]) -> Keys | None:
    """The keys that a catalog lends for a table's files: those that stand in `properties`, as it was loaded
    with, until they nearly end; else the table is loaded again. Where it lends none, the provider's own.

    A task has the properties without a secret, and asks once a process.

    Keys whose end the catalog does not tell look as if they ended 1,080 s after the table was loaded with
    them, so they count as ended after 180 s. Worked example: a driver loads a table at 12:00. It writes with
    these keys until 12:03; for a file at 12:04 the table is loaded again, and for one at 12:08 once more.
    """
    keys = _standing(properties)
    if keys is None or keys.expires_s - SYSTEM_CLOCK.now() < KEYS_AHEAD_S:
        said = {name: properties[name] for name in TO_ASK_AGAIN if name in properties}
        with suppress(NoSuchTableError):  # one that is not made yet has the keys it was staged with, or none
            keys = _standing(SigningCatalog("lake", **said).load_table(properties[LENT_FOR]).io.properties)
    provider = keys_of(properties)
    return resolve(provider) if keys is None and provider is not None else keys


def _standing(properties: Mapping[str, Any]) -> Keys | None:
    keys = written(properties, "s3")
    if keys is None or not keys.token:
        return keys
    end_ms = str(properties.get(_LENT_END_MS, ""))
    untold_s = float(properties.get(_LOADED_S, "inf")) + KEYS_AHEAD_S + _LENT_UNTOLD_S
    return keys._replace(expires_s=int(end_ms) / 1000 if end_ms.isdecimal() else untold_s)
