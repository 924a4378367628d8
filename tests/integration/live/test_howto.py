"""The pages of `docs/howto` and the one on upgrading, word by word: their commands run one page after
another, beside an emulator."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from pipelines.cli.demo.sandbox import Sandbox
from pipelines.cli.demo.spark_server import free_address
from pipelines.landing.spark.remote import place_of
from pipelines.landing.spark.session import JARS_VARIABLE, installed_jars
from sls_io.emulator import start
from tests import needs
from tests.integration.spark_server import deployed
from tests.snippets import ROOT
from tests.worlds.project_copy import project

FOLDER = ROOT / "docs" / "howto"
SAYS: dict[str, list[tuple[str, ...]]] = {
    "README": [("3 rows into bronze.shop", "1 row could not be typed exactly")],
    "read-the-table": [
        ("1 12.00", "2 7.00"),
        ("│ tea │ 12.00 │",),
        ("|3 |NULL |amount is not decimal(9,2)|",),
    ],
    "change-columns": [
        ("who string 3", "nothing was written"),
        ("dry run", "with an error: 1", "rows 1, changed 1, files 1 still"),
        ("order_id int long becomes long", "order_id becomes long, with all its values"),
        ("who becomes customer, with all its values",),
    ],
    "read-again": [
        ("amount becomes amount_decimal_9__2", "dry run", "mended 1, changed 1, files 1 done: snapshot"),
        ("dry run", "3 rows into bronze.shop"),
        ("1 withdrawn intervals verified: 0 rows", "3 rows into bronze.shop", "verified: 3 rows"),
        ("3 rows in 1 files leave, and 1 windows are pulled", "dry run"),
    ],
    "delete-for-good": [
        ("dry run", "forget --where on order_id: request 4711", "verified: 2 rows"),
        ("snapshots kept 2",),
        ("0 rows in 2 snapshots",),
    ],
    "several-deployments": [("open blue",), ("checkpoints: 4 of 4 published", "open blue")],
    "spark-cluster": [(), ("3 rows into bronze.shop",)],
    "back-up": [(), ("3 rows into bronze.shop",), ("verified: 5 rows", "3 rows into", "verified: 8 rows")],
    "../upgrade": [("version 0.1.0", "verified: 8 rows"), ("0 wrong", "nothing new", "verified: 8 rows")],
    "move-a-table": [
        (),
        ("with 8 rows in all", "verified: 8 rows", "bronze.shop: nothing new"),
        ("the catalog names nothing now", "dry run", "verified: 8 rows"),
        (),
        ("verified: 8 rows in bronze.orders",),
    ],
}
"""What stands in the output of each block, in this order; pages in the order of the first one's table."""
_MARK, _PAGE = "next block", "next page"


def script(page: str) -> str:
    """The commands of a page, each block after a mark. What the first one sets stays; each other one has a
    shell of its own."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    begin, end = ("", "") if page == "README" else ("(", ")")
    lines = [f"echo '{_PAGE}'", begin]
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        lines += [f"echo '{_MARK}'", block if language == "sh" else f"python - <<'PROGRAM'\n{block}PROGRAM"]
    return "\n".join([*lines, end])


def test_the_table_of_the_pages_names_each_of_them() -> None:
    named = re.findall(r"\(([\w-]+|\.\./upgrade)\.md\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert ["README", *named] == list(SAYS)
    assert {*SAYS} - {"../upgrade"} == {path.stem for path in FOLDER.glob("*.md")}


@pytest.mark.spark
@pytest.mark.slow
def test_the_commands_of_the_pages_do_what_they_say(tmp_path: Path) -> None:
    needs.spark_jars()
    root = project(tmp_path)
    (root / "pipelines" / "defs" / "clicks" / "defs.yaml").unlink()
    home = root / "var" / "dev"
    (home / "lake").mkdir(parents=True)
    port = str(place_of(free_address())[1])
    # What `make dev` has made by then.
    with (
        start(home / "emulator") as emulator,
        deployed(home, Sandbox(home, emulator.port).variables()) as spark,
    ):
        (home / "env").write_text(Sandbox(home, emulator.port, spark).exports())
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(map(script, SAYS)).replace("7077", port)],
            cwd=root,
            env={
                **{name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ},
                "HOME": str(tmp_path),
                "PYTHONPATH": str(root),
                JARS_VARIABLE: str(installed_jars()[0].parent),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-6000:]
    for page, text in zip(SAYS, done.stdout.split(f"{_PAGE}\n")[1:], strict=True):
        for said, wanted in zip(text.split(f"{_MARK}\n")[1:], SAYS[page], strict=True):
            flat = " ".join(said.split())
            for words in wanted:
                assert words in flat, f"{page} does not say {words!r}: {said}"
