"""Times as people write them."""

import pytest

from sls_io.values.errors import ConfigError
from sls_io.values.moments import END_S, Moment, TooLate, place_of, unix_s


def test_the_last_second_of_2199_is_a_time() -> None:
    assert unix_s(END_S - 1) == unix_s("2199-12-31T23:59:59") == END_S - 1
    assert unix_s(0) == unix_s("1970-01-01") == 0


@pytest.mark.parametrize("moment", [END_S, 1_790_000_000_000, 1.79e12, "2200-01-01"])
def test_a_time_in_milliseconds_is_refused_and_named(moment: Moment) -> None:
    for read in (unix_s, place_of):
        with pytest.raises(TooLate, match=r"after 2199: write unix seconds, not milliseconds"):
            read(moment)


@pytest.mark.parametrize("moment", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_no_time_is_refused(moment: float) -> None:
    with pytest.raises(ConfigError, match="a number of seconds"):
        unix_s(moment)
