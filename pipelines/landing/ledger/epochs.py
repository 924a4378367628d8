"""Runs that may commit no more: an older one of a deployment, and a landing that a person aborted. Pure.

Both stand in properties of the table, set by the very commits that they follow from, so whoever is refused
and loads the table again sees them. A commit requires the `main` that its run looked at. So a run that does
not know them is refused first.

    sls-lake.epochs.<origin>   `group/holder=number:run` of each deployment: the newest run that committed
    sls-lake.aborted           `run@time` of each aborted landing: first digits of its attempt, unix seconds

An epoch is taken when a run first reads the table: the service's time, or one more than what the table says
where that is greater. It costs no commit, because it is written by the run's landings alone. Of two runs that
began in one second the one that has committed counts as the newer.

Worked example: run A begins at 100 and is stopped before its commit. Run B of the same deployment begins at
160 and lands: the table says 160, B. A wakes, its commit is refused, it loads the table, and 160 is not below
100: A publishes nothing and moves no checkpoint. A run C reads 160 and is 161 or later, however late its
clock is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError, LedgerBroken

PROPERTY_PREFIX = "sls-lake.epochs."
ABORTED_PROPERTY = "sls-lake.aborted"
RUN_CHARS = 8
"""How much of an attempt's id its files' names have."""
DEPLOYMENTS_MAX = 64
"""Epochs kept for a logstore: hosts come and go, each with a name of its own."""
ABORTED_MAX = 100


class Fenced(StrEnum):
    """Why a run may commit no more."""

    NEWER = "a newer run of the same deployment has landed since"
    ABORTED = "a person aborted this landing"


@dataclass(frozen=True, slots=True)
class Epoch:
    """A run among the others of its deployment: `number` rises from run to run, `run` is its id."""

    number: int
    run: str

    def fenced_by(self, newest: "Epoch | None") -> bool:
        """Whether `newest`, which has committed, is another run and not older.

        An epoch of the run's own does not fence it: it is what its last landing wrote.
        """
        return newest is not None and newest.run != self.run and newest.number >= self.number


def taken(run: str, begun_s: int, newest: Epoch | None) -> Epoch:
    """The epoch of a run that began at `begun_s` and finds `newest` in the table.

    One more than what the table says: so numbers rise also where a run's clock is behind.
    """
    return Epoch(begun_s if newest is None else max(begun_s, newest.number + 1), run[:RUN_CHARS])


def encode(epochs: Mapping[str, Epoch]) -> str:
    """The text of an origin's property; of too many deployments the newest."""
    newest = sorted(epochs.items(), key=lambda pair: pair[1].number, reverse=True)[:DEPLOYMENTS_MAX]
    return " ".join(f"{name}={epoch.number}:{epoch.run}" for name, epoch in sorted(newest))


def decode(origin: str, text: str) -> dict[str, Epoch]:
    """The inverse. Raises LedgerBroken where somebody wrote something else there."""
    found = {}
    for part in text.split():
        name, _, rest = part.rpartition("=")
        number, _, run = rest.partition(":")
        if not (name and run and number.isascii() and number.isdigit()):
            raise _strange(PROPERTY_PREFIX + origin)
        found[name] = Epoch(int(number), run)
    return found


def encode_aborted(aborted: Mapping[str, int]) -> str:
    """The text of the property that names aborted landings."""
    return " ".join(f"{run}@{at_s}" for run, at_s in sorted(aborted.items()))


def decode_aborted(text: str) -> dict[str, int]:
    """The inverse: run -> when it was aborted. Raises LedgerBroken as `decode`."""
    found = {}
    for part in text.split():
        run, _, at_s = part.partition("@")
        if not (run and at_s.isascii() and at_s.isdigit()):
            raise _strange(ABORTED_PROPERTY)
        found[run] = int(at_s)
    return found


def with_aborted(aborted: Mapping[str, int], run: str, *, now_s: int, kept_s: int) -> dict[str, int]:
    """With `run`, without what is older than `kept_s`: files of that age are published by nobody.

    Raises ConfigError when there are too many: to forget one early would let it commit.

    A landing that wakes later than that finds its own files too old, so its name need not be kept any longer.
    """
    kept = {name: at_s for name, at_s in aborted.items() if now_s - at_s < kept_s}
    if len(kept) >= ABORTED_MAX and run not in kept:
        raise ConfigError(
            f"{len(kept)} landings of the table were aborted within {kept_s // 3600} hours, and no more are "
            "kept: stop what begins them, and abort this one when the oldest is over"
        )
    return {**kept, run: now_s}


def _strange(name: str) -> LedgerBroken:
    return LedgerBroken(
        f"the table property {name} is not what sls-lake writes there, so nobody can say which runs may "
        "commit; nothing was landed",
        cures=(Do("remove the property with any Iceberg engine, while no run is on its way"),),
    )
