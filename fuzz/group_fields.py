"""LogGroups as trees of protobuf fields, and what can be done to such a tree that bytes would not show.

A valid tree is what the vendor's classes serialise; a mutation changes a field, its wire type, its
number, its place or its length, and lengths around it stay right.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from aliyun.log import log_logs_raw_pb2 as pb

from fuzz.group_oracle import Unreadable, message

CANARY = "canary"
_NESTED = {"group": {1: "log", 6: "pair"}, "log": {2: "pair"}, "pair": {}}
_TEXTS = (
    "", "x", "200", "many", "a; b: c", "\n", "\x00", "\ud7ff" * 17, "\U0010ffff" * 20, "é" * 40, "z" * 5000,
    "a" * 15 + "\ud7ff" + "b", "log cannot be read", "tag x", "repeated tag y", "group cannot be read",
)  # fmt: skip
_BYTES = (b"\xff\xfe", b"a\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80")


@dataclass
class Field:
    """A field of a message. `body` is the value's bytes, or the fields of a nested message; `pad` bytes
    make tag and length longer than they need be."""

    number: int
    wire: int
    body: "bytes | list[Field]"
    kind: str = ""
    pad: int = 0


def valid(rng: random.Random) -> bytes:
    """A LogGroup as a producer may send it, with values that are hard to show or to measure."""
    group = pb.LogGroupRaw()
    if rng.random() < 0.9:
        group.Topic, group.Source = rng.choice(_TEXTS), rng.choice(_TEXTS)
    for _ in range(rng.choice((0, 0, 1, 3, 40))):
        tag = group.LogTags.add()
        tag.Key, tag.Value = rng.choice(("host", "zone", f"t{rng.randrange(99)}")), rng.choice(_TEXTS)
    for _ in range(rng.choice((0, 1, 2, 5, 5, 30))):
        log = group.Logs.add()
        log.Time = rng.choice((0, 5, 1_790_000_000, 2**32 - 1))
        if rng.random() < 0.3:
            log.Time_ns = rng.choice((0, 5, 999_999_999, 10**9))
        for _ in range(rng.choice((0, 1, 3, 6))):
            pair = log.Contents.add()
            pair.Key = rng.choice(("n", "s", "s", "secret", "mail", "other", f"k{rng.randrange(9)}", "", "é"))
            pair.Value = _value(rng)
            if pair.Key in ("secret", "mail"):
                pair.Value = f"{CANARY}-{rng.randrange(10**9)}".encode()
            elif pair.Key == "n" and rng.random() < 0.7:
                pair.Value = str(rng.randrange(-(10**9), 10**9)).encode()
    return bytes(group.SerializeToString())


def _value(rng: random.Random) -> bytes:
    return rng.choice(_BYTES) if rng.random() < 0.1 else rng.choice(_TEXTS).encode()


def mutated(raw: bytes, rng: random.Random, counts: Counter[str]) -> bytes:
    """The group after a few mutations, counted by kind."""
    fields = _tree(raw, "group")
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice(sorted(MUTATIONS))
        counts[f"mutation {name}"] += 1
        MUTATIONS[name](_some_message(fields, rng), rng)
    out = written(fields)
    if rng.random() < 0.1 and out:
        counts["mutation bytes"] += 1
        data = bytearray(out)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        out = bytes(data)
    return out


def written(fields: list[Field]) -> bytes:
    """The bytes of a message."""
    out = bytearray()
    for each in fields:
        body = each.body if isinstance(each.body, bytes) else written(each.body)
        out += _varint(each.number << 3 | each.wire, each.pad)
        if each.wire == 2:
            out += _varint(len(body), each.pad)
        out += body
        if each.wire == 3:
            out += _varint(each.number << 3 | 4)
    return bytes(out)


def _varint(number: int, pad: int = 0) -> bytes:
    out = bytearray()
    while number > 0x7F or pad > 0:
        pad -= number <= 0x7F
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tree(raw: bytes, kind: str) -> list[Field]:
    fields = []
    for number, wire, value in message(raw):
        inner = _NESTED[kind].get(number, "") if wire == 2 else ""
        body: bytes | list[Field] = _varint(value) if isinstance(value, int) else value
        if inner and isinstance(value, bytes):
            try:
                body = _tree(value, inner)
            except Unreadable:
                inner = ""
        fields.append(Field(number, wire, body, inner))
    return fields


def _some_message(fields: list[Field], rng: random.Random) -> list[Field]:
    """The group itself, or a message in it."""
    while True:
        inner = [f.body for f in fields if isinstance(f.body, list)]
        if not inner or rng.random() < 0.35:
            return fields
        fields = rng.choice(inner)


def _flat(each: Field) -> bytes:
    return each.body if isinstance(each.body, bytes) else written(each.body)


def _unknown(fields: list[Field], rng: random.Random) -> None:
    wire = rng.choice((0, 1, 2, 5))
    body = {0: _varint(rng.randrange(2**64)), 1: b"12345678", 2: rng.randbytes(rng.randrange(9)), 5: b"1234"}
    number = rng.choice((3, 7, 8, 15, 16, 2**28, 2**29 - 1))
    fields.insert(rng.randrange(len(fields) + 1), Field(number, wire, body[wire]))


def _group(fields: list[Field], rng: random.Random) -> None:
    """An unknown group of fields, sometimes as deep as it may be and one deeper."""
    inner: list[Field] = [Field(rng.choice((1, 2, 9)), 2, b"secret")]
    for _ in range(rng.choice((0, 1, 3, 98, 99, 100, 101, 3000))):
        inner = [Field(rng.choice((1, 2, 15)), 3, written(inner))]
    fields.insert(rng.randrange(len(fields) + 1), Field(rng.choice((1, 2, 6, 15)), 3, written(inner)))


def _unmatched(fields: list[Field], rng: random.Random) -> None:
    body = rng.choice((b"\x7b", b"\x7c", b"\x7b\x74", b"\x7b" * 120_000, b"\x7b\x7c\x7c"))
    fields.insert(rng.randrange(len(fields) + 1), Field(9, 2, body))
    if rng.random() < 0.7:  # not inside a field of its own: the message itself does not end right
        fields[-1:] = [Field(15, rng.choice((3, 4)), b"\x7b")]


def _wire(fields: list[Field], rng: random.Random) -> None:
    if fields:
        each = rng.choice(fields)
        wire = rng.choice((0, 1, 2, 3, 5, 6, 7))
        each.body = {0: b"\x05", 1: b"12345678", 5: b"1234"}.get(wire, _flat(each))
        each.wire = wire


def _duplicate(fields: list[Field], rng: random.Random) -> None:
    if fields:
        each = rng.choice(fields)
        fields.insert(
            rng.randrange(len(fields) + 1), Field(each.number, each.wire, _flat(each), "", each.pad)
        )


def _truncate(fields: list[Field], rng: random.Random) -> None:
    """The message of a field is cut, and its length says so."""
    if fields:
        each = rng.choice(fields)
        body = _flat(each)
        each.body, each.wire = body[: rng.randrange(len(body) + 1)], 2


def _swap(fields: list[Field], rng: random.Random) -> None:
    if len(fields) > 1:
        a, b = rng.sample(range(len(fields)), 2)
        fields[a], fields[b] = fields[b], fields[a]
        if rng.random() < 0.3:
            fields[a].number, fields[b].number = fields[b].number, fields[a].number


def _drop(fields: list[Field], rng: random.Random) -> None:
    if fields:
        fields.pop(rng.randrange(len(fields)))


def _empty(fields: list[Field], rng: random.Random) -> None:
    if fields:
        each = rng.choice(fields)
        each.wire, each.body = 2, b""


def _longer(fields: list[Field], rng: random.Random) -> None:
    if fields:
        rng.choice(fields).pad = rng.choice((1, 3, 8, 12))


def _number(fields: list[Field], rng: random.Random) -> None:
    if fields:
        rng.choice(fields).number = rng.choice((0, 1, 2, 3, 6, 2**29, 2**32 + 1, 2**60))


def _time(fields: list[Field], rng: random.Random) -> None:
    number = rng.choice((2**32, 2**32 + 5, 2**63, 2**64 - 1, 0))
    fields.insert(rng.randrange(len(fields) + 1), Field(1, 0, _varint(number)))


def _many(fields: list[Field], rng: random.Random) -> None:
    """Very many of the same, nearly empty."""
    fields += [Field(rng.choice((1, 2, 6)), 2, b"") for _ in range(rng.choice((50, 2000)))]


MUTATIONS: dict[str, Callable[[list[Field], random.Random], None]] = {
    "unknown field": _unknown,
    "unknown group": _group,
    "unmatched group": _unmatched,
    "wire type": _wire,
    "duplicate": _duplicate,
    "truncate": _truncate,
    "swap": _swap,
    "drop": _drop,
    "empty": _empty,
    "overlong": _longer,
    "number": _number,
    "time": _time,
    "many": _many,
}
