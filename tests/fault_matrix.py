"""The fault matrix: which fault at which step is made by which test, and what must come of it.

    python -m tests.fault_matrix           print the grid and the counts
    python -m tests.fault_matrix --write   draw docs/internals/fault-matrix.md again

The matrix stands here, the tests say themselves which cells they make: `@pytest.mark.fault("4a.3.kill")`
on a test, or as `marks=` of one `pytest.param(..., id="...")` of it. Marks are read from the source, so
the page names no test that is not there. A cell that cannot be made has a reason in `NOT_APPLICABLE`;
one that could be made and is not stands in `OPEN`, with what is missing.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "internals" / "fault-matrix.md"
MARK = "pytest.mark.fault"

OUTCOMES: Mapping[str, str] = {
    "R": "the run dies or gives up, nothing is visible; the next one plans from the ledger",
    "F": "the late act is refused by the fence or the owner check; its files are orphans",
    "Q": "unknown: the table is asked, and only it decides",
    "B": "tried again inside the run's deadline, else less is landed or the run ends with one error",
    "C": "the checkpoint is brought to the frontier, from the ledger",
    "S": "stops and says which verb settles it; nothing moves",
    "D": "kept as a row with its cause and its bytes",
    "W": "waits, or lands beside it what it can",
    "N": "no effect",
}

STEPS: Mapping[str, str] = {
    "1": "claim: join the group",
    "2": "plan: ledger, shards, cursors",
    "3": "pull",
    "4": "write the files",
    "5a": "commit, not yet applied",
    "5b": "commit applied, answer unseen",
    "6": "checkpoint",
    "7": "release",
    "8": "renew beside the work",
    "9": "take a shard from another, by leases",
}
FAULTS: Mapping[str, str] = {
    "kill": "SIGKILL",
    "stop": "SIGSTOP longer than the claim, then SIGCONT",
    "request_lost": "request lost",
    "reply_lost": "answer lost",
    "late": "late or doubled",
    "refused": "5xx or 429",
    "clock": "wall clock jumps",
    "disk_full": "disk full",
    "catalog_down": "catalog down",
}
# Columns as in FAULTS.
_PROCESSES: Mapping[str, str] = {
    "1": "R F B B F B N N N",
    "2": "R F B B F B N N R",
    "3": "R F B B N B B R N",
    "4": "R F B B N B B R N",
    "5a": "R F Q Q F Q N R Q",
    "5b": "C C Q Q F Q N N Q",
    "6": "C F B C C B N N C",
    "7": "W F N N N N N N N",
    "8": "W F B B N B N N N",
    "9": "R F B B F B N B R",
}
SEMANTICS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "commit_unknown": ("unknown outcome of a commit", {"commit": "Q", "after": "C"}),
    "conflict": ("conflict: compaction, property, another origin", {"commit": "Q"}),
    "overlap": ("conflict: an overlapping window", {"commit": "F"}),
    "reshape": ("split or merge", {"plan": "W", "pull": "N", "commit": "N", "after": "N"}),
    "drain": ("read-only shard drains", {"plan": "N", "pull": "N", "commit": "N", "after": "C"}),
    "expired": ("retention passes the window", {"plan": "S", "pull": "B", "stage": "B", "after": "W"}),
    "recreated": ("logstore made again", {"plan": "S", "pull": "S", "commit": "F"}),
    "corrupt": ("corrupt page: bytes, protobuf, size", {"pull": "B"}),
    "lying": ("headers that lie: count, raw size 0", {"pull": "B"}),
    "poison": ("poison record", {"pull": "D", "stage": "D", "commit": "D", "after": "D"}),
    "huge": ("huge record: 10 MB group, 1 MB key, 10^5 keys", {"plan": "B", "pull": "B", "stage": "N"}),
    "drift": ("schema drift", {"plan": "S", "stage": "D", "commit": "R"}),
    "reset": ("operator moves a checkpoint", {"plan": "C", "commit": "N"}),
    "rollback": ("table rolled back, tag moved, ledger gone", {"plan": "S", "commit": "S"}),
    "backfill": ("backfill meets live", {"plan": "N", "commit": "F", "after": "N"}),
    "empty": ("nothing new", {"plan": "N", "after": "C"}),
}
MOMENTS = ("plan", "pull", "stage", "commit", "after")

NOT_APPLICABLE: Mapping[str, str] = {}
OPEN: Mapping[str, str] = {}


def cells() -> dict[str, str]:
    """Every cell of the matrix -> the letter of its outcome, in the order of the page."""
    found = {
        f"4a.{step}.{fault}": letter
        for step, letters in _PROCESSES.items()
        for fault, letter in zip(FAULTS, letters.split(), strict=True)
    }
    for fault, (_, moments) in SEMANTICS.items():
        found |= {f"4b.{fault}.{moment}": letter for moment, letter in moments.items()}
    return found


def marks(folder: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Cell -> the tests that are marked with it, as `path::test[id]`."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if MARK not in text:
            continue
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for case, cell in _marked(node):
                    found.setdefault(cell, []).append(f"{name}::{node.name}{case}")
    return found


def _marked(test: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """("[id]" or "", cell) of each mark on `test`."""
    inside: set[ast.AST] = set()
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.param":
                case = next(ast.literal_eval(k.value) for k in node.keywords if k.arg == "id")
                for inner in ast.walk(node):
                    inside.add(inner)
                    yield from ((f"[{case}]", cell) for cell in _cells_of(inner))
    for decorator in test.decorator_list:
        for node in ast.walk(decorator):
            if node not in inside:
                yield from (("", cell) for cell in _cells_of(node))


def _cells_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == MARK:
        return [ast.literal_eval(argument) for argument in node.args]
    return []


def complaints() -> list[str]:
    """What is wrong with the matrix: unknown cells, cells without a word, cells with too many."""
    known, made = cells(), marks()
    said = {**NOT_APPLICABLE, **OPEN}
    wrong = [f"{tests[0]}: no such cell: {cell}" for cell, tests in made.items() if cell not in known]
    wrong += [f"a reason for a cell that does not exist: {cell}" for cell in said if cell not in known]
    wrong += [f"neither test nor reason: {cell}" for cell in known if cell not in made and cell not in said]
    wrong += [f"a test and a reason why there is none: {cell}" for cell in made if cell in said]
    return wrong


def counts() -> dict[str, int]:
    """How many cells are covered, not applicable and open."""
    made = marks()
    return {
        "covered": sum(cell in made for cell in cells()),
        "not applicable": len(NOT_APPLICABLE),
        "open": len(OPEN),
    }


def drawn() -> str:
    """The page."""
    made = marks()
    return "\n".join([*_head(), *_processes(made), *_semantics(made), *_tests(made), *_reasons(), ""])


def _head() -> list[str]:
    counted = ", ".join(f"{number} {word}" for word, number in counts().items())
    letters = [f"| {letter} | {meaning} |" for letter, meaning in OUTCOMES.items()]
    return [
        "# The fault matrix",
        "",
        "Every step of a landing meets every fault. In all cells nothing is lost, nothing is there twice;",
        "the letter says what else must come of it. The number beside it counts the tests that make this",
        "very fault at this very step and judge the outcome; below they are named. This page is drawn from",
        "the marks on the tests (`python -m tests.fault_matrix --write`), and a test fails when it is not.",
        "",
        f"{len(cells())} cells: {counted}.",
        "",
        "| Letter | Outcome |",
        "|---|---|",
        *letters,
        "",
    ]


def _entry(cell: str, letter: str, made: Mapping[str, list[str]]) -> str:
    if cell in NOT_APPLICABLE:
        return "n/a"
    return f"{letter} {len(made[cell])}" if cell in made else f"{letter} **open**"


def _grid(title: str, head: list[str], rows: list[list[str]]) -> list[str]:
    return [
        f"## {title}",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def _processes(made: Mapping[str, list[str]]) -> list[str]:
    known = cells()
    rows = [
        [f"{step} {name}", *(_entry(f"4a.{step}.{f}", known[f"4a.{step}.{f}"], made) for f in FAULTS)]
        for step, name in STEPS.items()
    ]
    return _grid("Processes, network, machines (4a)", ["Step", *FAULTS.values()], rows)


def _semantics(made: Mapping[str, list[str]]) -> list[str]:
    rows = [
        [title, *(_entry(f"4b.{f}.{m}", moments[m], made) if m in moments else "" for m in MOMENTS)]
        for f, (title, moments) in SEMANTICS.items()
    ]
    return _grid("Data and meaning (4b)", ["Fault", *(f"at {m}" for m in MOMENTS)], rows)


def _tests(made: Mapping[str, list[str]]) -> list[str]:
    rows = [[f"`{cell}`", "<br>".join(f"`{t}`" for t in made[cell])] for cell in cells() if cell in made]
    return _grid("Which test makes which cell", ["Cell", "Tests"], rows)


def _reasons() -> list[str]:
    rows = [[f"`{cell}`", "not applicable", why] for cell, why in NOT_APPLICABLE.items()]
    rows += [[f"`{cell}`", "open", why] for cell, why in OPEN.items()]
    if not rows:
        return []
    return _grid("Cells without a test", ["Cell", "", "Why"], rows)[:-1]


def main(arguments: list[str]) -> int:
    """Print the grid, or write the page; 1 when something is wrong with the matrix."""
    if arguments == ["--write"]:
        PAGE.write_text(drawn(), encoding="utf-8")
    made = marks()
    lines = [line for line in (*_processes(made), *_semantics(made)) if line]
    print("\n".join(lines))  # noqa: T201
    print(f"{len(cells())} cells: " + ", ".join(f"{n} {word}" for word, n in counts().items()))  # noqa: T201
    wrong = complaints()
    print("\n".join(wrong), file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
