"""The first `defs.yaml` of a logstore, written from what the service says and from a sample of its logs.

`dg scaffold defs pipelines.components.SlsLogstore NAME` and the verb `new` write the same file.

What nobody says is taken from the name and from the service: `start` is the hour of its oldest log, where it
answers. Where it does not the history begins with today, and the file says so.

The file must load wherever it is written, also without a service and without a variable: who makes a file
looks at it next, and an error there would be about something that he has not written yet. So the endpoint is
a template, the start is what could be learnt, and the comment beside it says how sure that is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from pipelines.landing.defs_file import filled
from pipelines.landing.hours import hour_text
from pipelines.landing.suggestion import SAMPLE_LOGS, Contents
from sls_io.decoding.decode import Decoder
from sls_io.values.clock import SYSTEM_CLOCK
from sls_io.values.errors import ConfigError, ServiceError, SlsError
from sls_io.values.settings import Service, provider_and_name
from sls_io.values.shard import Head
from sls_io.values.window import HOUR_S, Cursor
from sls_io.wire.client import SlsClient

TYPE: Final = "pipelines.components.SlsLogstore"
ENDPOINT: Final = "{{ env.SLS_ENDPOINT }}"
NO_COLUMNS: Final = ("columns: {}",)
_SERVICE: Final = ("endpoint", "project", "logstore")
_NOT_THERE: Final = ("logstorenotexist", "projectnotexist")
_CALL_S, _SAMPLE_CALL_S = 5.0, 15.0
"""A call without and with a sample. All tries of one that a quota refuses take up to 12.5 s."""
_BACK_S = (60, 3600, 86_400)
"""How far back the newest logs are looked for, until there are enough."""
_PAGES_MAX = 20
"""Of a shard: pages of a sample are small, and a shard of tiny groups is no reason to read a day of it."""
_GROUPS = 20
_FILE = """type: {type}

# Loads without it; what runs then says that it is not set.
requirements:
  env:
    - SLS_ENDPOINT

attributes:
  service:
    # The key pair is never written here: ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET.
    endpoint: "{endpoint}"
    project: {project}
    logstore: {logstore}{credentials}
  # The consumer group; its checkpoints follow the table.
  group: {group}
  # Its last part is the name of the logstore's assets, jobs, schedules and sensors.
  table: {table}
  # First receive hour of the history, UTC: nothing before it is ever landed.
  # {why}
  start: {start}
  # Log key: type. string boolean int long float double decimal(p,s) date timestamp(FORMAT, ZONE), drop, hash.
  # A key that is not declared goes to __rest__; a value that does not fit stays, with its cause.
  {columns}
  # Off until somebody turns it on, as all schedules and sensors are.
  schedule: "*/5 * * * *"
  # sensors: [demand, health]
  # All settings: dg utils inspect-component pipelines.components.SlsLogstore --defs-yaml-schema
  # The verb `check` reads this file again.
"""


@dataclass(frozen=True, slots=True)
class Named:
    """What a person says of a logstore, or what follows from its name. `keys` is the setting
    `service.credentials`, empty for the environment's."""

    endpoint: str
    project: str
    logstore: str
    group: str
    table: str
    keys: Mapping[str, str]

    @staticmethod
    def of(
        name: str,
        *,
        endpoint: str = "",
        project: str = "",
        logstore: str = "",
        group: str = "",
        table: str = "",
        provider: str = "",
    ) -> "Named":
        """What is "" is taken from `name`, the folder of the file; `provider` may be PROVIDER:NAME.

        Worked example: of `access-logs` alone it is project `demo`, logstore `access-logs`, group `lake` and
        table `bronze.access_logs`: a table's name has no dash.
        """
        return Named(
            endpoint or ENDPOINT,
            project or "demo",
            logstore or name,
            group or "lake",
            table or f"bronze.{name.replace('-', '_').lower()}",
            {key: value for key, value in provider_and_name(provider).items() if value},
        )

    @staticmethod
    def of_settings(name: str, attributes: Mapping[str, Any]) -> "Named":
        """From the attributes of a file that is there; its group and table do not matter then."""
        service = attributes.get("service") or {}
        named = Named.of(name, **{key: str(service[key]) for key in _SERVICE if key in service})
        return replace(named, keys=service.get("credentials") or {})

    @property
    def service(self) -> dict[str, object]:
        """The setting `service` as it is written."""
        keys = {"credentials": dict(self.keys)} if self.keys else {}
        return {"endpoint": self.endpoint, "project": self.project, "logstore": self.logstore, **keys}

    def settings(self, start: str) -> dict[str, object]:
        """All settings, to be checked: a stand-in takes the place of what a variable says, for whether the
        rest is right does not depend on it."""
        service = {**self.service, "endpoint": "http://127.0.0.1"} if "{" in self.endpoint else self.service
        return {"service": service, "group": self.group, "table": self.table, "start": start}


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the service said. `start` is the first hour of the history, and `why` says why it is that.

    `trouble` is why it could not be asked, "" where it could.
    """

    start: str
    why: str
    trouble: str = ""
    shards: int = 0
    retention_s: float | None = None
    logs: list[Contents] = field(default_factory=list)


def text(named: Named, start: str, why: str, columns: Sequence[str] = NO_COLUMNS) -> str:
    """The file; `columns` are the lines of that setting."""
    keys = ", ".join(f"{key}: {value}" for key, value in named.keys.items())
    return _FILE.format(
        type=TYPE,
        endpoint=named.endpoint,
        project=named.project,
        logstore=named.logstore,
        credentials=f"\n    credentials: {{{keys}}}" if keys else "",
        group=named.group,
        table=named.table,
        start=start,
        why=why,
        columns="\n  ".join(columns),
    )


def ask(named: Named, *, sample: bool = False) -> FirstLook:
    """The oldest log's hour of any shard, with `sample` the newest logs, too. Raises nothing: what cannot be
    asked is said.

    Without a sample each call has 5 s and one try: a person waits at a prompt, and a start of today is a fine
    answer where the service is slow. Without its sample `new` writes nothing, so its calls are tried as often
    as any reader's: others read these shards, too, and use up their quota for a second.

    Of several shards the oldest log counts, of a logstore without any log this hour.
    """
    today = datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC).strftime("%Y-%m-%d-00:00")
    told, unset = filled({"service": named.service}, "the new defs.yaml")
    if unset:
        trouble = f"{', '.join(unset.values())} is not set"
        return FirstLook(today, f"Nobody could be asked for the oldest log, {trouble}: look.", trouble)
    try:
        service = Service.model_validate({**told["service"], **({} if sample else {"tries_max": 1})})
        with SlsClient(service, deadline_s=_SAMPLE_CALL_S if sample else _CALL_S) as client:
            heads = [client.head(shard) for shard in client.shards()]
            times = [client.cursor_time_s(h.shard.id, h.begin) for h in heads if h.begin < h.end]
            oldest_s = min(times, default=int(client.now_s()))
            logs = list(_newest(client, heads)) if sample else []
            retention_s = client.retention_s() if sample else None
    except ServiceError as error:
        if error.code.lower() not in _NOT_THERE:
            return _unasked(today, error)
        why = "The service has no such logstore yet, so its history begins with this day."
        return FirstLook(today, why, f"the service has no logstore {named.project}/{named.logstore}")
    except (SlsError, ValueError) as error:
        return _unasked(today, error)
    why = "The hour of the oldest log that the service had."
    return FirstLook(
        hour_text(int(oldest_s) // HOUR_S), why, shards=len(heads), retention_s=retention_s, logs=logs
    )


def _unasked(today: str, error: Exception) -> FirstLook:
    why = "The service could not be asked for its oldest log: look whether history begins earlier."
    said = error.errors(include_input=False) if isinstance(error, ValidationError) else ()
    return FirstLook(today, why, "; ".join(each["msg"] for each in said) or str(error))


def require_answer(answer: FirstLook) -> None:
    """Raises ConfigError where the service could not be asked."""
    if answer.trouble:
        raise ConfigError(
            f"no logs to look at: {answer.trouble}. Nothing was written. With --from FILE the columns come "
            "from a file of such logs, and the service need not be there"
        )


def _newest(client: SlsClient, heads: Sequence[Head]) -> Iterator[Contents]:
    """Some of the newest logs of each open shard, at most SAMPLE_LOGS of all.

    Back from now in steps, so that a busy shard is not read from its begin and a quiet one is found at all:
    the last minute, hour, day, and at last from the begin. Worked example: 4 shards with logs: 500 are wanted
    of each.
    """
    decoder = Decoder(client.origin().id, ())
    open_heads = [head for head in heads if head.begin < head.end]
    for head in open_heads:
        wanted = max(1, SAMPLE_LOGS // len(open_heads))
        found: list[Contents] = []
        for back_s in (*_BACK_S, None):
            begin = head.begin
            if back_s is not None:
                begin = max(begin, client.cursor_at(head.shard.id, int(client.now_s()) - back_s))
            found = list(_from(client, decoder, head, begin, wanted))
            if len(found) >= wanted:
                break
        yield from found


def _from(client: SlsClient, decoder: Decoder, head: Head, begin: Cursor, wanted: int) -> Iterator[Contents]:
    at, left = begin, wanted
    for _ in range(_PAGES_MAX):
        if at >= head.end or left <= 0:
            return
        page = client.pull(head.shard.id, at, end=head.end, groups_max=_GROUPS)
        for part in decoder.open(page).parts(0):
            for pairs in part.batch.column("__rest__").slice(0, left).to_pylist():
                left -= 1
                yield [(key, (value or "").encode()) for key, value in pairs or ()]
        at = page.next
