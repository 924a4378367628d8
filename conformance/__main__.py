"""Build the programs, run every scenario, print the table; the exit status is 1 when any cell failed."""

import argparse
import sys
from collections.abc import Mapping

from conformance import model
from conformance.build import LANGUAGES, OUT, Built, build
from conformance.program import Failed
from conformance.scenarios import run_all
from conformance.table import Table
from conformance.world import World
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import SlsError


def main() -> int:
    """0: all that ran is ok. 1: something failed, or was skipped with --strict."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("--only", default=",".join(LANGUAGES), help="languages, with commas between")
    parser.add_argument("--strict", action="store_true", help="a skipped language is a failure")
    parser.add_argument("--draw", action="store_true", help="docs/emulator.md gets the model's differences")
    options = parser.parse_args()
    began_s = SYSTEM_CLOCK.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    table, built = Table(LANGUAGES), {}
    for language in LANGUAGES:
        if language not in options.only.split(","):
            table.skip(language, "not asked for with --only")
            continue
        _say(f"building {language}")
        built[language] = each = build(language)
        if each.missing:
            table.skip(language, each.missing)
        else:
            table.note("build", language, "FAILED" if each.broken else "ok", each.broken)
    ready_s, differences = SYSTEM_CLOCK.monotonic(), list[str]()
    if any(each.command for each in built.values()):
        differences = _run(built, table, draw=options.draw)
    ended_s = SYSTEM_CLOCK.monotonic()
    _say("", *table.lines(), "", *differences)
    _say(f"built in {ready_s - began_s:.0f} s, ran in {ended_s - ready_s:.0f} s; logs: var/conformance/logs")
    if table.skipped:
        _say("NOT ALL OF IT RAN: a language was skipped, see above")
    return 1 if table.failed or (options.strict and table.skipped) else 0


def _run(built: Mapping[str, Built], table: Table, *, draw: bool) -> list[str]:
    """Fill the table; the lines of the model's differences."""
    with World(built) as world:
        _say(f"running on {world.emulator.endpoint}: {', '.join(world.languages)}")
        try:
            run_all(world, table)
            if model.LANGUAGE in world.languages:
                return model.judge(world, table, draw=draw)
        except (Failed, SlsError, OSError) as failed:
            for language in world.languages:
                table.note("run", language, "FAILED", str(failed))
    return []


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
