"""What a text must become in a column: worked out by Python's own int, float, Decimal, datetime, zoneinfo.

Nothing here is taken from the code that is tried, and no regular expression is used: each grammar is
written a second time, as steps. None: the text does not fit. Whole numbers and days come as Python has
them, moments as microseconds since 1970.
"""

import math
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo

from fuzz.lane import Broken

Reading = Callable[[str], object]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SIZES = {"%Y": 4, "%m": 2, "%b": 3, "%d": 2, "%H": 2, "%M": 2, "%S": 2}
"""Characters of a directive; %f and %z have no fixed number."""
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SMALLEST_SINGLE = 2.0**-149
_SINGLE_MAX = float(2**128 - 2**104)


def digits(text: str) -> bool:
    """One or more of the ten ASCII digits."""
    return text.isascii() and text.isdigit()


def plain(text: str) -> bool:
    """D, D., .D or D.D"""
    whole, _, fraction = text.partition(".")
    return (digits(whole) or not whole) and (digits(fraction) or not fraction) and text not in ("", ".")


def whole_number(bits: int) -> Reading:
    """int and long."""

    def read(text: str) -> int | None:
        body = text.removeprefix("-")
        if not digits(body) or len(body.lstrip("0")) > 19:
            return None
        number = int(body.lstrip("0") or "0") * (-1 if text.startswith("-") else 1)
        return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None

    return read


def decimal(precision: int, scale: int) -> Reading:
    """decimal(p,s)"""

    def read(text: str) -> Decimal | None:
        if not plain(text.removeprefix("-")):
            return None
        exact = Context(prec=len(text) + 80)
        number = Decimal(text, exact)
        fits = exact.quantize(number, Decimal(1).scaleb(-scale)) == number
        return number if fits and exact.abs(number) < Decimal(10) ** (precision - scale) else None

    return read


def double(text: str) -> float | None:
    """float(text), where it is neither a new infinity nor a new zero."""
    body = text[1:] if text[:1] in ("+", "-") else text
    if body.isascii() and body.lower() in ("nan", "inf", "infinity"):
        return float(text)
    mantissa, e, exponent = body.replace("E", "e").partition("e")
    if not plain(mantissa) or (e and not digits(exponent[1:] if exponent[:1] in ("+", "-") else exponent)):
        return None
    number = float(text)
    lost = math.isinf(number) or (number == 0 and mantissa.strip("0.") != "")
    return None if lost else number


def single(text: str) -> float | None:
    """The nearest of the floats of 32 bits, the even one of two, from the text and not from a double."""
    number = double(text)
    if number is None or number == 0 or not math.isfinite(number):
        return number
    try:
        (near,) = struct.unpack(">f", struct.pack(">f", number))
    except OverflowError:
        near = math.copysign(2.0**128, number)
    # A double rounds the text once and `near` rounds that: wrong only when the double lies in the
    # very middle of two floats, and the text does not.
    ulp = max(_SMALLEST_SINGLE, 2.0 ** (math.frexp(number)[1] - 24))
    toward = near + math.copysign(ulp, number - near) if near != number else near
    if near != number and abs(number - near) == abs(toward - number):
        text_is, middle = Decimal(text), Decimal(number)
        if text_is != middle:
            near = max(near, toward) if text_is > middle else min(near, toward)
    return None if near == 0 or abs(near) > _SINGLE_MAX else float(near)


def boolean(text: str) -> bool | None:
    """Four words."""
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower() if text.isascii() else "")


def day(text: str) -> date | None:
    """YYYY-MM-DD"""
    parts = text.split("-")
    if [len(p) for p in parts] != [4, 2, 2] or not all(digits(p) for p in parts):
        return None
    try:
        return date(*map(int, parts))
    except ValueError:
        return None


def epoch(unit_us: int) -> Reading:
    """Seconds (10**6) or milliseconds (10**3) since 1970."""

    def read(text: str) -> int | None:
        whole, point, fraction = text.removeprefix("-").partition(".")
        if not digits(whole) or (point and not digits(fraction)):
            return None
        exact = Context(prec=len(text) + 20)
        moment = exact.multiply(Decimal(text, exact), Decimal(unit_us))
        fine = len(fraction.rstrip("0")) > len(str(unit_us)) - 1
        return None if fine else in_years(int(moment))

    return read


def in_years(moment: int) -> int | None:
    """`moment`, when Python has a datetime for it."""
    try:
        EPOCH + timedelta(microseconds=moment)
    except OverflowError:
        return None
    return moment


def offset_of(text: str, *, hours_alone: bool) -> timedelta | None:
    """Z, +HHMM, +HH:MM, and +HH where `hours_alone`."""
    if text == "Z":
        return timedelta()
    body = text[1:]
    if body[2:3] == ":" and len(body) == 5:
        body = body[:2] + body[3:]
    if text[:1] not in ("+", "-") or not digits(body) or len(body) not in ((2, 4) if hours_alone else (4,)):
        return None
    hours, minutes = int(body[:2]), int(body[2:] or "0")
    if hours > 23 or minutes > 59:
        return None
    return timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1)


def placed(parts: Sequence[int], offset: timedelta | None, zone: str) -> int | None:
    """Year, month, day, hour, minute, second, microsecond as a moment; the earlier of two in a zone."""
    try:
        local = datetime(*parts)  # type: ignore[arg-type]
    except ValueError:
        return None
    if offset is not None:
        return in_years((local.replace(tzinfo=UTC) - EPOCH) // MICROSECOND - offset // MICROSECOND)
    if not zone:
        return None
    place, found = ZoneInfo(zone), []
    for fold in (0, 1):
        try:
            moment = local.replace(tzinfo=place, fold=fold).astimezone(UTC)
            if moment.astimezone(place).replace(tzinfo=None) == local:
                found.append((moment - EPOCH) // MICROSECOND)
        except OverflowError:
            continue
    return min(found, default=None)


def fraction_us(text: str) -> int | None:
    """Digits behind a point as microseconds, when nothing is finer."""
    return int(text[:6].ljust(6, "0")) if digits(text) and not text[6:].strip("0") else None


def iso(zone: str) -> Reading:
    """timestamp(iso)"""

    def read(text: str) -> int | None:
        when = day(text[:10])
        if when is None:
            return None
        clock, offset, micro = [0, 0, 0], None, 0
        if rest := text[10:]:
            if rest[0] not in "Tt " or not digits(rest[1:3]) or rest[3:4] != ":" or not digits(rest[4:6]):
                return None
            if len(rest[1:3] + rest[4:6]) != 4:
                return None
            clock[:2] = int(rest[1:3]), int(rest[4:6])
            rest = rest[6:]
            if rest[:1] == ":":
                if len(rest) < 3 or not digits(rest[1:3]):
                    return None
                clock[2], rest = int(rest[1:3]), rest[3:]
                if rest[:1] in (".", ","):
                    size = run_of_digits(rest[1:])
                    found = fraction_us(rest[1 : 1 + size])
                    if found is None:
                        return None
                    micro, rest = found, rest[1 + size :]
            if rest:
                offset = offset_of("Z" if rest in ("z", " z") else rest.removeprefix(" "), hours_alone=True)
                if offset is None:
                    return None
        return placed((when.year, when.month, when.day, *clock, micro), offset, zone)

    return read


def run_of_digits(text: str) -> int:
    """How many digits `text` begins with."""
    return next((at for at, c in enumerate(text) if c not in "0123456789"), len(text))


def formatted(tokens: Sequence[str], zone: str) -> Reading:
    """timestamp(FORMAT): `tokens` are its directives, as "%Y", and what stands between them; no %F, %T."""

    def read(text: str) -> int | None:
        parts = {"Y": 1, "m": 1, "d": 1, "H": 0, "M": 0, "S": 0, "f": 0}
        offset, rest, short = None, text, ""
        for token in tokens:
            if token[0] != "%" or token == "%%":
                piece = "%" if token == "%%" else token
                if not rest.startswith(piece):
                    return None
                rest, short = rest[len(piece) :], short + piece
                continue
            piece = rest[: length_of(token, rest)]
            rest = rest[len(piece) :]
            if token == "%z":
                offset = offset_of(piece, hours_alone=False)
                if offset is None:
                    return None
            else:
                value = number_of(token, piece)
                if value is None:
                    return None
                parts["m" if token == "%b" else token[1]] = value
            short += piece[:6]
        moment = None if rest else placed(tuple(parts.values()), offset, zone)
        if moment is not None and len(text) % 8 == 0:
            agree(short, tokens, zone, moment)
        return moment

    return read


def length_of(token: str, rest: str) -> int:
    """How many characters of `rest` the directive takes."""
    if token == "%z":
        return 1 if rest[:1] == "Z" else 6 if rest[3:4] == ":" else 5
    return run_of_digits(rest) if token == "%f" else SIZES[token]


def number_of(token: str, piece: str) -> int | None:
    """What `piece` says for a directive other than %z."""
    if token == "%f":
        return fraction_us(piece)
    if token == "%b":
        return MONTHS.index(piece.lower()) + 1 if piece.isascii() and piece.lower() in MONTHS else None
    return int(piece) if digits(piece) and len(piece) == SIZES[token] else None


def agree(text: str, tokens: Sequence[str], zone: str, moment: int) -> None:
    """Python's own strptime must read the same moment. Raises Broken: then this oracle is wrong.

    Its %z takes seconds, too, where digits or a colon follow; ours is documented as +HHMM or +HH:MM.
    """
    behind = [after[:1] for before, after in pairwise(tokens) if before == "%z"]
    if any(char in ":%" or char.isdecimal() for char in behind):
        return
    pattern = "".join(tokens)
    read = datetime.strptime(text, pattern)
    if read.tzinfo is None:
        read = read.replace(tzinfo=ZoneInfo(zone))
    if (read - EPOCH) // MICROSECOND != moment:
        raise Broken(f"the oracle reads {text!a} under {pattern!r} as {moment}, strptime as {read}")
