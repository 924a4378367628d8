"""What leases of 256 shards cost a round: a claim that takes all of them, one that takes half, a renewal.

    python -m bench.bench_leases [ADDRESS]     a SQLite file of its own, or the database at ADDRESS

Milliseconds are of the wall, the least of some rounds; beside them those of our own CPU.
"""

import sys
import tempfile
import time
import uuid
from collections.abc import Callable

from sls_io.clock import ManualClock
from sls_io.coordination.sql_lease import SqlLease
from sls_io.settings import Group

SHARDS, ROUNDS = 256, 9


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


def main(address: str) -> None:
    """Measure and print."""
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
    print(f"{SHARDS} shards, {address.partition(':')[0]}")
    for what, (wall_ms, cpu_ms) in lines:
        print(f"  {what:42}{wall_ms:8.1f} ms   CPU {cpu_ms:6.1f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{folder}/leases.db")
