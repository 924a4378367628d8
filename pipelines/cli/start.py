"""What the program `sls-lake` begins with: a Ctrl-C while the rest is imported is an end, not a trace."""

import sys


def main() -> None:
    """Import all that a verb may need, then run it and exit with its code."""
    try:
        from pipelines.cli import main as program
    except KeyboardInterrupt:
        print("sls-lake: stopped; nothing was begun", file=sys.stderr)
        sys.exit(130)
    program.main()
