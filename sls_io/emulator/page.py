"""The status page: what the emulator holds, as one HTML document without scripts."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem;
       color: #1c2733 }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; color: #566473 }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #d8dfe6 }
.n { text-align: right; font-variant-numeric: tabular-nums }
.quiet { color: #566473 }
"""
_SHARD_HEADS = ("shard", "status", "key from", "LogGroups", "bytes", "begin cursor", "end cursor")
_GROUP_HEADS = ("shard", "state", "holder", "checkpoint", "at the end")


def render(state: dict[str, Any], time: str, frozen: bool) -> str:
    """The page for a state as `/_admin/state` gives it; `time` is the emulator's, readable."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>sls-lake emulator</title>",
        f"<style>{_STYLE}</style><h1>sls-lake emulator</h1>",
        f"<p>Its clock says <b>{escape(time)}</b>{' and stands still' if frozen else ''}. ",
        "The same as JSON: <a href=/_admin/state>state</a>, <a href=/_admin/faults>faults</a>, ",
        "<a href=/_admin/limits>limits</a>.</p>",
    ]
    if not state["logstores"]:
        parts.append("<p class=quiet>No logstore yet. A client or <code>sls-lake load</code> makes one.</p>")
    for logstore in state["logstores"]:
        parts += _logstore(logstore)
    return "".join(parts)


def _logstore(logstore: dict[str, Any]) -> Iterable[str]:
    days = "for ever" if logstore["ttl_days"] >= 3650 else f"{logstore['ttl_days']} days"
    yield f"<h2>{escape(logstore['project'])} / {escape(logstore['logstore'])}</h2>"
    shards = logstore["shards"]
    rows = [
        (s["shardID"], s["status"], s["inclusiveBeginKey"][:8] + "…", _thousands(s["groups"]),
         _thousands(s["bytes"]), s["begin"], s["end"])
        for s in shards
    ]  # fmt: skip
    yield _table(f"kept {days}", _SHARD_HEADS, rows, {0, 3, 4, 5, 6})
    ends = {s["shardID"]: s["end"] for s in shards}
    for group in logstore["groups"]:
        yield f"<h3>group {escape(group['name'])}</h3>"
        yield _group(group, ends)


def _group(group: dict[str, Any], ends: dict[int, int]) -> str:
    order = "ordered" if group["order"] else "unordered"
    members = ", ".join(sorted(group["members"])) or "nobody"
    rows = []
    for slot in group["shards"]:
        checkpoint = slot["checkpoint"]
        holder = slot["holder"] + (f" → {slot['taker']}" if slot["taker"] else "")
        drained = checkpoint is not None and checkpoint >= ends[slot["shard"]]
        shown = "none" if checkpoint is None else checkpoint
        rows.append((slot["shard"], slot["state"], holder, shown, "yes" if drained else "no"))
    return _table(f"{order}, time-out {group['timeout_s']} s, members: {members}", _GROUP_HEADS, rows, {0, 3})


def _thousands(value: int) -> str:
    return f"{value:,}"


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], right: set[int]) -> str:
    """An HTML table; the columns in `right` are set flush right."""

    def cells(tag: str, values: Sequence[object]) -> str:
        marks = ("class=n" if i in right else "" for i in range(len(values)))
        pairs = zip(marks, values, strict=True)
        return "".join(f"<{tag} {mark}>{escape(str(value))}</{tag}>" for mark, value in pairs)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{cells('th', heads)}</tr>{body}</table>"
