"""Why a catalog or a storage failed, in words for people: from codes, never from a driver's sentence.

Said by whoever writes or reads files, a writing task on a worker, too. Addresses may hold credentials and are
never shown.

Worked example: pyarrow says "When creating key 'x' in bucket 'b': AWS Error UNKNOWN (HTTP status 400) during
PutObject operation: Unable to parse ExceptionName: SecondLevelDomainForbidden Message: ...". An operator is
told "PutObject was refused, SecondLevelDomainForbidden: ...", with the request's id and what to check. Of
"postgresql://u:p@h/x refused" nothing is said but that it holds an address.
"""

import os
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NotInstalledError,
    OAuthError,
    UnauthorizedError,
)
from requests.exceptions import ProxyError

from pipelines.landing.table.home import HOME_VARIABLE
from sls_io.values.database_codes import Trouble, kind_of, trouble_of
from sls_io.values.errors import DISK, ConfigError, LandingUnknown, SlsError, TransportError, printable

_AWS_ERROR = re.compile(
    r"AWS Error (?P<kind>.*) during (?P<call>\w+) operation"
    r"(?:: (?:Unable to parse ExceptionName: (?P<code>\w{1,64}) Message: )?(?P<sentence>[^\n]*?)"
    r"(?: \(Request ID: (?P<request>[\w-]{1,64})\))?$)?",
    re.MULTILINE,
)
"""As pyarrow says what a store answered. A code that Amazon's library does not know is in the sentence."""
_REPEATS_SIGNED = ("SignatureDoesNotMatch", "SIGNATURE_DOES_NOT_MATCH")
"""Their sentence may have the key id in it, and what was signed."""
_BUSY = frozenset({"SERVICE_UNAVAILABLE", "SLOW_DOWN", "THROTTLING", "INTERNAL_FAILURE", "REQUEST_TIMEOUT"})
_NETWORK = "NETWORK_CONNECTION"
"""What Amazon's library calls an answer that asks for another try, and none at all."""
_HOLDS_ADDRESS = re.compile(r"://|@|\?\S*=")
"""Part of an address that may hold a password or a token; requests repeats a path with its query."""
_OF_SETTINGS = (ValueError, ImportError, NotInstalledError)
"""How an address or a path is refused that is none, or of a kind that nobody knows or has a library for."""


@dataclass(frozen=True)
class NotTaken:
    """Why a catalog or a disk took nothing, and what a person does about it. `passes`: it may be over by
    itself, so that the same is worth another try.

    Only what `passes` is worth the waiting of a run: of a lock that another process holds a later try may get
    through, of a full disk each try leaves its files behind and none does.
    """

    what: str
    cure: str = "make room or give the right, and run it again"
    passes: bool = False

    def __str__(self) -> str:
        return self.what


HELD = NotTaken(
    "another process holds it",
    "look who has that file open (lsof, fuser), and run it again once they are done",
    passes=True,
)
_NOT_TAKEN = {
    sqlite3.SQLITE_FULL: NotTaken("its disk is full"),
    sqlite3.SQLITE_READONLY: NotTaken("it, or its folder, cannot be written"),
    sqlite3.SQLITE_CANTOPEN: NotTaken("it cannot be opened, or its folder cannot be written"),
    sqlite3.SQLITE_IOERR: NotTaken("its disk failed"),
    sqlite3.SQLITE_PERM: NotTaken("it may not be opened"),
    sqlite3.SQLITE_BUSY: HELD,
    sqlite3.SQLITE_LOCKED: HELD,
}
"""Codes of SQLite that say why nothing was read or written."""
_BY_A_SERVER: Mapping[Trouble, NotTaken] = {
    "full": NotTaken("its disk is full"),
    "disk": NotTaken("its disk failed"),
    "damaged": NotTaken("it says that it is damaged", "restore it from a copy, and run it again"),
    "rights": NotTaken(
        "the user of its address may not do that, or it takes no writes",
        "give that user the right to read and write the tables iceberg_tables and "
        "iceberg_namespace_properties, or let the database take writes, and run it again",
    ),
    "tables": NotTaken(
        "its tables iceberg_tables and iceberg_namespace_properties are not those of an Iceberg catalog: "
        "another program has the names, or somebody altered or dropped them",
        "give the catalog a database or a schema of its own, or put them right, and run it again",
    ),
    "locked": NotTaken(
        "somebody else holds a lock in it", "look at its list of sessions, and run it again", passes=True
    ),
}
"""Of a catalog in PostgreSQL or another server."""
_NOBODY = NotTaken(
    "it does not know whoever asks",
    "check PYICEBERG_CATALOG__LAKE__TOKEN or __CREDENTIAL, and run it again",
)
_BY_ANSWER: Mapping[type[BaseException], NotTaken] = {
    UnauthorizedError: _NOBODY,
    AuthorizationExpiredError: _NOBODY,
    OAuthError: _NOBODY,
    ForbiddenError: NotTaken(
        "whoever asks may not do that",
        "give that user the right to read and write the table, and run it again",
    ),
    ProxyError: NotTaken(
        "the proxy that this environment names lets nobody through to it",
        "look at HTTP_PROXY and HTTPS_PROXY, or name the catalog's host in NO_PROXY, and run it again",
        passes=True,
    ),
    ValidationError: NotTaken(
        "what answers is no Iceberg catalog",
        "look what answers at PYICEBERG_CATALOG__LAKE__URI, a proxy or a page to log in, and run it again",
        passes=True,
    ),
}
"""Of a REST catalog, by what PyIceberg makes of its answer. A page of HTML with status 200 has none of the
fields of an answer."""


def not_taken(error: BaseException) -> NotTaken | None:
    """Why a catalog or a disk took nothing, by the code that a database or the system gave, else None."""
    driver = getattr(error, "orig", None)
    cause = driver or error
    if isinstance(cause, sqlite3.Error):
        return _NOT_TAKEN.get(kind_of(cause))
    if driver is not None:
        return _BY_A_SERVER.get(trouble_of(error))
    if type(error) in _BY_ANSWER:
        return _BY_ANSWER[type(error)]
    if isinstance(cause, OSError) and cause.errno in DISK:
        return NotTaken(os.strerror(cause.errno).lower())
    return None


def is_storage(error: BaseException) -> bool:
    """Whether the storage failed, and not one file in it: a number of the system, or S3's own words.

    A missing file is one file, and no matter of the storage. S3 gives no number, so there its own words are
    asked for.
    """
    if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
        return False
    return error.errno is not None or _AWS_ERROR.search(str(error)) is not None


def storage_trouble(location: str, error: BaseException) -> str:
    """What is wrong with files below `location`, and what to look at."""
    told = _AWS_ERROR.search(str(error))
    text = _answered(told) if told else masked(error)
    if told and told["kind"] in _BUSY:
        cure = "the store is busy, or has a fault of its own: run it again, later where it stays so"
    elif told and told["kind"] == _NETWORK:
        cure = "run it again; where it stays so, look whether the store answers at its endpoint"
    elif location.startswith(("s3", "oss")):
        # The store refuses a HEAD without a word: key, secret, region and an old token look alike.
        cure = (
            "check the bucket and its region, the key and its secret, and whether a session token has ended: "
            "PYICEBERG_CATALOG__LAKE__S3__* or AWS_*"
        )
    else:
        cure = "check the disk, and who may write there"
    what = f"files below {printable(location)} cannot be read or written ({type(error).__name__}: {text})"
    return f"{what}; {cure}"


def away(place: str, error: Exception) -> SlsError:
    """The error for a catalog that gave no answer. Settings are a person's to change; all else may be over by
    itself, or is put right where the catalog is."""
    kind = ConfigError if isinstance(error, _OF_SETTINGS) and not not_taken(error) else TransportError
    return kind(unreachable(place, error))


def unanswered(place: str, error: Exception) -> LandingUnknown:
    """The error for a catalog that was told of a change and gave no answer."""
    return LandingUnknown(f"{unreachable(place, error)}; asking for the same again is safe")


def unreachable(place: str, error: BaseException) -> str:
    """One sentence for a catalog that does not answer; never shows credentials in an address."""
    if why := not_taken(error):
        return f"the Iceberg catalog ({place}) cannot be used: {why}; {why.cure}"
    kind = type(error).__name__
    if isinstance(error, _OF_SETTINGS):
        return (
            f"the Iceberg catalog ({place}) cannot be used with these settings ({kind}: {masked(error)}); "
            "check PYICEBERG_CATALOG__LAKE__WAREHOUSE and the others of PYICEBERG_CATALOG__LAKE__*"
        )
    return (
        f"the Iceberg catalog ({place}) cannot be reached ({kind}: {masked(error)}); "
        f"check PYICEBERG_CATALOG__LAKE__* or {HOME_VARIABLE}"
    )


def _answered(told: re.Match[str]) -> str:
    """The store's own code, sentence and request id."""
    code = told["code"] or told["kind"]
    kept = told["sentence"] and "://" not in told["sentence"] and code not in _REPEATS_SIGNED
    sentence = f": {told['sentence'].rstrip('.')}" if kept else ""
    request = f", request {told['request']}" if told["request"] else ""
    return f"{told['call']} was refused, {printable(code + sentence)}{request}"


def masked(error: BaseException) -> str:
    """The first line of what an error says; nothing of it where that may hold an address.

    One line, since SQLAlchemy adds the statement and its parameters below it.
    """
    text = str(error).splitlines()[0] if str(error) else ""
    return printable("details hidden, they hold an address" if _HOLDS_ADDRESS.search(text) else text)
