"""What dbt needs to run over the catalog that the landing uses, as environment variables.

dbt has a session of its own, in its own process, and takes its settings from `dbt/profiles.yml`
only. The profile's target `configured` reads them from here, so that no catalog is named twice.
Nothing of dbt is imported.
"""

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from pipelines.landing.catalogs.profiles import has_views
from pipelines.landing.spark.catalog import CATALOG_SETTING, EXECUTOR, is_secret
from pipelines.landing.spark.java import OPTIONS, OPTIONS_SETTING, in_defaults
from pipelines.landing.spark.remote import without_session
from pipelines.landing.spark.session import base_conf, catalog_conf, require_jars
from pipelines.landing.table.home import home, made, own_and_checkout, set_up
from pipelines.landing.table.lake import Lake
from sls_io.values.cures import Do
from sls_io.values.errors import ConfigError

VIEW_VARIABLE = "SLS_DBT_VIEW"
NO_VIEWS = (
    "this catalog keeps no views and makes no tables of queries: models that are views are put into the "
    "queries that name them, their tests run, and the tables by minute and by day are left out"
)
_TARGET_VARIABLE = "SLS_DBT_TARGET"
_CONF_VARIABLE = "SLS_DBT_SPARK_CONF"
_ARGUMENTS_VARIABLE, _ARGUMENTS = "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
_FOLDERS = ("DBT_TARGET_PATH", "target"), ("DBT_LOG_PATH", "logs")
_JAVA_OPTIONS = " ".join([*OPTIONS, "-XX:-UsePerfData"])
"""A `dbt build` is short: near half of its CPU time went into Java's second compiler and its collector's
threads, for code that runs a few times. Without them a view and its tests over 240,000 rows take 23 s of CPU
time instead of 40. Long queries are slower: a table of that size wants a Spark Connect server."""


def dbt_environment(
    lake: Lake | None = None, *, remote: str = "", master: str = "local[2]"
) -> dict[str, str]:
    """Variables to add for `dbt build`; project and profile are among them.

    `remote` is the address of a Spark Connect server, "sc://HOST:PORT"; dbt sets what its profile says, so
    it gets a session of its own there. Without one dbt starts a session on `master`. Raises ConfigError when
    the session's jars are not installed, and when its Spark would have no catalog.

    Settings go two ways. What anybody may see is JSON in one variable, which the profile hands to Spark's
    builder, and Spark's builder to Java's command line. Secrets are in a file of the owner's alone, which
    Spark reads by `--properties-file`. Java's option variables would take them, too, and print them.
    """
    places = {name: str(home() / "dbt" / folder) for name, folder in _FOLDERS}
    folder = str(dbt_folder())
    places |= {"DBT_PROJECT_DIR": folder, "DBT_PROFILES_DIR": folder}
    lake = lake or Lake.default()
    places |= {} if has_views(lake.properties) else {VIEW_VARIABLE: "ephemeral"}
    if remote:
        return {**places, _TARGET_VARIABLE: "connect", "SPARK_REMOTE": without_session(remote)}
    require_jars(lake)
    conf = {
        **base_conf(),
        **catalog_conf(lake),
        "spark.master": master,
        "spark.app.name": "sls-lake-dbt",
        OPTIONS_SETTING: _JAVA_OPTIONS,
        # dbt asks for a session before each statement, and Spark warns each time that it has one already.
        "spark.log.level": "ERROR",
    }
    if CATALOG_SETTING not in conf:
        _require_own_catalog(lake)
    open_conf = {name: value for name, value in conf.items() if not is_secret(name)}
    return {
        **places,
        _TARGET_VARIABLE: "configured",
        _CONF_VARIABLE: json.dumps(open_conf, sort_keys=True),
        # Its driver runs the tasks, and is to have what executors of a cluster get.
        **{n.removeprefix(EXECUTOR): value for n, value in conf.items() if n.startswith(EXECUTOR)},
        **_kept_from_view({name: value for name, value in conf.items() if is_secret(name)}),
    }


def _require_own_catalog(lake: Lake) -> None:
    """Raises ConfigError where nobody has told Spark of the catalog by hand, either: dbt would say only that
    there is no such table."""
    if CATALOG_SETTING in os.environ.get(_ARGUMENTS_VARIABLE, "") or in_defaults(CATALOG_SETTING):
        return
    raise ConfigError(
        f"Spark cannot use the Iceberg catalog ({lake.place}), so dbt would find no table in it: it knows "
        "catalogs on SQLite, on PostgreSQL and of REST. Landings need no Spark catalog",
        cures=(
            Do("name a Spark Connect server that has this catalog, SLS_SPARK_REMOTE=sc://HOST:PORT"),
            Do(f"give Spark the catalog and its jars in its spark-defaults.conf, {CATALOG_SETTING} ..."),
        ),
    )


def dbt_folder() -> Path:
    """The dbt project: models over the landed tables. Raises ConfigError where there is none."""
    found = [one.dbt for one in own_and_checkout()]
    if there := [folder for folder in found if (folder / "dbt_project.yml").is_file()]:
        return there[0]
    raise ConfigError(
        f"there is no dbt project in {found[0] if found else Path.cwd()}: go to the project's folder",
        cures=(set_up(),),
    )


def _kept_from_view(secrets: Mapping[str, str]) -> dict[str, str]:
    """Secrets in a file that its owner alone can read: what dbt says to Spark stands on a command line."""
    if not secrets:
        return {}
    path = made(home() / "dbt") / "secrets.properties"
    write_properties(path, secrets)
    before = os.environ.get(_ARGUMENTS_VARIABLE, _ARGUMENTS)
    ours = f"--properties-file {shlex.quote(str(path))} "
    return {_ARGUMENTS_VARIABLE: ours + before.removeprefix(ours)}


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Spark's settings as a file for `--properties-file` that its owner alone can read."""
    path.unlink(missing_ok=True)
    lines = [f"{name}={_escaped(value)}\n" for name, value in sorted(settings.items())]
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.writelines(lines)


def _escaped(value: str) -> str:
    """As a Java properties file wants it, in Java's 16-bit characters: every one of them by its number, since
    blanks, `=`, `:`, `#` and backslashes mean something there, and a secret may hold any of them.

    Worked example: ä is \\u00e4, € is \\u20ac, an emoji (U+1F600) is the pair \\ud83d\\ude00.
    """
    units = value.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
