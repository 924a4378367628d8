"""A LogGroupList in protobuf, whole as nested Arrow arrays and one Log at a time.

The wire form is proto2, names and numbers as in the vendor's SDK: a LogGroupList holds LogGroups
(1), a LogGroup holds Logs (1), topic (3), source (4) and tags (6), a Log holds a time (1), pairs of
key and value (2) and a nanosecond part (4).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool
from numpy.typing import NDArray

from sls_io import loggroup

_DIGEST = re.compile(rb"[0-9a-f]{64}")
Ints = NDArray[np.int64]
"""Rows, places, cursors: a numpy array of 64-bit integers."""


@lru_cache(maxsize=1)
def _handler() -> Any:
    """The protobuf reader, built once a process. Texts are declared as bytes on purpose."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="sls_lake.proto", package="sls_lake", syntax="proto2")

    def message(name: str, *fields: tuple[str, int, Any, str]) -> None:
        entry = file.message_type.add(name=name)
        for field_name, number, kind, of in fields:
            repeated = of.endswith("*")
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            added = entry.field.add(name=field_name, number=number, type=kind, label=label)
            if of:
                added.type_name = f".sls_lake.{of.rstrip('*')}"

    text, nested = kinds.TYPE_BYTES, kinds.TYPE_MESSAGE
    message("Pair", ("Key", 1, text, ""), ("Value", 2, text, ""))
    message(
        "Log",
        ("Time", 1, kinds.TYPE_UINT32, ""),
        ("Contents", 2, nested, "Pair*"),
        ("Time_ns", 4, kinds.TYPE_FIXED32, ""),
    )
    message(
        "LogGroup",
        ("Logs", 1, nested, "Log*"),
        ("Topic", 3, text, ""),
        ("Source", 4, text, ""),
        ("LogTags", 6, nested, "Pair*"),
    )
    message("LogGroupList", ("LogGroups", 1, nested, "LogGroup*"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    described = pool.FindFileByName(file.name)
    return ptars.HandlerPool([described]).get_for_message(described.message_types_by_name["LogGroupList"])


@dataclass
class Tree:
    """A page as nested Arrow arrays, and which log and group everything belongs to."""

    groups: int
    logs: int
    topic: pa.Array
    source: pa.Array
    tag_offsets: Ints
    tags: pa.StructArray
    time: pa.Array
    time_ns: pa.Array
    keys: pa.Array
    values: pa.Array
    group_of_log: Ints
    index_of_log: Ints
    log_of_pair: Ints

    @staticmethod
    def of(raw: bytes) -> Tree:
        """Raises ValueError when `raw` is no LogGroupList."""
        groups = _handler().list_to_record_batch([raw]).column(0).values
        log_lists, tag_lists = groups.field("Logs"), groups.field("LogTags")
        logs, tags = log_lists.values, tag_lists.values
        pair_lists = logs.field("Contents")
        pairs = pair_lists.values
        log_offsets, pair_offsets = _offsets(log_lists), _offsets(pair_lists)
        group_of_log = np.repeat(np.arange(len(groups), dtype=np.int64), np.diff(log_offsets))
        return Tree(
            groups=len(groups),
            logs=len(logs),
            topic=groups.field("Topic"),
            source=groups.field("Source"),
            tag_offsets=_offsets(tag_lists),
            tags=tags,
            time=logs.field("Time"),
            time_ns=logs.field("Time_ns"),
            keys=pairs.field("Key"),
            values=pairs.field("Value"),
            group_of_log=group_of_log,
            index_of_log=np.arange(len(logs), dtype=np.int64) - log_offsets[group_of_log],
            log_of_pair=np.repeat(np.arange(len(logs), dtype=np.int64), np.diff(pair_offsets)),
        )


def _offsets(lists: pa.ListArray) -> Ints:
    offsets: Ints = lists.offsets.to_numpy().astype(np.int64)
    return offsets


def redacted(log: bytes, pii: Mapping[bytes, str]) -> bytes:
    """One Log's bytes without the values of `drop` keys and with those of `hash` keys hashed."""
    if not pii:
        return log
    out = bytearray()
    at = 0
    for number, wire, begin, end in loggroup.fields(log):
        pair = _pair(log[begin:end]) if (number, wire) == (2, 2) else (b"", b"")
        what = pii.get(pair[0])
        if not what:
            out += log[at:end]
        elif what == "hash":
            key, value = pair[0], digest(pair[1])
            body = b"\x0a" + loggroup.varint(len(key)) + key + b"\x12" + loggroup.varint(len(value)) + value
            out += b"\x12" + loggroup.varint(len(body)) + body
        at = end
    return bytes(out)


def hashed_once(log: bytes, keys: frozenset[bytes]) -> bytes:
    """One Log's bytes with the values of `keys` hashed, unless they are digests already.

    For kept bytes that are read again: a digest of a digest would match nothing. A plain value of 64
    hex digits cannot be told from a digest, and stays.
    """
    values = [
        value
        for number, wire, begin, end in loggroup.fields(log)
        if (number, wire) == (2, 2)
        for key, value in (_pair(log[begin:end]),)
        if key in keys
    ]
    if all(_DIGEST.fullmatch(value) for value in values):
        return log
    return redacted(log, dict.fromkeys(keys, "hash"))


def _pair(data: bytes) -> tuple[bytes, bytes]:
    """(key, value) of one pair; of a field sent twice the last counts, as in every protobuf reader."""
    found = {number: data[b:e] for number, wire, b, e in loggroup.fields(data) if wire == 2}
    return found.get(1, b""), found.get(2, b"")


def digest(value: bytes) -> bytes:
    """SHA-256 in hex: what a `hash` key shows instead of its value."""
    return hashlib.sha256(value).hexdigest().encode()


def is_utf8(value: bytes) -> bool:
    """Whether `value` is valid UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def escaped(value: bytes) -> str:
    """As text, with \\xNN for bytes that are not UTF-8."""
    return value.decode("utf-8", "backslashreplace")
