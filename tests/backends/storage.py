"""What a test does to the files of a warehouse behind the table's back, on a disk and in a bucket."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from sls_io.values.clock import SYSTEM_CLOCK
from tests.backends.s3 import S3

_DAY_S = 24 * 3600.0


class Storage(Protocol):
    """Files by the names that `World.published` gives: paths on a disk, addresses in a bucket."""

    def files(self) -> set[str]:
        """All of them."""

    def put(self, name: str, content: bytes) -> None:
        """Write one."""

    def age(self, names: Iterable[str], days: float) -> None:
        """As if they had been written days ago."""


class Folder:
    """A warehouse on a disk."""

    def __init__(self, warehouse: str) -> None:
        self._path = Path(urlsplit(warehouse).path)

    def files(self) -> set[str]:
        """All files."""
        return {str(path) for path in self._path.rglob("*") if path.is_file()}

    def put(self, name: str, content: bytes) -> None:
        """Write a file."""
        Path(name).write_bytes(content)

    def age(self, names: Iterable[str], days: float) -> None:
        """Set their times."""
        for name in names:
            at = SYSTEM_CLOCK.now() - days * _DAY_S
            os.utime(name, (at, at))


class Bucket:
    """A warehouse in a bucket."""

    def __init__(self, server: S3, bucket: str, scheme: str) -> None:
        self._server, self._bucket, self._scheme = server, bucket, scheme

    def files(self) -> set[str]:
        """All objects."""
        return {f"{self._scheme}://{path}" for path in self._server.files(self._bucket)}

    def put(self, name: str, content: bytes) -> None:
        """Store an object."""
        self._server.put(name, content)

    def age(self, names: Iterable[str], days: float) -> None:
        """Ask the server to."""
        self._server.age(names, days)
