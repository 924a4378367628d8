"""Which run of a deployment is the newer one, and which landings were aborted: pure, and as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.epochs import Epoch
from sls_io.values.errors import ConfigError, LedgerBroken

NAMES = st.from_regex(r"[A-Za-z0-9_.\-]{1,20}/[A-Za-z0-9_.\-]{1,20}", fullmatch=True)
RUNS = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
EPOCHS = st.builds(Epoch, st.integers(0, 2**40), RUNS)


def test_a_run_that_began_later_fences_one_that_has_not_committed_and_not_the_other_way_round() -> None:
    a, b = epochs.taken("a" * 32, 100, None), epochs.taken("b" * 32, 160, None)
    assert a.fenced_by(b) and not b.fenced_by(a)
    assert not a.fenced_by(None) and not a.fenced_by(a)


def test_of_two_that_began_in_one_second_the_one_that_has_committed_fences_the_other() -> None:
    a, b = epochs.taken("a" * 32, 100, None), epochs.taken("b" * 32, 100, None)
    assert a.fenced_by(b) and b.fenced_by(a)


@given(EPOCHS, st.integers(0, 2**40))
def test_who_has_read_the_table_is_newer_than_what_it_says_however_late_its_clock_is(
    newest: Epoch, begun_s: int
) -> None:
    mine = epochs.taken("f" * 32, begun_s, newest)
    assert mine.number > newest.number and mine.number >= begun_s
    assert not mine.fenced_by(newest)


@given(st.dictionaries(NAMES, EPOCHS, max_size=epochs.DEPLOYMENTS_MAX))
def test_the_text_of_epochs_says_them_all(known: dict[str, Epoch]) -> None:
    assert epochs.decode("o", epochs.encode(known)) == known


def test_of_too_many_deployments_those_that_committed_last_stay() -> None:
    known = {f"lake/host-{n}": Epoch(n, f"{n:08x}") for n in range(200)}
    kept = epochs.decode("o", epochs.encode(known))
    assert len(kept) == epochs.DEPLOYMENTS_MAX and min(e.number for e in kept.values()) == 136


@given(st.dictionaries(RUNS, st.integers(0, 2**40), max_size=20))
def test_the_text_of_aborted_landings_says_them_all(aborted: dict[str, int]) -> None:
    assert epochs.decode_aborted(epochs.encode_aborted(aborted)) == aborted


def test_an_aborted_landing_stays_named_until_nobody_could_publish_it() -> None:
    aborted = epochs.with_aborted({"00000001": 0}, "00000002", now_s=99, kept_s=100)
    assert aborted == {"00000001": 0, "00000002": 99}
    assert epochs.with_aborted(aborted, "00000003", now_s=100, kept_s=100) == {
        "00000002": 99,
        "00000003": 100,
    }


def test_none_is_forgotten_early_to_make_room_for_another() -> None:
    full = {f"{n:08x}": 10 for n in range(epochs.ABORTED_MAX)}
    with pytest.raises(ConfigError, match="no more are kept"):
        epochs.with_aborted(full, "ffffffff", now_s=20, kept_s=100)
    assert epochs.with_aborted(full, "00000000", now_s=20, kept_s=100)["00000000"] == 20


@pytest.mark.parametrize("text", ["lake", "lake/x=", "lake/x=1", "lake/x=1:", "=1:a", "lake/x=-1:a"])
def test_what_somebody_else_wrote_there_stops_and_says_how_to_settle_it(text: str) -> None:
    with pytest.raises(LedgerBroken, match="which runs may commit") as caught:
        epochs.decode("o", text)
    assert "remove the property" in str(caught.value.cures)


@pytest.mark.parametrize("text", ["a", "a@", "@1", "a@b"])
def test_the_same_of_aborted_landings(text: str) -> None:
    with pytest.raises(LedgerBroken, match="which runs may commit") as caught:
        epochs.decode_aborted(text)
    assert "remove the property" in str(caught.value.cures)
