"""Every error of sls-lake, in one tree.

    SlsError
    + ConfigError          ours;   never retry; nothing was started
    |  + CodeFailed          code that a setting names raised, or gave what cannot be used
    + TransportError       theirs; retry inside the deadline; claim and windows still valid
    |  + TransportTimeout    the deadline passed before an answer
    |  + ConnectFailed       no connection: refused, unresolved, closed before an answer
    |  + Throttled           the service asked to slow down (403 quota, 429, 503)
    + ServiceError         theirs; code, status, request id; retry by a table of codes
    |  + CursorExpired       data is gone; stop unless a policy is named; recorded as a gap
    |  + ShardGone           retention took the shard; plan again
    + ClaimLost            nobody; start nothing new, claim again
    + DecodeError          one page or record; shard, cursor, index; never the payload
    + LandingConflict      another landing won; read the ledger, plan again
    + LandingUnknown       answer lost and not decidable in time; nothing may be deleted
    + CommitStands         the commit is made; what came after it failed. Look, do not repeat
    + LedgerBroken         the table contradicts itself; a person decides by its cures
    + StoreError           checkpoints or leases cannot be read or written; what was kept, is
    |  + StoreBroken         what is kept is not what was written; a person decides, it is never "none"
    + CheckpointOutside    a checkpoint lies outside of its shard; stop unless a policy is named
    + InvariantBroken      a bug; stop, keep the evidence

A message is one or two sentences: what is wrong, with the name of the thing. What settles it stands beside
it in `cures`, so that whoever shows the error can complete a command, and a program can run it.
Messages never carry keys, tokens or log content: the text of a service error is cut to
200 characters with control characters removed, because a service may echo what it was sent.
"""

import errno
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, ClassVar

from sls_io.values.cures import Cure

_SERVICE_TEXT_CHARS_MAX = 200


NO_PROJECT_CODES = frozenset({"ProjectNotExist", "ProjectNotExists"})
NO_LOGSTORE_CODE = "LogStoreNotExist"
NO_GROUP_CODE = "ConsumerGroupNotExist"
GONE_CODES = NO_PROJECT_CODES | {NO_LOGSTORE_CODE}
"""What the service answers about a logstore that is not there."""
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EFBIG)
"""Numbers of the system for a place that takes no file: no room, or no right."""


class SlsError(Exception):
    """Root of the tree. `retryable` says whether the same call may be sent again as it is; `cures` are what
    settles it, the best first."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str = "", *, cures: tuple[Cure, ...] = ()) -> None:
        super().__init__(message)
        self.cures = cures

    def __reduce__(self) -> tuple[Any, ...]:
        """From a worker's process to ours an error is what it was: each kind is made of other arguments."""
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(kind: type[SlsError], args: tuple[Any, ...], state: dict[str, Any]) -> SlsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class ConfigError(SlsError):
    """What was asked for cannot work. Ours to fix; nothing was started, nothing moved."""


class CodeFailed(ConfigError):
    """Code that `path` of `setting` names raised, or answered what cannot be used. `kind` is the name of the
    type of what it raised, "" where it raised nothing. Never the text of that: it may hold a log or a key."""

    def __init__(self, setting: str, path: str, what: str, *, kind: str = "", cure: str = "") -> None:
        said = f"{setting} {printable(path)!r} {what}"
        super().__init__(f"{said}: {cure}" if cure else said)
        self.setting, self.path, self.kind = setting, path, kind


class TransportError(SlsError):
    """No usable answer came. Retry inside the deadline; claims and windows stay valid."""

    retryable = True


class TransportTimeout(TransportError):
    """The deadline of the call passed before an answer."""


class ConnectFailed(TransportError):
    """No connection: refused, unresolved, or closed before an answer."""


class Throttled(TransportError):
    """The service asked to slow down; wait longer than for other failures.

    Carries `code`, `status` and `request_id` like a service error does.
    """

    def __init__(self, code: str, message: str, *, status: int = 0, request_id: str = "") -> None:
        super().__init__(f"{code}: {printable(message)} (HTTP {status}, request {request_id or '-'})")
        self.code, self.status, self.request_id = code, status, request_id


class ServiceError(SlsError):
    """The service answered with an error: `code`, HTTP `status`, `request_id`; or its answers contradict one
    another, and `status` is 0."""

    def __init__(
        self, code: str, message: str, *, status: int = 0, request_id: str = "", hint: str = ""
    ) -> None:
        answer = f" (HTTP {status}, request {request_id or '-'})" * bool(status)
        text = f"{code}: {printable(message)}{answer}"
        super().__init__(f"{text}. {hint}" if hint else text)
        self.code, self.status, self.request_id = code, status, request_id


class CursorExpired(ServiceError):
    """The cursor points at data that retention removed. Recorded as a gap, never skipped over."""


class ShardGone(ServiceError):
    """Retention removed the shard. Plan again; what the ledger lacks of it becomes a gap."""


class ClaimLost(SlsError):
    """The right to read the shards is gone. Nobody's fault; start nothing new, claim again."""


class DecodeError(SlsError):
    """A page or record is not what its headers say. Position only, never the payload.

    `shard` and `cursor` name the page; `index` the log in its group, -1 for the page itself.
    """

    retryable = True

    def __init__(self, cause: str, *, shard: int, cursor: int, index: int = -1) -> None:
        super().__init__(f"shard {shard}, cursor {cursor}, log {index}: {cause}")
        self.cause, self.shard, self.cursor, self.index = cause, shard, cursor, index


class LandingConflict(SlsError):
    """Another landing won all of this one's windows. Read the ledger, plan again."""


class LandingUnknown(SlsError):
    """The answer to a commit was lost and the table could not be read in time, or does not say any more.

    Nothing may be deleted; the next run reads the ledger and knows.
    """


class CommitStands(SlsError):
    """A commit was made and stands; what was to follow it failed. Look before anything is asked for again."""


class Breach(StrEnum):
    """What a LedgerBroken is about, for whoever goes on from there; `adopt` settles all but the last."""

    DAMAGED = "a text of the ledger cannot be read"
    UNEXPLAINED = "no ledger explains what is there"
    FOREIGN = "there are more rows than the ledgers know"
    OTHER = "anything else"


class LedgerBroken(SlsError):
    """The table contradicts itself; a person decides. `kind` is what code may decide by."""

    def __init__(self, message: str, *, cures: tuple[Cure, ...], kind: Breach = Breach.OTHER) -> None:
        super().__init__(message, cures=cures)
        self.kind = kind


class StoreError(SlsError):
    """A checkpoint store cannot be read or written. What it had is still there; nothing counts as "none"."""


class StoreBroken(StoreError):
    """What a checkpoint store or the tables of leases keep is not what was written there: lost, torn, edited,
    or somebody else's."""


class CheckpointOutside(SlsError):
    """A checkpoint is before its shard's begin or behind its end. `shard` names it."""

    def __init__(self, message: str, *, shard: int) -> None:
        super().__init__(message)
        self.shard = shard


class InvariantBroken(SlsError):
    """A bug of ours. Stop, keep the evidence, change nothing more."""


def printable(text: str, chars_max: int = _SERVICE_TEXT_CHARS_MAX) -> str:
    """`text` on one line, without control characters, cut to so many characters."""
    flat = "".join(c if c.isprintable() else " " for c in text[:chars_max])
    return flat if len(text) <= chars_max else flat + "..."


def amount(count: int, noun: str) -> str:
    """How many of a thing there are, for people: `1 row`, `2,000 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def some_of(texts: Iterable[str], most: int = 5, between: str = ", ") -> str:
    """The first few of a list, and how many others there are, for people: `a, b and 2,000 more`, and of
    sentences `a; b; and 2,000 more`."""
    every, glue = [*texts], " " if between == ", " else between
    more = f"{glue}and {len(every) - most:,} more" if len(every) > most else ""
    return f"{between.join(every[:most])}{more}"
