"""Why a row is not represented exactly: the words of `__error__`, and how many of them it holds.

`__error__` is causes joined by `SEPARATOR`, those of the LogGroup first. Whoever reads rows again must
know what `__raw__` holds and which causes are not the log's own; both are told by constants that begin
a cause, never by prose. A key that begins like one of them is quoted, so that no producer can write one.

A hostile log has millions of causes and a hostile group one on each of its rows, so a text holds the
first few and the number of the others.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    return told.slice(0, min(told.size, 4 * _NAME_CHARS_MAX + 4)).to_pybytes().decode(errors="ignore")


class Trouble:
    """Rows and groups that cannot be represented exactly, and why, in order of discovery."""

    def __init__(self) -> None:
        self._rows: dict[int, list[str]] = {}
        self._more: dict[int, int] = {}
        self._groups: dict[int, list[str]] = {}
        self._groups_more: dict[int, int] = {}

    def note(self, rows: Iterable[int], cause: str) -> None:
        """One cause on each of these rows."""
        for row in rows:
            _add(self._rows, self._more, int(row), cause)

    def note_group(self, groups: Iterable[int], cause: str) -> None:
        """One cause on all rows of these groups."""
        for group in groups:
            _add(self._groups, self._groups_more, int(group), cause)

    def note_names(self, places: Ints, codes: Ints, names: pa.Array, cause: str, *, of_groups: bool) -> None:
        """`cause` with the name `names[code]` in it, once a place (row or group) and code.

        In the order in which they come, so that a text follows from its row alone, whatever is read
        beside it: else reading a row again would seem to change it.
        """
        found, more = (self._groups, self._groups_more) if of_groups else (self._rows, self._more)
        kinds = len(names)
        distinct, first = np.unique(places * kinds + codes, return_index=True)
        distinct = distinct[np.lexsort((first, distinct // kinds))]
        where, which = distinct // kinds, distinct % kinds
        rank = np.arange(len(where)) - np.searchsorted(where, where)
        for place, code in zip(where[rank < CAUSES_MAX], which[rank < CAUSES_MAX], strict=True):
            _add(found, more, int(place), cause.format(named(_beginning(names[int(code)]))))
        over, times = np.unique(where[rank >= CAUSES_MAX], return_counts=True)
        for place, count in zip(over.tolist(), times.tolist(), strict=True):
            more[place] = more.get(place, 0) + count

    def only(self, row: int, cause: str) -> None:
        """The row has this cause and no other of its own: nothing else is known of it."""
        self._rows[row] = [cause]
        self._more.pop(row, None)

    def rows(self) -> list[int]:
        """Rows with causes of their own."""
        return sorted(self._rows)

    def groups(self) -> list[int]:
        """Groups with causes."""
        return sorted(self._groups)

    def group_text(self, group: int) -> str:
        """The causes of a group, bounded; "" without any."""
        shown = list(self._groups.get(group, ()))
        if more := self._groups_more.get(group):
            shown.append(f"{GROUP_MORE}and {more:,} more")
        return SEPARATOR.join(shown)

    def text(self, row: int) -> str:
        """The row's own causes, bounded; "" without any."""
        shown = list(self._rows.get(row, ()))
        if more := self._more.get(row):
            shown.append(f"and {more:,} more")
        return SEPARATOR.join(shown)


def _add(found: dict[int, list[str]], more: dict[int, int], place: int, cause: str) -> None:
    causes = found.setdefault(place, [])
    if len(causes) < CAUSES_MAX:
        causes.append(cause)
    else:
        more[place] = more.get(place, 0) + 1
