"""Framing and compression, against the vendor's protobuf classes and hostile sizes."""

import contextlib
import zlib

import lz4.block
import pytest
import zstandard
from aliyun.log.log_logs_raw_pb2 import LogGroupListRaw
from hypothesis import given
from hypothesis import strategies as st

from sls_io.values.errors import ConfigError, DecodeError
from sls_io.wire import loggroup

KINDS = ["", *loggroup.COMPRESSIONS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw", [b"", b"x", b"abc" * 10_000, bytes(range(256)) * 9])
def test_what_was_compressed_comes_back(kind: str, raw: bytes) -> None:
    assert loggroup.decompress(loggroup.compress(raw, kind), kind, len(raw)) == raw


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("off", [-1, 1, 1000])
def test_a_size_that_is_not_the_headers_is_refused(kind: str, off: int) -> None:
    raw = b"canary " * 500
    with pytest.raises(DecodeError) as caught:
        loggroup.decompress(loggroup.compress(raw, kind), kind, len(raw) + off, shard=4, cursor=9)
    assert (caught.value.shard, caught.value.cursor) == (4, 9)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("size", [-1, loggroup.RAW_BYTES_MAX + 1, 2**62])
def test_a_size_over_the_bound_is_refused_before_anything_is_allocated(size: int) -> None:
    with pytest.raises(DecodeError, match="is over"):
        loggroup.decompress(b"", "lz4", size)


@pytest.mark.parametrize("kind", ["zstd", "deflate"])
def test_a_bomb_stops_at_the_size_the_header_named(kind: str) -> None:
    zeros = bytes(50_000_000)
    bomb = zlib.compress(zeros, 9) if kind == "deflate" else zstandard.ZstdCompressor().compress(zeros)
    with pytest.raises(DecodeError):
        loggroup.decompress(bomb, kind, 1000)


@given(st.binary(max_size=60), st.sampled_from(loggroup.COMPRESSIONS), st.integers(0, 1000))
def test_garbage_is_a_decode_error(body: bytes, kind: str, size: int) -> None:
    with contextlib.suppress(DecodeError):
        assert len(loggroup.decompress(body, kind, size)) == size


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_behind_a_header_that_says_empty_is_refused(kind: str) -> None:
    with pytest.raises(DecodeError):
        loggroup.decompress(loggroup.compress(b"logs", kind), kind, 0)


@pytest.mark.parametrize("kind", loggroup.COMPRESSIONS)
def test_a_body_cut_short_is_refused(kind: str) -> None:
    raw = bytes(range(256)) * 20
    body = loggroup.compress(raw, kind)
    for size in (0, 1, len(body) // 2, len(body) - 5):
        with pytest.raises(DecodeError):
            loggroup.decompress(body[:size], kind, len(raw))


def test_lz4_is_a_block_without_its_size() -> None:
    raw = b"abc" * 100
    assert loggroup.compress(raw, "lz4") == lz4.block.compress(raw, store_size=False)


def test_unknown_compressions_are_refused() -> None:
    with pytest.raises(ConfigError, match="brotli"):
        loggroup.compress(b"", "brotli")
    with pytest.raises(DecodeError, match="unknown compression"):
        loggroup.decompress(b"", "brotli", 0)


@given(st.integers(0, 2**64 - 1))
def test_a_varint_comes_back(value: int) -> None:
    data = loggroup.varint(value)
    assert loggroup.read_varint(data + b"\x01", 0) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(ValueError, match="truncated"):
            loggroup.read_varint(data[:size], 0)


def test_a_varint_over_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        loggroup.read_varint(b"\xff" * 11, 0)


@given(
    st.lists(
        st.lists(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=5)), max_size=3), max_size=3)
    )
)
def test_groups_and_logs_are_where_the_vendors_classes_find_them(
    content: list[list[list[tuple[str, bytes]]]],
) -> None:
    whole = LogGroupListRaw()
    for logs in content:
        group = whole.LogGroups.add()
        group.Topic = "t"
        for pairs in logs:
            log = group.Logs.add()
            log.Time = 5
            for key, value in pairs:
                pair = log.Contents.add()
                pair.Key, pair.Value = key.encode("utf-8", "replace").decode(), value
    raw = b"".join(loggroup.frame(g.SerializeToString()) for g in whole.LogGroups)
    assert raw == whole.SerializeToString()
    found = list(loggroup.groups(raw))
    assert [raw[b:e] for b, e in found] == [g.SerializeToString() for g in whole.LogGroups]
    for (begin, end), group in zip(found, whole.LogGroups, strict=True):
        spans = list(loggroup.logs(raw, begin, end))
        assert [raw[b:e] for b, e in spans] == [log.SerializeToString() for log in group.Logs]


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x05abc", b"\x0b", b"\x02\x00", b"\x0d\x00", b"\x09\x00"])
def test_broken_framing_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        list(loggroup.groups(raw))


def test_unknown_fields_are_walked_past() -> None:
    raw = b"\x10\x05" + loggroup.frame(b"\x1a\x01t") + b"\x1d1234" + b"\x2112345678" + b"\x32\x01x"
    assert [raw[b:e] for b, e in loggroup.groups(raw)] == [b"\x1a\x01t"]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384])
@pytest.mark.parametrize("zeros", [0, 1, 2], ids=lambda n: f"{n} bytes longer than it need be")
@pytest.mark.parametrize("number", [1, 15, 16, 2**29 - 1])
def test_a_field_is_found_however_its_length_is_written(size: int, zeros: int, number: int) -> None:
    written = bytearray(loggroup.varint(size))
    for _ in range(zeros):
        written[-1] |= 0x80
        written.append(0)
    head = loggroup.varint(number << 3 | 2) + bytes(written)
    data = head + b"x" * size
    assert list(loggroup.fields(data * 2, 0, len(data))) == [(number, 2, len(head), len(data))]
    with pytest.raises(ValueError):
        list(loggroup.fields(data * 2, 0, len(data) - 1))
