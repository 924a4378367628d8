"""The calls we need of a running Dagster: launch and follow a backfill, tell of an hour, load a code location
again.

Dagster's own Python client has no call for backfills, so the queries are written out. Source of
names: the GraphQL schema of the pinned release (`launchPartitionBackfill`, `partitionBackfillOrError`), and
its REST API of external assets (`report_asset_materialization`).

Three kinds of answers are told apart, since a person does something else with each. Nobody answers, or what
answers is no Dagster (a proxy's page, another program on the port): the address is wrong, or Dagster has to
be started. Dagster answers with an error of GraphQL: its release has other names. It answers with a typed
error (`__typename` is none that was hoped for): it understood, and refuses. A refused question comes with
status 200, so the status of HTTP says nothing of it.

An answer that is lost after `launch` was sent proves nothing: the backfill may go on there. Nothing here
sends a mutation a second time.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from sls_io.values.errors import ConfigError, ConnectFailed, ServiceError, printable

DEFAULT_URL = "http://127.0.0.1:3000"
URL_VARIABLE = "DAGSTER_WEBSERVER_URL"
LOCATION = "sls_lake"
"""What a checkout calls its code location. A project calls it by its own name: Dagster is asked for it."""
POLL_S = 1.0
_TIMEOUT_S = 30.0
_FAILED_MAX = 5
_HOST, _PATH = re.compile(r"[^\s\0-\x20/@%]+"), re.compile(r"[!-~]*")
_GOOD = frozenset({"COMPLETED", "COMPLETED_SUCCESS"})
_ENDED = _GOOD | {"FAILED", "CANCELED", "COMPLETED_FAILED"}

_LAUNCH = """
mutation Launch($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on Error { message }
  }
}
"""

_PROGRESS = """
query Progress($id: String!) {
  partitionBackfillOrError(backfillId: $id) {
    __typename
    ... on PartitionBackfill {
      status
      numPartitions
      error { message }
      assetBackfillData {
        assetBackfillStatuses {
          ... on AssetPartitionsStatusCounts {
            numPartitionsTargeted
            numPartitionsMaterialized
            numPartitionsFailed
          }
        }
      }
    }
    ... on Error { message }
  }
}
"""

_FAILED_RUNS = """
query Failed($filter: RunsFilter!, $limit: Int!) {
  runsOrError(filter: $filter, limit: $limit) {
    __typename
    ... on Runs {
      results {
        eventConnection {
          events {
            __typename
            ... on ExecutionStepFailureEvent { error { message } failureMetadata { description } }
            ... on RunFailureEvent { error { message } }
          }
        }
      }
    }
    ... on Error { message }
  }
}
"""

_LOCATION = """
query Location {
  workspaceOrError {
    ... on Workspace {
      locationEntries { name loadStatus locationOrLoadError { __typename ... on Error { message } } }
    }
    ... on Error { message }
  }
}
"""

_RELOAD = """
mutation Reload($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    __typename
    ... on WorkspaceLocationEntry {
      loadStatus
      locationOrLoadError { __typename ... on Error { message } }
    }
    ... on Error { message }
  }
}
"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How a backfill stands; `total`, `done` and `failed` count hours."""

    status: str
    total: int
    done: int
    failed: int
    message: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.status in _ENDED

    @property
    def ok(self) -> bool:
        """Whether every hour was done."""
        return self.status in _GOOD


def launch(
    url: str,
    asset: list[str],
    first: str,
    last: str,
    *,
    tags: Mapping[str, str] | None = None,
    config: Mapping[str, object] | None = None,
) -> str:
    """Launch a backfill of the partitions first..last of `asset`, with `tags` and `config` for its runs; its
    id."""
    params = {
        "tags": [{"key": key, "value": value} for key, value in (tags or {}).items()],
        "runConfigData": config or {},
        "partitionsByAssets": [
            {"assetKey": {"path": asset}, "partitions": {"ranges": [{"start": first, "end": last}]}}
        ],
        "title": f"{'/'.join(asset)} {first} to {last}",
    }
    answer = _ask(url, "launchPartitionBackfill", _LAUNCH, {"params": params})
    if answer["__typename"] != "LaunchBackfillSuccess":
        raise _refused(answer)
    return str(answer["backfillId"])


def progress(url: str, backfill_id: str) -> Progress:
    """The backfill now."""
    answer = _ask(url, "partitionBackfillOrError", _PROGRESS, {"id": backfill_id})
    if answer["__typename"] != "PartitionBackfill":
        raise _refused(answer)
    statuses = (answer.get("assetBackfillData") or {}).get("assetBackfillStatuses") or []
    counts: Mapping[str, Any] = next((entry for entry in statuses if entry), {})
    return Progress(
        status=str(answer["status"]),
        total=int(counts.get("numPartitionsTargeted") or answer.get("numPartitions") or 0),
        done=int(counts.get("numPartitionsMaterialized") or 0),
        failed=int(counts.get("numPartitionsFailed") or 0),
        message=str((answer.get("error") or {}).get("message") or ""),
    )


def reasons(url: str, backfill_id: str) -> list[str]:
    """Why runs of the backfill failed, each reason once: of the newest that failed, the sentences on their
    pages."""
    chosen = {"tags": [{"key": "dagster/backfill", "value": backfill_id}], "statuses": ["FAILURE"]}
    answer = _ask(url, "runsOrError", _FAILED_RUNS, {"filter": chosen, "limit": _FAILED_MAX})
    if answer["__typename"] != "Runs":
        raise _refused(answer)
    told = [text for run in answer["results"] for text in _told(run["eventConnection"]["events"])]
    return list(dict.fromkeys(told))


def _told(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the failures of a run's steps say; of a run that ended otherwise, what the run says.

    A step of ours fails with a sentence (`failureMetadata`), which Dagster's own message only wraps. A run
    whose process was killed has no failed step, and its own failure is all there is. Worked example: a step
    that failed with "short" and a run that failed with "a" are told as "short" alone.
    """

    def texts(kind: str) -> list[str]:
        of_kind = [event for event in events if event["__typename"] == kind]
        said = [(e.get("failureMetadata") or e.get("error") or {}) for e in of_kind]
        return [printable(x.get("description") or x.get("message") or kind).strip() for x in said]

    return texts("ExecutionStepFailureEvent") or texts("RunFailureEvent")


def loaded(url: str) -> bool:
    """Whether the project's definitions are loaded; False while Dagster is still starting.

    Raises ServiceError when they cannot be loaded, with Dagster's own words.
    """
    try:
        answer = _ask(url, "workspaceOrError", _LOCATION, {})
    except ConnectFailed:
        return False
    entries = answer.get("locationEntries") or []
    for entry in entries:
        found = entry.get("locationOrLoadError") or {}
        if found.get("__typename") == "PythonError":
            raise _refused(found)
    return bool(entries) and all(entry["loadStatus"] == "LOADED" for entry in entries)


def reload(url: str, location: str) -> None:
    """Load the code of a code location again, as the button of the page does. Raises ServiceError where
    Dagster refuses that, or the code does not load. The second stands inside of an answer that is a success:
    the entry is there, and what it holds is an error with the traceback."""
    answer = _ask(url, "reloadRepositoryLocation", _RELOAD, {"location": location})
    inside: Mapping[str, Any] = answer.get("locationOrLoadError") or {}
    for each in (answer, inside):
        if each.get("__typename", "RepositoryLocation") not in (
            "WorkspaceLocationEntry",
            "RepositoryLocation",
        ):
            raise _refused(each)


def materialized(
    url: str, asset: list[str], partition: str, version: str, metadata: Mapping[str, object]
) -> None:
    """Tell Dagster that this partition of `asset` was made outside of it, as this data version. Raises
    ServiceError when it refuses that."""
    body = {"partition": partition, "data_version": version, "metadata": metadata}
    status, _ = _post(url, f"/report_asset_materialization/{'/'.join(asset)}", body)
    if status != HTTPStatus.OK:
        raise ServiceError("ReportRefused", "Dagster did not take the event", status=status)


def _refused(answer: Mapping[str, Any]) -> ServiceError:
    return ServiceError(
        str(answer["__typename"]),
        str(answer.get("message") or "Dagster refused"),
        status=200,
        hint="See the same in Dagster's page: the asset, Materialize",
    )


def _ask(url: str, name: str, query: str, variables: Mapping[str, object]) -> dict[str, Any]:
    """The object under `name` of the answer's data."""
    status, text = _post(url, "/graphql", {"query": query, "variables": variables})
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_dagster(url, status) from None
    if not isinstance(document, dict):
        raise _not_dagster(url, status)
    match document.get("errors"):
        case [{"message": message}, *_]:
            raise ServiceError("GraphQL", printable(str(message)), status=status)
    data = document.get("data")
    found: object = data.get(name) if isinstance(data, dict) else None
    if not isinstance(found, dict):
        raise _not_dagster(url, status)
    return found


def _post(url: str, path: str, body: Mapping[str, object]) -> tuple[int, bytes]:
    """(status, body) of the answer."""
    kind, host, port, root = _place(url)
    connection = kind(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", f"{root}{path}", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException) as error:
        raise ConnectFailed(
            f"no Dagster answers at {url} ({type(error).__name__}): start it, name it with "
            "--dagster-url, or land without it: --local"
        ) from error
    finally:
        connection.close()


def _place(url: str) -> tuple[type[HTTPConnection], str, int | None, str]:
    """(kind of connection, host, port, path) of a page. Raises ConfigError for what is no address. A page
    behind a proxy may have a path: http://127.0.0.1:3000/dag/ is asked at /dag/graphql. A name or password in
    the address is refused, since the address is printed in errors and in links."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        # As the standard library will: a label that is empty or too long fails there, in the middle.
        host.encode("idna")
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    sendable = _HOST.fullmatch(host) and _PATH.fullmatch(parts.path) and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not sendable:
        raise ConfigError(
            f"--dagster-url is no address of a Dagster page: expected {DEFAULT_URL} or alike, without a user"
        )
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind, host, port, parts.path.rstrip("/")


def _not_dagster(url: str, status: int) -> ConfigError:
    return ConfigError(f"{url} answers (HTTP {status}) but is no Dagster page: name it with --dagster-url")
