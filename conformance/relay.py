"""A SOCKS5 relay on loopback that leads every connection to one port.

The Java consumer library has no proxy setting and its endpoint takes no port, so it always asks for
port 80 of the project's host. A JVM sends plain sockets through SOCKS when it is told to on its command
line: with this relay the library runs unmodified, needs no privilege and speaks origin form.
"""

import asyncio
import threading
from contextlib import suppress

_ADDRESS_BYTES = {1: 4, 4: 16}
_REFUSED, _GRANTED = 5, 0
_CHUNK_BYTES = 64 * 1024


class Relay:
    """Runs in a thread of its own until it is stopped; `port` is where it listens."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.port: int = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """End it with its connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        self._server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await _greet(reader, writer)
            try:
                there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
            except OSError:
                writer.write(_answer(_REFUSED))
                await writer.drain()
            else:
                writer.write(_answer(_GRANTED))
                await asyncio.gather(_pump(reader, back), _pump(there, writer))
        with suppress(OSError):
            writer.close()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read the client's methods and the address it wants, which does not matter. RFC 1928."""
    _, methods = await reader.readexactly(2)
    await reader.readexactly(methods)
    writer.write(bytes((5, 0)))
    *_, kind = await reader.readexactly(4)
    size = _ADDRESS_BYTES.get(kind) or (await reader.readexactly(1))[0]
    await reader.readexactly(size + 2)


def _answer(code: int) -> bytes:
    return bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    with suppress(OSError):
        writer.close()
