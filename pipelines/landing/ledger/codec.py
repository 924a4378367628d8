"""The ledger as text: carried in the summary of a commit, read back and checked.

One tag, `sls-lake`, sits on the snapshot of the newest landing. That snapshot's summary holds

    sls-lake.attempt            id of the attempt that made it
    sls-lake.windows            what this landing brought, with rows and flags
    sls-lake.ledger.<origin>    for every origin of the table: per shard start, landed, gaps,
                                withdrawn, end, receive time reached, rows, identity sum
    sls-lake.adopted            rows that were there before a ledger began: counted, never proven; and
                                how many rows were missing when they were adopted
    sls-lake.forgotten          rows that left by a decision and must not come again; values that may not
                                land, and how many rows they kept out
    sls-lake.verb               what was done, where no landing made the snapshot: `rollback 123`
    sls-lake.rewritten          rows of files that this snapshot wrote anew, without landing any

Text, version 1: version, number of shards, shards, joined by ";", fields by ":", numbers in base 36. A shard
is `id:start:landed:gaps:withdrawn:end:reached:rows:sum`; intervals are `begin-end` joined by ",", `begin`
left out where it equals the shard's start. A `+` before the start says that nobody chose it: the service told
it, and is asked again. A release that does not know the `+` reads the same number. A gap ends with a letter
for its cause. 256 shards take about 13 KB.

Version 2 is written only while a shard is suspected to be gone. It has one more field: since when the shard
is suspected, in unix seconds of the service, or empty. A release that does not know the field refuses the
table and says so, because it would lose the suspicion.
"""

from collections.abc import Iterable
from dataclasses import replace

from pipelines.landing.barring import Bar, Bars
from pipelines.landing.ledger.values import Adopted, Count, Deed, Forgotten, Gone, Key, Landed, Operation
from pipelines.landing.table import commands
from sls_io.values.claim import GAP_EXPIRED, GAP_SHARD_GONE, GAP_SKIPPED, Gap, Ledger, ShardLedger
from sls_io.values.cures import Do
from sls_io.values.errors import Breach, InvariantBroken, LedgerBroken
from sls_io.values.window import Cursor, IntervalSet, Window

TAG = "sls-lake"
ATTEMPT_KEY = "sls-lake.attempt"
WINDOWS_KEY = "sls-lake.windows"
LEDGER_PREFIX = "sls-lake.ledger."
ADOPTED_KEY = "sls-lake.adopted"
FORGOTTEN_KEY = "sls-lake.forgotten"
VERB_KEY = "sls-lake.verb"
REWRITTEN_KEY = "sls-lake.rewritten"
ORIGIN_PROPERTY_PREFIX = "sls-lake.origin."
PAUSED_PROPERTY_PREFIX = "sls-lake.paused."
"""Of a table property: the shards of an origin that a person paused, as decimal numbers and blanks. It is no
part of a ledger: a rollback to a landing from before the pause does not end it."""
ASKED_PROPERTY_PREFIX = "sls-lake.asked."
"""Of a table property: the oldest receive time, unix seconds, that the settings asked for when the history of
an origin began. Without it nobody could tell a begin that the service told wrong from a lowered `start`."""
KEPT_PROPERTY_PREFIX = "sls-lake.kept."
"""Of a table property: the oldest receive time, unix seconds, of which the service still had all logs when
the history of an origin began; none where that was all that the settings asked for. Without it hours of which
logs may have been deleted before the first landing would pass for hours without logs."""
VERSION = "1"
_SUSPECTS = "2"
"""Version of the text of a ledger in which a shard is suspected to be gone; 1 where none is."""
_BARRING = "2"
"""Version of the text of forgotten rows once values may not land; 1 before."""
_ADOPTED_MISSING = "2"
"""Version of the text of adopted rows that also says how many were missing; 1 where none were."""


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TOLD = "+"
_CAUSES = {GAP_EXPIRED: "x", GAP_SHARD_GONE: "g", GAP_SKIPPED: "s"}
_CAUSE_OF = {letter: cause for cause, letter in _CAUSES.items()}


_OPERATIONS = frozenset(Operation) - {Operation.OTHER}


def encode(ledger: Ledger) -> str:
    """The ledger of one origin as the text of its summary property.

    Worked example: shard 3 begins at 100, which the service told; [100, 1000) and [1296, 1300) are landed,
    [1000, 1296) has expired; it has 50 rows with the sum 7 and has reached 1,700,000,000:

        1;1;3:+2s:-rs,100-104:rs-100X:::s44we8:1e:7
    """
    suspects = any(e.suspect_s for e in ledger.shards.values())
    shards = [
        _encode_shard(s, e) + (f":{_base36(e.suspect_s) if e.suspect_s else ''}" if suspects else "")
        for s, e in sorted(ledger.shards.items())
    ]
    return ";".join([_SUSPECTS if suspects else VERSION, _base36(len(shards)), *shards])


def encode_paused(shards: Iterable[int]) -> str:
    """The text of the property that says which shards are paused."""
    return " ".join(map(str, sorted(shards)))


def decode_paused(origin: str, text: str) -> frozenset[int]:
    """The paused shards of an origin. Raises LedgerBroken where somebody wrote something else there."""
    if not all(part.isascii() and part.isdigit() for part in text.split()):
        raise LedgerBroken(
            f"the table property {PAUSED_PROPERTY_PREFIX}{origin} is no list of shards, so nobody can say "
            "which are paused; nothing was landed",
            cures=(Do("write the numbers there, or remove the property, with any Iceberg engine"),),
        )
    return frozenset(map(int, text.split()))


def decode(origin: str, text: str) -> Ledger:
    """The ledger in a summary property. Raises LedgerBroken for text of another version or shape."""
    what = f"the ledger of {origin}"
    body = _body(text, what, VERSION, _SUSPECTS)
    version = text[:1]
    try:
        count, *parts = body.split(";")
        # Counted, because a text that was cut between two shards would read as a smaller ledger.
        if int(count, 36) != len(parts):
            raise ValueError(count)
        if version == VERSION:
            return Ledger(origin, dict(_decode_shard(part) for part in parts))
        return Ledger(origin, dict(_decode_suspect(part) for part in parts))
    except (ValueError, KeyError, IndexError) as error:
        raise _damaged(what) from error


def decode_deed(text: str) -> Deed | None:
    """What `sls-lake.verb` says, the inverse of a deed's `str`; None for an absent text, which a landing
    has. Whatever is not understood is the words of another operation, and never an error."""
    word, _, about = text.partition(" ")
    if word not in _OPERATIONS:
        return Deed(Operation.OTHER, text) if text else None
    operation = Operation(word)
    if operation is not Operation.ROLLBACK:
        return Deed(operation, about)
    known = about.isascii() and about.isdecimal()
    return Deed(operation, snapshot=int(about)) if known else Deed(Operation.OTHER, text)


def _damaged(what: str) -> LedgerBroken:
    return LedgerBroken(
        f"{what} cannot be read: its text is damaged", cures=(commands.ADOPT,), kind=Breach.DAMAGED
    )


def _body(text: str, what: str, *versions: str) -> str:
    """What follows the version. Raises LedgerBroken for a later one, which is a number, and for damage."""
    version, _, body = text.partition(";")
    if version in versions:
        return body
    if not (version.isascii() and version.isdecimal()):
        raise _damaged(what)
    raise LedgerBroken(
        f"{what}: the text has version {version[:8]}, this release reads {' and '.join(versions)}",
        cures=(commands.UPGRADE,),
    )


def encode_adopted(adopted: Adopted) -> str:
    """`1;others;origin:shard:rows:sum;...` for `sls-lake.adopted`, or, where rows were missing,
    `2;others;origin:shard:rows:sum:missing;...`; empty when nothing was adopted."""
    lost = {key: rows for key, rows in adopted.missing.items() if rows}
    if not adopted.rows and not lost:
        return ""
    parts = [_ADOPTED_MISSING if lost else VERSION, _base36(adopted.others)]
    for origin, shard in sorted({*adopted.shards, *lost}):
        numbers = [shard, *adopted.of(origin, shard), *([lost.get((origin, shard), 0)] if lost else [])]
        parts.append(":".join([origin, *map(_base36, numbers)]))
    return ";".join(parts)


def decode_adopted(text: str) -> Adopted:
    """The inverse; an absent text means that nothing was adopted. Raises LedgerBroken as `decode`.

    Counted from the end of each part, since an origin stands first. Shards without rows are there for what is
    missing of them.
    """
    if not text:
        return Adopted()
    body = _body(text, "the count of adopted rows", VERSION, _ADOPTED_MISSING)
    fields = 3 if text.startswith(VERSION) else 4
    try:
        others, *parts = body.split(";")
        shards: dict[tuple[str, int], tuple[int, int]] = {}
        missing: dict[tuple[str, int], int] = {}
        for part in parts:
            origin, *numbers = part.rsplit(":", fields)
            if len(numbers) != fields:
                raise ValueError(part)
            shard, rows, total, *lost = (int(n, 36) for n in numbers)
            if rows:
                shards[origin, shard] = rows, total
            if any(lost):
                missing[origin, shard] = lost[0]
        return Adopted(shards, int(others, 36), missing)
    except ValueError as error:
        raise _damaged("the count of adopted rows") from error


def encode_forgotten(forgotten: Forgotten) -> str:
    """`1;origin:shard:rows:sum:hours;...` for `sls-lake.forgotten`; hours are `begin-end` joined by
    ",", and `-end` for all before one. Empty when nothing was forgotten.

    Version 2, once somebody has said that values may not land: `2;salt;begun;n`, then n times
    `origin:column:digest,...`, then `origin:shard:rows:sum:hours:barred:rows:sum:hours` with `barred` as
    `hour.rows.sum` joined by ",", and what is older than that. A release that does not know it refuses the
    table and says so: it would land what may not.
    """
    if not forgotten:
        return ""
    bars = forgotten.bars
    if not bars.begun:
        return ";".join([VERSION, *(_encode_gone(k, gone) for k, gone in sorted(forgotten.shards.items()))])
    values: dict[tuple[str, int], list[str]] = {}
    for bar in sorted(bars.values):
        values.setdefault((bar.origin, bar.field), []).append(bar.digest)
    said = [":".join([origin, _base36(at), ",".join(found)]) for (origin, at), found in values.items()]
    none, shards = Gone(0, 0, IntervalSet()), list[str]()
    for key in sorted({*forgotten.shards, *forgotten.barred, *forgotten.older}):
        counts = forgotten.barred.get(key, {})
        barred = ",".join(
            ".".join(map(_base36, (hour, *counts[hour]))) for hour in sorted(counts) if counts[hour][0]
        )
        older = _encode_gone(("", 0), forgotten.older.get(key, none)).split(":", 2)[2]
        shards.append(":".join([_encode_gone(key, forgotten.shards.get(key, none)), barred, older]))
    return ";".join([_BARRING, bars.salt, _base36(bars.begun), _base36(len(said)), *said, *shards])


def _encode_gone(key: tuple[str, int], gone: Gone) -> str:
    single = gone.hours.minus(IntervalSet.of([(0, gone.before)]))
    # A release that does not know `before` reads the same hours.
    before = [f"-{_base36(gone.before)}"] if gone.before else []
    hours = ",".join([*before, *(f"{_base36(b)}-{_base36(e)}" for b, e in single)])
    return ":".join([key[0], *(_base36(n) for n in (key[1], gone.rows, gone.sum)), hours])


def decode_forgotten(text: str) -> Forgotten:
    """The inverse; an absent text means that nothing was. Raises LedgerBroken as `decode`.

    `before` is the end of the interval whose begin is left out; a release that does not know it reads that as
    hours from 0 on, which is the same.
    """
    if not text:
        return Forgotten()
    body = _body(text, "the count of forgotten rows", VERSION, _BARRING)
    try:
        if text.startswith(VERSION):
            return Forgotten(dict(_decode_gone(part) for part in body.split(";")))
        return _decode_barring(*body.split(";"))
    except (ValueError, TypeError) as error:
        raise _damaged("the count of forgotten rows") from error


def _decode_gone(part: str) -> tuple[tuple[str, int], Gone]:
    origin, shard, rows, total, hours = part.rsplit(":", 4)
    texts = [p for p in hours.split(",") if p]
    pairs = IntervalSet.of(_pair(0, p) for p in texts)
    before = max((_pair(0, p)[1] for p in texts if p.startswith("-")), default=0)
    return (origin, int(shard, 36)), Gone(int(rows, 36), int(total, 36), pairs, before)


def _decode_barring(salt: str, begun: str, count: str, *parts: str) -> Forgotten:
    bytes.fromhex(salt)
    said, shards = parts[: int(count, 36)], parts[int(count, 36) :]
    if len(said) != int(count, 36):
        raise ValueError(count)
    bars = set[Bar]()
    for part in said:
        origin, at, digests = part.rsplit(":", 2)
        bars |= {Bar(origin, int(at, 36), digest) for digest in digests.split(",")}
    gone, barred, older = dict[Key, Gone](), dict[Key, dict[int, Count]](), dict[Key, Gone]()
    for part in shards:
        first, counts, *rest = part.rsplit(":", 4)
        key, removed = _decode_gone(first)
        if removed.rows or removed.hours:
            gone[key] = removed
        for each in filter(None, counts.split(",")):
            hour, rows, total = (int(n, 36) for n in each.split("."))
            barred.setdefault(key, {})[hour] = rows, total
        _, past = _decode_gone(":".join([key[0], "0", *rest]))
        if past.rows:
            older[key] = past
    return Forgotten(gone, Bars(salt, frozenset(bars), int(begun, 36)), barred, older)


def encode_windows(origin: str, windows: Iterable[Landed]) -> str:
    """`1;origin;shard:begin:end:hour:rows:bytes:flags;...` for `sls-lake.windows`."""
    parts = [VERSION, origin]
    for x in windows:
        w = x.window
        numbers = (w.shard, w.begin, w.end, w.hour, x.rows, x.raw_bytes)
        parts.append(":".join([*(_base36(n) for n in numbers), x.flags]))
    return ";".join(parts)


def decode_windows(text: str) -> tuple[str, tuple[Landed, ...]]:
    """(origin, windows) of a landing; sums are not in it. An empty text is no landing of ours. Raises
    LedgerBroken for a damaged one."""
    parts = text.split(";")
    if len(parts) < 2 or parts[0] != VERSION:
        return "", ()
    windows = []
    try:
        for part in parts[2:]:
            *numbers, flags = part.split(":")
            shard, begin, end, hour, rows, raw_bytes = (int(n, 36) for n in numbers)
            window = Window(shard, Cursor(begin), Cursor(end), hour)
            windows.append(Landed(window, rows, 0, raw_bytes, flags))
    except (ValueError, InvariantBroken) as error:
        raise _damaged(f"what the newest landing of {parts[1]} brought") from error
    return parts[1], tuple(windows)


def _encode_shard(shard: int, entry: ShardLedger) -> str:
    start = int(entry.start)
    gaps = ",".join(f"{_interval(start, (g.begin, g.end))}{_CAUSES[g.cause].upper()}" for g in entry.gaps)
    parts = (
        _base36(shard),
        f"{_TOLD if entry.told else ''}{_base36(start)}",
        ",".join(_interval(start, p) for p in entry.landed),
        gaps,
        ",".join(_interval(start, p) for p in entry.withdrawn),
        "" if entry.end is None else _base36(entry.end),
        _base36(entry.reached_s),
        _base36(entry.rows),
        _base36(entry.sum),
    )
    return ":".join(parts)


def _decode_shard(text: str) -> tuple[int, ShardLedger]:
    shard, start_text, landed, gaps, withdrawn, end, reached, rows, total = text.split(":")
    start = int(start_text, 36)
    return int(shard, 36), ShardLedger(
        start=Cursor(start),
        landed=IntervalSet.of(_pair(start, p) for p in landed.split(",") if p),
        gaps=tuple(_gap(start, p) for p in gaps.split(",") if p),
        withdrawn=IntervalSet.of(_pair(start, p) for p in withdrawn.split(",") if p),
        end=Cursor(int(end, 36)) if end else None,
        reached_s=int(reached, 36),
        rows=int(rows, 36),
        sum=int(total, 36),
        told=start_text.startswith(_TOLD),
    )


def _decode_suspect(text: str) -> tuple[int, ShardLedger]:
    rest, _, since = text.rpartition(":")
    shard, entry = _decode_shard(rest)
    return shard, replace(entry, suspect_s=int(since, 36) if since else 0)


def _interval(start: int, pair: tuple[int, int]) -> str:
    begin = "" if pair[0] == start else _base36(pair[0])
    return f"{begin}-{_base36(pair[1])}"


def _pair(start: int, text: str) -> tuple[int, int]:
    begin, end = text.split("-")
    return (int(begin, 36) if begin else start), int(end, 36)


def _gap(start: int, text: str) -> Gap:
    begin, end = _pair(start, text[:-1])
    return Gap(Cursor(begin), Cursor(end), _CAUSE_OF[text[-1].lower()])


def _base36(value: int) -> str:
    """36 digits make a cursor of 63 bits 13 characters instead of 19, and a summary is a text."""
    if value < 36:
        return _DIGITS[value]
    digits = []
    while value:
        value, rest = divmod(value, 36)
        digits.append(_DIGITS[rest])
    return "".join(reversed(digits))
