"""The folders and files of small projects."""

from pathlib import Path

NOWHERE = "http://127.0.0.1:9"
"""An endpoint where nothing listens."""


def settings_of(logstore: str, *, table: str, start: str, endpoint: str = NOWHERE) -> str:
    """The least that a logstore's file says, in six lines."""
    return f"""type: pipelines.components.SlsLogstore
attributes:
  service: {{endpoint: "{endpoint}", project: demo, logstore: {logstore}}}
  group: lake
  table: {table}
  start: {start}
"""


CLICKS = settings_of(
    "clicks", table="bronze.clicks", start="2020-01-01-00:00", endpoint="{{ env.SLS_ENDPOINT }}"
)
ORDERS = (
    settings_of("orders", table="raw.orders", start="2026-11-20-00:00")
    + """  columns: {source: string, "user.name": string, card: hash, secret: drop}
"""
)
MARKER = '[tool.dg.project]\nroot_module = "pipelines"\n'
"""What makes a folder a project, of the package `pipelines`."""
LINE = '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/8"\n'


def make_project(root: Path, **defs: str) -> Path:
    """The folder of a project: a file of settings for each logstore, by the name of its folder."""
    (root / "pipelines" / "defs").mkdir(parents=True)
    (root / "pyproject.toml").write_text(MARKER)
    for name, text in defs.items():
        folder = root / "pipelines" / "defs" / name
        folder.mkdir()
        (folder / "defs.yaml").write_text(text)
    return root
