"""The way from a cluster to the service, which goes down for one worker's executors and leaves the others.

Endpoints travel with a task, so every executor asks the same address. That address is this relay's; it looks
up whose connection comes, by the process at its other end and the folder that a worker gave it, and while a
worker is cut off it passes nothing on, in either direction: connections that are up fall silent and new ones
are answered by nobody, as when packets are dropped. What was sent meanwhile arrives when the way is open
again, late, as TCP has it.

It is a process of its own (`python -m chaos.network PORT FOLDER`), because the conductor forks.
"""

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

_HOST = "127.0.0.1"
_BYTES = 1 << 16


class Network:
    """From `endpoint` to `port`; `folder` has a folder for each worker, in which its executors run. `with`
    starts and ends it."""

    def __init__(self, port: int, folder: Path) -> None:
        self._command = [sys.executable, "-m", __name__, str(port), str(folder)]

    def __enter__(self) -> Self:
        self._relay = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._relay.stdout is not None
        self.endpoint = f"http://{_HOST}:{json.loads(self._relay.stdout.readline())}"
        return self

    def __exit__(self, *raised: object) -> None:
        with self._relay:
            self._relay.kill()

    def down(self, worker: str) -> None:
        """Nothing passes between `worker` and the service from here on."""
        self._tell(worker, up=False)

    def up(self, worker: str) -> None:
        """It does again."""
        self._tell(worker, up=True)

    def _tell(self, worker: str, *, up: bool) -> None:
        assert self._relay.stdin is not None
        self._relay.stdin.write(json.dumps([worker, up]) + "\n")
        self._relay.stdin.flush()


class _Relay:
    """In front of `port`."""

    def __init__(self, port: int, folder: Path) -> None:
        self._to, self._folder = port, folder
        self._ways: dict[str, asyncio.Event] = {}

    async def serve(self) -> None:
        """Say the port, then do what each line says."""
        server = await asyncio.start_server(self._pass_on, _HOST, 0)
        sys.stdout.write(json.dumps(server.sockets[0].getsockname()[1]) + "\n")
        sys.stdout.flush()
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        while line := await lines.readline():
            worker, up = json.loads(line)
            way = self._way(worker)
            way.set() if up else way.clear()

    def _way(self, worker: str) -> asyncio.Event:
        if worker not in self._ways:
            self._ways[worker] = asyncio.Event()
            self._ways[worker].set()
        return self._ways[worker]

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = self._way(self._worker_at(writer.get_extra_info("peername")[1]))
        with suppress(OSError):
            from_service, to_service = await asyncio.open_connection(_HOST, self._to)
            await asyncio.gather(_pump(reader, to_service, way), _pump(from_service, writer, way))
        writer.close()

    def _worker_at(self, port: int) -> str:
        """The worker below which the process runs that asks from `port`; "" for a driver."""
        for process in psutil.process_iter():
            with suppress(psutil.Error, ValueError):
                inside = Path(process.cwd()).relative_to(self._folder)
                if any(one.laddr.port == port for one in process.net_connections("tcp4")):
                    return inside.parts[0]
        return ""


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: asyncio.Event) -> None:
    """What one side sends goes to the other, until one of them ends."""
    with suppress(OSError):
        while data := await source.read(_BYTES):
            await way.wait()
            sink.write(data)
            await sink.drain()
    await way.wait()
    sink.close()


if __name__ == "__main__":
    asyncio.run(_Relay(int(sys.argv[1]), Path(sys.argv[2])).serve())
