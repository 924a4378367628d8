"""Column types, text by text."""

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fuzz import oracle
from pipelines.landing.table.contract import Contract
from sls_io.values.errors import ConfigError


def cast(kind: str, *texts: str | None) -> list[Any]:
    """What `texts` become in a column of this type, together and one by one alike."""
    (declared,) = Contract.from_columns({"c": kind}).declared
    assert declared.convert is not None
    whole = declared.convert(pa.array(texts, pa.string()))
    whole.validate(full=True)
    assert whole.type == declared.type and len(whole) == len(texts)
    singly = [declared.convert(pa.array([t], pa.string())) for t in texts]
    found: list[Any] = whole.to_pylist()
    assert repr(found) == repr([s[0].as_py() for s in singly])
    return found


WRONG = (
    None,
    "",
    " ",
    "x",
    "-",
    "+",
    ".",
    "1 2",
    " 1",
    "1 ",
    "1\n",
    "0x10",
    "１",
    "1_000",
    "1,5",
    "nul",
    "\x00",
)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("int", -(2**31), 2**31 - 1), ("long", -(2**63), 2**63 - 1)]
)
def test_whole_numbers_fit_to_the_last_one_in_range(kind: str, low: int, high: int) -> None:
    assert cast(kind, "0", "-0", "007", "-5", str(low), str(high)) == [0, 0, 7, -5, low, high]
    out = (str(low - 1), str(high + 1), "1.0", "1e3", "--1", "1-", "9" * 60, "+5")
    assert cast(kind, *WRONG, *out, "42") == [None] * (len(WRONG) + len(out)) + [42]


@pytest.mark.parametrize("kind", ["float", "double"])
def test_numbers_fit_with_exponents_and_infinite_only_when_they_say_so(kind: str) -> None:
    assert cast(kind, "1.5", "+1.5", "-.5", "5.", "2e3", "1E-2", "0")[:5] == [1.5, 1.5, -0.5, 5.0, 2000.0]
    found = cast(kind, "inf", "-Infinity", "NaN", "INF")
    assert found[0] == found[3] == float("inf") and found[1] == float("-inf") and found[2] != found[2]
    out = ("1e999", "-1e999", "1e", "e5", "1.2.3", "infinit", "nan(1)", "0x1p3", "1d", "--1")
    assert cast(kind, *WRONG, *out, "1") == [None] * (len(WRONG) + len(out)) + [1.0]


def test_a_number_too_large_for_float_fits_double_only() -> None:
    assert (cast("float", "1e39", "1"), cast("double", "1e39")) == ([None, 1.0], [1e39])


def test_booleans_are_four_words() -> None:
    found = cast("boolean", "true", "FALSE", "1", "0", "True", *WRONG, "yes", "t", "01", "ture")
    assert found[:5] == [True, False, True, False, True]
    assert set(found[5:]) == {None}


def test_decimals_fit_when_nothing_is_rounded() -> None:
    found = cast("decimal(5,2)", "1", "1.5", "-999.99", ".5", "5.", "1.500", "0001")
    assert found == [Decimal(t) for t in ("1", "1.5", "-999.99", "0.5", "5", "1.5", "1")]
    out = ("1.234", "1000", "99999.99", "1e2", "+1", "--1", "1.2.3", "9" * 50, "nan")
    assert cast("decimal(5,2)", *WRONG, *out) == [Decimal(1) if t == "1" else None for t in (*WRONG, *out)]


def test_dates_are_days_that_exist() -> None:
    assert cast("date", "2024-02-29", "0001-01-01", "9999-12-31") == [date(2024, 2, 29), date.min, date.max]
    out = ("2023-02-29", "2024-13-01", "2024-00-10", "2024-1-1", "20240101", "0000-01-01", "2024-01-01T00:00")
    assert cast("date", *WRONG, *out) == [None] * (len(WRONG) + len(out))


# --- exact, or an error row ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("decimal(38,10)", "-34105823913873464676053077532191266"),
        ("decimal(12,3)", "340282366920938463463374607431768212.456"),
        ("decimal(5,2)", "3402823669209384634633746074317682115.56"),
        ("decimal(38,0)", "340282366920938463463374607431768211457"),
        ("decimal(12,0)", "340282366920938463463374607431768210720."),
        ("decimal(10,10)", "68056473384187692692674921486.3536422103"),
        ("decimal(38,1)", "-29788100537679021721268271903296857425.0"),
    ],
)
def test_a_decimal_that_runs_over_in_128_bits_does_not_come_back_as_another_number(
    kind: str, text: str
) -> None:
    assert cast(kind, text, "0.0") == [None, Decimal(0)]


@pytest.mark.parametrize(
    ("precision", "scale"), [(1, 0), (1, 1), (18, 9), (38, 0), (38, 10), (38, 37), (38, 38)]
)
def test_decimals_fit_to_the_last_unit_whatever_zeros_stand_around(precision: int, scale: int) -> None:
    digits = "9" * precision
    last = digits[: precision - scale] + ("." + digits[precision - scale :] if scale else "")
    texts = [last, "-" + last, "0" * 60 + last, last + ("" if scale else ".") + "0" * 60]
    assert cast(f"decimal({precision},{scale})", *texts) == [Decimal(t) for t in texts]
    over = ["1" + "0" * (precision - scale), (last if scale else last + ".") + "1", "1" + last]
    assert cast(f"decimal({precision},{scale})", *over, *("-" + t for t in over)) == [None] * 6


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("float", ("1e-50", "-1e-50", "7e-46", "7.006492321624085e-46", "0." + "0" * 45 + "7", "1e-400")),
        (
            "double",
            ("1e-400", "-1e-324", "2.4703282292062327e-324", "0." + "0" * 323 + "1", "1e-" + "9" * 30),
        ),
    ],
)
def test_a_number_that_is_not_zero_never_becomes_zero(kind: str, texts: tuple[str, ...]) -> None:
    assert cast(kind, *texts, "1", "x") == [None] * len(texts) + [1.0, None]
    assert cast(kind, *texts, "1") == [None] * len(texts) + [1.0]
    assert cast(kind, "0", "-0.0", "0e-999", ".0E99", "+0.") == [0.0] * 5


def test_a_float_is_rounded_once() -> None:
    """By way of a double, 1 + 2**-24 + 2**-60 would first become the middle of two floats, then 1."""
    middle = Decimal(1) + Decimal(2) ** -24
    texts = [
        f"{middle}",
        f"{middle}{'0' * 40}1",
        f"{middle - Decimal(10) ** -25}",
        "16777217.0000000000000000001",
    ]
    assert cast("float", *texts) == [1.0, 1.0 + 2.0**-23, 1.0, 16777218.0]
    edge = 2**128 - 2**103
    assert cast("float", f"{edge}", f"{edge - 1}") == [None, 2.0**128 - 2.0**104]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("timestamp(%d/%b/%Y:%H:%M:%S %z)", "10/\u017fep/2000:13:55:36 +0000"),
        ("timestamp(%d/%b/%Y:%H:%M:%S %z)", "10/\uff33ep/2000:13:55:36 +0000"),
        ("timestamp(%d/%b/%Y:%H:%M:%S %z)", "1\u0660/Sep/2000:13:55:36 +0000"),
        ("timestamp(iso, UTC)", "\u0662\u0660\u0662\u0664-01-02"),
        ("timestamp(epoch_s)", "\uff11\uff17"),
        ("boolean", "fal\u017fe"),
        ("boolean", "\uff11"),
        ("double", "\u0131nf"),
        ("double", "1\uff455"),
        ("float", "\u22121"),
        ("decimal(5,2)", "1\u066b5"),
        ("long", "\u0661\u0662"),
        ("long", "1_0"),
        ("date", "2024-01-0\u0968"),
    ],
)
def test_what_only_looks_like_a_letter_or_a_digit_does_not_fit(kind: str, text: str) -> None:
    assert cast(kind, text) == [None]


SMALL = {
    "int": "-+.019 e",
    "decimal(3,1)": "-+.019 ",
    "decimal(2,2)": "-+.019",
    "float": "-+.05eE ",
    "double": "-+.05e",
    "boolean": "truefals01",
    "timestamp(epoch_s)": "-+.09",
}


@pytest.mark.parametrize("kind", SMALL)
def test_every_short_text_alone_is_read_as_the_grammar_says(kind: str) -> None:
    """Alone, so that each text decides by itself whether the quick way is taken."""
    readings = {
        "int": oracle.whole_number(32),
        "decimal(3,1)": oracle.decimal(3, 1),
        "decimal(2,2)": oracle.decimal(2, 2),
        "float": oracle.single,
        "double": oracle.double,
        "boolean": oracle.boolean,
        "timestamp(epoch_s)": oracle.epoch(10**6),
    }
    (declared,) = Contract.from_columns({"c": kind}).declared
    assert declared.convert is not None
    for size in range(5):
        for letters in itertools.product(dict.fromkeys(SMALL[kind]), repeat=size):
            text = "".join(letters)
            value = declared.convert(pa.array([text], pa.string()))[0]
            found = value.cast(pa.int64()).as_py() if kind.startswith("timestamp") else value.as_py()
            assert repr(found) == repr(readings[kind](text)) or found == readings[kind](text), text


def test_texts_in_a_string_column_are_kept_as_they_are() -> None:
    (declared,) = Contract.from_columns({"c": "string"}).declared
    assert (declared.type, declared.convert) == (pa.string(), None)


def test_a_slice_of_a_larger_array_is_read_as_if_it_were_all() -> None:
    whole = pa.array(["x", "1e-400", "7", None, "8", "1e400", "y"], pa.string())
    for kind in ("int", "double", "decimal(38,38)", "decimal(3,1)", "date", "timestamp(epoch_s)"):
        (declared,) = Contract.from_columns({"c": kind}).declared
        assert declared.convert is not None
        alone = [declared.convert(whole[at : at + 1]).to_pylist()[0] for at in range(len(whole))]
        for begin, end in itertools.combinations(range(len(whole) + 1), 2):
            assert declared.convert(whole[begin:end]).to_pylist() == alone[begin:end]


# --- neighbours ---------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text("0123456789+-.eE", max_size=12),
    st.text("infatrule10INF ", max_size=8),
    st.dates().map(str),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=5),
    st.none(),
)


@pytest.mark.parametrize(
    "kind",
    [
        "int",
        "long",
        "float",
        "double",
        "boolean",
        "date",
        "decimal(7,3)",
        "timestamp(iso)",
        "timestamp(epoch_s)",
    ],
)
@given(texts=st.lists(TEXTS, max_size=12))
@example(texts=[])
@example(texts=[None])
def test_what_a_text_becomes_never_depends_on_its_neighbours(kind: str, texts: list[str | None]) -> None:
    cast(kind, *texts)


@given(st.lists(st.integers(-(2**31), 2**31 - 1)), st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_every_number_python_prints_fits_exactly(whole: list[int], numbers: list[float]) -> None:
    assert cast("int", *map(str, whole)) == whole
    assert cast("long", *map(str, whole)) == whole
    assert cast("double", *map(repr, numbers)) == numbers


# --- timestamps --------------------------------------------------------------------------------

APACHE = "%d/%b/%Y:%H:%M:%S %z"
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda m: timedelta(minutes=m))


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_the_access_logs_time_is_read_with_its_offset() -> None:
    found = cast(f"timestamp({APACHE})", "11/Dec/2024:10:00:01 +0800", "29/feb/2024:23:59:59 -01:30")
    assert found == [utc(2024, 12, 11, 2, 0, 1), utc(2024, 3, 1, 1, 29, 59)]


def test_times_that_do_not_exist_do_not_fit() -> None:
    wrong = [f"{d}:10:00:00 +0000" for d in ("30/Feb/2024", "29/Feb/2023", "01/Foo/2024", "1/Jan/2024")]
    wrong += [f"{d}:10:00:00 +0000" for d in ("00/Jan/2024", "32/Jan/2024", "01/Jan/0000", "01/Jan/24")]
    wrong += [f"01/Jan/2024:{t}" for t in ("24:00:00 +0000", "10:60:00 +0000", "10:00:60 +0000", "10:00:00")]
    wrong += [f"01/Jan/2024:10:00:00 {z}" for z in ("+2400", "+0060", "+0000 ", "UTC", "+08", "")]
    wrong += ["01/Jan/0001:00:00:00 +0100", "31/Dec/9999:23:59:59 -0100"]
    assert cast(f"timestamp({APACHE})", *WRONG, *wrong) == [None] * (len(WRONG) + len(wrong))


@given(st.lists(st.tuples(MOMENTS, OFFSETS), max_size=8))
def test_timestamps_agree_with_python(cases: list[tuple[datetime, timedelta]]) -> None:
    moments = [moment.replace(tzinfo=UTC) for moment, _ in cases]
    local = [m.astimezone(ZoneInfo("UTC")) + o for m, (_, o) in zip(moments, cases, strict=True)]
    signs = [("-" if o < timedelta(0) else "+", abs(o) // timedelta(minutes=1)) for _, o in cases]
    zones = [f"{sign}{minutes // 60:02}{minutes % 60:02}" for sign, minutes in signs]
    texts = [f"{t:%Y-%m-%d}T{t:%H:%M:%S.%f}{z}" for t, z in zip(local, zones, strict=True)]
    texts = [t.rjust(len("0001-01-01T00:00:00.000000+0000"), "0") for t in texts]
    assert cast("timestamp(iso)", *texts) == moments
    assert cast("timestamp(%Y-%m-%dT%H:%M:%S.%f%z)", *texts) == moments


def test_the_leap_day_is_that_of_the_gregorian_calendar() -> None:
    days = [f"{year}-02-29" for year in (1600, 1700, 1900, 1904, 2000, 2023, 2024, 2100)]
    leap = [utc(year, 2, 29) for year in (1600, 1904, 2000, 2024)]
    assert [t for t in cast("timestamp(iso, UTC)", *days) if t is not None] == leap


def test_iso_takes_the_usual_shapes() -> None:
    texts = ["2024-01-02", "2024-01-02T03:04", "2024-01-02 03:04:05", "2024-01-02T03:04:05,5Z"]
    texts += ["2024-01-02T03:04:05.123456+08", "2024-01-02t03:04:05.100000000z", "2024-01-02 03:04:05 +00:00"]
    assert cast("timestamp(iso, UTC)", *texts) == [
        utc(2024, 1, 2),
        utc(2024, 1, 2, 3, 4),
        utc(2024, 1, 2, 3, 4, 5),
        utc(2024, 1, 2, 3, 4, 5, 500_000),
        utc(2024, 1, 1, 19, 4, 5, 123_456),
        utc(2024, 1, 2, 3, 4, 5, 100_000),
        utc(2024, 1, 2, 3, 4, 5),
    ]


def test_what_is_finer_than_microseconds_does_not_fit() -> None:
    assert cast("timestamp(iso)", "2024-01-02T03:04:05.1234567Z") == [None]
    assert cast("timestamp(epoch_s)", "1.0000001") == [None]
    assert cast("timestamp(epoch_ms)", "1.0001") == [None]


def test_a_time_without_an_offset_needs_a_zone() -> None:
    assert cast("timestamp(iso)", "2024-01-02T03:04:05") == [None]
    assert cast("timestamp(iso, Asia/Shanghai)", "2024-01-02T03:04:05", "2024-01-02T03:04:05Z") == [
        utc(2024, 1, 1, 19, 4, 5),
        utc(2024, 1, 2, 3, 4, 5),
    ]


def test_a_local_time_that_was_skipped_does_not_fit_and_one_that_came_twice_is_the_earlier() -> None:
    texts = ("2024-03-31 02:30:00", "2024-10-27 02:30:00", "2024-03-31 03:00:00")
    assert cast("timestamp(%F %T, Europe/Berlin)", *texts) == [
        None,
        utc(2024, 10, 27, 0, 30),
        utc(2024, 3, 31, 1),
    ]


def test_epochs_take_a_fraction_and_a_sign() -> None:
    found = cast("timestamp(epoch_s)", "1700000000", "1700000000.25", "0", "-1.5", "1.500000000")
    epoch = datetime.fromtimestamp(0, UTC)
    seconds = (1_700_000_000, 1_700_000_000.25, 0, -1.5, 1.5)
    assert found == [epoch + timedelta(seconds=s) for s in seconds]
    assert cast("timestamp(epoch_ms)", "1700000000123", "1.5") == [
        epoch + timedelta(milliseconds=1_700_000_000_123),
        epoch + timedelta(milliseconds=1.5),
    ]
    wrong = ("1e9", "253402300800", "-62135596801", "9" * 30, "1.", ".5", "+1", "--1")
    assert cast("timestamp(epoch_s)", *wrong) == [None] * len(wrong)


@pytest.mark.parametrize(
    ("zone", "local", "there"),
    [
        ("Europe/Berlin", "2040-07-01T12:00:00", utc(2040, 7, 1, 10)),
        ("America/New_York", "2200-07-01T12:00:00", utc(2200, 7, 1, 16)),
        ("Europe/Dublin", "2050-01-01T12:00:00", utc(2050, 1, 1, 12)),
        ("Australia/Lord_Howe", "2045-04-02T01:45:00", utc(2045, 4, 1, 14, 45)),
        ("Pacific/Apia", "2011-12-30T12:00:00", None),
        ("Africa/Monrovia", "1971-06-01T00:00:00", utc(1971, 6, 1, 0, 44, 30)),
    ],
)
def test_a_local_time_follows_its_zone_in_every_year(zone: str, local: str, there: datetime | None) -> None:
    """Arrow knows only the changes that a zone's file lists, and from 2038 on no summer."""
    assert cast(f"timestamp(iso, {zone})", local) == [there]


def test_an_offset_behind_a_day_alone_does_not_fit() -> None:
    """2024-01-02-08 may as well be eight o'clock."""
    texts = ("2024-01-02-08", "2024-01-02-08:00", "2024-01-02Z", "2024-01-02 +0800")
    assert cast("timestamp(iso, UTC)", *texts) == [None] * 4


def test_leading_zeros_of_an_epoch_are_free_as_those_of_numbers_are() -> None:
    found = cast("timestamp(epoch_s)", "0" * 30 + "1700000000", "-000062135596800", "-000062135596801")
    assert found == [datetime.fromtimestamp(1_700_000_000, UTC), utc(1, 1, 1), None]


def test_a_percent_sign_before_a_letter_is_no_directive() -> None:
    assert cast("timestamp(%Y-%m-%d %%F%%T, UTC)", "2024-01-02 %F%T") == [utc(2024, 1, 2)]


def test_a_year_of_two_digits_is_one_from_1969_to_2068() -> None:
    texts = [f"{year % 100:02}/11/26 01:12:43" for year in range(1969, 2069)]
    assert cast("timestamp(%y/%m/%d %T, UTC)", *texts, "6/11/26 01:12:43", "1969/11/26 01:12:43") == [
        *(utc(year, 11, 26, 1, 12, 43) for year in range(1969, 2069)),
        None,
        None,
    ]
    for form in ("%y %Y-%m-%d", "%m-%d", "%y%y-%m-%d"):
        with pytest.raises(ConfigError, match="time format"):
            cast(f"timestamp({form}, UTC)", "")


@pytest.mark.parametrize("form", ["%Y%m.%f%d", "%F %H.%f0", "%S%f%F"])
def test_a_format_that_can_be_read_in_two_ways_is_refused(form: str) -> None:
    with pytest.raises(ConfigError, match="where the fraction ends"):
        Contract.from_columns({"c": f"timestamp({form}, UTC)"})


@pytest.mark.parametrize(
    "zone", ["localtime", "Factory", "posixrules", "right/UTC", "Europe", "leapseconds", "Mars"]
)
def test_a_zone_that_names_no_place_is_refused(zone: str) -> None:
    with pytest.raises(ConfigError, match="unknown time zone"):
        Contract.from_columns({"c": f"timestamp(iso, {zone})"})


def test_the_digits_of_a_type_are_plain_ones() -> None:
    with pytest.raises(ConfigError, match="unknown type"):
        Contract.from_columns({"c": "decimal(\u0661\u0662,\u0663)"})
