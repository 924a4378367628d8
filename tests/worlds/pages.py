"""LogGroups, the pages that bring them, and their decoded rows."""

from dataclasses import replace
from typing import Any

from aliyun.log.log_logs_raw_pb2 import LogGroupListRaw

from pipelines.landing.table.contract import Contract
from sls_io.decoding.decode import Decoded, Decoder
from sls_io.decoding.pairs import Declared
from sls_io.values.window import Cursor
from sls_io.wire import loggroup
from sls_io.wire.page import Page

HOUR = 489_000


def group(*logs: Any, topic: str = "t", source: str = "s", tags: tuple[tuple[str, bytes], ...] = ()) -> Any:
    """One LogGroup; a log is a list of pairs, or bytes that are put in as they are."""
    result = LogGroupListRaw().LogGroups.add()
    result.Topic, result.Source = topic, source
    for key, value in tags:
        tag = result.LogTags.add()
        tag.Key, tag.Value = key, value
    for pairs in logs:
        log = result.Logs.add()
        log.Time = 1_760_000_000
        for key, value in pairs:
            pair = log.Contents.add()
            pair.Key, pair.Value = key, value
    return result


def page_of(raw: bytes, count: int, *, cursor: int = 100, kind: str = "", **changes: Any) -> Page:
    """A page whose headers tell the truth, unless `changes` say otherwise."""
    page = Page(
        3, Cursor(cursor), Cursor(cursor + count), count, len(raw), kind, loggroup.compress(raw, kind), None
    )
    return replace(page, **changes)


def page(*groups: Any, cursor: int = 100, kind: str = "", **changes: Any) -> Page:
    """A page of these groups whose headers tell the truth, unless `changes` say otherwise."""
    raw = b"".join(loggroup.frame(g.SerializeToString()) for g in groups)
    return replace(page_of(raw, len(groups), cursor=cursor, kind=kind), **changes)


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    decoded.batch.validate(full=True)
    assert decoded.rows == decoded.batch.num_rows
    found: list[dict[str, Any]] = decoded.batch.to_pylist()
    for row in found:
        for name in ("__tags__", "__rest__"):
            if row[name] is not None:
                keys = [k for k, _ in row[name]]
                assert len(set(keys)) == len(keys), "a map must not repeat a key"
                row[name] = dict(row[name])
    assert decoded.errors == sum(r["__error__"] is not None for r in found)
    return found


def declared(kind: str, key: str = "s") -> Declared:
    (one,) = Contract.from_columns({key: kind}).declared
    return one


def decode(one: Declared, *logs: list[tuple[str, bytes]]) -> list[dict[str, object]]:
    return rows(Decoder("o-1", (one,)).decode(page(group(*logs)), hour=HOUR))
