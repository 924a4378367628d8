"""Who decides that a shard is gone, that its logs are lost, or that it is there again.

One answer gives nothing up. What the service reports as lost is a suspicion first: said, kept in the ledger,
and the shard left alone. It is believed where a second kind of answer agrees (`doubts.Second`) and the age of
the logs explains the loss; where nothing does, when a later run, a group timeout later, is told so again.

    second kind of answer   loss explained by age   suspected since        then
    denies                  -                       -                      the suspicion ends
    none came               -                       as it was              left alone, as before
    agrees                  yes                     -                      believed: gap, or a stop
    agrees                  no                      a timeout or longer    believed: gap, or a stop
    agrees                  no                      shorter, or never      suspected from now on
"""

from collections.abc import Iterable, Mapping

from sls_io.planning import doubts, waits
from sls_io.planning.doubts import Second
from sls_io.planning.draft import Draft
from sls_io.planning.values import Survey
from sls_io.values.claim import CURSOR_UNKNOWN, GAP_SHARD_GONE, Gap, Ledger, ShardLedger
from sls_io.values.shard import Shard

_PASSED_OVER_MAX = 1_000
"""More shards than any logstore gets between two runs."""


def passed_over(listed: Iterable[Shard], ledger: Ledger) -> list[int]:
    """Ids that the service gave out after the newest shard that has begun, and of which neither its list nor
    the ledger says anything: the list lacks such a shard, or it is gone.

    Story: 0 is split into 1 and 2, and 2 into 3 and 4. One list lacks 2. By that list 3 and 4 are children of
    0, which is closed: they would land before 2, and each hour would be told as complete without its logs.

    Ids are given out in order, so what was made since is between the two. Whoever holds back all behind an
    id that was passed over need not ask about the lower ones again. Worked example: 0 and 1 have begun, 0, 1,
    3 and 4 are listed: 2 was passed over. Had 4 begun, somebody would have been told before that 2 is gone.
    """
    if not ledger.started:
        return []
    there = {*ledger.shards, *(shard.id for shard in listed)}
    begun = (shard for shard, entry in ledger.shards.items() if entry.reached_s or entry.closed)
    first = max(begun, default=min(ledger.shards)) + 1
    # A list that tells an id of nine digits must not be asked about for years.
    return [shard for shard in range(first, min(max(there), first + _PASSED_OVER_MAX)) if shard not in there]


def opened_again(draft: Draft, surveys: Mapping[int, Survey], ledger: Ledger) -> Ledger:
    """The ledger with those of its closed shards open that the service shows again."""
    shown = {s for s, survey in surveys.items() if survey.opened}
    again = {s: e.opened_again() for s, e in ledger.shards.items() if s in shown and e.closed}
    draft.change.opened.update({s: end for s in again if (end := ledger.shards[s].end) is not None})
    return ledger.with_shards(again)


def believed(draft: Draft, survey: Survey, entry: ShardLedger) -> bool:
    """Whether the loss that the service reports is proven; records the suspicion until then.

    Story: a node behind the service's balancer restores an old state and says for a minute that a shard
    never was. Were that taken for retention, its logs would be a gap before the minute is over. Two kinds
    of answers may come from that node; they must do so again, in another run, a group timeout later.
    """
    shard, patience = survey.shard, draft.patience
    if survey.gone is not Second.AGREES:
        # A denial ends what was suspected; no answer leaves it as it was.
        draft.remember(shard, entry, 0 if survey.gone is Second.DENIES else entry.suspect_s)
        return False
    if survey.explained or patience.over(shard, entry.suspect_s):
        # Where no gap is named, what was suspected is all that the next run has to go by.
        draft.remember(shard, entry, 0 if draft.name_gaps else entry.suspect_s)
        return True
    # A date in the future came from a wrong clock: it begins anew.
    since_s = entry.suspect_s if 0 < entry.suspect_s <= patience.now_s else patience.now_s
    draft.remember(shard, entry, since_s)
    return False


def gone(draft: Draft, survey: Survey, ledger: Ledger) -> None:
    """The service no longer knows the shard: proven, what the ledger lacks of it is a gap.

    Its end is unknown, so the gap has none, and the closing is at no cursor: where the shard is listed again,
    it is known by that, and opened.
    """
    shard = survey.shard
    known = ledger.shards.get(shard)
    if known is not None and known.closed:
        draft.waits[shard] = waits.GONE
    elif known is not None and believed(draft, survey, known):
        if not draft.name_gaps:
            draft.stop_at_loss(shard, doubts.LOST_SHARD.format(frontier=known.frontier))
            return
        draft.change.gaps[shard] = (Gap(known.frontier, CURSOR_UNKNOWN, GAP_SHARD_GONE),)
        draft.change.closings[shard] = CURSOR_UNKNOWN
        draft.waits[shard] = waits.GONE_NOW
    else:
        draft.suspect(shard, doubts.LISTED_AND_GONE if survey.listed else doubts.UNLISTED[survey.gone])
