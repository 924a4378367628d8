"""What must come of a LogGroup's bytes, by a reader of its own: nothing of the landing is used.

Protobuf as its documentation has it: of a field sent twice the last counts, an unknown field is passed
over, also a group of fields, nested at most 100 deep. What does not follow it cannot be read.
"""

import re
from dataclasses import dataclass, field

DEPTH_MAX = 100
LONG = re.compile(r"-?[0-9]{1,15}")


class Unreadable(Exception):
    """Bytes that are no protobuf message."""


@dataclass
class Log:
    """One log as it must land. `begin`, `end`: where its bytes are. `readable` is False for no protobuf."""

    raw: bytes
    readable: bool = True
    seconds: int | None = None
    nanos: int | None = None
    pairs: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)

    @property
    def trouble(self) -> bool:
        """Whether it cannot be shown exactly, whatever the contract says."""
        keys = [k for k, _ in self.pairs]
        return (
            not self.readable
            or self.seconds is None
            or (self.nanos or 0) > 999_999_999
            or len(set(map(_shown, keys))) < len(keys)
            or any(not _is_text(part) for pair in self.pairs for part in pair)
        )

    def content(self) -> dict[str, str]:
        """Key -> the value that is shown: the last one."""
        return {_shown(k): _shown(v) for k, v in self.pairs}


@dataclass
class Group:
    """One LogGroup as it must land; `logs` is None when it cannot be taken apart."""

    raw: bytes
    logs: list[Log] | None
    topic: bytes | None = None
    source: bytes | None = None
    tags: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    odd_tag: bool = False

    @property
    def trouble(self) -> bool:
        """Whether topic, source or tags cannot be shown exactly."""
        keys = [k for k, _ in self.tags]
        texts = [self.topic or b"", self.source or b"", *(part for tag in self.tags for part in tag)]
        return self.odd_tag or len(set(keys)) < len(keys) or not all(map(_is_text, texts))


def read_group(raw: bytes) -> Group:
    """The whole LogGroup."""
    group = Group(raw, [])
    logs: list[Log] = []
    try:
        for number, wire, value in message(raw):
            if wire != 2 or not isinstance(value, bytes):
                continue
            if number == 1:
                logs.append(read_log(value))
            elif number == 3:
                group.topic = value
            elif number == 4:
                group.source = value
            elif number == 6:
                try:
                    group.tags.append(read_pair(value))
                except Unreadable:
                    group.odd_tag = True
    except Unreadable:
        return Group(raw, None)
    group.logs = logs
    return group


def read_log(raw: bytes) -> Log:
    """One Log."""
    log = Log(raw)
    try:
        for number, wire, value in message(raw):
            if (number, wire) == (1, 0) and isinstance(value, int):
                log.seconds = value if value < 2**32 else None
            elif (number, wire) == (2, 2) and isinstance(value, bytes):
                log.pairs.append(read_pair(value))
            elif (number, wire) == (4, 5) and isinstance(value, bytes):
                log.nanos = int.from_bytes(value, "little")
    except Unreadable:
        return Log(raw, readable=False)
    return log


def read_pair(raw: bytes) -> tuple[bytes | None, bytes | None]:
    """(key, value) of a pair or tag."""
    found: dict[int, bytes] = {}
    for number, wire, value in message(raw):
        if wire == 2 and isinstance(value, bytes):
            found[number] = value
    return found.get(1), found.get(2)


def message(raw: bytes) -> list[tuple[int, int, int | bytes]]:
    """All fields: (number, wire type, value). Raises Unreadable."""
    fields: list[tuple[int, int, int | bytes]] = []
    opened: list[int] = []
    at = 0
    while at < len(raw):
        tag, at = varint(raw, at)
        number, wire = divmod(tag, 8)
        if not 1 <= number < 2**29:
            raise Unreadable("number")
        value: int | bytes = b""
        if wire == 0:
            value, at = varint(raw, at)
        elif wire in (1, 2, 5):
            size = 8 if wire == 1 else 4
            if wire == 2:
                size, at = varint(raw, at)
            if at + size > len(raw):
                raise Unreadable("cut")
            value, at = raw[at : at + size], at + size
        elif wire == 3:
            opened.append(number)
            if len(opened) > DEPTH_MAX:
                raise Unreadable("depth")
            continue
        elif wire == 4:
            if not opened or opened.pop() != number:
                raise Unreadable("end")
            continue
        else:
            raise Unreadable("wire type")
        if not opened:
            fields.append((number, wire, value))
    if opened:
        raise Unreadable("no end")
    return fields


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """(number, position after it). Raises Unreadable."""
    number = 0
    for place in range(10):
        if at + place >= len(raw):
            raise Unreadable("cut")
        byte = raw[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise Unreadable("varint")


def _is_text(value: bytes | None) -> bool:
    if value is None:
        return False
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
