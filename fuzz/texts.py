"""Texts that a cast may get wrong: near the edges of a type, and then bent."""

import math
import random
import struct
import sys
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from functools import cache
from zoneinfo import ZoneInfo

Draw = Callable[[random.Random], str]

BLANKS = " \t\n\r\x0b\x0c\x00\x1c\x85\xa0\u1680\u2003\u2028\u202f\u3000\ufeff\u200b\u200f\u00ad"
STRANGE = "\ud7ff\ue000\ufffd\uffff\U0010ffff\U00010000\u0301\u0660\u0966\uff11\xb2\xbd\u2160\u4e00"
FOLDS = {
    "s": "\u017f", "S": "\u017f", "k": "\u212a", "K": "\u212a", "i": "\u0131", "I": "\u0130", "e": "\uff45",
    "a": "\uff41", "n": "\u0274", "T": "\uff34", "t": "\uff54", "Z": "\uff3a", "f": "\ufb00",
    "-": "\u2212", "+": "\uff0b", ".": "\u066b", ":": "\uff1a", ",": "\u066c", "0": "O", "1": "l",
}  # fmt: skip
"""What folds into a character, or looks like it."""
PIECES = (
    "e5",
    "E-3",
    "e",
    "_",
    "__",
    ".",
    "..",
    "-",
    "+",
    "0",
    "00",
    "Z",
    "+0800",
    "inf",
    "nan",
    "x",
    "L",
    "f",
)
EXACT = Context(prec=2000)


@cache
def scripts() -> tuple[str, ...]:
    """For each of the ten digits its forms in all other scripts."""
    forms = ["" for _ in range(10)]
    for point in range(128, sys.maxunicode + 1):
        value = unicodedata.decimal(chr(point), None)
        if value is not None:
            forms[value] += chr(point)
    return tuple(forms)


def bent(text: str, rng: random.Random) -> str:
    """`text` after one or two changes, each of which often makes it another or none."""
    for _ in range(rng.choice((1, 1, 1, 2))):
        text = rng.choice(BENDS)(text, rng)
    return text


def _put(text: str, piece: str, rng: random.Random, *, over: int = 0) -> str:
    """`piece` somewhere in `text`, often at an end, in place of `over` characters."""
    at = rng.choice((0, len(text), rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return text[:at] + piece + text[at + over :]


def _other_script(text: str, rng: random.Random) -> str:
    places = [at for at, c in enumerate(text) if c in "0123456789"]
    if not places:
        return text + rng.choice(scripts()[1])
    at = rng.choice(places)
    return text[:at] + rng.choice(scripts()[int(text[at])]) + text[at + 1 :]


def _look_alike(text: str, rng: random.Random) -> str:
    places = [at for at, c in enumerate(text) if c in FOLDS]
    if not places:
        return text + "\u017f"
    letters = [at for at in places if text[at].isalpha()]
    at = rng.choice(letters if letters and rng.random() < 0.7 else places)
    return text[:at] + FOLDS[text[at]] + text[at + 1 :]


def _doubled(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[: at + 1] + text[at:]


def _padded(text: str, rng: random.Random) -> str:
    zeros = "0" * rng.choice((1, 3, 40, 400))
    return text + zeros if rng.random() < 0.5 else zeros + text


Bend = Callable[[str, random.Random], str]
BENDS: tuple[Bend, ...] = (
    _other_script,
    _look_alike,
    _doubled,
    _padded,
    lambda text, rng: _put(text, rng.choice(BLANKS), rng),
    lambda text, rng: _put(text, rng.choice(PIECES), rng),
    lambda text, rng: _put(text, rng.choice(STRANGE), rng),
    lambda text, rng: _put(text, rng.choice("0123456789"), rng, over=1),
    lambda text, rng: _put(text, "", rng, over=1),
    lambda text, rng: rng.choice("+--") + text.removeprefix("-"),
    lambda text, rng: text.swapcase(),
)


def whole(rng: random.Random) -> str:
    """A whole number: small, of any length, at the edge of a machine's type."""
    match rng.randrange(5):
        case 0:
            number = rng.randrange(-1000, 1000)
        case 1:
            bits = rng.choice((7, 8, 15, 16, 31, 32, 53, 63, 64, 127, 128, 255))
            number = rng.choice((-1, 1)) * (2**bits) + rng.randrange(-2, 3)
        case 2:
            number = rng.choice((-1, 1)) * 10 ** rng.randrange(40) + rng.randrange(-1, 2)
        case 3:
            number = rng.randrange(-(2**63), 2**63) >> rng.randrange(63)
        case _:
            size = rng.choice((18, 19, 20, 38, 39, 40, 77, 3000 if rng.random() < 0.02 else 10))
            return rng.choice(("", "-")) + "".join(rng.choices("0123456789", k=size))
    return str(number)


def decimal(precision: int, scale: int) -> Draw:
    """A decimal number at an edge of decimal(p,s), or one that wraps into its range in 128 bits."""

    def draw(rng: random.Random) -> str:
        match rng.randrange(6):
            case 0:
                units = rng.choice((-1, 1)) * (10**precision + rng.randrange(-2, 2))
            case 1:
                units = rng.randrange(-(10**precision), 10**precision + 1) // 10 ** rng.randrange(precision)
            case 2:
                units = rng.randrange(-3, 4) * 2 ** rng.choice((64, 127, 128, 129)) + rng.randrange(
                    -2000, 2000
                )
            case 3:
                units = rng.randrange(-(10 ** (precision + 4)), 10 ** (precision + 4))
            case 4:
                units = rng.randrange(-(10**40), 10**40) * 10 ** rng.choice((0, scale))
            case _:
                return whole(rng)
        sign, digits = "-" if units < 0 else "", str(abs(units)).rjust(scale + 1, "0")
        point = len(digits) - scale + rng.choice((0, 0, 0, 0, 1, -1))
        front, back = digits[: max(0, point)], digits[max(0, point) :]
        if rng.random() < 0.2:
            back = back.rstrip("0") + "0" * rng.randrange(5)
        if rng.random() < 0.1:
            front = front.lstrip("0")
        return f"{sign}{front}.{back}" if back or rng.random() < 0.2 else sign + front

    return draw


def floating(bits: int) -> Draw:
    """A number at, beside or in the middle of two values of float or double."""
    form, kind = (">f", ">I") if bits == 32 else (">d", ">Q")

    def value(pattern: int) -> float:
        return float(struct.unpack(form, struct.pack(kind, pattern))[0])

    top = {32: 0x7F800000, 64: 0x7FF0000000000000}[bits]

    def draw(rng: random.Random) -> str:
        pattern = rng.randrange(top)
        match rng.randrange(9):
            case 0:
                pattern = rng.randrange(4)
            case 1:
                pattern = top - 1 - rng.randrange(3)
            case 2:
                pattern = (1 << (bits - (9 if bits == 32 else 12))) + rng.randrange(-2, 3)
            case 3:
                return f"{rng.randrange(1, 10**17)}e{rng.randrange(-360, 330)}"
            case 4:
                return rng.choice(EXTREME)
            case 5:
                return f"{rng.uniform(-1e6, 1e6):.{rng.randrange(20)}f}"
            case 6:
                return repr(math.copysign(value(pattern), rng.random() - 0.5))
            case _:
                near = {32: 127, 64: 1023}[bits] << (bits - (9 if bits == 32 else 12))
                pattern = near + rng.randrange(-(2**28), 2**28)
        low = Decimal(value(pattern))
        high = Decimal(value(pattern + 1)) if pattern + 1 < top else low + (low - Decimal(value(pattern - 1)))
        middle = EXACT.divide(EXACT.add(low, high), Decimal(2))
        text = rng.choice((f"{middle:f}", str(middle)))
        if "E" not in text and "." in text:
            text += rng.choice(("", "", "0", "1", "0" * rng.randrange(60) + "1"))
            if rng.random() < 0.3:
                text = text[:-1] + rng.choice("0123456789")
        return rng.choice(("", "-", "+")) + text

    return draw


EXTREME = (
    "1e-400", "1e-50", "-1e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "4.9e-324",
    "7.006492321624085e-46", "7.006492321624086e-46", "1e39", "3.4028235677973366e38", "1e309",
    "1.7976931348623158e308", "1.7976931348623159e308", "0e999", "-0", "0.0e-999",
    "0." + "0" * 400 + "1", "0." + "0" * 400 + "1e401", "1" + "0" * 400, "1" + "0" * 400 + "e-400",
    "1e" + "9" * 30, "1e-" + "9" * 30, "0e" + "9" * 30, "1e0000000000000000000005", "inf", "-INF",
    "+Infinity", "nan", "-NaN", "infinit", "nan(1)", "0x1p3", "1_0", "1e+", "1e", "e5", ".e5", "5.e5",
    ".5E-5", "9007199254740993", "16777217.0000000000000000001",
)  # fmt: skip


def word(rng: random.Random) -> str:
    """Yes, no, and what looks like it."""
    words = ("true", "false", "1", "0", "TRUE", "False", "tRuE", "yes", "t", "01", "on", "ture", "")
    return rng.choice(words)


def date(rng: random.Random) -> str:
    """YYYY-MM-DD, often at the end of a month or of time."""
    year = rng.choice(
        (0, 1, 4, 100, 400, 1582, 1600, 1700, 1900, 1969, 1970, 2000, 2023, 2024, 2038, 2100, 9999)
    )
    year = year if rng.random() < 0.6 else rng.randrange(10000)
    month = rng.randrange(14) if rng.random() < 0.3 else rng.choice((1, 2, 12))
    last = rng.choice((0, 1, 27, 28, 29, 30, 31, 32, 99)) if rng.random() < 0.6 else rng.randrange(1, 29)
    return f"{year:04}-{month:02}-{last:02}"


def clock(rng: random.Random) -> tuple[str, str, str, str]:
    """Hour, minute, second and digits of a fraction."""
    odd = rng.random() < 0.1
    hour, minute, second = (
        rng.choice((0, top - 1, top, 99)) if odd else rng.randrange(top) for top in (24, 60, 60)
    )
    size = rng.choice((0, 1, 3, 6, 6, 7, 9, 12))
    fraction = "".join(rng.choices("0123456789", k=size))
    if size > 6 and rng.random() < 0.6:
        fraction = fraction[:6] + "0" * (size - 6)
    return f"{hour:02}", f"{minute:02}", f"{second:02}", fraction


def offset(rng: random.Random) -> str:
    """What may stand for an offset from UTC."""
    if rng.random() < 0.2:
        return rng.choice(("Z", "z", "", "UTC", "+24:00", "-2359", "+0060", "+00:00", "-00:01", "+8", "+080"))
    colon = rng.choice((":", ""))
    return f"{rng.choice('+-')}{rng.randrange(24):02}{colon}{rng.choice((0, 0, 30, 45, 59)):02}"


def iso(locals_: Sequence[datetime]) -> Draw:
    """ISO 8601, some of the moments from `locals_`."""

    def draw(rng: random.Random) -> str:
        hour, minute, second, fraction = clock(rng)
        text = date(rng)
        if locals_ and rng.random() < 0.5:
            text, _, at = rng.choice(locals_).isoformat(sep=" ").partition(" ")
            hour, minute, second, fraction = at[:2], at[3:5], at[6:8], at[9:]
        if rng.random() < 0.1:
            return text + rng.choice(("", "", "Z", "+08", "-08", "-08:00", " +0800"))
        text += rng.choice("TTt  ") + f"{hour}:{minute}"
        if rng.random() < 0.9:
            text += f":{second}"
            if fraction or rng.random() < 0.02:
                text += rng.choice("..,") + fraction
        zone = offset(rng)
        return text + rng.choice(("", "", " ")) + rng.choice((zone, zone[:3])) if rng.random() < 0.5 else text

    return draw


def formatted(tokens: Sequence[str], locals_: Sequence[datetime]) -> Draw:
    """A text in a format, some of the moments from `locals_`."""

    def draw(rng: random.Random) -> str:
        year, month, last = date(rng).split("-")
        hour, minute, second, fraction = clock(rng)
        if locals_ and rng.random() < 0.6:
            at = rng.choice(locals_).isoformat(timespec="microseconds")
            year, month, last, hour, minute, second = (
                at[a:b] for a, b in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
            )
            fraction = at[20:]
        names = ("jan", "Feb", "MAR", "apr", "May", "jun", "Jul", "aug", "Sep", "OCT", "nov", "dec")
        name = names[int(month) - 1] if 1 <= int(month) <= 12 else rng.choice(("Foo", "Sept", "", "1"))
        said = {"%Y": year, "%m": month, "%b": name, "%d": last, "%H": hour, "%M": minute, "%S": second}
        said |= {"%f": fraction or "0", "%z": offset(rng), "%%": "%"}
        return "".join(said.get(token, token) for token in tokens)

    return draw


def epoch(unit_us: int) -> Draw:
    """A count since 1970, often at an edge of the years."""

    def draw(rng: random.Random) -> str:
        edge = rng.choice(
            (-62_135_596_800, 253_402_300_800, 0, 2**31, -(2**31), 1_700_000_000, 10**12, 2**63)
        )
        count = edge * 1_000_000 // unit_us + rng.randrange(-3, 4)
        if rng.random() < 0.3:
            count = rng.randrange(-(10**12), 10**12) * 1_000_000 // unit_us // 10 ** rng.randrange(12)
        fraction = clock(rng)[3]
        return f"{count}.{fraction}" if fraction and rng.random() < 0.7 else str(count)

    return draw


def around_changes(zone: str, rng: random.Random) -> list[datetime]:
    """Local times at, before and after changes of the clocks of `zone`."""
    place, found = ZoneInfo(zone), []
    for _ in range(24):
        year = rng.choice((rng.randrange(1883, 2110), rng.randrange(1883, 2110), rng.randrange(1, 9998)))
        low = datetime(year, 1, 2, tzinfo=UTC)
        for _ in range(13):
            high = low + timedelta(days=29)
            if shift(place, low) != shift(place, high):
                found.append(change(place, low, high))
            low = high
    steps = [
        timedelta(seconds=s) for s in (0, 1, 59, 899, 900, 1799, 1800, 3599, 3600, 5400, 7199, 7200, 86400)
    ]
    locals_ = []
    for moment in found:
        for side in (moment - timedelta(seconds=1), moment):
            base = moment.replace(tzinfo=None) + shift(place, side)
            for step in steps:
                for micro in (0, 1, -1):
                    locals_ += [base + step + timedelta(microseconds=micro), base - step]
    return locals_


def shift(place: ZoneInfo, moment: datetime) -> timedelta:
    """Offset of the zone at a moment."""
    return moment.astimezone(place).utcoffset() or timedelta()


def change(place: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The second from which on the offset is no longer that of `low`."""
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // timedelta(seconds=2) * timedelta(seconds=1)
        low, high = (middle, high) if shift(place, middle) == shift(place, low) else (low, middle)
    return high
