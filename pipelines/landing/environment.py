"""Templates of a `defs.yaml` whose environment variable nobody set.

Definitions must load on a machine that only looks at them (checks, listings, documentation), so an
unset endpoint is not an error there. It is one, in a plain sentence, as soon as something runs.
"""

from collections.abc import Mapping
from typing import Any

from pipelines.landing import defs_file
from sls_io.values.errors import ConfigError

NO_ENDPOINT = "https://endpoint-not-set.invalid"
"""Stands for an unset endpoint. The top-level domain `invalid` never resolves (RFC 2606)."""
_NO_REGION = "not-set"


def filled(written: Mapping[str, Any], place: object) -> tuple[dict[str, Any], str]:
    """(values, variable): the attributes, with a stand-in for the endpoint when its variable is unset.

    `variable` names that variable, else "". Raises ConfigError for any other unset one, as
    `defs_file.filled`; `place` names the file.
    """
    values, unset = defs_file.filled(written, place)
    endpoint = unset.pop("service.endpoint", "")
    if unset:
        names = ", ".join(sorted(set(unset.values())))
        raise ConfigError(f"{place} needs environment variables that are not set: {names}")
    if not endpoint:
        return values, ""
    service = values["service"]
    standing_in = {"endpoint": NO_ENDPOINT, "region": service.get("region") or _NO_REGION}
    return {**values, "service": {**service, **standing_in}}, endpoint
