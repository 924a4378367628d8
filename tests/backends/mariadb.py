"""A MariaDB server on loopback with a password, for tests; where the machine has one.

The program comes from the system (Debian's package `mariadb-server-core`, or a folder named by
`SLS_LAKE_MARIADB`), the driver is PyMySQL. Without them its tests are skipped, with a word.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import quote

from sqlalchemy import NullPool, create_engine, text

from tests import needs
from tests.backends.kept import Kept, serve

USER = "lake"
_READY = "ready for connections"
_TRIES = 5
_PLACES = ("/usr/sbin", "/usr/libexec")


def program(name: str) -> str | None:
    """Where one of MariaDB's programs is."""
    own = os.environ.get("SLS_LAKE_MARIADB", "")
    places = [f"{own}/{folder}" for folder in ("usr/sbin", "usr/bin")] if own else []
    return shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", ""), *_PLACES]))


class MariaDb:
    """A running server; each test has a database of its own."""

    def __init__(self) -> None:
        self._kept = Kept(__name__)
        self._port, self._password = int(self._kept.said["port"]), str(self._kept.said["password"])
        self._databases = 0

    def new_database(self) -> str:
        """The address of an empty database, as SQLAlchemy takes it."""
        self._databases += 1
        name = f"lake_{self._databases}"
        engine = create_engine(self.address("mysql"), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
        return self.address(name)

    def address(self, database: str) -> str:
        """The address of a database."""
        password = quote(self._password, safe="")
        return f"mysql+pymysql://{USER}:{password}@127.0.0.1:{self._port}/{database}?charset=utf8mb4"

    def end(self) -> None:
        """End the server."""
        self._kept.end()


def mariadb() -> MariaDb:
    """A server, or the test is skipped."""
    if program("mariadbd") is None or find_spec("pymysql") is None:
        needs.optional("no MariaDB on this machine: mariadbd and the Python package PyMySQL")
    return MariaDb()


def main() -> None:
    """Serve until the input ends."""
    with tempfile.TemporaryDirectory(prefix="sls-lake-mariadb-", ignore_cleanup_errors=True) as made:
        folder, password = Path(made), secrets.token_hex(16) + "/@"
        data, first = folder / "data", folder / "first.sql"
        data.mkdir()
        first.write_text(
            f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{password}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1';\n"
        )
        # The server makes its own system tables out of these, as its installer does.
        _bootstrap(folder, data)
        server, port = _started(data, first)
        try:
            serve({"port": port, "password": password})
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def _options(data: Path) -> list[str]:
    user = ["--user=root"] if os.geteuid() == 0 else []
    return ["--no-defaults", *user, f"--datadir={data}", *_share()]


def _share() -> list[str]:
    own = os.environ.get("SLS_LAKE_MARIADB", "")
    return (
        [f"--lc-messages-dir={own}/usr/share/mysql", f"--plugin-dir={own}/usr/lib/mysql/plugin"]
        if own
        else []
    )


def _bootstrap(folder: Path, data: Path) -> None:
    share = Path(os.environ.get("SLS_LAKE_MARIADB", "") or "/") / "usr/share/mysql"
    names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
    made = "create database mysql;\nuse mysql;\n" + "\n".join(
        (share / n).read_text() for n in names if (share / n).exists()
    )
    done = subprocess.run(
        [str(program("mariadbd")), *_options(data), "--bootstrap", "--skip-grant-tables"],
        input=made,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"mariadbd --bootstrap: {done.stderr[-2000:]}")


def _started(data: Path, first: Path) -> tuple[subprocess.Popen[str], int]:
    said = ""
    for _ in range(_TRIES):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = int(probe.getsockname()[1])
        server = subprocess.Popen(
            [
                *(str(program("mariadbd")), *_options(data), f"--port={port}", "--bind-address=127.0.0.1"),
                *(f"--socket={data}/socket", f"--init-file={first}", "--skip-name-resolve"),
                *("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=data,
            text=True,
        )
        assert server.stderr is not None
        said = ""
        for line in server.stderr:
            said += line
            if _READY in line:
                threading.Thread(target=_drain, args=(server.stderr,), daemon=True).start()
                return server, port
        server.wait()
    raise RuntimeError(f"MariaDB does not start: {said[-2000:]}")


def _drain(stream: IO[str]) -> None:
    for _ in stream:
        pass


if __name__ == "__main__":
    main()
