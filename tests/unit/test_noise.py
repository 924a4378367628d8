"""What a JVM or dbt writes to the terminal by itself is in a log or nowhere, not before our own sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli.output import noise_into

TALKER = (sys.executable, "-c", "import os; os.write(1, b'WARN 1\\n'); os.write(2, b'WARN 2\\n')")


@pytest.mark.parametrize("written", [True, False], ids=["its log is written", "its log cannot be opened"])
def test_what_a_child_says_is_not_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, written: bool
) -> None:
    folder = tmp_path / "state"
    folder.mkdir() if written else folder.touch()
    log = folder / "spark.log"

    with noise_into(log) as shown:
        subprocess.run(TALKER, check=True)
        shown.write("ours\n")
    os.write(2, b"after\n")

    assert tuple(capfd.readouterr()) == ("ours\n", "after\n")
    assert not written or log.read_text() == "WARN 1\nWARN 2\n"
