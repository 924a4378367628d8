"""Templates of a `defs.yaml` whose environment variable nobody set.

Definitions must load on a machine that only looks at them (checks, listings, documentation), so an
unset endpoint is not an error there. It is one, in a plain sentence, as soon as something runs.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sls_io.errors import ConfigError

NO_ENDPOINT = "https://endpoint-not-set.invalid"
"""Stands for an unset endpoint. The top-level domain `invalid` never resolves (RFC 2606)."""
_NO_REGION = "not-set"

_VARIABLE = re.compile(r"\{\{\s*env\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


def filled(written: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """(values, variable): `values` with a stand-in for the endpoint when its variable is unset.

    `variable` names that variable, else "". Raises ConfigError for any other unset one.
    """
    unset = dict(_unset(written, values))
    endpoint = unset.pop(("service", "endpoint"), "")
    if unset:
        names = ", ".join(sorted(set(unset.values())))
        raise ConfigError(f"defs.yaml needs environment variables that are not set: {names}")
    if not endpoint:
        return dict(values), ""
    service = values["service"]
    standing_in = {"endpoint": NO_ENDPOINT, "region": service.get("region") or _NO_REGION}
    return {**values, "service": {**service, **standing_in}}, endpoint


def _unset(written: Any, values: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """(path, variable) of every template that Dagster resolved to None."""
    if isinstance(written, dict):
        for name, part in written.items():
            yield from _unset(part, values[name], (*at, str(name)))
    elif isinstance(written, str) and values is None:
        match = _VARIABLE.search(written)
        yield at, match[1] if match else written
