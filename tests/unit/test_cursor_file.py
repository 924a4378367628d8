"""A CSV file of positions is whole, or not there."""

import subprocess
import sys
from pathlib import Path

from pipelines.cli.cursor_file import CursorFile
from sls_io.values.window import Cursor

ROOT = Path(__file__).parents[2]
FULL = """
import resource, sys
from pathlib import Path
from pipelines.cli.cursor_file import CursorFile
from sls_io.values.errors import ConfigError
from sls_io.values.window import Cursor
resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
try:
    CursorFile(Path(sys.argv[1]), new=True).write({0: Cursor(5), 1: Cursor(6)})
except ConfigError as error:
    print(error)
"""


def test_a_full_disk_leaves_no_file_that_would_keep_the_next_one_away(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"

    said = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert said.startswith(f"{path} cannot be written: ") and "Nothing was written" in said
    assert not path.exists()
    CursorFile(path, new=True).write({0: Cursor(5)})
    assert path.read_text() == "shard,cursor\n0,5\n"
