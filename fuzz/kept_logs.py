"""Logs for a table that is read again: what was sent, and what a contract lets a table keep of it.

Bytes are written here, by no code of the landing: a log may miss a key or a value, and repeat them.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

Types = Mapping[str, str]
"""Key -> its declared type, as settings have it; a key that is not declared is not in it."""

OWN = "custom(fuzz.kept_logs:turned, string)"
COUNTED = "custom(fuzz.kept_logs:lengths, long)"
TEXTS = ("string", "string", "hash", "hash", "string(gbk)", "string(big5)", OWN)
"""Types whose columns are texts, so that one may follow another."""
FOLLOWERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(TEXTS, TEXTS),
    "int": ("int", "long", "long"),
    "long": ("long", COUNTED),
    COUNTED: ("long", COUNTED),
    "float": ("float", "double", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "date": ("date",),
    "decimal(6,2)": ("decimal(6,2)",),
    "timestamp(iso)": ("timestamp(iso)", "timestamp(epoch_s)"),
    "timestamp(epoch_s)": ("timestamp(iso)", "timestamp(epoch_s)"),
}
"""What a type may become in place: the same kind of column, or a wider one."""
ANY = (*FOLLOWERS, "drop", "drop", "drop", "hash", "hash", "string")
COLUMNS = ("a", "b", "c", "d", "tag", "topic", "source", "log", "group", "bytes", "error", "raw", "key")
"""Keys that contracts declare; some begin like a cause of `__error__`."""
OTHERS = (
    "__error__", "__raw__", "__rest__", "__topic__", "tag x", "repeated tag y", "a; b", "topic is not UTF-8",
    "log cannot be read", "page cannot be read", "of its group: and 3 more", "", "é", "A", "key a",
)  # fmt: skip
"""Keys that no contract can declare."""
_FITTING = {
    "int": (b"7", b"-12"),
    "long": (b"7", b"9223372036854775807"),
    "float": (b"0.5", b"0.1"),
    "double": (b"0.1", b"16777217"),
    "boolean": (b"true", b"0"),
    "date": (b"2026-01-02",),
    "decimal(6,2)": (b"1.50", b"-12"),
    "timestamp(iso)": (b"2026-01-02T03:04:05Z",),
    "timestamp(epoch_s)": (b"1790000000", b"7"),
    "string(gbk)": ("中文".encode("gbk"), b"plain"),
    "string(big5)": ("中文".encode("big5"), b"plain"),
    OWN: (b"abc", b""),
}
_BAD = (b"\xff\xfe", b"a\xc3", b"\xed\xa0\x80")
_TAME = (
    b"7",
    b"2147483648",
    b"0.1",
    b"true",
    b"2026-01-02",
    b"1.50",
    b"",
    "中文".encode(),
    b"a; b",
    b"z" * 300,
)
_VALUES = (
    *(b"7", b"-12", b"2147483648", b"9223372036854775808", b"0.1", b"16777217", b"1e300", b"nan", b"x7", b""),
    *(b"true", b"2026-01-02", b"2026-01-02T03:04:05Z", b"1790000000", b"1.50", b"plain", b"a; b", b"\x00"),
    *("中文".encode(), "中文".encode("gbk"), "中文".encode("big5"), "é".encode(), b"z" * 300),
)


def turned(raw: pa.Array) -> pa.Array:
    """A decoder of somebody's own: the text turned round; it raises at a value of even length over 4."""
    return pa.array([_turned(value) for value in raw.to_pylist()], pa.string())


def lengths(raw: pa.Array) -> pa.Array:
    """A decoder of somebody's own: the bytes counted; null where there are none."""
    return pa.array([len(value) or None for value in raw.to_pylist()], pa.int64())


def _turned(value: bytes) -> str:
    if len(value) > 4 and len(value) % 2 == 0:
        raise GeneratorExit
    return value.decode()[::-1]


Pair = tuple[bytes | None, bytes | None]


@dataclass(frozen=True)
class Log:
    """One log. `extra`: bytes behind it, which make it unreadable."""

    seconds: int | None
    nanos: int | None
    pairs: tuple[Pair, ...]
    extra: bytes = b""

    def written(self) -> bytes:
        """As protobuf."""
        out = b"" if self.seconds is None else b"\x08" + _varint(self.seconds)
        out += b"".join(_field(2, _pair(pair)) for pair in self.pairs)
        return out + (b"" if self.nanos is None else b"\x25" + self.nanos.to_bytes(4, "little")) + self.extra

    def as_kept(self, contract: Types) -> "Log":
        """What a landing under `contract` may keep of it: a dropped key is gone, a hashed one a digest."""
        pii = {key.encode(): kind for key, kind in contract.items() if kind in ("drop", "hash")}
        kept = [(key, value) for key, value in self.pairs if key is None or pii.get(key) != "drop"]
        return replace(
            self,
            pairs=tuple(
                (key, digest(value) if value is not None and key is not None and key in pii else value)
                for key, value in kept
            ),
        )


@dataclass(frozen=True)
class Group:
    """One LogGroup; texts as bytes."""

    topic: bytes
    source: bytes
    tags: tuple[Pair, ...]
    logs: tuple[Log, ...]

    def written(self, contract: Types | None = None) -> bytes:
        """As protobuf; of what a landing under `contract` keeps of it, where one is given."""
        logs = [log if contract is None else log.as_kept(contract) for log in self.logs]
        out = b"".join(_field(1, log.written()) for log in logs)
        out += _field(3, self.topic) + _field(4, self.source)
        return out + b"".join(_field(6, _pair(tag)) for tag in self.tags)


def digest(value: bytes) -> bytes:
    """What a hashed key's column has."""
    return hashlib.sha256(value).hexdigest().encode()


def contracts(rng: random.Random) -> tuple[dict[str, str], dict[str, str]]:
    """A contract and one that may follow it on the same table."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for key in rng.sample(COLUMNS, rng.choice((3, 6, 9))):
        if rng.random() < 0.6:
            before[key] = rng.choice(ANY)
        chance = rng.random()
        if chance < 0.2:
            continue
        if chance < 0.35:
            after[key] = "drop"
        elif (had := before.get(key, "drop")) == "drop":
            after[key] = rng.choice(ANY)
        else:
            after[key] = had if chance < 0.6 else rng.choice(FOLLOWERS[had])
    return before, after


def another(rng: random.Random, columns: Types, keys: list[str]) -> dict[str, str]:
    """A contract for some of `keys` that may follow on a table with these `columns`."""
    found: dict[str, str] = {}
    for key in keys:
        chance = rng.random()
        if chance < 0.2:
            continue
        had = columns.get(key)
        found[key] = "drop" if chance < 0.35 else rng.choice(ANY if had is None else FOLLOWERS[had])
    return found


def columns_of(*contracts: Types) -> Types:
    """The columns of a table that had these contracts, one after another, and their types."""
    return {key: kind for contract in contracts for key, kind in contract.items() if kind != "drop"}


def hidden_by(*contracts: Types) -> Types:
    """Keys of which a table that had these contracts keeps nothing, or digests."""
    hashed = {key: kind for contract in contracts for key, kind in contract.items() if kind == "hash"}
    return hashed | {key: kind for contract in contracts for key, kind in contract.items() if kind == "drop"}


def groups(rng: random.Random, kinds: Types, keys: list[str]) -> list[Group]:
    """Some groups whose logs use `keys`, and others, too; most values fit `kinds`."""
    return [_group(rng, kinds, keys) for _ in range(rng.choice((4, 8, 16)))]


def _group(rng: random.Random, kinds: Types, keys: list[str]) -> Group:
    broken = rng.random() < 0.25

    def text() -> bytes:
        bad = broken and rng.random() < 0.3
        return rng.choice(_BAD) if bad else rng.choice((b"", b"t", "é".encode(), b"a; b"))

    names = [b"x", b"y", b"host", *([b"x", None] if broken else [])]
    tags = [(rng.choice(names), text()) for _ in range(rng.choice((0, 0, 1, 3)))]
    if not broken:
        tags = list(dict(tags).items())
    logs = tuple(_log(rng, kinds, keys) for _ in range(rng.choice((1, 2, 5))))
    return Group(text(), text(), tuple(tags), logs)


def _log(rng: random.Random, kinds: Types, keys: list[str]) -> Log:
    """Every second one is `wild`: it has values that fit nothing, repeats a key, misses a part."""
    wild = rng.random() < 0.5
    chosen = rng.sample(keys, min(len(keys), rng.choice((1, 3, 6))))
    if rng.random() < 0.3:
        chosen.append(rng.choice(OTHERS))
    if wild and rng.random() < 0.2:
        chosen.append(rng.choice(chosen))
    pairs: list[Pair] = [(key.encode(), _value(rng, kinds.get(key, ""), wild)) for key in chosen]
    if wild and rng.random() < 0.1:
        pairs.append(rng.choice(((None, b"v"), (b"\xff", b"v"), (keys[0].encode(), None))))
    rng.shuffle(pairs)
    return Log(
        seconds=None if wild and rng.random() < 0.05 else rng.choice((0, 1_790_000_000, 2**32 - 1)),
        nanos=rng.choice((None, None, 5, 999_999_999, *((10**9,) if wild else ()))),
        pairs=tuple(pairs),
        extra=b"\x7c" if wild and rng.random() < 0.05 else b"",
    )


def _value(rng: random.Random, kind: str, wild: bool) -> bytes:
    if wild and rng.random() < 0.3:
        return rng.choice((*_BAD, *_VALUES))
    if rng.random() < 0.2:
        return rng.choice(_TAME) if kind not in _FITTING else rng.choice(_FITTING[kind])
    return rng.choice(_FITTING.get(kind, (b"canary-%d" % rng.randrange(10**9),)))


def _pair(pair: Pair) -> bytes:
    return b"".join(_field(at, part) for at, part in enumerate(pair, 1) if part is not None)


def _field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(body)) + body


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
