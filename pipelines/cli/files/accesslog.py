"""Generated access-log rows whose content follows from (seed, row number). Pure.

Row n of seed s is the same row on every machine and in every run, so a check needs no second
copy of the truth: it reads `request_id` and computes what the row must say. Only the log's own
time is given from outside, because it has to lie near the receive time.

The rows look like a small shop's traffic: a few pages get most of the hits, most answers are
200, latencies have a long tail, and one row in 20,000 has the latency `-`, as a proxy writes
when no upstream was asked: a value that does not fit a column declared as a number.
"""

from datetime import UTC, datetime
from functools import lru_cache

from pipelines.cli.files.lines import Log

ODD_EVERY = 20_000

KEYS = frozenset(
    (
        "request_id", "remote_addr", "time_local", "request_method", "request_uri", "server_protocol",
        "status", "body_bytes_sent", "latency_ms", "http_user_agent", "http_referer",
    )
)  # fmt: skip
"""Of all rows; the last one not in every row."""

_PAGES = (
    "/", "/", "/", "/products", "/products", "/cart", "/checkout", "/search?q=lamp",
    "/static/app.js", "/static/app.css", "/api/items", "/api/items/17", "/api/orders",
    "/help/returns", "/favicon.ico", "/robots.txt",
)  # fmt: skip
_METHODS = ("GET",) * 13 + ("POST", "POST", "HEAD")
_STATUSES = ("200",) * 24 + ("304", "304", "302", "404", "404", "403", "500", "503")
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_5) AppleWebKit/605.1.15 Version/18.5 Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/139.0.0.0 Safari/537.36",
    "shop-app/7.2 (iPhone; iOS 18.6)",
)
_REFERERS = ("https://shop.example/", "https://shop.example/products", "https://search.example/?q=lamp", "")
_MASK = 2**64 - 1


def generated(seed: int, number: int, time_s: float) -> Log:
    """Row `number` of `seed`, with `time_s` (unix seconds) as its own time."""
    bits = _mix(_mix(seed) ^ number)
    contents = [
        ("request_id", f"{seed:x}-{number}".encode()),
        ("remote_addr", f"10.{bits & 15}.{bits >> 4 & 255}.{bits >> 12 & 255}".encode()),
        ("time_local", _local_time(int(time_s))),
        ("request_method", _METHODS[bits >> 20 & 15].encode()),
        ("request_uri", _PAGES[bits >> 24 & 15].encode()),
        ("server_protocol", b"HTTP/1.1"),
        ("status", _STATUSES[bits >> 28 & 31].encode()),
        ("body_bytes_sent", str(200 + (bits >> 33 & 0xFFFF)).encode()),
        ("latency_ms", _latency(bits, number)),
        ("http_user_agent", _AGENTS[bits >> 49 & 3].encode()),
    ]
    referer = _REFERERS[bits >> 51 & 3]
    if referer:
        contents.append(("http_referer", referer.encode()))
    return Log(time_s, tuple(contents))


def _latency(bits: int, number: int) -> bytes:
    if number % ODD_EVERY == ODD_EVERY - 1:
        return b"-"
    short = (bits >> 53 & 0x3FF) / 10
    return f"{short * short / 12 + 0.4:.1f}".encode()


@lru_cache(maxsize=64)
def _local_time(time_s: int) -> bytes:
    return datetime.fromtimestamp(time_s, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000").encode()


def _mix(value: int) -> int:
    """The splitmix64 step: neighbouring numbers get unrelated bits."""
    value = value + 0x9E3779B97F4A7C15 & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
