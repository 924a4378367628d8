"""Decoders of a column as somebody would write them, named by tests as `tests.unit.custom_decoders:name`."""

import ctypes
import gzip
import struct

import pyarrow as pa


def float_le(raw: pa.Array) -> pa.Array:
    """Four bytes, a little-endian float."""
    return pa.array(
        [struct.unpack("<f", v)[0] if len(v) == 4 else None for v in raw.to_pylist()], pa.float64()
    )


def unzipped(raw: pa.Array) -> pa.Array:
    """Text that was packed with gzip; raises what `gzip` raises where it was not."""
    return pa.array([gzip.decompress(v).decode() for v in raw.to_pylist()], pa.string())


def of_another_type(raw: pa.Array) -> pa.Array:
    """Numbers where texts were promised."""
    return pa.array(range(len(raw)), pa.int64())


def too_few(raw: pa.Array) -> pa.Array:
    """One answer for all."""
    return pa.array(["x"], pa.string())


def no_array(raw: pa.Array) -> list[str]:
    """A list."""
    return ["x"] * len(raw)


def lengths(raw: pa.Array) -> pa.Array:
    """How many bytes were sent."""
    return pa.array([len(value) for value in raw.to_pylist()], pa.int64())


def leaves(raw: pa.Array) -> pa.Array:
    """Ends the process, as a library that is a program may do."""
    raise SystemExit(0)


def moments(raw: pa.Array) -> pa.Array:
    """Microseconds since 1970, of any year."""
    return pa.array([int(value) for value in raw.to_pylist()], pa.int64()).cast(pa.timestamp("us", "UTC"))


def blanked(raw: pa.Array) -> pa.Array:
    """A text of what was sent, over which it writes blanks afterwards."""
    texts, sent = raw.cast(pa.string()).to_pylist(), raw.buffers()[2]
    ctypes.memset(sent.address, ord(" "), sent.size)
    return pa.array(texts, pa.string())


def as_it_is(raw: pa.Array) -> pa.Array:
    """The bytes as a text, whether they are one or not."""
    return raw.view(pa.string())
