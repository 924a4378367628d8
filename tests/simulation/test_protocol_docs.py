"""docs/protocol.md says what the code does: its picture and its tables are drawn from the code.

The moves of the picture are those that the search of small worlds has seen production's `step` make.
After a change, `python -m tests.simulation.test_protocol_docs` draws the page again.
"""

import inspect
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import get_args

from pipelines.landing.run import protocol
from sls_io.values.errors import SlsError
from tests.simulation import lease_models
from tests.simulation.exhaustive import Exhaustive
from tests.simulation.models import FULL, HUNTING, QUICK
from tests.simulation.mutants import MUTANTS, SLIPS
from tests.simulation.stories import STORIES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "protocol.md"


def picture() -> str:
    """Every move between two phases: the event, and the effect that it asks for."""
    lines: dict[str, None] = {"    [*] --> new": None}
    for before, event, after, asks in sorted(edges()):
        lines[f"    {before} --> {after}: {event}{f' / {asks}' if asks else ''}"] = None
    lines["    done --> [*]"] = None
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


@cache
def edges() -> frozenset[tuple[str, str, str, str]]:
    """(phase, event, next phase, effect) of the steps taken in the small models."""
    found: set[tuple[str, str, str, str]] = set()
    for model in HUNTING:
        search = Exhaustive(model)
        search.run()
        for state, event in search.moves.steps.taken:
            try:
                after, effects = protocol.step(state, event)
            except SlsError:
                found.add((state.phase, type(event).__name__, "gave_up", ""))
            else:
                asks = ", ".join(type(e).__name__ for e in effects)
                found.add((state.phase, type(event).__name__, after.phase, asks))
    return frozenset(found)


def effects() -> str:
    """One row per effect: what the driver does."""
    rows = [f"| `{kind.__name__}` | {_first_line(kind)} |" for kind in get_args(protocol.Effect)]
    return "\n".join(["| Effect | The driver |", "|---|---|", *rows])


def events() -> str:
    """One row per event: what the driver says."""
    rows = [f"| `{kind.__name__}` | {_first_line(kind)} |" for kind in get_args(protocol.Event)]
    return "\n".join(["| Event | Says |", "|---|---|", *rows])


def stories() -> str:
    """Each race beside the line that stops it; the checkers find the bug when that line is wrong."""
    parts: list[str] = []
    for name, story in STORIES.items():
        slip = SLIPS[name][0]
        file = Path(inspect.getsourcefile(slip.function) or "").relative_to(ROOT).as_posix()
        (line,) = [x.strip() for x in inspect.getsource(slip.function).splitlines() if slip.old in x]
        told = textwrap.fill(f"**{story.title}.** {story.text}", 140, break_long_words=False)
        parts.append(
            f"{told}\n\n"
            f"```python\n# {file}, {slip.function.__name__}\n{line}\n```\n\n"
            f"Deliberate bug: *{name}*.\n"
        )
    return "\n".join(parts).rstrip()


def models() -> str:
    """One row per model."""
    rows = [f"| `make simulate` | {model} |" for model in FULL]
    rows += [f"| `make test` | {model} |" for model in QUICK]
    return "\n".join(["| Explored by | Model |", "|---|---|", *rows])


def mutants() -> str:
    """The names of all deliberate bugs."""
    return "\n".join(f"- {mutant.name}" for mutant in MUTANTS)


def leases() -> str:
    """The worlds of leases and the deliberate bugs of their rules."""
    worlds = [f"| `make simulate` | {model} |" for model in lease_models.FULL]
    worlds += [f"| `make test` | {model} |" for model in lease_models.QUICK]
    bugs = [f"- {name}" for name in lease_models.BUGS]
    return "\n".join(["| Explored by | World |", "|---|---|", *worlds, "", *bugs])


PARTS = {f.__name__: f for f in (picture, effects, events, stories, models, leases, mutants)}


def _first_line(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def drawn(text: str) -> str:
    """The page with its parts drawn from the code."""
    for name, draw in PARTS.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        whole = re.compile(f"{begin}.*{end}", re.DOTALL)
        text = whole.sub(f"{begin}\n{draw()}\n{end}".replace("\\", "\\\\"), text)
    return text


def test_the_page_is_drawn_from_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in PARTS)
    assert text == drawn(text)


def test_the_picture_shows_every_phase_and_every_event_a_phase_can_take() -> None:
    shown = edges()
    assert {(phase, event) for phase, event, _, _ in shown} == {
        (phase, event.__name__) for phase, event in protocol._HANDLERS
    }
    assert {after for _, _, after, _ in shown} == {*protocol.Phase, "gave_up"} - {protocol.Phase.NEW}


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
