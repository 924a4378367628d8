"""The declared columns and `__rest__` of a page: its (key, value) pairs, grouped by key.

A key is looked up once a page, not once a log: the pairs of a declared key become its column by one take and
one cast of the whole column, and what no column took is one map a log. Rules of what is shown: head of
`decode.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sls_io.decoding.causes import Cause, PageTrouble
from sls_io.decoding.nested import Ints, Logs, digest, digest_once
from sls_io.decoding.texts import TEXT_MAP, as_text, maps, numbered, replaced
from sls_io.values.errors import ConfigError


@dataclass(frozen=True)
class Declared:
    """A log key with a column of its own.

    name      the key, and the column
    type      the column's Arrow type
    convert   string array -> array of `type`, null where a value does not fit; None keeps the text
    pii       `drop`: no column, the value is written nowhere; `hash`: the column has the SHA-256 of
              the value's bytes in hex
    label     the type as people write it, for `__error__`
    of_bytes  `convert` takes a binary array, the values as they were sent: they need not be UTF-8
    """

    name: str
    type: pa.DataType
    convert: Callable[[pa.Array], pa.Array] | None = None
    pii: Literal["", "drop", "hash"] = ""
    label: str = ""
    of_bytes: bool = False


@dataclass
class Pairs:
    """The (key, value) pairs of logs, in order of the page, and in `order` grouped by key.

    Worked example: log 0 is a=1 b=2, log 1 is b=3 a=4 a=5. The pairs are a b b a a; `rows` is 0 0 1 1 1,
    `names` is a b, `codes` is 0 1 1 0 0. `order` is 0 3 4 1 2 and `starts` is 0 3 5: the pairs of a are
    order[0:3], those of b are order[3:5]. Log 1 shows a=5, so `shown` is false for pair 3.

    rows     the log each pair belongs to
    codes    each pair's key as a place in `names`; `starts` says where a key begins in `order`
    found    the place in `names` of each declared key; -1: no log has it
    shown    pairs whose value is shown: all but the earlier ones of a repeated key; None means all
    broken   pairs whose value was not UTF-8, replaced in `text`; None means none
    to_rest  pairs that go to `__rest__`
    own      place of a declared key that is read from bytes -> its values, in the order of its shown pairs;
             in `text` only those stand that did not fit
    """

    names: pa.Array
    text: pa.Array
    rows: Ints
    codes: Ints
    order: Ints
    starts: Ints
    found: list[int]
    shown: NDArray[np.bool_] | None
    broken: NDArray[np.bool_] | None
    to_rest: NDArray[np.bool_]
    own: dict[int, pa.Array]

    @staticmethod
    def of(logs: Logs, declared: Sequence[Declared], trouble: PageTrouble) -> Pairs:
        """The order of the steps is the rule. Keys become names and numbers. Values that were not sent are
        noted. `hash` keys are hashed before anything is read as text, so no column, no `__rest__` and no
        cause sees a plain value. Then the columns that read bytes take theirs, and only what is left must be
        UTF-8.

        Of a `drop` key nothing is noted (`quiet`): no column and no map shows it, so a cause would speak of
        nothing.
        """
        rows, keys, values = logs.log_of_pair, logs.keys, logs.values
        if keys.null_count:
            missing = keys.is_null().to_numpy(zero_copy_only=False)
            trouble.note(np.unique(rows[missing]), Cause.NO_KEY)
            keys = keys.fill_null(b"")
        keyed = numbered(keys, rows, logs.logs, replaced)
        names, codes, order, earlier = keyed.names, keyed.codes, keyed.order, keyed.earlier
        if keyed.broken is not None:
            trouble.note(np.unique(rows[keyed.broken]), Cause.KEY_BYTES)
        found, undeclared = _places(names, declared)
        quiet = np.zeros(len(names), dtype=np.bool_)
        quiet[_guarded(found, declared, "drop")] = True

        def note(pairs: Ints, cause: Cause) -> None:
            loud = pairs[~quiet[codes[pairs]]]
            trouble.note_names(rows[loud], codes[loud].astype(np.int64), names, cause, of_groups=False)

        there = None
        if values.null_count:
            there = values.is_valid().to_numpy(zero_copy_only=False)
            note(np.flatnonzero(~there), Cause.NO_VALUE)
            values = values.fill_null(b"")
        shown = None
        if len(earlier):
            shown = np.ones(len(codes), dtype=np.bool_)
            shown[earlier] = False
        plain = there if shown is None else shown if there is None else shown & there
        values = _hashed(values, codes, _guarded(found, declared, "hash"), plain)
        own = {}
        for place, (code, one) in enumerate(zip(found, declared, strict=True)):
            if one.of_bytes and code >= 0:
                pairs = _shown(order[keyed.starts[code] : keyed.starts[code + 1]], shown)
                own[place], values = _own(values, one, pairs)
        text, broken = as_text(values, replaced)
        if broken is not None:
            readers = [found[place] for place in own]
            note(np.flatnonzero(broken & ~np.isin(codes, readers)), Cause.VALUE_BYTES)
        to_rest = undeclared[codes] if undeclared.any() else np.zeros(len(codes), dtype=np.bool_)
        if shown is not None:
            note(earlier, Cause.KEY_REPEATED)
            to_rest &= shown
        return Pairs(names, text, rows, codes, order, keyed.starts, found, shown, broken, to_rest, own)

    def column(self, place: int, declared: Declared, logs: int, trouble: PageTrouble) -> pa.Array:
        """One value a log, null where the key is absent or its value does not fit.

        One assignment by log puts the pairs of a key in place. What cannot be shown goes to `__rest__` with
        its cause, and the column is null there.
        """
        code = self.found[place]
        if code < 0:
            return pa.nulls(logs, declared.type)
        pairs = _shown(self.order[self.starts[code] : self.starts[code + 1]], self.shown)
        if place in self.own:
            return self._own_column(pairs, declared, self.own[place], logs, trouble)
        if self.broken is not None:
            self.to_rest[pairs[self.broken[pairs]]] = True
            pairs = pairs[~self.broken[pairs]]
        at = self._of_rows(pairs, pairs, logs)
        text = pc.take(self.text, at, boundscheck=False)
        if declared.convert is None:
            return text
        values = _converted(declared, text)
        if values.null_count > text.null_count:
            misfit = pc.and_(values.is_null(), text.is_valid()).to_numpy(zero_copy_only=False)
            self._misfits(at.filter(pa.array(misfit)).to_numpy(), declared, trouble)
        return values

    def _own_column(
        self, pairs: Ints, declared: Declared, values: pa.Array, logs: int, trouble: PageTrouble
    ) -> pa.Array:
        """As `column`, of values that were read from bytes, one for each of `pairs`."""
        if values.null_count:
            self._misfits(pairs[values.is_null().to_numpy(zero_copy_only=False)], declared, trouble)
        at = self._of_rows(pairs, np.arange(len(pairs)), logs)
        return pc.take(values, at, boundscheck=False)

    def _of_rows(self, pairs: Ints, chosen: Ints, logs: int) -> pa.Array:
        """What of `chosen`, one for each of `pairs`, is each log's; null where a log has none."""
        if len(pairs) == logs:
            return pa.array(chosen)
        of_row = np.full(logs, -1, dtype=np.int64)
        of_row[self.rows[pairs]] = chosen
        return pa.array(of_row, mask=of_row < 0)

    def _misfits(self, pairs: Ints, declared: Declared, trouble: PageTrouble) -> None:
        self.to_rest[pairs] = True
        kind = declared.label or str(declared.type)
        trouble.note(self.rows[pairs], Cause.MISFIT, declared.name, kind)

    def rest(self, logs: int) -> pa.Array:
        """What no column took, as a map a log; null when nothing is left."""
        pairs = np.flatnonzero(self.to_rest)
        if not len(pairs):
            return pa.nulls(logs, TEXT_MAP)
        offsets = np.zeros(logs + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.rows[pairs], minlength=logs), out=offsets[1:])
        keys = self.names.take(pa.array(self.codes[pairs]))
        return maps(offsets, keys, self.text.take(pa.array(pairs)))


def of_texts(declared: Declared, texts: pa.Array) -> pa.Array:
    """Values that were read as text before they were declared, in the declared type; null where one does not
    fit. A digest stays one. Not for a key that is declared `drop`."""
    if declared.pii == "hash":
        sent = texts.cast(pa.binary()).to_pylist()
        return pa.array([None if v is None else digest_once(v).decode() for v in sent], pa.string())
    return _converted(declared, texts.cast(pa.binary()) if declared.of_bytes else texts)


def _places(names: pa.Array, declared: Sequence[Declared]) -> tuple[list[int], NDArray[np.bool_]]:
    """(`found` as in Pairs, which of the `names` nobody declared)."""
    declared_at = pc.index_in(names, value_set=pa.array([d.name for d in declared], pa.string()))
    declared_at = declared_at.fill_null(-1).to_numpy()
    found = [-1] * len(declared)
    for code in np.flatnonzero(declared_at >= 0).tolist():
        found[declared_at[code]] = code
    return found, declared_at < 0


def _guarded(found: list[int], declared: Sequence[Declared], how: str) -> list[int]:
    """The keys of the page that are declared to be guarded so, as in `codes`."""
    return [c for c, d in zip(found, declared, strict=True) if c >= 0 and d.pii == how]


def _shown(pairs: Ints, shown: NDArray[np.bool_] | None) -> Ints:
    return pairs if shown is None else pairs[shown[pairs]]


def _own(values: pa.Array, declared: Declared, pairs: Ints) -> tuple[pa.Array, pa.Array]:
    """(what `declared` makes of the bytes of `pairs`; `values` where of these only misfits are left, so that
    nobody looks for UTF-8 in the others)."""
    made = _converted(declared, values.take(pa.array(pairs)))
    read = np.zeros(len(values), dtype=np.bool_)
    read[pairs[made.is_valid().to_numpy(zero_copy_only=False)]] = True
    return made, pc.if_else(pa.array(read), pa.scalar(b"", pa.binary()), values)


def _converted(declared: Declared, text: pa.Array) -> pa.Array:
    """`text` in the declared type. A cast must answer null for what does not fit; one that raises
    instead must cost the value that it does not bear, and not the page."""
    if declared.convert is None:
        return text
    try:
        values = declared.convert(text)
    except ConfigError:  # the cast itself is wrong: it would be with every value
        raise
    except Exception:  # a cast is given a stranger's text, and there is no list of what it can raise
        if len(text) == 1:
            return pa.nulls(1, declared.type)
        half = len(text) // 2
        parts = [_converted(declared, text[:half]), _converted(declared, text[half:])]
        return pa.concat_arrays(parts)
    return values


def _hashed(values: pa.Array, codes: Ints, which: list[int], shown: NDArray[np.bool_] | None) -> pa.Array:
    """`values` with those of the keys `which` as SHA-256 in hex; one that is not `shown`, or was not sent,
    is left empty."""
    if not which:
        return values
    chosen = np.isin(codes, which)
    if shown is not None:
        hidden = chosen & ~shown
        if hidden.any():
            empty = pa.repeat(pa.scalar(b"", pa.binary()), int(hidden.sum()))
            values = pc.replace_with_mask(values, pa.array(hidden), empty)
        chosen &= shown
    plain = values.filter(pa.array(chosen)).to_pylist()
    digests = {value: digest(value) for value in set(plain)}
    return pc.replace_with_mask(values, pa.array(chosen), pa.array([digests[v] for v in plain], pa.binary()))
