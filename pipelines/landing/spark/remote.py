"""Which Spark a process uses, and whether its Spark Connect server or its standalone master answers.

    SLS_SPARK_REMOTE   sc://HOST:PORT of a Spark Connect server; unset or empty: a local Spark
                       with /;session_id=UUID behind it, all runs work in that one session
    SLS_SPARK_MASTER   master of the local one; two cores and three attempts a task where unset

Connect's own client says nothing of a server that is not there: it makes a session without asking, and
then asks for ten minutes. So a run looks at the port before its first act. It waits a little, since a
server that was started again is there in seconds. A driver asks a standalone master for a minute, and tells
then that its context was stopped; so the port of a master is looked at in the same way.

Why one session for all runs: Spark forks the Python workers of a session from a process of that session's
own, and that one begins by importing our packages. It costs two CPU seconds, and a micro-batch on a warm
server costs three more, all told. Runs that share the session find it ready. Tasks of theirs are told apart
by their tags, and no run sets anything in the session.
"""

import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, ConnectFailed

REMOTE_VARIABLE = "SLS_SPARK_REMOTE"
MASTER_VARIABLE = "SLS_SPARK_MASTER"
DEFAULT_MASTER = "local[2,3]"
"""Two tasks at a time, three attempts each."""
WAIT_S = 15.0
_PORT = 15002
_SESSION = "session_id="
_STANDALONE = "spark://"
_TRY_S, _PAUSE_S = 5.0, 0.2


def on_this_machine(master: str) -> bool:
    """Whether executors of this master have the environment and the files of their driver."""
    return master.startswith("local")


def place_of(remote: str) -> tuple[str, int]:
    """(host, port) of an address. Raises ConfigError for what is none; what it says holds no token."""
    try:
        parts = urlsplit(remote)
        host, port = parts.hostname or "", parts.port or _PORT
    except ValueError:
        parts, host, port = urlsplit(""), "", 0
    if parts.scheme != "sc" or not host or "@" in parts.netloc:
        raise ConfigError(f"{REMOTE_VARIABLE} is no address of a Spark Connect server: sc://HOST:PORT")
    return host, port


def shown(remote: str) -> str:
    """An address as people may see it: a parameter of it may be a token."""
    try:
        host, port = place_of(remote)
    except ConfigError:
        return f"what {REMOTE_VARIABLE} says"
    return f"sc://{host}:{port}"


def names_session(remote: str) -> bool:
    """Whether the address says which session to work in."""
    return any(part.startswith(_SESSION) for part in remote.split(";")[1:])


def without_session(remote: str) -> str:
    """The same address for whoever wants a session of its own; its other parameters stay."""
    place, *parameters = remote.split(";")
    kept = [part for part in parameters if not part.startswith(_SESSION)]
    return ";".join([place, *kept]) if kept else place.removesuffix("/")


def answers(remote: str) -> bool:
    """Whether something listens at the address now. Raises ConfigError for what is no address."""
    return _listens([place_of(remote)])


def require_answer(remote: str, *, wait_s: float = WAIT_S) -> None:
    """Wait until something listens there; else ConnectFailed, with the address and the cure."""
    if not _comes([place_of(remote)], wait_s):
        raise unanswered(remote)


def require_master(master: str, *, wait_s: float = WAIT_S) -> None:
    """Wait until a standalone master of this address listens, one of several is enough; else ConnectFailed.
    Nothing for other masters, and for an address that only Spark can read."""
    places = _masters_of(master)
    if places and not _comes(places, wait_s):
        raise ConnectFailed(
            f"no Spark master answers at {master}: start it, or set {MASTER_VARIABLE} to another one, or "
            "unset it for a local Spark; nothing is lost, run again"
        )


def _masters_of(master: str) -> list[tuple[str, int]]:
    """Where the masters of `spark://HOST:PORT,HOST:PORT` listen."""
    if not master.startswith(_STANDALONE):
        return []
    places = (place.rpartition(":") for place in master.removeprefix(_STANDALONE).split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in places if host and port.isdecimal()]


def _comes(places: Sequence[tuple[str, int]], wait_s: float) -> bool:
    deadline_s = SYSTEM_CLOCK.monotonic() + wait_s
    while not _listens(places):
        if SYSTEM_CLOCK.monotonic() + _PAUSE_S > deadline_s:
            return False
        SYSTEM_CLOCK.sleep(_PAUSE_S)
    return True


def _listens(places: Sequence[tuple[str, int]]) -> bool:
    for place in places:
        try:
            socket.create_connection(place, _TRY_S).close()
        except (OSError, OverflowError, UnicodeError):  # also for a port or a name that cannot be
            continue
        return True
    return False


def unanswered(remote: str) -> ConnectFailed:
    """What is said of a server that is not there."""
    return ConnectFailed(
        f"no Spark Connect server answers at {shown(remote)}: start it, or unset {REMOTE_VARIABLE} "
        "for a local Spark; nothing is lost, run again"
    )
