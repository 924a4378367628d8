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
.quiet, tr.quiet td { color: #566473 }
.wide { overflow-x: auto }
th, td { white-space: nowrap }
"""
Column = tuple[str, str, bool]
"""Head, width in CSS (empty: what is left), whether it is flush right."""

_SHARDS: tuple[Column, ...] = (
    ("shard", "3rem", True), ("status", "6rem", False), ("keys", "", False), ("LogGroups", "6rem", True),
    ("bytes", "8rem", True), ("begin cursor", "11rem", True), ("end cursor", "11rem", True),
)  # fmt: skip
_SLOTS: tuple[Column, ...] = (
    ("shard", "3rem", True), ("state", "8rem", False), ("holder", "", False), ("checkpoint", "11rem", True),
    ("at the end", "7rem", False),
)  # fmt: skip


def render(state: dict[str, Any], time: str, frozen: bool) -> str:
    """The page for a state as `/_admin/state` gives it; `time` is the emulator's, readable."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'><title>sls-lake emulator</title>",
        f"<style>{_STYLE}</style><h1>sls-lake emulator</h1>",
        f"<p>Its clock says <b>{escape(time)}</b>{' and stands still' if frozen else ''}. ",
        "The same as JSON: <a href=/_admin/state>state</a>, <a href=/_admin/faults>faults</a>, ",
        "<a href=/_admin/limits>limits</a>.</p>",
    ]
    parts += [f"<p><b>At start:</b> {escape(note)}</p>" for note in state["notes"]]
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
        (s["shardID"], s["status"], f"{s['inclusiveBeginKey'][:6]}… to {s['exclusiveEndKey'][:6]}…",
         _thousands(s["groups"]), _thousands(s["bytes"]), s["begin"], s["end"])
        for s in shards
    ]  # fmt: skip
    readonly = {i for i, s in enumerate(shards) if s["status"] == "readonly"}
    yield _table(f"kept {days}", _SHARDS, rows, quiet=readonly)
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
    over = {i for i, slot in enumerate(group["shards"]) if slot["state"] == "over"}
    told = f"{order}, time-out {group['timeout_s']} s, members: {members}"
    return _table(told, _SLOTS, rows, quiet=over)


def _thousands(value: int) -> str:
    return f"{value:,}"


def _table(
    caption: str, columns: Sequence[Column], rows: Iterable[Sequence[object]], *, quiet: set[int]
) -> str:
    """An HTML table; the rows in `quiet`, by position, are what is over and done with."""

    def cells(tag: str, values: Iterable[object]) -> str:
        pairs = zip(columns, values, strict=True)
        return "".join(
            f"<{tag}{' class=n' if right else ''}>{escape(str(value))}</{tag}>"
            for (_, _, right), value in pairs
        )

    widths = "".join(f"<col style='width:{width}'>" if width else "<col>" for _, width, _ in columns)
    body = "".join(
        f"<tr{' class=quiet' if i in quiet else ''}>{cells('td', row)}</tr>" for i, row in enumerate(rows)
    )
    heads = cells("th", (head for head, _, _ in columns))
    return (
        f"<div class=wide><table><caption>{escape(caption)}</caption>"
        f"<colgroup>{widths}</colgroup><tr>{heads}</tr>{body}</table></div>"
    )
