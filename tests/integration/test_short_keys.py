"""A landing outlives its keys: temporary ones that end every few pages, in driver and tasks."""

import itertools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.engine import InProcess
from sls_io.emulator import Emulator, start
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.settings import Service
from tests.worlds.one_logstore import HOUR0_S, make_lake, new_world

MODULE = "keys_that_end"
GROUPS = 400


class Issuer:
    """What STS is: each call gives a pair of its own that ends `lasts_s` from now on the machine's clock."""

    def __init__(self, emulator: Emulator, lasts_s: float, *, says_when: bool) -> None:
        self.given, self._numbers = 0, itertools.count()
        self._emulator, self._lasts_s, self._says_when = emulator, lasts_s, says_when

    def __call__(self) -> tuple[object, ...]:
        number = next(self._numbers)
        self.given = number + 1
        pair = (f"temporary-{number}", f"secret-{number}", f"token-{number}")
        self._emulator.admin.add_key(pair[0], pair[1], token=pair[2], lasts_s=self._lasts_s)
        ends_s = SYSTEM_CLOCK.now() + self._lasts_s
        return (*pair, ends_s) if self._says_when else pair


@pytest.fixture
def provided() -> Iterator[Callable[[Issuer], str]]:
    """Makes an issuer a function that settings can name."""

    def provide(issuer: Issuer) -> str:
        module = types.ModuleType(MODULE)
        module.find = issuer  # type: ignore[attr-defined]
        sys.modules[MODULE] = module
        return f"{MODULE}:find"

    yield provide
    sys.modules.pop(MODULE, None)


@pytest.mark.parametrize("says_when", [True, False])
def test_a_long_landing_gets_new_keys_whenever_its_own_end(
    tmp_path: Path, provided: Callable[[Issuer], str], says_when: bool
) -> None:
    with start(tmp_path / "emulator", now=HOUR0_S + 60.0) as emulator:
        world = new_world(emulator, make_lake(tmp_path / "lake"), InProcess(), budget={"page_groups_max": 1})
        world.put(GROUPS, logs_a_group=1, until_s=HOUR0_S + 120)
        issuer = Issuer(emulator, 0.05, says_when=says_when)
        service = Service.model_validate(
            {
                **world.logstore.service.model_dump(),
                "credentials": {"provider": "import", "name": provided(issuer)},
            }
        )

        report = world.land(logstore=world.logstore.model_copy(update={"service": service}))

        assert report.rows == GROUPS
        assert issuer.given > 5
        world.assert_each_log_once()
