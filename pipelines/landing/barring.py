"""Values that may not land: rows of them are left out before anything is written, and counted.

What is kept of a value is a *bar*: 16 bytes of HMAC-SHA256 over the column's field id and the value, under a
salt that the table has for itself. The value is written nowhere. The salt stands beside the bars, so whoever
may read the table's metadata can try values: a name that he knows, or all of a small value space, such as
telephone numbers. What a bar keeps secret is a value that nobody would think of.

A value is what the column has, whatever its type is by then: `int` became `long`, and 7 is still barred; a
key of texts was declared `hash`, and the digest of that text is.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sls_io.decoding.decode import PagePart, identity_sum
from sls_io.values.claim import SUM_MODULUS

DIGEST_BYTES = 16
SALT_BYTES = 16
BARS_MAX = 1000
"""Values of a table: each snapshot's summary has all of them, some 25 bytes each."""


@dataclass(frozen=True, slots=True, order=True)
class Bar:
    """One value of the column with the id `field`, in rows of the logstore `origin`."""

    origin: str
    field: int
    digest: str


@dataclass(frozen=True, slots=True)
class Bars:
    """All values of a table that may not land.

    salt     of this table alone, hex; "" before the first bar
    values   those that may not
    begun    how often a person has said so: it only grows, also where bars end, so that a table from before
             such a decision is told from one that has seen it
    """

    salt: str = ""
    values: frozenset[Bar] = field(default=frozenset(), compare=False)
    begun: int = 0

    def plus(self, more: frozenset[Bar]) -> "Bars":
        """With these, by one decision more."""
        return replace(self, values=self.values | more, begun=self.begun + 1)

    def less(self, ended: frozenset[Bar]) -> "Bars":
        """Without these."""
        return replace(self, values=self.values - ended)

    def inherited(self, old: frozenset[Bar], origin: str) -> "Bars":
        """With `old` ones, which are of a logstore that goes on as another."""
        return replace(self, values=self.values | {replace(bar, origin=origin) for bar in old})

    def made(
        self, origin: str, column: int, values: pa.Array, *, hashed: bool = False
    ) -> tuple["Bars", frozenset[Bar]]:
        """The same with a salt, and the bars that these values of the column `column` would be; `hashed`: the
        column is declared `hash`."""
        salted = self if self.salt else replace(self, salt=secrets.token_hex(SALT_BYTES))
        digests = _digests(bytes.fromhex(salted.salt), column, values, hashed=hashed)
        return salted, frozenset(Bar(origin, column, digest) for digest in digests if digest)


@dataclass(frozen=True)
class Barring:
    """What a writer needs of the bars of a logstore; picklable, and without a value.

    `columns`: the name that a column has by now -> its field id, and the digests of what may not land.
    `hashed`: those that are declared `hash`.
    """

    salt: str = ""
    columns: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    hashed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.columns)

    def taken(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each row whether it may not land; never null. `batch` has the columns by name."""
        salt = bytes.fromhex(self.salt)
        mask = pa.array(np.zeros(batch.num_rows, dtype=bool))
        for name, (column, barred) in self.columns.items():
            coded = batch.column(name).dictionary_encode()
            digests = _digests(salt, column, coded.dictionary, hashed=name in self.hashed)
            found = [digest in barred for digest in digests]
            if any(found):
                mask = pc.or_(mask, pc.fill_null(pa.array(found).take(coded.indices), False))
        return mask

    def part(self, part: PagePart, shard: int) -> tuple[PagePart, int, int]:
        """The part without the rows that may not land; how many those are, and their identity sum."""
        taken = self.taken(part.batch)
        rows = pc.sum(taken).as_py() or 0
        if not rows:
            return part, 0, 0
        gone, left = part.batch.filter(taken), part.batch.filter(pc.invert(taken))
        cursors, indexes = (
            gone.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("__cursor__", "__index__")
        )
        total = identity_sum(shard, cursors, indexes)
        errors = left.num_rows - left.column("__error__").null_count
        return PagePart(left, left.num_rows, errors, (part.sum - total) % SUM_MODULUS), rows, total


def _digests(salt: bytes, column: int, values: pa.Array, *, hashed: bool) -> list[str | None]:
    """Of each value what a bar of it would have; None for null and NaN, which no bar is about."""
    texts = (_plain(value, hashed=hashed) for value in _numbered(values).to_pylist())
    return [None if text is None else _digest(salt, column, text) for text in texts]


def _digest(salt: bytes, column: int, text: bytes) -> str:
    found = hmac.digest(salt, b"%d:%s" % (column, text), "sha256")[:DIGEST_BYTES]
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()


def _numbered(values: pa.Array) -> pa.Array:
    """Times and days as numbers, which every Arrow type of them can be."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    return values.cast(pa.int32()) if pa.types.is_date32(values.type) else values


def _plain(value: object, *, hashed: bool) -> bytes | None:
    """A value as bytes, the same for each type that the column may have had: 7, 7.00 and 7 as a long are one,
    and so are a text and what `hash` makes of it.

    A float is the double that it is; 0.0 and -0.0 are equal, so they are one, too.
    """
    if value is None or value != value:
        return None
    if isinstance(value, bytes):
        return b"x" + value
    if isinstance(value, str):
        return b"s" + (value.encode() if hashed else hashlib.sha256(value.encode()).hexdigest().encode())
    if isinstance(value, bool):
        return b"b1" if value else b"b0"
    if isinstance(value, float):
        return b"f" + (value + 0.0).hex().encode()
    # An int or a Decimal. By its digits, without arithmetic, which would round.
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, places = digits.partition(".")
    # Worked example: 7 and 7.00 are `n7.`, -0.50 is `n-.5`, and -0 is `n.`, as 0 is.
    whole, places = whole.lstrip("0"), places.rstrip("0")
    return f"n{sign if whole or places else ''}{whole}.{places}".encode()
