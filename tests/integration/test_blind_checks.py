"""What a run that lands says of runway and errors while nobody can look."""

from collections.abc import Callable

import dagster as dg
import pytest

from pipelines.components.logstore.health import told_by_landing
from pipelines.landing.table.lake import Lake
from pipelines.landing.watch.health import Kind
from pipelines.landing.watch.vitals import after_landing
from sls_io.values.clock import SYSTEM_CLOCK, ManualClock
from tests.integration.sensor_site import MakeSite, Site, landed

BEHIND_DAYS = 45
RED, YELLOW = (False, "ERROR"), (False, "WARN")


def behind(site: Site) -> None:
    """Retention takes logs that wait."""
    site.world.put(5, pass_s=31 * 86_400)


def waiting(site: Site) -> None:
    """Logs wait for half a day."""
    site.world.put(5, pass_s=43_200)


def wrong(site: Site) -> None:
    """Most rows of an hour have an error."""
    site.world.land_more(40, value="not a number")


def said(site: Site, kind: Kind, clock: ManualClock) -> dg.AssetCheckEvaluation:
    """What a run that lands says of this kind."""
    seen = after_landing(site.logstore, Lake.default())
    found = told_by_landing(site.logstore, site.instance, seen, clock=clock)
    return next(each for each in found if each.check_name == kind.value)


def told(site: Site, event: dg.AssetCheckEvaluation) -> tuple[bool, str]:
    """Passed and severity, once Dagster has stored it."""
    site.instance.report_runless_asset_event(event)
    return event.passed, event.severity.value


@pytest.mark.parametrize(
    ("kind", "spoil"), [(Kind.RUNWAY, behind), (Kind.LAG, waiting), (Kind.ERRORS, wrong)]
)
def test_what_nobody_can_look_at_stays_red_and_what_was_green_is_red_in_time(
    make_site: MakeSite,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    spoil: Callable[[Site], None],
) -> None:
    site, clock = landed(make_site(f"blind_{kind.value}")), ManualClock(SYSTEM_CLOCK.now())
    assert told(site, said(site, kind, clock))[0]
    with monkeypatch.context() as patched:
        patched.setenv("PYICEBERG_CATALOG__LAKE__URI", "postgresql+psycopg2://nobody@127.0.0.1:1/none")
        assert told(site, said(site, kind, clock)) == YELLOW
        clock.advance(7000)
        assert told(site, said(site, kind, clock)) == YELLOW, "two hours are not over"
        clock.advance(600)
        late = said(site, kind, clock)
        assert told(site, late) == RED
    assert "nobody knows" in (late.description or "") and "Nobody could look for 2.1 h" in (
        late.description or ""
    )
    assert told(site, said(site, kind, clock))[0], "it is seen again"
    spoil(site)
    assert told(site, said(site, kind, clock)) == RED
    with monkeypatch.context() as patched:
        patched.setenv("PYICEBERG_CATALOG__LAKE__URI", "postgresql+psycopg2://nobody@127.0.0.1:1/none")
        assert told(site, said(site, kind, clock)) == RED, "nobody has seen that it is over"
