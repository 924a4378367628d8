"""`python -m sls_io.emulator`."""

import sys

from sls_io.emulator.program import fork_for, run

if sys.argv[1:2] == ["--fork-for"]:
    fork_for(int(sys.argv[2]))
else:
    sys.exit(run())
