"""Runs one emulator in this process: listen, serve, end cleanly.

Why a process of its own and not a thread of the test. It is killed with SIGKILL, as a machine would be, and
what it had acknowledged must be there again; its journal has no other goodbye. A thread cannot be killed,
and would share the interpreter with the client that is under test.
"""

import argparse
import errno
import json
import logging
import os
import resource
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

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


def fork_for(number: int) -> None:
    """Fork an emulator for each request on the socket with this number, until it is closed.

    A request is a byte with four files (stdin, stdout, stderr, and where the exit status is told), then a
    line of JSON: arguments, environment, folder. The answer is the process's id.

    One loop waits for both, a request and the end of a child: the signal of an ended child wakes it through a
    pair of sockets, so no end is missed and nothing polls.

    Story: an emulator takes half a second to import, and each test has one of its own. The process here
    imports once and never listens; each child is a copy that is ready in milliseconds, with the files,
    variables and folder of who asked. The child closes what belongs to the parent and to its brothers: a
    pipe of another emulator's output that it kept open would never end for who reads it.
    """
    asking = socket.socket(fileno=number)
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(asking, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                woken.recv(4096)
                _tell_ends(running)
            if asking in ready:
                byte, files, _, _ = socket.recv_fds(asking, 1, 4)
                if not byte:
                    return
                with asking.makefile("rb") as line:
                    asked = json.loads(line.readline())
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for one in (asking, woken, wakes, selector):
                        one.close()
                    _be(asked, files, running)
                for file in files[:3]:
                    os.close(file)
                running[pid] = files[3]
                asking.sendall(b"%d\n" % pid)


def _tell_ends(running: dict[int, int]) -> None:
    """Write down how those ended that have.

    Whoever asked for the emulator is not its parent and cannot wait for it, so its status is written into a
    pipe. A reader that is gone is no error.
    """
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        told = running.pop(pid)
        with suppress(BrokenPipeError):
            os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(told)


def _be(asked: dict[str, Any], files: list[int], others: dict[int, int]) -> NoReturn:
    """Become an emulator of its own: session, files, variables, folder; and end as one.

    Whatever happens, it ends here: a child that came back from this would go on as the parent does.
    """
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for place, file in enumerate(files[:3]):
            os.dup2(file, place)
        for file in (*files, *others.values()):
            os.close(file)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        status = run(asked["arguments"])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


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
