"""The calls that a verdict prints, run as they are printed."""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from click import Context

from pipelines.cli.backfill import backfill
from pipelines.cli.main import EXIT_FAILED
from pipelines.landing.operations.replace import plan_replace
from pipelines.landing.table.commands import line
from sls_io.values.cures import Cure
from tests.worlds.command_line import Command
from tests.worlds.one_logstore import World

_VERB = re.compile(
    r"sls-lake (?:backfill|verify|table (?:rollback|adopt|give-up|repair-manifests))"
    r"(?: (?:--?[\w-]+|\d[\w:-]*|rows|replace))*"
)


def named(cures: Iterable[Cure]) -> str:
    """Cures as people are shown them, a line each."""
    return "\n".join(line(cure) for cure in cures)


def ways(document: Mapping[str, Any]) -> list[str]:
    """The same of a document, one text each."""
    return ["   # ".join(cure.values()) for cure in document["cures"]]


def first_call(error: str) -> list[str]:
    """The arguments of the first call below an error, as a person would copy them."""
    found = re.search(r"^  sls-lake (.+?)(?:   #|$)", error, re.MULTILINE)
    assert found, error
    return shlex.split(found[1])


def printed(text: str) -> list[list[str]]:
    """The calls in a text, in their order."""
    # Which logstore is known here.
    return [shlex.split(call)[1:] for call in _VERB.findall(re.sub(r" -l \S+", "", text))]


def run_as_printed(world: World, command: Command, words: list[str]) -> None:
    """One printed call, with --execute where it has one. A replace is parsed by the command line and run
    without Spark."""
    if words[0] == "backfill":
        with Context(backfill) as parent:
            asked = backfill.make_context("backfill", [*words[1:]], parent=parent).params
        assert (asked["mode"], asked["local"]) == ("replace", True)
        hours = range(asked["first"], (asked["last"] or asked["first"]) + 1)
        world.carried_out(plan_replace, hours)
        return
    more = [] if words[0] == "verify" or "--execute" in words else ["--execute"]
    said = command(*words, *more)
    assert said["code"] == 0 and said["executed"], (words, said)


def settle(world: World, command: Command) -> list[list[str]]:
    """Run the first cure that the newest verdict prints, until the table is proven; the calls that were
    run. A cure that only looks closer is followed by what it finds."""
    done: list[list[str]] = []
    asked: list[str] = ["verify"]
    for _ in range(8):
        proof = command(*asked)
        if proof["ok"]:
            return done
        assert proof["code"] == EXIT_FAILED
        calls = [shlex.split(cure["call"])[1:] for cure in proof["cures"] if "call" in cure]
        assert calls, proof
        words = calls[0]
        done.append(words)
        if words[0] == "verify":
            asked = words
            continue
        run_as_printed(world, command, words)
        asked = ["verify"]
    raise AssertionError(f"never proven: {done}")
