"""Dagster's daemon, whose loop over backfills asks each second instead of twice a minute.

    python -m tests.integration.quick_daemon run -w WORKSPACE

Dagster has no setting for it, and a backfill takes two or three turns of that loop.
"""

from dagster._daemon import controller
from dagster._daemon.cli import main

if __name__ == "__main__":
    assert controller.DEFAULT_DAEMON_INTERVAL_SECONDS == 30
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1
    main()
