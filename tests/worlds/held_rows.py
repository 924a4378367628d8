"""A group of readers, and the numbered rows that one of them has read."""

from sls_io import Group
from sls_io.reader.rows import Rows


def group(holder: str = "worker-1", **changes: object) -> Group:
    known = {"name": "readers", "holder": holder, "timeout_s": 30, "heartbeat_s": 1}
    return Group.model_validate(known | {"patience_s": 20} | changes)


def numbers(rows: Rows) -> list[int]:
    return [int(dict(rest)["n"]) for rest in rows.batch["__rest__"].to_pylist()]
