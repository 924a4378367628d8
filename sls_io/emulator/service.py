"""What a running emulator is made of, and the two calls that move LogGroups.

Everything here runs on one event loop without an `await` inside a change, so a call is atomic.
A change is in the journal before its answer is sent.

What a journal entry promises. Story: a put is answered, and the process is killed: after a restart the
group must be there, since the client will not send it again. The process is killed before it answers: the
group may be there or not, and the client must not take silence for "no". The tests of landings rely on
both.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sls_io.emulator.faults import Faults
from sls_io.emulator.limits import Limits
from sls_io.emulator.moved_clock import MovedClock
from sls_io.emulator.quotas import Amounts, Meter
from sls_io.emulator.signing import SigningKeys
from sls_io.emulator.storage.groups import ConsumerGroup
from sls_io.emulator.storage.journal import open_journal
from sls_io.emulator.storage.logs import check_group, log_times
from sls_io.emulator.storage.refusal import Refused, no_group
from sls_io.emulator.storage.shard_log import RecordSpan, ShardLog
from sls_io.emulator.storage.store import DAY_S, Store, StoredLogstore
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.errors import ConfigError, DecodeError
from sls_io.wire.loggroup import COMPRESSIONS, decompress, frame, groups

_LATE_S, _EARLY_S = 7 * DAY_S, 900


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """One request after routing: names out of the path, decoded query, lower-case headers, body."""

    name: str
    project: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class ServedAnswer:
    """A successful answer. With `compress` the body is still plain; `key` finds it in the cache."""

    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    compress: str = ""
    key: tuple[object, ...] | None = None


class PageCache:
    """Compressed answers, the least recently served dropped first.

    The page that was asked for longest ago goes first.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self._bytes = bytes_max, 0
        self._kept: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    def get(self, key: tuple[object, ...]) -> bytes | None:
        """The body, if it is still here."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: tuple[object, ...], body: bytes) -> None:
        """Keep a body.

        A body that is larger than the whole cache is not kept: it would put out all others and then itself.
        """
        if len(body) > self._bytes_max or key in self._kept:
            return
        self._kept[key] = body
        self._bytes += len(body)
        while self._bytes > self._bytes_max:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)


class LogService:
    """The state of one emulator, in memory or on top of a data folder.

    At start all members of all groups count as seen now. Story: an emulator stands still for an hour, in a
    test or overnight. By the times that were written down each member would be silent for too long, every
    shard would change hands at the first call, and work in progress would be refused.
    """

    def __init__(
        self, data: Path | None = None, *, keys: SigningKeys, limits: Limits | None = None,
        now: float | None = None, machine: Clock = SYSTEM_CLOCK, salvage: bool = False,
    ) -> None:  # fmt: skip
        self.limits = limits or Limits()
        self.machine, self.keys = machine, keys
        self.clock = MovedClock(machine)
        self.store = Store(numbered=data is not None)
        self.faults = Faults()
        self.meter = Meter()
        self.journal = open_journal(
            data, self.store, machine.now(), segment_bytes_max=self.limits.segment_bytes_max, salvage=salvage
        )
        self._set_clock(now)
        for logstore in self.store.logstores.values():
            for group in logstore.groups.values():
                group.members = dict.fromkeys(group.members, self.clock.now())
        self.in_memory = data is None
        self.pages = PageCache(self.limits.cache_bytes_max)
        self.bytes_kept = sum(s.raw_bytes for x in self.store.logstores.values() for s in x.shards.values())
        self.commit()

    def _set_clock(self, now: float | None) -> None:
        """The time that was kept, or `now` instead: a kept one out of range must not stop that cure."""
        try:
            self.clock.restore(self.store.clock)
        except (ConfigError, TypeError, ValueError) as error:
            if now is None:
                self.journal.close()
                raise ConfigError(
                    f"the data folder keeps a clock that cannot be: {error}; set it with --now"
                ) from None
        if now is not None:
            self.clock.set(now)
            self.clock_moved()

    def now(self) -> float:
        """The emulator's time."""
        return self.clock.now()

    def clock_moved(self) -> None:
        """Write down where the clock stands, so that a restart goes on from there."""
        self.store.clock = self.clock.doc()
        self.store.changes.append({"op": "clock", "doc": self.store.clock})

    def logstore(self, call: RoutedRequest) -> StoredLogstore:
        """The logstore the path names, retention applied."""
        return self.store.logstore(call.project, call.names["logstore"], self.now())

    def group(self, logstore: StoredLogstore, name: str) -> ConsumerGroup:
        """A consumer group with the silent members evicted and the shards up to date."""
        found = logstore.groups.get(name)
        if found is None:
            raise no_group(name)
        found.look(self.now(), logstore.shape())
        return found

    def commit(self) -> None:
        """Write down what the call changed; give back what it released."""
        for logstore in self.store.logstores.values():
            for group in logstore.groups.values():
                if group.changed:
                    self.store.group_changed(logstore, group)
        self._write_changes()
        if self.store.released:
            self.journal.release(self.store.released)
            self.store.released.clear()
            self.bytes_kept = sum(
                s.raw_bytes for x in self.store.logstores.values() for s in x.shards.values()
            )

    def _write_changes(self) -> None:
        if self.store.changes:
            self.journal.write(self.store.changes)
            self.store.changes.clear()

    def put(self, logstore: StoredLogstore, call: RoutedRequest, key: str | None) -> None:
        """PutLogs: check the body, choose the shard, write it down, then show it.

        Nothing is counted or kept of a put that is refused: the body is checked first, then the memory,
        then the quotas. The journal comes before the shard's index. Were the write to fail behind the
        index, readers would be given a group that a restart does not know.
        """
        raw = self._plain(call)
        now = self.now()
        times_within = (now - _LATE_S, now + _EARLY_S) if self.limits.check_log_times else None
        if self.limits.check_groups:
            check_group(raw, times_within=times_within)
        shard = logstore.route(key)
        framed = frame(raw)
        if self.in_memory and self.bytes_kept + len(framed) > self.limits.memory_bytes_max:
            raise Refused(403, "WriteQuotaExceed", "memory_bytes_max reached: start the emulator with --data")
        self._meter_write(logstore, shard, len(raw))
        # A change that a full disk kept out of the journal, say the logstore itself, must stand before its
        # LogGroups: behind them, a restart would find groups of a logstore that it does not know.
        self._write_changes()
        place = self.journal.append(logstore.uid, shard.id, shard.next, shard.second(now), framed)
        shard.append(place, len(framed), now)
        self.bytes_kept += len(framed)

    def delete(self, logstore: StoredLogstore, begin_s: int, end_s: int) -> int:
        """DeleteLogs: how many logs of [begin_s, end_s) are deleted now that were not before.

        A log in a time that was deleted before is not counted again. Worked example: logs at 10, 20 and 30;
        [10, 25) deletes 2, then [15, 40) deletes 1.
        """
        found = 0
        for shard in logstore.shards.values():
            cursor = shard.begin
            while cursor < shard.next:
                span = shard.span(cursor, self.limits.page_groups_max, None)
                raw, cursor = self.journal.read(span.places, span.sizes), span.next
                times = [t for begin, end in groups(raw) for t in log_times(raw[begin:end])]
                found += sum(
                    begin_s <= t < end_s and not any(b <= t < e for b, e in logstore.deleted) for t in times
                )
        self.store.delete_softly(logstore, begin_s, end_s)
        return found

    def page(self, logstore: StoredLogstore, shard: ShardLog, span: RecordSpan, accept: str) -> ServedAnswer:
        """PullLogs: the answer for one span, compressed as the caller accepts.

        Compressed pages are kept: many readers, and many tests, ask for the same one. What `span` names never
        changes, so its first group, its count and the kind of compression are the key.
        """
        self._meter_read(logstore, shard, span.raw_bytes)
        headers = {
            "x-log-count": str(span.count),
            "x-log-bodyrawsize": str(span.raw_bytes),
            "x-log-end-of-cursor": "1" if span.at_end else "0",
            "content-type": "application/x-protobuf",
        }
        if span.last is None:
            return ServedAnswer(headers=headers)
        headers |= {"x-log-read-last-cursor": str(span.last), "x-log-cursor-time": str(span.time_s)}
        kind = next((k for k in (part.strip() for part in accept.split(",")) if k in COMPRESSIONS), "")
        key = (logstore.uid, shard.id, span.first, span.count, kind)
        if kind:
            headers["x-log-compresstype"] = kind
            cached = self.pages.get(key)
            if cached is not None:
                return ServedAnswer(cached, headers)
        return ServedAnswer(self.journal.read(span.places, span.sizes), headers, kind, key if kind else None)

    def _meter_write(self, logstore: StoredLogstore, shard: ShardLog, size: int) -> None:
        limits, one, all_shards = self.limits, (logstore.uid, shard.id), logstore.project
        now = self.clock.elapsed()
        by_shard: Amounts = {
            ("write_bytes", one): (size, limits.shard_write_bytes_per_s, 1),
            ("write_calls", one): (1, limits.shard_write_calls_per_s, 1),
        }
        by_project: Amounts = {
            ("write_bytes", all_shards): (size, limits.project_write_bytes_per_min, 60),
            ("write_calls", all_shards): (1, limits.project_write_calls_per_min, 60),
        }
        self.meter.take(by_project, now, "WriteQuotaExceed")
        self.meter.take(by_shard, now, "ShardWriteQuotaExceed")

    def _meter_read(self, logstore: StoredLogstore, shard: ShardLog, size: int) -> None:
        """Projects first: a call that the project's quota refuses must not use up a share of its shard's.
        What is taken is the page as it will be answered, so an empty pull costs a call and no bytes.
        """
        limits, one, now = self.limits, (logstore.uid, shard.id), self.clock.elapsed()
        by_shard: Amounts = {
            ("read_bytes", one): (size, limits.shard_read_bytes_per_s, 1),
            ("read_calls", one): (1, limits.shard_read_calls_per_s, 1),
        }
        by_project: Amounts = {("read_calls", logstore.project): (1, limits.project_read_calls_per_min, 60)}
        self.meter.take(by_project, now, "ReadQuotaExceed")
        self.meter.take(by_shard, now, "ShardReadQuotaExceed")

    def _plain(self, call: RoutedRequest) -> bytes:
        """The size that the header says is held against the limit before anything is unpacked: a body of
        kilobytes may unpack to gigabytes."""
        size = call.headers.get("x-log-bodyrawsize")
        if size is None:
            raise Refused(400, "MissingBodyRawSize", "x-log-bodyrawsize: the uncompressed size of the body")
        if not size.isascii() or not size.isdigit():
            raise Refused(400, "InvalidBodyRawSize", "x-log-bodyrawsize: expected a number")
        if len(size) > 12 or int(size) > self.limits.put_bytes_max:
            raise Refused(
                400, "PostBodyTooLarge", f"a LogGroup has at most {self.limits.put_bytes_max} bytes"
            )
        kind = call.headers.get("x-log-compresstype", "")
        if kind not in ("", *COMPRESSIONS):
            raise Refused(400, "InvalidCompressType", f"x-log-compresstype: one of {', '.join(COMPRESSIONS)}")
        try:
            return decompress(call.body, kind, int(size))
        except DecodeError as error:
            code = "PostBodyUncompressError" if kind else "InvalidBodyRawSize"
            raise Refused(
                400, code, "the body is not what x-log-compresstype and x-log-bodyrawsize say"
            ) from error

    def close(self) -> None:
        """Write down the last changes and stop."""
        self.commit()
        self.journal.close()
