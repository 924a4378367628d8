"""Until the service says no: quotas of a shard, and keys after their end."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from aliyun.log import log_logs_pb2

from real.asked import GROUP_MB, QUOTA, READ_MB, WRITE_MB, Asked
from real.report import FAILED, NOT_TRIED, OK
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ServiceError, Throttled
from sls_io.values.settings import Credentials
from sls_io.wire.client import SlsClient
from sls_io.wire.credentials import resolve
from sls_io.wire.keys import Keys

_AT_ONCE = 4
_MB = 1_000_000
_WAIT_MAX_S = 1_260.0
_kept: list[Keys] = []


def write_quota(asked: Asked) -> Iterator[tuple[str, str, str]]:
    """Groups of a megabyte into one shard, one answer each."""
    with _impatient(asked) as client:
        group = _group()

        def put() -> int:
            client.put_raw(group, key="0" * 32)
            return len(group)

        said = _until_throttled(put, WRITE_MB * _MB)
    yield "write quota", OK, said


def read_quota(asked: Asked) -> Iterator[tuple[str, str, str]]:
    """The shard's first page, again and again."""
    with _impatient(asked) as client:
        shard = client.shards()[0]
        begin = client.head(shard).begin
        said = _until_throttled(lambda: client.pull(shard.id, begin).raw_bytes, READ_MB * _MB)
    yield "read quota", OK, said


def ended_keys(asked: Asked) -> Iterator[tuple[str, str, str]]:
    """A client goes on over the end of its keys, and the service's own answer to the ended ones."""
    if asked.ending is None:
        yield "keys that end", NOT_TRIED, "no ENDING=PROVIDER[:NAME] was given, such as a profile with a role"
        return
    keys = resolve(asked.ending)
    left_s = keys.expires_s - SYSTEM_CLOCK.now()
    if not 0 < left_s < _WAIT_MAX_S:
        yield "keys that end", NOT_TRIED, f"the keys of ENDING end in {left_s:,.0f} s: 20 minutes at most"
        return
    _kept[:] = [keys]
    # The service's and this machine's clock may differ by a minute; ended is ended.
    old = Credentials(provider="import", name=f"{__name__}:kept")
    with (
        SlsClient(asked.service(credentials=asked.ending)) as lasting,
        SlsClient(asked.service(credentials=old)) as ended,
    ):
        lasting.shards()
        ended.shards()
        SYSTEM_CLOCK.sleep(max(0.0, keys.expires_s - SYSTEM_CLOCK.now()) + 1.0)
        lasting.shards()
        yield "keys that end: renewed", OK, "the same client goes on"
        try:
            ended.shards()
        except ServiceError as error:
            yield "keys that end: refused", OK, f"{error.code} (HTTP {error.status})"
        else:
            yield "keys that end: refused", FAILED, "they are taken after their end"


def kept() -> tuple[object, ...]:
    """Keys that nobody renews, for settings that name this function."""
    return _kept[0][:3]


def _impatient(asked: Asked) -> SlsClient:
    return SlsClient(asked.service(QUOTA).model_copy(update={"tries_max": 1}))


def _group() -> bytes:
    message = log_logs_pb2.LogGroup()
    log = message.Logs.add()
    log.Time = int(SYSTEM_CLOCK.now())
    content = log.Contents.add()
    content.Key, content.Value = "text", "made up, to be thrown away. " * (GROUP_MB * _MB // 28)
    return bytes(message.SerializeToString())


def _until_throttled(once: Callable[[], int], bytes_max: int) -> str:
    """Calls `once` on some threads until it is refused, or gave or took so many bytes."""
    over, lock, sizes, codes = threading.Event(), threading.Lock(), list[int](), list[str]()

    def go_on() -> None:
        while not over.is_set():
            try:
                size = once()
            except Throttled as refused:
                codes.append(f"{refused.code} (HTTP {refused.status})")
                over.set()
            else:
                with lock:
                    sizes.append(size)
                    if sum(sizes) >= bytes_max:
                        over.set()

    began_s = SYSTEM_CLOCK.monotonic()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            for done in [pool.submit(go_on) for _ in range(_AT_ONCE)]:
                done.result()
        finally:
            over.set()
    took_s = SYSTEM_CLOCK.monotonic() - began_s
    amount = f"{sum(sizes) / _MB:,.0f} MB in {len(sizes)} calls and {took_s:.1f} s"
    return f"{amount}, then {codes[0]}" if codes else f"{amount}, and no refusal"
