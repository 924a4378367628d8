"""What the checks `runway` and `clean` say while nobody can look."""

from collections.abc import Callable

import dagster as dg
import pytest

from pipelines.components.logstore.assets import bronze_key
from pipelines.components.logstore.checks import CLEAN, RUNWAY, RunwayLook, clean_result
from sls_io.clock import SYSTEM_CLOCK, ManualClock
from tests.integration.sensor_site import MakeSite, Site, landed

BEHIND_DAYS = 45
RED, YELLOW = (False, "ERROR"), (False, "WARN")


def behind(site: Site) -> None:
    """Retention takes logs that wait."""
    site.world.put(5)
    site.world.emulator.admin.advance(31 * 86_400)


def wrong(site: Site) -> None:
    """Most rows of an hour have an error."""
    site.world.put(40, value="not a number")
    site.world.emulator.admin.advance(60)
    site.world.land()


def runway(site: Site, clock: ManualClock, gaps: tuple[str, ...] = ()) -> dg.AssetCheckResult:
    return RunwayLook(site.logstore, bronze_key(site.logstore), site.instance, clock).result(gaps)


def clean(site: Site, clock: ManualClock) -> dg.AssetCheckResult:
    return clean_result(site.logstore, bronze_key(site.logstore), site.instance, clock)


def told(site: Site, result: dg.AssetCheckResult) -> tuple[bool, str]:
    """Passed and severity, once Dagster has stored it."""
    assert result.asset_key is not None and result.check_name is not None
    event = dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        severity=result.severity,
        description=result.description,
        metadata=dict(result.metadata),
    )
    site.instance.report_runless_asset_event(event)
    return result.passed, result.severity.value


@pytest.mark.parametrize(
    ("name", "look", "spoil"), [(RUNWAY, runway, behind), (CLEAN, clean, wrong)], ids=[RUNWAY, CLEAN]
)
def test_what_nobody_can_look_at_stays_red_and_what_was_green_is_red_in_time(
    make_site: MakeSite,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    look: Callable[[Site, ManualClock], dg.AssetCheckResult],
    spoil: Callable[[Site], None],
) -> None:
    site, clock = landed(make_site(f"blind_{name}")), ManualClock(SYSTEM_CLOCK.now())
    assert told(site, look(site, clock))[0]
    with monkeypatch.context() as patched:
        patched.setenv("PYICEBERG_CATALOG__LAKE__URI", "postgresql+psycopg2://nobody@127.0.0.1:1/none")
        assert told(site, look(site, clock)) == YELLOW
        clock.advance(7000)
        assert told(site, look(site, clock)) == YELLOW, "two hours are not over"
        clock.advance(600)
        late = look(site, clock)
        assert told(site, late) == RED
    assert "nobody knows" in (late.description or "") and "Nobody could look for 2.1 h" in (
        late.description or ""
    )
    assert told(site, look(site, clock))[0], "it is seen again"
    spoil(site)
    assert told(site, look(site, clock)) == RED
    with monkeypatch.context() as patched:
        patched.setenv("PYICEBERG_CATALOG__LAKE__URI", "postgresql+psycopg2://nobody@127.0.0.1:1/none")
        assert told(site, look(site, clock)) == RED, "nobody has seen that it is over"


def test_a_gap_that_a_run_named_is_red_although_nobody_can_look_at_the_runway(make_site: MakeSite) -> None:
    site = landed(make_site("blind_gap"))
    fault = site.world.emulator.admin.fault("error", status=503, logstore=site.name, times=None)
    said = runway(site, ManualClock(SYSTEM_CLOCK.now()), ("shard 0",))
    site.world.emulator.admin.remove(fault)
    assert told(site, said) == RED
    assert "shard 0: lost to retention" in (said.description or "") and "nobody knows" in (
        said.description or ""
    )


def test_a_run_of_the_runway_that_the_service_does_not_answer_says_again_what_was_lost(
    make_site: MakeSite,
) -> None:
    site = landed(make_site("blind_run"))
    behind(site)

    def looked() -> tuple[bool, str]:
        (found,) = site.launch(dg.RunRequest(), "runway").get_asset_check_evaluations()
        return found.passed, found.severity.value

    assert looked() == RED
    fault = site.world.emulator.admin.fault("error", status=503, logstore=site.name, times=None)
    assert looked() == RED
    site.world.emulator.admin.remove(fault)
