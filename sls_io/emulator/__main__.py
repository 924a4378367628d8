"""`python -m sls_io.emulator`."""

import sys

from sls_io.emulator.program import run

sys.exit(run())
