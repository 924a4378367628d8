"""Rows read again from their texts: columns and `__rest__`, which is all that most rows keep.

    a key that was declared later       its values go from `__rest__` to its column, as far as they fit
    a key that is declared `hash`       its plain values, in its column and in `__rest__`, become digests
    a key that is declared `drop`       its values leave its column and `__rest__`

The last two are about rows with an error, too, and about the bytes that they keep. Nothing else of such rows
is looked at: `FromBytes` knows more of them. The column of a `hash` key gets what it will read there: the
digest in the bytes. Story: a log has the key without a value, and its column an empty text that nobody sent.
The text alone made that the digest of an empty text, `FromBytes` took it back; neither was ever done.

Worked example: a row landed as `n` = 7, `user` = ann and `__rest__` = {city: Rome, code: x7, mail: a@b}. Now
city is declared as string, code as int, user and mail as hash. The row becomes n = 7, user = the digest of
ann, city = Rome, mail = its digest, `__rest__` = {code: x7}. No error: x7 is where it was, and the bytes that
belong beside an error are not there.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, IsNull

from pipelines.landing.contents.kept import RereadRows, bytes_columns, is_log, kept_bytes, replaced
from pipelines.landing.table.contract import Contract
from sls_io.decoding.causes import Cause
from sls_io.decoding.nested import DIGEST, Ints, last_value
from sls_io.decoding.pairs import Declared, of_texts
from sls_io.decoding.texts import maps

_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_DIGEST = rf"\A{DIGEST.pattern.decode()}\z"
Mask = NDArray[np.bool_]


class FromRest:
    """Texts -> what today's contract makes of them."""

    def __init__(self, contract: Contract) -> None:
        self._declared, self._pii = contract.declared, contract.pii
        # PyIceberg 0.12 cannot ask a file's rows for a map that is not null.
        self.about: BooleanExpression = AlwaysTrue() if self._pii else IsNull(term="__error__")

    def chosen(self, batch: pa.RecordBatch) -> pa.Array:
        if self._pii:
            return pa.repeat(True, batch.num_rows)
        return pc.and_(pc.is_null(batch.column("__error__")), pc.is_valid(batch.column("__rest__")))

    def again(self, batch: pa.RecordBatch) -> RereadRows:
        rows = _Rows(batch)
        if self._pii:
            rows.clean_bytes(self._pii)
        for one in self._declared:
            if one.pii:
                rows.clean_column(one)
            if one.pii != "drop":
                rows.fill(one)
            if one.pii:
                rows.clean_rest(one)
        return rows.done()


class _Rows:
    """Rows of a batch and what becomes of them.

    row_of   the row of each pair of `__rest__`; `stays` says which pairs stay there
    sound    rows without an error; `bytes` has those that keep the bytes of their log
    about    rows that a declared key concerns; of these `changed` become others, `misfit` keep a value that
             does not fit
    """

    def __init__(self, batch: pa.RecordBatch) -> None:
        rest = batch.column("__rest__").cast(_PAIRS)
        self._batch = batch
        self._keys, self._items = rest.flatten().field("key"), rest.flatten().field("value")
        lengths = pc.list_value_length(rest).fill_null(0).to_numpy()
        self._row_of = np.repeat(np.arange(batch.num_rows), lengths)
        self._stays: Mask = np.ones(len(self._keys), dtype=np.bool_)
        self._sound: Mask = batch.column("__error__").is_null().to_numpy(zero_copy_only=False)
        self._bytes: Mask = batch.column("__raw__").is_valid().to_numpy(zero_copy_only=False)
        self._about, self._changed, self._misfit = np.zeros((3, batch.num_rows), dtype=np.bool_)
        self._columns: dict[str, pa.Array] = {}
        self._left: dict[str, int] = {}

    def fill(self, one: Declared) -> None:
        """The key's column from `__rest__`, in rows without an error."""
        pairs = self._pairs(one)
        pairs = pairs[self._sound[self._row_of[pairs]]]
        if not len(pairs):
            return
        rows, column = self._row_of[pairs], self._column(one.name)
        values = of_texts(one, self._items.take(pa.array(pairs)))
        fits = values.is_valid().to_numpy(zero_copy_only=False)
        # A column with another value is right: what stands in `__rest__` was put there by others.
        there = column.take(pa.array(rows))
        fits &= pc.fill_null(_same(there, values), True).to_numpy(zero_copy_only=False)
        of_row = np.full(self._batch.num_rows, -1, dtype=np.int64)
        of_row[rows[fits]] = np.flatnonzero(fits)
        found = values.take(pa.array(of_row, mask=of_row < 0))
        self._columns[one.name] = pc.coalesce(column, found)
        self._note(rows[fits])
        self._stays[pairs[fits]] = False
        if not one.pii and not fits.all():
            self._about[rows], self._misfit[rows[~fits]] = True, True
            self._left[Cause.MISFIT.format(one.name, one.label)] = int((~fits).sum())

    def clean_column(self, one: Declared) -> None:
        """Nothing plain in the column of a key of personal data, if the table has one.
        `clean_bytes` comes first."""
        if one.name not in self._batch.schema.names:
            return
        column = self._column(one.name)
        plain = column.is_valid()
        if one.pii == "hash":
            plain = pc.and_(plain, pc.invert(_digests(column)))
        if pc.any(plain).as_py():
            hidden = pa.nulls(len(column), column.type)
            if one.pii == "hash":
                hidden = self._as_in_bytes(one, plain, of_texts(one, column))
            self._columns[one.name] = hidden
            other = pc.coalesce(pc.not_equal(column, hidden), plain)
            self._note(np.flatnonzero(other.to_numpy(zero_copy_only=False)))

    def _as_in_bytes(self, one: Declared, plain: pa.Array, digests: pa.Array) -> pa.Array:
        """`digests` of a column's texts; of the `plain` ones that of the bytes, in rows that keep them."""
        rows = np.flatnonzero(plain.to_numpy(zero_copy_only=False) & self._bytes)
        found = digests.to_pylist()
        raws, errors = self._column("__raw__"), self._column("__error__")
        for row in rows.tolist():
            raw = raws[row].as_py()
            if is_log(raw, errors[row].as_py() or ""):
                kept = last_value(raw, one.name.encode())
                found[row] = found[row] if kept is None else kept.decode()
        return pa.array(found, digests.type)

    def clean_rest(self, one: Declared) -> None:
        """Nothing plain in `__rest__`. Where the bytes are kept, the text may be no more than their
        beginning: it goes, and the bytes have the digest."""
        pairs = self._pairs(one)
        if not len(pairs):
            return
        go = np.full(len(pairs), one.pii == "drop") | self._bytes[self._row_of[pairs]]
        self._stays[pairs[go]] = False
        self._note(self._row_of[pairs[go]])
        pairs = pairs[~go]
        texts = self._items.take(pa.array(pairs))
        plain = pairs[~_digests(texts).to_numpy(zero_copy_only=False)]
        if len(plain):
            hashed = np.zeros(len(self._keys), dtype=np.bool_)
            hashed[plain] = True
            digests = of_texts(one, self._items.take(pa.array(plain)))
            self._items = pc.replace_with_mask(self._items, pa.array(hashed), digests)
            self._note(self._row_of[plain])

    def clean_bytes(self, pii: Mapping[bytes, str]) -> None:
        """Nothing plain in the bytes that are kept."""
        rows = np.flatnonzero(self._bytes).tolist()
        if not rows:
            return
        raws, errors = (self._batch.column(name).to_pylist() for name in ("__raw__", "__error__"))
        kept = list(zip(raws, errors, strict=True))
        for row in rows:
            kept[row] = kept_bytes(*kept[row], pii)
        self._columns.update(bytes_columns(kept))
        self._note(np.array([row for row in rows if kept[row][0] != raws[row]], dtype=np.int64))

    def done(self) -> RereadRows:
        """What became of them."""
        if self._changed.any():
            offsets = np.zeros(self._batch.num_rows + 1, dtype=np.int64)
            np.cumsum(np.bincount(self._row_of[self._stays], minlength=self._batch.num_rows), out=offsets[1:])
            stays = pa.array(self._stays)
            self._columns["__rest__"] = maps(offsets, self._keys.filter(stays), self._items.filter(stays))
        return RereadRows(
            replaced(self._batch, self._columns),
            rows=int(self._about.sum()),
            mended=int((self._about & ~self._misfit).sum()),
            changed=int(self._changed.sum()),
            left=self._left,
        )

    def _pairs(self, one: Declared) -> Ints:
        """Pairs of the key that stay in `__rest__` as yet."""
        mine = pc.equal(self._keys, one.name).to_numpy(zero_copy_only=False)
        return np.flatnonzero(mine & self._stays)

    def _column(self, name: str) -> pa.Array:
        return self._columns.get(name, self._batch.column(name))

    def _note(self, rows: Ints) -> None:
        self._about[rows] = self._changed[rows] = True


def _same(one: pa.Array, other: pa.Array) -> pa.Array:
    """Which values are the same; NaN is what it is."""
    same = pc.equal(one, other)
    return pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other))) if pa.types.is_floating(one.type) else same


def _digests(texts: pa.Array) -> pa.Array:
    """Which of these are digests; what is null needs none."""
    return pc.fill_null(pc.match_substring_regex(texts, _DIGEST), True)
