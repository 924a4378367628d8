"""Who gets which shard: pure functions of members, shards and who has them now.

    assignor(members, weights, owners) -> shards of each member

    members  names, sorted, at least one
    weights  shard -> what it weighs, in bytes or any other unit; sorted by shard. 0: nothing comes any more,
             it is closed
    owners   shard -> the member that has it now; a shard that nobody has is not in it

Every shard goes to exactly one member, and the same arguments give the same answer: each worker works
it out for itself, so two workers that see the same must not want the same shard. A member that gets
nothing stands by: it takes over when another one goes.

    range        neighbours together: 10 shards for 3 members are 0-3, 4-6, 7-9
    round_robin  dealt one by one: 0 3 6 9, 1 4 7, 2 5 8
    sticky       equal numbers, and only what must move moves
    weighted     equal weight, as near as shards allow; what would gain little stays

Those that count deal open shards first and closed ones apart from them. Story: sticky counted all alike.
After splits one of two workers had the four closed parents and the other the four open children: equal
numbers, so nothing ever moved, and one of them had nothing to do for ever.

Moving a shard costs its new holder a wait, so `sticky` is what to take without a reason for another.
Only what moves is handed over, the others are worked on meanwhile: the cooperative way of Kafka's
consumers is not a kind of its own here. `named` finds one by its name, or a function of yours by
`package.module:function`; `assigned` calls it and holds it to this contract.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sls_io.values.errors import ConfigError, printable
from sls_io.values.named import attempted, called, load, type_name

Assignment = Mapping[str, tuple[int, ...]]
"""The shards of each member, sorted; a member that stands by has none."""
Assignor = Callable[[Sequence[str], Mapping[int, int], Mapping[int, str]], Assignment]
"""See the head of this module."""

_WORTH = 10
"""`weighted` moves nothing that does not bring two members nearer by this part of a fair share."""


def range_(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Assignment:
    """Neighbouring shards together; the first members get one more where it does not come out even, of closed
    shards those that come next.

    Worked example: of the open shards 2 to 5 a gets 2 and 3, b 4, c 5. Of the closed ones, 0 and 1, b and c
    get one each.
    """
    found: dict[str, list[int]] = {member: [] for member in members}
    dealt = 0
    for shards in _open_and_closed(weights):
        least, more = divmod(len(shards), len(members))
        first = dealt % len(members)
        begin = 0
        for place, member in enumerate([*members[first:], *members[:first]]):
            end = begin + least + (place < more)
            found[member] += shards[begin:end]
            begin = end
        dealt += len(shards)
    return _sorted(found)


def round_robin(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Assignment:
    """Dealt one to each member in turn, in order of their numbers, the closed ones last."""
    shards = [shard for kind in _open_and_closed(weights) for shard in kind]
    return _sorted({member: shards[place :: len(members)] for place, member in enumerate(members)})


def sticky(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Assignment:
    """As many open shards for each, give or take one, and so of closed ones, with as few moves as that needs.

    Worked example: a has 0 to 3, b joins: two for each. a keeps its first two, and 2 and 3 go to b. Were 0
    and 1 closed, each would get one of them and one of 2 and 3: a keeps 0 and 2, and 1 and 3 go to b.
    """
    found: dict[str, list[int]] = {member: [] for member in members}
    for shards in _open_and_closed(weights):
        for member, own in _evenly(members, shards, owners, found).items():
            found[member] += own
    return _sorted(found)


def _evenly(
    members: Sequence[str],
    shards: Sequence[int],
    owners: Mapping[int, str],
    beside: Mapping[str, Sequence[int]],
) -> dict[str, list[int]]:
    """These shards shared by their number, with as few moves as that needs. `beside`: what each gets of the
    others.

    Who has more may keep one more, so that the remainder moves nothing; else those get it that have the least
    `beside` them, the first by name first. What is beyond a member's number leaves from the end; it and what
    nobody has fill up the others in order.

    Members act one after the other, so the answer must stay the same while they fill up. Story: the remainder
    went to the fullest. Of 2 shards too many for 25 each, y was the first to take its own and had 25: by then
    the fullest of all. The next to look gave y one more instead of taking it, and the shard lay for the two
    timeouts until y looked again.
    """
    kept = _kept(members, shards, owners)
    least, more = divmod(len(shards), len(members))
    fullest_first = sorted(members, key=lambda m: (-max(least, len(kept[m])), len(beside[m])))
    wanted = {member: least + (place < more) for place, member in enumerate(fullest_first)}
    found = {member: kept[member][: wanted[member]] for member in members}
    has = {shard for own in found.values() for shard in own}
    # What nobody has comes first: it can be begun at once, a shard of another only after a wait.
    left = sorted({*shards} - has, key=lambda s: (s in owners and owners[s] in found, s))
    for member in sorted(members, key=lambda m: len(kept[m])):
        room = wanted[member] - len(found[member])
        found[member], left = found[member] + left[:room], left[room:]
    return found


def weighted(members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]) -> Assignment:
    """As much weight for each, as near as it can be had by moves that are worth it.

    What nobody has goes to the emptiest, the heaviest first. Then shards move from the fullest to the
    emptiest, and only where that brings the two nearer to each other by a tenth of a fair share or more. An
    empty shard weighs 1, not nothing.

    Each move has to be worth it, since weights are measured and never quite the same. Story: three shards of
    about 100 for two members: a has two of them, measured as 101 and 100, and b has 99. They are 102 apart,
    so one was moved, which made it 98. A run later it was b's two that weighed a little more, and one moved
    back, for ever. Here such a move would gain 4, and with a fair share of 150 it has to gain 15: it stays.

    It ends: moving the weight w, where the two are d apart, leaves them |d - 2w| apart and changes the sum of
    the squared loads by 2w(w - d). Nearer by g means that w and d - w are g/2 or more each, so each move
    takes g squared over 2 off the sum, at least, and there are finitely many. So it is with weights that
    change, too: where they are wrong by so little that a gain is wrong by less than g, what is moved is what
    the true weights want, and their sum gets smaller.

    Worked example: a has shards of 6, 3 and 1, b none; a fair share is 5. They are 10 apart; 6 brings them to
    4 and 6, 3 to 7 and 3: 6 is moved, and they are 8 nearer. 4 and 6 are 2 apart, and no shard of b is
    lighter than that: all stays.
    """
    weighs = {shard: max(1, weight) for shard, weight in weights.items()}
    kept = _kept(members, weights, owners)
    load = {member: sum(weighs[s] for s in shards) for member, shards in kept.items()}

    def give(shard: int, to: str) -> None:
        kept[to].append(shard)
        load[to] += weighs[shard]

    free = weights.keys() - {s for shards in kept.values() for s in shards}
    for shard in sorted(free, key=lambda s: (-weighs[s], s)):
        give(shard, min(members, key=lambda m: (load[m], m)))
    worth = sum(weighs.values()) / len(members) / _WORTH
    while True:
        emptiest = min(members, key=lambda m: (load[m], m))
        fullest_first = sorted(members, key=lambda m: (-load[m], m))
        helping = ((m, _helping(kept[m], weighs, load[m] - load[emptiest], worth)) for m in fullest_first)
        giver, moved = next((found for found in helping if found[1]), ("", ()))
        if not moved:
            break
        for shard in moved:
            kept[giver].remove(shard)
            load[giver] -= weighs[shard]
            give(shard, emptiest)
    return _sorted(kept)


def _helping(shards: Sequence[int], weighs: Mapping[int, int], apart: int, worth: float) -> tuple[int, ...]:
    """Which of a member's shards to move to one that has `apart` less; none where they would not be nearer by
    `worth`. The best one alone, or those that fit into half of the difference, heaviest first, whichever
    brings them nearer: many light shards help together where none does alone.

    Worked example: they are 10 apart, it is worth 1. Of 9 and two of 2, the 9 would leave them 8 apart, the
    other two 2: these are moved.
    """
    if apart < worth or not shards:
        return ()
    best = min(shards, key=lambda s: (abs(apart - 2 * weighs[s]), s))
    fitting, left = list[int](), apart
    for shard in sorted(shards, key=lambda s: (-weighs[s], s)):
        # What is left is not worth a move any more, or this one is too heavy for it.
        if left >= worth and 2 * weighs[shard] <= left:
            fitting.append(shard)
            left -= 2 * weighs[shard]
    alone = abs(apart - 2 * weighs[best])
    found, left = ([best], alone) if alone <= left else (fitting, left)
    return tuple(found) if apart - left >= worth else ()


ASSIGNORS: Mapping[str, Assignor] = {
    "range": range_,
    "round_robin": round_robin,
    "sticky": sticky,
    "weighted": weighted,
}
"""By the names that settings have for them."""


def named(name: str) -> Assignor:
    """The assignor of this name, or the function that `package.module:function` names.

    Raises ConfigError that says what is wrong with the name: not known, not to be imported, no function.
    """
    if name in ASSIGNORS:
        return ASSIGNORS[name]
    module, colon, function = name.partition(":")
    shown, known = printable(name), ", ".join(ASSIGNORS)
    if not (module and colon and function):
        raise ConfigError(f"assignor {shown!r} is not known: {known}, or package.module:function of your own")
    found = load("assignor", name)
    if not callable(found):
        raise ConfigError(f"assignor {shown!r} is no function: name one that takes members, weights, owners")
    return _Somebodys(name, found)


@dataclass(frozen=True)
class _Somebodys:
    """An assignor of somebody's own. It works on copies: one that takes shards out of `weights` as it gives
    them would be compared with what it left there."""

    path: str
    function: Assignor

    def __call__(
        self, members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]
    ) -> Assignment:
        return called(
            "assignor",
            self.path,
            self.function,
            members,
            dict(weights),
            dict(owners),
            reads=lambda answer: {str(m): tuple(sorted(map(int, shards))) for m, shards in answer.items()},
            cure="it takes members, weights and owners, and returns the shards of each member",
        )


def _somebodys(assignor: Assignor) -> _Somebodys:
    """One that was handed in as a function is named by where it stands."""
    if type(assignor) is _Somebodys:
        return assignor
    place = attempted(
        "assignor",
        type_name(assignor),
        lambda: (
            f"{getattr(assignor, '__module__', '')}:{getattr(assignor, '__qualname__', type_name(assignor))}"
        ),
    )
    return _Somebodys(place, assignor)


def assigned(
    assignor: Assignor, members: Sequence[str], weights: Mapping[int, int], owners: Mapping[int, str]
) -> Assignment:
    """What `assignor` says, with the arguments put in order and the answer held to the contract.

    Raises ConfigError, naming the function and the cure, when a shard is left out, given twice or given to
    nobody of the members, or when the function fails.

    The contract is checked here because every worker works the answer out for itself: a shard that is given
    twice would be worked on twice, and one that is left out by nobody.
    """
    own = _somebodys(assignor)
    in_order, name = tuple(sorted(set(members))), printable(own.path)
    if not in_order:
        raise ConfigError("shards cannot be shared among nobody: name at least one member")
    known = dict(sorted(weights.items()))
    found = own(in_order, known, {s: owners[s] for s in known if s in owners})
    if strangers := sorted(found.keys() - set(in_order)):
        raise ConfigError(
            f"assignor {name}: {printable(strangers[0])!r} is no member; give shards to members"
        )
    given = [shard for shards in found.values() for shard in shards]
    wrong = {*known} ^ {*given} or {s for s in given if given.count(s) > 1}
    if wrong:
        raise ConfigError(
            f"assignor {name}: shard {min(wrong)} is left out, unknown, or given twice; give each shard to "
            "exactly one member"
        )
    return {member: found.get(member, ()) for member in in_order}


def _kept(members: Sequence[str], shards: Iterable[int], owners: Mapping[int, str]) -> dict[str, list[int]]:
    """What each member has of these shards now, sorted."""
    kept: dict[str, list[int]] = {member: [] for member in members}
    for shard in sorted(shards):
        if owners.get(shard) in kept:
            kept[owners[shard]].append(shard)
    return kept


def _open_and_closed(weights: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """The shards to which something comes, and the others; both sorted."""
    return [s for s in sorted(weights) if weights[s]], [s for s in sorted(weights) if not weights[s]]


def _sorted(found: Mapping[str, Iterable[int]]) -> Assignment:
    return {member: tuple(sorted(shards)) for member, shards in found.items()}
