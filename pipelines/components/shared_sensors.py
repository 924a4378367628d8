"""One sensor of each kind for all logstores of an `SlsProject` that have none of their own.

A sensor of its own costs each logstore a tick of Dagster's: a call to the code server, a row of its storage,
and the daemon's turn, more than the look. A thousand logstores are 1,400 such ticks a minute, and a daemon
makes a hundred. Here one tick looks at all of them, some at a time.

    <folder>_logstores_demand_sensor    each minute      <folder>_logstores_sealed_sensor    each five
    <folder>_logstores_health_sensor    each five

What is looked at, asked for and told is that of a `Lookout`, so nothing else differs. What has to, does:

- A logstore that cannot be looked at stops no other. What the others found is stored, and the failure is in
  the tick's log and text. The tick is red where that is all there is: the cursor has nothing new, so nothing
  is lost by it. A failure that lasts is so red at the latest with the first quiet tick.
- Dagster ends a tick after a minute, and stores nothing of it. So after `_BEGINS_S` no look is begun; the
  next tick begins with those that were left. The process remembers them, not the cursor, which a red tick
  leaves as it is: logstores that hang would be first each time, and the others never looked at.
- Several that have too much waiting get one run where they have one in common (`SharedRun`): it starts one
  Spark. A drain stays its logstore's own, since its run has a key.
- After `_ENDS_S` a look that has not ended is a failure. What it finds later is dropped, and found again by
  the next one.

The cursor has that of each logstore, by name, packed: a row of each tick has it.

Worked example: of `a`, `b` and `c` the service answers nothing about `b`, and a shard of `c` closes. The tick
asks for a run of `c_microbatch`, keeps the cursors of `a` and `c`, and says why `b` was not looked at. Next
minute `a` and `c` are as before, and the tick is red with what `b` says.
"""

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final

import dagster as dg

from pipelines.components.logstore.assets import checkpoint_key
from pipelines.components.logstore.dagster_private import instance_kept_open
from pipelines.components.logstore.sensors.ticks import Lookout, Sighting, default_status, result_of
from pipelines.components.shared_run import SharedRun
from pipelines.landing.bounds import sensor_name, turned_on
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import SlsError, TransportError, amount

_AT_ONCE: Final = 16
"""Looks wait for service and catalog, most of their time."""
_BEGINS_S: Final = 30.0
_ENDS_S: Final = 45.0
_LINES_MAX: Final = 20


def shared_sensor(
    name: str,
    lookouts: Sequence[Lookout],
    *,
    running: bool = False,
    together: SharedRun | None = None,
    begins_s: float = _BEGINS_S,
    ends_s: float = _ENDS_S,
) -> dg.SensorDefinition:
    """The sensor of `lookouts`, which are of one kind, one a logstore; `name` is <folder>_logstores, and
    `together` the run that some have in common. Looks begin for so many seconds of a tick, and have so many
    to end."""
    first, by_name = lookouts[0], {each.logstore.name: each for each in lookouts}
    turns = [*by_name]
    jobs = [*([together.job] if together else []), *(job for each in lookouts for job in each.jobs)]

    def tick(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        instance_kept_open(context)
        before, now = _unpacked(context.cursor), {each: by_name[each] for each in turns}
        looks = _looks(context.instance, now, before, begins_s=begins_s, ends_s=ends_s)
        left = {*looks.left}
        turns.sort(key=lambda each: each not in left)
        for line in looks.failures():
            context.log.error(line)
        requests = _requests(context.instance, by_name, looks.seen, together)
        return result_of(context, _found(by_name, before, looks, requests))

    return dg.SensorDefinition(
        name=sensor_name(name, first.what),
        evaluation_fn=tick,
        jobs=jobs or None,
        minimum_interval_seconds=first.every_s,
        default_status=default_status(running or turned_on()),
        description=f"{first.description} For {amount(len(lookouts), 'logstore')} of the project.",
    )


def _found(
    lookouts: Mapping[str, Lookout],
    before: Mapping[str, str],
    looks: "_Looks",
    requests: tuple[dg.RunRequest, ...],
) -> Sighting:
    """All that was found, as one. Raises SlsError where nothing but failures are new; `before` are the
    cursors."""
    after = {name: cursor for name, cursor in before.items() if name in lookouts} | looks.cursors()
    if looks.failed and after == before and not looks.news():
        raise SlsError(looks.said()) from next(iter(looks.failed.values()))
    return Sighting(
        looks.said(),
        _packed(after),
        requests,
        tuple(event for seen in looks.seen.values() for event in seen.events),
        tuple(one for seen in looks.seen.values() for one in seen.partitions),
    )


def _requests(
    instance: dg.DagsterInstance,
    lookouts: Mapping[str, Lookout],
    seen: Mapping[str, Sighting],
    together: SharedRun | None,
) -> tuple[dg.RunRequest, ...]:
    """What each asks for; a live run of their own is none for those that `together` lands."""
    asked = [(lookouts[name], one) for name, found in seen.items() for one in found.requests]
    live = [each.logstore for each, one in asked if _is_live(one)]
    shared = together.request(instance, live) if together and len(live) > 1 else None
    if not isinstance(shared, dg.RunRequest):
        return tuple(_of_job(each, one) for each, one in asked)
    landed = {*(shared.asset_selection or ())}
    own = (pair for pair in asked if not (_is_live(pair[1]) and checkpoint_key(pair[0].logstore) in landed))
    return (shared, *(_of_job(each, one) for each, one in own))


def _is_live(request: dg.RunRequest) -> bool:
    """Whether any run will do that lands the logstore: it need not be one of this job, nor the only one."""
    return not (request.job_name or request.run_key)


def _of_job(lookout: Lookout, request: dg.RunRequest) -> dg.RunRequest:
    """A sensor of several jobs has to say which."""
    return request if request.job_name else request.with_replaced_attrs(job_name=lookout.jobs[0].name)


@dataclass(frozen=True)
class _Looks:
    """What became of the looks of a tick, by logstore: `left` were not begun."""

    seen: dict[str, Sighting] = field(default_factory=dict)
    failed: dict[str, BaseException] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def cursors(self) -> dict[str, str]:
        """What the next looks have to know."""
        return {name: seen.cursor for name, seen in self.seen.items()}

    def news(self) -> list[str]:
        """The logstores of which the tick asks for a run, or tells something."""
        return [name for name, one in self.seen.items() if one.requests or one.events or one.partitions]

    def failures(self) -> list[str]:
        """A line each, of so many at most."""
        said = (f"{name}: {_why(error)}" for name, error in self.failed.items())
        return _bounded([*said], "could not be looked at either")

    def said(self) -> str:
        """What the page shows: failures, what is new, then a word of the others."""
        few = len(self.seen) <= _LINES_MAX
        told = [*self.seen] if few else self.news()
        quiet = len(self.seen) - len(told)
        lines = [
            *self.failures(),
            *_bounded([f"{name}: {self.seen[name].said}" for name in told], "have news"),
            *([f"{amount(quiet, 'logstore')}, nothing new"] if quiet else []),
            *(
                [f"{len(self.left):,} were left for the next tick, which begins with them"]
                if self.left
                else []
            ),
        ]
        return "; ".join(lines)


def _why(error: BaseException) -> str:
    return str(error) if isinstance(error, SlsError) else f"{type(error).__name__}: {error}"


def _bounded(lines: Sequence[str], rest: str) -> list[str]:
    more = len(lines) - _LINES_MAX
    return [*lines[:_LINES_MAX], *([f"{more:,} more {rest}"] if more > 0 else [])]


def _looks(
    instance: dg.DagsterInstance,
    lookouts: Mapping[str, Lookout],
    cursors: Mapping[str, str],
    *,
    begins_s: float,
    ends_s: float,
) -> _Looks:
    """A look of each, in order, some at a time."""
    stops_s = SYSTEM_CLOCK.monotonic() + begins_s

    def one(name: str) -> Sighting | None:
        if SYSTEM_CLOCK.monotonic() > stops_s:
            return None
        return lookouts[name].looked(instance, cursors.get(name, ""))

    # Not as a context, which would wait for a look that hangs.
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="look")
    futures = {name: pool.submit(copy_context().run, one, name) for name in lookouts}
    wait(futures.values(), timeout=ends_s)
    pool.shutdown(wait=False, cancel_futures=True)
    return _ended(futures, ends_s)


def _ended(futures: Mapping[str, "Future[Sighting | None]"], ends_s: float) -> _Looks:
    found = _Looks()
    for name, future in futures.items():
        if future.cancelled():
            found.left.append(name)
        elif not future.done():
            found.failed[name] = TransportError(f"its look has not ended within {ends_s:g} s")
        elif (error := future.exception()) is not None:
            found.failed[name] = error
        elif (seen := future.result()) is not None:
            found.seen[name] = seen
        else:
            found.left.append(name)
    return found


def _packed(cursors: Mapping[str, str]) -> str:
    """The cursor of each logstore as one text."""
    plain = json.dumps(cursors, sort_keys=True, separators=(",", ":")).encode("utf-8")
    return base64.b85encode(zlib.compress(plain, 9)).decode("ascii")


def _unpacked(text: str | None) -> dict[str, str]:
    """The inverse; nothing for what another wrote: all is seen anew then."""
    try:
        cursors = json.loads(zlib.decompress(base64.b85decode(text or "")))
        return {str(name): str(cursor) for name, cursor in cursors.items()}
    except (ValueError, AttributeError, zlib.error):
        return {}
