"""What stands once in a page and on many rows of the table: a group's head, and the causes of trouble.

40,000 empty logs with 2,000 tags take 176 KB in a page and a gigabyte in columns. So these columns are made
for as many rows at a time as fit in memory. A head that is too large for its logs is shown on the first row
of its group only, and all rows of the group have a cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.decoding.causes import SEPARATOR, Cause, PageTrouble
from sls_io.decoding.chunks import Chunk
from sls_io.decoding.nested import Ints, Logs, Tree, guarded, lengths_of, within
from sls_io.decoding.texts import SHOWN_BYTES, as_text, by_code, earlier_ones, escaped, key_codes, maps

PART_BYTES = 16 * 1024 * 1024
"""About the bytes of columns that are made at once."""
_HEADS_BYTES = 8 * 1024 * 1024
_HEADS_TIMES = 64


@dataclass
class GroupHeads:
    """Topic, source and tags of the groups of a chunk, one of each a group.

    sizes  bytes that they take on each row
    once   groups whose head only the first row shows
    """

    topic: pa.Array
    source: pa.Array
    tags: pa.Array
    sizes: Ints
    once: NDArray[np.bool_]
    trouble: PageTrouble

    @staticmethod
    def of(chunk: Chunk) -> GroupHeads:
        """The heads of a chunk's groups, with what is wrong with them.

        `sizes` is what a head takes on each row; a group repeats it `group_logs` times. The bound grows with
        the bytes that were sent: the heads of a group take 64 times these and 8 MB at most, and no sender can
        make more memory out of less.
        """
        trouble, head = PageTrouble(), chunk.head
        topic = _group_text(head.topic, trouble, Cause.TOPIC_BYTES, Cause.TOPIC_BASE64)
        source = _group_text(head.source, trouble, Cause.SOURCE_BYTES, Cause.SOURCE_BASE64)
        tags = _group_tags(head, trouble)
        sizes = within(lengths_of(tags.keys).astype(np.int64) + lengths_of(tags.items) + 8, _offsets(tags))
        sizes += lengths_of(topic)
        sizes += lengths_of(source)
        lengths = np.array([end - begin for begin, end in chunk.frames], dtype=np.int64)
        once = sizes * chunk.group_logs > _HEADS_BYTES + _HEADS_TIMES * lengths
        trouble.note_group(np.flatnonzero(once), Cause.HEAD_ONCE)
        return GroupHeads(topic=topic, source=source, tags=tags, sizes=sizes, once=once, trouble=trouble)


def _offsets(tags: pa.MapArray) -> Ints:
    offsets: Ints = tags.offsets.to_numpy().astype(np.int64)
    return offsets


def _group_text(values: pa.Array, trouble: PageTrouble, cause: Cause, in_base64: Cause) -> pa.Array:
    text, broken = as_text(values, escaped)
    if broken is not None:
        long = lengths_of(values) > SHOWN_BYTES
        trouble.note_group(np.flatnonzero(broken & ~long), cause)
        trouble.note_group(np.flatnonzero(broken & long), in_base64)
    return text


def _group_tags(head: Tree, trouble: PageTrouble) -> pa.Array:
    """One map a group, null without tags; of a repeated tag the last is shown.

    `names` and `codes` are keys and their numbers, as with the pairs of a log. Which tags are shown is
    decided as there, too: of two with one name the later. A tag without key or value is shown as an empty
    text, with its cause.
    """
    groups = np.repeat(np.arange(head.groups, dtype=np.int64), np.diff(head.tag_offsets))
    keys, values = head.tag_keys, head.tag_values
    missing = np.zeros(len(keys), dtype=np.bool_)
    for texts in (keys, values):
        if texts.null_count:
            missing |= texts.is_null().to_numpy(zero_copy_only=False)
    names, codes, broken_name = key_codes(keys.fill_null(b"") if keys.null_count else keys, escaped)
    text, broken = as_text(values.fill_null(b"") if values.null_count else values, escaped)

    def note(which: NDArray[np.bool_] | Ints, cause: Cause) -> None:
        trouble.note_names(groups[which], codes[which], names, cause, of_groups=True)

    if missing.any():
        note(missing, Cause.TAG_PART)
    if broken is not None or broken_name is not None:
        not_text, long = np.zeros((2, len(codes)), dtype=np.bool_)
        for texts, found in ((keys, broken_name), (values, broken)):
            if found is not None:
                not_text |= found
                long |= found & (lengths_of(texts) > SHOWN_BYTES)
        note(not_text & ~missing & ~long, Cause.TAG_BYTES)
        note(long & ~missing, Cause.TAG_BASE64)
    order, starts = by_code(codes, len(names))
    earlier = earlier_ones(groups, order, starts)
    if not len(earlier):
        return maps(head.tag_offsets, names.take(pa.array(codes)), text)
    note(earlier, Cause.TAG_REPEATED)
    shown = np.ones(len(codes), dtype=np.bool_)
    shown[earlier] = False
    tags = np.flatnonzero(shown)
    offsets = np.zeros(head.groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(groups[tags], minlength=head.groups), out=offsets[1:])
    return maps(offsets, names.take(pa.array(codes[tags])), text.take(pa.array(tags)))


@dataclass
class Wide:
    """The columns that can be far larger than the page: group heads, and the bytes of rows in trouble.

    A row's text is made of two lists of causes, its own and its group's. Their numbers go into one, so each
    different text is made once, and a row has the place of its text (`_text`).
    """

    raw: bytes
    chunk: Chunk
    heads: GroupHeads
    logs: Logs
    trouble: PageTrouble
    pii: Mapping[bytes, str]

    def __post_init__(self) -> None:
        logs, heads = self.logs, self.heads
        own = self.trouble.of_rows(logs.logs)
        group = heads.trouble.of_groups(len(heads.sizes))[logs.group_of_log]
        self.bad: NDArray[np.bool_] = (own > 0) | (group > 0)
        self.headless: NDArray[np.bool_] = heads.once[logs.group_of_log]
        self.headless &= (self.chunk.offset + logs.index_of_log) > 0
        self._rows = np.flatnonzero(self.bad)
        where = logs.group_of_log[self._rows], logs.index_of_log[self._rows]
        self._begins, self._ends = self.chunk.where(self.raw, *where)
        kinds = int(group.max(initial=0)) + 1
        pairs, self._text = np.unique((own * kinds + group)[self._rows], return_inverse=True)
        lists = [divmod(pair, kinds) for pair in pairs.tolist()]
        self._readable = [not self.trouble.unreadable(own) for own, _ in lists]
        shown = [(self.trouble.text(own), heads.trouble.group_text(group)) for own, group in lists]
        self._texts = [_text(*of, readable=r) for of, r in zip(shown, self._readable, strict=True)]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Rows [begin, end) whose columns may be made together.

        `running` is what the rows up to each one take, so a binary search finds how many of the next ones
        fit. One row that takes more than all of that is a range of its own: nothing is left out, and the loop
        gets on.
        """
        logs, heads = self.logs, self.heads
        costs = np.where(self.headless, 0, heads.sizes[logs.group_of_log])
        if len(self._rows):
            lengths = np.array([len(text) for text in self._texts], dtype=np.int64)
            costs[self._rows] += self._ends - self._begins + lengths[self._text]
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
        first, last = np.searchsorted(self._rows, (begin, end)).tolist()
        if first < last:
            texts: list[str | None] = [None] * count
            kept: list[bytes | None] = [None] * count
            rows = self._rows[first:last] - begin
            of_bad = (rows, self._text[first:last], self._begins[first:last], self._ends[first:last])
            for row, text, at_begin, at_end in zip(*(each.tolist() for each in of_bad), strict=True):
                texts[row], kept[row] = self._row(text, self.raw[at_begin:at_end])
            errors, raws = pa.array(texts, pa.string()), pa.array(kept, pa.binary())
        return {
            "__topic__": heads.topic.take(at),
            "__source__": heads.source.take(at),
            "__tags__": heads.tags.take(at),
            "__error__": errors,
            "__raw__": raws,
        }

    def _row(self, text: int, raw: bytes) -> tuple[str, bytes | None]:
        """(`__error__`, `__raw__`) of a row in trouble, by the number of its text and its bytes."""
        if not self.pii or (not raw and self._readable[text]):
            return self._texts[text], raw
        raw, kept = guarded(raw, self.pii, readable=self._readable[text])
        return (self._texts[text], raw) if kept else (f"{self._texts[text]}{SEPARATOR}{Cause.WITHHELD}", None)


def _text(own: str, group: str, *, readable: bool) -> str:
    """The group's causes first, but where the row is bytes that nobody can read: the first cause says what
    `__raw__` holds (`holds_log`), so there it is the row's own."""
    return SEPARATOR.join(filter(None, [group, own] if readable else [own, group]))
