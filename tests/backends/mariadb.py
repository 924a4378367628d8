"""A MariaDB server on loopback with a password: the program, and its face for tests.

The binaries are the machine's own (`tests/needs.py` skips where there are none). Under root the server runs
as `nobody`.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import NullPool, create_engine, text

from tests.backends.kept import Kept, serve, started, stopped

USER = "lake"
_READY = "ready for connections"


def server_program() -> str | None:
    """Where the server's binary is; None for nowhere, or where what makes its folder lacks a part. Debian
    puts the one where users do not look, and that part into the package of the clients."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/libexec"])
    return shutil.which("mariadbd", path=path) if shutil.which("my_print_defaults") else None


class MariaDB:
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
        engine = create_engine(self.address(""), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        return self.address(name)

    def address(self, database: str) -> str:
        """The address of a database."""
        return f"mariadb+pymysql://{USER}:{quote(self.password, safe='')}@127.0.0.1:{self.port}/{database}"

    def paused(self) -> AbstractContextManager[None]:
        """It answers nobody."""
        return stopped([self.pid])

    def end(self) -> None:
        """End the server."""
        self._kept.end()


def main() -> None:
    """Serve until the input ends."""
    with tempfile.TemporaryDirectory(prefix="sls-lake-mariadb-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        password = secrets.token_hex(16) + "/@"
        data, first = folder / "data", folder / "first.sql"
        first.write_text(
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{password}';\nGRANT ALL ON *.* TO '{USER}'@'%';\n"
        )
        data.mkdir()
        if user is not None:
            for path in (folder, data, first):
                os.chown(path, user.pw_uid, user.pw_gid)
        server, port = _started(folder, data, first, user)
        try:
            serve({"port": port, "password": password, "pid": server.pid})
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()


def _started(
    folder: Path, data: Path, first: Path, user: pwd.struct_passwd | None
) -> tuple[subprocess.Popen[str], int]:
    """The server and its port."""
    program = server_program()
    if program is None:
        raise RuntimeError("no mariadbd on this machine")
    runs_as = [f"--user={user.pw_name}"] if user is not None else []
    done = subprocess.run(
        ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db", *runs_as],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"mariadb-install-db: {done.stdout}{done.stderr}")
    return started(
        "MariaDB",
        lambda port: [
            *(program, "--no-defaults", *runs_as, f"--datadir={data}", f"--port={port}"),
            *("--bind-address=127.0.0.1", f"--socket={folder}/socket", f"--init-file={first}"),
            *(f"--pid-file={folder}/pid", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0"),
            "--skip-name-resolve",
        ],
        ready=_READY,
    )


if __name__ == "__main__":
    main()
