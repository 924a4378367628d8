"""Every setting and every limit of the service side, with the relations between them.

Secrets are never settings: a `Credentials` names where they are found. Relations are checked
once, here, so that no other module has to wonder whether a heartbeat fits its timeout.
"""

import ipaddress
import os
import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from sls_io.values.errors import ConfigError

_PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_LOGSTORE = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NETLOC = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?")
_HOST_CHARS_MAX = 189
"""A name has at most 253 characters (RFC 1035), and the project with its dot, at most 64, comes before it."""
_REGIONAL = re.compile(
    r"(?P<region>[a-z]{2}(?:-[a-z0-9]+)+?)(?:-(?:(?P<inside>intranet|internal|vpc)|share))?"
    r"\.log\.aliyuncs\.com"
)
_VENDOR = ".aliyuncs.com"
_REGION = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
LOOPBACK_REGION = "loopback"
"""Region of a logstore behind a loopback endpoint, whichever of its names the endpoint uses."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_IN_ENVIRONMENT = "env:"
_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
_COUNTING = ("sticky", "range", "round_robin")
"""The assignors that count shards, whatever one weighs."""
_NO_ASKER, _ASKER_CHARS_MAX = re.compile(r"[^A-Za-z0-9_./-]"), 128
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

PAGE_GROUPS_MAX = 1000
"""PullLogs takes 1..1000 LogGroups a page (vendor documentation)."""
SHARD_MB_PER_S = 10.0
"""What the service gives of one shard, in raw MB (10^6) a second (vendor documentation)."""


class Settings(BaseModel):
    """Frozen, and strict about unknown names: a typo is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _a_switch_is_no_number(cls, data: Any) -> Any:
        """YAML reads `yes` and `on` as true, and true would count as 1."""
        for name, value in data.items() if isinstance(data, dict) else ():
            field = cls.model_fields.get(name) if isinstance(name, str) else None
            if isinstance(value, bool) and field is not None and field.annotation in (int, float):
                raise ValueError(f"{name}: expected a number, not true or false")
        return data


class Credentials(Settings):
    """Where the key pair comes from; never the key pair itself.

    provider `env` reads ALIBABA_CLOUD_ACCESS_KEY_ID, ALIBABA_CLOUD_ACCESS_KEY_SECRET and
    ALIBABA_CLOUD_SECURITY_TOKEN; `profile` takes the profile `name` of ~/.aliyun/config.json, in its mode;
    `default` looks where the vendor's programs do: environment, OIDC, profile, ECS role, URI; `import`
    calls `name` ("package.module:function"), which returns (id, secret, token or "") and, if it knows,
    when they end: unix seconds, or a text like STS's Expiration. Keys that end are asked for again.
    """

    provider: Literal["env", "profile", "default", "import"] = "env"
    name: str = ""

    @model_validator(mode="after")
    def _name_goes_with_a_provider(self) -> Self:
        if self.provider in ("env", "default") and self.name:
            raise ValueError("credentials.name goes with the provider 'profile' or 'import'")
        if self.provider == "import" and not self.name:
            raise ValueError("credentials.name: provider 'import' needs it, package.module:function")
        return self


def provider_and_name(text: str) -> dict[str, str]:
    """The settings of `Credentials` out of PROVIDER or PROVIDER:NAME, for places where one word must do."""
    provider, _, name = text.partition(":")
    return {"provider": provider, "name": name}


class Service(Settings):
    """One logstore: endpoint, project, logstore, and how to sign in.

    `endpoint` is https, or http on loopback (the emulator). `proxy`, `http://HOST:PORT` or
    `https://HOST:PORT`, makes a tunnel to it (CONNECT): it sees where to, and no key and no log.
    `env:VARIABLE` is an environment variable that has its address, with user and password where it wants
    some. `compression` is that of pages. `region` is needed for v4 signatures and is part of the origin. It
    may be left out where the endpoint is one of the service's regional ones,
    `REGION[-intranet|-internal|-share|-vpc].log.aliyuncs.com` (vendor documentation,
    "Endpoints").
    """

    endpoint: str
    project: str
    logstore: str
    region: str = ""
    proxy: str = ""
    compression: Literal["lz4", "zstd"] = "lz4"
    credentials: Credentials = Credentials()
    read_timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0
    tries_max: Annotated[int, Field(ge=1, le=20)] = 6
    _deployment: str = PrivateAttr(default="")

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_safe(cls, value: str) -> str:
        """Everything but scheme, host and port is refused: a user in it would be a secret in the settings,
        and a path or a query would be lost in silence, since requests make their own."""
        text = value if "://" in value else f"https://{value}"
        parts = urlsplit(text)
        host = parts.hostname or ""
        # The whole of netloc, not its parts: "https://:secret@HOST" has an empty user name.
        if (
            parts.scheme not in ("http", "https")
            or not _NETLOC.fullmatch(parts.netloc)
            or len(host) > _HOST_CHARS_MAX
            or parts.port == 0
            or parts.query
            or parts.fragment
        ):
            raise ValueError("endpoint: expected https://HOST, without user, path or query")
        if ":" in host:
            raise ValueError("endpoint: write the loopback as 127.0.0.1, not as an IPv6 address")
        if parts.path not in ("", "/"):
            raise ValueError("endpoint: expected https://HOST, without a path")
        if is_loopback(host) and "://" not in value:
            raise ValueError(f"endpoint: write http://{parts.netloc}, or https:// if it speaks TLS there")
        if parts.scheme == "http" and not is_loopback(host):
            raise ValueError("endpoint: http is for loopback only; use https")
        return f"{parts.scheme}://{parts.netloc}"

    @field_validator("proxy")
    @classmethod
    def _proxy_is_a_place(cls, value: str) -> str:
        """As with the endpoint, a user in it would be a secret."""
        if value.startswith(_IN_ENVIRONMENT):
            if not _VARIABLE.fullmatch(value.removeprefix(_IN_ENVIRONMENT)):
                raise ValueError(f"proxy: after {_IN_ENVIRONMENT} goes a variable's name, not its content")
            return value
        if value and not (_is_proxy(value) and _NETLOC.fullmatch(urlsplit(value).netloc)):
            raise ValueError(
                "proxy: expected http://HOST:PORT or https://HOST:PORT, without path or query; with a user, "
                f"put it into an environment variable and write {_IN_ENVIRONMENT}VARIABLE"
            )
        return value.rstrip("/")

    @field_validator("region")
    @classmethod
    def _region_is_a_name(cls, value: str) -> str:
        if value and not _REGION.fullmatch(value):
            raise ValueError("region: lower-case letters, digits and hyphens, such as cn-hangzhou")
        return value

    @field_validator("project")
    @classmethod
    def _project_is_a_host_label(cls, value: str) -> str:
        if not _PROJECT.fullmatch(value):
            raise ValueError("project: 3 to 63 lower-case letters, digits and inner hyphens")
        return value

    @field_validator("logstore")
    @classmethod
    def _logstore_is_a_name(cls, value: str) -> str:
        if not _LOGSTORE.fullmatch(value):
            raise ValueError("logstore: 3 to 63 lower-case letters, digits, inner hyphens and underscores")
        return value

    @model_validator(mode="after")
    def _region_is_known(self) -> Self:
        host = urlsplit(self.endpoint).hostname or ""
        if host.startswith(f"{self.project}.") and host.endswith(_VENDOR):
            raise PydanticCustomError(
                "endpoint_with_project",
                "service.endpoint: the project does not belong into it, requests put it there; write {right}",
                {"right": f"https://{host.removeprefix(f'{self.project}.')}"},
            )
        # Story: the endpoint is the global acceleration's or PrivateLink's. Whatever is cut out of its
        # name is a guess, and with the next endpoint another one: the logstore would be another origin,
        # and all of it would land a second time.
        if not (self.region or self._regional):
            raise ValueError(
                f"service.region: the endpoint {urlsplit(self.endpoint).hostname} does not say its region; "
                "set service.region to the region of the project, such as cn-hangzhou"
            )
        if self.proxy and not self.endpoint.startswith("https:"):
            raise ValueError("service.proxy: an http endpoint is this machine's own; leave the proxy out")
        return self

    @property
    def full_name(self) -> str:
        """project/logstore."""
        return f"{self.project}/{self.logstore}"

    def asked_by(self, deployment: str) -> "Service":
        """The same, asked in the name of a deployment; that is no setting, since the group's settings say it.
        It travels with copies and to other processes."""
        found = self.model_copy()
        found._deployment = deployment
        return found

    @property
    def asker(self) -> str:
        """Who asks, for whoever reads the service's own logs: the deployment, else the project. Printable
        ASCII without brackets, at most 128 characters."""
        return _NO_ASKER.sub("-", self._deployment or self.project)[:_ASKER_CHARS_MAX]

    @property
    def proxy_address(self) -> str:
        """The address of the proxy, user and password included; "" without one. Raises ConfigError where the
        environment has none that is one."""
        if not self.proxy.startswith(_IN_ENVIRONMENT):
            return self.proxy
        variable = self.proxy.removeprefix(_IN_ENVIRONMENT)
        address = os.environ.get(variable, "").strip().rstrip("/")
        if not _is_proxy(address):
            raise ConfigError(
                f"service.proxy: the environment variable {variable} "
                f"{'has no http://USER:PASSWORD@HOST:PORT' if address else 'is not set'}; export the proxy's "
                "address in it, wherever runs start"
            )
        return address

    @property
    def region_name(self) -> str:
        """The region: the setting, else what a regional endpoint of the service says, whichever network
        it is of."""
        return self.region or self._regional

    @property
    def inside(self) -> bool:
        """Whether the endpoint is one that only Alibaba Cloud's own networks reach."""
        found = _REGIONAL.fullmatch(urlsplit(self.endpoint).hostname or "")
        return found is not None and found["inside"] is not None

    @property
    def _regional(self) -> str:
        host = urlsplit(self.endpoint).hostname or ""
        if is_loopback(host):
            return LOOPBACK_REGION
        found = _REGIONAL.fullmatch(host)
        return found["region"] if found else ""


def is_group_name(text: str) -> bool:
    """Whether the service takes it as the name of a consumer group."""
    return _GROUP.fullmatch(text) is not None


class Group(Settings):
    """A consumer group and its timing.

    A holder is evicted by the service `timeout_s` after its last heartbeat; ours stops on its own
    clock earlier than that. A heartbeat that is not answered before the next one is
    lost. A run keeps its shards over a restart while `timeout_s` is longer than the schedule's interval.
    """

    name: str
    holder: str = "sls-lake"
    timeout_s: Annotated[int, Field(ge=3, le=3600)] = 60
    heartbeat_s: Annotated[float, Field(gt=0)] = 5.0
    order: bool = True
    patience_s: Annotated[float, Field(ge=0, le=86_400)] = 20.0

    @field_validator("name", "holder")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not is_group_name(value):
            raise ValueError("group and holder names: letters, digits, '_', '-', '.', at most 128")
        return value

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        """Three beats fit into a timeout, so one may be lost, and the next still comes in time."""
        if self.heartbeat_s * 3 > self.timeout_s:
            raise ValueError("group.heartbeat_s: at most a third of group.timeout_s")
        return self


def without_secret(setting: str, address: str) -> str:
    """An address of a database, or `env:VARIABLE`. Raises ValueError, with the setting's name.

    By its form, since nobody can tell a password by its looks: `user:...@` and options behind a `?` are
    refused, and `env:VARIABLE` is the way for both.
    """
    if address.startswith(_IN_ENVIRONMENT):
        if not _VARIABLE.fullmatch(address.removeprefix(_IN_ENVIRONMENT)):
            raise ValueError(f"{setting}: after {_IN_ENVIRONMENT} goes a variable's name, not its content")
        return address
    text = address.lower()
    if "@" in text.partition("://")[2] and ":" in text.partition("://")[2].rpartition("@")[0]:
        raise ValueError(
            f"{setting}: has a password in it; put the address into an environment variable, and name that "
            f"one, {_IN_ENVIRONMENT}VARIABLE"
        )
    if "://" not in address:
        raise ValueError(f"{setting}: expected KIND://USER@HOST/DATABASE, sqlite:////FILE or env:VARIABLE")
    if "?" in address:
        raise ValueError(f"{setting}: options may be secrets; use {_IN_ENVIRONMENT}VARIABLE")
    if text.startswith("sqlite:") and not text.startswith("sqlite:////"):
        raise ValueError(f"{setting}: name the file from the root on, sqlite:////FILE")
    return address


class Coordination(Settings):
    """How shards are held: by the service's consumer group, or by leases in a database.

    `database` is the address of the leases (`sqlite:////FILE`, `postgresql://USER@HOST/DATABASE`, `mysql`,
    `mariadb`), without a password, or `env:VARIABLE`, an environment variable that has an address, which may
    have one; "" has the service's group hold them. `assignor` says who gets which shard: `sticky`, `range`,
    `round_robin`, `weighted`, or `package.module:function`. All workers of a group need the same.
    """

    database: str = ""
    assignor: str = "sticky"

    @field_validator("database")
    @classmethod
    def _address_has_no_secret(cls, value: str) -> str:
        return without_secret("database", value) if value else value

    @field_validator("assignor")
    @classmethod
    def _assignor_is_known(cls, value: str) -> str:
        if value not in (*_COUNTING, "weighted") and not _IMPORT.fullmatch(value):
            raise ValueError(f"assignor: one of {', '.join(_COUNTING)}, weighted, or package.module:function")
        return value

    @model_validator(mode="after")
    def _an_assignor_has_leases(self) -> Self:
        if self.assignor != "sticky" and not self.database:
            raise ValueError("coordinator.assignor: it shares leases, so name their `database`, too")
        return self

    @property
    def leases(self) -> bool:
        """Whether shards are held by leases in a database."""
        return bool(self.database)

    @property
    def weighs(self) -> bool:
        """Whether leases are shared by what shards weigh; the others go by numbers alone."""
        return self.leases and self.assignor not in _COUNTING

    @property
    def variable(self) -> str:
        """The environment variable that has the address; "" where the setting has it."""
        named = self.database.startswith(_IN_ENVIRONMENT)
        return self.database.removeprefix(_IN_ENVIRONMENT) if named else ""


TASK_MB_EMPTY, TASK_MB_MIN = 230, 300
"""What a task's process takes before it reads, and the least that leaves it room to work."""
_PAGE_PART, _MEMORY_A_PAGE_BYTE, _MEMORY_A_ROW_BYTE = 0.6, 9.5, 1.5
"""Of the rest, the part for a page; what a raw byte of it takes while it is decoded, and what a byte of
decoded rows takes until it is in a file (`python -m bench.bench_shapes --task-mb`)."""


_UNENDED = 2**62


class Budget(Settings):
    """The most a run may use. A page is the smallest step, so each task may pass its share by a page.

    `tasks_min` is how many tasks a run makes at least where there are windows for so many: shards that are
    fewer are read by several tasks each, as far as a shard's quota feeds them. `shard_mb_per_s` is what all
    tasks together read of one shard: the service's documented quota, or what the vendor raised it to.
    `settle_s`: younger receive times wait. A shard with less than `mb_min` raw MB waiting, about, is left
    for a later run, until its oldest log has waited `wait_max_s`; 0 leaves none. `task_mb` is the memory
    that a task's process may take; 0 bounds none.
    """

    bytes_max: Annotated[int, Field(ge=1, le=1024**5)] = 8 * 1024**3
    windows_max: Annotated[int, Field(ge=1, le=1000)] = 1000
    seconds_max: Annotated[float, Field(gt=0, le=86_400)] = 240.0
    page_groups_max: Annotated[int, Field(ge=1, le=PAGE_GROUPS_MAX)] = PAGE_GROUPS_MAX
    tasks_min: Annotated[int, Field(ge=1, le=1000)] = 4
    shard_mb_per_s: Annotated[float, Field(ge=0.1, le=10_000)] = SHARD_MB_PER_S
    settle_s: Annotated[int, Field(ge=0, le=3600)] = 10
    mb_min: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    wait_max_s: Annotated[int, Field(ge=0, le=86_400)] = 900
    task_mb: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @model_validator(mode="after")
    def _a_task_fits(self) -> Self:
        if 0 < self.task_mb < TASK_MB_MIN:
            raise ValueError(
                f"budget.task_mb: {self.task_mb} MB are too few, a task takes about {TASK_MB_EMPTY} before "
                f"it reads anything; at least {TASK_MB_MIN}, or 0 for no bound"
            )
        return self

    @property
    def unended(self) -> "Budget":
        """The same with no end to bytes and windows, for what is done whole or not at all."""
        return self.model_copy(update={"bytes_max": _UNENDED, "windows_max": _UNENDED})

    @property
    def page_bytes_max(self) -> int | None:
        """Raw bytes of a page that leave a task below `task_mb`: decoding one takes up to ten times as much.
        None where nothing is bounded.

        Worked example: with 1,000 MB a task has 770 to work in. Six tenths of it are 462, and a page takes up
        to 9.5 times its bytes: 48.6 MB of it are asked for at once. The other 308 hold 205 MB of rows
        (`buffer_bytes_max`).
        """
        return int(self._room_bytes * _PAGE_PART / _MEMORY_A_PAGE_BYTE) if self.task_mb else None

    @property
    def buffer_bytes_max(self) -> int | None:
        """Bytes of decoded rows that may wait for their row group; as `page_bytes_max`."""
        return int(self._room_bytes * (1 - _PAGE_PART) / _MEMORY_A_ROW_BYTE) if self.task_mb else None

    @property
    def _room_bytes(self) -> int:
        return (self.task_mb - TASK_MB_EMPTY) * 1_000_000


def is_loopback(host: str) -> bool:
    """Whether `host` names this machine's loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_proxy(address: str) -> bool:
    """Whether it has the parts of a proxy's address and no other; a user is one that may be there."""
    try:
        parts = urlsplit(address)
        there = parts.scheme in ("http", "https") and bool(parts.hostname) and bool(parts.port)
    except ValueError:
        return False
    return there and parts.path in ("", "/") and not parts.query and not parts.fragment
