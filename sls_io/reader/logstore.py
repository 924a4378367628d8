"""A logstore opened for reading from Python.

    from sls_io import open_logstore

    with open_logstore("https://cn-hangzhou.log.aliyuncs.com", "demo", "access_logs") as logs:
        print(logs.shards())
        print(logs.peek(0))
        for batch in logs.batches(0, since="2026-11-20T08:00", until="2026-11-20T09:00"):
            ...

Keys come from where `Credentials` says, the environment if nothing is said. A read is a look: it moves no
checkpoint and counts nothing. Who must have every log once, over restarts, wants a landing.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Literal, SupportsIndex

import pyarrow as pa
from pydantic import ValidationError

from sls_io.checkpoints.local_file import LocalFile
from sls_io.checkpoints.policy import OutsidePolicy
from sls_io.checkpoints.store import CheckpointStore
from sls_io.coordination.coordinator import Coordinator
from sls_io.coordination.server_group import ServerGroup
from sls_io.decoding.decode import Decoder
from sls_io.decoding.pairs import Declared
from sls_io.reader.broadcast import Broadcast
from sls_io.reader.consumer import Consumer, Processor
from sls_io.reader.held import Held
from sls_io.reader.rows import Extent, Rows
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError, CursorExpired, ShardGone, printable
from sls_io.values.moments import Moment, place_of, unix_s
from sls_io.values.named import type_name
from sls_io.values.settings import PAGE_GROUPS_MAX, SHARD_MB_PER_S, Group, Service
from sls_io.values.shard import Shard
from sls_io.values.side_by_side import side_by_side
from sls_io.values.window import Cursor
from sls_io.wire.client import GroupCheckpoint, SlsClient
from sls_io.wire.pace import Pace
from sls_io.wire.page import Page

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_CHARS = 40
_UNSEEN = ("__origin__", "__receive_hour__", "__raw__")
"""Columns of a batch that say nothing to who looks at a few logs."""


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard as service and group see it. Cursors are None for a shard that is gone while it was asked.

    status      readwrite, readonly, or gone
    begin, end  cursor of the oldest log kept, and the one behind the newest
    oldest_s    receive time of the oldest, unix seconds; None where there is none
    holder, checkpoint  of the group asked for: who wrote it last or has the shard, "" for nobody; its cursor
    lag_s       age of the oldest log behind the checkpoint (of the oldest at all where there is none), by
                the service's clock; 0 when nothing waits, None without a group, and where retention took it
    """

    id: int
    status: str
    begin: Cursor | None
    end: Cursor | None
    created_s: int
    oldest_s: int | None
    holder: str = ""
    checkpoint: Cursor | None = None
    lag_s: float | None = None


class Reader:
    """One logstore to read. Its methods may be called from many threads; what they give belongs to one.

    columns         log keys that get a column: a name for text, or a `Declared`; all others are in `__rest__`
    shard_mb_per_s  what each iteration asks of its shard, raw MB a second; the service's quota of a shard is
                    shared with its other readers

    A window is named by cursors, `begin` and `end`, or by receive times, `since` and `until`, in whole
    seconds; both are half-open. Left out: all that the service has now. A time before the oldest log kept
    is the oldest log, one in the future is the end.
    """

    def __init__(
        self,
        client: SlsClient,
        *,
        columns: Iterable[str | Declared] = (),
        shard_mb_per_s: float = SHARD_MB_PER_S,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.client = client
        if isinstance(columns, Mapping):
            raise ConfigError(
                "columns: a list of names, which are read as text, or of Declared(name, type); a mapping's "
                "types would be left out in silence"
            )
        self._columns = [c if isinstance(c, Declared) else Declared(c, pa.string()) for c in columns]
        self._mb_per_s, self._clock = shard_mb_per_s, clock

    def close(self) -> None:
        """Close idle connections."""
        self.client.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of every batch; asks the service for the logstore's identity, once."""
        return self._decoder.schema

    def shards(self, group: str = "") -> list[ShardStatus]:
        """All listed shards by id; with `group`, how far that consumer group is in each."""
        listed = self.client.shards()
        places = self.client.checkpoints(group) if group else None
        now_s = self.client.now_s()

        def ask(shard: Shard) -> ShardStatus:
            place = None if places is None else places.get(shard.id, GroupCheckpoint(shard.id, None, 0, ""))
            return _status(self.client, shard, place, now_s)

        return list(side_by_side(ask, listed))

    def extent(
        self,
        shard: int,
        *,
        begin: int | None = None,
        end: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Extent:
        """The window as cursors, never beyond what the shard has now.

        Raises ConfigError for an edge that is named twice and for a window that ends before it begins,
        ShardGone when retention took the shard.

        The end is cut at what the shard has now: a window is what can be read, and an iteration ends.
        """
        _check_number(shard, "a shard is its number", least=0)
        for name, cursor, moment in (("begin", begin, since), ("end", end, until)):
            if cursor is not None and moment is not None:
                raise ConfigError(
                    f"the {name} of a window is a cursor or a receive time, not both: leave one out"
                )
        since_s, until_s = (None if m is None else unix_s(m) for m in (since, until))
        first = self._edge(shard, begin, since_s, "begin")
        last = min(self._edge(shard, end, until_s, "end"), self.client.cursor_at(shard, "end"))
        backwards = begin is not None and end is not None and end < begin
        if backwards or (since_s is not None and until_s is not None and until_s < since_s):
            raise ConfigError(f"shard {shard}: the window ends before it begins; swap its edges")
        return Extent(shard, first, max(first, last))

    def pages(
        self,
        shard: int,
        *,
        begin: int | None = None,
        end: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[Page]:
        """The pages of a window: LogGroups as the service stores them, bodies decompressed, sizes and counts
        checked. Raises as `rows` does."""
        extent = self.extent(shard, begin=begin, end=end, since=since, until=until)
        return extent.pages(self.client, pace=self._pace(), clock=self._clock)

    def rows(
        self,
        shard: int,
        *,
        begin: int | None = None,
        end: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[Rows]:
        """The rows of a window, in order, with the cursor behind each page. What cannot be shown exactly is
        in the row, with its cause in `__error__`.

        Raises what the service or the connection said last when a page does not come, DecodeError when it
        comes broken each time, CursorExpired when retention took what was asked for, also while it was
        read. What was given before stands; the window is whole only when the iteration ends.
        """
        return self._read(self.extent(shard, begin=begin, end=end, since=since, until=until))

    def batches(
        self,
        shard: int,
        *,
        begin: int | None = None,
        end: int | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As `rows`, the Arrow batches alone, none of them empty."""
        found = self._read(self.extent(shard, begin=begin, end=end, since=since, until=until))
        return (rows.batch for rows in found if rows.batch.num_rows)

    def peek(self, shard: int, n: int = 10, *, since: Moment | None = None) -> "pd.DataFrame":
        """The first `n` logs of a shard, from the oldest or from a receive time on, for people to look at.

        Columns: where the log stands (`__shard__`, `__cursor__`, `__index__`), its time, topic, source and
        tags, the asked for columns, then each other key as text, and `__error__`. A key that is called like
        one of these stays in `__rest__`. Raises ConfigError for an `n` below 1, else as `rows`.
        """
        _check_number(n, "n says how many logs to show", least=1)
        found: list[pa.RecordBatch] = []
        most = max(1, min(n, PAGE_GROUPS_MAX))
        for rows in self._read(self.extent(shard, since=since), groups_max=most):
            left = n - sum(batch.num_rows for batch in found)
            if left <= 0:
                break
            found.append(rows.batch.slice(0, left))
            if rows.batch.num_rows >= left:
                break
        return _shown(pa.Table.from_batches(found, self.schema).drop_columns(list(_UNSEEN)))

    def hold(self, by: Coordinator | Group | str, *, lost: Callable[[str], None] | None = None) -> Held:
        """Shards held in a `with` block, see `Held`: by a coordinator, or by a consumer group of the service,
        named or with its settings. The holder's name is in these; two programs with one name fight.

        `lost` is told at once, from another thread, when the claim goes away.
        """
        members, closing = self._coordinator(by)
        return Held(self.client, members, self._read, clock=self._clock, lost=lost, closing=closing)

    def consume(
        self,
        make_processor: Callable[[int], Processor],
        by: Coordinator | Group | str,
        *,
        stop: threading.Event,
        first: Literal["begin", "end"] | Moment = "begin",
        save_every_s: float = 5.0,
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Run on until `stop` is set, with a processor for each shard that is held, see `Processor`: by whom,
        as with `hold`. A shard without a checkpoint begins at `first`, as with `Held.rows`.

        Each `save_every_s` seconds what `process` has worked off is saved, and shards that others want are
        handed over; `warn` hears of what is tried again: a claim that was lost or is not to be had, a service
        out of reach. Raises what a processor raises, CursorExpired when retention took what a checkpoint
        points at, ConfigError for what can never work.
        """
        if not save_every_s > 0:
            raise ConfigError(
                f"save_every_s is a number of seconds above 0, not {printable(repr(save_every_s))}"
            )
        if not callable(make_processor):
            raise ConfigError(
                "make_processor is called with a shard's number, and gives a processor: a class of yours "
                f"with initialize, process and shutdown, not a {type_name(make_processor)}"
            )
        place_of(first)  # before a group is made
        members, closing = self._coordinator(by)
        try:
            Consumer(
                lambda: Held(self.client, members, self._read, clock=self._clock),
                make_processor,
                readonly=lambda: (shard.id for shard in self.client.shards() if shard.readonly),
                first=first,
                save_every_s=save_every_s,
                stop=stop,
                warn=warn,
                clock=self._clock,
            ).run()
        finally:
            closing()

    def broadcast(self, reader: str, kept: Path | str, *, outside: OutsidePolicy = "stop") -> Broadcast:
        """All shards in a `with` block for `reader`, which keeps positions of its own, see `Broadcast`: in
        the file `kept`, or in the database at that address, as SQLAlchemy writes it.

        `outside`: where to go on when a position is not in its shard any more: `stop`, `begin` or `end`.
        Raises ConfigError for what is neither a path nor an address.
        """
        of = self.client.origin().id
        store: CheckpointStore
        if isinstance(kept, Path):
            store = LocalFile(kept, of=of, reader=reader, clock=self._clock)
        elif isinstance(kept, str):
            from sls_io.checkpoints.sql_table import SqlTable

            store = SqlTable(kept, of=of, reader=reader, clock=self._clock)
        else:
            raise ConfigError(
                "broadcast: positions are kept in a file (`Path`) or in a database (its address as text), "
                f"not in a {type(kept).__name__}"
            )
        return Broadcast(self.client, store, self._read, outside=outside)

    # --- below

    def _coordinator(self, by: Coordinator | Group | str) -> tuple[Coordinator, Callable[[], None]]:
        """Who holds shards, and what to call when that is over."""
        if not isinstance(by, str | Group) and not callable(getattr(by, "claim", None)):
            raise ConfigError(
                "hold: name a consumer group, or give its settings (`Group`) or a coordinator (`SqlLease`, "
                f"`Static`, one of your own), not a {type(by).__name__}"
            )
        if isinstance(by, str):
            try:
                by = Group(name=by)
            except ValidationError as error:
                problem = error.errors(include_input=False, include_url=False)[0]
                raise ConfigError(f"hold: {problem['msg'].removeprefix('Value error, ')}") from None
        if isinstance(by, Group):
            own = SlsClient(self.client.service, clock=self._clock)
            return ServerGroup(own, by, clock=self._clock), own.close
        return by, lambda: None

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.client.origin().id, self._columns)

    def _pace(self) -> Pace:
        return Pace(self._mb_per_s, clock=self._clock)

    def _read(self, extent: Extent, *, groups_max: int = PAGE_GROUPS_MAX) -> Iterator[Rows]:
        return extent.rows(
            self.client, self._decoder, pace=self._pace(), clock=self._clock, groups_max=groups_max
        )

    def _edge(self, shard: int, cursor: int | None, moment_s: int | None, name: str) -> Cursor:
        if cursor is not None:
            return Cursor(cursor)
        if moment_s is not None:
            return self.client.cursor_at(shard, moment_s)
        return self.client.cursor_at(shard, "begin" if name == "begin" else "end")


def open_logstore(
    service: Service | str,
    project: str = "",
    logstore: str = "",
    *,
    region: str = "",
    columns: Iterable[str | Declared] = (),
    shard_mb_per_s: float = SHARD_MB_PER_S,
    clock: Clock = SYSTEM_CLOCK,
) -> Reader:
    """Open a logstore: by endpoint, project and logstore, or by a `Service`, which has all settings.

    Nothing is asked of the service yet. Raises ConfigError for names that cannot be.
    """
    if isinstance(service, str):
        try:
            service = Service(endpoint=service, project=project, logstore=logstore, region=region)
        except ValidationError as error:
            problems = error.errors(include_input=False, include_url=False)
            raise ConfigError("; ".join(p["msg"].removeprefix("Value error, ") for p in problems)) from None
    elif project or logstore or region:
        raise ConfigError("project, logstore and region are part of the Service: name them there")
    return Reader(
        SlsClient(service, clock=clock), columns=columns, shard_mb_per_s=shard_mb_per_s, clock=clock
    )


def _check_number(given: object, what: str, *, least: int) -> None:
    if not isinstance(given, SupportsIndex) or isinstance(given, bool) or index(given) < least:
        raise ConfigError(
            f"{what}, a whole number from {least} on, not {printable(repr(given), _SHOWN_CHARS)}"
        )


def _status(client: SlsClient, shard: Shard, place: GroupCheckpoint | None, now_s: float) -> ShardStatus:
    """A lag is 0 where nothing lies behind the checkpoint, or, without one, behind the begin."""
    status = "readonly" if shard.readonly else "readwrite"
    holder, checkpoint = (place.holder, place.cursor) if place else ("", None)
    try:
        head = client.head(shard)
        oldest_s = _received_s(client, shard.id, head.begin) if head.begin < head.end else None
    except ShardGone:
        return ShardStatus(shard.id, "gone", None, None, shard.created_s, None, holder, checkpoint)
    lag_s: float | None = None
    if place is not None and (checkpoint or head.begin) >= head.end:
        lag_s = 0.0
    elif place is not None:
        waits_s = oldest_s if checkpoint is None else _received_s(client, shard.id, checkpoint)
        lag_s = None if waits_s is None else max(0.0, now_s - waits_s)
    return ShardStatus(
        shard.id, status, head.begin, head.end, shard.created_s, oldest_s, holder, checkpoint, lag_s
    )


def _received_s(client: SlsClient, shard: int, cursor: Cursor) -> int | None:
    try:
        return client.cursor_time_s(shard, cursor)
    except CursorExpired:
        return None


def _shown(table: pa.Table) -> "pd.DataFrame":
    """For people: each key of `__rest__` a column of text, as far as no column is called so.

    A key that got a column leaves the map, so `__rest__` is shown only where something is left in it.
    """
    import pandas as pd

    rest = [dict(pairs or ()) for pairs in table["__rest__"].to_pylist()]
    frame: pd.DataFrame = table.drop_columns(["__rest__", "__error__"]).to_pandas(maps_as_pydicts="lossy")
    taken = {*frame.columns, "__rest__", "__error__"}
    for name in dict.fromkeys(key for pairs in rest for key in pairs if key not in taken):
        frame[name] = [pairs.pop(name, None) for pairs in rest]
    if any(rest):
        frame["__rest__"] = pd.Series(rest, dtype=object)
    frame["__error__"] = table["__error__"].to_pylist()
    return frame
