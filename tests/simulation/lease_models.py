"""The worlds of leases that are explored to their end, and the deliberate bugs that the search must find."""

from sls_io.coordination import lease
from sls_io.coordination.lease import HeldLeases
from tests.simulation.lease_world import OVERTAKEN, REPLY_LOST, REQUEST_LOST, SLEEPS, Model
from tests.simulation.mutants import Slip
from tests.unit.dict_leases import DictLeases

QUICK = (
    Model("two shards", kinds=(REPLY_LOST,), verbs=("take",)),
    Model("overtaken and asleep", shards=1, kinds=(OVERTAKEN, SLEEPS), verbs=("take", "renew", "consume")),
    Model("checkpoints", shards=1, faults=0, landings=1),
    Model("two runs of one name", shards=1, faults=0, landings=2, names=("a", "a")),
    Model("stamps ahead", faults=0, ahead=True),
    Model(
        "stamps ahead and asleep", shards=1, kinds=(SLEEPS,), verbs=("take", "renew", "consume"), ahead=True
    ),
)
"""What the tests explore each time."""

FULL = (
    Model("all faults", shards=1),
    Model("lost answers", kinds=(REPLY_LOST,)),
    Model("overtaken", kinds=(OVERTAKEN,), verbs=("take", "renew", "consume")),
    Model("checkpoints and lost answers", shards=1, kinds=(REPLY_LOST,), landings=2),
    Model("all faults, stamps ahead", shards=1, ahead=True),
    Model("two faults", shards=1, faults=2, kinds=(REPLY_LOST, REQUEST_LOST)),
)
"""What `make simulate` explores beside them."""

ASLEEP, ONE_NAME, AHEAD, STEALING = QUICK[1], QUICK[3], QUICK[5], QUICK[0]._replace(faults=0)

BUGS = {
    "a thief begins at once": (
        STEALING,
        Slip(lease.takes, "Take(shard, lease.lease_id, at_once)", "Take(shard, lease.lease_id, True)"),
    ),
    "a thief waits for nobody's timeout": (
        STEALING,
        Slip(HeldLeases.ready, "at_s - since_s >= terms.timeout_s", "True"),
    ),
    "a claim counts from its answer": (
        ASLEEP,
        Slip(HeldLeases.seen, "self.ids[lease.lease_id] + timeout_s", "at_s + timeout_s"),
    ),
    "a claim has no end": (ASLEEP, Slip(HeldLeases.working, " if at_s < end_s", "")),
    "what is seen for the first time is expired": (
        ASLEEP,
        Slip(lease._seen, "if key in same else at_s", 'if key in same else float("-inf")'),
    ),
    "another id is no sign of life": (
        STEALING,
        Slip(lease._seen, "same = known.keys() - changed", "same = known.keys()"),
    ),
    "what expired counts as alive": (
        ASLEEP,
        Slip(lease._alive, " and not terms.silent(watch, lease.shard, at_s)", ""),
    ),
    "everybody takes all": (
        STEALING,
        Slip(
            lease.takes,
            "for shard in due_to(view, watch, me, weights=weights, at_s=at_s, terms=terms):",
            "for shard in view.leases:",
        ),
    ),
    "stamps that are ahead tell the time": (
        AHEAD,
        Slip(lease.Watch.carry, "view.ahead(now_s, timeout_s)", "False"),
    ),
    "stamps that are ahead prove that a timeout has passed": (
        AHEAD,
        Slip(lease.Watch.silent, " and not self.whole", ""),
    ),
    "any lease id will do": (ASLEEP, Slip(DictLeases._unchanged, "lease.lease_id == lease_id", "True")),
    "a checkpoint goes back": (
        ONE_NAME,
        Slip(DictLeases.checkpoint, " and (lease.checkpoint is None or lease.checkpoint <= cursor)", ""),
    ),
}
"""Each with the world in which it is looked for; those of the store are in the dictionary that says what the
statements must do."""
