"""A database through SQLAlchemy, each call with a deadline, each error one of our tree.

SQLite, PostgreSQL, MySQL and MariaDB. For `ask` every statement is a transaction of its own. Drivers wait for
ever for a server that does not answer; so a call that takes too long is left behind, and nobody knows whether
it is carried out yet: `TransportTimeout`. Whoever sent a change asks the tables then. Who makes transactions
takes a connection, and what its driver raises.

An address may have a password in it; what is said of a database never has.
"""

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, ProgrammingError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from sls_io.coordination.cells import tolerant
from sls_io.values.database_codes import trouble_of
from sls_io.values.deadline import NoAnswer, answered
from sls_io.values.errors import ConfigError, ConnectFailed, SlsError, TransportTimeout, printable

Answer = TypeVar("Answer")

DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg2",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""Database -> what SQLAlchemy is told when the address names no driver."""
_CONNECTIONS_MAX = 4
_PARTS = re.compile(r"(?!sqlite)[\w+]+://(?P<user>[^:/]*(?::[^@]*)?@)?(?P<place>.*)", re.DOTALL)
"""An address of a server as SQLAlchemy reads it: a password ends at the first @."""


class Database:
    """The database at `address`; `name` is how it is called in messages: kind, host and database.

    A call takes at most `deadline_s`, and so does a wait of `transactions` for a row or a file that is
    locked. Nothing is connected before the first one.
    """

    def __init__(self, address: str, *, deadline_s: float, transactions: bool = False) -> None:
        self.url = url = parsed(address)
        self.name, self._deadline_s = shown(url), deadline_s
        self._secrets = secrets_of(url)
        try:
            self._engine = _engine(url, deadline_s, transactions=transactions)
        except (ImportError, NoSuchModuleError) as error:
            raise ConfigError(
                f"database {self.name}: the driver {url.drivername} is not installed here; install it "
                "(pymysql for MySQL and MariaDB)"
            ) from error
        except (ArgumentError, TypeError, ValueError) as error:
            raise ConfigError(
                f"database {self.name}: the address has an option that its driver does not know; remove it"
            ) from error

    @property
    def kind(self) -> str:
        """`sqlite`, `postgresql` or `mysql`; MariaDB counts as MySQL."""
        return "mysql" if self._engine.dialect.name == "mariadb" else self._engine.dialect.name

    def there(self) -> bool:
        """Whether there is something to connect to: SQLite would make a file that is not there."""
        return there(self._engine.url)

    def ask(self, call: Callable[[Connection], Answer], *, deadline_s: float | None = None) -> Answer:
        """What `call` makes of a connection whose statements are carried out one by one.

        Raises ConnectFailed and TransportTimeout, after which a change may have been carried out or not;
        ConfigError when the database refuses the statement.

        By the code of the driver and the class of the error, never by a sentence: what the database refuses
        will be refused again, what did not answer may come back.
        """
        limit_s = deadline_s or self._deadline_s
        try:
            return answered(lambda: self._asked(call), deadline_s=limit_s, waits_for=f"database {self.name}")
        except NoAnswer as error:
            raise TransportTimeout(
                f"database {self.name} did not answer within {limit_s:g} s; look whether it is up"
            ) from error
        except SQLAlchemyError as error:
            trouble = trouble_of(error)
            if isinstance(error, ProgrammingError) or trouble == "tables":
                raise ConfigError(
                    f"database {self.name} refuses: {self._said(error)}; look whether its tables are there, "
                    "and whether the user of the address may read and write them"
                ) from error
            what, cure = "cannot be asked", "look at it and at its address"
            if trouble == "rights" and self.kind != "sqlite":
                # No ConfigError: one that takes no writes for a moment has its standby put in its place.
                what, cure = "refuses", "look whether the user of the address may read and write its tables"
                cure += ", and whether it takes writes"
            raise ConnectFailed(f"database {self.name} {what}: {self._said(error)}; {cure}") from error

    def connect(self) -> Connection:
        """A connection, to be closed by whoever asked for it. Raises SQLAlchemyError."""
        return self._engine.connect()

    def close(self) -> None:
        """Let go of its connections; the next call makes new ones."""
        # A connection that hangs is not worth an error: nothing is asked of it any more.
        with contextlib.suppress(SQLAlchemyError):
            self._engine.dispose()

    def _asked(self, call: Callable[[Connection], Answer]) -> Answer:
        with self._engine.connect() as connection:
            return call(connection)

    def _said(self, error: SQLAlchemyError) -> str:
        """What the driver said, on one line: without the statement, its values and the password."""
        cause = error.orig if isinstance(error, DBAPIError) else None
        text = str(cause) if cause is not None else type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return printable(text.strip())


def there(url: URL) -> bool:
    """Whether connecting makes nothing: SQLite would make a file that is not there."""
    return url.get_backend_name() != "sqlite" or Path(url.database or "").exists()


def secrets_of(url: URL) -> tuple[str, ...]:
    """What an address holds that nobody must see: the password, also where it stands behind the question
    mark (`?password=`, `?sslpassword=`)."""
    values = [str(url.password or "")]
    for name, value in url.query.items():
        if "pass" in name.lower():
            values += [value] if isinstance(value, str) else value
    return tuple(value for value in values if value)


def shown(url: URL) -> str:
    """Kind, host and database of an address, never who signs in there."""
    place = f"{url.host}:{url.port}" if url.port else url.host or ""
    return printable(f"{url.get_backend_name()}://{place}/{url.database or ''}")


def parsed(address: str) -> URL:
    """The address as SQLAlchemy takes it, with our driver where it names none. Raises ConfigError.

    An address with two @ is refused (`check_one_at`).
    """
    try:
        url = make_url(address)
        kind = url.get_backend_name()
    except (ArgumentError, SlsError, ValueError) as error:
        # The text itself is not shown: who got the address wrong mostly has a password in it.
        raise ConfigError(
            "the address of the database is none: write KIND://USER@HOST/DATABASE, or sqlite:///FILE"
        ) from error
    if kind not in DRIVERS:
        known = ", ".join(DRIVERS)
        raise ConfigError(f"a database of the kind {printable(kind)!r} is not known: {known}")
    check_one_at(address, "the address of the database")
    if kind == "sqlite" and (url.database or ":memory:") == ":memory:":
        raise ConfigError("sqlite:// without a file is a database that no other process sees; name a file")
    if kind == "sqlite" and (url.database or "").startswith("file:"):
        raise ConfigError("the address names its file by file:, write the path alone: sqlite:///FILE")
    return with_driver(url)


def with_driver(url: URL) -> URL:
    """The address with our driver where it names none, else as it is. What SQLAlchemy would take for MySQL is
    another package than the one that we ask for."""
    return url.set(drivername=DRIVERS.get(url.drivername, url.drivername))


def check_one_at(address: str, what: str) -> None:
    """Raises ConfigError where an address may have an @ in its password: which of two ends it nobody can
    tell, and what is behind the first one would be shown as a host.

    Worked example: `postgresql://lake:p@ss/w%rd@db/lake` has the host `ss` and the database `w%rd@db/lake`,
    and `postgresql://lake:p@ss?wd@db/lake` has the host `ss` and an option. Without a user an option may have
    one: `postgresql://db/lake?user=lake@server`.
    """
    if not (parts := _PARTS.fullmatch(address)):
        return
    place, _, options = parts["place"].partition("?")
    if "@" in (f"{place}{options}" if parts["user"] else place):
        raise ConfigError(
            f"{what} has more than one @: write what the password has of its own in percent: "
            "@ as %40, / as %2F, : as %3A, # as %23, ? as %3F, % as %25"
        )


def _engine(url: URL, deadline_s: float, *, transactions: bool) -> Engine:
    # Whole seconds, since drivers of servers take no others; the deadline of `ask` is the one that counts.
    # What is locked is given up before a statement is, so that it can be told from a server that is slow.
    lock_s = max(1, round(deadline_s))
    longest_s = 2 * lock_s if transactions else lock_s
    options: dict[str, dict[str, object]] = {
        "sqlite": {"timeout": deadline_s},
        "postgresql": {
            "connect_timeout": max(2, lock_s),
            "options": f"-c lock_timeout={lock_s}s -c statement_timeout={longest_s}s",
        },
        "mysql": {
            "connect_timeout": lock_s,
            "read_timeout": longest_s,
            "write_timeout": longest_s,
            "init_command": f"SET SESSION innodb_lock_wait_timeout={lock_s}, lock_wait_timeout={lock_s}",
        },
    }
    kind = url.get_backend_name()
    connect_args = options["mysql" if kind == "mariadb" else kind]
    if transactions:
        # A connection that is kept would go on with a file that somebody has replaced.
        return tolerant(
            create_engine(url, poolclass=NullPool, connect_args=connect_args, hide_parameters=True)
        )
    return tolerant(
        create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            connect_args=connect_args,
            pool_size=_CONNECTIONS_MAX,
            max_overflow=_CONNECTIONS_MAX,
            pool_timeout=deadline_s,
            pool_recycle=1800,
            hide_parameters=True,
        )
    )
