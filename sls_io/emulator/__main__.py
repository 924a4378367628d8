"""`python -m sls_io.emulator`."""

import os
import sys

from sls_io.emulator.program import run

# Whatever the shell allows: nobody else writes into the data folder.
os.umask(os.umask(0o077) | 0o022)
sys.exit(run())
