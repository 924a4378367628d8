"""Texts as typed columns: whole arrays at a time, null where a text does not fit, never an error.

A cast is a value: picklable, called with a string array, answers an array of its type. What a text
becomes never depends on its neighbours; the quick way through a whole array is taken only where it
gives the same answers as the slow one. Texts fit when they are:

    int, long       decimal digits with an optional minus, in range
    float, double   a decimal number, with an exponent or not; nan, inf and infinity in any case;
                    a number too large to be finite does not fit
    boolean         true, false, 1, 0 in any case
    decimal(p,s)    a plain decimal number that needs no rounding
    date            YYYY-MM-DD, a day that exists
    timestamp       what the format says, a moment that exists, no finer than microseconds

No text is trimmed: a value with a blank in front is kept as text, where a person can see it.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sls_io.errors import ConfigError

Ints = NDArray[np.int64]

BOOLEAN = pa.bool_()
TIMESTAMP = pa.timestamp("us", tz="UTC")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS_IN_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_YEAR_1_US = -62_135_596_800_000_000
_YEAR_10000_US = 253_402_300_800_000_000


@dataclass(frozen=True)
class Plain:
    """A type that Arrow parses from text itself.

    `pattern` says which texts may fit; an array made of the bytes in `quick` alone cannot have a
    text that Arrow takes and the pattern does not, so it needs no look at each text.
    """

    type: pa.DataType
    pattern: str
    quick: bytes

    def __call__(self, text: pa.Array) -> pa.Array:
        """`text` as `type`, null where it does not fit."""
        if self.quick and _only(text, self.quick):
            try:
                return self._finite(text, text.cast(self.type))
            except pa.ArrowInvalid:
                pass
        distinct = text.dictionary_encode()
        fits = pc.match_substring_regex(distinct.dictionary, self.pattern)
        candidates = pc.if_else(fits, distinct.dictionary, pa.scalar(None, pa.string()))
        return self._finite(candidates, self._halve(candidates)).take(distinct.indices)

    def _halve(self, text: pa.Array) -> pa.Array:
        """Cast in halves until each part either fits whole or is one text that does not."""
        try:
            return text.cast(self.type)
        except pa.ArrowInvalid:
            if len(text) == 1:
                return pa.nulls(1, self.type)
        middle = len(text) // 2
        return pa.concat_arrays([self._halve(text[:middle]), self._halve(text[middle:])])

    def _finite(self, text: pa.Array, values: pa.Array) -> pa.Array:
        """Arrow turns 1e400 into infinity; that is another number than the text says."""
        if not pa.types.is_floating(self.type):
            return values
        infinite = pc.is_inf(values)
        if not pc.any(infinite).as_py():
            return values
        meant = pc.match_substring_regex(text, r"(?i)inf")
        lost = pc.and_(infinite, pc.invert(meant))
        return pc.if_else(pc.fill_null(lost, False), pa.scalar(None, self.type), values)


INT = Plain(pa.int32(), r"^-?[0-9]+$", b"-0123456789")
LONG = Plain(pa.int64(), r"^-?[0-9]+$", b"-0123456789")
_NUMBER = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)$"
FLOAT = Plain(pa.float32(), _NUMBER, b"+-.0123456789eE")
DOUBLE = Plain(pa.float64(), _NUMBER, b"+-.0123456789eE")
DATE = Plain(pa.date32(), r"^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}$", b"")


def decimal(precision: int, scale: int) -> Plain:
    """A decimal of `precision` digits, `scale` of them behind the point."""
    pattern = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)$"
    return Plain(pa.decimal128(precision, scale), pattern, b"-.0123456789")


@dataclass(frozen=True)
class Boolean:
    """true, false, 1, 0."""

    type: pa.DataType = BOOLEAN

    def __call__(self, text: pa.Array) -> pa.Array:
        """`text` as booleans, null where it does not fit."""
        distinct = text.dictionary_encode()
        lower = pc.utf8_lower(distinct.dictionary)
        yes, no = (pc.is_in(lower, pa.array(words, pa.string())) for words in (("true", "1"), ("false", "0")))
        return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_())).take(distinct.indices)


@dataclass(frozen=True)
class Epoch:
    """Seconds or milliseconds since 1970, with a decimal fraction or not; `unit_us` is 10**6 or 10**3."""

    unit_us: int
    type: pa.DataType = TIMESTAMP

    def __call__(self, text: pa.Array) -> pa.Array:
        """`text` as moments, null where it does not fit."""
        places = len(str(self.unit_us)) - 1
        pattern = (
            rf"^(?P<sign>-?)(?P<whole>[0-9]{{1,{18 - places}}})(?:\.(?P<fraction>[0-9]{{1,{places}}})0*)?$"
        )
        distinct = text.dictionary_encode()
        parts = pc.extract_regex(distinct.dictionary, pattern)
        fraction = _number(pc.utf8_rpad(_or_zero(parts.field("fraction")), places, "0"))
        moments = _number(parts.field("whole")) * self.unit_us + fraction
        negative = pc.equal(parts.field("sign"), "-").to_numpy(zero_copy_only=False)
        moments = np.where(negative, -moments, moments)
        fits = parts.is_valid().to_numpy(zero_copy_only=False) & _in_range(moments)
        return pa.array(moments, mask=~fits).cast(TIMESTAMP).take(distinct.indices)


_DIRECTIVES = {
    "Y": r"(?P<year>[0-9]{4})",
    "m": r"(?P<month>[0-9]{2})",
    "b": rf"(?P<month_name>(?i:{'|'.join(MONTHS)}))",
    "d": r"(?P<day>[0-9]{2})",
    "H": r"(?P<hour>[0-9]{2})",
    "M": r"(?P<minute>[0-9]{2})",
    "S": r"(?P<second>[0-9]{2})",
    "f": r"(?P<fraction>[0-9]{1,6})0*",
    "z": r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})",
    "%": "%",
}
_SHORT = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S"}
_ISO = (
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6})0*)?)?)?"
    r" ?(?P<zone>Z|z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
)


@dataclass(frozen=True)
class Timestamp:
    """Text in one format. `zone` names where a text without an offset was written; "" means that
    such a text does not fit. A local time that a change of the clocks skipped does not exist; one
    that came twice is the earlier."""

    pattern: str
    zone: str = ""
    type: pa.DataType = TIMESTAMP

    @staticmethod
    def of(format_text: str, zone: str) -> "Timestamp":
        """From `iso` or a strptime-like format. Raises ConfigError with the cure."""
        if zone:
            try:
                pc.assume_timezone(pa.array([0], pa.timestamp("us")), zone)
            except pa.ArrowInvalid:
                raise ConfigError(
                    f"unknown time zone {zone!r}; use a name such as UTC or Asia/Shanghai"
                ) from None
        if format_text == "iso":
            return Timestamp(f"^{_ISO}$", zone)
        used: list[str] = []

        def expression(match: re.Match[str]) -> str:
            directive = match.group(1)
            if directive is None:
                return re.escape(match.group(0))
            if directive not in _DIRECTIVES or (directive in used and directive != "%"):
                raise ConfigError(
                    f"time format {format_text!r}: %{directive} is unknown or there twice; "
                    "use each of %Y %m %b %d %H %M %S %f %z %F %T %% at most once"
                )
            used.append(directive)
            return _DIRECTIVES[directive]

        whole = format_text
        for short, long in _SHORT.items():
            whole = whole.replace(short, long)
        pattern = re.sub(r"%(.?)|[^%]", expression, whole, flags=re.DOTALL)
        if not {"Y", "d"} <= set(used) or len({"m", "b"} & set(used)) != 1:
            raise ConfigError(f"time format {format_text!r}: needs %Y, %d and one of %m, %b")
        if ("z" in used) == bool(zone):
            cure = "remove the zone, every value has its own" if zone else "add a zone, such as ', UTC'"
            raise ConfigError(f"time format {format_text!r}: {cure}")
        return Timestamp(f"^{pattern}$", zone)

    def __call__(self, text: pa.Array) -> pa.Array:
        """`text` as moments, null where it does not fit."""
        distinct = text.dictionary_encode()
        parts = pc.extract_regex(distinct.dictionary, self.pattern)
        found = _Parts(parts)
        moments, exists = found.local_us()
        offset_us, has_offset = found.offset_us()
        fits = parts.is_valid().to_numpy(zero_copy_only=False) & exists & (offset_us >= -_DAY_US)
        if self.zone:
            local = pa.array(moments, mask=~fits).cast(pa.timestamp("us"))
            placed = pc.assume_timezone(local, self.zone, ambiguous="earliest", nonexistent="earliest")
            same = pc.fill_null(pc.equal(pc.local_timestamp(placed), local), False)
            fits &= same.to_numpy(zero_copy_only=False) | has_offset
            zoned = placed.cast(pa.int64()).fill_null(0).to_numpy()
            moments = np.where(has_offset, moments - offset_us, zoned)
        else:
            fits &= has_offset
            moments = moments - offset_us
        fits &= _in_range(moments)
        return pa.array(moments, mask=~fits).cast(TIMESTAMP).take(distinct.indices)


_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class _Parts:
    """The named parts of matched texts; an absent or empty part counts as zero."""

    parts: pa.StructArray

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(f.name for f in self.parts.type)

    def _number(self, name: str) -> Ints:
        if name not in self._names:
            return np.zeros(len(self.parts), dtype=np.int64)
        return _number(_or_zero(self.parts.field(name)))

    def local_us(self) -> tuple[Ints, NDArray[np.bool_]]:
        """(microseconds from 1970-01-01 00:00 on the same wall clock, whether such a time exists)."""
        year, month, day = self._number("year"), self._number("month"), self._number("day")
        if "month_name" in self._names:
            lower = pc.utf8_lower(self.parts.field("month_name"))
            index = pc.index_in(lower, pa.array(MONTHS, pa.string()))
            month = index.fill_null(0).to_numpy().astype(np.int64) + 1
        hour, minute, second = self._number("hour"), self._number("minute"), self._number("second")
        fraction = np.zeros(len(self.parts), dtype=np.int64)
        if "fraction" in self._names:
            fraction = _number(pc.utf8_rpad(_or_zero(self.parts.field("fraction")), 6, "0"))
        leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        in_year = (month >= 1) & (month <= 12)
        longest = _DAYS_IN_MONTH[np.where(in_year, month - 1, 0)] + (leap & (month == 2))
        exists = in_year & (year >= 1) & (day >= 1) & (day <= longest)
        exists &= (hour < 24) & (minute < 60) & (second < 60)
        days = _days(year, np.where(in_year, month, 1), day)
        return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction, exists

    def offset_us(self) -> tuple[Ints, NDArray[np.bool_]]:
        """(offset from UTC, whether the text has one); less than a day below zero if impossible."""
        if "zone" not in self._names:
            return np.zeros(len(self.parts), dtype=np.int64), np.zeros(len(self.parts), dtype=np.bool_)
        zone = self.parts.field("zone").fill_null("")
        digits = pc.replace_substring_regex(zone, r"[^0-9]", "")
        four = _number(pc.utf8_rpad(_or_zero(digits), 4, "0"))
        hours, minutes = four // 100, four % 100
        negative = pc.starts_with(zone, "-").to_numpy(zero_copy_only=False)
        offset = (hours * 60 + minutes) * 60_000_000 * np.where(negative, -1, 1)
        possible = (hours < 24) & (minutes < 60)
        has = pc.not_equal(zone, "").to_numpy(zero_copy_only=False)
        return np.where(possible, offset, -2 * _DAY_US), has


def _days(year: Ints, month: Ints, day: Ints) -> Ints:
    """Days from 1970-01-01 in the proleptic Gregorian calendar.

    Years are counted from March, so that the leap day is the last of its year.
    """
    late = month > 2
    from_march = year - ~late
    day_of_year = (153 * (month + np.where(late, -3, 9)) + 2) // 5 + day - 1
    days: Ints = from_march * 365 + from_march // 4 - from_march // 100 + from_march // 400
    return days + day_of_year - 719_468


def _or_zero(text: pa.Array) -> pa.Array:
    """`text` with "0" for null and for an optional part that is not there."""
    filled = text.fill_null("")
    return pc.if_else(pc.equal(filled, ""), "0", filled)


def _number(digits: pa.Array) -> Ints:
    numbers: Ints = _or_zero(digits).cast(pa.int64()).to_numpy()
    return numbers


def _in_range(moments: Ints) -> NDArray[np.bool_]:
    return (moments >= _YEAR_1_US) & (moments < _YEAR_10000_US)


def _only(text: pa.Array, allowed: bytes) -> bool:
    """Whether the array's texts use no bytes but `allowed`."""
    _, offsets_buffer, data_buffer = text.buffers()
    if data_buffer is None or not len(text):
        return True
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    table = np.zeros(256, dtype=np.bool_)
    table[list(allowed)] = True
    return bool(table[data].all())
