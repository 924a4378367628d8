"""How a run worker of Dagster talks with the conductor: what it does, line by line, each one answered.

Dagster starts the worker, so it has no pipe of ours; it finds a socket by the environment variable
`CHAOS_LINE`. It says `run RUN_ID PID` first, then what a forked worker tells over its pipe (worker.py),
and waits for an answer to each line: while it waits the conductor may end or stop it, with all that it
started, exactly there.

    Points      a logging handler, named in the instance's own settings: hears the events of a landing
    RunCatalog  the catalog that loses answers, named in PyIceberg's configuration
"""

import logging
import os
import socket
import threading
from pathlib import Path
from typing import Any

from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from chaos.troubles.catalog import ChaosCatalog

VARIABLE = "CHAOS_LINE"
SPOOL, LOSSY = "chaos-spool", "chaos-lossy"
_EVENT = "landing: "


class Line:
    """The line of this process; opened with the first thing it says. Threads take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._socket: socket.socket | None = None
        self.run = ""

    def __call__(self, text: str) -> None:
        """Say it, and go on when the conductor answers, or is gone."""
        with self._turn:
            try:
                if self._socket is None:
                    self._socket = socket.socket(socket.AF_UNIX)
                    self._socket.connect(os.environ[VARIABLE])
                    self._say(f"run {self.run} {os.getpid()}")
                self._say(text)
            except OSError:
                return  # nobody counts any more

    def _say(self, text: str) -> None:
        if self._socket is not None:
            self._socket.sendall(" ".join(text.split()).encode() + b"\n")
            self._socket.recv(1)


LINE = Line()


class Points(logging.Handler):
    """Tells the events of a landing, which its asset logs, and where its run begins."""

    def emit(self, record: logging.LogRecord) -> None:
        run = getattr(record, "dagster_meta", {}).get("run_id")
        if run is None:
            return
        if not LINE.run:
            LINE.run = str(run)
            LINE("begun")
        _, found, event = record.getMessage().partition(_EVENT)
        if found:
            LINE(event)


class RunCatalog(ChaosCatalog):
    """Begins to lose answers with the first commit."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)
        self._armed = False

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """As the catalog behind it, most of the time."""
        if not self._armed:
            self._armed = True
            lossy, spool = float(self.properties[LOSSY]), Path(self.properties[SPOOL])
            self.arm(int(LINE.run.replace("-", "") or "0", 16), lossy, spool, LINE)
        return super().commit_table(table, requirements, updates)
