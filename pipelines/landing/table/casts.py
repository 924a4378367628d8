"""Texts as typed columns: whole arrays at a time, null where a text does not fit, never an error.

A cast is a value: picklable, called with a string array, answers an array of its type. What a text
becomes never depends on its neighbours; the quick way through a whole array is taken only where it
gives the same answers as the slow one. A text fits when it is, from its first character to its last:

    string          any text, as it is
    string(gbk)     bytes that are text in that encoding
    boolean         true, false in any case; 1, 0
    int, long       -?D, in range
    decimal(p,s)    -?(D | D. | .D | D.D), no digit but 0 behind the s-th place, in range: nothing is
                    rounded, and there is no exponent
    float, double   [+-]?(D | D. | .D | D.D), then, if there, [eE][+-]?D; or [+-]?(nan | inf | infinity)
                    in any case. It becomes the nearest value of the type, the even one of two (that is
                    these types' nature), rounded once. A number that would become infinite does not
                    fit, nor one that would become zero and is not
    date            YYYY-MM-DD, a day of the years 0001 to 9999
    timestamp(iso)  a date; or a date, one of `T t` and a blank, HH:MM, then if there :SS, then a point
                    or a comma and a fraction; then if there an offset, before it one blank at most:
                    Z, z, +HH, +HHMM, +HH:MM. No offset without a time: 2024-01-02-08 may mean eight
                    o'clock
    timestamp(...)  what the format says, each directive with all its digits: %Y four, %m %d %H %M %S
                    two; %y two, 1969 to 2068 (as POSIX strptime); %b jan to dec in any case; %f a
                    fraction; %z Z, +HHMM, +HH:MM
    epoch_s, _ms    -?D, then if there a point and a fraction

D is one or more of the ten ASCII digits, leading zeros are free. No digit of another script, no
underscore, no blank, no letter that only folds into one of ours ("\u017fep" is not September). A
fraction is one to six digits (of epoch_ms: three) and then zeros: what is finer than a microsecond
does not fit. A moment lies in the years 0001 to 9999 on the wall clock and in UTC. There are no
leap seconds, no hour 24, no offset of a day or more. Where the clocks of a zone were put forward,
the hour that was skipped does not fit; where they were put back, the earlier moment is meant.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sls_io.values.errors import ConfigError

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

BOOLEAN = pa.bool_()
STRING = pa.string()
DATE32 = pa.date32()
TIMESTAMP = pa.timestamp("us", tz="UTC")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS_IN_MONTH = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_EPOCH = datetime(1970, 1, 1)
_YEAR_1_US = -62_135_596_800_000_000
_YEAR_10000_US = 253_402_300_800_000_000
_DAY_US = 86_400_000_000
_QUARTER_US = 900_000_000


def each_once(text: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """`convert` of the array; it is shown each text once, and no null.

    Of a column of a million rows with a hundred values, a hundred texts are converted. A cast never sees
    which row a text is of, and cannot depend on it.
    """
    distinct = text.dictionary_encode()
    return convert(distinct.dictionary).take(distinct.indices)


class Cast:
    """Called with texts it answers an array of `type`, null where a text does not fit."""

    if TYPE_CHECKING:

        @property
        def type(self) -> pa.DataType:
            """A field of each cast, but for that of decimals."""

    def __call__(self, text: pa.Array) -> pa.Array:
        """`text` as `type`."""
        try:
            quick = self._quickly(text)
        except pa.ArrowInvalid:
            quick = None
        return each_once(text, self._exactly) if quick is None else quick

    def _quickly(self, text: pa.Array) -> pa.Array | None:
        """The whole array at once, where that gives the same answers; else None, or ArrowInvalid."""
        return None

    def _exactly(self, text: pa.Array) -> pa.Array:
        raise NotImplementedError


@dataclass(frozen=True)
class Whole(Cast):
    """Whole numbers; `type` is a signed integer.

    The quick way is taken only where all texts are digits and signs: Arrow also reads `0x10`, as 16.
    """

    type: pa.DataType

    def _quickly(self, text: pa.Array) -> pa.Array | None:
        return text.cast(self.type) if _only(text, b"-0123456789") else None

    def _exactly(self, text: pa.Array) -> pa.Array:
        """By size and sign apart. Up to 19 digits fit into 64 bits without a sign, and zeros in front do not
        count. One more is allowed below zero than above: -9223372036854775808 is a long. Its size, negated
        without a sign, has the bits that the long has."""
        negative = _flags(pc.starts_with(text, "-"))
        digits = pc.ascii_ltrim(text, "-0")
        fits = _flags(pc.match_substring_regex(text, r"^-?[0-9]+$")) & (_lengths(digits) <= 19)
        size = pc.if_else(pa.array(fits), digits, "")
        size = pc.if_else(pc.equal(size, ""), "0", size).cast(pa.uint64()).to_numpy()
        fits &= size <= np.uint64(2 ** (self.type.bit_width - 1) - 1) + negative
        size = np.where(fits, size, np.uint64(0))
        numbers = np.where(negative, np.negative(size), size).view(np.int64)
        return pa.array(numbers, mask=~fits).cast(self.type)


@dataclass(frozen=True)
class Decimal(Cast):
    """Decimals of `precision` digits, `scale` of them behind the point.

    Arrow's cast counts in 128 bits and does not look when they run over: it made 1.000 of
    340282366920938463463374607431768212.456, which is 2**128 + 1000 thousandths. So it is given only
    texts whose digits, moved to the scale, are 38 at most.
    """

    precision: int
    scale: int

    @property
    def type(self) -> pa.DataType:
        """The column's."""
        return pa.decimal128(self.precision, self.scale)

    def _quickly(self, text: pa.Array) -> pa.Array | None:
        plain = _lengths(text).max(initial=0) <= 38 - self.scale and _only(text, b"-.0123456789")
        return text.cast(self.type) if plain else None

    def _exactly(self, text: pa.Array) -> pa.Array:
        """Worked example, decimal(5,2): three digits before the point, two behind it. 000123.4500 is 123.45;
        1.230 is 1.23; 1234 has too many before it, 1.234 too many behind it."""
        whole = self.precision - self.scale
        fits = pc.and_(
            pc.match_substring_regex(text, r"^-?\.?[0-9]"),
            pc.match_substring_regex(text, rf"^-?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{self.scale}}}0*)?$"),
        )
        text = pc.if_else(fits, text, pa.scalar(None, pa.string()))
        long = pc.greater(pc.binary_length(text), 38 - self.scale).fill_null(False)
        if pc.any(long).as_py():
            text = pc.replace_with_mask(text, long, _without_zeros(text.filter(long)))
        return text.cast(self.type)


def _without_zeros(text: pa.Array) -> pa.Array:
    """Decimal numbers without the zeros that say nothing, but for one in front.

    Worked example: -0012.3400 is -012.34, 0.500 is 0.5, 000 is 0.
    """
    digits = pc.ascii_ltrim(text, "-0")
    digits = pc.if_else(pc.match_substring(digits, "."), pc.ascii_rtrim(digits, "0"), digits)
    return pc.binary_join_element_wise(pc.if_else(pc.starts_with(text, "-"), "-0", "0"), digits, "")


@dataclass(frozen=True)
class Floating(Cast):
    """Binary numbers; `type` is float or double. Arrow's cast rounds once, to the nearest even."""

    type: pa.DataType

    def _quickly(self, text: pa.Array) -> pa.Array | None:
        plain = _only(text, b"+-.0123456789eE")
        return self._honest(text, text.cast(self.type)) if plain else None

    def _exactly(self, text: pa.Array) -> pa.Array:
        fits = pc.match_substring_regex(
            text, r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:nan|inf|infinity))$"
        )
        candidates = pc.if_else(fits, text, pa.scalar(None, pa.string()))
        return self._honest(candidates, candidates.cast(self.type))

    def _honest(self, text: pa.Array, values: pa.Array) -> pa.Array:
        """Arrow turns 1e400 into infinity and 1e-400 into zero: other numbers than the texts say.

        What the text says decides: it may say infinity, and it may say zero, with an exponent or not. Only
        where neither is so was a number lost.
        """
        extreme = pc.or_(pc.is_inf(values), pc.equal(values, 0.0)).fill_null(False)
        if not pc.any(extreme).as_py():
            return values
        texts = text.filter(extreme).unique()  # few: most columns with zeros write them alike
        lost = texts.filter(pc.invert(pc.match_substring_regex(texts, r"(?i)inf|^[+-]?[0.]*(e|$)")))
        if not len(lost):
            return values
        return pc.if_else(pc.is_in(text, lost), pa.scalar(None, self.type), values)


@dataclass(frozen=True)
class Boolean(Cast):
    """true, false, 1, 0."""

    type: pa.DataType = BOOLEAN

    def _exactly(self, text: pa.Array) -> pa.Array:
        lower = pc.ascii_lower(text)
        yes, no = (pc.is_in(lower, pa.array(words, pa.string())) for words in (("true", "1"), ("false", "0")))
        return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, BOOLEAN))


@dataclass(frozen=True)
class Date(Cast):
    """YYYY-MM-DD."""

    type: pa.DataType = DATE32

    def _exactly(self, text: pa.Array) -> pa.Array:
        parts = pc.extract_regex(text, rf"^{_DAY}$")
        moments, exists = _Parts(parts).local_us()
        days = np.where(exists, moments // _DAY_US, 0).astype(np.int32)
        return pa.array(days, mask=~(exists & _flags(parts.is_valid()))).cast(DATE32)


@dataclass(frozen=True)
class UnixTime(Cast):
    """Seconds or milliseconds since 1970, with a decimal fraction or not; `unit_us` is 10**6 or 10**3."""

    unit_us: int
    type: pa.DataType = TIMESTAMP

    def _exactly(self, text: pa.Array) -> pa.Array:
        """The fraction is filled up with zeros to the unit: of seconds, 1.5 is 1 and 500000 microseconds. At
        most 18 digits together, so no number leaves 63 bits."""
        places = len(str(self.unit_us)) - 1
        parts = pc.extract_regex(
            text,
            rf"^(?P<sign>-?)0*(?P<whole>[0-9]{{1,{18 - places}}})(?:\.(?P<fraction>[0-9]{{1,{places}}})0*)?$",
        )
        fraction = _number(pc.utf8_rpad(_or_zero(parts.field("fraction")), places, "0"))
        moments = _number(parts.field("whole")) * self.unit_us + fraction
        moments = np.where(_flags(pc.equal(parts.field("sign"), "-").fill_null(False)), -moments, moments)
        return _moments(moments, _flags(parts.is_valid()))


INT, LONG, DATE = Whole(pa.int32()), Whole(pa.int64()), Date()
FLOAT, DOUBLE = Floating(pa.float32()), Floating(pa.float64())

_DIRECTIVES = {
    "Y": r"(?P<year>[0-9]{4})",
    "y": r"(?P<short_year>[0-9]{2})",
    "m": r"(?P<month>[0-9]{2})",
    "b": "(?P<month_name>" + "|".join("".join(f"[{c}{c.upper()}]" for c in m) for m in MONTHS) + ")",
    "d": r"(?P<day>[0-9]{2})",
    "H": r"(?P<hour>[0-9]{2})",
    "M": r"(?P<minute>[0-9]{2})",
    "S": r"(?P<second>[0-9]{2})",
    "f": r"(?P<fraction>[0-9]{1,6})0*",
    "z": r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})",
    "%": "%",
}
"""Letters are written out: (?i:sep) also takes U+017F, which folds into an s."""

_SHORT = {"F": "%Y-%m-%d", "T": "%H:%M:%S"}
_BEGINS_WITH_DIGIT = re.compile(r"%[YymdHMSFTf]|[0-9]")
_DAY = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_ISO = (
    rf"{_DAY}(?:[Tt ](?P<hour>[0-9]{{2}}):(?P<minute>[0-9]{{2}})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6})0*)?)?"
    r"(?: ?(?P<zone>Z|z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
_NO_PLACE = re.compile(r"localtime|posixrules|Factory|(?:posix|right)/.*")
"""Files of a time zone database that name no place: another zone on another machine, or leap seconds."""


@dataclass(frozen=True)
class Timestamp(Cast):
    """Text in one format. `zone` names where a text without an offset was written; "" means that
    such a text does not fit."""

    pattern: str
    zone: str = ""
    type: pa.DataType = TIMESTAMP

    @staticmethod
    def of(format_text: str, zone: str) -> "Timestamp":
        """From `iso` or a strptime-like format. Raises ConfigError with the cure."""
        if zone:
            try:
                known = not _NO_PLACE.fullmatch(zone) and bool(ZoneInfo(zone))
            except (ZoneInfoNotFoundError, ValueError, OSError):  # no such file, no zone in it, a folder
                known = False
            if not known:
                raise ConfigError(f"unknown time zone {zone!r}; use a name such as UTC or Asia/Shanghai")
        if format_text == "iso":
            return Timestamp(f"^{_ISO}$", zone)
        pattern, used = _compiled(format_text)
        if "d" not in used or any(len(one & used) != 1 for one in ({"Y", "y"}, {"m", "b"})):
            raise ConfigError(f"time format {format_text!r}: needs %d, one of %Y, %y and one of %m, %b")
        if ("z" in used) == bool(zone):
            cure = "remove the zone, every value has its own" if zone else "add a zone, such as ', UTC'"
            raise ConfigError(f"time format {format_text!r}: {cure}")
        return Timestamp(f"^{pattern}$", zone)

    def _exactly(self, text: pa.Array) -> pa.Array:
        parts = pc.extract_regex(text, self.pattern)
        found = _Parts(parts)
        local, exists = found.local_us()
        offset, has_offset, possible = found.offset_us()
        fits = _flags(parts.is_valid()) & exists & possible
        if not self.zone:
            return _moments(local - offset, fits & has_offset)
        here = fits & ~has_offset
        there, reached = _in_zone(local[here], ZoneInfo(self.zone))
        offset[here] = there
        fits[here] = reached
        return _moments(local - offset, fits)


def _compiled(format_text: str) -> tuple[str, set[str]]:
    """(expression, the directives in it). Raises ConfigError for one that is unknown or there twice."""
    whole = re.sub(r"%([FT%])", lambda short: _SHORT.get(short[1], short[0]), format_text)
    used: set[str] = set()

    def expression(match: re.Match[str]) -> str:
        directive = match[1]
        if directive is None:
            return re.escape(match[0])
        if directive not in _DIRECTIVES or directive in used:
            raise ConfigError(
                f"time format {format_text!r}: %{directive} is unknown or there twice; "
                "use each of %Y %y %m %b %d %H %M %S %f %z %F %T at most once, and %% for a percent sign"
            )
        if directive == "f" and _BEGINS_WITH_DIGIT.match(whole, match.end()):
            raise ConfigError(
                f"time format {format_text!r}: what follows %f begins with a digit, and nothing says "
                "where the fraction ends; put another character between them"
            )
        used.update(set(directive) - {"%"})
        return _DIRECTIVES[directive]

    return re.sub(r"%(.?)|[^%]", expression, whole, flags=re.DOTALL), used


def _in_zone(local: Ints, zone: ZoneInfo) -> tuple[Ints, Flags]:
    """(offset from UTC of each local time, whether there was such a time), in microseconds.

    Arrow knows zones, too, but only the changes that a zone's file lists (to 2037 in most) and not the
    rule behind the last of them: each summer from 2038 on came out an hour off. So Python is asked;
    not once a text but once a quarter of an hour, and once a text only in the few quarters in which
    the clocks were changed.

    A quarter is steady where its begin, read early, and its end, read late, have the same offset.

    Worked example: in Berlin clocks went from 02:00 to 03:00 on 2024-03-31. Of 02:30 the early reading is an
    hour from UTC, the late one two: it was never shown. On 2024-10-27, when they went back, it is two and
    one: shown twice, and the earlier moment is meant.
    """
    quarters, which = np.unique(local // _QUARTER_US, return_inverse=True)
    offsets = np.zeros(len(quarters), dtype=np.int64)
    steady = np.zeros(len(quarters), dtype=np.bool_)
    for at, quarter in enumerate(quarters.tolist()):
        offsets[at] = _offset(quarter * _QUARTER_US, zone, 0)
        steady[at] = offsets[at] == _offset((quarter + 1) * _QUARTER_US - 1, zone, 1)
    found, exists = offsets[which], np.ones(len(local), dtype=np.bool_)
    for at in np.flatnonzero(~steady[which]).tolist():
        before, after = (_offset(int(local[at]), zone, fold) for fold in (0, 1))
        found[at], exists[at] = before, before >= after
    return found, exists


def _offset(local_us: int, zone: ZoneInfo, fold: int) -> int:
    """Offset at the earlier (0) or later (1) moment at which the clocks showed this. The two differ where
    the clocks were put back, and where this was never shown: then the first is the smaller."""
    moment = (_EPOCH + timedelta(microseconds=local_us)).replace(tzinfo=zone, fold=fold)
    return (moment.utcoffset() or timedelta()) // timedelta(microseconds=1)


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
        return _number(self.parts.field(name))

    def local_us(self) -> tuple[Ints, Flags]:
        """(microseconds from 1970-01-01 00:00 on the same wall clock, whether such a time exists)."""
        year, month, day = self._number("year"), self._number("month"), self._number("day")
        if "short_year" in self._names:
            year = self._number("short_year")
            year = year + np.where(year < 69, 2000, 1900)
        if "month_name" in self._names:
            lower = pc.ascii_lower(self.parts.field("month_name"))
            index = pc.index_in(lower, pa.array(MONTHS, pa.string()))
            month = index.fill_null(-1).to_numpy().astype(np.int64) + 1
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

    def offset_us(self) -> tuple[Ints, Flags, Flags]:
        """(offset from UTC, whether the text has one, whether it is none or a possible one).

        Worked example: `+0530` is 0530: five hours and thirty minutes; `+05` is filled up to 0500; `Z` has no
        digits, 0.
        """
        if "zone" not in self._names:
            none = np.zeros(len(self.parts), dtype=np.bool_)
            return np.zeros(len(self.parts), dtype=np.int64), none, ~none
        zone = self.parts.field("zone").fill_null("")
        digits = pc.replace_substring_regex(zone, r"[^0-9]", "")
        four = _number(pc.utf8_rpad(_or_zero(digits), 4, "0"))
        hours, minutes = four // 100, four % 100
        negative = _flags(pc.starts_with(zone, "-"))
        offset = (hours * 60 + minutes) * 60_000_000 * np.where(negative, -1, 1)
        return offset, _flags(pc.not_equal(zone, "")), (hours < 24) & (minutes < 60)


def _days(year: Ints, month: Ints, day: Ints) -> Ints:
    """Days from 1970-01-01 in the proleptic Gregorian calendar.

    Years are counted from March, so that the leap day is the last of its year.

    From March on months have 31, 30, 31, 30 and 31 days, twice, and then the rest: 153 days in five, which is
    what the division spreads. Worked example: 1970-01-01 is day 306 of the year that began in March 1969.
    """
    late = month > 2
    from_march = year - ~late
    day_of_year = (153 * (month + np.where(late, -3, 9)) + 2) // 5 + day - 1
    days: Ints = from_march * 365 + from_march // 4 - from_march // 100 + from_march // 400
    return days + day_of_year - 719_468


def _moments(moments: Ints, fits: Flags) -> pa.Array:
    fits = fits & (moments >= _YEAR_1_US) & (moments < _YEAR_10000_US)
    return pa.array(moments, mask=~fits).cast(TIMESTAMP)


def _or_zero(text: pa.Array) -> pa.Array:
    """`text` with "0" for null and for an optional part that is not there."""
    filled = text.fill_null("")
    return pc.if_else(pc.equal(filled, ""), "0", filled)


def _number(digits: pa.Array) -> Ints:
    numbers: Ints = _or_zero(digits).cast(pa.int64()).to_numpy()
    return numbers


def _flags(values: pa.BooleanArray) -> Flags:
    """As numpy, a copy that may be changed."""
    flags: Flags = values.to_numpy(zero_copy_only=False)
    return flags


def _lengths(text: pa.Array) -> Ints:
    """Bytes of each text; an array with nulls has any number there."""
    lengths: Ints = np.diff(_offsets_of(text))
    return lengths


def _offsets_of(text: pa.Array) -> NDArray[np.int32]:
    buffer = text.buffers()[1]
    if not len(text) or buffer is None:
        return np.zeros(len(text) + 1, dtype=np.int32)
    return np.frombuffer(buffer, dtype=np.int32)[text.offset : text.offset + len(text) + 1]


def _only(text: pa.Array, allowed: bytes) -> bool:
    """Whether the array's texts use no bytes but `allowed`.

    Over the buffer of the whole array: one pass in C, however many texts it has.
    """
    offsets, buffer = _offsets_of(text), text.buffers()[2]
    if buffer is None:
        return True
    data = buffer.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()
    return not data.translate(None, allowed)
