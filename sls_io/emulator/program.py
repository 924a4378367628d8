"""Runs one emulator in this process: listen, serve, end cleanly.

Why a process of its own and not a thread of the test. It is killed with SIGKILL, as a machine would be, and
what it had acknowledged must be there again; its journal has no other goodbye. A thread cannot be killed,
and would share the interpreter with the client that is under test.
"""

import argparse
import errno
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from sls_io.emulator.admin import AdminHandlers
from sls_io.emulator.limits import Limits
from sls_io.emulator.moved_clock import checked
from sls_io.emulator.server import ReadyServer, ServiceApp, TargetProtocol
from sls_io.emulator.service import LogService
from sls_io.emulator.signing import SigningKeys
from sls_io.values.errors import ConfigError

_LOG = logging.getLogger("sls_io.emulator")
_BACKLOG = 2048
_KEEP_ALIVE_S = 3600


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m sls_io.emulator",
        description="A log service on loopback for tests and demos. Clients sign with "
        "ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET of this process's environment, "
        "or with emulator-key / emulator-secret when they are not set.",
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 picks a free one")
    parser.add_argument(
        "--data", type=_folder, help="folder that survives a kill; without it all is in memory"
    )
    parser.add_argument("--now", type=_now, help="set the clock to these unix seconds")
    parser.add_argument(
        "--salvage", action="store_true",
        help="take a damaged data folder: keep what is damaged in files beside, serve what proves itself",
    )  # fmt: skip
    parser.add_argument("--limits", type=_limits, default=Limits(), help="JSON of limits.py's names")
    parser.add_argument("--debug", action="store_true", help="a log line for each request")
    parser.add_argument("--with-stdin", action="store_true", help="end when standard input closes")
    return parser.parse_args(arguments)


def run(
    arguments: list[str] | None = None, *, on_ready: Callable[[str], None] = lambda endpoint: None
) -> int:
    """Serve until told to stop; the exit status. 2: could not start, with one sentence why."""
    try:
        serve(arguments, on_ready=on_ready)
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"sls-lake emulator: {error}\n")
        return 2
    return 0


def serve(
    arguments: list[str] | None = None, *, on_ready: Callable[[str], None] = lambda endpoint: None
) -> None:
    """Serve until told to stop. Raises ConfigError or OSError when it cannot start.

    The socket listens before the data folder is read: a port that is taken is said at once, and who connects
    meanwhile waits for the answer.
    """
    options = parse(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("sls_io.emulator").setLevel(logging.DEBUG if options.debug else logging.INFO)
    listener = _listen(options.port)
    try:
        service = LogService(
            options.data, keys=SigningKeys.from_environment(), limits=options.limits, now=options.now,
            salvage=options.salvage,
        )  # fmt: skip
    except BaseException:
        listener.close()
        raise
    for note in service.journal.notes:
        _LOG.warning("data folder %s: %s", options.data, note)
    _raise_file_limit()
    # A test run that is killed leaves no emulator behind: nobody has to clean up, and no port stays taken.
    if options.with_stdin:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    # Loop and parser are named: uvicorn would choose by what happens to be installed.
    config = uvicorn.Config(
        dispatch(service), loop="asyncio", http=TargetProtocol, ws="none", lifespan="off", interface="asgi3",
        log_config=None, access_log=False, server_header=False, date_header=False, backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S, timeout_graceful_shutdown=1,
    )  # fmt: skip
    config.load()
    # uvicorn ends its serving and then raises the signal again: this makes that a clean end.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        ReadyServer(config, on_ready).run(sockets=[listener])
    finally:
        service.close()


def dispatch(service: LogService) -> Any:
    """The ASGI application: the admin path beside the service's calls."""
    app = ServiceApp(service)
    admin = AdminHandlers(app).starlette()

    async def dispatched(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        await (admin if path == "/_admin" or path.startswith("/_admin/") else app)(scope, receive, send)

    return dispatched


def _folder(text: str) -> Path:
    # An empty text is the working directory to `Path`: an unset variable would fill somebody's project.
    if not text.strip():
        raise argparse.ArgumentTypeError("--data names no folder")
    return Path(text)


def _now(text: str) -> float:
    try:
        return checked(float(text))
    except (ValueError, ConfigError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _limits(text: str) -> Limits:
    try:
        return Limits.model_validate_json(text)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'JSON'}: {e['msg']}" for e in error.errors())
        raise argparse.ArgumentTypeError(wrong) from None


def _listen(port: int) -> socket.socket:
    # Named, because asyncio sets TCP_NODELAY only where it reads TCP here; without it an answer in two
    # writes waits 40 ms for the client's acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise ConfigError(
                f"port {port} is taken: stop what listens there or choose another with --port"
            ) from None
        raise ConfigError(f"cannot listen on port {port}: choose another with --port") from error
    return listener


def _raise_file_limit() -> None:
    """As many connections as the system lets one process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _end_with_stdin() -> None:
    """Whoever started us holds the other end; when it is gone, so are we. The journal needs no goodbye."""
    while os.read(0, 4096):
        pass
    os._exit(0)
