"""`sls-lake dbt`: dbt over the catalog that the landing uses, with whatever arguments dbt has."""

import os
import subprocess
import sys
from pathlib import Path

import click

from pipelines.cli.output import Output, verb
from pipelines.landing.spark.dbt_environment import dbt_environment
from pipelines.landing.spark.java import require_java
from pipelines.landing.spark.remote import REMOTE_VARIABLE
from sls_io.values.errors import ConfigError


@click.command("dbt", context_settings={"allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
@verb
def dbt(output: Output, *, arguments: tuple[str, ...]) -> None:
    """Run dbt: `sls-lake dbt build` makes the views and runs their tests.

    Catalog, project and profile are in its environment. From the first word on, everything is dbt's own.
    """
    # It lies beside the Python that runs us; a virtual environment need not be on the PATH.
    program = Path(sys.executable).with_name("dbt")
    if not program.is_file():
        raise ConfigError(
            f"no dbt at {program}: install it into this environment, `pip install 'sls-lake[dbt]'`"
        )
    remote = os.environ.get(REMOTE_VARIABLE, "")
    if not remote:
        require_java()
    environment = {**os.environ, **dbt_environment(remote=remote)}
    shown = sys.stderr if output.as_json else None
    try:
        code = subprocess.run([program, *arguments], env=environment, stdout=shown, check=False).returncode
    except (ValueError, OSError) as error:
        raise ConfigError(f"dbt cannot be started with these arguments: {error}") from error
    output.result({"exit_code": code})
    if code:
        click.get_current_context().exit(code)
