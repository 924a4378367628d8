"""Why a row is not represented exactly: the words of `__error__`, and how many of them it holds.

`__error__` is causes joined by `SEPARATOR`, those of the LogGroup first. A reader of stored rows must know
what `__raw__` holds and which causes are not the log's own. Within the decoder a cause is a `Cause`, with
what it names beside it. In a stored text, `read` tells causes by how they begin. A key that begins like a
cause is quoted, so that no producer can write one.

A hostile log can have millions of causes, and a hostile group one on each of its rows. So a text holds the
first few causes and the number of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.errors import printable

SEPARATOR = "; "
KEYS_MAX = 250_000
TAGS_MAX = 250_000


class Cause(StrEnum):
    """What is wrong with a row. `{}` stands for what is named beside it: a key, a tag, a column and its type.

    The texts stand in existing tables: new ones may be added, and old ones must stay readable.
    """

    UNREADABLE_LOG = "log cannot be read"
    """The row is one log whose bytes are no protobuf; `__raw__` holds them, the columns are null."""
    TOO_MANY_KEYS = f"log cannot be read: over {KEYS_MAX:,} keys"
    """It is protobuf, but too large for a row in memory; kept like a log that is no protobuf."""
    UNREADABLE_GROUP = "group cannot be read"
    """The row, at index 0, is a whole LogGroup that cannot be taken apart; `__raw__` holds its bytes."""
    TOO_MANY_TAGS = f"group cannot be read: over {TAGS_MAX:,} tags"
    UNREADABLE_PAGE = "page cannot be read"
    """The row, at index 0, is a page of one LogGroup whose frame is broken; `__raw__` holds the page."""
    WITHHELD = "bytes withheld: a key declared drop or hash may be in them"
    """Beside the above: the bytes are kept nowhere, since nobody can say where in them the value stands."""
    TOPIC_BYTES = "topic is not UTF-8"
    TOPIC_BASE64 = "topic is not UTF-8, shown whole as base64"
    """What stands there is `base64:` and the bytes in base64; the same for source and tags."""
    SOURCE_BYTES = "source is not UTF-8"
    SOURCE_BASE64 = "source is not UTF-8, shown whole as base64"
    TAG_PART = "tag {} has no key or no value"
    TAG_BYTES = "tag {} is not UTF-8"
    TAG_BASE64 = "tag {} is not UTF-8, shown whole as base64"
    TAG_REPEATED = "repeated tag {}"
    HEAD_ONCE = "topic, source and tags are too large to repeat: they stand at index 0 of the group"
    NANOS_OVER = "nanosecond part is over 999999999"
    NO_TIME = "time is missing"
    NO_KEY = "a key is missing"
    KEY_BYTES = "a key is not UTF-8"
    NO_VALUE = "{} has no value"
    VALUE_BYTES = "{} is not UTF-8"
    KEY_REPEATED = "repeated key {}"
    MISFIT = "{} is not {}"

    @property
    def unreadable(self) -> bool:
        """Whether the row shows nothing but bytes that nobody can read."""
        return self in _UNREADABLE


_UNREADABLE = frozenset(
    {
        Cause.UNREADABLE_LOG,
        Cause.TOO_MANY_KEYS,
        Cause.UNREADABLE_GROUP,
        Cause.TOO_MANY_TAGS,
        Cause.UNREADABLE_PAGE,
    }
)
_GROUP_MORE = "of its group: "
_LOGLESS = (Cause.UNREADABLE_GROUP, Cause.UNREADABLE_PAGE)
_OF_GROUP = (Cause.TOPIC_BYTES, Cause.SOURCE_BYTES, "tag ", "repeated tag ", Cause.HEAD_ONCE, _GROUP_MORE)
"""A stored cause that begins with one of these is about the LogGroup, whose bytes `__raw__` does not hold."""
_RESERVED = (Cause.UNREADABLE_LOG, *_LOGLESS, *_OF_GROUP, Cause.WITHHELD)
CAUSES_MAX = 8
"""The most causes that a text shows of the group, and of the log."""
_NAME_CHARS_MAX = 64

Ints = NDArray[np.int64]
Told = tuple[Cause, tuple[str, ...]]
"""A cause with what it names."""


def named(name: str) -> str:
    """A key as a cause shows it: short, printable, and never taken for another cause."""
    # With a blank, as in most causes one follows: `a;` would end its cause there.
    shown = f"{printable(name, _NAME_CHARS_MAX)} ".replace(SEPARATOR, ", ")[:-1]
    return f"key {shown}" if shown.startswith(_RESERVED) else shown


@dataclass(frozen=True, slots=True)
class Stored:
    """An `__error__` of a table, read again.

    all        its causes
    group      those of them that are about the LogGroup
    holds_log  whether `__raw__` is the bytes of one log, and not of a group or page
    """

    all: tuple[str, ...]
    group: tuple[str, ...]
    holds_log: bool


def read(error: str) -> Stored:
    """What an `__error__` says, of this release or an earlier one: nobody else looks into its text."""
    parts = tuple(error.split(SEPARATOR))
    group = tuple(part for part in parts if part.startswith(_OF_GROUP))
    return Stored(parts, group, not error.startswith(_LOGLESS))


def _beginning(name: pa.StringScalar) -> str:
    """More characters than `named` shows, if the name has them; it may have megabytes."""
    told = name.as_buffer()
    shown: bytes = told.slice(0, min(told.size, 4 * _NAME_CHARS_MAX + 4)).to_pybytes()
    return shown.decode(errors="ignore")


class Trouble:
    """Rows and groups that cannot be represented exactly, and why, in order of discovery."""

    def __init__(self) -> None:
        self._rows, self._groups = _Lists("and"), _Lists(f"{_GROUP_MORE}and")

    def note(self, rows: Ints, cause: Cause, *names: str) -> None:
        """One cause on each of these rows; none is named twice."""
        self._rows.add(rows, np.zeros(len(rows), dtype=np.int64), [(cause, names)])

    def note_group(self, groups: Ints, cause: Cause) -> None:
        """One cause on all rows of these groups; none is named twice."""
        self._groups.add(groups, np.zeros(len(groups), dtype=np.int64), [(cause, ())])

    def note_names(
        self, places: Ints, codes: Ints, names: pa.Array, cause: Cause, *, of_groups: bool
    ) -> None:
        """`cause` with the name `names[code]` in it, once a place (row or group) and code.

        Causes stay in the order of the row, so that a text follows from its row alone, whatever is read
        beside it. Otherwise reading a row again would seem to change it.
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
            found.add(where[these], code, [(cause, (named(_beginning(names[int(c)])),)) for c in used])
        over, times = np.unique(where[rank >= CAUSES_MAX], return_counts=True)
        counts, code = np.unique(times, return_inverse=True)
        found.add(over, code, counts.tolist())

    def only(self, row: int, cause: Cause) -> None:
        """The row has this cause and no other of its own: nothing else is known of it."""
        self._rows.only(row, cause)

    def of_rows(self, rows: int) -> Ints:
        """Which list of causes each of so many rows has; 0: none."""
        return self._rows.numbers(rows)

    def of_groups(self, groups: int) -> Ints:
        """Which list of causes each of so many groups has; 0: none."""
        return self._groups.numbers(groups)

    def unreadable(self, number: int) -> bool:
        """Whether the row whose list has this number is bytes that nobody can read."""
        return any(cause.unreadable for cause, _ in self._rows.causes(number))

    def text(self, number: int) -> str:
        """The causes of a row whose list has this number, bounded; "" without any."""
        return self._rows.text(number)

    def group_text(self, number: int) -> str:
        """The causes of a group whose list has this number, bounded; "" without any."""
        return self._groups.text(number)


class _Lists:
    """Lists of causes: each different list is kept once, and a place has the number of its list."""

    def __init__(self, more: str) -> None:
        self._more = more
        self._of = np.zeros(0, dtype=np.int64)
        self._lists: list[tuple[tuple[Told, ...], int]] = [((), 0)]
        self._numbers = {self._lists[0]: 0}

    def add(self, places: Ints, codes: Ints, causes: Sequence[Told | int]) -> None:
        """Add `causes[code]` to each place, or count it there once the list is full; no place is named
        twice."""
        if not len(places):
            return
        self._make_room(int(places.max()))
        kinds = len(causes)
        distinct, which = np.unique(self._of[places] * kinds + codes, return_inverse=True)
        after = [self._longer(number // kinds, causes[number % kinds]) for number in distinct.tolist()]
        self._of[places] = np.array(after, dtype=np.int64)[which]

    def only(self, place: int, cause: Cause) -> None:
        """The place has this cause and no other."""
        self._make_room(place)
        self._of[place] = self._longer(0, (cause, ()))

    def numbers(self, places: int) -> Ints:
        """The number of each of the first places."""
        self._make_room(places - 1)
        return self._of[:places]

    def causes(self, number: int) -> tuple[Told, ...]:
        """The causes of a list that are shown."""
        return self._lists[number][0]

    def text(self, number: int) -> str:
        """The causes of a list."""
        found, more = self._lists[number]
        shown = [cause.format(*names) for cause, names in found]
        return SEPARATOR.join([*shown, f"{self._more} {more:,} more"] if more else shown)

    def _longer(self, number: int, cause: Told | int) -> int:
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
