"""A copy of the project with a second logstore and no state."""

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFS = """type: pipelines.components.SlsLogstore
requirements:
  env:
    - SLS_ENDPOINT
attributes:
  service: {endpoint: "{{ env.SLS_ENDPOINT }}", project: demo, logstore: clicks}
  group: lake
  table: bronze.clicks
  start: 2026-01-01-00:00
  schedule: "0 0 1 1 *"
"""


def project(root: Path) -> Path:
    """A copy of the project with a second logstore, `clicks`, and no state."""
    for name in ("pipelines", "sls_io", "dbt"):
        shutil.copytree(
            ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "target", "logs")
        )
    for name in ("pyproject.toml", "workspace.yaml"):
        shutil.copyfile(ROOT / name, root / name)
    (root / "docs" / "deploy").mkdir(parents=True)
    shutil.copyfile(ROOT / "docs" / "deploy" / "dagster.yaml", root / "docs" / "deploy" / "dagster.yaml")
    (root / "pipelines" / "defs" / "clicks").mkdir()
    (root / "pipelines" / "defs" / "clicks" / "defs.yaml").write_text(DEFS)
    return root
