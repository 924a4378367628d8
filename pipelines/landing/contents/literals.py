"""The values of a filter as a column's type has them, exactly, or a sentence that says what it takes.

What decides whether a row goes for good must not be rounded: a value that the column cannot have is refused.

Why not cast and see: a cast finds a value for nearly everything. `n = 1.5` on a column of whole numbers would
become 1 or 2 and take rows of that; the person who wrote it had another column in mind. Of a filter that
takes no row by its values (`n = 1e30`) nothing would be lost, and yet it is refused: whoever asks for what
cannot be there has made a mistake, and is better told so before the rows of `n != 1e30`, which are all, go.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzType,
)

Value = str | bytes | bool | Decimal
_PATTERN_CHARS_MAX = 1000
_TOO_FINE = re.compile(r"[.,]\d{7,}")
_INTS: dict[IcebergType, int] = {IntegerType(): 31, LongType(): 63}


class Unfit(Exception):
    """A value that the column cannot have; the words say what it could."""


def pattern_of(kind: IcebergType, value: Value) -> str:
    """The regular expression of a `like` pattern. Raises Unfit.

    Worked example: `a_b` is `(?s)^(?:\\x{61}.\\x{62})$`, `50\\%` takes the text 50% and no other. `x\\` is
    refused, since its backslash escapes nothing; `x\\\\` is an x and a backslash.
    """
    if not isinstance(kind, StringType) or not isinstance(value, str):
        raise Unfit("no `like`, only comparisons")
    if (len(value) - len(value.rstrip("\\"))) % 2:
        raise Unfit("a pattern that does not end with a lone backslash, which would escape nothing")
    if len(value) > _PATTERN_CHARS_MAX:
        raise Unfit(f"a pattern of at most {_PATTERN_CHARS_MAX} characters")
    return _regex(_text(kind, value))


def _regex(pattern: str) -> str:
    """A `like` pattern as a regular expression of RE2. Arrow's own `match_like` misreads two backslashes.

    Each character by its number, so none of it means anything to RE2. Worked example: `a%` is
    `(?s)^(?:\\x{61}.*)$`.
    """
    parts, escaped = list[str](), False
    for sign in pattern:
        if not escaped and sign == "\\":
            escaped = True
            continue
        if not escaped and sign in "%_":
            parts.append(".*" if sign == "%" else ".")
        else:
            parts.append(f"\\x{{{ord(sign):x}}}")
        escaped = False
    return f"(?s)^(?:{''.join(parts)})$"


def _text(kind: IcebergType, value: Value) -> str:
    if not isinstance(value, str):
        raise Unfit("a text in quotes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit("a text of whole characters, which UTF-8 has") from None
    return value


def _number(value: Value) -> Decimal:
    """A number, also where it stands in quotes."""
    if isinstance(value, str):
        try:
            value = Decimal(value)
        except (ArithmeticError, ValueError):
            raise Unfit("a number") from None
    if not isinstance(value, Decimal):
        raise Unfit("a number")
    return value


def _int(kind: IcebergType, value: Value) -> int:
    # 7.0 and '7' are 7; 7.5, 2**31 of an int, and true are refused. `adjusted` comes before anything is
    # computed: `int` of 1e1000000 would make a million digits first.
    number = _number(value)
    bits = _INTS[kind]
    fits = number.is_finite() and number.adjusted() < 20 and number == number.to_integral_value()
    if not fits or not -(2**bits) <= int(number) < 2**bits:
        raise Unfit(f"a whole number of {bits + 1} bits")
    return int(number)


def _float(kind: IcebergType, value: Value) -> float:
    """A number that the column can have, written exactly or as its values are shown.

    Story: `d = 9007199254740993` would take the row of 9007199254740992.0, the nearest double, and delete
    what nobody named. `0.1` is what the nearest double is shown as everywhere, so it is that one.

    So a value has at most three texts: all of its digits (0.1000000000000000055511151231257827...), the
    shortest one that Python shows (0.1), and of a float also the shortest that tells it from other floats.
    Worked example, a float column: 0.1 and 0.10000000149011612 are the same value, and 16777217 is refused,
    since the nearest one is 16777216. 1e400 and 1e-400 are refused: they would become infinity and zero.
    """
    number = _number(value)
    if number.is_nan():
        raise Unfit("a number; ask `is nan` for NaN")
    found = float(number)
    if isinstance(kind, FloatType):
        found = float(pa.scalar(found, pa.float32()).as_py())
    if number.is_finite() and (abs(found) == float("inf") or (found == 0) != (number == 0)):
        raise Unfit("a number within its range")
    shown = {Decimal(found), Decimal(repr(found))}
    if isinstance(kind, FloatType):
        shown.add(Decimal(str(np.float32(found))))
    if number not in shown:
        raise Unfit("a number that it can hold, written exactly or as a row shows it")
    return found


def _decimal(kind: IcebergType, value: Value) -> Decimal:
    """By digits, without arithmetic: a Decimal's own is rounded to the digits of its context.

    Worked example, decimal(5,2): 1.500 has the digits 1500 and one place too many, which is 0: 150, so 1.50.
    1.505 has a 5 there and is refused. 1e2 gets four zeros: 10000, five digits, 100.00. 1e3 would have six.
    """
    number = _number(value)
    if not isinstance(kind, DecimalType) or not number.is_finite():
        raise Unfit("a finite number")
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise Unfit("a finite number")
    figures = "".join(map(str, digits)).lstrip("0")
    shift = exponent + kind.scale
    if figures and shift < 0:
        if figures[shift:].strip("0") or len(figures) <= -shift:
            raise Unfit(f"a number of at most {kind.scale} places")
        figures = figures[:shift]
    elif figures:
        if len(figures) + shift > kind.precision:
            raise Unfit(f"a number of at most {kind.precision} digits")
        figures += "0" * shift
    if len(figures) > kind.precision:
        raise Unfit(f"a number of at most {kind.precision} digits")
    return Decimal((sign, tuple(map(int, figures or "0")), -kind.scale))


def _bool(kind: IcebergType, value: Value) -> bool:
    if not isinstance(value, bool):
        raise Unfit("true or false")
    return value


def _bytes(kind: IcebergType, value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise Unfit("bytes in hex, like X'00ff'")
    return value


def _date(kind: IcebergType, value: Value) -> date:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise Unfit("a day such as '2026-11-20'") from None


def _moment(kind: IcebergType, value: Value) -> datetime:
    # Without a zone nobody knows which moment is meant. A seventh digit of a second is cut off by Python
    # without a word, so the text is looked at, too.
    try:
        text = value if isinstance(value, str) else ""
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None and not _TOO_FINE.search(text):
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Unfit("a moment to the microsecond, with its zone, such as '2026-11-20T07:00:00+00:00'")


CONVERT: dict[type, Callable[[Any, Value], Any]] = {
    StringType: _text,
    BooleanType: _bool,
    IntegerType: _int,
    LongType: _int,
    FloatType: _float,
    DoubleType: _float,
    DecimalType: _decimal,
    DateType: _date,
    TimestamptzType: _moment,
    BinaryType: _bytes,
}
"""By the type of a column: what makes a value of the filter one of its own, or raises Unfit."""
