"""File storage whose first answer about a file is wrong: PyIceberg loads it by name, as it would any other.

absent   it says that the file is not there
cut      it gives the first half of it
"""

import io
from typing import Any, ClassVar, Literal

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from pipelines.landing.table.lake import Lake

Lie = Literal["absent", "cut"]


class LyingIO(PyArrowFileIO):
    """Of each file whose name ends with `about` the first question is answered by `lie`; none while that is
    None. `told`: the files that it has lied about."""

    lie: ClassVar[Lie | None] = None
    about: ClassVar[str] = ""
    told: ClassVar[set[str]] = set()

    def new_input(self, location: str) -> PyArrowFile:
        """As always, but for the first question."""
        file = super().new_input(location)
        if self.lie is None or not location.endswith(self.about) or location in self.told:
            return file
        self.told.add(location)
        return _Lying(file, self.lie)  # type: ignore[return-value]  # what a reader needs


class _Lying:
    def __init__(self, file: PyArrowFile, lie: Lie) -> None:
        self._file, self._lie, self.location = file, lie, file.location

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._lie != "absent" and bool(self._file.exists())

    def open(self, seekable: bool = True) -> Any:
        if self._lie == "absent":
            raise FileNotFoundError(f"Cannot open file, does not exist: {self.location}")
        with self._file.open() as stream:
            content = bytes(stream.read())
        return io.BytesIO(content[: len(content) // 2])


def lying(lake: Lake) -> Lake:
    """The same lake on such a storage, which tells the truth for now."""
    LyingIO.lie = None
    return Lake({**lake.properties, "py-io-impl": f"{LyingIO.__module__}.{LyingIO.__name__}"})


def lie(about: str, how: Lie | None) -> None:
    """Lie about files whose names end so, from now on."""
    LyingIO.told.clear()
    LyingIO.about, LyingIO.lie = about, how
