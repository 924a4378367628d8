"""A page cut into chunks of bounded size whose every byte was understood, or told why not.

    page --groups--> frames --safe?--> ptars --written again, same length?--> chunk
                        \\______________________\\--no--> field by field, in runs --/

The fast reader skips what it does not know, in silence. So its result is believed only where, written again,
it has the length of what was sent: then no byte was skipped. Other groups are walked field by field, and what
was understood goes through the fast reader again. A log that cannot be read is an empty row; a group that
cannot be taken apart is one row; `unreadable` says which.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sls_io.decoding.causes import KEYS_MAX, TAGS_MAX, Cause
from sls_io.decoding.nested import (
    SECONDS_MAX,
    SHORT_BYTES,
    Ints,
    TooMany,
    Tree,
    frame_sizes,
    is_flat,
    plain_head,
    plain_log,
    safe,
)
from sls_io.wire import loggroup

ByteRange = tuple[int, int]
"""Where bytes stand in a page: [begin, end)."""
CHUNK_BYTES = 8 * 1024 * 1024
RECORDS_MAX = 512 * 1024
"""The most logs, pairs or tags of a chunk: more take too much memory, however short they are."""
RUN_BYTES = 1024 * 1024
RUN_LOGS = 32 * 1024
_LOOK = 1024
_KEPT_COST_MAX = 48 * 1024 * 1024


@dataclass
class Chunk:
    """Groups of a page, or a run of logs of one group, read.

    frames       where each group of the tree stands in the page
    first        which group of the page the tree's first one is
    offset       which log of its group the tree's first one is; not 0 only in a run
    head         topic, source and tags of the groups; the tree itself but for a run
    group_logs   how many logs each group has as a whole
    spans        group of the tree -> begin and end of each of its logs; of the others the frame tells
    unreadable   log of the tree -> why it is an empty row
    """

    frames: list[ByteRange]
    first: int
    tree: Tree
    head: Tree
    group_logs: Ints
    offset: int = 0
    spans: dict[int, array[int]] = field(default_factory=dict)
    unreadable: dict[int, Cause] = field(default_factory=dict)
    _last: tuple[int, array[int]] = field(default=(-1, array("q")), repr=False)

    @property
    def cost(self) -> int:
        """About the bytes it takes in memory."""
        return int(self.tree.keys.nbytes + self.tree.values.nbytes) + 64 * self.tree.logs

    def where(self, raw: bytes, groups: Ints, indexes: Ints) -> tuple[Ints, Ints]:
        """Begins and ends of logs: each a group of the tree, in order, and a place counted from its first."""
        begins, ends = np.zeros((2, len(groups)), dtype=np.int64)
        edges = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), len(groups)]
        for a, b in itertools.pairwise(edges):
            if a < b:
                begins[a:b], ends[a:b] = self._spans(raw, int(groups[a]))[indexes[a:b]].T
        return begins, ends

    def _spans(self, raw: bytes, group: int) -> Ints:
        """Where the logs of a group stand. Rows in trouble come in order, so the last group that was walked
        is most often the next that is asked for, and only that one is remembered."""
        spans = self.spans.get(group)
        if spans is None and self._last[0] == group:
            spans = self._last[1]
        if spans is None:
            spans = array("q", itertools.chain.from_iterable(loggroup.logs(raw, *self.frames[group])))
            self._last = group, spans
        return np.frombuffer(spans, dtype=np.int64).reshape(-1, 2)


class Chunks:
    """The chunks of a plain page, as often as it is iterated.

    unreadable  whether something in it cannot be read
    Raises ValueError when the frames of the groups are broken.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._frames = list(loggroup.groups(raw))
        self._kept: list[Chunk] | None = []
        self.groups = len(self._frames)
        self.unreadable = False
        cost = 0
        for chunk in self._read():
            self.unreadable |= bool(chunk.unreadable)
            cost += chunk.cost
            if self._kept is not None:
                self._kept.append(chunk)
            if cost > _KEPT_COST_MAX:  # read again rather than kept: a small page can become large
                self._kept = None

    def __iter__(self) -> Iterator[Chunk]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[Chunk]:
        """The chunks in order of the page, as few and as large as memory allows.

        `waiting` is a stack, the first range on top. A range that gives a tree with too many records is
        halved and both halves are put back, the later one below: the order stays, and a single group, which
        cannot be halved, is walked in runs. A range whose every group has the size that was sent is one
        chunk. Where one has not, only that one is doubtful: the others go through the fast reader a second
        time, beside what was walked.
        """
        waiting = list(self._batches())[::-1]
        while waiting:
            begin, end = waiting.pop()
            frames = self._frames[begin:end]
            doubtful = list(range(begin, end))
            if all(safe(self._raw, *frame) for frame in frames):
                try:
                    tree = Tree.of(_joined(self._raw, *np.array(frames, dtype=np.int64).T))
                except ValueError:  # includes ArrowInvalid
                    pass
                else:
                    if tree.records > RECORDS_MAX and end - begin > 1:
                        middle = (begin + end) // 2
                        waiting += [(middle, end), (begin, middle)]
                        continue
                    if tree.records <= RECORDS_MAX:
                        doubtful = _doubtful(tree, frames, begin)
                    if not doubtful:
                        yield Chunk(frames, begin, tree, tree, np.diff(tree.log_offsets))
                        continue
            yield from self._walked(begin, end, frozenset(doubtful))

    def _batches(self) -> Iterator[ByteRange]:
        """Groups that are read together, [begin, end): some small ones, or a large one.

        By bytes as they are and records as they are guessed: a wrong guess is met by `_read`, which halves
        the range.
        """
        begin = size = records = 0
        for number, frame in enumerate(self._frames):
            length, dense = frame[1] - frame[0], _about_records(self._raw, frame)
            if number > begin and (size + length > CHUNK_BYTES or records + dense > RECORDS_MAX):
                yield begin, number
                begin, size, records = number, 0, 0
            size, records = size + length, records + dense
        if begin < len(self._frames):
            yield begin, len(self._frames)

    def _walked(self, begin: int, end: int, doubtful: frozenset[int]) -> Iterator[Chunk]:
        """Groups [begin, end) with the doubtful ones walked; small groups are put together again.

        Small ones wait in `small` until a long one comes, and are given out before it: chunks stay in order,
        and the cursor of a group is counted from its place.
        """
        small = _Small(self._raw, begin)
        for number in range(begin, end):
            frame = self._frames[number]
            if number not in doubtful:
                small.add(frame, self._raw[slice(*frame)], None, {})
            else:
                try:
                    head, logs = plain_head(self._raw, *frame, tags_max=TAGS_MAX)
                except ValueError as error:
                    why = Cause.TOO_MANY_TAGS if isinstance(error, TooMany) else Cause.UNREADABLE_GROUP
                    small.add(frame, loggroup.frame(b""), array("q", frame), {0: why})
                else:
                    runs = list(itertools.islice(_runs(self._raw, frame), 2))
                    if len(runs) < 2 and len(head) < RUN_BYTES:
                        body, spans, unreadable = runs[0] if runs else (b"", array("q"), {})
                        small.add(frame, head + body, spans, unreadable)
                    else:
                        yield from small.taken(number + 1)
                        yield from _long(self._raw, frame, number, head, logs)
            if small.full:
                yield from small.taken(number + 1)
        yield from small.taken(end)


def whole_page(raw: bytes) -> Chunk:
    """A page of one group whose frame is broken: one row."""
    tree = Tree.of(loggroup.frame(loggroup.frame(b"")))
    frame = (0, len(raw))
    return Chunk(
        [frame],
        0,
        tree,
        tree,
        np.array([1]),
        spans={0: array("q", frame)},
        unreadable={0: Cause.UNREADABLE_PAGE},
    )


class _Small:
    """Groups that were walked, and the groups between them, which become one chunk."""

    def __init__(self, raw: bytes, first: int) -> None:
        self._raw = raw
        self._begin(first)

    def _begin(self, first: int) -> None:
        self._first = first
        self._frames: list[ByteRange] = []
        self._body = bytearray()
        self._spans: dict[int, array[int]] = {}
        self._unreadable: dict[tuple[int, int], Cause] = {}

    def add(
        self, frame: ByteRange, group: bytes, spans: array[int] | None, unreadable: dict[int, Cause]
    ) -> None:
        """One group in the form that is read fast; `spans` where it is another than was sent."""
        place = len(self._frames)
        self._frames.append(frame)
        self._body += loggroup.frame(group)
        if spans is not None:
            self._spans[place] = spans
        self._unreadable |= {(place, index): why for index, why in unreadable.items()}

    @property
    def full(self) -> bool:
        """Whether another group would be too much."""
        return len(self._body) > RUN_BYTES or sum(map(len, self._spans.values())) > 2 * RUN_LOGS

    def taken(self, following: int) -> Iterator[Chunk]:
        """The chunk of the groups that were added, if any; the next group will be `following`."""
        if self._frames:
            tree = Tree.of(bytes(self._body))
            unreadable = {int(tree.log_offsets[g]) + i: why for (g, i), why in self._unreadable.items()}
            logs = np.diff(tree.log_offsets)
            yield Chunk(self._frames, self._first, tree, tree, logs, spans=self._spans, unreadable=unreadable)
        self._begin(following)


def _about_records(raw: bytes, frame: ByteRange) -> int:
    """A guess at the logs and pairs of a group, from two places in it; only memory depends on it."""
    begin, end = frame
    tags = max(raw.count(b"\x0a", at, min(end, at + _LOOK)) for at in (begin, (begin + end) // 2))
    return (end - begin) * tags // _LOOK if end - begin > _LOOK else tags


def _joined(raw: bytes, begins: Ints, ends: Ints) -> bytes:
    """These groups as a LogGroupList, or these logs as a LogGroup.

    As they stand in the page where nothing but their frames, each in the shortest form, is between them: then
    the whole is as long as the frames and what is in them. The first frame lies before the first begin, so
    it is compared itself.

    Story: the length of the first log is written in three bytes instead of one, `0a 8a 80 00`. Begun two
    bytes late, the whole is as long as expected, and begins with `80 00`, which is no field; with another
    length it is one that means something else.
    """
    sizes = frame_sizes(ends - begins)
    at, length = int(begins[0]), int(ends[0] - begins[0])
    head = loggroup.frame_head(length)
    body = raw[at - len(head) : int(ends[-1])]
    if len(body) == sizes.sum() and body.startswith(head):
        return body
    return b"".join(  # something stands between
        loggroup.frame(raw[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    )


def _doubtful(tree: Tree, frames: list[ByteRange], first: int) -> list[int]:
    """Numbers of the groups that must be walked; all of them when the tree has others.

    `log_offsets` says with which log each group begins, so the last offset that is not behind a log is its
    group's. With another number of groups than frames nobody can say which is which.
    """
    if tree.groups != len(frames):
        return list(range(first, first + len(frames)))
    lengths = np.array([end - begin for begin, end in frames], dtype=np.int64)
    found = (tree.sizes() != lengths) | (np.diff(tree.tag_offsets) > TAGS_MAX)
    found[np.searchsorted(tree.log_offsets, np.flatnonzero(_odd(tree)), side="right") - 1] = True
    return [first + int(group) for group in np.flatnonzero(found)]


def _odd(tree: Tree) -> NDArray[np.bool_]:
    """Logs that the fast reader reads to the last byte, and that still cannot be shown as it read them."""
    seconds = tree.seconds
    odd: NDArray[np.bool_] = seconds < 0
    return odd | (seconds > SECONDS_MAX) | (np.diff(tree.pair_offsets) > KEYS_MAX)


def _runs(raw: bytes, frame: ByteRange) -> Iterator[tuple[bytes, array[int], dict[int, Cause]]]:
    """The logs of a group, some at a time: (fields of the group, where each stands, unreadable ones).

    A log of 0 bytes still takes a frame of two, so `size` counts these, and empty logs come to an end, too.
    """
    spans, size = array("q"), 0
    for begin, end in loggroup.logs(raw, *frame):
        spans.append(begin)
        spans.append(end)
        size += end - begin + 2
        if size > RUN_BYTES or len(spans) == 2 * RUN_LOGS:
            yield _run(raw, spans)
            spans, size = array("q"), 0
    if spans:
        yield _run(raw, spans)


def _run(raw: bytes, spans: array[int]) -> tuple[bytes, array[int], dict[int, Cause]]:
    """The logs at `spans` as fields of a group; logs that the fast reader would misread are in another
    form."""
    begins, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    walked = _misread(raw, begins, ends, 0)
    parts, unreadable, at = list[bytes](), dict[int, Cause](), 0
    for place in walked:
        if at < place:
            parts.append(_joined(raw, begins[at:place], ends[at:place]))
        try:
            log = plain_log(raw, int(begins[place]), int(ends[place]), pairs_max=KEYS_MAX)
        except ValueError as error:
            log, unreadable[place] = (
                b"",
                Cause.TOO_MANY_KEYS if isinstance(error, TooMany) else Cause.UNREADABLE_LOG,
            )
        parts.append(loggroup.frame(log))
        at = place + 1
    if at < len(begins):
        parts.append(_joined(raw, begins[at:], ends[at:]))
    return b"".join(parts), spans, unreadable


def _misread(raw: bytes, begins: Ints, ends: Ints, first: int) -> list[int]:
    """Places, counted from `first`, of the logs of which the fast reader does not find every byte.

    What the fast reader cannot read whole is halved until the log is found that spoils the run. The half
    without it is read once more, the other is halved again: about three times the bytes of the run, however
    many logs it has, where a look at each log alone would cost a call of the reader a log.

    Worked example: log 5 of 8 is broken. [0, 8) fails; [0, 4) is read; [4, 8) fails; [4, 6) fails; 4 is read,
    5 is named; [6, 8) is read.
    """
    everyone = range(first, first + len(begins))
    lengths = ends - begins
    if len(begins) == 1 and lengths[0] > RUN_BYTES:
        return [first]  # millions of empty pairs take far more memory than their bytes
    long = np.flatnonzero(lengths >= SHORT_BYTES)
    try:
        if not all(is_flat(raw, int(begins[n]), int(ends[n]), pairs=True) for n in long):
            raise ValueError("nested groups of fields")
        tree = Tree.of(loggroup.frame(_joined(raw, begins, ends)))
    except ValueError:
        middle = len(begins) // 2
        if not middle:
            return list(everyone)
        return [
            *_misread(raw, begins[:middle], ends[:middle], first),
            *_misread(raw, begins[middle:], ends[middle:], first + middle),
        ]
    if tree.logs != len(begins):
        return list(everyone)
    return [first + int(place) for place in np.flatnonzero(_odd(tree) | (tree.log_sizes() != lengths))]


def _long(raw: bytes, frame: ByteRange, number: int, head: bytes, logs: int) -> Iterator[Chunk]:
    """A group that was walked and is large, a run of its logs at a time."""
    heads, offset = Tree.of(loggroup.frame(head)), 0
    for body, spans, unreadable in _runs(raw, frame):
        tree = Tree.of(loggroup.frame(body))
        yield Chunk([frame], number, tree, heads, np.array([logs]), offset, {0: spans}, unreadable)
        offset += len(spans) // 2
