"""The folders and files of small projects."""

from pathlib import Path

CLICKS = """type: pipelines.components.SlsLogstore
attributes:
  service: {endpoint: "{{ env.SLS_ENDPOINT }}", project: demo, logstore: clicks}
  group: lake
  table: bronze.clicks
  start: 2020-01-01-00:00
"""


LINE = '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/8"\n'


ORDERS = """type: pipelines.components.SlsLogstore
attributes:
  service: {endpoint: "http://127.0.0.1:9", project: demo, logstore: orders}
  group: lake
  table: raw.orders
  start: 2026-11-20-00:00
  columns: {source: string, "user.name": string, card: hash, secret: drop}
"""


def make_project(root: Path, **defs: str) -> Path:
    """The folder of a project: a file of settings for each logstore, by the name of its folder."""
    (root / "pipelines" / "defs").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    for name, text in defs.items():
        folder = root / "pipelines" / "defs" / name
        folder.mkdir()
        (folder / "defs.yaml").write_text(text)
    return root
