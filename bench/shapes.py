"""Pages of at most 20 MB that are far larger once they are decoded: name -> LogGroups, made without bounds.

Each is what a producer can send: the service stores LogGroups as opaque bytes.
"""

from collections.abc import Callable

from sls_io.wire.loggroup import frame

PAGE_BYTES = 20_000_000
GROUP_BYTES = 9_900_000
"""The most a service takes as one LogGroup."""


def pair(key: bytes, value: bytes = b"") -> bytes:
    """A pair of key and value, without the tag of the field that it is in."""
    return b"\x0a" + _sized(key) + b"\x12" + _sized(value)


def log(*pairs: bytes, time: bool = True) -> bytes:
    """A Log as a field of its group."""
    return frame((b"\x08\x05" if time else b"") + b"".join(b"\x12" + _sized(p) for p in pairs))


def tag(key: bytes, value: bytes = b"") -> bytes:
    """A tag as a field of its group."""
    return b"\x32" + _sized(pair(key, value))


def _sized(data: bytes) -> bytes:
    return frame(data)[1:]


def _number(n: int) -> bytes:
    return b"%x" % n


SHAPES: dict[str, Callable[[], list[bytes]]] = {
    "ordinary logs": lambda: (
        [b"".join(log(pair(b"n", b"%d" % n), pair(b"s", b"%060d" % n * 3)) for n in range(4_000))] * 23
    ),
    "equal tags": lambda: [log(time=False) * 40_000 + tag(b"k", b"v") * 2_000] * 110,
    "distinct tags": lambda: (
        [log() * 40_000 + b"".join(tag(b"t%d" % n, b"v" * 10) for n in range(2_000))] * 90
    ),
    "tags of 5 MB": lambda: [log() * 1_000_000 + tag(b"k", b"v" * 5_000_000)] * 2,
    "empty tags": lambda: [b"\x32\x00" * (GROUP_BYTES // 2)] * 2,
    "empty tags and logs": lambda: [b"\x32\x00" * (GROUP_BYTES // 4) + b"\x0a\x00" * (GROUP_BYTES // 4)] * 2,
    "million distinct tags": lambda: [b"".join(tag(_number(n)) for n in range(850_000)) + log() * 3] * 2,
    "topic of 5 MB": lambda: [log() * 1_000_000 + b"\x1a" + _sized(b"t" * 5_000_000)] * 2,
    "empty logs": lambda: [b"\x0a\x00" * (GROUP_BYTES // 2)] * 2,
    "empty logs in small groups": lambda: [b"\x0a\x00" * 10_000] * 999,
    "empty logs, one unknown field": lambda: [b"\x0a\x00" * (GROUP_BYTES // 2) + b"\x78\x01"] * 2,
    "empty groups": lambda: [b""] * 1000,
    "empty pairs": lambda: [frame(b"\x08\x05" + b"\x12\x00" * (GROUP_BYTES // 2 - 20))] * 2,
    "distinct keys in one log": lambda: [log(*(pair(_number(n)) for n in range(800_000)))] * 2,
    "distinct keys in many logs": lambda: (
        [b"".join(log(*(pair(_number(n * 10 + i)) for i in range(10))) for n in range(85_000))] * 2
    ),
    "repeated keys": lambda: [log(*(pair(_number(n % 400_000)) for n in range(800_000)))] * 2,
    "long keys": lambda: [b"".join(log(pair(b"%07d" % n + b"k" * 100_000)) for n in range(99))] * 2,
    "long broken keys": lambda: [b"".join(log(pair(b"\xff" * 1000)) for _ in range(9_000))] * 2,
    "broken values": lambda: [log(*(pair(b"k", b"\xff") for _ in range(9))) * 90_000] * 2,
    "many causes": lambda: (
        [b"".join(log(*(pair(b"%d" % (n % 7), b"\xff") for n in range(400))) for _ in range(2_600))] * 2
    ),
    "hashed values": lambda: [log(pair(b"mail", b"")) * 690_000] * 2,
    "one value of 10 MB": lambda: [log(pair(b"s", b"v" * 9_900_000))] * 2,
    "one broken value of 10 MB": lambda: [log(pair(b"s", b"\xff" * 9_900_000))] * 2,
    "broken topics of 10 MB": lambda: [log() * 10 + b"\x1a" + _sized(b"\xff" * (GROUP_BYTES - 100))] * 2,
    "broken tags of 10 MB": lambda: [log() * 10 + tag(b"\xff" * (GROUP_BYTES - 100))] * 2,
    "broken logs of 1 MB": lambda: [frame(b"\x08\x05\x12\x05" + b"v" * 990_000)] * 20,
    "deep groups of fields": lambda: [b"\x7b" * 5_000_000, frame(b"\x7b" * 9_000_000)],
    "cut logs": lambda: [b"\x0a\x02\x12\x05" * (GROUP_BYTES // 4)] * 2,
}
"""What a page of `PAGE_BYTES` may hold."""
