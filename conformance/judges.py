"""What each of the vendor's SDKs can do, as its own code has it: where it cannot, the cell says why."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Judge:
    """`kinds`: how it compresses what it puts; `group`: `library`, `calls` or none; `why` is for its n/a."""

    kinds: tuple[str, ...] = ("lz4", "zstd", "none")
    signs: tuple[str, ...] = ("v1", "v4")
    reads: bool = True
    by_key: bool = True
    splits: bool = True
    group: str = "library"
    reads_plain: bool = False
    why: str = ""


JUDGES = {
    "python": Judge(reads_plain=True),
    "go": Judge(),
    "java": Judge(),
    "openapi": Judge(
        ("lz4", "zstd"), group="calls", why="alibabacloud-sls20201230 compresses all that it puts"
    ),
    "typescript": Judge(
        ("lz4",), group="calls", why="@alicloud/sls20201230 compresses all that it puts, and never by zstd"
    ),
    "node": Judge(
        ("none",), ("v1",), reads=False, by_key=False, splits=False, group="",
        why="@alicloud/log puts by v1, plain and without a hash key, and knows no shard, page or group",
    ),
    "rust": Judge(
        ("lz4",), ("v1",), by_key=False, splits=False, group="calls",
        why="aliyun-log-rust-sdk signs v1, puts lz4 without a hash key, and neither splits nor merges",
    ),
}  # fmt: skip
"""v1 is by SHA-1, and by SHA-256 with the two OpenAPI SDKs."""
