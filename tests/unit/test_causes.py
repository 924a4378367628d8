"""The text of `__error__`: bounded, and told apart by constants that no producer can write."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.landing.spark.dbt_environment import dbt_folder
from sls_io.decoding import causes
from sls_io.decoding.causes import CAUSES_MAX, Cause, PageTrouble

SHOWN = causes.HeadShown("T\\xff", "base64:/w==", ["host"])
"""A head that bears out whatever is said of it."""
PLAIN = causes.HeadShown("t", "s", [])


def test_a_row_with_very_many_causes_names_the_first_and_counts_the_others() -> None:
    trouble = PageTrouble()
    names = pa.array([f"k{n}" for n in range(2006)])
    codes = np.arange(2006)[::-1]
    trouble.note_names(np.zeros(2006, dtype=np.int64), codes, names, Cause.KEY_REPEATED, of_groups=False)
    parts = causes.listed(trouble.text(int(trouble.of_rows(1)[0])))
    assert parts[0] == "repeated key k2005", "in the order in which they come"
    assert len(parts) == CAUSES_MAX + 1 and parts[-1] == "and 1,998 more"


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("a has no value; and 4 more", ("a has no value", "more than 8 causes")),
        ("of its group: and 1,998 more; n is not int", ("of its group: more than 8 causes", "n is not int")),
        ("of its group: and 1 more; and 2 more", ("of its group: more than 8 causes", "more than 8 causes")),
        ("a has no value; a has no value", ("a has no value",)),
        (
            "and 4 more is not int; repeated key and 4 more",
            ("and 4 more is not int", "repeated key and 4 more"),
        ),
    ],
)
def test_that_a_row_has_more_causes_counts_as_one_of_its_own(text: str, counted: tuple[str, ...]) -> None:
    assert causes.counted(text) == counted


def test_dbt_counts_by_the_same_words() -> None:
    macro = (dbt_folder() / "macros" / "causes_of.sql").read_text("utf-8")
    assert f"$1{causes.MORE}'" in macro


def test_causes_of_the_group_are_counted_apart_and_say_whose_they_are() -> None:
    trouble = PageTrouble()
    tags = list("abcdefghijklmnopqrst")
    trouble.note_names(np.repeat(3, 20), np.arange(20), pa.array(tags), Cause.TAG_BYTES, of_groups=True)
    text = trouble.group_text(int(trouble.of_groups(4)[3]))
    parts = causes.listed(text)
    assert causes.HeadShown(None, None, tags).causes(text) == parts
    assert causes.HeadShown(None, None, []).causes(text) == parts, "what is too large to repeat is not seen"
    assert parts[-1] == "of its group: and 12 more"


@pytest.mark.parametrize(
    "word",
    [
        *(cause for cause in Cause if cause.unreadable),
        *(Cause.TOPIC_BYTES, Cause.SOURCE_BYTES, Cause.HEAD_ONCE, Cause.WITHHELD),
        *("tag ", "repeated tag ", "of its group: "),
    ],
)
@pytest.mark.parametrize("cause", [Cause.NO_VALUE, Cause.VALUE_BYTES])
def test_a_key_that_looks_like_a_cause_is_not_taken_for_one(word: str, cause: Cause) -> None:
    trouble = PageTrouble()
    names = pa.array([word + "x"])
    trouble.note_names(
        np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), names, cause, of_groups=False
    )
    text = trouble.text(int(trouble.of_rows(1)[0]))
    assert causes.holds_log(text) and SHOWN.causes(text) == ()
    assert not text.startswith(word)


@pytest.mark.parametrize(
    ("key", "shown"), [("a; tag b", "a, tag b"), ("a;", "a,"), (";", ","), ("a;b", "a;b")]
)
@pytest.mark.parametrize("cause", [Cause.TAG_PART, Cause.NO_VALUE, Cause.KEY_REPEATED])
def test_a_key_cannot_end_a_cause_and_begin_another(key: str, shown: str, cause: Cause) -> None:
    text = cause.format(causes.named(key))
    assert causes.listed(f"{text}; {Cause.NO_TIME}") == (cause.format(shown), Cause.NO_TIME)


def test_only_a_group_or_a_page_has_other_bytes_than_a_log() -> None:
    for text in ("n is not long", Cause.UNREADABLE_LOG, Cause.TOO_MANY_KEYS):
        assert causes.holds_log(text)
    for whole in (Cause.UNREADABLE_GROUP, Cause.UNREADABLE_PAGE, Cause.TOO_MANY_TAGS):
        assert not causes.holds_log(f"{whole}; {Cause.WITHHELD}")


# Texts that tables have: a word that changes in `Cause` must not change how these are read.
STORED = {
    "topic is not UTF-8": True,
    "source is not UTF-8, shown whole as base64": True,
    "tag host has no key or no value": True,
    "tag host is not UTF-8": True,
    "repeated tag host": True,
    "topic, source and tags are too large to repeat: they stand at index 0 of the group": True,
    "of its group: and 12 more": True,
    "and 12 more": False,
    "status is not long": False,
    "tag is not long": False,
    "tag is not UTF-8": False,
    "tag has no value": False,
    "key tag x has no value": False,
    "repeated key status": False,
    "a key is not UTF-8": False,
    "time is missing": False,
    "time is missing or over 32 bits": False,
    "bytes withheld: a key declared drop or hash may be in them": False,
}


@pytest.mark.parametrize(("text", "of_group"), STORED.items())
def test_what_an_earlier_release_stored_is_read_as_it_was_meant(text: str, of_group: bool) -> None:
    stored = f"n is not long; {text}"
    assert causes.listed(stored) == ("n is not long", text) and causes.holds_log(stored)
    assert SHOWN.causes(stored) == ((text,) if of_group else ())


@pytest.mark.parametrize(
    "text",
    [
        *("topic is not UTF-8", "topic is not UTF-8, shown whole as base64"),
        *("source is not UTF-8", "source is not UTF-8, shown whole as base64"),
        *("tag host is not UTF-8", "repeated tag host", "tag host has no key or no value"),
    ],
)
def test_a_stored_cause_of_a_group_that_the_row_does_not_show_is_its_logs(text: str) -> None:
    assert PLAIN.causes(text) == ()


def test_a_tag_that_an_earlier_release_quoted_is_known_again() -> None:
    head = causes.HeadShown("t", "s", ["tag x", "y" * 1000])
    stored = f"repeated tag key tag x; tag {'y' * 64}... is not UTF-8"
    assert head.causes(stored) == causes.listed(stored)


@pytest.mark.parametrize(
    ("text", "holds_log"),
    [
        ("log cannot be read", True),
        ("log cannot be read: over 250,000 keys", True),
        ("group cannot be read: over 250,000 tags", False),
        ("group cannot be read", False),
        ("page cannot be read; bytes withheld: a key declared drop or hash may be in them", False),
    ],
)
def test_what_an_earlier_release_kept_of_an_unreadable_log_is_known(text: str, holds_log: bool) -> None:
    assert causes.holds_log(text) == holds_log


def test_each_row_has_its_own_causes_in_the_order_in_which_they_were_found() -> None:
    rng, kinds = np.random.default_rng(3), (Cause.NO_VALUE, Cause.VALUE_BYTES, Cause.KEY_REPEATED)
    trouble, names = PageTrouble(), pa.array([f"k{n}" for n in range(30)])
    found: dict[int, list[str]] = {row: [] for row in range(200)}
    for step in range(40):
        if step % 2:
            rows = np.flatnonzero(rng.random(200) < 0.3)
            trouble.note(rows, Cause.MISFIT, f"n{step}", "long")
            for row in rows.tolist():
                found[row].append(f"n{step} is not long")
            continue
        places, codes = np.sort(rng.integers(0, 200, 150)), rng.integers(0, 30, 150)
        trouble.note_names(places, codes, names, kinds[step % 3], of_groups=False)
        for row in set(places.tolist()):
            named = dict.fromkeys(codes[places == row].tolist())
            found[row] += [kinds[step % 3].format(f"k{code}") for code in named]
    trouble.only(7, Cause.UNREADABLE_LOG)
    found[7] = ["log cannot be read"]
    for row, number in enumerate(trouble.of_rows(200).tolist()):
        shown, more = found[row][:CAUSES_MAX], len(found[row]) - CAUSES_MAX
        assert trouble.text(number) == "; ".join(shown + ([f"and {more:,} more"] if more > 0 else []))
