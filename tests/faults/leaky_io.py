"""File storage that fails as told: PyIceberg loads it by name (`py-io-impl`), as it would any other.

    lost        the request to make a file never arrives
    unanswered  the file is stored whole, the answer to its end is an error
    refused     the storage answers 503 in the middle of a file
    late        the file is not there yet, the answer is an error; `deliver` stores it
    a callable  is called in the middle of a file, and then it is as `refused`

Only data files meet `script`, one word each; manifests and metadata are stored as always.
"""

import io
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from pyiceberg.io import OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from pipelines.landing.table.lake import Lake


class LeakyIO(PyArrowFileIO):
    """All tasks of a process share the script."""

    script: ClassVar[deque[str | Callable[[], object]]] = deque()
    late: ClassVar[list[tuple[str, bytes]]] = []

    def new_output(self, location: str) -> PyArrowFile:
        """As always, but for data files while there is a script."""
        file = super().new_output(location)
        if location.endswith(".parquet") and self.script:
            return _Leaky(file, self.script.popleft())  # type: ignore[return-value]  # what a writer needs
        return file

    def deliver(self) -> None:
        """What was late arrives."""
        for location, content in self.late:
            with super().new_output(location).create() as stream:
                stream.write(content)
        self.late.clear()


class _Leaky:
    def __init__(self, file: OutputFile, word: str | Callable[[], object]) -> None:
        self._file, self._word = file, word

    def create(self, overwrite: bool = False) -> "_Stream":
        if self._word == "lost":
            raise OSError("could not send the request")
        return _Stream(self._file, self._word)


class _Stream(io.RawIOBase):
    def __init__(self, file: OutputFile, word: str | Callable[[], object]) -> None:
        super().__init__()
        self._file, self._word = file, word
        self._content = bytearray()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return len(self._content)

    def write(self, data: Any) -> int:
        if callable(self._word):
            self._word()
        if callable(self._word) or self._word == "refused":
            raise OSError("503 slow down")
        self._content += data
        return len(data)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        if callable(self._word) or self._word == "refused":
            return
        if self._word == "late":
            LeakyIO.late.append((self._file.location, bytes(self._content)))
        else:
            stream: OutputStream = self._file.create()
            stream.write(bytes(self._content))
            stream.close()
        raise OSError("no answer in time")


def leaky(lake: Lake) -> Lake:
    """The same lake on storage that can be told to fail."""
    LeakyIO.script.clear()
    LeakyIO.late.clear()
    return Lake({**lake.properties, "py-io-impl": f"{LeakyIO.__module__}.{LeakyIO.__name__}"})
