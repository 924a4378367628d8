"""The log service on loopback: `python -m sls_io.emulator`, or `start()` from Python."""

from sls_io.emulator.handle import Admin, Emulator, start
from sls_io.emulator.limits import Limits

__all__ = ["Admin", "Emulator", "Limits", "start"]
