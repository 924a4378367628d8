"""LogGroupList framing and body compression, both directions, bounded.

A LogGroupList is the concatenation of `0a <varint length> <LogGroup>` records, so a service can
keep each LogGroup as opaque bytes and answer a pull by joining records, without decoding.
lz4 bodies are raw blocks without a size prefix (the vendor SDKs strip it), zstd bodies are
normal frames, deflate bodies are zlib streams; the plain size travels in `x-log-bodyrawsize`.
Sizes are checked before anything is allocated: 306 KB of deflate can claim 300 MB.

Two things are walked here and not by a protobuf library: frames, since a library would decode what is in
them; and what a hostile sender wrote, since the depth and the number of its fields are his choice and must
not become ours.

Worked example: a log with the time 100 and the pair a=1 is `0864 1206 0a0161 120131`, 10 bytes. As the only
log of a group it is `0a0a` and these, 12 bytes; as a record of a list `0a0c` and those, 14 bytes. The same
record twice is a list of 28 bytes with the groups [2, 14) and [16, 28).
"""

import zlib
from collections.abc import Iterator

import lz4.block
import zstandard

from sls_io.values.errors import ConfigError, DecodeError

COMPRESSIONS = ("lz4", "zstd", "deflate")
RAW_BYTES_MAX = 64 * 1024 * 1024
DEPTH_MAX = 100
"""How deep unknown groups of fields may be nested: what other protobuf readers allow."""
_GROUP_TAG = 0x0A
_NUMBER_MAX = 2**29 - 1
_BYTES, _START, _END = 2, 3, 4


def compress(raw: bytes, kind: str) -> bytes:
    """`raw` compressed as `lz4`, `zstd` or `deflate`; an empty kind leaves it as it is."""
    if not kind:
        return raw
    if kind == "lz4":
        return bytes(lz4.block.compress(raw, store_size=False))
    if kind == "zstd":
        return zstandard.ZstdCompressor(level=1).compress(raw)
    if kind == "deflate":
        return zlib.compress(raw, 1)
    raise ConfigError(f"unknown compression {kind!r}: use one of {', '.join(COMPRESSIONS)}")


def decompress(body: bytes, kind: str, raw_bytes: int, *, shard: int = -1, cursor: int = -1) -> bytes:
    """The plain body, exactly `raw_bytes` long.

    Raises DecodeError (with `shard` and `cursor`) when the size is over the bound, differs from
    what the header said, or the stream is broken.

    Each library is asked for one byte more than the header says, or for the size itself where it refuses
    more than that. So a body that unpacks to more is caught at its first byte too many, and what it would
    have become is never in memory.

    Worked example: 300,000,000 zero bytes are 291,596 bytes of deflate. With a header that says 1,000 the
    refusal is `body has 1001 raw bytes, the header says 1000`; with one that says 300,000,000 nothing is
    unpacked at all.
    """
    if raw_bytes < 0 or raw_bytes > RAW_BYTES_MAX:
        raise DecodeError(f"raw size {raw_bytes} is over {RAW_BYTES_MAX} bytes", shard=shard, cursor=cursor)
    try:
        if kind == "lz4":
            # The library cannot be asked for 0 bytes; an empty block is one zero byte, or nothing.
            raw = lz4.block.decompress(body, uncompressed_size=raw_bytes) if raw_bytes else body.strip(b"\0")
        elif kind == "zstd":
            raw = zstandard.ZstdDecompressor().stream_reader(body).read(raw_bytes + 1)
        elif kind == "deflate":
            raw = zlib.decompressobj().decompress(body, raw_bytes + 1)
        elif not kind:
            raw = body
        else:
            raise DecodeError(f"unknown compression {kind!r}", shard=shard, cursor=cursor)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError, zlib.error) as error:
        raise DecodeError(f"broken {kind} body of {len(body)} bytes", shard=shard, cursor=cursor) from error
    if len(raw) != raw_bytes:
        raise DecodeError(
            f"body has {len(raw)} raw bytes, the header says {raw_bytes}", shard=shard, cursor=cursor
        )
    return raw


def frame(group: bytes) -> bytes:
    """One LogGroup as a record of a LogGroupList."""
    return frame_head(len(group)) + group


def frame_head(length: int) -> bytes:
    """What stands before a LogGroup of so many bytes, in its shortest form."""
    return bytes((_GROUP_TAG,)) + varint(length)


def varint(value: int) -> bytes:
    """`value` in protobuf's base-128 form.

    Seven bits a byte, the lowest first; the top bit says that another byte follows. Worked example: 127 is
    `7f`, 128 is `8001`, 300 is `ac02`, 16,384 is `808001`.
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position after it). Raises ValueError when `data` ends inside or it is over 64 bits.

    A longer form of a number is read, too: `8100` is 1, as `01` is. That is why a size that was sent proves
    nothing of how it was written, and `chunks._joined` compares the frames themselves.
    """
    value = shift = 0
    while shift < 64:
        if at >= len(data):
            raise ValueError("truncated varint")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("varint over 64 bits")


def fields(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """Walk one protobuf message: (field number, wire type, value begin, value end) of each field.

    An unknown group of fields (wire type 3) is one field, up to its own end. Raises ValueError for a
    message that is cut, uses an unknown wire type or number, or nests groups wrongly or too deep.

    Worked example: in `0864 1206 0a0161 120131` there are (1, 0, 1, 2), the time, and (2, 2, 4, 10), the
    pair. In `0b 0801 0c` there is (1, 3, 1, 4): a group of fields with its end in it. `0c` alone ends what
    did not begin, `0a05` runs past its message, `0f` has the wire type 7: each a ValueError.
    """
    stop = len(data) if end is None else end
    while at < stop:
        # 0x87 keeps the wire type and the top bit: a tag of one byte, of a field with a length. The second
        # half leaves out field number 0, which is none. A length of three bytes or more falls through to the
        # slow way, which reads it as any varint.
        if at + 2 < stop and data[at] & 0x87 == _BYTES and data[at] > _BYTES:
            # Nearly every field; three times as fast as below, where a million of them take seconds.
            number, size, begin = data[at] >> 3, data[at + 1], at + 2
            if size > 0x7F and data[begin] < 0x80:
                size, begin = size & 0x7F | data[begin] << 7, at + 3
            if size <= 0x7F or begin == at + 3:
                at = begin + size
                if at > stop:
                    raise ValueError("field runs past its message")
                yield number, _BYTES, begin, at
                continue
        number, wire, begin, at = _field(data, at, stop)
        if wire == _END:
            raise ValueError("a group of fields ends that did not begin")
        if wire == _START:
            at = _past_group(data, at, stop, number)
        yield number, wire, begin, at


def _field(data: bytes, at: int, stop: int) -> tuple[int, int, int, int]:
    """(number, wire type, value begin, value end) of the field at `at`; a group's value has no end yet."""
    tag, at = read_varint(data, at)
    number, wire = tag >> 3, tag & 7
    begin = at
    if wire == 0:
        _, at = read_varint(data, at)
    elif wire == 1:
        at += 8
    elif wire == 2:
        size, begin = read_varint(data, at)
        at = begin + size
    elif wire == 5:
        at += 4
    elif wire not in (_START, _END):
        raise ValueError(f"wire type {wire}")
    if at > stop or not 0 < number <= _NUMBER_MAX:
        raise ValueError("field runs past its message")
    return number, wire, begin, at


def _past_group(data: bytes, at: int, stop: int, number: int) -> int:
    """The position after the group of fields `number` that began before `at`. Without recursion, because
    whoever sent the bytes chose the depth."""
    open_numbers = [number]
    while open_numbers:
        if at >= stop:
            raise ValueError("a group of fields does not end")
        number, wire, _, at = _field(data, at, stop)
        if wire == _START:
            open_numbers.append(number)
            if len(open_numbers) > DEPTH_MAX:
                raise ValueError("groups of fields are nested too deep")
        elif wire == _END and number != open_numbers.pop():
            raise ValueError("a group of fields ends that did not begin")
    return at


def groups(raw: bytes) -> Iterator[tuple[int, int]]:
    """(begin, end) of each LogGroup's bytes in a LogGroupList. Raises ValueError when broken.

    A field that is no LogGroup is walked past: a later version of the protocol may add one. The number of
    groups is held against the header by whoever counts them.
    """
    for number, wire, begin, end in fields(raw):
        if number == 1 and wire == 2:
            yield begin, end


def logs(raw: bytes, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of each Log's bytes in the LogGroup at [begin, end) of `raw`."""
    for number, wire, log_begin, log_end in fields(raw, begin, end):
        if number == 1 and wire == 2:
            yield log_begin, log_end
