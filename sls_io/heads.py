"""What stands once in a page and on many rows of the table: a group's head, and the causes of trouble.

40,000 empty logs with 2,000 tags take 176 KB in a page and a gigabyte in columns. So these columns are
made for so many rows at a time as fit in memory, and a head that is too large for its logs is shown on the
first row of its group only, with a cause on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.causes import (
    AS_BASE64,
    HEAD_ONCE,
    REPEATED_TAG,
    SEPARATOR,
    SOURCE_BYTES,
    TAG,
    TOPIC_BYTES,
    UNREADABLE,
    WITHHELD,
    Trouble,
)
from sls_io.chunks import Chunk
from sls_io.nested import Ints, Logs, Tree, guarded, lengths_of, within
from sls_io.texts import SHOWN_BYTES, as_text, by_code, earlier_ones, escaped, key_codes, maps

PART_BYTES = 16 * 1024 * 1024
"""About the bytes of columns that are made at once."""
_HEADS_BYTES = 8 * 1024 * 1024
_HEADS_TIMES = 64


@dataclass
class Heads:
    """Topic, source and tags of the groups of a chunk, one of each a group.

    sizes  bytes that they take on each row
    once   groups whose head only the first row shows
    """

    topic: pa.Array
    source: pa.Array
    tags: pa.Array
    sizes: Ints
    once: NDArray[np.bool_]
    trouble: Trouble

    @staticmethod
    def of(chunk: Chunk) -> Heads:
        """The heads of a chunk's groups, with what is wrong with them."""
        trouble, head = Trouble(), chunk.head
        topic = _group_text(head.topic, TOPIC_BYTES, trouble)
        source = _group_text(head.source, SOURCE_BYTES, trouble)
        tags = _group_tags(head, trouble)
        sizes = within(lengths_of(tags.keys).astype(np.int64) + lengths_of(tags.items) + 8, _offsets(tags))
        sizes += lengths_of(topic)
        sizes += lengths_of(source)
        lengths = np.array([end - begin for begin, end in chunk.frames], dtype=np.int64)
        once = sizes * chunk.group_logs > _HEADS_BYTES + _HEADS_TIMES * lengths
        trouble.note_group(np.flatnonzero(once).tolist(), HEAD_ONCE)
        return Heads(topic=topic, source=source, tags=tags, sizes=sizes, once=once, trouble=trouble)


def _offsets(tags: pa.MapArray) -> Ints:
    offsets: Ints = tags.offsets.to_numpy().astype(np.int64)
    return offsets


def _group_text(values: pa.Array, cause: str, trouble: Trouble) -> pa.Array:
    text, broken = as_text(values, escaped)
    if broken is not None:
        long = lengths_of(values) > SHOWN_BYTES
        trouble.note_group(np.flatnonzero(broken & ~long).tolist(), cause)
        trouble.note_group(np.flatnonzero(broken & long).tolist(), cause + AS_BASE64)
    return text


def _group_tags(head: Tree, trouble: Trouble) -> pa.Array:
    """One map a group, null without tags; of a repeated tag the last is shown."""
    groups = np.repeat(np.arange(head.groups, dtype=np.int64), np.diff(head.tag_offsets))
    keys, values = head.tag_keys, head.tag_values
    missing = np.zeros(len(keys), dtype=np.bool_)
    for texts in (keys, values):
        if texts.null_count:
            missing |= texts.is_null().to_numpy(zero_copy_only=False)
    names, codes, broken_name = key_codes(keys.fill_null(b"") if keys.null_count else keys, escaped)
    text, broken = as_text(values.fill_null(b"") if values.null_count else values, escaped)

    def note(which: NDArray[np.bool_] | Ints, cause: str) -> None:
        trouble.note_names(groups[which], codes[which], names, cause, of_groups=True)

    if missing.any():
        note(missing, TAG + "{} has no key or no value")
    if broken is not None or broken_name is not None:
        not_text, long = np.zeros((2, len(codes)), dtype=np.bool_)
        for texts, found in ((keys, broken_name), (values, broken)):
            if found is not None:
                not_text |= found
                long |= found & (lengths_of(texts) > SHOWN_BYTES)
        note(not_text & ~missing & ~long, TAG + "{} is not UTF-8")
        note(long & ~missing, TAG + "{} is not UTF-8" + AS_BASE64)
    order, starts = by_code(codes, len(names))
    earlier = earlier_ones(groups, order, starts)
    if not len(earlier):
        return maps(head.tag_offsets, names.take(pa.array(codes)), text)
    note(earlier, REPEATED_TAG + "{}")
    shown = np.ones(len(codes), dtype=np.bool_)
    shown[earlier] = False
    tags = np.flatnonzero(shown)
    offsets = np.zeros(head.groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(groups[tags], minlength=head.groups), out=offsets[1:])
    return maps(offsets, names.take(pa.array(codes[tags])), text.take(pa.array(tags)))


@dataclass
class Wide:
    """The columns that can be far larger than the page: what a group has once, and what is in trouble."""

    raw: bytes
    chunk: Chunk
    heads: Heads
    logs: Logs
    trouble: Trouble
    pii: Mapping[bytes, str]

    def __post_init__(self) -> None:
        logs, heads = self.logs, self.heads
        in_trouble = np.zeros(len(heads.sizes), dtype=np.bool_)
        in_trouble[heads.trouble.groups()] = True
        self.bad: NDArray[np.bool_] = in_trouble[logs.group_of_log]
        self.bad[self.trouble.rows()] = True
        self.headless: NDArray[np.bool_] = heads.once[logs.group_of_log]
        self.headless &= (self.chunk.offset + logs.index_of_log) > 0

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Rows [begin, end) whose columns may be made together."""
        logs, heads = self.logs, self.heads
        costs = np.where(self.headless, 0, heads.sizes[logs.group_of_log])
        if self.bad.any():
            texts = np.zeros(len(heads.sizes), dtype=np.int64)
            for group in heads.trouble.groups():
                texts[group] = len(heads.trouble.group_text(group))
            costs += texts[logs.group_of_log]
            for row in np.flatnonzero(self.bad).tolist():
                begin, end = self._span(row)
                costs[row] += end - begin + len(self.trouble.text(row))
        running = np.cumsum(costs)
        begin = 0
        while begin < logs.logs:
            before = int(running[begin - 1]) if begin else 0
            end = int(np.searchsorted(running, before + PART_BYTES, side="right"))
            end = max(begin + 1, end)
            yield begin, end
            begin = end

    def columns(self, begin: int, end: int) -> dict[str, pa.Array]:
        """The columns of these rows."""
        hidden = self.headless[begin:end]
        at = pa.array(self.logs.group_of_log[begin:end], mask=hidden if hidden.any() else None)
        heads, count = self.heads, end - begin
        errors = pa.nulls(count, pa.string())
        raws = pa.nulls(count, pa.binary())
        if self.bad[begin:end].any():
            texts: list[str | None] = [None] * count
            kept: list[bytes | None] = [None] * count
            for row in np.flatnonzero(self.bad[begin:end]).tolist():
                texts[row], kept[row] = self._row(begin + row)
            errors, raws = pa.array(texts, pa.string()), pa.array(kept, pa.binary())
        return {
            "__topic__": heads.topic.take(at),
            "__source__": heads.source.take(at),
            "__tags__": heads.tags.take(at),
            "__error__": errors,
            "__raw__": raws,
        }

    def _span(self, row: int) -> tuple[int, int]:
        group, index = int(self.logs.group_of_log[row]), int(self.logs.index_of_log[row])
        return self.chunk.span(self.raw, group, index)

    def _row(self, row: int) -> tuple[str, bytes | None]:
        """(`__error__`, `__raw__`) of a row in trouble."""
        begin, end = self._span(row)
        own, group = self.trouble.text(row), self.heads.trouble.group_text(int(self.logs.group_of_log[row]))
        raw, kept = self.raw[begin:end], True
        if self.pii:
            raw, kept = guarded(raw, self.pii, readable=not own.startswith(UNREADABLE))
        causes = [own, group] if own.startswith(UNREADABLE) else [group, own]
        if not kept:
            causes.append(WITHHELD)
        return SEPARATOR.join(filter(None, causes)), raw if kept else None
