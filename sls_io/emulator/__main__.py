"""`python -m sls_io.emulator`."""

import os
import sys

from sls_io.emulator.program import fork_for, run

# Whatever the shell allows: nobody else writes into the data folder.
os.umask(os.umask(0o077) | 0o022)
if sys.argv[1:2] == ["--fork-for"]:
    fork_for(int(sys.argv[2]))
else:
    sys.exit(run())
