"""Packed logs on their way to the service, also over hours of an emulator's clock."""

from collections.abc import Callable, Iterable
from typing import Protocol

from pipelines.cli.files.lines import Log
from pipelines.cli.files.packing import Packer, slices
from sls_io.emulator import Admin
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import Throttled
from sls_io.values.window import HOUR_S

PATIENCE_S = 300.0
"""A write quota refuses a loader that is too fast, and lets it go on within seconds."""
_PAUSE_S = 1.0


class Sink(Protocol):
    """What takes LogGroups: a client, or for a dry run nobody."""

    def put_raw(self, body: bytes, /) -> object:
        """Take one that is serialised. Raises as `SlsClient.put_raw`."""


class Nowhere:
    """Takes everything and keeps nothing."""

    def put_raw(self, body: bytes, /) -> None:
        """Nothing."""


def put(
    client: Sink,
    packer: Packer,
    logs: Iterable[Log],
    *,
    at_s: float,
    on_rows: Callable[[int], None] = lambda _: None,
) -> None:
    """Pack and send `logs`; `at_s` is the service's time now. `on_rows` hears of each group sent.

    Raises Throttled when a group was refused for `PATIENCE_S`.
    """
    for packed in packer.pack(logs, at_s):
        put_patiently(client, packed.body)
        packer.counts.stored += packed.rows
        packer.counts.stored_line = packed.line
        on_rows(packed.rows)


def put_patiently(client: Sink, body: bytes, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Send a group once a shard takes it: a refused one was not stored, so sending it again is safe.

    Only a quota's refusal is tried again. Of any other error of the way nobody knows whether the group was
    stored: a second try may store it twice, so it is raised, and the load says how far it surely came.
    """
    until_s = clock.monotonic() + PATIENCE_S
    while True:
        try:
            client.put_raw(body)
        except Throttled:
            if clock.monotonic() >= until_s:
                raise
            clock.sleep(_PAUSE_S)
        else:
            return


def put_over_hours(
    client: Sink,
    admin: Admin,
    packer: Packer,
    logs_of: Callable[[range, float], Iterable[Log]],
    rows: range,
    *,
    hours: int,
    now_s: float,
    on_rows: Callable[[int], None] = lambda _: None,
) -> None:
    """Send `rows` in `hours` slices, the emulator's clock one hour further for each.

    The last slice is received at `now_s`, and the clock goes on from there by itself.
    `logs_of(slice, at_s)` gives the logs of a slice of row numbers.
    """
    pieces = slices(len(rows), hours)
    for position, piece in enumerate(pieces):
        at_s = now_s - (len(pieces) - 1 - position) * HOUR_S
        admin.set_clock(at_s)
        put(client, packer, logs_of(rows[piece.start : piece.stop], at_s), at_s=at_s, on_rows=on_rows)
