"""What dbt needs to run over the catalog that the landing uses, as environment variables.

dbt has a session of its own, in its own process, and takes its settings from `dbt/profiles.yml`
only. The profile's target `configured` reads them from here, so that no catalog is named twice.
Nothing of dbt is imported.
"""

import json
from pathlib import Path

from pipelines.landing.engine import base_conf, catalog_conf, require_jars
from pipelines.landing.table import Lake, home

PROJECT_DIR = Path(__file__).parents[2] / "dbt"
"""The dbt project: models over the landed table."""

_TARGET_VARIABLE = "SLS_DBT_TARGET"
_CONF_VARIABLE = "SLS_DBT_SPARK_CONF"
_FOLDERS = ("DBT_TARGET_PATH", "target"), ("DBT_LOG_PATH", "logs")


def dbt_environment(
    lake: Lake | None = None, *, remote: str = "", master: str = "local[2]"
) -> dict[str, str]:
    """Variables to add for `dbt build --project-dir dbt --profiles-dir dbt`.

    `remote` is the address of a Spark Connect server, "sc://HOST:PORT"; without one dbt starts a
    session on `master`. Raises ConfigError when the session's jars are not installed.
    """
    folders = {name: str(home() / "dbt" / folder) for name, folder in _FOLDERS}
    if remote:
        return {**folders, _TARGET_VARIABLE: "connect", "SPARK_REMOTE": remote}
    require_jars()
    conf = {
        **base_conf(),
        **catalog_conf(lake or Lake.default()),
        "spark.master": master,
        "spark.app.name": "sls-lake-dbt",
    }
    return {**folders, _TARGET_VARIABLE: "configured", _CONF_VARIABLE: json.dumps(conf, sort_keys=True)}
