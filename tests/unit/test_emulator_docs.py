"""docs/emulator.md says what the code does: its tables and its picture are drawn from the code.

After a change of the code, `python -m tests.unit.test_emulator_docs` draws them again.
"""

import re
from pathlib import Path

from sls_io.emulator.api import ROUTES, UNSUPPORTED
from sls_io.emulator.limits import Limits
from sls_io.emulator.parameters import TAKES, Parameter
from sls_io.values.shard import TRANSITIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "emulator.md"
PARTS = {"STATES": "states", "CALLS": "calls", "TAKES": "takes", "REFUSED": "refused", "LIMITS": "limits"}


def states() -> str:
    """The five states and their nine edges."""
    edges = [
        f"    {before.value} --> {after.value}: {event.value}"
        for (before, event), after in TRANSITIONS.items()
    ]
    starts = ["    [*] --> wait: ordered, an ancestor unfinished", "    [*] --> not_alloc"]
    return "\n".join(["```mermaid", "stateDiagram-v2", *starts, *edges, "```"])


def calls() -> str:
    """One row per supported call."""
    rows = []
    for route in ROUTES:
        query = "&".join(f"{k}={v[0]}" for k, v in route.query.items() if v != ("",))
        rows.append(f"| `{route.name}` | `{route.method} {route.path}{'?' + query if query else ''}` |")
    return "\n".join(["| Name | Request |", "|---|---|", *rows])


def takes() -> str:
    """One row per call that takes more than its path."""
    rows = [f"| `{name}` | {', '.join(_taken(one) for one in table)} |" for name, table in TAKES.items()]
    return "\n".join(["| Call | Takes; what is **needed** |", "|---|---|", *rows])


def _taken(one: Parameter) -> str:
    name = f"**`{one.name}`**" if one.required else f"`{one.name}`"
    if one.parts:
        return f"{name} ({', '.join(_taken(part) for part in one.parts)})"
    if one.values:
        return f"{name} {' or '.join(one.values)}"
    default = f", {one.default} where it is left out" if one.kind is int and one.default is not None else ""
    return f"{name} {one.least} to {one.most}{default}" if one.kind is int else name


def refused() -> str:
    """One row per call that is known and not supported."""
    rows = [f"| `{method} {_readable(path)}` | {reason} |" for method, path, reason in UNSUPPORTED]
    return "\n".join(["| Request | Why |", "|---|---|", *rows])


def limits() -> str:
    """One row per limit, with its default."""
    rows = [f"| `{name}` | {field.default} |" for name, field in Limits.model_fields.items()]
    return "\n".join(
        [
            "`--limits` takes them as JSON, `admin.limits` changes them.",
            "",
            "| Name | Default |",
            "|---|---|",
            *rows,
        ]
    )


def _readable(pattern: str) -> str:
    plain = pattern.replace("[^/]+", "{logstore}").replace(".*", "...").replace("(/...)?", "/...")
    return plain.replace("|", "\\|")


def drawn(text: str) -> str:
    """The page with its parts drawn from the code."""
    for mark, name in PARTS.items():
        part = f"<!-- {name} -->\n{globals()[name]()}\n<!-- end of {name} -->"
        whole = re.compile(rf"^{mark}$|<!-- {name} -->.*<!-- end of {name} -->", re.DOTALL | re.MULTILINE)
        text = whole.sub(part.replace("\\", "\\\\"), text)
    return text


def test_the_page_is_drawn_from_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == drawn(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
