"""The lake side: Dagster definitions, landing, command line."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The project's folder, in which `dbt` and `var` stand beside this package; others ask here."""
