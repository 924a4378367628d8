"""Databases for leases: a file, and the servers that tests start."""

import itertools
from pathlib import Path

from sqlalchemy import create_engine

from sls_io.coordination.lease_tables import METADATA
from tests import needs
from tests.backends.places import Servers
from tests.backends.postgres import only_read

DATABASES = ("sqlite", "postgres", "mariadb")


class Databases:
    """Makes an empty database of a kind; a kind that the machine lacks skips the test."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self._folder, self.servers, self._numbers = folder, servers, itertools.count()

    def new(self, kind: str) -> str:
        """The address of an empty one."""
        if kind == "mariadb":
            needs.mariadb()
            return self.servers.mariadb.new_database()
        if kind == "postgres":
            return self.servers.postgres.new_database()
        return f"sqlite:///{self._folder}/leases-{next(self._numbers)}.db"

    def only_read(self, address: str) -> None:
        """From now on each new session of this database of PostgreSQL only reads."""
        only_read(address)

    def drop_tables(self, address: str) -> None:
        """As somebody would who thought that nobody needs them."""
        engine = create_engine(address)
        METADATA.drop_all(engine)
        engine.dispose()
