"""Keys of the emulator that end within seconds, for programs whose settings name `find`."""

import itertools
import os

from sls_io.emulator import Admin
from sls_io.values.clock import SYSTEM_CLOCK

EMULATOR = "SLS_TESTS_EMULATOR"
"""The variable with its port."""
_LASTS_S = 3.0
_numbers = itertools.count()


def find() -> tuple[str, str, str, float]:
    """New keys, and when they end."""
    number = f"{os.getpid()}-{next(_numbers)}"
    pair = (f"ending-id-{number}", f"ending-secret-{number}", f"ending-token-{number}")
    Admin(int(os.environ[EMULATOR])).add_key(pair[0], pair[1], token=pair[2], lasts_s=_LASTS_S)
    return (*pair, SYSTEM_CLOCK.now() + _LASTS_S)
