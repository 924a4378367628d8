"""What fences a run beside its windows: its epoch among the runs of its deployment, and what was aborted.

A fill has no deployment: backfills run side by side, and only an abort ends one.

Why beside the windows: windows stop two runs from landing the same logs, whoever they are. They do not stop
an older run from landing *other* logs and then publishing its checkpoint under the name that a newer run has,
and they do not stop a run that a person has ended. Both marks stand in properties of the table, so a commit
that requires the `main` of before them is refused, and the look that follows finds them.

Worked example: a run of `lake/sls-lake` begins at 1,000 and finds the epoch 990 of an older one: its own is
1,000, and its first landing writes that. Had it found 1,040, which a machine with a fast clock wrote, it
would be 1,041. A run of another deployment has numbers of its own.
"""

from collections.abc import Mapping

from pipelines.landing.ledger import epochs
from pipelines.landing.ledger.epochs import RUN_CHARS, Epoch, Fenced
from pipelines.landing.ledger.state import TableState


class Fencing:
    """The fence of one run, `run` its id; `deployment` is "" for a fill."""

    def __init__(self, deployment: str, run: str) -> None:
        self.deployment = deployment
        self._run = run
        self._epoch: Epoch | None = None
        self._attempts: list[str] = []

    def read(self, state: TableState, origin: str, attempt: str, *, begun_s: int) -> Fenced | None:
        """The run has read the table, for its next attempt. The first time it takes its epoch, from the
        service's time when it began; why it may not go on.

        All attempts of the run are remembered, not the newest alone. Story: a person aborts the landing that
        hangs, and its run plans again just then, under another attempt's id. It is the same run, and must not
        go on.
        """
        if self._epoch is None:
            self._epoch = epochs.taken(self._run, begun_s, self._newest(state, origin))
        fenced = self.look(state, origin)
        self._attempts.append(attempt[:RUN_CHARS])
        return fenced

    def look(self, state: TableState, origin: str) -> Fenced | None:
        """Why the run may commit no more, as the table is now.

        An abort weighs more than a newer run: a person said so. Asks nothing, `state` has both.
        """
        if not state.aborted.keys().isdisjoint(self._attempts):
            return Fenced.ABORTED
        newer = self._epoch is not None and self._epoch.fenced_by(self._newest(state, origin))
        return Fenced.NEWER if newer else None

    def properties(self, state: TableState, origin: str) -> Mapping[str, str]:
        """What a landing of this run makes the table say; nothing where it says so already.

        A landing brings it, so it costs no commit of its own. What is written is the whole text, with the
        epochs of the other deployments as `state` has them: the commit requires that state's `main`, so no
        other landing's epoch is lost between the look and the write.
        """
        if not self.deployment or self._epoch is None or self._newest(state, origin) == self._epoch:
            return {}
        known = {**state.epochs.get(origin, {}), self.deployment: self._epoch}
        return {epochs.PROPERTY_PREFIX + origin: epochs.encode(known)}

    def _newest(self, state: TableState, origin: str) -> Epoch | None:
        return state.epochs.get(origin, {}).get(self.deployment)
