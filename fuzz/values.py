"""Hostile texts through the casts of a contract, beside what Python itself says that they are.

A round has one declared type, the types taking turns, and 20,000 texts. They are converted all at
once, those that fit alone (the quick ways are taken then), and in another order, cut into slices of
larger arrays with nulls between them: what a text becomes must be the same each time.
"""

import io
import math
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import available_timezones

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import oracle, texts
from fuzz.lane import Broken, drawn
from pipelines.landing.table.contract import Contract
from pipelines.landing.table.data_files import parquet_writer

TEXTS = 20_000
HARD_ZONES = (
    "Europe/Berlin", "America/New_York", "Europe/Dublin", "Africa/Casablanca", "Australia/Lord_Howe",
    "Pacific/Apia", "America/St_Johns", "Africa/Monrovia", "Asia/Kathmandu", "Antarctica/Troll", "Asia/Gaza",
    "America/Sao_Paulo", "Africa/Cairo", "America/Nuuk", "Asia/Manila", "Pacific/Kwajalein", "Asia/Tehran",
)  # fmt: skip
"""Summer time that is winter time, shifts of half an hour or two hours, days that were left out."""


@dataclass(frozen=True)
class Case:
    """A declared type as it is written, what a text must become, and a way to draw texts."""

    type: str
    must_be: oracle.Reading
    draw: texts.Draw


@dataclass
class Values:
    """The lane. One turn of all types is as many rounds as there are types."""

    rounds_min: int = 56
    counts: Counter[str] = field(default_factory=Counter)

    def play(self, seed: int) -> None:
        """One type. Raises Broken with the type and the text."""
        rng = drawn(seed)
        name, make = KINDS[seed % len(KINDS)]
        case = make(rng)
        some = [_text(case, rng) for _ in range(TEXTS)]
        must = [case.must_be(text) for text in some]
        fits = [at for at, value in enumerate(must) if value is not None]
        self.counts.update(
            {"texts": len(some), f"{name} fit": len(fits), f"{name} not": len(some) - len(fits)}
        )
        (declared,) = Contract.from_columns({"c": case.type}).declared
        convert = declared.convert
        if convert is None:
            raise Broken(f"{case.type}: nothing is converted")
        together = convert(pa.array(some, pa.string()))
        together.validate(full=True)
        found = _plain(together)
        for text, is_, ought in zip(some, found, must, strict=True):
            if not _same(is_, ought):
                raise Broken(f"{case.type}: {ascii(text)[:3000]} became {is_!r}, must be {ought!r}")
        for part in (fits, [at for at in fits if len(some[at]) < 12]):
            alone = convert(pa.array([some[at] for at in part], pa.string()))
            _compare(case, some, part, _plain(alone), found, "beside others that fit")
        order = rng.sample(range(len(some)), len(some))
        for piece in _slices(order, rng):
            _compare(case, some, piece, _plain(_sliced(convert, some, piece)), found, "in another order")
        everything = range(len(some))
        _compare(case, some, everything, _plain(_written_and_read(together)), found, "from a data file")


@contextmanager
def open_lane(folder: Path) -> Iterator[Values]:
    """The casts need nothing on disk."""
    yield Values()


def _text(case: Case, rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.03:
        case = rng.choice(OTHERS)
    text = case.draw(rng)
    return texts.bent(text, rng) if kind > 0.6 else text


def _plain(values: pa.Array) -> list[object]:
    """As the oracle has them."""
    moments = pa.types.is_timestamp(values.type)
    found: list[object] = (values.cast(pa.int64()) if moments else values).to_pylist()
    return found


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or struct.pack(">d", one) == struct.pack(">d", other)
    return type(one) is type(other) and one == other


def _slices(order: Sequence[int], rng: random.Random) -> Iterator[Sequence[int]]:
    """All of `order`, most of it in large pieces, some in small ones and alone."""
    begin = 0
    while begin < len(order):
        size = rng.choice((1, 2, 3, 7) if begin < 600 else (50, 1000, 5000))
        yield order[begin : begin + size]
        begin += size


def _sliced(convert: Callable[[pa.Array], pa.Array], some: Sequence[str], part: Sequence[int]) -> pa.Array:
    """The texts `part`, as a slice of an array that has others around it and nulls between them."""
    spaced = [text for at in part for text in (some[at], None)]
    whole = pa.array(["", "\u0661", *spaced, "x", None], pa.string())
    return convert(whole[2 : 2 + len(spaced)]).take(pa.array(range(0, len(spaced), 2)))


def _compare(
    case: Case,
    some: Sequence[str],
    part: Sequence[int],
    is_: Sequence[object],
    found: Sequence[object],
    how: str,
) -> None:
    for at, value in zip(part, is_, strict=True):
        if not _same(value, found[at]):
            raise Broken(f"{case.type}: {ascii(some[at])[:3000]} became {found[at]!r}, but {value!r} {how}")


def _written_and_read(values: pa.Array) -> pa.Array:
    """`values` as a data file gives them back."""
    stream = io.BytesIO()
    table = pa.table({"c": values})
    with parquet_writer(stream, table, {}) as writer:
        writer.write_table(table)
    return pq.read_table(io.BytesIO(stream.getvalue()))["c"].combine_chunks()


# --- the types -----------------------------------------------------------------------------------


def _decimal(rng: random.Random) -> Case:
    precision = rng.choice((1, 2, 5, 9, 10, 12, 18, 19, 20, 28, 37, 38, 38, rng.randrange(1, 39)))
    scale = rng.choice((0, 0, 1, precision, precision // 2, rng.randrange(precision + 1)))
    scale = min(scale, precision)
    kind = f"decimal({precision},{scale})"
    return Case(kind, oracle.decimal(precision, scale), texts.decimal(precision, scale))


def _zone(rng: random.Random) -> str:
    everywhere = sorted(z for z in available_timezones() if z not in ("localtime", "Factory"))
    return rng.choice(HARD_ZONES) if rng.random() < 0.5 else rng.choice(everywhere)


def _iso(rng: random.Random) -> Case:
    return Case("timestamp(iso)", oracle.iso(""), texts.iso(()))


def _iso_in_zone(rng: random.Random) -> Case:
    zone = _zone(rng)
    return Case(f"timestamp(iso, {zone})", oracle.iso(zone), texts.iso(texts.around_changes(zone, rng)))


def _formatted(rng: random.Random) -> Case:
    zone = _zone(rng) if rng.random() < 0.6 else ""
    wanted = ["%Y", rng.choice(("%m", "%b")), "%d", *([] if zone else ["%z"])]
    wanted += [token for token in ("%H", "%M", "%S", "%f") if rng.random() < 0.8]
    if rng.random() < 0.5:
        rng.shuffle(wanted)
    tokens: list[str] = []
    for token in wanted:
        literals = ("", "-", "/", ":", " ", "T", "%%", ".", "[", "(?:", "\u00e9", "\\", "|$", "]", "Z", "*")
        tokens += [token, rng.choice(literals) or (" " if token == "%f" else "")]
    tokens = [token for token in tokens if token]
    if tokens[-1].isspace():
        tokens.pop()
    written = "".join(tokens)
    for long, short in (("%Y-%m-%d", "%F"), ("%H:%M:%S", "%T")):
        written = written.replace(long, short) if rng.random() < 0.5 else written
    kind = f"timestamp({written}, {zone})" if zone else f"timestamp({written})"
    near = texts.around_changes(zone, rng) if zone else ()
    return Case(kind, oracle.formatted(tokens, zone), texts.formatted(tokens, near))


def _access_log(rng: random.Random) -> Case:
    tokens = ("%d", "/", "%b", "/", "%Y", ":", "%H", ":", "%M", ":", "%S", " ", "%z")
    kind = f"timestamp({''.join(tokens)})"
    return Case(kind, oracle.formatted(tokens, ""), texts.formatted(tokens, ()))


FIXED = (
    Case("boolean", oracle.boolean, texts.word),
    Case("int", oracle.whole_number(32), texts.whole),
    Case("long", oracle.whole_number(64), texts.whole),
    Case("float", oracle.single, texts.floating(32)),
    Case("double", oracle.double, texts.floating(64)),
    Case("date", oracle.day, texts.date),
    Case("timestamp(epoch_s)", oracle.epoch(10**6), texts.epoch(10**6)),
    Case("timestamp(epoch_ms)", oracle.epoch(10**3), texts.epoch(10**3)),
)
OTHERS = (*FIXED, Case("decimal(12,3)", oracle.decimal(12, 3), texts.decimal(12, 3)))
DRAWN = {
    "decimal": _decimal,
    "iso": _iso,
    "iso in a zone": _iso_in_zone,
    "format": _formatted,
    "access log": _access_log,
}


def _always(case: Case) -> Callable[[random.Random], Case]:
    return lambda rng: case


KINDS = (*((case.type, _always(case)) for case in FIXED), *DRAWN.items(), ("decimal", _decimal))
"""Decimals, which were altered once, have two turns."""
