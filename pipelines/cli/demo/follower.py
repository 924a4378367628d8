"""Become a command that ends with the process that started it, also when that one is killed.

    python -I follower.py SIGNAL PARENT COMMAND...

A child that leads a session of its own, as ours do, outlives its parent otherwise: a Spark server would go on
with a gigabyte. The kernel sends the signal; where it is not Linux nothing does. A program of the standard
library alone, since Python starts it before each child.
"""

import ctypes
import os
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, look whether it is too late, and become the command."""
    number, parent, *command = sys.argv[1:]
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != int(parent):
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
