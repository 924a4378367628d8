"""The five fields of cron as settings have them, with Jenkins' `H`: a value that follows from a name."""

import re
import zlib

_CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_CRON_PART = re.compile(r"(?:\*|([0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?)(?:/([1-9][0-9]?))?")
_CRON_OWN = re.compile(r"h(?:/([1-9][0-9]?))?")
_DAYS_OF_EACH_MONTH = 28
_PLACES = ("first", "second", "third", "fourth", "last")
_MONTHS = ("", *"jan feb mar apr may jun jul aug sep oct nov dec".split())
_CRON_NAMES = {"month": _MONTHS, "weekday": tuple("sun mon tue wed thu fri sat".split())}
_DAYS_OF_MONTH = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def cron_of(value: str, setting: str, whose: str) -> str:
    """The five fields of cron that `setting` has, its `H` drawn by the name of `whose` it is. Raises
    ValueError for what would not tick."""
    fields = value.lower().split(" ")
    if len(fields) != len(_CRON):
        raise ValueError(
            f"{setting}: expected the five fields of cron, single blanks between them, such as "
            f'"*/5 * * * *"; there are {len(fields)}'
        )
    drawn = [_spread(*pair, f"{setting} {whose}") for pair in zip(fields, _CRON, strict=True)]
    kinds = [_cron_values(*pair) for pair in zip(drawn, _CRON, strict=True)]
    if not all(kinds):
        place = kinds.index(set())
        kind, low, high = _CRON[place]
        names = [name for name in _CRON_NAMES.get(kind, ()) if name]
        words = f", or {names[0]} to {names[-1]}" if names else ""
        a = "an" if kind == "hour" else "a"
        raise ValueError(
            f"{setting}: expected {a} {kind} of {low} to {high}{words} as the {_PLACES[place]} of the five "
            "fields; * is every one, */5 each fifth, 1-3 a range, 1,3 a list; alone in a field H is one by "
            f"the name, of days up to {_DAYS_OF_EACH_MONTH}, and H/5 each fifth from one of the first five on"
        )
    if min(kinds[2]) > max(_DAYS_OF_MONTH[month] for month in kinds[3]):
        raise ValueError(f"{setting}: no month that it names has such a day, it would never tick")
    return value if drawn == fields else " ".join(drawn)


def _spread(field: str, bounds: tuple[str, int, int], named: str) -> str:
    """A field of cron with `h`, which stands for a value that follows from the name, as in Jenkins: many that
    share a setting do not all begin in one minute. Any other field stays as it is.

    Worked example: `h/5` is `3-59/5` for one name, and `0-59/5` for another; `h` is `17`.
    """
    match = _CRON_OWN.fullmatch(field)
    if match is None:
        return field
    kind, low, high = bounds
    high = min(high, _DAYS_OF_EACH_MONTH) if kind == "day" else high
    every, drawn = int(match[1] or 0), zlib.crc32(f"{named} {kind}".encode())
    if every > high - low:
        return field
    return f"{low + drawn % every}-{high}/{every}" if every else str(low + drawn % (high - low + 1))


def _cron_values(field: str, bounds: tuple[str, int, int]) -> set[int]:
    """The values that one field of cron names; none when it is not understood."""
    kind, low, high = bounds
    found: set[int] = set()
    for part in field.split(","):
        match = _CRON_PART.fullmatch(part)
        if match is None:
            return set()
        names = _CRON_NAMES.get(kind, ())
        try:
            ends = [int(t) if t.isdigit() else names.index(t) for t in match.group(1, 2) if t]
        except ValueError:
            return set()
        if any(not low <= end <= high for end in ends):
            return set()
        first = ends[0] if ends else low
        last = ends[1] if len(ends) > 1 else first if ends and not match[3] else high
        # `fri-mon` and `22-2` go on over the end, as Dagster reads them.
        over = [*range(first, high + 1), *range(low, last + 1)] if last < first else range(first, last + 1)
        found.update(over[:: int(match[3] or 1)])
    return found
