"""The emulator's faults: a steady rain of each kind on each call, and bursts; all seeded, all removable."""

import random
from collections import Counter

from sls_io.emulator.handle import Admin

CALLS = (
    "pull_logs", "get_cursor", "get_cursor_time", "heartbeat", "save_checkpoint", "get_checkpoints",
    "list_groups", "create_group", "list_shards", "get_logstore",
)  # fmt: skip
"""What readers call. The producer's puts stay dry: its count is half of the proof."""

_STEADY: tuple[tuple[str, float, dict[str, float]], ...] = (
    ("drop_request", 0.005, {}),
    ("drop_reply", 0.005, {}),
    ("delay", 0.005, {"delay_s": 0.4}),
    ("delay_reply", 0.005, {"delay_s": 0.4}),
    ("error", 0.005, {"status": 500}),
    ("duplicate", 0.005, {}),
)
_ON_PULLS: tuple[tuple[str, float, dict[str, float]], ...] = (
    ("truncate", 0.02, {"bytes": 100}),
    ("short", 0.02, {"groups": 1}),
)
_OUTAGES = (
    (500, "InternalServerError"), (502, "InternalServerError"), (503, "ServerBusy"), (403, "ReadQuotaExceed"),
)  # fmt: skip


def begin(admin: Admin, seed: int) -> None:
    """Let it rain."""
    wanted = [(call, *kind) for call in CALLS for kind in _STEADY]
    wanted += [("pull_logs", *kind) for kind in _ON_PULLS]
    for number, (call, do, chance, more) in enumerate(wanted):
        admin.fault(do, call=call, chance=chance, seed=seed * 1000 + number, times=None, **more)


def burst(admin: Admin, dice: random.Random) -> int:
    """The next few requests of one call meet an outage; returns its id, which takes it away again."""
    call, times = dice.choice(CALLS), dice.randint(3, 20)
    do = dice.choice(("error", "error", "drop_request", "drop_reply", "delay"))
    status, code = dice.choice(_OUTAGES)
    return admin.fault(do, call=call, times=times, status=status, code=code, delay_s=1.0)


def hits(admin: Admin) -> Counter[str]:
    """How often each kind of fault acted so far."""
    found: Counter[str] = Counter()
    for fault in admin.faults():
        found[fault["do"]] += fault["hits"]
    return found


def end(admin: Admin) -> Counter[str]:
    """Clear sky; how often each kind of fault acted."""
    found = hits(admin)
    admin.remove()
    return found
