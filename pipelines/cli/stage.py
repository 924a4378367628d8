"""`sls-lake stage`: the dbt staging model of a logstore, written once; from then on it is yours.

dbt/models/staging/stg_<name>.sql    a view with names that people type
dbt/models/staging/stg_<name>.yml    its source, its lineage in Dagster, its tests
"""

from pathlib import Path

import click

from pipelines.cli.logstores import logstore_option, project_root, resolve
from pipelines.cli.output import Output, verb
from pipelines.landing.logstore import Logstore
from pipelines.landing.table.contract import SYSTEM_COLUMNS, Contract
from sls_io.errors import ConfigError

FOLDER = Path("dbt") / "models" / "staging"

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
_TESTED = """      - name: {column}
        data_tests:
          - not_null:
              name: {short}_is_set
"""


@click.command("stage")
@logstore_option
@verb
def stage(output: Output, *, name: str | None) -> None:
    """Write the dbt staging model of a logstore, where there is none yet."""
    logstore = resolve(name)
    texts = {f"stg_{logstore.name}.sql": model(logstore), f"stg_{logstore.name}.yml": properties(logstore)}
    folder = project_root() / FOLDER
    there = [folder / file for file in texts if (folder / file).exists()]
    if there:
        raise ConfigError(f"{there[0]} is there already: change it by hand, or remove it and stage again")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
        output.say(f"wrote {folder / file}")
    output.say(
        "Once the table is there `sls-lake dbt build` makes the view; Dagster, when reloaded, keeps it"
    )
    output.result({"model": f"stg_{logstore.name}", "files": [str(folder / file) for file in texts]})


def model(logstore: Logstore) -> str:
    """The SQL. A declared key may hold dots or be a word of SQL, so it is quoted; a short name that one has
    already stays with it."""
    declared = [column.name for column in Contract.from_columns(logstore.columns).shown]
    taken = {name.lower() for name in declared}
    system = [_aliased(name, taken) for name in SYSTEM_COLUMNS if name in _SAID or name in _IDENTITY]
    at = next(n for n, text in enumerate(system) if text.startswith("__rest__"))
    columns = [*system[:at], *(f"`{key}`" for key in declared), *system[at:]]
    namespace = logstore.table.split(".")[0]
    return _SQL.format(name=logstore.name, namespace=namespace, columns=",\n    ".join(columns))


def properties(logstore: Logstore) -> str:
    """The YAML beside it: source, lineage, tests."""
    tested = "".join(_TESTED.format(column=name, short=name.strip("_")) for name in _IDENTITY)
    return _YML.format(name=logstore.name, namespace=logstore.table.split(".")[0], tested=tested)


def _aliased(name: str, taken: set[str]) -> str:
    short = _SAID.get(name)
    return name if short is None or short in taken else f"{name} as {short}"
