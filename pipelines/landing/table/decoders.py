"""Casts that take the bytes of values as they were sent: another encoding, and somebody's own function.

What comes out of somebody's function is an array that they made. It is held against its type before anybody
reads it (`unsound`): a wrong buffer would be written, and no reader could read the file again.
"""

import codecs
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.landing.table.casts import DATE32, STRING, TIMESTAMP, each_once
from sls_io.values.errors import CodeFailed, ConfigError, amount, printable
from sls_io.values.named import Unusable, called, type_name
from sls_io.values.named import load as load_named

_NO_TEXTS = frozenset(("idna", "punycode", "unicode_escape", "raw_unicode_escape"))
"""Codecs of Python that are ways to write names and programs, not logs."""


@dataclass(frozen=True)
class Encoded:
    """Bytes that are text in another encoding than UTF-8; `encoding` is a name that Python knows.

    A decoder of Python's, strict: bytes that the encoding does not have are no text. Story: GBK has two
    bytes for most signs; an ASCII text is the same in both.
    """

    encoding: str
    type: pa.DataType = STRING

    @staticmethod
    def of(encoding: str) -> "Encoded":
        """Raises ConfigError for what is no encoding of texts (`hex` and `zlib` are codecs, too)."""
        try:
            "a".encode(encoding)
            known = codecs.lookup(encoding).name.replace("-", "_") not in _NO_TEXTS
        except (LookupError, UnicodeError):
            known = False
        if not known:
            raise ConfigError(
                f"unknown encoding {printable(encoding)!r}; use a name such as gbk, gb18030, big5, latin-1"
            )
        return Encoded(encoding)

    def __call__(self, raw: pa.Array) -> pa.Array:
        """The texts of `raw`, a binary array; null where the bytes are none."""
        return each_once(raw, self._exactly)

    def _exactly(self, raw: pa.Array) -> pa.Array:
        return pa.array([self._text(value) for value in raw.to_pylist()], STRING)

    def _text(self, value: bytes) -> str | None:
        try:
            text = value.decode(self.encoding)
            text.encode()  # a decoder may answer with half of a pair of surrogates
        except UnicodeError:
            return None
        return text


@dataclass(frozen=True)
class Custom:
    """A function of somebody's own, `path` as `package.module:name`.

    It is given a binary array of the values as they were sent, each distinct one once and none null, and
    answers an array of `type` of that length, null where a value does not fit. The same bytes must always
    give the same answer: rows are read again.
    """

    path: str
    type: pa.DataType

    def __call__(self, raw: pa.Array) -> pa.Array:
        """What the function says of each value; raises ConfigError where it breaks its word."""
        return each_once(raw, self._exactly)

    def _exactly(self, raw: pa.Array) -> pa.Array:
        setting = "a column's decoder"
        try:
            made = called(
                setting,
                self.path,
                load_named(setting, self.path),
                raw,
                reads=partial(self._read, len(raw)),
                cure=f"let it answer one pyarrow array of {self.type} with a value, or null, for each",
            )
        except CodeFailed as failed:
            if not failed.kind:
                raise
            raise ValueError(failed.kind) from None
        if found := unsound(made):
            raise ValueError(found)  # as where it raises: the values asked one by one tell which it is
        return made

    def _read(self, asked: int, made: Any) -> pa.Array | Unusable:
        # Of this very class: a subclass of somebody's has a length and a type of theirs.
        if type(made) is type(pa.nulls(0, self.type)) and len(made) == asked and made.type == self.type:
            return made
        known = type(made).__module__ == pa.lib.__name__ and isinstance(made, pa.Array)
        found = f"{len(made)} of {type_text(made.type)}" if known else type_name(made)
        return Unusable(f"was given {amount(asked, 'value')} and answered {found}")


def type_text(type_: pa.DataType) -> str:
    """A type of somebody's array in words. A struct's names may be what a log said."""
    plain = type(type_).__module__ == pa.lib.__name__ and not type_.num_fields
    return str(type_) if plain else type_name(type_)


def unsound(values: pa.Array) -> str:
    """What of an array that somebody else made is no value of its type, "" for nothing: Arrow takes a
    buffer's word for it, would write it, and no reader could read the file again. Holds none of the values.

    Arrow itself checks offsets and UTF-8; that a moment has a year which a reader can show it does not.
    """
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return f"values that are no {values.type}"
    bounds = _BOUNDS.get(values.type)
    if bounds is None or values.null_count == len(values):
        return ""
    of = pc.min_max(values.cast(pa.int64() if values.type == TIMESTAMP else pa.int32()))
    if bounds[0] <= of["min"].as_py() and of["max"].as_py() <= bounds[1]:
        return ""
    return f"a {values.type} outside of the years 0001 to 9999"


_BOUNDS = {
    TIMESTAMP: tuple(
        pa.scalar(moment, TIMESTAMP).cast(pa.int64()).as_py()
        for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    ),
    DATE32: tuple(pa.scalar(day, DATE32).cast(pa.int32()).as_py() for day in (date.min, date.max)),
}


OfBytes = Encoded | Custom
"""Casts that take the bytes as they were sent."""
