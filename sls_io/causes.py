"""Why a row is not represented exactly: the words of `__error__`, and how many of them it holds.

`__error__` is causes joined by `SEPARATOR`, those of the LogGroup first. Whoever reads rows again must
know what `__raw__` holds and which causes are not the log's own; both are told by constants that begin
a cause, never by prose. A key that begins like one of them is quoted, so that no producer can write one.

A hostile log has millions of causes and a hostile group one on each of its rows, so a text holds the
first few and the number of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.errors import printable

SEPARATOR = "; "
UNREADABLE_LOG = "log cannot be read"
"""The row is one log whose bytes are no protobuf; `__raw__` holds them, the columns are null."""
UNREADABLE_GROUP = "group cannot be read"
"""The row, at index 0, is a whole LogGroup that cannot be taken apart; `__raw__` holds its bytes."""
UNREADABLE_PAGE = "page cannot be read"
"""The row, at index 0, is a page of one LogGroup whose frame is broken; `__raw__` holds the page."""
KEYS_MAX = 250_000
TOO_MANY_KEYS = f"{UNREADABLE_LOG}: over {KEYS_MAX:,} keys"
"""It is protobuf, and no row that fits in memory; kept like one that is none."""
TAGS_MAX = 250_000
TOO_MANY_TAGS = f"{UNREADABLE_GROUP}: over {TAGS_MAX:,} tags"
UNREADABLE = (UNREADABLE_LOG, UNREADABLE_GROUP, UNREADABLE_PAGE)
WITHHELD = "bytes withheld: a key declared drop or hash may be in them"
"""Beside the above: the bytes are kept nowhere, since nobody can say where in them the value stands."""
TOPIC_BYTES = "topic is not UTF-8"
SOURCE_BYTES = "source is not UTF-8"
AS_BASE64 = ", shown whole as base64"
"""Behind one of the above or of a tag: what stands there is `base64:` and the bytes in base64."""
TAG = "tag "
REPEATED_TAG = "repeated tag "
HEAD_ONCE = "topic, source and tags are too large to repeat: they stand at index 0 of the group"
GROUP_MORE = "of its group: "
GROUP_CAUSES = (TOPIC_BYTES, SOURCE_BYTES, TAG, REPEATED_TAG, HEAD_ONCE, GROUP_MORE)
"""A cause that begins with one of these is about the LogGroup, whose bytes `__raw__` does not hold."""
CAUSES_MAX = 8
"""The most causes that a text shows of the group, and of the log."""
_NAME_CHARS_MAX = 64

Ints = NDArray[np.int64]


def named(name: str) -> str:
    """A key as a cause shows it: short, printable, and never taken for another cause."""
    shown = printable(name, _NAME_CHARS_MAX).replace(SEPARATOR, ", ")
    return f"key {shown}" if shown.startswith((*UNREADABLE, *GROUP_CAUSES, WITHHELD)) else shown


def split(error: str) -> list[str]:
    """The causes of an `__error__`."""
    return error.split(SEPARATOR)


def holds_log(error: str) -> bool:
    """Whether `__raw__` of this row is the bytes of one log, and not of a group or page."""
    return not error.startswith((UNREADABLE_GROUP, UNREADABLE_PAGE))


def _beginning(name: pa.StringScalar) -> str:
    """More characters than `named` shows, if the name has them; it may have megabytes."""
    told = name.as_buffer()
    shown: bytes = told.slice(0, min(told.size, 4 * _NAME_CHARS_MAX + 4)).to_pybytes()
    return shown.decode(errors="ignore")


class Trouble:
    """Rows and groups that cannot be represented exactly, and why, in order of discovery."""

    def __init__(self) -> None:
        self._rows, self._groups = _Lists("and"), _Lists(f"{GROUP_MORE}and")

    def note(self, rows: Ints, cause: str) -> None:
        """One cause on each of these rows; none is named twice."""
        self._rows.add(rows, np.zeros(len(rows), dtype=np.int64), [cause])

    def note_group(self, groups: Ints, cause: str) -> None:
        """One cause on all rows of these groups; none is named twice."""
        self._groups.add(groups, np.zeros(len(groups), dtype=np.int64), [cause])

    def note_names(self, places: Ints, codes: Ints, names: pa.Array, cause: str, *, of_groups: bool) -> None:
        """`cause` with the name `names[code]` in it, once a place (row or group) and code.

        In the order in which they come, so that a text follows from its row alone, whatever is read
        beside it: else reading a row again would seem to change it.
        """
        found = self._groups if of_groups else self._rows
        kinds = len(names)
        distinct, first = np.unique(places * kinds + codes, return_index=True)
        distinct = distinct[np.lexsort((first, distinct // kinds))]
        where, which = distinct // kinds, distinct % kinds
        rank = np.arange(len(where)) - np.searchsorted(where, where)
        for place in range(CAUSES_MAX):
            these = rank == place
            if not these.any():
                return
            used, code = np.unique(which[these], return_inverse=True)
            found.add(where[these], code, [cause.format(named(_beginning(names[int(c)]))) for c in used])
        over, times = np.unique(where[rank >= CAUSES_MAX], return_counts=True)
        counts, code = np.unique(times, return_inverse=True)
        found.add(over, code, counts.tolist())

    def only(self, row: int, cause: str) -> None:
        """The row has this cause and no other of its own: nothing else is known of it."""
        self._rows.only(row, cause)

    def of_rows(self, rows: int) -> Ints:
        """Which list of causes each of so many rows has; 0: none."""
        return self._rows.numbers(rows)

    def of_groups(self, groups: int) -> Ints:
        """Which list of causes each of so many groups has; 0: none."""
        return self._groups.numbers(groups)

    def text(self, number: int) -> str:
        """The causes of a row whose list has this number, bounded; "" without any."""
        return self._rows.text(number)

    def group_text(self, number: int) -> str:
        """The causes of a group whose list has this number, bounded; "" without any."""
        return self._groups.text(number)


class _Lists:
    """Lists of causes: each that differs is kept once, and a place has the number of its own."""

    def __init__(self, more: str) -> None:
        self._more = more
        self._of = np.zeros(0, dtype=np.int64)
        self._lists: list[tuple[tuple[str, ...], int]] = [((), 0)]
        self._numbers = {self._lists[0]: 0}

    def add(self, places: Ints, codes: Ints, causes: Sequence[str | int]) -> None:
        """`causes[code]` on each place, or so many more that are not shown; no place is named twice."""
        if not len(places):
            return
        self._make_room(int(places.max()))
        kinds = len(causes)
        distinct, which = np.unique(self._of[places] * kinds + codes, return_inverse=True)
        after = [self._longer(number // kinds, causes[number % kinds]) for number in distinct.tolist()]
        self._of[places] = np.array(after, dtype=np.int64)[which]

    def only(self, place: int, cause: str) -> None:
        """The place has this cause and no other."""
        self._make_room(place)
        self._of[place] = self._longer(0, cause)

    def numbers(self, places: int) -> Ints:
        """The number of each of the first places."""
        self._make_room(places - 1)
        return self._of[:places]

    def text(self, number: int) -> str:
        """The causes of a list."""
        shown, more = self._lists[number]
        return SEPARATOR.join([*shown, f"{self._more} {more:,} more"] if more else shown)

    def _longer(self, number: int, cause: str | int) -> int:
        shown, more = self._lists[number]
        if isinstance(cause, int):
            more += cause
        elif len(shown) < CAUSES_MAX:
            shown = (*shown, cause)
        else:
            more += 1
        found = self._numbers.setdefault((shown, more), len(self._lists))
        if found == len(self._lists):
            self._lists.append((shown, more))
        return found

    def _make_room(self, place: int) -> None:
        if place >= len(self._of):
            self._of = np.concatenate([self._of, np.zeros(place + 1 - len(self._of), dtype=np.int64)])
