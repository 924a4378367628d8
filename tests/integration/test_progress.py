"""A verb in a terminal says what it does, on one line of stderr written anew; in a pipe now and then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli.progress import Line, Piped
from tests import needs
from tests.worlds.command_line import environment, settings
from tests.worlds.one_logstore import World

ROOT = Path(__file__).resolve().parents[2]
MAIN = [sys.executable, "-c", "from pipelines.cli.main import main; main()"]


def in_a_terminal(world: World, folder: Path, *arguments: str) -> tuple[str, str]:
    """(stdout, what a terminal at stderr got) of a verb on the world's logstore."""
    defs = folder / "defs.yaml"
    defs.write_text(settings(world))
    ours, theirs = os.openpty()
    env = {**environment(world, folder), "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*MAIN, *arguments, "--logstore", str(defs)],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65_536):
            seen += part
    except OSError:
        # Linux says EIO once the last one who had the terminal is gone.
        pass
    os.close(ours)
    said = process.communicate()[0].decode()
    assert process.returncode == 0, seen.decode()
    return said, seen.decode()


def test_a_load_counts_rows_in_a_terminal_and_never_in_a_document(world: World, tmp_path: Path) -> None:
    said, seen = in_a_terminal(world, tmp_path, "load", "--rows", "40000")
    assert "40,000 rows in 40 groups" in said
    assert "load access_logs" in seen and "40,000 rows, " in seen and "MB/s" in seen
    assert seen.count("\n") <= 2, "one line, written anew"
    said, seen = in_a_terminal(world, tmp_path, "load", "--rows", "40000", "--json")
    assert said.startswith("{") and seen == ""


def test_in_a_pipe_a_line_each_while_says_what_is_done_and_how_much_and_the_last_one_ends_it() -> None:
    read, write = os.pipe()
    with os.fdopen(read) as seen, os.fdopen(write, "w") as file:
        piped = Piped(file, every_s=0.001)
        line = Line("land access_logs", piped)
        assert not line.shown, "who writes each change himself goes on to do it"
        line.phase("write")
        with line.watching(lambda: (3, 8), "tasks", lambda: ", 12 pages, 1,000 rows, 2.1 MB"):
            while "tasks" not in (said := seen.readline()):
                assert said.startswith("sls-lake: land access_logs")
        line.end()
    wanted = "reading the shards and writing files, 3 of 8 tasks, 12 pages, 1,000 rows, 2.1 MB (0 s)\n"
    assert said == f"sls-lake: land access_logs: {wanted}"


@pytest.mark.spark
def test_a_landing_says_in_a_terminal_what_it_is_doing(world: World, tmp_path: Path) -> None:
    needs.java()
    world.put(200, pass_s=60)
    said, seen = in_a_terminal(world, tmp_path, "land")
    assert "200 rows into" in said
    assert "reading the shards and writing files" in seen and "tasks" in seen
    said, seen = in_a_terminal(world, tmp_path, "verify")
    assert "verified" in said and "counting the table" in seen
