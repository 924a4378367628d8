"""`SLS_LAKE_LOG=json`: what a process of ours says on stderr is one JSON object a line, for a collector.

    {"time": "2026-11-20T07:00:05.120Z", "level": "INFO", "logger": "dagster", "message": "landing: publish",
     "run": "5b0c...", "step": "bronze__access_logs", "landing": "9f31c0de"}

`run` is Dagster's id of a run, `step` its step, `tick` the sensor or schedule that speaks, `landing` the
short id that `sls-lake landings show` has, `trace` that of an error: each where it is known.

Everything goes through the standard library's loggers, so what libraries log, warnings and uncaught errors
look alike. Dagster makes a logger with a coloured handler of its own for each run and tick, by the class that
`logging.setLoggerClass` names: there its form is taken.
"""

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import IO, Any

from sls_io.values.errors import ConfigError, printable

VARIABLE = "SLS_LAKE_LOG"
_TEXT, _JSON = "text", "json"
_OURS = "sls_lake"
_META = "dagster_meta"
"""The attribute by which Dagster says of a record whose it is."""
_NAMED = {"run": "run_id", "step": "step_key", "tick": "name"}
_landing: list[str] = []


class JsonLines(logging.Formatter):
    """A record as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object; the time is UTC, in milliseconds."""
        meta: dict[str, Any] = getattr(record, _META, None) or {}
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        said: dict[str, Any] = {
            "time": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": meta.get("orig_message") or record.getMessage(),
            **{name: meta.get(theirs) for name, theirs in _NAMED.items()},
            "landing": "".join(_landing),
            "trace": self._trace(record, meta),
        }
        return json.dumps({name: value for name, value in said.items() if value}, ensure_ascii=False)

    def _trace(self, record: logging.LogRecord, meta: dict[str, Any]) -> str:
        if record.exc_info and record.exc_info[0] is not None:
            return self.formatException(record.exc_info)
        data = getattr(meta.get("dagster_event"), "event_specific_data", None)
        told = getattr(getattr(data, "error", None), "to_string", str)
        return str(told())


class _JsonLogger(logging.Logger):
    """A logger whose handlers of a console write JSON, whoever made them."""

    def addHandler(self, hdlr: logging.Handler) -> None:
        _taught(hdlr)
        super().addHandler(hdlr)


def asked() -> bool:
    """Whether JSON is asked for. Raises ConfigError for a word that means nothing."""
    said = os.environ.get(VARIABLE) or _TEXT
    if said not in (_TEXT, _JSON):
        raise ConfigError(f"{VARIABLE} is {printable(said)}: it is {_JSON}, or {_TEXT} as without it")
    return said == _JSON


def speak(stream: IO[str] | None = None) -> None:
    """From here on this process logs JSON, where that is asked for; for where one of ours begins. `stream`:
    where to, if not to stderr as it is at that moment. Raises ConfigError as `asked`.

    Handlers of a console are given the form, whoever made them; handlers of files keep theirs. Twice does no
    harm. A library that makes a logger later gets one of `_JsonLogger`, which teaches each handler as it is
    added.
    """
    root = logging.getLogger()
    if not asked() or any(isinstance(handler.formatter, JsonLines) for handler in root.handlers):
        return
    logging.setLoggerClass(_JsonLogger)
    for logger in (root, *logging.Logger.manager.loggerDict.values()):
        for handler in getattr(logger, "handlers", ()):
            _taught(handler)
    handler = logging.StreamHandler(stream) if stream is not None else _Stderr()
    handler.setFormatter(JsonLines())
    root.handlers = [each for each in root.handlers if not _is_console(each)] + [handler]
    logging.getLogger(_OURS).setLevel(logging.INFO)
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda thrown: _uncaught(
        thrown.exc_type, thrown.exc_value or thrown.exc_type(), thrown.exc_traceback
    )


def say(level: int, text: str) -> bool:
    """Log a sentence of our own where JSON is asked for; whether it was: elsewhere, print it."""
    if not asked():
        return False
    logging.getLogger(_OURS).log(level, text)
    return True


def of_landing(run: str) -> None:
    """This process works on this landing from here on."""
    _landing[:] = [run]


class _Stderr(logging.StreamHandler[Any]):
    """To the stderr of the moment: Dagster turns it, while a step works."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> IO[str]:
        return sys.stderr


def _is_console(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr)


def _taught(handler: logging.Handler) -> None:
    if _is_console(handler):
        handler.setFormatter(JsonLines())


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    logging.getLogger(_OURS).critical("uncaught error", exc_info=(kind, error, trace))
