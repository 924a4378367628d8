"""What a shell must not hand to tests, fuzz, chaos and benches: where a lake is, whose keys are used, which
service is asked.

Story: somebody works in a shell after `. var/dev/env`. A test that leaves out the state folder, the catalog
or the address of a Spark means the product's default, and would get the lake of `make dev` instead. So all
variables of these families are forgotten, also those that the product will read one day; what a test needs
of them it sets itself. Settings of the suite have other names: CONTRIBUTING.md has them.

The packages `fuzz`, `chaos` and `bench` forget where they are first imported: libraries read some of it as
soon as they are imported themselves. A child keeps what its parent has set since, so a mark says that it is
done: Dagster's runs of a chaos import its catalog, whose address is in these very variables.
"""

from collections.abc import MutableMapping

_FAMILIES = ("ALIBABA_CLOUD_", "AWS_", "DAGSTER_", "DBT_", "PYICEBERG_", "PYSPARK_", "SLS_", "SPARK_")
_PROXIES = ("http_proxy", "all_proxy")
"""In front of loopback. What is fetched from elsewhere, a jar, may need the third one, `https_proxy`."""
_DONE = "LAKE_FORGOTTEN"


def is_foreign(name: str) -> bool:
    """Whether a variable of this name belongs to somebody's lake, and not to the tests."""
    return name.startswith(_FAMILIES) or name.lower() in _PROXIES


def forget(environment: MutableMapping[str, str]) -> None:
    """Take every foreign variable out of `environment`, unless a parent of this process has done so."""
    if _DONE in environment:
        return
    for name in filter(is_foreign, list(environment)):
        del environment[name]
    environment.update({_DONE: "yes", "DAGSTER_DISABLE_TELEMETRY": "yes"})
