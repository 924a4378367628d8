"""Why a row is not represented exactly: the words of `__error__`, and how many of them it holds.

`__error__` is causes joined by `SEPARATOR`, those of the LogGroup first. Within the decoder a cause is a
`Cause`, with what it names beside it. A hostile log can have millions of causes, and a hostile group one on
each of its rows. So a text holds the first few causes and the number of the others.

A row is read again from its log's bytes, and of these all causes of the log follow anew: nobody reads them in
the text. Those of the group do not follow from the row. Two groups have the tags host=a, host=a and host=a:
their rows are alike but for `repeated tag host`. A topic that shows `\\xff` was the byte 0xff, or these four
characters. So their words in the text are the only place that knows them, and they are values there: no cause
of a log is written with the beginning of one of a group.

Rows that landed before that was so are read by two questions. Is it, word for word, the form of a group's
cause? `tag is not int` is not: it names the log's key `tag`. Does the row show what it says? A topic without
any `\\xff` was text; then `topic is not UTF-8` names the log's key `topic`. Only where the topic shows one,
and the log's own `topic` is no text either, nobody can tell; then it counts as the group's and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sls_io.values.errors import printable

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
    NO_TIME = "time is missing or over 32 bits"
    """Also where seconds were meant and milliseconds were sent. Earlier releases: `time is missing`."""
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
_OF_TAGS = (Cause.TAG_PART, Cause.TAG_BYTES, Cause.TAG_BASE64, Cause.TAG_REPEATED)
_RESERVED = (
    *(Cause.UNREADABLE_LOG, *_LOGLESS, Cause.WITHHELD),
    *(Cause.TOPIC_BYTES, Cause.SOURCE_BYTES, "tag ", "repeated tag ", Cause.HEAD_ONCE, _GROUP_MORE),
)
"""No cause that names a key of a log begins like one of these."""
_TAG_FORMS = tuple(re.compile(re.escape(form).replace(r"\{\}", "(.*)")) for form in _OF_TAGS)
_MORE_FORM = re.compile(rf"{_GROUP_MORE}and [0-9,]+ more")
_ESCAPED = re.compile(r"\\x[89a-f][0-9a-f]")
_MORE_TAIL = re.compile(rf"\A({_GROUP_MORE})?and [0-9,]+ more\Z")
CAUSES_MAX = 8
"""The most causes that a text shows of the group, and of the log."""
MORE = f"more than {CAUSES_MAX} causes"
"""What `and N more` at the end of a text counts as; dbt's macro `causes_of` says the same."""
UNNAMED = (f"{_GROUP_MORE}{MORE}", MORE)
"""The same of the group, and of the log. No cause that has a name reads so."""
_NAME_CHARS_MAX = 64

Ints = NDArray[np.int64]
Told = tuple[Cause, tuple[str, ...]]
"""A cause with what it names."""


def named(name: str) -> str:
    """A key or tag as a cause shows it: short, printable, and never the end of its cause."""
    # With a blank, as in most causes one follows: `a;` would end its cause there.
    return f"{printable(name, _NAME_CHARS_MAX)} ".replace(SEPARATOR, ", ")[:-1]


def listed(error: str) -> tuple[str, ...]:
    """The causes in an `__error__`, for people."""
    return tuple(error.split(SEPARATOR))


def counted(error: str) -> tuple[str, ...]:
    """The causes in an `__error__` for those who count rows by cause, each once.

    `and 4 more` names none, and as it stands it would be one cause for each number. It counts as `MORE`. A
    row of 12 causes is missing in the counts of four of them: where `MORE` is counted, each count is a lower
    bound.
    """
    return tuple(dict.fromkeys(_MORE_TAIL.sub(rf"\g<1>{MORE}", part) for part in listed(error)))


def holds_log(error: str) -> bool:
    """Whether `__raw__` beside this `__error__` is the bytes of one log, and not of a group or page."""
    return listed(error)[0].partition(":")[0] not in _LOGLESS


@dataclass(frozen=True, slots=True)
class HeadShown:
    """Topic, source and names of the tags as a row shows them."""

    topic: str | None
    source: str | None
    tags: Collection[str]

    def causes(self, error: str) -> tuple[str, ...]:
        """Those in the `__error__` of its row that are about the LogGroup, of this release or an earlier
        one."""
        parts = listed(error)
        once = [part for part in parts if part == Cause.HEAD_ONCE or _MORE_FORM.fullmatch(part)]
        unseen = bool(once) and self.topic is None and self.source is None and not self.tags
        found = (part for part in parts if part in once or self._shows(part, unseen=unseen))
        return tuple(dict.fromkeys(found))

    def _shows(self, part: str, *, unseen: bool) -> bool:
        """Whether this is a cause of a group, and of this one; what is `unseen` is believed.

        A text counts where the row bears it out: `topic is not UTF-8` with a topic that has an escape in it,
        `base64` with one that begins so, a tag's name with a tag of that name. Any other word for word alike
        is a log's key.
        """
        texts = {
            Cause.TOPIC_BYTES: self.topic,
            Cause.TOPIC_BASE64: self.topic,
            Cause.SOURCE_BYTES: self.source,
            Cause.SOURCE_BASE64: self.source,
        }
        for cause, text in texts.items():
            if part == cause:
                base64 = cause in (Cause.TOPIC_BASE64, Cause.SOURCE_BASE64)
                fits = (text or "").startswith("base64:") if base64 else _ESCAPED.search(text or "")
                return unseen or bool(fits)
        names = [found[1] for form in _TAG_FORMS if (found := form.fullmatch(part))]
        if unseen or not names:
            return bool(names)
        # Earlier releases wrote the name of a tag that begins like a cause with `key` before it.
        shown = {before + named(tag) for tag in self.tags for before in ("", "key ")}
        return not shown.isdisjoint(names)


def _beginning(name: pa.StringScalar) -> str:
    """More characters than `named` shows, if the name has them; it may have megabytes."""
    told = name.as_buffer()
    shown: bytes = told.slice(0, min(told.size, 4 * _NAME_CHARS_MAX + 4)).to_pybytes()
    return shown.decode(errors="ignore")


def _of_group(told: Told) -> str:
    cause, names = told
    return cause.format(*names)


def _of_log(told: Told) -> str:
    """Quoted where a producer's key would make it look like what it is not."""
    text = _of_group(told)
    return f"key {text}" if told[1] and text.startswith(_RESERVED) else text


class PageTrouble:
    """Rows and groups that cannot be represented exactly, and why, in order of discovery."""

    def __init__(self) -> None:
        self._rows, self._groups = _Lists("and", _of_log), _Lists(f"{_GROUP_MORE}and", _of_group)

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

        Place and code go into one number, so that numpy finds the distinct pairs. Worked example: of 3 names,
        places 4, 4 and 2 have the codes 1, 1 and 0: the numbers are 13, 13 and 6, so place 2 has name 0, and
        place 4 name 1, once. `rank` counts within a place: those of rank 0 are added in one step, then those
        of rank 1, and so on; what is beyond `CAUSES_MAX` is a number only.
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
    """Lists of causes: each different list is kept once, and a place has the number of its list.

    Rows in the same trouble share a list. So the cost is that of the different lists and not of the rows: a
    million rows with one cause are one list and an array of a million ones.
    """

    def __init__(self, more: str, told: Callable[[Told], str]) -> None:
        self._more, self._told = more, told
        self._of = np.zeros(0, dtype=np.int64)
        self._lists: list[tuple[tuple[Told, ...], int]] = [((), 0)]
        self._numbers = {self._lists[0]: 0}

    def add(self, places: Ints, codes: Ints, causes: Sequence[Told | int]) -> None:
        """Add `causes[code]` to each place, or count it there once the list is full; no place is named
        twice.

        `_of * kinds + codes` numbers each pair of a list and a cause; each distinct one is looked up once,
        and the places get the answer by `which`.
        """
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
        shown = [self._told(each) for each in found]
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
