"""What leases of 256 shards cost a round, and how soon ten workers share them.

    python -m bench.bench_leases [ADDRESS] [--record]     a SQLite file of its own, or the database at ADDRESS

First a claim that takes all of them, one that takes half, a renewal: milliseconds of the wall, the least of
some rounds; beside them those of our own CPU. Then, with each built-in assignor and on a simulated clock: one
worker has all shards and nine join; another one joins; one dies; each time ten timeouts more. In timeouts
(30 s, a heartbeat each 5 s) how long until each shard is worked on by the one who shall have it, what moved
meanwhile and in the ten timeouts after it, and what a round of all workers takes of our own CPU, the
database's apart.
A worker that joins between two claims of the others waits for the next one.
"""

import argparse
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping

from bench.history import add_flag, record
from bench.lease_world import World
from sls_io.coordination.sql_lease import SqlLease
from sls_io.values.clock import ManualClock
from sls_io.values.settings import Group

SHARDS, ROUNDS, WORKERS = 256, 9, 10
BALANCED_MAX, QUIET = 20.0, 10.0
"""Timeouts that a balance may take before the bench gives up; timeouts that are looked at after it."""
EVEN: Mapping[int, int] = dict.fromkeys(range(SHARDS), 1)
UNEVEN: Mapping[int, int] = {shard: 1 if shard % 8 else 8 for shard in range(SHARDS)}
SHARED: tuple[tuple[str, Mapping[int, int]], ...] = (
    ("sticky", EVEN),
    ("range", EVEN),
    ("round_robin", EVEN),
    ("weighted", EVEN),
    ("weighted", UNEVEN),
)


def worker(address: str, signature: str, holder: str) -> SqlLease:
    """One of a group, with a clock that stands still."""
    group = Group(name="bench", holder=holder, timeout_s=60)
    return SqlLease.at(
        address, group, lambda: dict.fromkeys(range(SHARDS), 1), signature=signature, clock=ManualClock()
    )


def least(acts: list[Callable[[], object]]) -> tuple[float, float]:
    """(wall, CPU) milliseconds of the quickest of them."""
    found = []
    for act in acts:
        wall, cpu = time.perf_counter(), time.process_time()
        act()
        found.append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
    return min(found)


def rounds(address: str) -> dict[str, float]:
    """What one claim or renewal costs, printed."""
    names = [uuid.uuid4().hex for _ in range(ROUNDS)]
    first = [worker(address, name, "a") for name in names]
    first[0].claim()
    lines = [("renew", least([first[0].renew] * ROUNDS))]
    lines.append(("claim, all are new", least([one.claim for one in first[1:]])))
    lines.append(("claim again, what is under the own name", least([one.claim for one in first])))
    for one in first:
        one.release()
    second = [worker(address, name, "b") for name in names]
    lines.append(("claim, half is taken and begun", least([one.claim for one in second])))
    for one in (*first, *second):
        one.close()
    for what, (wall_ms, cpu_ms) in lines:
        print(f"  {what:42}{wall_ms:8.1f} ms   CPU {cpu_ms:6.1f} ms", flush=True)
    return {f"{what.partition(',')[0].replace(' ', '_')}_cpu_ms": cpu_ms for what, (_, cpu_ms) in lines[:1]}


def shared(address: str, assignor: str, weights: Mapping[int, int]) -> dict[str, float]:
    """How soon, and with how many moves, workers share the shards, printed."""
    title = f"{assignor}{'' if weights is EVEN else ', every eighth weighs 8'}"
    world = World(address, uuid.uuid4().hex, assignor, weights)
    world.join("w0")
    world.run(BALANCED_MAX, world.balanced)
    figures: dict[str, float] = {}
    for what in ("nine join", "one joins", "one dies"):
        if what == "nine join":
            for number in range(1, WORKERS):
                world.join(f"w{number}")
        elif what == "one joins":
            world.join("late")
        else:
            world.die("w3")
        passed, moves = world.run(BALANCED_MAX, world.balanced)
        if not world.balanced():
            raise SystemExit(f"{title}, {what}: not shared after {BALANCED_MAX:g} timeouts")
        _, quiet = world.run(QUIET)
        print(
            f"  {title:34}{what:11}{passed:5.1f} timeouts  {moves.takes + moves.inherited:3} takes "
            f"{moves.steals:3} steals, then {quiet.takes + quiet.inherited} and {quiet.steals};"
            f"  CPU {moves.cpu_ms:6.1f} ms a round, then {quiet.cpu_ms:5.1f} ms",
            flush=True,
        )
        name = f"{assignor}{'' if weights is EVEN else '_uneven'}_{what.replace(' ', '_')}"
        figures |= {
            f"{name}_timeouts": passed,
            f"{name}_moves": moves.takes + moves.inherited + moves.steals,
            f"{name}_moves_after": quiet.takes + quiet.inherited + quiet.steals,
        }
    figures[f"{assignor}{'' if weights is EVEN else '_uneven'}_round_cpu_ms"] = quiet.cpu_ms
    world.close()
    return figures


def main(address: str) -> dict[str, float]:
    """Measure and print; all figures."""
    print(f"{SHARDS} shards, {address.partition(':')[0]}")
    figures = rounds(address)
    print(f"one worker has all, {WORKERS - 1} join; then, each time, {QUIET:g} timeouts more")
    for assignor, weights in SHARED:
        figures |= shared(address, assignor, weights)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.bench_leases", description=__doc__)
    parser.add_argument(
        "address", nargs="?", default="", help="a database; default: a SQLite file of its own"
    )
    add_flag(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        at = options.address or f"sqlite:///{folder}/leases.db"
        found = main(at)
    if options.record:
        record(f"bench_leases, {at.partition(':')[0].partition('+')[0]}", found)
