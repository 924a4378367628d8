"""A landing that waits for more, in runs on a real table."""

from typing import Any

from sls_io.planning.waits import Why
from tests.worlds.one_logstore import World


def with_budget(world: World, **changes: Any) -> None:
    """The world's logstore with another budget."""
    world.logstore = world.changed(budget={**world.logstore.budget.model_dump(), **changes})


def test_a_shard_gathers_until_its_oldest_log_is_too_old_and_every_log_lands_once(calm: World) -> None:
    assert calm.land_more(40, pass_s=700).rows == 40
    assert calm.land_more(40, pass_s=700).rows == 40, "a rate is known from here on"
    with_budget(calm, mb_min=100, wait_max_s=600)
    calm.put(20, pass_s=120)

    early = calm.land()
    calm.pass_by(600)
    late = calm.land()

    assert early.rows == 0 and {wait.kind for wait in early.waits.values()} == {Why.GATHERING}
    assert late.rows == 20
    calm.assert_each_log_once()


def test_with_enough_waiting_a_shard_lands_at_once(calm: World) -> None:
    for _ in range(2):
        calm.land_more(40, pass_s=700)
    with_budget(calm, mb_min=0.000001, wait_max_s=86_400)
    assert calm.land_more(20, pass_s=120).rows == 20


def test_a_drained_shard_does_not_gather(calm: World) -> None:
    calm.land_more(40, pass_s=700)
    with_budget(calm, mb_min=100)
    reached_s = calm.ledger.shards[0].reached_s
    calm.pass_by(7200)
    report = calm.land()
    assert {wait.kind for wait in report.waits.values()} == {Why.DRAINED}
    assert calm.ledger.shards[0].reached_s >= reached_s + 7200
