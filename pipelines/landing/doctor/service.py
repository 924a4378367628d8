"""Trials of the log service: keys, the way there, the clock, the logstore, a page; the group, the leases or
the shards by name.

What stays behind: nothing. The heartbeat is sent in a consumer group of its own, which is deleted; in the
logstore's own group a second consumer would be given shards that a run works on.

Why so many questions, where one PullLogs would do: it fails with one error for many causes. A key that nobody
set, a name that the network does not know, a clock that is off and a logstore that is not there are put right
in four places. Each question has one cause, and stands before those that need it. Where a needed one is
wrong the others are skipped: they would say the same in other words, and a person would begin at the last.

What no call tells is no trial: whether a quota was raised, or what RAM will say to a call that was not made.
"""

import socket
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pipelines.landing.coordinators import check_unheld, leases_rehearsed
from pipelines.landing.doctor.trial import Came, Grade, Question
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import Contract
from sls_io.decoding.decode import Decoder
from sls_io.values.clock import SYSTEM_CLOCK, Clock
from sls_io.values.cures import Call, Do
from sls_io.values.errors import ConfigError, ServiceError, SlsError, TransportError, amount
from sls_io.values.settings import SHARD_MB_PER_S, Service, is_loopback
from sls_io.values.shard import Shard
from sls_io.wire.client import GroupInfo, SlsClient
from sls_io.wire.credentials import resolve
from sls_io.wire.identity import caller, sts_host

CLOCK_OFF_MAX_S = 60.0
"""The service refuses signatures that are 15 minutes off; one minute already moves what "now" means."""
GROUPS_MAX = 30
"""Consumer groups of a logstore (vendor documentation, "Limits")."""
STS_S = 5.0
_FEWER_GROUPS = (
    Call(("groups", "delete", "NAME"), does="deletes one that nobody reads"),
    Do("or hold shards by leases: `coordinator: {database: ...}`"),
)
_PROBE = "sls-lake-doctor"
_PROBE_TIMEOUT_S = 10
_METRICS = "Metrics"
"""`telemetryType` of a metric store (GetLogStore of the service's API reference)."""


def of_service(logstore: Logstore, client: Callable[[], SlsClient], clock: Clock) -> Iterator[Question]:
    """Each asks `client`, or what stands before it.

    `client` is not called before "signature": making one resolves keys, which are a trial of their own. What
    two questions need (the description of the logstore, the list of shards) is asked once and kept: `said` is
    GetLogStore for "signature" and for "logstore", so its answer is of one moment for both.
    """
    service = logstore.service
    place, name = service.full_name, _host(service)
    yield Question(
        "keys", f"credentials of provider {service.credentials.provider}", lambda: _keys(service), True
    )
    yield Question("name", f"the address of {name}", lambda: _address(service, name), True)
    yield Question("identity", f"GetCallerIdentity of {sts_host(service)}", lambda: _identity(service))
    said = cache(lambda: client().described())
    yield Question("signature", f"GetLogStore of {place}", lambda: _signed(client(), said()), True)
    yield Question("clock", "the Date of that answer", lambda: _clock(client(), clock))
    yield Question("project", f"GetProject of {service.project}", lambda: _project(service, client()))
    yield Question("logstore", "its kind and its retention", lambda: _kind(client(), said()), True)
    shards = cache(lambda: client().shards())
    yield Question("shards", "ListShards", lambda: _shards(shards()), True)
    yield Question("quota", "the settings, by what the vendor documents", lambda: _quota(logstore, shards()))
    yield Question("page", "PullLogs of one LogGroup", lambda: _page(logstore, client()))
    if logstore.shards is not None:
        yield Question("named", "the shards of the settings", lambda: _named(logstore, client(), shards()))
        return
    if logstore.coordinator.leases:
        yield Question("leases", "the database of leases", lambda: leases_rehearsed(logstore, client()))
        return
    yield Question("group", "ListConsumerGroup", lambda: _group(logstore, client()))
    yield Question("heartbeat", f"a heartbeat in a new group {_PROBE}-...", lambda: _heartbeat(client()))


def _keys(service: Service) -> str:
    found = resolve(service.credentials)
    token = "with a security token" if found.token else "of a user, without an end"
    place = f", from {found.place}" if found.place else ""
    if found.expires_s == float("inf"):
        return f"a key pair {token}{place}"
    return f"a key pair {token}{place}, good for {found.expires_s - SYSTEM_CLOCK.now():,.0f} s"


def _host(service: Service) -> str:
    """What is looked up: the proxy, where it does that, else the project's own name."""
    if service.proxy:
        return str(urlsplit(service.proxy_address).hostname)
    host = str(urlsplit(service.endpoint).hostname)
    return host if is_loopback(host) else f"{service.project}.{host}"


def _address(service: Service, host: str) -> Came | str:
    try:
        found = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None)})
    except OSError as error:
        change = (
            "check service.proxy"
            if service.proxy
            else "check the region in service.endpoint; -intranet and -internal names exist only inside "
            "Alibaba Cloud's networks"
        )
        return Came(f"no address: {error.strerror or error}", Grade.WRONG, (Do(change),))
    return ", ".join(found)


def _identity(service: Service) -> Came | str:
    """Never wrong by itself: a landing needs no STS, and a refused signature has a line of its own."""
    if is_loopback(urlsplit(service.endpoint).hostname or ""):
        return "not asked: keys of an endpoint on loopback belong to no account"
    try:
        found = caller(service, deadline_s=STS_S)
    except TransportError as error:
        change = Do(f"nothing, or let this machine reach {sts_host(service)} (HTTPS): a landing does without")
        return Came(f"unknown: {error}", Grade.NOTE, (change,))
    except ServiceError as error:
        change = Do("where the signature is refused, too: these keys are disabled, ended or mistyped")
        return Came(f"unknown: {error}", Grade.NOTE, (change,))
    return f"{found.kind} {found.arn} of account {found.account}"


def _signed(client: SlsClient, said: Mapping[str, Any]) -> str:
    origin = client.origin(said)
    return f"made at unix second {origin.created_s}; its origin is {origin.id}"


def _clock(client: SlsClient, clock: Clock) -> Came | str:
    off_s = clock.now() - client.now_s()
    text = f"this machine's clock is {off_s:+.1f} s off the service's"
    if abs(off_s) > CLOCK_OFF_MAX_S:
        change = Do("set this machine's clock: hours that people name are read by it")
        return Came(text, Grade.NOTE, (change,))
    return text


def _project(service: Service, client: SlsClient) -> Came | str:
    region = str(client.project().get("region", ""))
    if region in ("", service.region_name) or is_loopback(urlsplit(service.endpoint).hostname or ""):
        return f"it is in {region or 'a region that it does not tell'}"
    change = Do(f"write `region: {region}` under service: the table keeps it with every row's origin")
    return Came(f"it is in {region}, the settings say {service.region_name}", Grade.WRONG, (change,))


def _kind(client: SlsClient, said: Mapping[str, Any]) -> Came | str:
    kept_s = client.retention_s(said)
    kept = "logs are kept for ever" if kept_s is None else f"logs are kept for {kept_s / 86_400:g} days"
    sealed = ", encrypted" if (said.get("encrypt_conf") or {}).get("enable") else ""
    text = f"{said.get('mode') or 'standard'} logstore, {kept}{sealed}"
    if said.get("telemetryType") == _METRICS:
        change = Do("name a logstore: its points are read by the metric query language, not by shard")
        return Came("it is a metric store", Grade.WRONG, (change,))
    if said.get("mode") == "query":
        look = Call(("peek", "0"), does="shows whether its rows have all that you need")
        return Came(text, Grade.NOTE, (look,))
    return text


def _shards(shards: Sequence[Shard]) -> str:
    still = sum(shard.readonly for shard in shards)
    return f"{len(shards) - still} open, {still} read-only"


def _quota(logstore: Logstore, shards: Sequence[Shard]) -> Came | str:
    """What the settings ask beside what the vendor's pages allow. Whether a quota was raised for this account
    no call tells, so a higher one is a note.

    Worked example: 4 shards at 10 MB/s are at most 9,600 MB in a run of 240 s, as long as a budget lasts
    unless told otherwise. With 20 MB/s in the settings the number stays, since what the service gives of a
    shard does not follow from what is asked.
    """
    budget = logstore.budget
    asked, least = budget.shard_mb_per_s, min(budget.shard_mb_per_s, SHARD_MB_PER_S)
    mb = len(shards) * least * budget.seconds_max
    text = (
        f"documented are {SHARD_MB_PER_S:g} MB/s of a shard; a run of {budget.seconds_max:g} s reads at most "
        f"{mb:,.0f} MB of {amount(len(shards), 'shard')}, and its budget is {budget.bytes_max / 1e6:,.0f} MB"
    )
    if asked > SHARD_MB_PER_S:
        change = Do(f"leave budget.shard_mb_per_s at {SHARD_MB_PER_S:g}, unless the vendor raised that quota")
        return Came(f"{text}; the settings ask {asked:g} MB/s", Grade.NOTE, (change,))
    return text


def _page(logstore: Logstore, client: SlsClient) -> str:
    """One LogGroup, of the first shard that has any, decoded with the declared columns."""
    decoder = Decoder(client.origin().id, Contract.from_columns(logstore.columns).declared)
    for shard in client.shards():
        head = client.head(shard)
        if head.begin == head.end:
            continue
        page = client.pull(shard.id, head.begin, groups_max=1)
        rows = sum(part.rows for part in decoder.open(page).parts(0))
        return f"{amount(page.raw_bytes, 'byte')} of shard {shard.id}, {amount(rows, 'log')}"
    return "no shard has a log yet"


def _named(logstore: Logstore, client: SlsClient, shards: Sequence[Shard]) -> Came | str:
    """Raises as a run would that found another holder."""
    check_unheld(logstore, client)
    named, listed = logstore.shards or (), {shard.id for shard in shards}
    text = f"shards {', '.join(map(str, named))} are read here, the others are left to others"
    if strange := [str(shard) for shard in named if shard not in listed]:
        change = Do("take them out of `shards`, unless the table has landed of them")
        return Came(f"{text}; {', '.join(strange)} is not listed", Grade.NOTE, (change,))
    return f"{text}; nobody holds them in group {logstore.group.name}"


def _group(logstore: Logstore, client: SlsClient) -> Came | str:
    ours, groups = logstore.group, {info.name: info for info in client.groups()}
    there = f"{len(groups)} of {GROUPS_MAX} groups"
    found = groups.get(ours.name)
    if found is None and len(groups) >= GROUPS_MAX:
        text = f"{there}; {ours.name} is not among them, and the first run would make it"
        return Came(text, Grade.NOTE, _FEWER_GROUPS)
    if found is None:
        return f"{there}; {ours.name} is not among them, the first run makes it"
    if found.drift(ours):
        text = f"{ours.name} has timeout {found.timeout_s} s and order {found.order}, not as the settings say"
        return Came(text, Grade.NOTE, (Call(("groups", "set"), does="changes the group"),))
    return f"{there}; {ours.name} is as the settings say"


def _heartbeat(client: SlsClient) -> Came | str:
    # The three rights that a run needs of a group, tried where they change nothing: to make one, to beat, to
    # read checkpoints. A name of its own for each look: two looks at once would delete each other's group.
    name = f"{_PROBE}-{uuid.uuid4().hex[:8]}"
    try:
        client.create_group(GroupInfo(name, _PROBE_TIMEOUT_S, order=False))
    except ServiceError as error:
        if error.code != "ConsumerGroupQuotaExceed":
            raise
        return Came("the logstore takes no further consumer group", Grade.NOTE, _FEWER_GROUPS)
    try:
        held = client.heartbeat(name, _PROBE, ())
        client.checkpoints(name)
    finally:
        _delete(client, name)
    return f"{len(held)} shards were given to it"


def _delete(client: SlsClient, name: str) -> None:
    """Raises ConfigError, with the call that does it, for a group that stays.

    An error says nothing of what was done: a delete whose answer is lost has deleted. So the list decides,
    and the error is only told where the group is still among them.
    """
    why = ""
    try:
        client.delete_group(name)
    except SlsError as error:
        why = f": {error}"
    if any(info.name == name for info in client.groups()):
        raise ConfigError(
            f"the consumer group {name} of this look stays{why}",
            cures=(Call(("groups", "delete", name), harmless=True, does="deletes it"),),
        )
