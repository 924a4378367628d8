"""What the service still has of rows is a bound that holds: more may be said to be lost, never less."""

from collections.abc import Iterator

import pytest

from pipelines.landing.hours import hour_text
from pipelines.landing.ledger.values import Landed
from pipelines.landing.operations.reach import Lack, StillThere, kept_of, retention_took, told
from sls_io.emulator import Emulator
from sls_io.values.window import HOUR_S, Cursor, IntervalSet, Window
from sls_io.wire.client import SlsClient
from tests.worlds.one_logstore import HOUR0, HOUR0_S, PROJECT, group, logstore_settings

pytestmark = pytest.mark.sls_emulator(now=HOUR0_S)
DAY_S = 24 * HOUR_S


class Service:
    """A shard of four groups at the cursors `at[0]` to `at[3]`, its end at `at[4]`."""

    def __init__(self, emulator: Emulator, client: SlsClient) -> None:
        self.emulator, self.client = emulator, client
        client.transport.create_project(PROJECT, "")
        client.transport.create_logstore(PROJECT, "access_logs", ttl=1, shard_count=1)
        self.at = [self.end()]
        for number in range(4):
            client.put_raw(group([{"n": str(number)}]), key="0" * 32)
            self.at.append(self.end())

    def end(self) -> int:
        return int(self.client.cursor_at(0, "end"))

    def landed(self, first: int, last: int, rows: int, *, hour: int = 0) -> Landed:
        """A window from one of the five cursors to another."""
        return Landed(Window(0, Cursor(self.at[first]), Cursor(self.at[last]), HOUR0 + hour), rows, 0)

    def kept(self, rows: int, *landed: Landed, gone: int = 0, first: int = 0, last: int = 4) -> StillThere:
        """What is said of so many rows from one cursor to another, once so many groups are gone."""
        if gone:
            cursor = self.at[gone]
            self.emulator.admin.retain(PROJECT, "access_logs", shard=0, before_cursor=cursor)
        cursors = {0: IntervalSet.of([(self.at[first], self.at[last])])}
        return kept_of(self.client, {0: rows}, cursors, landed)


@pytest.fixture
def service(emulator: Emulator) -> Iterator[Service]:
    with SlsClient(logstore_settings(emulator, "access_logs").service) as client:
        yield Service(emulator, client)


def test_while_nothing_is_gone_the_service_has_all_rows(service: Service) -> None:
    said = service.kept(60, service.landed(0, 4, 60))
    assert said == StillThere(60, 0) and str(said) == "the service still has all 60 rows"


def test_where_no_row_has_left_since_the_rows_of_whole_windows_are_exact(service: Service) -> None:
    windows = [service.landed(3, 4, 70, hour=2), service.landed(1, 3, 20, hour=1), service.landed(0, 1, 10)]
    said = service.kept(100, *windows, gone=1)
    assert said == StillThere(100, 10, (HOUR0,))
    assert (
        str(said)
        == f"retention has taken up to 10 of the 100 rows, of {hour_text(HOUR0)}: they would be lost"
    )


def test_of_a_window_that_is_gone_in_part_all_rows_count(service: Service) -> None:
    windows = [service.landed(3, 4, 70, hour=2), service.landed(1, 3, 20, hour=1), service.landed(0, 1, 10)]
    assert service.kept(100, *windows, gone=2) == StillThere(100, 30, (HOUR0, HOUR0 + 1))


def test_rows_that_have_left_a_window_since_are_not_taken_for_safe(service: Service) -> None:
    """Of the 100 rows of the safe window 90 were removed, so 50 of the 60 rows that are left are gone."""
    safe, gone = service.landed(2, 4, 100, hour=1), service.landed(0, 2, 50)
    assert service.kept(60, safe, gone, gone=2) == StillThere(60, 50, (HOUR0,))
    few = service.kept(20, safe, gone)
    assert few == StillThere(20, 20, (HOUR0,)) and "up to 20 of the 20 rows" in str(few)


def test_cursors_that_landed_twice_are_told_by_the_newest_landing(service: Service) -> None:
    """Landed with 100 rows, taken back, landed again with 90: 20 rows beside them are of no window."""
    again, once, gone = (
        service.landed(2, 4, 90, hour=1),
        service.landed(2, 4, 100, hour=1),
        service.landed(0, 2, 5),
    )
    assert service.kept(110, again, once, gone, gone=2) == StillThere(110, 20, (HOUR0,))
    backfilled = service.landed(0, 2, 40), service.landed(0, 1, 25), service.landed(1, 2, 25)
    assert service.kept(130, again, *backfilled) == StillThere(130, 40, (HOUR0,))


def test_where_no_window_tells_of_a_gone_cursor_all_rows_count(service: Service) -> None:
    """How many rows the windows that are told still have nobody knows."""
    safe, some = service.landed(2, 4, 100, hour=1), service.landed(1, 2, 10)
    assert service.kept(110, safe, gone=2) == StillThere(110, 110)
    assert service.kept(110, safe, some) == StillThere(110, 110, (HOUR0,))
    assert service.kept(110, safe, some, first=1) == StillThere(110, 10, (HOUR0,))


def test_rows_of_a_shard_without_cursors_count_as_lost(service: Service) -> None:
    """Nobody says where they were. So do those that no landing brings, whatever the service has."""
    assert kept_of(service.client, {0: 7}, {}, []) == StillThere(7, 7)
    cursors = {0: IntervalSet.of([(service.at[0], service.at[4])])}
    assert kept_of(service.client, {0: 40}, cursors, [], never=20) == StillThere(60, 20)


def test_cursors_are_told_by_the_newest_window_that_had_them(service: Service) -> None:
    newest, older = service.landed(2, 4, 9), service.landed(1, 4, 8)
    at = service.at
    parts, left = told(IntervalSet.of([(at[0], at[3])]), [newest, older])
    assert [(x.rows, part.pairs) for x, part in parts] == [(9, ((at[2], at[3]),)), (8, ((at[1], at[2]),))]
    assert left.pairs == ((at[0], at[1]),)


def test_an_hour_of_which_a_part_is_older_than_the_service_keeps_may_be_taken(service: Service) -> None:
    """It is 06:30 and a day is kept: of 06 of the day before a half may be gone, of 07 nothing is."""
    service.emulator.admin.set_clock((HOUR0 + 6) * HOUR_S + 1800 + DAY_S)
    asked = Lack("before", range(HOUR0, HOUR0 + 10), "nothing so old has landed")
    (found,) = retention_took(service.client, [asked])
    assert found.hours == range(HOUR0, HOUR0 + 7)
    assert retention_took(service.client, [Lack("before", range(HOUR0 + 7, HOUR0 + 10), "none")]) == []
