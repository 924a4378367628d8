"""`sls-lake stage`: the dbt models of a logstore, written once; from then on they are yours.

dbt/models/staging/stg_<name>.sql         a view with names that people type
dbt/models/staging/stg_<name>.yml         its source, its lineage in Dagster, its tests
dbt/models/silver/<name>_by_minute.sql    with --by-minute: a table by minute, and the same beside it
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from pipelines.cli.deciding import decide, dry_run_option
from pipelines.cli.logstores import logstore_option, project_root, resolve
from pipelines.cli.output import Output, verb
from pipelines.landing.catalogs.profiles import has_views
from pipelines.landing.commit.decision import Decision, Finished
from pipelines.landing.commit.effect import Effect, Note
from pipelines.landing.logstore import Logstore
from pipelines.landing.spark.dbt_environment import NO_VIEWS
from pipelines.landing.table.contract import SYSTEM_COLUMNS, Contract
from pipelines.landing.table.lake import configured
from sls_io.values.cures import Call
from sls_io.values.errors import ConfigError

MODELS = Path("dbt") / "models"

_IDENTITY = ("__origin__", "__shard__", "__cursor__", "__index__")
_SAID = {
    "__receive_hour__": "receive_hour",
    "__time__": "logged_at",
    "__topic__": "topic",
    "__source__": "source",
    "__tags__": "tags",
    "__rest__": "rest",
    "__error__": "error",
}
_SQL = """-- Landed {name} under names that people type. A view: it is as fresh as the table, and the
-- identity of a row goes through unchanged.
select
    {columns}
from {{{{ source('{namespace}', '{name}') }}}}
"""
_YML = """version: 2

sources:
  - name: {namespace}
    schema: {namespace}
    tables:
      - name: {name}
        meta:
          dagster:
            asset_key: [bronze, {name}]

models:
  - name: stg_{name}
    description: Landed {name} under names that people type.
    meta:
      dagster:
        asset_key: [silver, stg_{name}]
        group: {name}
        columns_of: [bronze, {name}]
    data_tests:
      - unique_together:
          name: identity_is_unique
          arguments:
            columns: [__origin__, __shard__, __cursor__, __index__]
      - as_the_ledger_says:
          name: rows_are_as_the_ledger_says
          arguments:
            table: source('{namespace}', '{name}')
    columns:
{tested}"""
_COLUMN = """      - name: {column}
        meta: {{from: [{origin}]}}
"""
_TESTED = """        data_tests:
          - not_null:
              name: {short}_is_set
"""
_MINUTES_SQL = """\
-- Landed {name} by minute of the logs' own time; `macros/by_minute.sql` says how late rows find theirs.
-- Figures of your own: a second argument, such as {{'slowest_ms': 'max(latency_ms)'}}, then once
-- `sls-lake dbt build --full-refresh --select {name}_by_minute`. It waits for {{{{ ref('stg_{name}') }}}}
{{{{ by_minute(source('{namespace}', '{name}')) }}}}
"""
_MINUTES_YML = """version: 2

models:
  - name: {name}_by_minute
    description: Landed {name} by minute of the logs' own time; late rows change their minute.
    meta:
      dagster:
        asset_key: [silver, {name}_by_minute]
        group: {name}
        columns_of: [bronze, {name}]
    data_tests:
      - counts_every_row:
          name: every_row_is_in_a_minute
          arguments:
            table: source('{namespace}', '{name}')
    columns:
      - name: minute
        meta: {{from: [__time__, __receive_hour__]}}
        data_tests:
          - not_null:
              name: minute_is_set
          - unique:
              name: minute_is_there_once
"""


@click.command("stage")
@logstore_option
@click.option("--by-minute", is_flag=True, help="A table by minute, too.")
@dry_run_option
@verb
def stage(output: Output, *, name: str | None, by_minute: bool, dry_run: bool) -> None:
    """Write the dbt staging model of a logstore, where there is none yet."""
    logstore = resolve(name)
    texts = models(logstore, by_minute=by_minute)
    view = Staging(f"stg_{logstore.name}", tuple(map(str, texts)))

    def carry_out() -> Finished:
        write_models(texts)
        return Finished(None, view)

    decide(output, Decision(view=view), carry_out, now=not dry_run, by="")


@dataclass(frozen=True)
class Staging(Effect):
    """The models of a logstore: its view, and the files that are written."""

    WHAT = "{model}: these files are written, and are yours from then on"
    QUIET = frozenset({"files"})
    THEN = (Call(("dbt", "build"), does="makes it, once the table is there"),)

    model: str
    files: tuple[str, ...]

    def said(self) -> Iterable[Note]:
        yield from map(Note, self.files)
        yield Note("Dagster, when reloaded, keeps what is new" if has_views(configured()) else NO_VIEWS)


def write_models(texts: Mapping[Path, str]) -> None:
    """Write these files."""
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def models(logstore: Logstore, *, by_minute: bool = False) -> dict[Path, str]:
    """The models of a logstore that are not there yet. Raises ConfigError where one of them is."""
    staging, minutes = f"staging/stg_{logstore.name}", f"silver/{logstore.name}_by_minute"
    texts = {f"{staging}.sql": model(logstore), f"{staging}.yml": properties(logstore)}
    folder = project_root() / MODELS
    if by_minute:
        if all((folder / file).exists() for file in texts):
            texts = {}
        names = {"name": logstore.name, "namespace": _namespace(logstore)}
        texts |= {f"{minutes}.sql": _MINUTES_SQL.format(**names)}
        texts |= {f"{minutes}.yml": _MINUTES_YML.format(**names)}
    there = [folder / file for file in texts if (folder / file).exists()]
    if there:
        raise ConfigError(f"{there[0]} is there already: change it by hand, or remove it and stage again")
    return {folder / file: text for file, text in texts.items()}


def model(logstore: Logstore) -> str:
    """The SQL of the view. A declared key may hold dots or be a word of SQL, so it is quoted."""
    columns = [
        f"`{name}`" if name not in SYSTEM_COLUMNS else name if name == shown else f"{name} as {shown}"
        for name, shown in _columns(logstore).items()
    ]
    return _SQL.format(name=logstore.name, namespace=_namespace(logstore), columns=",\n    ".join(columns))


def properties(logstore: Logstore) -> str:
    """The YAML beside it: source, lineage, tests."""
    tested = "".join(
        _COLUMN.format(column=_quoted(shown), origin=_quoted(name))
        + (_TESTED.format(short=name.strip("_")) if name in _IDENTITY else "")
        for name, shown in _columns(logstore).items()
    )
    return _YML.format(name=logstore.name, namespace=_namespace(logstore), tested=tested)


def _namespace(logstore: Logstore) -> str:
    return logstore.table.split(".")[0]


def _columns(logstore: Logstore) -> dict[str, str]:
    """Column of the table -> its name in the view, in their order. A short name that a declared key has
    already stays with it."""
    declared = [column.name for column in Contract.from_columns(logstore.columns).shown]
    taken = {name.lower() for name in declared}
    system = [name for name in SYSTEM_COLUMNS if name in _SAID or name in _IDENTITY]
    at = system.index("__rest__")
    names = [*system[:at], *declared, *system[at:]]
    return {name: _alias(name, taken) if name in SYSTEM_COLUMNS else name for name in names}


def _alias(name: str, taken: set[str]) -> str:
    short = _SAID.get(name)
    return name if short is None or short in taken else short


def _quoted(name: str) -> str:
    """As YAML wants it: a declared key may be `on` or `null`."""
    return name if name in SYSTEM_COLUMNS or name in _SAID.values() else json.dumps(name)
