"""The log service on loopback: `python -m sls_io.emulator`, or `start()` from Python.

In: HTTP requests as the vendor's clients send them; faults that a test asks for.
Out: the answers of the service.
May touch: a socket on loopback, its data folder. The client side never imports it.
"""

from sls_io.emulator.handle import Admin, Emulator, prepared, start
from sls_io.emulator.limits import Limits

__all__ = ["Admin", "Emulator", "Limits", "prepared", "start"]
