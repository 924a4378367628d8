"""How fast one core turns pages into record batches: `python bench/bench_decode.py`.

Pages are what a busy access log looks like: about 8 MB raw, 100 groups x 200 logs x 10 text
fields, 2 % of the rows with a key nobody declared, half of them with a nanosecond part, half of
the groups with two tags. Prints MB (10**6 raw bytes) per CPU second, the median of the rounds.
"""

import argparse
import random
import time

from aliyun.log.log_logs_raw_pb2 import LogGroupListRaw

from pipelines.landing.table.contract import Contract
from sls_io.decoding.decode import Decoder
from sls_io.values.window import Cursor
from sls_io.wire.loggroup import compress
from sls_io.wire.page import Page

FIELDS = (
    "client_ip", "method", "path", "status", "latency_ms",
    "bytes_sent", "user_agent", "referer", "request_id", "host",
)  # fmt: skip
TYPES = dict.fromkeys(FIELDS, "string")
TYPED = TYPES | {"status": "int", "latency_ms": "double", "bytes_sent": "long"}


def page(seed: int, *, groups: int = 100, logs: int = 200) -> Page:
    """One lz4 page, the same for the same seed."""
    rng = random.Random(seed)
    pages = LogGroupListRaw()
    for g in range(groups):
        group = pages.LogGroups.add()
        group.Topic, group.Source = "access", f"10.0.{g % 4}.{g % 250}"
        if g % 2:
            for key in ("host", "zone"):
                tag = group.LogTags.add()
                tag.Key, tag.Value = key, f"{key}-{g % 7}"
        for i in range(logs):
            log = group.Logs.add()
            log.Time = 1_760_000_000 + g
            if i % 2:
                log.Time_ns = rng.randrange(10**9)
            for key, value in zip(FIELDS, _values(rng), strict=True):
                pair = log.Contents.add()
                pair.Key, pair.Value = key, value.encode()
            if rng.random() < 0.02:
                pair = log.Contents.add()
                pair.Key, pair.Value = "debug", b"sampled"
    raw = pages.SerializeToString()
    body = compress(raw, "lz4")
    return Page(0, Cursor(1000), Cursor(1000 + groups), groups, len(raw), "lz4", body, Cursor(999 + groups))


def _values(rng: random.Random) -> tuple[str, ...]:
    return (
        f"203.0.113.{rng.randrange(256)}",
        rng.choice(("GET", "GET", "GET", "POST", "PUT")),
        f"/v1/{rng.choice(('orders', 'users', 'search'))}/{rng.randrange(10**6)}?page={rng.randrange(50)}",
        rng.choice(("200", "200", "200", "304", "404", "502")),
        f"{rng.expovariate(0.05):.3f}",
        str(rng.randrange(200, 60_000)),
        f"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/{rng.randrange(90, 140)}.0 Safari/537.36",
        f"https://www.example.com/{rng.choice(('home', 'cart', 'list'))}",
        f"{rng.getrandbits(128):032x}",
        f"shop-{rng.randrange(8)}.example.com",
    )


def measure(decoder: Decoder, pages: list[Page], rounds: int) -> float:
    """MB raw per CPU second, median of `rounds` over all pages."""
    speeds = []
    for _ in range(rounds + 1):
        begin = time.process_time()
        for one in pages:
            for _ in decoder.open(one).parts(489_000):
                pass
        speeds.append(sum(p.raw_bytes for p in pages) / 1e6 / (time.process_time() - begin))
    return sorted(speeds[1:])[rounds // 2]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    pages = [page(seed) for seed in range(asked.pages)]
    print(
        f"{len(pages)} pages of {pages[0].raw_bytes / 1e6:.1f} MB raw, lz4 {len(pages[0].body) / 1e6:.1f} MB"
    )
    cases = {"declared as text": TYPES, "three of them typed": TYPED, "nothing declared": {}}
    for name, columns in cases.items():
        contract = Contract.from_columns(columns)
        decoder = contract.decoder("bench-00000000", contract.iceberg_schema())
        print(f"{name:>22}: {measure(decoder, pages, asked.rounds):6.0f} MB per CPU second")


if __name__ == "__main__":
    main()
