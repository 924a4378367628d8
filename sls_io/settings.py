"""Every setting and every limit of the service side, with the relations between them.

Secrets are never settings: a `Credentials` names where they are found. Relations are checked
once, here, so that no other module has to wonder whether a heartbeat fits its timeout.
"""

import ipaddress
import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_PROJECT = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_LOGSTORE = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
_NETLOC = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_NETWORK = re.compile(r"-(?:intranet|internal|share|vpc)$")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

PAGE_GROUPS_MAX = 1000
"""PullLogs takes 1..1000 LogGroups a page (vendor documentation)."""


class Settings(BaseModel):
    """Frozen, and strict about unknown names: a typo is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Credentials(Settings):
    """Where the key pair comes from; never the key pair itself.

    provider `env` reads ALIBABA_CLOUD_ACCESS_KEY_ID, ALIBABA_CLOUD_ACCESS_KEY_SECRET and
    ALIBABA_CLOUD_SECURITY_TOKEN; `profile` reads `profile` of ~/.aliyun/config.json; `import`
    calls `path` ("package.module:function"), which returns (id, secret, token or "").
    """

    provider: Literal["env", "profile", "import"] = "env"
    profile: str = "default"
    path: str = ""

    @model_validator(mode="after")
    def _path_goes_with_import(self) -> Self:
        if (self.provider == "import") != bool(self.path):
            raise ValueError("credentials.path goes with provider 'import', and only with it")
        return self


class Service(Settings):
    """One logstore: endpoint, project, logstore, and how to sign in.

    `endpoint` is https, or http on loopback (the emulator). `region` is needed for v4 signatures
    and is part of the origin; when empty it is taken from the endpoint's first label.
    """

    endpoint: str
    project: str
    logstore: str
    region: str = ""
    credentials: Credentials = Credentials()
    connect_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0
    read_timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0
    tries_max: Annotated[int, Field(ge=1, le=20)] = 6

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_safe(cls, value: str) -> str:
        text = value if "://" in value else f"https://{value}"
        parts = urlsplit(text)
        host = parts.hostname or ""
        # The whole of netloc, not its parts: "https://:secret@HOST" has an empty user name.
        if (
            parts.scheme not in ("http", "https")
            or not _NETLOC.fullmatch(parts.netloc)
            or parts.port == 0
            or parts.query
            or parts.fragment
        ):
            raise ValueError("endpoint: expected https://HOST, without user, path or query")
        if parts.path not in ("", "/"):
            raise ValueError("endpoint: expected https://HOST, without a path")
        if parts.scheme == "http" and not is_loopback(host):
            raise ValueError("endpoint: http is for loopback only; use https")
        return f"{parts.scheme}://{parts.netloc}"

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

    @property
    def region_name(self) -> str:
        """The region, from the setting or the endpoint's first label, whichever network that names.

        The region is part of the origin: were "cn-hangzhou-intranet" another region, moving a
        deployment into the private network would land the whole logstore a second time.
        """
        return self.region or _NETWORK.sub("", (urlsplit(self.endpoint).hostname or "").split(".")[0])


class Group(Settings):
    """A consumer group and its timing.

    A holder is evicted by the service `timeout_s` after its last heartbeat; ours stops on its own
    clock earlier than that. A run keeps its shards over a restart while `timeout_s` is longer than
    the schedule's interval.
    """

    name: str
    holder: str = "sls-lake"
    timeout_s: Annotated[int, Field(ge=3, le=3600)] = 60
    heartbeat_s: Annotated[float, Field(gt=0)] = 5.0
    heartbeat_deadline_s: Annotated[float, Field(gt=0)] = 4.0
    order: bool = True
    patience_s: Annotated[float, Field(ge=0)] = 20.0

    @field_validator("name", "holder")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _GROUP.fullmatch(value):
            raise ValueError("group and holder names: letters, digits, '_', '-', '.', at most 128")
        return value

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        if self.heartbeat_s * 3 > self.timeout_s:
            raise ValueError("group.heartbeat_s: at most a third of group.timeout_s")
        if self.heartbeat_deadline_s > self.heartbeat_s:
            raise ValueError("group.heartbeat_deadline_s: at most group.heartbeat_s")
        return self


class Budget(Settings):
    """The most a run may use. A page is the smallest step, so each task may pass its share by a page.

    `tasks_min` is how many tasks a run makes at least where there are windows for so many: shards
    that are fewer are read by several tasks each. `settle_s`: younger receive times wait.
    """

    bytes_max: Annotated[int, Field(ge=1)] = 8 * 1024**3
    windows_max: Annotated[int, Field(ge=1, le=1000)] = 1000
    seconds_max: Annotated[float, Field(gt=0)] = 240.0
    page_groups_max: Annotated[int, Field(ge=1, le=PAGE_GROUPS_MAX)] = PAGE_GROUPS_MAX
    tasks_min: Annotated[int, Field(ge=1, le=1000)] = 4
    settle_s: Annotated[int, Field(ge=0, le=3600)] = 10


def is_loopback(host: str) -> bool:
    """Whether `host` names this machine's loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
