"""Types for the keys of some logs: what a first `columns:` is made of.

A type is tried by the cast that landings use, so "fits" means the same here as there. Of the types that at
least 99 of 100 values fit, the one with the fewest misfits is taken, the narrowest of several. All else is
a string, which loses nothing.

Worked example: `0.5` and `12` are doubles; `7` and `-` are strings, since one of two does not fit; `007` and
`12` are strings, since a number would not show the zeros; `12345678901234567890` is a string, since a double
would be another number.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa
import yaml

from pipelines.landing.table.contract import Contract
from pipelines.landing.table.names import WrongColumn, check_names
from sls_io.values.errors import printable
from sls_io.values.moments import WRITTEN

SAMPLE_LOGS: Final = 2_000
MISFITS_MAX: Final = 0.01
"""Of the values of a key: more are a second kind of value, and no slips."""
RARE: Final = 0.01
"""A key that fewer logs have stays in `__rest__`."""
TIMES: Final = (
    "timestamp(iso)",
    "timestamp(iso, UTC)",
    "timestamp(%d/%b/%Y:%H:%M:%S %z)",
    *(f"timestamp({form}, UTC)" for form in WRITTEN),
)
_NUMBERS: Final = re.compile(rb"\d\d([-/.])\d\d\1(\d\d(?:\d\d)?)( \d\d:\d\d(:\d\d)?)?")
"""A day in three numbers, whichever is which, and perhaps a time of day."""
_SHORT_YEARS: Final = "years of two digits are 2000 to 2068, or 1969 to 1999"
_TIME_KEY: Final = re.compile(r"time|date|(^|_)(ts|at)$", re.IGNORECASE)
_EPOCHS: Final = {"timestamp(epoch_s)": (10**9, 10**10), "timestamp(epoch_ms)": (10**12, 10**13)}
"""Numbers of such a size, under a key that speaks of time, count from 1970: 2001 to 2286."""
_FINE_DIGITS: Final = 15
"""Of numbers since 1970 that are finer than milliseconds."""
_NO_NUMBER: Final = re.compile(rb"\+|-?0\d")
"""A number would lose the sign of a telephone number, the zeros of an article's."""

Contents = Sequence[tuple[str, bytes]]
"""The keys and values of one log."""


@dataclass(frozen=True, slots=True)
class Suggested:
    """A key of the sample. `type` is "" where it cannot be a column, or should not be. `why` says that, or
    what a person may want to know of its values.

    values   logs that have it
    misfits  of these, values that the type does not fit; they would stay in `__rest__` with their cause
    """

    key: str
    type: str
    values: int
    misfits: int = 0
    why: str = ""


def suggested(logs: Iterable[Contents]) -> list[Suggested]:
    """What each key of the logs may be declared as, in the order in which they come first.

    Worked example: of 101 values `1` and one `-` the type is int with 1 misfit; a second `-` would make it a
    string. `1700000000` is a time under `time` and an int under `count`.
    """
    values: dict[str, list[bytes]] = {}
    repeated: Counter[str] = Counter()
    count = 0
    for contents in logs:
        count += 1
        shown = dict(contents)
        if len(shown) < len(contents):
            repeated.update(key for key, n in Counter(key for key, _ in contents).items() if n > 1)
        for key, value in shown.items():
            values.setdefault(key, []).append(value)
    found: list[Suggested] = []
    names: list[str] = []
    for key, its in values.items():
        one = _of_key(key, its, count, names)
        if repeated[key] and one.type:
            why = f"{repeated[key]:,} logs have it twice: the last value is shown"
            one = replace(one, misfits=max(one.misfits, repeated[key]), why=why)
        names += [key] if one.type else []
        found.append(one)
    return found


def _of_key(key: str, values: list[bytes], logs: int, names: Sequence[str]) -> Suggested:
    """In this order: a name that can be no column; a key that hardly any log has; then the type with the
    fewest misfits, of equal ones the first of `_candidates`. Where even that has too many, a string."""
    try:
        check_names([*names, key])
    except WrongColumn as error:
        return Suggested(key, "", len(values), why=error.why)
    if len(values) < RARE * logs:
        return Suggested(key, "", len(values), why="fewer than 1 of 100 logs have it")
    misfits = {text: _misfits(text, values) for text in _candidates(key, values)}
    best = min(misfits, key=lambda text: misfits[text], default="string")
    if not misfits or misfits[best] > MISFITS_MAX * len(values):
        best, misfits = "string", {"string": sum(not _is_text(value) for value in values)}
    return Suggested(key, best, len(values), misfits[best], _why(key, best, misfits[best], values))


def _why(key: str, best: str, misfits: int, values: list[bytes]) -> str:
    """What a person may want to know of values that got this type."""
    if best == "string" and misfits > MISFITS_MAX * len(values):
        return "not UTF-8: declare it string(ENCODING), such as string(gbk) or string(latin-1)"
    if best == "long" and _TIME_KEY.search(key) and all(len(value) >= _FINE_DIGITS for value in values):
        return "micro- or nanoseconds since 1970, if it is a time: a number, since no type reads these"
    filled = [value for value in values if value]
    empty = len(values) - len(filled)
    return "; ".join(filter(None, (_of_time(best, filled), f"{empty:,} are empty" if empty else "")))


def _candidates(key: str, values: Sequence[bytes]) -> list[str]:
    """Types worth trying, the narrowest first."""
    found = ["boolean"] if any(value.isalpha() for value in values) else []
    if not any(_NO_NUMBER.match(value) for value in values):
        whole = [abs(int(value)) for value in values if re.fullmatch(rb"-?\d{1,18}", value)]
        if _TIME_KEY.search(key):
            found += [
                t for t, (low, high) in _EPOCHS.items() if whole and low <= min(whole) <= max(whole) < high
            ]
        found += ["int", "long"]
        if all(map(_is_kept_by_a_double, values)):
            found.append("double")
    return [*found, "date", *TIMES]


def _is_kept_by_a_double(value: bytes) -> bool:
    """Whether its shortest text is the same number: true of all with 15 digits that count, and of what other
    programs made of doubles, such as 0.30000000000000004. What is no number loses nothing."""
    try:
        exact = Decimal(value.decode("ascii", "replace"))
    except InvalidOperation:
        return True
    return not exact.is_finite() or Decimal(repr(float(exact))) == exact


def _misfits(text: str, values: Sequence[bytes]) -> int:
    """Values that the type does not fit, by the landing's own cast."""
    (declared,) = Contract.from_columns({"key": text}).declared
    texts = [value.decode() if _is_text(value) else None for value in values]
    if declared.convert is None:
        return texts.count(None)
    # A cast that cannot do with the whole sample is none for it.
    return int(declared.convert(pa.array(texts, pa.string())).null_count)


def _of_time(best: str, values: Sequence[bytes]) -> str:
    """What a person has to know of days in numbers: which orders they may be in, and of short years which are
    meant."""
    found = _orders(values) if best.startswith(("string", "timestamp(%y/")) else []
    said = " or ".join(text for text in found if text != best)
    if "%y" in best:
        return f"year first, else declare it {said}; {_SHORT_YEARS}" if said else _SHORT_YEARS
    if len(found) == 1:
        return f"looks like a time: declare it {said}, with the zone that it was written in"
    return f"looks like a time, and no value says in which order: declare it {said}" if found else ""


def _orders(values: Sequence[bytes]) -> list[str]:
    """Types of a time that fit days in three numbers; several where no value decides which of them it is: a
    number above 12 is no month.

    Worked example: `13/02/2026 10:00` can only be day first: one type. `03/02/2026` can be both: two, and a
    person is told that no value says which. After a wrong guess the days above 12 would not fit, and most of
    the others would land as other days, without an error.
    """
    shapes = Counter(
        (match[1].decode(), len(match[2]), " %T" if match[4] else " %H:%M" if match[3] else "")
        for match in map(_NUMBERS.fullmatch, values)
        if match
    )
    if not shapes:
        return []
    mark, digits, clock = max(shapes, key=lambda shape: shapes[shape])
    days = ("dmY", "mdY") if digits > len("26") else ("dmy", "mdy", "ymd")
    texts = [f"timestamp({mark.join(f'%{letter}' for letter in day)}{clock}, UTC)" for day in days]
    misfits = {text: _misfits(text, values) for text in texts}
    least = min(misfits.values())
    return [text for text, n in misfits.items() if n == least] if least <= MISFITS_MAX * len(values) else []


def _is_text(value: bytes) -> bool:
    """Whether it is UTF-8. What the service's pages were decoded to has U+FFFD where it was not."""
    try:
        return "\ufffd" not in value.decode()
    except UnicodeDecodeError:
        return False


def lines(found: Sequence[Suggested], logs: int) -> list[str]:
    """`columns:` as YAML, with what the sample said of each key."""
    if not any(one.type for one in found):
        return ["columns: {}"]
    entries = [(_entry(one.key, one.type), one) for one in found if one.type]
    width = max(len(text) for text, _ in entries)
    told = [f"  {text:<{width}}  # {_said(one, logs)}" for text, one in entries]
    left = [f"  # In __rest__: {printable(one.key, 60)}: {one.why}" for one in found if not one.type]
    return ["columns:", *told, *left]


def _entry(key: str, kind: str) -> str:
    """`key: kind` in a line. Of a key of over 122 characters PyYAML makes two, unless it is written alone."""
    text = yaml.safe_dump({key: kind}, allow_unicode=True, width=10_000).strip()
    if not text.startswith("? "):
        return text
    alone = yaml.safe_dump(key, allow_unicode=True, width=10_000, default_style='"').strip()
    return f"{alone}: {text.rpartition(': ')[2]}"


def _said(one: Suggested, logs: int) -> str:
    has = "each log has it" if one.values == logs else f"{one.values:,} of {logs:,} logs have it"
    return ", ".join(filter(None, (has, f"{one.misfits:,} do not fit" if one.misfits else "", one.why)))
