"""dbt in the test's own process, so that it finds the Spark session that is there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dbt.cli.main import dbtRunner

from pipelines.landing.spark.dbt_environment import dbt_environment, dbt_folder
from pipelines.landing.table.lake import Lake
from tests import needs

PLACE = ("--project-dir", str(dbt_folder()), "--profiles-dir", str(dbt_folder()))
"""Arguments of each of its calls."""


@contextmanager
def dbt_here(
    lake: Lake, folder: Path, hears: Callable[[Any], None] = lambda event: None
) -> Iterator[dbtRunner]:
    """dbt over `lake`, what it makes in `folder`; `hears` gets all that it logs. It is parsed once."""
    needs.spark_jars()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in dbt_environment(lake).items():
            patch.setenv(name, value)
        patch.setenv("DBT_TARGET_PATH", str(folder / "target"))
        patch.setenv("DBT_LOG_PATH", str(folder / "logs"))
        patch.setenv("DBT_LOG_LEVEL_FILE", "none")
        yield dbtRunner(callbacks=[hears])
