"""A LogGroupList in protobuf, whole as nested Arrow arrays and one Log at a time.

The wire form is proto2, names and numbers as in the vendor's SDK: a LogGroupList holds LogGroups
(1), a LogGroup holds Logs (1), topic (3), source (4) and tags (6), a Log holds a time (1), pairs of
key and value (2) and a nanosecond part (4).
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import ptars
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool
from numpy.typing import NDArray

from sls_io.values.errors import CodeFailed
from sls_io.values.named import attempted
from sls_io.wire import loggroup

_DEEP_BYTES = 16 * 1024
SHORT_BYTES = 512 * 1024
"""No message that is shorter can be nested too deep for the fast reader."""
_STACK_BYTES = 64 * 1024 * 1024
"""80 bytes of stack for each byte of the longest group that is read without a look at its depth, and half as
much in reserve."""
_STACK_LOCK = threading.Lock()
_LOGS_MAX = 512 * 1024
_LOGS, _TAGS = 1, 6
_BYTES_WIRE, _GROUP_WIRE = 2, 3
DIGEST = re.compile(rb"[0-9a-f]{64}")
"""What `digest` answers, and nothing else."""
Ints = NDArray[np.int64]
"""Rows, places, cursors: a numpy array of 64-bit integers."""


SECONDS_MAX = 2**32 - 1
"""Latest time of a log, unix seconds: the service's field has 32 bits."""


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
        # The service's has 32 bits. Read so, a longer one is cut off in silence, and may look as short.
        ("Time", 1, kinds.TYPE_UINT64, ""),
        ("Contents", 2, nested, "Pair*"),
        ("Time_ns", 4, kinds.TYPE_FIXED32, ""),
    )
    message(
        "LogGroup",
        ("Logs", 1, nested, "Log*"),
        ("Category", 2, text, ""),
        ("Topic", 3, text, ""),
        ("Source", 4, text, ""),
        ("MachineUUID", 5, text, ""),
        ("LogTags", 6, nested, "Pair*"),
    )
    message("LogGroupList", ("LogGroups", 1, nested, "LogGroup*"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    described = pool.FindFileByName(file.name)
    return ptars.HandlerPool([described]).get_for_message(described.message_types_by_name["LogGroupList"])


def _read(raw: bytes) -> pa.RecordBatch:
    """`raw` as one nested row, read on a stack that is deep enough for what `safe` lets pass.

    numpy and pyarrow need no such stack; it is the recursion of the protobuf reader. The size is a setting of
    the whole process, hence the lock: it is put back as soon as this thread has begun.
    """
    if len(raw) < _DEEP_BYTES:
        return _read_here(raw)
    answer: list[Any] = []

    def work() -> None:
        try:
            answer.append(_read_here(raw))
        except Exception as error:  # handed on to the caller, whatever it is
            answer.append(error)

    with _STACK_LOCK:
        before = threading.stack_size(_STACK_BYTES)
        try:
            thread = threading.Thread(target=work)
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if isinstance(answer[0], Exception):
        raise answer[0]
    return answer[0]


def _read_here(raw: bytes) -> pa.RecordBatch:
    # A panic of the library is no Exception. Story: a length of 2**64 - 1 runs over inside it; past
    # `except Exception` the panic ended the run, and each one after it, for all shards.
    try:
        return attempted("decoding", "ptars", lambda: _handler().list_to_record_batch([raw]))
    except CodeFailed as error:
        raise ValueError(f"the protobuf reader gave up ({error.kind})") from None


@dataclass
class Tree:
    """LogGroups as nested Arrow arrays; offsets say which logs, pairs and tags belong together."""

    groups: int
    logs: int
    topic: pa.Array
    source: pa.Array
    skipped: tuple[pa.Array, ...]
    tag_offsets: Ints
    tag_keys: pa.Array
    tag_values: pa.Array
    log_offsets: Ints
    time: pa.Array
    time_ns: pa.Array
    pair_offsets: Ints
    keys: pa.Array
    values: pa.Array

    @staticmethod
    def of(raw: bytes) -> Tree:
        """Raises ValueError when `raw` is no LogGroupList. Only for bytes that `safe` lets pass."""
        groups = _read(raw).column(0).values
        log_lists, tag_lists = groups.field("Logs"), groups.field("LogTags")
        logs, tags = log_lists.values, tag_lists.values
        pair_lists = logs.field("Contents")
        pairs = pair_lists.values
        return Tree(
            groups=len(groups),
            logs=len(logs),
            topic=groups.field("Topic"),
            source=groups.field("Source"),
            skipped=(groups.field("Category"), groups.field("MachineUUID")),
            tag_offsets=_offsets(tag_lists),
            tag_keys=tags.field("Key"),
            tag_values=tags.field("Value"),
            log_offsets=_offsets(log_lists),
            time=logs.field("Time"),
            time_ns=logs.field("Time_ns"),
            pair_offsets=_offsets(pair_lists),
            keys=pairs.field("Key"),
            values=pairs.field("Value"),
        )

    @property
    def records(self) -> int:
        """Logs, pairs or tags, whichever are most."""
        return max(self.logs, len(self.keys), len(self.tag_keys))

    @property
    def seconds(self) -> Ints:
        """Time of each log, 0 where it is missing; what is over 63 bits comes out negative."""
        found: Ints = self.time.fill_null(0).to_numpy().astype(np.int64)
        return found

    def sizes(self) -> Ints:
        """Bytes that each group has when it is written again, shortest form, nothing unknown.

        Where that is the size that was sent, every byte of the group was understood: each known field takes
        at least these bytes, and a field that was skipped, doubled or misread adds some.

        Worked example: a log with the time 100 and the pair a=1. The pair is `0a 01 61 12 01 31`, 6 bytes,
        and 2 in front of it; the time is `08 64`: 10 bytes. Was the log sent with 10, all of it was read. A
        field 7 of two bytes that nobody knows makes it 12, a length written in two bytes 11: it is walked.

        Nothing can make up for such a byte, since every deviation adds some and none takes one away.
        """
        sizes = within(frame_sizes(self.log_sizes()), self.log_offsets)
        sizes += within(_pair_sizes(self.tag_keys, self.tag_values), self.tag_offsets)
        for text in (self.topic, self.source, *self.skipped):
            sizes += _text_sizes(text)
        return sizes

    def log_sizes(self) -> Ints:
        """As `sizes`, of each log.

        A time has up to five bytes in this count. A longer one is over 32 bits, and makes its log odd
        (`chunks._odd`) whatever its size.
        """
        sizes = within(_pair_sizes(self.keys, self.values), self.pair_offsets)
        sizes += 2 + _varint_extra(self.seconds)
        for part, size in ((self.time, 2), (self.time_ns, 5)):
            if part.null_count:
                sizes -= size * part.is_null().to_numpy(zero_copy_only=False)
        sizes += 5
        return sizes

    def part(self, begin: int, end: int) -> Logs:
        """The logs [begin, end) of all groups together."""
        group_of_log = np.searchsorted(self.log_offsets, np.arange(begin, end), side="right") - 1
        offsets = self.pair_offsets[begin : end + 1]
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        return Logs(
            logs=end - begin,
            time=self.time.slice(begin, end - begin),
            time_ns=self.time_ns.slice(begin, end - begin),
            keys=self.keys.slice(first, count),
            values=self.values.slice(first, count),
            group_of_log=group_of_log,
            index_of_log=np.arange(begin, end, dtype=np.int64) - self.log_offsets[group_of_log],
            log_of_pair=np.repeat(np.arange(end - begin, dtype=np.int64), np.diff(offsets)),
        )


@dataclass
class Logs:
    """Some logs of a tree, and which group and log everything belongs to; logs are counted from 0."""

    logs: int
    time: pa.Array
    time_ns: pa.Array
    keys: pa.Array
    values: pa.Array
    group_of_log: Ints
    index_of_log: Ints
    log_of_pair: Ints


def safe(raw: bytes, begin: int, end: int) -> bool:
    """Whether `Tree.of` may be asked about the LogGroup at [begin, end) of `raw`.

    Story: unknown groups of fields (wire type 3) are nested half a million deep in a log of 1 MB. The reader
    goes down one call a level, its stack ends, and the process with it: no exception, each try anew. The same
    stood in a tag. What is short cannot be deep; longer ones are looked at by a reader that counts. One with
    very many logs is read a run of them at a time, for the sake of memory.
    """
    if end - begin < SHORT_BYTES:
        return True
    try:
        logs = 0
        for number, wire, at, stop in loggroup.fields(raw, begin, end):
            if wire != _BYTES_WIRE or number not in (_LOGS, _TAGS):
                continue
            logs += number == _LOGS
            if logs > _LOGS_MAX:
                return False
            if stop - at >= SHORT_BYTES and not is_flat(raw, at, stop, pairs=number == _LOGS):
                return False
    except ValueError:
        return False
    return True


def is_flat(raw: bytes, begin: int, end: int, *, pairs: bool) -> bool:
    """Whether no unknown group of fields is in the message; with `pairs`, nor in a long pair of it.

    Only a long pair is looked into: a short one cannot hold enough levels.
    """
    for number, wire, at, stop in loggroup.fields(raw, begin, end):
        if wire == _GROUP_WIRE:
            return False
        long = stop - at >= SHORT_BYTES
        if pairs and long and (number, wire) == (2, 2) and not is_flat(raw, at, stop, pairs=False):
            return False
    return True


def _offsets(lists: pa.ListArray) -> Ints:
    offsets: Ints = lists.offsets.to_numpy().astype(np.int64)
    return offsets


def lengths_of(texts: pa.Array) -> NDArray[np.int32]:
    """Bytes of each value of a text or binary array; a null has none."""
    if not len(texts):
        return np.zeros(0, dtype=np.int32)
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)
    lengths: NDArray[np.int32] = np.diff(offsets[texts.offset : texts.offset + len(texts) + 1])
    return lengths


def within(sizes: NDArray[Any], offsets: Ints) -> Ints:
    """The sum of `sizes` between each two offsets.

    By differences of a running sum: one pass, however many ranges there are, and an empty one is 0.
    """
    running = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=running[1:])
    sums: Ints = np.diff(running[offsets])
    return sums


def frame_sizes(lengths: NDArray[Any]) -> NDArray[Any]:
    """Bytes of messages of these lengths as fields with a number below 16."""
    sizes: NDArray[Any] = lengths + (2 + _varint_extra(lengths))
    return sizes


def _varint_extra(numbers: NDArray[Any]) -> Any:
    """Bytes that each number takes as a varint, over the first.

    Seven bits go into a byte: 127 takes one, 128 two, 16,384 three. Where even the largest number needs no
    second byte, which is so with most keys, nothing is compared.
    """
    top = int(numbers.max(initial=0))
    extra: Any = 0
    for bits in (7, 14, 21, 28):
        if top >> bits:
            extra = extra + (numbers >= 1 << bits)
    return extra


def _pair_sizes(keys: pa.Array, values: pa.Array) -> NDArray[Any]:
    """Bytes of each pair of key and value as a field of its message.

    Four bytes for the tags and lengths of key and value, more where a length takes more than one; two less
    for each that was not sent.
    """
    body = np.full(len(keys), 4, dtype=np.int64)
    for texts in (keys, values):
        lengths = lengths_of(texts)
        body += lengths
        extra = _varint_extra(lengths)
        if not isinstance(extra, int):
            body += extra
        if texts.null_count:
            body -= 2 * texts.is_null().to_numpy(zero_copy_only=False)
    return frame_sizes(body)


def _text_sizes(texts: pa.Array) -> NDArray[Any]:
    """Bytes of each text as a field of its message; a null has none."""
    lengths = lengths_of(texts)
    there = texts.is_valid().to_numpy(zero_copy_only=False)
    sizes: NDArray[Any] = np.where(there, lengths + (2 + _varint_extra(lengths)), 0)
    return sizes


# --- field by field ------------------------------------------------------------------------------


class TooMany(ValueError):
    """There are more pairs or tags than were allowed."""


def plain_log(raw: bytes, begin: int, end: int, *, pairs_max: int) -> bytes:
    """The Log at [begin, end) in its shortest form, with its known fields only, which both readers read
    alike. Of a field sent twice the last counts. Raises ValueError when it cannot be read, TooMany when it
    has over `pairs_max` pairs.

    A time over 32 bits is left out: other readers cut it to some moment that nobody sent.
    """
    if end - begin > 2 * pairs_max:  # less cannot hold so many
        pairs = (1 for number, wire, _, _ in loggroup.fields(raw, begin, end) if (number, wire) == (2, 2))
        if sum(pairs) > pairs_max:
            raise TooMany
    out = bytearray()
    time = nanos = b""
    for number, wire, at, stop in loggroup.fields(raw, begin, end):
        if (number, wire) == (2, 2):
            out += _as_field(0x12, plain_pair(raw, at, stop))
        elif (number, wire) == (1, 0):
            seconds, _ = loggroup.read_varint(raw, at)
            time = b"\x08" + loggroup.varint(seconds) if seconds <= SECONDS_MAX else b""
        elif (number, wire) == (4, 5):
            nanos = b"\x25" + raw[at:stop]
    return time + bytes(out) + nanos


def plain_pair(raw: bytes, begin: int, end: int) -> bytes:
    """The pair of key and value at [begin, end) in its shortest form. Raises as `plain_log`."""
    found = {n: raw[at:stop] for n, wire, at, stop in loggroup.fields(raw, begin, end) if wire == 2}
    return b"".join(_as_field(n << 3 | 2, found[n]) for n in (1, 2) if n in found)


def last_value(log: bytes, key: bytes) -> bytes | None:
    """What the row of a Log shows of `key`: of its last pair the value, empty where it was sent without one;
    None where no pair has the key. Raises ValueError when the Log cannot be read.

    Two pairs of one key: the later counts, as in a row.
    """
    value: bytes | None = None
    for number, wire, begin, end in loggroup.fields(log):
        if (number, wire) == (2, 2):
            found = {n: log[at:stop] for n, w, at, stop in loggroup.fields(log, begin, end) if w == 2}
            if found.get(1) == key:
                value = found.get(2, b"")
    return value


def plain_head(raw: bytes, begin: int, end: int, *, tags_max: int) -> tuple[bytes, int]:
    """(topic, source and tags of the LogGroup in their shortest form, how many logs it has).

    A tag that cannot be read becomes one without a value whose key is its bytes. Raises ValueError when
    the group cannot be taken apart, TooMany when it has over `tags_max` tags.
    """
    texts: dict[int, bytes] = {}
    tags, logs, count = bytearray(), 0, 0
    for number, wire, at, stop in loggroup.fields(raw, begin, end):
        if wire != 2:
            continue
        if number == 1:
            logs += 1
        elif number in (3, 4):
            texts[number] = raw[at:stop]
        elif number == 6:
            try:
                tag = plain_pair(raw, at, stop)
            except ValueError:
                tag = _as_field(0x0A, raw[at:stop])
            tags += _as_field(0x32, tag)
            count += 1
    if count > tags_max:
        raise TooMany
    head = b"".join(_as_field(n << 3 | 2, texts[n]) for n in (3, 4) if n in texts)
    return head + bytes(tags), logs


def _as_field(tag: int, value: bytes) -> bytes:
    return bytes((tag,)) + loggroup.varint(len(value)) + value


def guarded(
    message: bytes, pii: Mapping[bytes, str], *, readable: bool, again: bool = False
) -> tuple[bytes, bool]:
    """(bytes that may be kept in `__raw__`, whether they may): all that is written there comes from here.

    message   one log where it is `readable`, else bytes in which nobody can say where a value stands; those
              are not kept when a key of personal data occurs in them
    again     it was kept before: a value that is a digest stays one, because a digest of a digest would match
              nothing
    """
    if readable:
        try:
            return _redacted(message, pii, again=again), True
        except ValueError:
            pass
    held = any(key in message for key in pii)
    return (b"", False) if held else (message, True)


def _redacted(log: bytes, pii: Mapping[bytes, str], *, again: bool) -> bytes:
    """One Log's bytes without the values of `drop` keys and with those of `hash` keys hashed.

    Unknown fields are left out, too: nothing says under which key their bytes stand. Raises ValueError when
    the bytes cannot be read.
    """
    if not pii:
        return log
    out = bytearray()
    for number, wire, begin, end in loggroup.fields(log):
        if (number, wire) == (2, 2):
            found = {n: log[at:stop] for n, w, at, stop in loggroup.fields(log, begin, end) if w == 2}
            what = pii.get(found.get(1, b""))
            if what == "hash" and 2 in found:  # one without a value stays one
                found[2] = digest_once(found[2]) if again else digest(found[2])
            if what != "drop":
                pair = b"".join(_as_field(n << 3 | 2, found[n]) for n in (1, 2) if n in found)
                out += _as_field(0x12, pair)
        elif (number, wire) == (1, 0):
            out += b"\x08" + loggroup.varint(loggroup.read_varint(log, begin)[0])
        elif (number, wire) == (4, 5):
            out += b"\x25" + log[begin:end]
    return bytes(out)


def digest(value: bytes) -> bytes:
    """SHA-256 in hex: what a `hash` key shows instead of its value."""
    return hashlib.sha256(value).hexdigest().encode()


def digest_once(value: bytes) -> bytes:
    """As `digest`, of a value that may be one already; it stays then. A plain value of 64 hex digits cannot
    be told from a digest, and stays, too."""
    return value if DIGEST.fullmatch(value) else digest(value)


def is_utf8(value: bytes) -> bool:
    """Whether `value` is valid UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
